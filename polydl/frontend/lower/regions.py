"""Where the static control parts of a file stand: pragma regions, or whole nests of functions without pragmas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from pycparser import c_ast, c_generator
from pycparser.c_ast import Node

from polydl.base.errors import InputError, InputErrors, Span
from polydl.frontend.core.loop_forms import AnyLoop, counts, listed, loop_of
from polydl.frontend.core.tree_parts import items_of
from polydl.frontend.lower.inlined import Expanded
from polydl.frontend.meaning.liveness import Beyond, Effect, effect, jumps
from polydl.frontend.meaning.symbols import Scope, mentions, nodes, parameters_of
from polydl.frontend.text.outline import balanced, check_threads, declaration_start, pragmas_before
from polydl.frontend.text.parse import Unit
from polydl.frontend.text.pragmas import Pragma
from polydl.frontend.text.scan import SourceText, statement_end
from polydl.model import isl
from polydl.model.scop import Header, Region, Storage

_FACTS = ("assume", "live_out", "dead", "constant")
_LOOPS = {"for", "while", "do"}

Evaluate = Callable[[Node, Scope], int | None]


@dataclass(slots=True)
class Found:
    """A region of a function."""

    function: c_ast.FuncDef
    """pycparser FuncDef."""
    items: list[Node]
    """Statements of the region."""
    scope: Scope
    """Names visible at its start."""
    span: Span
    start: int
    """Offset of the first character of the region."""
    end: int
    after: list[Node]
    """Statements that may run after it, in order: of its block, of the blocks around, and of loops around again."""
    facts: list[Pragma] = field(default_factory=list)
    """assume, live_out, dead and constant pragmas that hold for it."""
    before: list[Node] = field(default_factory=list)
    """Statements of its block in front of it."""
    marked: bool = False
    """Whether `#pragma scop` and `#pragma endscop` stand around it."""

    @property
    def name(self) -> str:
        return str(self.function.decl.name)

    def escapes(self, name: str) -> bool:
        """Whether the value that a scalar has after the region may be read."""
        if any(name in mentions(node) for node in self.after) and jumps(self.function.body):
            return True
        return effect(self.after, name) is Effect.READS


def _wrong(pragma: Pragma, reason: str, hint: str, topic: str = "regions") -> InputError:
    return InputError(reason, pragma.span, hint, topic=topic)


def pairing_errors(pragmas: Sequence[Pragma]) -> list[InputError]:
    """scop and endscop pragmas that do not come in pairs."""
    errors: list[InputError] = []
    opened: Pragma | None = None
    for pragma in pragmas:
        if pragma.kind == "scop":
            if opened is not None:
                hint = f"line {opened.line} opened one: close it first"
                errors.append(_wrong(pragma, "a scop starts inside a scop", hint))
            opened = pragma
        elif pragma.kind == "endscop":
            if opened is None:
                errors.append(_wrong(pragma, "'#pragma endscop' without '#pragma scop'", "open the region"))
            opened = None
    if opened is not None:
        errors.append(_wrong(opened, "the scop is never closed", "put '#pragma endscop' after its last statement"))
    return errors


class Finder:
    """Walks a function's blocks, keeping the scope and what comes after."""

    def __init__(self, unit: Unit, pragmas: Mapping[int, Pragma], file_scope: Scope, evaluate: Evaluate) -> None:
        self.unit = unit
        self.pragmas = pragmas
        self.file_scope = file_scope
        self.evaluate = evaluate
        self.found: list[Found] = []
        self.errors: list[InputError] = []
        self.placed: set[int] = set()
        """Pragmas seen inside a function."""
        self._facts: list[Pragma] = []

    def function_scope(self, function: c_ast.FuncDef) -> Scope:
        """The scope of a function's parameters."""
        scope = Scope(self.file_scope)
        for parameter in parameters_of(function):
            if isinstance(parameter, c_ast.Decl):
                scope.declare(parameter, Storage.PARAMETER, self.evaluate)
        return scope

    def search(self, function: c_ast.FuncDef) -> None:
        """Collect the pragma regions of a function."""
        self._facts = []
        before = len(self.found)
        self._block(function, function.body, self.function_scope(function), [])
        for found in self.found[before:]:
            found.facts += self._facts

    def _block(self, function: c_ast.FuncDef, block: Node, outer: Scope, after: list[Node]) -> None:
        """Look for regions in a block, or in a statement by itself."""
        scope = Scope(outer)
        items = items_of(block)
        at = 0
        while at < len(items):
            item = items[at]
            pragma = self._pragma(item)
            if pragma is None:
                scope.declare(item, Storage.LOCAL, self.evaluate)
                for part, inner, behind in self._within(item, scope):
                    self._block(function, part, inner, [*behind, *items[at + 1 :], *after])
            elif pragma.kind in _FACTS:
                self._facts.append(pragma)
            elif pragma.kind == "scop":
                end = self._closing(items, at)
                if end is None:
                    why = "the scop is not closed in the block that opens it"
                    hint = "put '#pragma scop' and '#pragma endscop' between the same braces"
                    self.errors.append(_wrong(pragma, why, hint))
                    return
                self._region(function, items, (at, end), scope, after)
                at = end
            elif pragma.kind in ("call", "loops"):
                why = "a microkernel pragma stands outside any scop"
                self.errors.append(_wrong(pragma, why, "put it inside the region", "microkernels"))
            at += 1

    def _pragma(self, item: Node) -> Pragma | None:
        if not isinstance(item, c_ast.Pragma):
            return None
        words = str(item.string).split()
        if words[:1] != ["polydl"]:
            return None
        index = int(words[1]) if words[1:] and words[1].isdecimal() else -1
        if index not in self.pragmas:
            # Behind other code on its line it is no directive: the preprocessor has left it as it is.
            reason = "a pragma must stand on a line of its own"
            raise InputErrors([self.unit.places.error(reason, item, "put it on its own line", topic="pragmas")])
        self.placed.add(index)
        return self.pragmas[index]

    def _closing(self, items: list[Node], at: int) -> int | None:
        for position in range(at + 1, len(items)):
            pragma = self._pragma(items[position])
            if pragma is not None and pragma.kind == "endscop":
                return position
        return None

    def _region(
        self, function: c_ast.FuncDef, items: list[Node], bounds: tuple[int, int], scope: Scope, after: list[Node]
    ) -> None:
        first, last = bounds
        opening, closing = self._pragma(items[first]), self._pragma(items[last])
        assert opening is not None and closing is not None
        inside = items[first + 1 : last]
        facts: list[Pragma] = []
        for node in (n for part in inside for n in nodes(part) if isinstance(n, c_ast.Pragma)):
            pragma = self._pragma(node)
            if pragma is not None and pragma.kind in _FACTS:
                facts.append(pragma)
            elif pragma is not None and pragma.kind == "scop":
                self.errors.append(_wrong(pragma, "a scop starts inside a scop", "close the first one before"))
        # declarations of the region stay visible behind it: keep them out of the scope that the walk starts from
        self.found.append(
            Found(
                function,
                inside,
                scope.copy(),
                opening.span,
                opening.end,
                closing.start,
                [*items[last + 1 :], *after],
                facts,
                items[:first],
                marked=True,
            )
        )
        for item in inside:
            scope.declare(item, Storage.LOCAL, self.evaluate)
            declared = item.name if isinstance(item, c_ast.Decl) else None
            if declared is not None and any(declared in mentions(later) for later in [*items[last + 1 :], *after]):
                self.errors.append(
                    self.unit.places.error(
                        f"'{declared}' is declared in the scop and used after it",
                        item,
                        "declare it before the region",
                        topic="declarations",
                    )
                )

    def _within(self, node: Node, scope: Scope) -> list[tuple[Node, Scope, list[Node]]]:
        """What stands in a statement: each with the names visible there, and with what of the statement may run behind
        it."""
        match node:
            case c_ast.Compound():
                return [(node, scope, [])]
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                inner = Scope(scope)
                for part in listed(node.init) if isinstance(node, c_ast.For) else ():
                    inner.declare(part, Storage.LOCAL, self.evaluate)
                return [(node.stmt, inner, _again(node))]
            case c_ast.If():
                return [(part, scope, []) for part in (node.iftrue, node.iffalse) if part is not None]
            case c_ast.Switch() | c_ast.Label():
                return [(node.stmt, scope, [node.stmt, Beyond()])]
            case c_ast.Case() | c_ast.Default():
                return [(one, scope, list(node.stmts)) for one in node.stmts or ()]
        return []

    def nest(self, function: c_ast.FuncDef) -> Found | InputError:
        """The loops of a function whose body is declarations and one run of for loops; for other bodies the first
        statement that keeps it from being that."""
        items = [i for i in function.body.block_items or [] if not isinstance(i, c_ast.EmptyStatement)]
        scope = Scope(self.function_scope(function))
        before = [*takewhile(lambda item: isinstance(item, c_ast.Decl | c_ast.Typedef | c_ast.Pragma), items)]
        for item in before:
            scope.declare(item, Storage.LOCAL, self.evaluate)
        behind = items[len(before) :]
        loops = [*takewhile(lambda item: isinstance(item, c_ast.Pragma) or self._is_loop(function, item), behind)]
        rest = behind[len(loops) :]
        bare_return = len(rest) == 1 and isinstance(rest[0], c_ast.Return) and rest[0].expr is None
        first = next((i for i in loops if not isinstance(i, c_ast.Pragma)), None)
        if first is None or (rest and not bare_return):
            return self._no_nest(function, rest[0] if rest else None)
        return self._run(function, loops, scope, rest, before) or self._no_nest(function, first)

    @staticmethod
    def _is_loop(function: c_ast.FuncDef, item: Node) -> bool:
        """Whether a statement is a loop that is looked at without pragmas, or a call with the loops that it runs in its
        place: no `while` or `do` loop that counts on with a parameter, unless that is nothing but a count."""
        if isinstance(item, Expanded):
            return True
        if not counts(item):
            return False
        if isinstance(item, c_ast.For):
            return True
        integers = {
            one.name
            for one in parameters_of(function)
            if isinstance(one, c_ast.Decl) and isinstance(one.type, c_ast.TypeDecl)
        }
        assert isinstance(item, AnyLoop), "it counts"
        loop = loop_of(item)
        named = set(mentions(loop.body))
        return all(name not in named for name in loop.exit_variables if name in integers)

    def _no_nest(self, function: c_ast.FuncDef, stops: Node | None) -> InputError:
        """Why the loops of a function are no region by themselves."""
        name = function.decl.name
        if not any(isinstance(node, (c_ast.For, c_ast.While, c_ast.DoWhile)) for node in nodes(function.body)):
            back = repeats(function)
            if back is not None:
                why = f"'{name}' loops by 'goto {back.name}', of which nothing says how often it runs"
                return self.unit.places.error(why, back, "write it as a for or while loop", topic="control-flow")
            return self.unit.places.error(
                f"'{name}' has no loop", function.decl, "give a function with for loops", topic="regions"
            )
        if stops is not None and self._is_loop(function, stops):
            return self.unit.places.error(
                f"'{name}': a macro makes this loop, and perhaps more",
                stops,
                "put what makes the loop on lines of its own, or the pragmas around it",
                topic="regions",
            )
        return self.unit.places.error(
            f"'{name}' does more than run for loops: this stands beside them",
            stops if stops is not None else function.decl,
            "put '#pragma scop' and '#pragma endscop' around the loops, each on its own line",
            topic="regions",
        )

    def _run(
        self, function: c_ast.FuncDef, loops: list[Node], scope: Scope, after: list[Node], before: list[Node]
    ) -> Found | None:
        """Loops that follow each other as a region; None where macros make more than them."""
        source, places = self.unit.source, self.unit.places
        own = [item for item in loops if not isinstance(item, c_ast.Pragma)]
        start, last = places.token_of(own[0]), places.token_of(own[-1])
        if start is None or last is None:
            return None
        if {start.text, last.text} <= _LOOPS:
            try:
                tokens = places.compiled_tokens()
                end = tokens[statement_end(tokens, next(i for i, one in enumerate(tokens) if one is last)) - 1]
            except ValueError:
                return None
        else:
            whole, final = places.statement(own[0]), places.statement(own[-1])
            if whole is None or final is None:
                return None
            start, end = whole[0], final[1]
        past = end.offset + len(end.text)
        facts = [pragma for pragma in self.inside_of(function) if pragma.kind in _FACTS]
        return Found(function, loops, scope, source.span(start), start.offset, past, after, facts, before)

    def inside_of(self, function: c_ast.FuncDef) -> list[Pragma]:
        """The pragmas in the body of a function."""
        found = (self._pragma(node) for node in nodes(function.body) if isinstance(node, c_ast.Pragma))
        return [pragma for pragma in found if pragma is not None]

    def runs(self, function: c_ast.FuncDef) -> list[Found]:
        """The loops of a function among other statements: each run of for loops of a block that stands in no other for
        loop."""
        return self._runs(function, items_of(function.body), self.function_scope(function), [])

    def apart(self, found: Found, most: int = 1) -> list[Found]:
        """The loops of a region of more than `most`, in runs of so many: one after the other, or each by itself."""
        if len(found.items) <= most:
            return []
        return self._runs(found.function, found.items, found.scope, found.after, found.before, most)

    def inside(self, found: Found) -> list[Found]:
        """The runs of for loops in the bodies of those of a region."""
        inner: list[Found] = []
        for at, item in enumerate(found.items):
            if self._is_loop(found.function, item) and isinstance(item, AnyLoop):
                for part, scope, behind in self._within(item, found.scope):
                    after = [*behind, *found.items[at + 1 :], *found.after]
                    inner += self._runs(found.function, items_of(part), scope, after)
        return inner

    def _runs(
        self,
        function: c_ast.FuncDef,
        items: list[Node],
        outer: Scope,
        after: list[Node],
        before: Sequence[Node] = (),
        most: int | None = None,
    ) -> list[Found]:
        """The runs of for loops in statements that stand in no for loop, of `most` loops each. `before`, `after`: what
        stands around them."""
        found: list[Found] = []
        scope, at = Scope(outer), 0
        while at < len(items):
            item, end = items[at], at
            while end < min(len(items), at + (most or len(items))) and self._is_loop(function, items[end]):
                end += 1
            if end > at:
                # What is declared behind the loops is not visible in them.
                around = [*items[end:], *after], [*before, *items[:at]]
                run = self._run(function, items[at:end], scope.copy(), *around)
                found.extend([run] if run is not None else [])
                at = end
                continue
            scope.declare(item, Storage.LOCAL, self.evaluate)
            if not isinstance(item, c_ast.Switch | c_ast.Label):
                for part, inner, behind in self._within(item, scope):
                    found += self._runs(function, items_of(part), inner, [*behind, *items[at + 1 :], *after])
            at += 1
        return found


def repeats(function: c_ast.FuncDef) -> c_ast.Goto | None:
    """The first `goto` of a function to a label in front of it, which makes a loop; None where there is none."""
    passed: set[str] = set()
    for node in nodes(function.body):
        if isinstance(node, c_ast.Label):
            passed.add(node.name)
        elif isinstance(node, c_ast.Goto) and node.name in passed:
            return node
    return None


def _again(loop: AnyLoop) -> list[Node]:
    """What runs behind the body of a loop: its condition, and perhaps all of it once more."""
    following = [loop.next] if isinstance(loop, c_ast.For) and loop.next is not None else []
    once_more = loop.stmt if loop.cond is None else c_ast.If(loop.cond, loop.stmt, None, loop.coord)
    return [Beyond(), *following, once_more, Beyond()]


def model_region(found: Found, unit: Unit, declared_outside: tuple[str, ...], begun: Mapping[str, isl.PwAff]) -> Region:
    """The model's region: offsets into the original text."""
    chunk = unit.chunks[found.name]
    source = unit.source
    first = unit.places.token(chunk.line, chunk.column)
    helpers = source.line_start(chunk.line) if first is None else declaration_start(source, first)
    return Region(found.start, found.end, helpers, declared_outside, begun, _header(found.function))


def _header(function: c_ast.FuncDef) -> Header | None:
    """How a function is declared, macros expanded."""
    kind, parameters = function.decl.type, parameters_of(function)
    returned = kind.type if isinstance(kind, c_ast.FuncDecl) else None
    if function.param_decls or not isinstance(returned, c_ast.TypeDecl):
        return None
    names = [one for one in parameters if isinstance(one, c_ast.Decl) and one.name is not None]
    if len(names) != len(parameters) - any(isinstance(one, c_ast.Typename) for one in parameters):  # (void)
        return None
    text = c_generator.CGenerator()
    bare = c_ast.TypeDecl(None, returned.quals, None, returned.type)
    result = text.visit(c_ast.Typename(None, returned.quals, None, bare))
    return Header(text.visit(function.decl), str(result), tuple((str(one.name), text.visit(one)) for one in names))


def outlined(found: Found, source: SourceText) -> Found:
    """A region with the pragmas of its first loop, and with all of each `#if` group that it has a part of.

    Raises InputError for pragmas whose meaning would be lost, and where pragmas of a region stand in different
    branches of a `#if`.
    """
    before = pragmas_before(source, found.start)
    code = before[0].start if before else found.start
    start, end = balanced(source, code, found.end)
    check_threads(source, start, end)
    if found.marked and (start, end) != (code, found.end):
        why = "an '#if' opens inside of the region and closes outside of it, or the other way round"
        hint = "put '#pragma scop' and '#pragma endscop' where the same '#if's are open"
        raise InputError(why, found.span, hint, topic="regions")
    return replace(found, start=start, end=end)
