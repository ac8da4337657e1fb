"""The original text of a C file as tokens: offsets, logical lines and preprocessor directives, nothing expanded.

Columns of preprocessed text are not columns of the file (tabs and macros are gone), so every place shown to people
and every offset at which text is replaced comes from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from polydl.base.errors import Span
from polydl.base.records import dataclass

TOKEN = re.compile(
    r"""(?P<newline>\r\n|\n)
      | (?P<splice>\\[ \t]*(?:\r\n|\n))
      | (?P<space>[ \t\v\f\r]+)
      | (?P<comment>//(?:\\(?:\r\n|\n)|[^\n])*?(?=\r?\n|\Z)|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z))
      | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?)
      | (?P<char>[uUL]?'(?:\\.|[^'\\\n])*'?)
      | (?P<name>[^\W\d]\w*)
      | (?P<run>(?:[-+]?\.?\d(?:[eEpP][+-]|[\w.])*+[ \t]*+,\s*+){64,}+)
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
      | (?P<punct>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)""",
    re.VERBOSE | re.DOTALL,
)
"""C's preprocessing tokens. Total: every character belongs to one match. Many numbers with commas behind them (the
initialiser of a table) are one token, called a run: there may be millions."""


_DIGRAPHS = {"<%": "{ ", "%>": " }", "<:": "[ ", ":>": " ]", "%:": "# "}
_DIGRAPH = re.compile("|".join(_DIGRAPHS))


def without_digraphs(text: str) -> str:
    """The text with brackets and `#` in place of digraphs, and a space; offsets and lines stay."""
    if _DIGRAPH.search(text) is None:
        return text
    left = re.compile(rf"(?P<digraph>{_DIGRAPH.pattern})|{TOKEN.pattern}", TOKEN.flags)
    return left.sub(lambda match: _DIGRAPHS[match.group()] if match.group("digraph") else match.group(), text)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the original text."""

    text: str
    offset: int
    line: int
    """1-based physical line."""
    column: int
    """1-based, in characters."""
    logical: int
    """The physical line at which its logical line (backslash continuations joined) starts."""
    kind: str


@dataclass(frozen=True, slots=True)
class Directive:
    """A preprocessor directive (`#` and what follows) on one logical line."""

    tokens: tuple[Token, ...]
    """`#` first; comments left out."""
    start: int
    """Offset of the first character of its first physical line."""
    end: int
    """Offset one past its newline (or the end of the text)."""

    def words(self) -> tuple[str, ...]:
        """Texts of the tokens after `#`."""
        return tuple(token.text for token in self.tokens[1:])


@dataclass(frozen=True, slots=True)
class Group:
    """`#if` … `#endif` with everything between."""

    directives: tuple[Directive, ...]
    """`#if`, `#elif`, `#else`, `#endif`."""

    @property
    def start(self) -> int:
        """Offset of the line of `#if`."""
        return self.directives[0].start

    @property
    def end(self) -> int:
        """Offset one past the newline of `#endif`."""
        return self.directives[-1].end


@dataclass(slots=True)
class SourceText:
    """A file's text, tokenised once."""

    path: str
    text: str
    tokens: list[Token] = field(default_factory=list)
    """Code tokens in order; directives, comments and white space left out."""
    directives: list[Directive] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _by_logical: dict[int, list[Token]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lines = re.split(r"\r\n|\n", self.text)
        self._starts = [0, *(match.end() for match in re.finditer(r"\n", self.text))]
        for line in self._logical_lines():
            if not line:
                continue
            if line[0].text == "#":
                start = self._starts[line[0].line - 1]
                last = line[-1]
                newline = self.text.find("\n", last.offset + len(last.text))
                self.directives.append(Directive(tuple(line), start, len(self.text) if newline < 0 else newline + 1))
            else:
                self.tokens.extend(line)
            self._by_logical.setdefault(line[0].logical, []).extend(line)

    def _logical_lines(self) -> Iterator[list[Token]]:
        """Tokens of one logical line after another; a comment over several lines joins them in a directive only."""
        line, logical = 1, 1
        current: list[Token] = []
        for match in TOKEN.finditer(self.text):
            kind = match.lastgroup or "punct"
            text = match.group()
            if kind == "newline":
                yield current
                line += 1
                current, logical = [], line
            elif kind in ("splice", "comment", "string", "char"):
                if kind in ("string", "char"):
                    current.append(self._token(match.start(), text, line, logical, kind))
                newlines = text.count("\n")
                line += newlines
                if newlines and kind == "comment" and not (current and current[0].text == "#"):
                    yield current
                    current, logical = [], line
            elif kind == "run":
                current.append(self._token(match.start(), text.rstrip(), line, logical, kind))
                newlines = text.count("\n")
                line += newlines
                if newlines:
                    yield current
                    current, logical = [], line
            elif kind != "space":
                current.append(self._token(match.start(), text, line, logical, kind))
        yield current

    def _token(self, offset: int, text: str, line: int, logical: int, kind: str) -> Token:
        return Token(text, offset, line, offset - self._starts[line - 1] + 1, logical, kind)

    def groups(self) -> Iterator[Group]:
        """The `#if` groups, inner ones first."""
        open_groups: list[list[Directive]] = []
        for directive in self.directives:
            word = next(iter(directive.words()), "")
            if word in ("if", "ifdef", "ifndef"):
                open_groups.append([directive])
            elif word in ("elif", "elifdef", "elifndef", "else", "endif") and open_groups:
                open_groups[-1].append(directive)
                if word == "endif":
                    yield Group(tuple(open_groups.pop()))

    def line_text(self, line: int) -> str | None:
        """Physical line `line` (1-based) without its newline; None when there is no such line."""
        return self._lines[line - 1] if 1 <= line <= len(self._lines) else None

    def line_start(self, line: int) -> int:
        """Offset of the first character of a physical line."""
        return self._starts[min(line, len(self._starts)) - 1]

    def logical_tokens(self, line: int) -> list[Token]:
        """Tokens, directives included, of the logical line that starts at physical line `line`."""
        return self._by_logical.get(line, [])

    def index_at(self, offset: int) -> int:
        """Index in `tokens` of the first token at or after an offset."""
        low, high = 0, len(self.tokens)
        while low < high:
            middle = (low + high) // 2
            if self.tokens[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def span(self, token: Token, length: int | None = None) -> Span:
        """The place of a token; `length` in characters, the token's own when not given."""
        text = self.line_text(token.line)
        room = max(1, len(text or "") - token.column + 1)
        return Span(self.path, token.line, token.column, max(1, min(length or len(token.text), room)), text)

    def line_span(self, line: int) -> Span:
        """The place of a whole line without its indentation."""
        text = self.line_text(line) or ""
        stripped = text.strip()
        column = len(text) - len(text.lstrip()) + 1 if stripped else 1
        return Span(self.path, line, column, max(1, len(stripped)), text)


def statement_end(tokens: list[Token], index: int) -> int:
    """Index one past the last token of the C statement that starts at `tokens[index]`.

    Works on unexpanded text, so a macro that hides braces can mislead it: raises ValueError when the tokens run out.
    """
    if index >= len(tokens):
        raise ValueError("the statement does not end")
    text = tokens[index].text
    if text == "{":
        return matching(tokens, index) + 1
    if text == "do":
        return statement_end(tokens, statement_end(tokens, index + 1) + 1)
    if text in ("for", "while", "if", "switch"):
        after = statement_end(tokens, matching(tokens, index + 1) + 1)
        if text == "if" and after < len(tokens) and tokens[after].text == "else":
            return statement_end(tokens, after + 1)
        return after
    while index < len(tokens):
        if tokens[index].text in ("(", "[", "{"):
            index = matching(tokens, index)
        elif tokens[index].text == ";":
            return index + 1
        index += 1
    raise ValueError("the statement does not end")


def matching(tokens: list[Token], index: int) -> int:
    """Index of the bracket that closes the one at `tokens[index]`. Raises ValueError when there is none."""
    depth = 0
    for position in range(index, len(tokens)):
        if tokens[position].text in ("(", "[", "{"):
            depth += 1
        elif tokens[position].text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return position
        elif depth == 0:
            break
    raise ValueError(f"'{tokens[index].text if index < len(tokens) else '('}' is never closed")
