"""Preprocessed text -> pycparser AST, leaving out whatever no scop needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import NoReturn

from pycparser import c_ast, c_lexer, c_parser
from pycparser.c_ast import Node
from pycparser.c_parser import ParseError

from polydl.base.errors import InputError, InputErrors, Span
from polydl.base.records import dataclass
from polydl.frontend.text import chunks as chunking
from polydl.frontend.text.chunks import Chunk
from polydl.frontend.text.places import Places
from polydl.frontend.text.pragmas import Pragma
from polydl.frontend.text.preprocess import Preprocessed
from polydl.frontend.text.scan import SourceText
from polydl.model.types import HEADER_NAMES

FRAGMENT = "__polydl_fragment_{}__"
_MARKED = re.compile(r"#pragma polydl \d")
_UNTYPED = re.compile(r"\b(register|auto|static)\s(?=\s*[^\W\d]\w*\s*(?:[,;=]|\[))")
"""A declaration without a type, of integers: C of 1989."""
_NAME = re.compile(r"[^\W\d]\w*")
_PLACE = re.compile(r"^(.*?):(\d+)(?::(\d+))?: ?(.*)$", re.DOTALL)
_EARLY = "the file ends too early"
_ATTEMPTS = 200
"""Declarations that may be left out before giving up: system headers hold some that pycparser cannot read."""


MOST_TOKENS = 400_000
"""Tokens read in all attempts together before giving up: some seconds of processor time."""


class _Budget:
    """The tokens that may still be read."""

    def __init__(self, source: SourceText) -> None:
        self._left = MOST_TOKENS
        self.last: c_lexer.Token | None = None
        """The token that was read last."""
        self._source = source

    def lexer(self, **options: object) -> c_lexer.CLexer:
        """A lexer that draws on this budget; in reading it raises InputErrors when nothing is left."""
        made = c_lexer.CLexer(**options)
        made._keyword_map["typeof"] = "TYPEOF"  # pycparser knows it as a word of C23 alone, which has other words too
        read = made.token

        def token() -> c_lexer.Token | None:
            self._left -= 1
            if self._left < 0:
                reason = "reading this takes too long: macros expand to too much, or too much of it is no C"
                hint = "check that the file compiles, and keep large functions and tables out of it"
                raise InputErrors([InputError(reason, self._source.line_span(1), hint)])
            found = read()
            self.last = found or self.last
            return found

        made.token = token
        match = made._match_token

        def match_token() -> c_lexer.Token | None:
            """pycparser knows the letters of ASCII alone."""
            name = _NAME.match(made._lexdata, made._pos)
            if name is None or name.group().isascii():
                return match()
            found = made._make_token("ID", name.group(), made._pos)
            made._pos = name.end()
            return found

        made._match_token = match_token
        return made


class _Parser(c_parser.CParser):
    """pycparser, with a place in every error: some of its messages name the file alone."""

    def _parse_error(self, msg: str, coord: c_parser.Coord | str | None) -> NoReturn:
        tokens = getattr(self, "_tokens", None)
        if isinstance(coord, str) and tokens is not None:
            token = tokens.peek(1) or (tokens.peek(0) if tokens.mark() else None)
            if token is not None:
                coord = f"{token.filename}:{token.lineno}:{token.column}"
                msg = f"before: {token.value}"
            else:
                msg = _EARLY
        raise ParseError(f"{coord}: {msg}")


@dataclass(frozen=True, slots=True)
class Unit:
    """A parsed translation unit."""

    source: SourceText
    preprocessed: Preprocessed
    places: Places
    externals: tuple[Node, ...]
    """pycparser's external declarations, fragments left out."""
    fragments: Mapping[int, Node]
    """Pragma index -> the Compound of its C text."""
    chunks: Mapping[str, Chunk]
    """Function name -> its definition's chunk."""
    const_functions: frozenset[str]
    """Functions declared `__attribute__((const))`."""
    unread: Mapping[str, InputErrors] = field(default_factory=dict)
    """Function name -> why its body is not read, of functions of the file that may be left out."""
    assumed_pure: frozenset[str] = frozenset()
    """Functions that the user says are as if they were."""
    aliased: frozenset[str] = frozenset()
    """Functions that read scalars through pointers to other types."""

    def definition(self, name: str) -> c_ast.FuncDef | None:
        """The function of this name, with its body; None where it is not read."""
        return next((e for e in self.externals if isinstance(e, c_ast.FuncDef) and e.decl.name == name), None)


def parse(
    source: SourceText, pragmas: Sequence[Pragma], preprocessed: Preprocessed, bodies: bool | Collection[str]
) -> Unit:
    """The AST of a file. `bodies`: beside functions that hold a pragma all of them, none, or those with these names;
    and what all these call.

    Raises InputErrors when it is not C.
    """
    text, consts = chunking.clean(preprocessed.text)
    pieces = chunking.split(text, consts)
    needed = _bodies_needed(text, pieces, source.path, bodies)
    prototypes = {at for at, chunk in enumerate(pieces) if chunk.body is not None and at not in needed}
    dropped: set[int] = set()
    unread: dict[str, InputErrors] = {}
    tail, fragment_text = _fragments(source, pragmas, preprocessed)
    head = chunking.prelude(text + tail)
    budget = _Budget(source)
    while True:
        parts: list[str] = [head, "\n"]
        position = 0
        for at, chunk in enumerate(pieces):
            parts.append(text[position : chunk.start])
            if at in dropped:
                parts.append(chunking.blank(text[chunk.start : chunk.end], False))
            elif at in prototypes and chunk.body is not None:
                end = chunk.body[0] if chunk.old_types is None else chunk.old_types
                parts.append("int " * chunk.implicit + text[chunk.start : end])
                parts.append(chunking.blank(text[end : chunk.end], True))
            else:
                at_text = chunk.start
                parts.append("int " if chunk.implicit else "")
                for first, last in chunk.initialisers:
                    parts.append(text[at_text:first] + chunking.blank(text[first:last], False))
                    at_text = last
                parts.append(_UNTYPED.sub(r"\1 int ", text[at_text : chunk.end]))
            position = chunk.end
        parts += [text[position:], "\n", tail]
        attempt = "".join(parts)
        try:
            ast = _Parser(lexer=budget.lexer).parse(attempt, source.path)
            _check_functions(ast)
            break
        except ParseError as error:
            culprit = _culprit(str(error), pieces, text, source.path, dropped, prototypes)
            if culprit is None or len(dropped) + len(prototypes) > _ATTEMPTS + len(pieces):
                raise _not_c(source, str(error), Places(source, attempt)) from error
            kind, at = culprit
            if kind == "body":
                unread[pieces[at].name or ""] = _not_c(source, str(error), Places(source, attempt))
            (prototypes if kind == "body" else dropped).add(at)
        except RecursionError as error:
            read, places = budget.last, Places(source, attempt)
            here = read is not None and read.filename == source.path
            token = places.token(read.lineno, read.column) if read is not None and here else None
            span = source.span(token) if token is not None else source.line_span(1)
            reason = "the code is nested too deeply to be read"
            raise InputErrors([InputError(reason, span, "take expressions apart")]) from error
    fragments: dict[int, Node] = {}
    externals: list[Node] = []
    for external in ast.ext:
        _with_types_inside(external)
        if isinstance(external, c_ast.FuncDef) and external.decl.name in fragment_text:
            fragments[fragment_text[external.decl.name]] = external.body
        else:
            externals.append(external)
    return Unit(
        source,
        preprocessed,
        Places(source, attempt),
        tuple(externals),
        fragments,
        {chunk.name: chunk for chunk in pieces if chunk.body is not None and chunk.name},
        frozenset(chunk.name for chunk in pieces if chunk.const and chunk.name),
        unread,
    )


def _with_types_inside(external: Node) -> None:
    """Put the parameters' types of `f(n, x) int n; float *x; { … }` between the parentheses. The tree is changed."""
    if not isinstance(external, c_ast.FuncDef) or not external.param_decls:
        return
    declared = {decl.name: decl for decl in external.param_decls if isinstance(decl, c_ast.Decl)}
    arguments = external.decl.type.args if isinstance(external.decl.type, c_ast.FuncDecl) else None
    assert arguments is not None, "what is declared behind them stands between them"
    arguments.params = [declared.get(getattr(one, "name", None)) or _integer(one) for one in arguments.params]
    external.param_decls = None


def _integer(parameter: Node) -> Node:
    """A parameter whose type nothing says is an int."""
    if not isinstance(parameter, c_ast.ID):
        return parameter
    type_ = c_ast.TypeDecl(parameter.name, [], None, c_ast.IdentifierType(["int"], parameter.coord), parameter.coord)
    return c_ast.Decl(parameter.name, [], [], [], [], type_, None, None, parameter.coord)


def _check_functions(ast: c_ast.FileAST) -> None:
    """Raise ParseError for a body behind what is no function (`struct s f { … }`), which pycparser lets pass."""
    for external in ast.ext:
        if isinstance(external, c_ast.FuncDef) and not isinstance(external.decl.type, c_ast.FuncDecl):
            raise ParseError(f"{external.coord}: before: {{")


def _bodies_needed(text: str, pieces: Sequence[Chunk], path: str, bodies: bool | Collection[str]) -> frozenset[int]:
    """The functions of the file whose bodies have to be read: those that hold a pragma or may be candidates, and
    those that such bodies call, which may be pure."""
    own = {at: text[slice(*c.body)] for at, c in enumerate(pieces) if c.body is not None and c.file == path}
    by_name = {pieces[at].name: at for at in own}
    asked = set(by_name if bodies is True else bodies or ())
    waiting = [at for at, body in own.items() if pieces[at].name in asked or _MARKED.search(body)]
    needed = set(waiting)
    while waiting:
        for name in re.findall(r"\b([^\W\d]\w*)\s*\(", own[waiting.pop()]):
            called = by_name.get(name)
            if called is not None and called not in needed:
                needed.add(called)
                waiting.append(called)
    return frozenset(needed)


def _fragments(source: SourceText, pragmas: Sequence[Pragma], preprocessed: Preprocessed) -> tuple[str, dict[str, int]]:
    """Functions that hold the pragmas' C text, on the pragmas' lines, to be parsed behind everything else."""
    quoted = source.path.replace("\\", "\\\\").replace('"', '\\"')
    parts: list[str] = []
    names: dict[str, int] = {}
    for pragma in pragmas:
        if pragma.kind in ("call", "loops", "assume") and pragma.index in preprocessed.fragments:
            name = FRAGMENT.format(pragma.index)
            names[name] = pragma.index
            body, _ = chunking.clean(preprocessed.fragments[pragma.index])
            parts.append(f'# {pragma.line} "{quoted}"\nvoid {name}(void) {{ {body} ; }}\n')
    return "".join(parts), names


def _culprit(
    message: str, pieces: Sequence[Chunk], text: str, path: str, dropped: set[int], prototypes: set[int]
) -> tuple[str, int] | None:
    """The declaration that a parse error is in, when it can be left out: ("chunk" or "body", index)."""
    match = _PLACE.match(message)
    if match is None:
        return None
    file, line = match.group(1), int(match.group(2))
    for at, chunk in enumerate(pieces):
        if chunk.file != file or at in dropped:
            continue
        if chunk.line <= line <= chunk.line + text.count("\n", chunk.start, chunk.end):
            if file != path:
                return "chunk", at
            if chunk.body is not None and at not in prototypes and not _MARKED.search(text[slice(*chunk.body)]):
                return "body", at
    return None


def _not_c(source: SourceText, message: str, places: Places) -> InputErrors:
    match = _PLACE.match(message)
    if match is None and message.endswith(_EARLY):
        last = source.tokens[-1] if source.tokens else None
        span = source.span(last) if last is not None else source.line_span(1)
        reason = _EARLY if last is None else f"{_EARLY}, behind '{last.text}'"
        hint = "close what is open: a brace, a parenthesis, a statement"
        return InputErrors([InputError(f"this is not C that can be read: {reason}", span, hint, topic="reading-c")])
    if match is None:
        return InputErrors(
            [InputError(f"not C: {message}", source.line_span(1), "check that the file compiles", topic="reading-c")]
        )
    file, line, column, reason = match.groups()
    if file == source.path:
        token = places.token(int(line), int(column or 1))
        span = source.span(token) if token else source.line_span(int(line))
    else:
        span = Span(file, int(line), int(column or 1))
    what = reason.removeprefix("before: ")
    written = token.text if file == source.path and token else what
    if reason.startswith("before: ") and written != what and written.isidentifier():
        hint = f"if '{written}' is a variable, do not define it: --size {written}={what} tunes for its value"
        reason = f"the macro '{written}' puts '{what}' here, where C has a name"
        return InputErrors([InputError(f"this is not C that can be read: {reason}", span, hint, topic="reading-c")])
    reason = f"syntax error before '{what}'" if reason.startswith("before: ") else reason
    hint = "check that the file compiles with cc -std=c11"
    ours = HEADER_NAMES.intersection(re.findall(r"\w+", span.text or ""))
    if ours and "polydl.h" not in source.text:
        hint = f"'{min(ours)}' is declared in polydl.h: #include <polydl.h>"
    return InputErrors([InputError(f"this is not C that can be read: {reason}", span, hint, topic="reading-c")])
