"""Writes scops in the OpenScop format, which Clan, Candl, Pluto and CLooG read.

Format: C. Bastoul, "OpenScop: A Specification and a Library for Data Exchange in Polyhedral Compilation Tools", 2011.
Rows of a relation: 0 for an equality and 1 for an inequality >= 0; coefficients of output, input and local dimensions,
then of parameters; a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polydl.model import isl
from polydl.model.scop import BlackBox, Scop, Statement
from polydl.model.time import map_from_affs, original_affs
from polydl.rewrite.canonical import canonical


def openscop(scops: Sequence[Scop], *, reassociate: bool = True) -> str:
    """The text of scops as they are searched, one after the other. Raises QuotaExceeded."""
    return "\n".join("\n".join(_lines(canonical(scop, reassociate=reassociate).scop)) + "\n" for scop in scops)


def _lines(scop: Scop) -> Iterator[str]:
    arrays = {name: number for number, name in enumerate(scop.arrays, 1)}
    yield "<OpenScop>"
    yield from ("", "# Language", "C", "", "# Context")
    yield from _relation("CONTEXT", isl.Map.from_range(scop.context), scop)
    yield from _strings("parameters", scop.parameters)
    yield from ("", "# Number of statements", str(len(scop.statements)))
    for statement in scop.statements:
        yield from _statement(scop, statement, arrays)
    yield from ("", "<arrays>", "# Number of arrays", str(len(arrays)), "# Identifiers and names")
    yield from (f"{number} {name}" for name, number in arrays.items())
    yield from ("</arrays>", "", "</OpenScop>")


def _statement(scop: Scop, statement: Statement, arrays: dict[str, int]) -> Iterator[str]:
    yield from ("", f"# ---- {statement.name} ----")
    yield from ("# Number of relations", str(2 + len(statement.accesses)), "", "# Domain")
    yield from _relation("DOMAIN", isl.Map.from_range(statement.domain), scop)
    universe = isl.Set.universe(statement.domain.get_space())
    depth = max(s.depth for s in scop.statements)
    scattering = map_from_affs(universe, original_affs(statement, depth))
    yield from ("", "# Order as written")
    yield from _relation("SCATTERING", scattering, scop)
    write = "MAY_WRITE" if isinstance(statement.body, BlackBox) else "WRITE"
    for access in statement.accesses:
        yield from ("", f"# {access.array}")
        number = isl.PwAff.from_aff(isl.constant(statement.domain, arrays[access.array]))
        elements = isl.Map.from_pw_aff(number).flat_range_product(access.relation)
        # Constraints of the domain are left out of the access relations.
        yield from _relation(write if access.write else "READ", elements.gist_domain(statement.domain), scop)
    yield from ("", "# Statement body is provided", "1", "<body>", "# Number of original iterators")
    yield from (str(statement.depth), "# List of original iterators", " ".join(statement.iterators))
    text = statement.span.text.strip() if statement.span.text else f"{statement.name};"
    yield from ("# Statement body expression", text, "</body>")


def _strings(what: str, names: Sequence[str]) -> Iterator[str]:
    if not names:
        yield from ("", f"# The {what} have no names", "0")
        return
    yield from ("", f"# Names of {what}", "1", "<strings>", " ".join(names), "</strings>")


def _relation(kind: str, relation: isl.Map, scop: Scop) -> Iterator[str]:
    """A relation as a union of basic ones; an empty relation becomes one empty basic relation. Sets have no input."""
    relation = relation.align_params(scop.context.get_space())
    basic = list(relation.get_basic_maps()) or [isl.BasicMap.empty(relation.get_space())]
    yield kind
    if len(basic) > 1:
        yield str(len(basic))
    for part in basic:
        dimensions, rows = isl.openscop_rows(part)
        sizes = (*dimensions, len(scop.parameters))
        yield " ".join(map(str, (len(rows), 2 + sum(sizes), *sizes)))
        yield from (" ".join(map(str, row)) for row in rows)
