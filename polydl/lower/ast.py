"""isl AST → C: a visitor over the nodes, and the callback that prepares each statement instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from polydl.kernels.row_loops import RowStatement, are_numbers, loop_bounds, row_loops, row_statement
from polydl.kernels.rows import RowOptions, row
from polydl.kernels.vector_text import NotVectorised
from polydl.lower.cexpr import Helpers, IslPrinter
from polydl.lower.instance import Instance, Names, black_box, sides, user_call
from polydl.lower.instance_marks import instance_mark, is_mark, row_mark, with_value
from polydl.lower.tree import CURVE, PARALLEL, SERIAL, SIMD, SUM
from polydl.model import isl
from polydl.model.isl import to_int
from polydl.model.isl.trees import children_of, expression_kind, node_kind, operands_of, operation, syntax_tree
from polydl.model.scop import Assignment, BlackBox, MicrokernelCall, Scop
from polydl.model.types import ElementType

_VECTOR = -1
"""In place of a number of parallel loops: the next loop runs in vectors."""
_SUM = -2
"""In place of a number of parallel loops: the next loop adds up, in vectors."""
_NEUTRAL = {"+=": ("0", "+"), "-=": ("0", "+"), "*=": ("1", "*")}
"""Per accumulating operator where a sum of its own starts and OpenMP's name of the reduction."""


class Writer:
    """Builds the isl AST of a schedule tree and writes it as C."""

    def __init__(
        self,
        scop: Scop,
        names: Names,
        helpers: Helpers,
        calls: Mapping[str, Callable[[Instance], str]],
        thread_lines: Sequence[str] = (),
        private: Sequence[str] = (),
        rows: RowOptions | None = None,
        *,
        instances: bool = False,
    ) -> None:
        """`calls` prints the instances of statements that are not the scop's own; `thread_lines` are C lines needed
        inside the parallel loops; `private` are scalars of which each thread has its own. With `rows`, innermost loops
        become calls of vector functions where they can. With `instances`, a line `polydl_instance_S0(i, j);` before
        each statement says which instance it is (polydl.prove)."""
        self._marks: dict[str, str] | None = {} if instances else None
        self._private = private
        self._rows = rows
        self._row_users: dict[str, RowStatement] = {}
        self.prologue: list[str] = []
        """File-scope pieces that the lines written so far need."""
        self.streams = False
        """Whether the lines written so far store past the caches."""
        self._clauses = ""
        self._scop = scop
        self._names = names
        self._calls = calls
        self._thread_lines = thread_lines
        self._print = IslPrinter(helpers, self._rename)
        self._statements = {s.name: s for s in scop.statements}
        self._iterators: dict[str, str] = {}
        self._user_text: dict[str, str] = {}
        self._sums: dict[str, tuple[ElementType, str, str, str]] = {}
        self._failure: Exception | None = None
        self._holds: frozenset[str] = frozenset()

    def _rename(self, name: str) -> str:
        if name in self._iterators:
            return self._iterators[name]
        return name

    def write(self, tree: isl.Schedule, indent: int) -> list[str]:
        """Lines of C that execute the schedule."""
        dims = 64  # more loop depth than any nest; unused names cost nothing
        self._iterators = {f"polydl_isl_{d}": f"{self._names.iterator}{d}" for d in range(dims)}
        try:
            node = syntax_tree(tree, self._scop.context.params(), tuple(self._iterators), self._at_domain)
        except isl.Error as error:
            if self._failure is not None:
                raise self._failure from error
            raise
        if self._failure is not None:
            raise self._failure
        return self._node(node, indent, 0)

    def _at_domain(self, node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
        # isl calls this from C: an exception must be carried across, not thrown through.
        try:
            text = self._instance(isl.Map.from_union_map(build.get_schedule()), build)
        except Exception as error:  # noqa: BLE001 - raised again by write()
            self._failure = error
            return node
        key = f"user{len(self._user_text)}"
        self._user_text[key] = text
        return node.set_annotation(isl.identifier(key))

    def _instance(self, schedule: isl.Map, build: isl.AstBuild) -> str:
        back = schedule.reverse().as_pw_multi_aff()
        name = isl.domain_name(schedule)
        at = Instance(build, back, self._scop.arrays, self._print)
        if name in self._calls:
            return self._calls[name](at)
        statement = self._statements[name]
        if self._marks is not None:
            self._marks[f"user{len(self._user_text)}"] = instance_mark(statement, at)
        if self._rows is not None:
            # The build says how things are printed during the callback only.
            self._row_users[f"user{len(self._user_text)}"] = row_statement(statement, schedule, at.element)
        match statement.body:
            case Assignment():
                target, value = sides(statement, statement.body, at)
                element = self._scop.arrays[statement.accesses[statement.body.target].array].element
                self._sums[f"user{len(self._user_text)}"] = (element, target, statement.body.op, value)
                return f"{target} {statement.body.op} {value};"
            case MicrokernelCall():
                return user_call(statement.body, at)
            case BlackBox():
                return black_box(statement.body, at)

    # Nodes

    def _node(self, node: isl.AstNode, indent: int, parallel: int, inside_block: bool = False) -> list[str]:
        pad = "  " * indent
        match node_kind(node):
            case "block":
                parts = children_of(node)
                return [line for part in parts for line in self._node(part, indent, parallel, len(parts) > 1)]
            case "user":
                key = node.get_annotation().get_name()
                text = self._user_text[key]
                mark = [pad + self._marks[key]] if self._marks and key in self._marks else []
                return [*mark, *(pad + line for line in text.split("\n"))]
            case "mark":
                name, child = node.mark_get_id().get_name(), node.mark_get_node()
                if name.startswith(PARALLEL):
                    self._clauses = name.removeprefix(PARALLEL)
                    return self._node(child, indent, self._parallel_loops(child))
                if name == CURVE:
                    return self._curve(child, indent)
                if name == SUM:
                    return self._node(child, indent, _SUM)
                if name.startswith(SIMD):
                    self._clauses = name.removeprefix(SIMD)
                    return self._node(child, indent, _VECTOR)
                if name != SERIAL or not self._thread_lines:
                    return self._node(child, indent, 0)
                if not inside_block:
                    return [*(pad + line for line in self._thread_lines), *self._node(child, indent, 0)]
                # isl may split what runs in an iteration: each part has a scope of its own.
                own = [f"{pad}  {line}" for line in self._thread_lines]
                return [f"{pad}{{", *own, *self._node(child, indent + 1, 0), f"{pad}}}"]
            case "if_":
                condition = self._print(node.if_get_cond())
                if condition in self._holds:
                    return self._node(node.if_get_then_node(), indent, parallel, inside_block)
                lines = [f"{pad}if ({condition}) {{"]
                lines += self._node(node.if_get_then_node(), indent + 1, parallel)
                if node.if_has_else_node():
                    lines += [f"{pad}}} else {{", *self._node(node.if_get_else_node(), indent + 1, parallel)]
                return [*lines, f"{pad}}}"]
            case "for_":
                return self._for(node, indent, parallel)
        raise ValueError(f"isl AST node {node_kind(node)} has no C form here")

    def _for(self, node: isl.AstNode, indent: int, parallel: int, *, within: bool = False) -> list[str]:
        """`within`: where some condition of `_guards` does not hold."""
        pad = "  " * indent
        if self._rows is not None and not parallel:
            called = self._row(node, self._rows, pad)
            if called is not None:
                return called
        variable = self._print(node.for_get_iterator())
        first = self._print(node.for_get_init())
        if node.for_is_degenerate():
            body = self._node(node.for_get_body(), indent + 1, parallel)
            if not any(_mentions(line, variable) for line in body if not is_mark(line)):
                return with_value(self._node(node.for_get_body(), indent, parallel), variable, first)
            return [f"{pad}{{", f"{pad}  const {self._names.integer} {variable} = {first};", *body, f"{pad}}}"]
        if parallel == _SUM:
            summed = self._sum(node, indent, variable)
            if summed is not None:
                return summed
            parallel = 0
        if parallel == _VECTOR and not self._holds and not within:
            held = list(dict.fromkeys(self._guards(node.for_get_body(), variable)))
            if held:
                return self._apart(node, indent, held)
        lines = []
        if parallel == _VECTOR:
            lines.append(f"{pad}#pragma omp simd{self._clauses}")
        elif parallel:
            collapse = f" collapse({parallel})" if parallel > 1 else ""
            private = f" private({', '.join(self._private)})" if self._private else ""
            lines.append(f"{pad}#pragma omp parallel for{collapse}{self._clauses}{private}")
        lines.append(pad + self._head(node, variable))
        return [*lines, *self._node(node.for_get_body(), indent + 1, 0), f"{pad}}}"]

    def _guards(self, node: isl.AstNode, variable: str) -> Iterator[str]:
        """Conditions in the body of a loop that do not depend on its variable."""
        match node_kind(node):
            case "block":
                for child in children_of(node):
                    yield from self._guards(child, variable)
            case "mark":
                yield from self._guards(node.mark_get_node(), variable)
            case "if_":
                condition = self._print(node.if_get_cond())
                if not _mentions(condition, variable) and not node.if_has_else_node():
                    yield condition
                yield from self._guards(node.if_get_then_node(), variable)

    def _apart(self, node: isl.AstNode, indent: int, held: Sequence[str]) -> list[str]:
        """A vector loop twice: where the conditions inside hold, without them, which compilers turn into vectors; and
        as it is. (Whole tiles and the rest, where small tiles are written out.)"""
        pad = "  " * indent
        self._holds = frozenset(held)
        bare = self._for(node, indent + 1, _VECTOR)
        self._holds = frozenset()
        every = " && ".join(f"({one})" if "||" in one or "?" in one else one for one in held)
        return [
            f"{pad}if ({every}) {{",
            *bare,
            f"{pad}}} else {{",
            *self._for(node, indent + 1, _VECTOR, within=True),
            f"{pad}}}",
        ]

    def _head(self, node: isl.AstNode, variable: str) -> str:
        condition = self._print(node.for_get_cond())
        step = self._print(node.for_get_inc())
        advance = f"{variable}++" if step == "1" else f"{variable} += {step}"
        first = self._print(node.for_get_init())
        return f"for ({self._names.integer} {variable} = {first}; {condition}; {advance}) {{"

    def _sum(self, node: isl.AstNode, indent: int, variable: str) -> list[str] | None:
        """A loop that only accumulates into one element, with an accumulator for each lane; None for any other."""
        body = node.for_get_body()
        found = self._sums.get(body.get_annotation().get_name()) if node_kind(body) == "user" else None
        if found is None:
            return None
        element, target, op, value = found
        if op not in _NEUTRAL or _mentions(target, variable):
            return None
        start, reduction = _NEUTRAL[op]
        pad, own = "  " * indent, f"{self._names.prefix}sum"
        # An empty loop leaves its target alone, which may not even exist.
        first = self._print(node.for_get_init())
        return [
            f"{pad}{{",
            f"{pad}  const {self._names.integer} {variable} = {first};",
            f"{pad}  if ({self._print(node.for_get_cond())}) {{",
            f"{pad}    {element} {own} = {start};",
            f"{pad}    #pragma omp simd reduction({reduction} : {own})",
            f"{pad}    {self._head(node, variable)}",
            *([self._marks[body.get_annotation().get_name()]] if self._marks else ()),
            f"{pad}      {own} {'*=' if reduction == '*' else '+='} {value};",
            f"{pad}    }}",
            f"{pad}    {target} {op} {own};",
            f"{pad}  }}",
            f"{pad}}}",
        ]

    def _row(self, node: isl.AstNode, options: RowOptions, pad: str) -> list[str] | None:
        """The call of a row's function in place of the loops from here on; None where they are no row."""
        chain = [node]
        while node_kind(chain[-1].for_get_body()) == "for_":
            chain.append(chain[-1].for_get_body())
        body = chain[-1].for_get_body()
        users = children_of(body) if node_kind(body) == "block" else [body]
        if any(node_kind(user) != "user" for user in users):
            return None
        keys = [user.get_annotation().get_name() for user in users]
        bounds = [loop_bounds(loop) for loop in chain]
        if any(key not in self._row_users for key in keys) or any(found is None for found in bounds):
            return None
        statements = [self._row_users[key] for key in keys]
        known = [found for found in bounds if found is not None]
        numbers = [(to_int(low.get_val()), to_int(high.get_val())) for low, high in known[1:] if are_numbers(low, high)]
        if len(numbers) + 1 < len(chain):
            return None
        variables = [self._print(loop.for_get_iterator()) for loop in chain]
        inside = {at.statement.name for at in statements}
        private = frozenset(
            name
            for name in self._private
            if all(s.name in inside for s in self._scop.statements if any(a.array == name for a in s.accesses))
        )
        try:
            loops = row_loops(statements, numbers)
            made = row(self._scop.arrays, private, loops, statements, options)
        except NotVectorised:
            return None
        self.prologue += made.prologue
        self.streams = self.streams or made.streams
        low, high = (self._print(bound) for bound in known[0])
        less = f"({low})" if " " in low else low
        length = f"{high} + 1" if low == "0" else f"{high} - {less} + 1"
        for extent in loops.extents:
            length = f"({length}) * {extent}" if " " in length else f"{length} * {extent}"
        call = f"{made.name}({', '.join([length, *made.arguments])});"
        firsts = [low, *(str(first) for first, _ in numbers)]
        marks = []
        if self._marks is not None:
            counted = [(v, f, str(e)) for v, f, e in zip(variables, firsts, [1, *loops.extents], strict=True)]
            marks = [row_mark(counted), *(self._marks[key] for key in keys)]
        for v, first in zip(variables, firsts, strict=True):
            if first.isdigit():
                call = _plain(re.sub(rf"\b{v}\b", first, call))
        declared = [f"{v} = {first}" for v, first in zip(variables, firsts, strict=True) if _mentions(call, v)]
        if not declared:
            return [*marks, pad + call]
        integers = f"const {self._names.integer} {', '.join(declared)};"
        return [f"{pad}{{", f"{pad}  {integers}", *marks, f"{pad}  {call}", f"{pad}}}"]

    def _curve(self, outer: isl.AstNode, indent: int) -> list[str]:
        """Two loops with constant bounds as one along a curve, shared out in contiguous stretches; in their own order
        where one of them has a single iteration, which is a curve as well."""
        inner = outer.for_get_body() if node_kind(outer) == "for_" else outer
        sides = [_range(loop) for loop in (outer, inner)]
        (first_row, rows), (first_column, columns) = (side or (0, 0) for side in sides)
        if not rows or not columns:
            self._clauses = ""
            return self._node(outer, indent, self._parallel_loops(outer))
        pad, t, step = "  " * indent, self._names.integer, f"{self._names.prefix}step"
        row, column = (self._print(loop.for_get_iterator()) for loop in (outer, inner))
        private = f" private({', '.join(self._private)})" if self._private else ""
        moved = [f"{n} += {low};" for n, low in ((row, first_row), (column, first_column)) if low]
        return [
            f"{pad}#pragma omp parallel for schedule(static){private}",
            f"{pad}for ({t} {step} = 0; {step} < {rows * columns}; {step}++) {{",
            f"{pad}  {t} {row}, {column};",
            f"{pad}  {self._names.prefix}curve({step}, {rows}, {columns}, &{row}, &{column});",
            *(f"{pad}  {line}" for line in moved),
            *self._node(inner.for_get_body(), indent + 1, 0),
            f"{pad}}}",
        ]

    def _parallel_loops(self, node: isl.AstNode) -> int:
        """How many loops from here on can be collapsed: directly nested, rectangular, above the serial mark."""
        outer: list[str] = []
        while node_kind(node) == "for_" and not node.for_is_degenerate():
            bounds = self._print(node.for_get_init()) + " " + self._print(node.for_get_cond())
            own = self._print(node.for_get_iterator())
            if any(_mentions(bounds, name) for name in outer):
                break
            outer.append(own)
            node = node.for_get_body()
        return max(len(outer), 1)


def quietly(line: str) -> tuple[str, ...]:
    """A line with an OpenMP pragma so that compilers without OpenMP have nothing to warn about."""
    return ("#ifdef _OPENMP", line, "#endif") if line.lstrip().startswith("#pragma omp") else (line,)


def _range(node: isl.AstNode) -> tuple[int, int] | None:
    """(first value, number of values) of a loop with constant bounds and step 1; None for anything else."""
    if node_kind(node) != "for_" or node.for_is_degenerate():
        return None
    condition, first, step = node.for_get_cond(), node.for_get_init(), node.for_get_inc()
    numbers = [first, operands_of(condition)[1], step]
    if operation(condition) not in ("le", "lt") or any(expression_kind(n) != "int" for n in numbers):
        return None
    low, high, by = (to_int(n.get_val()) for n in numbers)
    last = high if operation(condition) == "le" else high - 1
    return (low, last - low + 1) if by == 1 else None


def _plain(text: str) -> str:
    """Subscripts without `4 * 0` and `+ 0`."""
    return re.sub(r" \+ 0(?![\w.]| \*)", "", re.sub(r"\b\d+ \* 0(?![\w.])", "0", text))


def _mentions(text: str, name: str) -> bool:
    return any(word == name for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split())
