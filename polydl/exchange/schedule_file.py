"""Reads a schedule that another tool made from YAML, checks it against all dependences, and marks parallel loops.

The format is that of isl's schedule trees (Verdoolaege et al., "Schedule trees", IMPACT 2014; isl manual, "Schedule
Trees"), as isl, ppcg and pet write them. isl's own reader is not used, since some faulty files make it end the process.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polydl.base.errors import IllegalVariant
from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.nests import nests
from polydl.exchange.names import public_names
from polydl.exchange.yaml import Document, Place, read
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.isl.trees import loops_of, sets_of
from polydl.model.scop import Scop, Statement
from polydl.model.time import time_affs
from polydl.options import Options
from polydl.rank.whole import program_estimate
from polydl.results import Ranking
from polydl.rewrite.canonical import canonical
from polydl.schedule.goal import has_loops
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.relations import Link, Links, among, by_name, coincident, left
from polydl.schedule.transforms import Schedule
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Member, Node, Run, on_subtrees, sequence, statements, times
from polydl.schedule.tree import Sequence as InOrder
from polydl.schedule.tree_check import broken
from polydl.search.candidates import fingerprint
from polydl.search.variant import Origin, Variant
from polydl.target import Machine

_ANNOTATIONS = ("permutable", "coincident", "options", "anchored")
"""Keys of a band that do not affect the order."""
_SKIPPED = ("mark", "context", "guard")
"""Nodes that do not affect the order."""
_UNSUPPORTED = ("extension", "contraction", "expansion")


def ranking_from_file(source: Scop, path: Path, machine: Machine, threads: int, o: Options) -> Ranking:
    """The one variant that a file describes. Raises InputError, IllegalVariant."""
    start = time.perf_counter()
    program = canonical(source, reassociate=o.reassociate, names=statements_of(source, path))
    scop, found = program.scop, program.dependences
    made = schedule_from_file(scop, path, found, reassociate=o.reassociate, parallel=threads > 1)
    estimate = program_estimate(scop, program_tree((made,)), machine, threads)
    variant = Variant.of(Origin(scop, found, o.reassociate, o.scratch), (made,), estimate)
    seconds = time.perf_counter() - start
    return Ranking(program, nests(scop, found), (variant,), 1, {}, machine, o.ranker, threads, seconds)


def statements_of(scop: Scop, path: Path) -> frozenset[str]:
    """Names of the statements that a file schedules for a scop: they tell which form of it (polydl.rewrite.canonical)
    the file is about. Raises InputError with the place in the file."""
    document = read(path, scop.function, scop.span.line)
    domain = document.tree.mapping().get("domain")
    return frozenset() if domain is None else frozenset(_Reader(scop, document).union(domain))


def schedule_from_file(
    scop: Scop,
    path: Path,
    found: Sequence[Dependence],
    *,
    reassociate: bool,
    parallel: bool = True,
) -> Ordered:
    """Read the schedule of a scop, in the form that the file is about, and check that it is legal.

    `found` are all dependences. The file determines the order only: of the loops whose iterations are independent, the
    outermost run in parallel (`parallel`) and the innermost in vectors, whatever the file says. Raises InputError with
    the place in the file, IllegalVariant for a schedule that breaks a dependence, QuotaExceeded.
    """
    document = read(path, scop.function, scop.span.line)
    try:
        with quota(f"reading the schedule of {scop.function}"):
            base = _Reader(scop, document).tree()
    except RecursionError as error:
        raise document.tree.error("the schedule is nested too deeply, or in itself") from error
    of = by_name(scop.statements)
    with quota(f"completing the schedule of {scop.function}"):
        base = _complete(base, of)
    wrong = broken(scop, scop.statements, base, found, reassociate=reassociate)
    if wrong is not None:
        raise IllegalVariant(wrong, document.tree.span, "dependences and their names: polydl export", "schedule-files")
    with quota(f"the parallel loops of {scop.function}"):
        links = tuple(Link(d.source, d.target, d.relation) for d in found if d.kind is not Kind.RAR)
        tree = _concurrent(base, links, done=not parallel)
        if broken(scop, scop.statements, tree, found, reassociate=reassociate) is not None:
            tree = base  # in this order a private scalar is needed beyond its iteration
    digest = hashlib.sha256(fingerprint(tree).encode()).hexdigest()[:10]
    return Ordered.scheduled(scop.statements, Schedule(f"file-{digest}"), tree)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes a `Node` of the schedule tree of one document."""

    scop: Scop
    document: Document

    def tree(self) -> Node:
        root = self.document.tree
        fields = root.mapping()
        if "domain" not in fields:
            raise root.error("a schedule tree begins with its domain", "write domain: and child:")
        self._same_domain(fields["domain"])
        unknown = [key for key in fields if key not in ("domain", "child")]
        if unknown:
            raise fields[unknown[0]].error(f"unknown key '{unknown[0]}' beside the domain")
        return self._node(fields.get("child"), [s.name for s in self.scop.statements])

    def _same_domain(self, place: Place) -> None:
        known = self.union(place)
        for statement in self.scop.statements:
            own = statement.domain.intersect_params(self.scop.context)
            mine = known.pop(statement.name, None)
            if mine is None:
                raise place.error(f"the domain leaves out {statement.name}", "names and domains: polydl export")
            if isl.arity(mine) != statement.depth:
                raise place.error(f"{statement.name} has {statement.depth} iterators")
            mine = mine.intersect_params(self.scop.context)
            for one, other, what in ((own, mine, "leaves out"), (mine, own, "has")):
                extra = one.subtract(other)
                if not extra.is_empty():
                    text = str(extra.sample_point())
                    raise place.error(f"the domain {what} an instance that the program has{_not(what)}: {text}")
        for name in known:
            raise place.error(f"the program has no statement {name}", "names and domains: polydl export")

    def union(self, place: Place) -> dict[str, isl.Set]:
        """The sets of a union, by the name of their statement, over the parameters of the scop."""
        try:
            union = isl.UnionSet(place.text())
        except isl.Error as error:
            raise place.error("not a set in isl's notation", "as in [n] -> { S0[i] : 0 <= i < n }") from error
        return {
            str(one.get_tuple_name()): self._aligned(one, place)
            for one in sets_of(union)
            if one.get_tuple_name() is not None
        }

    def _aligned(self, one: isl.Set, place: Place) -> isl.Set:
        """A set over the parameters of the scop, in the order and with the names of the scop."""
        own = {name: self._parameter(name, place) for name in isl.parameters(one)}
        return isl.renamed(one, own).align_params(self.scop.context.get_space())

    def _parameter(self, public: str | None, place: Place) -> str:
        """The C name of a parameter."""
        own = {known: name for name, known in public_names(self.scop).items()}
        name = own.get(str(public), "")
        if name not in self.scop.parameters:
            raise place.error(f"the program has no parameter {public}", "sizes given with -D and --size are numbers")
        return name

    def _node(self, place: Place | None, names: Sequence[str]) -> Node:
        if place is None:
            leaves = tuple(Leaf(name) for name in names)
            return sequence(leaves)
        fields = place.mapping()
        for key in fields:
            if key in _UNSUPPORTED:
                raise fields[key].error(f"nodes of the kind '{key}' are not supported", topic="schedule-files")
            if key not in ("schedule", "sequence", "set", "child", *_ANNOTATIONS, *_SKIPPED):
                raise fields[key].error(f"unknown key '{key}' in a schedule tree")
        if "schedule" in fields:
            return Band(self._members(fields["schedule"], names), self._node(fields.get("child"), names))
        for key in ("sequence", "set"):
            if key in fields:
                return self._sequence(fields[key], names)
        return self._node(fields.get("child"), names)

    def _sequence(self, place: Place, names: Sequence[str]) -> Node:
        left_over = dict.fromkeys(names)
        children: list[Node] = []
        for part in place.sequence():
            fields = part.mapping()
            if "filter" not in fields:
                raise part.error("a part of a sequence has no filter")
            taken = []
            for name, filtered in self.union(fields["filter"]).items():
                if name not in names:
                    continue  # an outer filter has removed this statement
                domain = self.scop.statement(name).domain.intersect_params(self.scop.context)
                if domain.is_disjoint(filtered):
                    continue
                if not domain.is_subset(filtered):
                    raise fields["filter"].error(
                        f"this filter takes some instances of {name}, not all", "index sets are not split",
                        "schedule-files",
                    )  # fmt: skip
                if name not in left_over:
                    raise fields["filter"].error(f"{name} is in two parts of a sequence")
                del left_over[name]
                taken.append(name)
            ordered = [name for name in names if name in taken]
            if ordered:
                children.append(self._node(fields.get("child"), ordered))
        if left_over:
            raise place.error(f"no part of this sequence has {next(iter(left_over))}")
        return sequence(children)

    def _members(self, place: Place, names: Sequence[str]) -> tuple[Member, ...]:
        try:
            partial = isl.MultiUnionPwAff(place.text())
        except isl.Error as error:
            raise place.error("not a schedule in isl's notation", "as in [n] -> [{ S0[i, j] -> [(i)] }]") from error
        return tuple(
            Member({name: self._aff(functions, self.scop.statement(name), place) for name in names})
            for functions in loops_of(partial)
        )

    def _aff(self, functions: Mapping[str, isl.PwAff], statement: Statement, place: Place) -> isl.Aff:
        one = functions.get(statement.name)
        if one is None:
            raise place.error(f"this band leaves out {statement.name}")
        if isl.domain_arity(one) != statement.depth:
            raise place.error(f"{statement.name} has {statement.depth} iterators")
        own = {name: self._parameter(name, place) for name in isl.parameters(one)}
        one = isl.renamed(one, own).align_params(self.scop.context.get_space())
        domain = statement.domain.intersect_params(self.scop.context)
        one = one.intersect_domain(domain).gist(domain).coalesce()
        affine = isl.pieces(one)
        if len(affine) != 1:
            raise place.error(
                f"the schedule of {statement.name} is not one affine expression", "take it apart by filters"
            )
        aff = affine[0][1]
        if not domain.is_subset(isl.Map.from_aff(aff).domain()) or not domain.is_subset(one.domain()):
            raise place.error(f"the schedule of {statement.name} is not an integer everywhere", "use floor(…)")
        return self._in_domain(isl.domain_renamed(aff, statement.iterators), statement, place)

    @staticmethod
    def _in_domain(aff: isl.Aff, statement: Statement, place: Place) -> isl.Aff:
        """The function over the parameters of the statement's domain only: isl's bands accept no others."""
        own = isl.parameters(statement.domain)
        for name in isl.involved_parameters(aff):
            if name not in own:
                raise place.error(f"the schedule of {statement.name} has the parameter {name}, its domain has not")
        return isl.parametric(aff, own)


def _not(what: str) -> str:
    return "" if what == "leaves out" else " not"


def _complete(root: Node, of: Mapping[str, Statement]) -> Node:
    """The tree, with the loops of the C text added inside of leaves whose instances it leaves unordered."""
    unordered = {name for name, time in times(root, of).items() if not time.is_injective()}

    def walk(node: Node) -> Node:
        match node:
            case Leaf(name) if name in unordered and of[name].depth:
                return Band(tuple(Member({name: aff}) for aff in time_affs(of[name])), node)
            case _:
                return on_subtrees(node, walk)

    return walk(root)


def _concurrent(node: Node, links: Links, *, done: bool) -> Node:
    """The tree with its outermost independent loops marked parallel and its innermost ones for vectors. `done` says
    that a loop further out is parallel, or that none is to be."""
    match node:
        case Leaf() | Kernel() | Copy():
            return node
        case InOrder(children):
            return InOrder(tuple(_concurrent(c, among(links, frozenset(statements(c))), done=done) for c in children))
        case Band(members, child):
            innermost = not has_loops(child)
            made = []
            for place, member in enumerate(members):
                independent = coincident(links, member)
                last = innermost and place + 1 == len(members)
                if independent and not done:
                    member, done = replace(member, run=Run.PARALLEL), True
                elif independent and last:
                    member = replace(member, run=Run.SIMD)
                made.append(member)
                links = left(links, member)
            return Band(tuple(made), _concurrent(child, links, done=done))
