"""Writes a scop as a document in isl's notation: domain, accesses, dependences and the schedule tree of its C text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from polydl.base.version import __version__
from polydl.dependences.analysis import Dependence, Kind
from polydl.exchange.names import map_in_public, public_names
from polydl.model import isl
from polydl.model.isl.trees import partial_schedule, union_map, union_set
from polydl.model.scop import Scop
from polydl.rewrite.canonical import Canonical, canonical
from polydl.schedule.as_tree import written
from polydl.schedule.relations import by_name
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Member, Node, statements


def documents(scops: Iterable[Scop], *, reassociate: bool = True) -> list[dict[str, Any]]:
    """A document for each scop, about the program as it is searched. Raises QuotaExceeded."""
    return [_document(canonical(scop, reassociate=reassociate)) for scop in scops]


def _document(program: Canonical) -> dict[str, Any]:
    scop, found = program.scop, program.dependences
    names = public_names(scop)
    accesses = [a for s in scop.statements for a in s.accesses]
    return {
        "polydl": __version__,
        "function": scop.function,
        "file": str(scop.source.path),
        "line": scop.span.line,
        "renamed": {name: public for name, public in names.items() if name != public},
        "rewrites": [str(step) for step in program.steps],
        "statements": {s.name: s.span.text.strip() if s.span.text else "" for s in scop.statements},
        "context": str(isl.renamed(scop.context, names)),
        "domain": _sets((s.domain for s in scop.statements), names),
        "reads": _maps((a.relation for a in accesses if not a.write), names),
        "writes": _maps((a.relation for a in accesses if a.write), names),
        "dependences": {kind.value: _relation(found, kind, names, sums=False) for kind in _ORDERING},
        "sums": {kind.value: _relation(found, kind, names, sums=True) for kind in _ORDERING},
        "schedule": tree(scop, names),
    }


_ORDERING = (Kind.RAW, Kind.WAR, Kind.WAW)


def _relation(found: Sequence[Dependence], kind: Kind, names: Mapping[str, str], *, sums: bool) -> str:
    """The union of the dependences of one kind: those between additions into one element (`sums`), or the others."""
    return _maps((d.relation for d in found if d.kind is kind and d.reduction is sums), names)


def _sets(found: Iterable[isl.Set], names: Mapping[str, str]) -> str:
    return str(union_set(isl.renamed(one, names) for one in found))


def _maps(found: Iterable[isl.Map], names: Mapping[str, str]) -> str:
    return str(union_map(map_in_public(one, names) for one in found).coalesce())


def tree(scop: Scop, names: Mapping[str, str]) -> dict[str, Any]:
    """The schedule tree of the order in the C text, as a mapping to be written in YAML."""
    domain = _sets((s.domain for s in scop.statements), names)
    below = _node(written(scop.statements), scop, names)
    return {"domain": domain} | ({"child": below} if below else {})


def _node(node: Node, scop: Scop, names: Mapping[str, str]) -> dict[str, Any]:
    """The mapping for a subtree; empty for a leaf."""
    of = by_name(scop.statements)
    match node:
        case Leaf():
            return {}
        case Band(members, child):
            below = _node(child, scop, names)
            return {"schedule": _partial(members, scop, names)} | ({"child": below} if below else {})
        case Kernel() | Copy():
            raise AssertionError("the order as it is written has no microkernels")
    sequence = []
    for child in node.children:
        inside = [isl.Set.universe(of[name].domain.get_space()) for name in statements(child)]
        below = _node(child, scop, names)
        sequence.append({"filter": _sets(inside, names)} | ({"child": below} if below else {}))
    return {"sequence": sequence}


def _partial(members: Sequence[Member], scop: Scop, names: Mapping[str, str]) -> str:
    """The loops of a band in isl's notation: for each loop a function of the statement instances."""
    columns = [[isl.PwAff.from_aff(isl.renamed(aff, names)) for aff in member.affs.values()] for member in members]
    return str(partial_schedule(columns, isl.renamed(scop.context, names).get_space()))
