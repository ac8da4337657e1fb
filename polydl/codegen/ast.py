"""isl AST → C: a visitor over the nodes, and the callback that prepares each statement instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from polydl.codegen.cexpr import Helpers, IslPrinter, expression_text
from polydl.codegen.tree import PARALLEL, SERIAL
from polydl.model.contraction import array_strides
from polydl.model.isl import node_kind
from polydl.model.scop import Array, Assignment, MicrokernelCall, Scop, Statement


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the generated code, chosen so that they cannot collide with the user's."""

    iterator: str
    """Prefix of loop variables."""
    prefix: str
    """Prefix of functions."""
    integer: str
    """Type of loop variables: `int`, or `long` where addresses need it."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One place in the isl AST where a statement instance runs, and how things are said there."""

    build: isl.AstBuild
    back: isl.PwMultiAff
    """{ [AST loops] -> S[i…] }."""
    arrays: Mapping[str, Array]
    printer: IslPrinter

    def affine(self, value: isl.PwAff) -> str:
        """C text of { S[i…] -> [v] }."""
        return self.printer(self.build.expr_from_pw_aff(value.pullback_pw_multi_aff(self.back).coalesce()))

    def element(self, array: str, subscript: isl.PwMultiAff) -> str:
        """C text of the array element at { S[i…] -> A[a…] }."""
        found = self.arrays[array]
        if found.is_scalar:
            return found.name
        where = subscript.pullback_pw_multi_aff(self.back)
        subscripts = [self.build.expr_from_pw_aff(where.get_pw_aff(d).coalesce()) for d in range(len(found.extents))]
        if not found.linear:
            return found.name + "".join(f"[{self.printer(s)}]" for s in subscripts)
        strides = array_strides(found)
        assert strides is not None, "a linear array is recovered with known strides"
        terms = [
            self.printer(s) if n == 1 else f"{n} * {self.printer.factor(s)}"
            for s, n in zip(subscripts, strides, strict=True)
            if self.printer(s) != "0"
        ]
        return f"{found.name}[{' + '.join(terms) or '0'}]"


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
    ) -> None:
        """`calls` prints the instances of statements that are not the scop's own; `thread_lines` are C lines needed
        inside the parallel loops; `private` are scalars of which each thread has its own."""
        self._private = private
        self._clauses = ""
        self._scop = scop
        self._names = names
        self._calls = calls
        self._thread_lines = thread_lines
        self._print = IslPrinter(helpers, self._rename)
        self._statements = {s.name: s for s in scop.statements}
        self._iterators: dict[str, str] = {}
        self._user_text: dict[str, str] = {}
        self._failure: Exception | None = None

    def _rename(self, name: str) -> str:
        if name in self._iterators:
            return self._iterators[name]
        return name

    def write(self, tree: isl.Schedule, indent: int) -> list[str]:
        """Lines of C that execute the schedule."""
        ctx = isl.DEFAULT_CONTEXT
        dims = 64  # more loop depth than any nest; unused names cost nothing
        self._iterators = {f"polydl_isl_{d}": f"{self._names.iterator}{d}" for d in range(dims)}
        ids = isl.IdList.alloc(ctx, dims)
        for name in self._iterators:
            ids = ids.add(isl.Id(name, context=ctx))
        build = isl.AstBuild.from_context(self._scop.context.params()).set_iterators(ids)
        build, _callback = build.set_at_each_domain(self._at_domain)
        detect = ctx.get_ast_build_detect_min_max()
        ctx.set_ast_build_detect_min_max(1)
        try:
            node = build.node_from_schedule(tree)
        except isl.Error as error:
            if self._failure is not None:
                raise self._failure from error
            raise
        finally:
            ctx.set_ast_build_detect_min_max(detect)
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
        return node.set_annotation(isl.Id(key, context=isl.DEFAULT_CONTEXT))

    def _instance(self, schedule: isl.Map, build: isl.AstBuild) -> str:
        back = schedule.reverse().as_pw_multi_aff()
        name = schedule.get_tuple_name(isl.dim_type.in_)
        at = Instance(build, back, self._scop.arrays, self._print)
        if name in self._calls:
            return self._calls[name](at)
        statement = self._statements[name]
        match statement.body:
            case Assignment():
                return _assignment(statement, statement.body, at)
            case MicrokernelCall():
                return _user_call(statement.body, at)

    # Nodes

    def _node(self, node: isl.AstNode, indent: int, parallel: int) -> list[str]:
        pad = "  " * indent
        match node_kind(node):
            case "block":
                return [line for child in self._children(node) for line in self._node(child, indent, parallel)]
            case "user":
                return [pad + self._user_text[node.get_annotation().get_name()]]
            case "mark":
                name, child = node.mark_get_id().get_name(), node.mark_get_node()
                if name.startswith(PARALLEL):
                    self._clauses = name.removeprefix(PARALLEL)
                    return self._node(child, indent, self._parallel_loops(child))
                lines = [pad + line for line in self._thread_lines] if name == SERIAL else []
                return [*lines, *self._node(child, indent, 0)]
            case "if_":
                lines = [f"{pad}if ({self._print(node.if_get_cond())}) {{"]
                lines += self._node(node.if_get_then_node(), indent + 1, parallel)
                if node.if_has_else_node():
                    lines += [f"{pad}}} else {{", *self._node(node.if_get_else_node(), indent + 1, parallel)]
                return [*lines, f"{pad}}}"]
            case "for_":
                return self._for(node, indent, parallel)
        raise ValueError(f"isl AST node {node_kind(node)} has no C form here")

    def _children(self, node: isl.AstNode) -> list[isl.AstNode]:
        children = node.block_get_children()
        return [children.get_at(i) for i in range(children.n_ast_node())]

    def _for(self, node: isl.AstNode, indent: int, parallel: int) -> list[str]:
        pad = "  " * indent
        variable = self._print(node.for_get_iterator())
        first = self._print(node.for_get_init())
        if node.for_is_degenerate():
            body = self._node(node.for_get_body(), indent + 1, parallel)
            if not any(_mentions(line, variable) for line in body):
                return self._node(node.for_get_body(), indent, parallel)
            return [f"{pad}{{", f"{pad}  const {self._names.integer} {variable} = {first};", *body, f"{pad}}}"]
        lines = []
        if parallel:
            collapse = f" collapse({parallel})" if parallel > 1 else ""
            private = f" private({', '.join(self._private)})" if self._private else ""
            lines.append(f"{pad}#pragma omp parallel for{collapse}{self._clauses}{private}")
        condition = self._print(node.for_get_cond())
        step = self._print(node.for_get_inc())
        advance = f"{variable}++" if step == "1" else f"{variable} += {step}"
        lines.append(f"{pad}for ({self._names.integer} {variable} = {first}; {condition}; {advance}) {{")
        return [*lines, *self._node(node.for_get_body(), indent + 1, 0), f"{pad}}}"]

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


def _assignment(statement: Statement, body: Assignment, at: Instance) -> str:
    def load(access: int) -> str:
        one = statement.accesses[access]
        return at.element(one.array, one.relation.as_pw_multi_aff())

    return f"{load(body.target)} {body.op} {expression_text(body.value, load, at.affine)};"


def _user_call(body: MicrokernelCall, at: Instance) -> str:
    arguments = []
    for argument in body.arguments:
        if argument.array is not None and argument.subscript is not None:
            where = isl.PwMultiAff.from_multi_pw_aff(argument.subscript)
            arguments.append(f"&{at.element(argument.array, where)}")
        elif argument.value is not None:
            arguments.append(at.affine(argument.value))
        else:
            arguments.append(argument.text)
    return f"{body.function}({', '.join(arguments)});"


def _mentions(text: str, name: str) -> bool:
    return any(word == name for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split())
