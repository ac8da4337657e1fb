"""From isl's syntax tree to C: builds the C tree and runs the passes over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from polydl.kernels.innermost import RowOptions
from polydl.kernels.row_loops import RowStatement
from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.ctree import (
    Assign,
    Block,
    Expr,
    Finite,
    For,
    Hint,
    If,
    Instance,
    Marked,
    Name,
    Node,
    Way,
    mentioned,
    segments,
)
from polydl.lower.instance import Names, Place, black_box, finite, sides, user_call
from polydl.lower.instance_marks import instance_mark, part_mark
from polydl.lower.marks import CURVE, ENTRIES, INSIDE, PARALLEL, SERIAL, SHARE, SIMD, SUM, TEAM, WAIT
from polydl.lower.passes.collapse import collapsed
from polydl.lower.passes.complex_products import ComplexProducts
from polydl.lower.passes.keep_in_locals import Kept
from polydl.lower.passes.peel import peeled
from polydl.lower.passes.row_calls import Rows
from polydl.lower.passes.rows_together import rows_together
from polydl.lower.passes.single_iterations import straight
from polydl.lower.passes.sums import summed
from polydl.lower.passes.threads import Threads
from polydl.lower.passes.unswitch import unswitched
from polydl.lower.summed_segments import function_of, regrouped, summed_segment, through
from polydl.model import isl
from polydl.model.expr import affine_values
from polydl.model.isl.trees import children_of, node_kind, syntax_tree
from polydl.model.scop import Assignment, BlackBox, MicrokernelCall, Scop, Statement
from polydl.model.types import I64, Kind

_WITH_CLAUSES = {
    PARALLEL: Way.PARALLEL, CURVE: Way.CURVE, ENTRIES: Way.ENTRIES, SIMD: Way.SIMD, SHARE: Way.SHARE,
}  # fmt: skip
_WITHOUT = {SUM: Way.SUM, SERIAL: Way.THREAD, TEAM: Way.TEAM, WAIT: Way.WAIT}
_DEPTH = 64
"""More loops than any nest has; unused names cost nothing."""


@dataclass(slots=True)
class Writer:
    """Writes schedule trees as C trees; what one needs outside of its own lines is added up."""

    scop: Scop
    names: Names
    helpers: Helpers
    calls: Mapping[str, Callable[[Place], Node]]
    """What makes the instances of statements that are not the scop's own."""
    thread_lines: Sequence[Node] = ()
    """What is needed inside of the parallel loops."""
    thread_begins: Sequence[Node] = ()
    """What each thread does before its first iteration of one of them."""
    thread_ends: Sequence[Node] = ()
    """What it does after its last."""
    private: Sequence[str] = ()
    """Scalars of which each thread has its own: rows keep them in registers."""
    rows: Mapping[str, RowOptions] = field(default_factory=dict)
    """By statement: with them, innermost loops become calls of vector functions where they can."""
    instances: bool = False
    """Say before each statement which instance it is (polydl.prove)."""
    bases: Mapping[str, Mapping[str, isl.PwAff]] = field(default_factory=dict)
    """See `Place`."""
    together: bool = False
    """See `syntax_tree`."""
    prologue: list[str] = field(default_factory=list)
    """File-scope pieces that the rows written so far need."""
    functions: list[str] = field(default_factory=list)
    """Those that statements and threads need."""
    streams: bool = False
    """Whether the code written so far stores past the caches."""
    _instances: dict[str, Instance] = field(default_factory=dict)

    @property
    def _complex(self) -> bool:
        return any(a.element.kind is Kind.COMPLEX for a in self.scop.arrays.values())

    def write(self, tree: isl.Schedule) -> Node:
        """C that executes the schedule. Raises isl.Error."""
        node = rows_together(collapsed(self._read(tree)))
        added = [one.function for one in segments(node) if one.function is not None]
        self.functions += [piece for one in added for piece in one.prologue]
        if self.rows:
            rows = Rows(self.scop, self.names, self.private, self.rows)
            node = rows(node)
            self.prologue += rows.prologue
            self.streams = self.streams or rows.streams
        node = straight(peeled(unswitched(summed(node, self.scop.arrays, self.names.prefix))))
        node = ComplexProducts(self.helpers)(node)
        node = Kept(self.scop.arrays, self.names.prefix)(node)
        around = (self.thread_begins, self.thread_ends)
        threads = Threads(self.names.prefix, self.thread_lines, self.scop.source.text, *around)
        node = threads(node)
        self.functions += threads.prologue
        return node

    def _read(self, tree: isl.Schedule) -> Node:
        iterators = {f"polydl_isl_{d}": f"{self.names.iterator}{d}" for d in range(_DEPTH)}
        short = self.scop.parameters if self.names.integer == I64.c else ()
        c = FromIsl(self.helpers, lambda name: iterators.get(name, name), self.scop.unsigned, short)
        failures: list[Exception] = []

        def at_domain(node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
            # isl calls this from C: an exception must be carried across, not thrown through.
            try:
                made = self._instance(isl.Map.from_union_map(build.get_schedule()), build, c)
            except Exception as error:  # noqa: BLE001 - raised again below
                failures.append(error)
                return node
            key = f"user{len(self._instances)}"
            self._instances[key] = made
            return node.set_annotation(isl.identifier(key))

        try:
            node = syntax_tree(tree, self.scop.context.params(), tuple(iterators), at_domain, self.together)
        except isl.Error as error:
            if failures:
                raise failures[0] from error
            raise
        if failures:
            raise failures[0]
        return self._node(node, c)

    def _instance(self, schedule: isl.Map, build: isl.AstBuild, c: FromIsl) -> Instance:
        at = Place(build, schedule.reverse().as_pw_multi_aff(), self.scop.arrays, c, self.bases)
        name = isl.domain_name(schedule)
        if name in self.calls:
            call = self.calls[name](at)
            return Instance(call, self._hints(call, at))
        statement = next(s for s in self.scop.statements if s.name == name)
        elements: tuple[Expr, ...] = ()
        values: tuple[Expr, ...] = ()
        exact = all(a.exact for a in statement.accesses)
        if isinstance(statement.body, Assignment) and name in self.rows and exact:
            values = tuple(at.affine(one.value) for one in affine_values(statement.body.value))
            elements = tuple(at.element(a.array, a.relation.as_pw_multi_aff()) for a in statement.accesses)
        # Beside what has no loops, a schedule's range may be a pair of spaces.
        row = RowStatement(statement, schedule.flatten_range())
        found = regrouped(self.scop, statement)
        function = None if found is None else function_of(self.scop, found)
        if found is not None and function is not None:
            body = summed_segment(self.scop, statement, found, function, at)
        else:
            body = _body(statement, at)
        hints = (*self._hints(body, at), *((instance_mark(statement, at),) if self.instances else ()))
        over = through(self.scop, statement, found, function, at)
        if function is not None and over is None:  # it adds up entries that no array of bounds says
            self.functions += function.prologue
        return Instance(body, hints, row, elements, values, self._finite(statement, at), over)

    def _hints(self, body: Node, at: Place) -> tuple[Hint, ...]:
        """Where the parts of arrays begin that a statement or a call touches."""
        used = mentioned(body) if self.instances and self.bases else set()
        return tuple(part_mark(at, array) for array in self.bases if self.scop.arrays[array].name in used)

    def _finite(self, statement: Statement, at: Place) -> Finite | None:
        """What a statement is where complex numbers are finite; None in a program without any."""
        if not isinstance(statement.body, Assignment):
            return None
        return finite(statement, statement.body, at) if self._complex else None

    def _node(self, node: isl.AstNode, c: FromIsl) -> Node:
        match node_kind(node):
            case "block":
                return Block(tuple(self._node(part, c) for part in children_of(node)))
            case "user":
                return self._instances[node.get_annotation().get_name()]
            case "mark":
                return self._below(node.mark_get_node(), node.mark_get_id().get_name(), c)
            case "if_":
                otherwise = self._node(node.if_get_else_node(), c) if node.if_has_else_node() else None
                return If(c(node.if_get_cond()), self._node(node.if_get_then_node(), c), otherwise)
            case "for_":
                variable = c(node.for_get_iterator())
                assert isinstance(variable, Name)
                once = bool(node.for_is_degenerate())
                first = c(node.for_get_init())
                condition = first if once else c(node.for_get_cond())
                body = self._node(node.for_get_body(), c)
                return For(variable.name, self.names.integer, first, condition, c(node.for_get_inc()), body, once)
            case other:
                raise ValueError(f"isl AST node {other} has no C form here")

    def _below(self, node: isl.AstNode, name: str, c: FromIsl) -> Node:
        """The loops below a mark of `lower.marks`; what follows its name is clauses. A loop of one iteration, which
        INSIDE stands in place of, hands its mark to none further in."""
        if name == INSIDE or _is_inside(node):
            return self._node(node, c)
        if node_kind(node) == "block" and any(map(_is_inside, children_of(node))):
            return Block(tuple(self._below(part, name, c) for part in children_of(node)))
        body = self._node(node, c)
        for prefix, way in _WITH_CLAUSES.items():
            if name.startswith(prefix):
                return Marked(way, body, name.removeprefix(prefix))
        return Marked(_WITHOUT.get(name, Way.COPIED), body)


def _is_inside(node: isl.AstNode) -> bool:
    return node_kind(node) == "mark" and bool(node.mark_get_id().get_name() == INSIDE)


def _body(statement: Statement, at: Place) -> Node:
    match statement.body:
        case Assignment() as body:
            target, value = sides(statement, body, at)
            return Assign(target, body.op, value)
        case MicrokernelCall() as body:
            return user_call(body, at)
        case BlackBox() as body:
            return black_box(statement, body, at)
