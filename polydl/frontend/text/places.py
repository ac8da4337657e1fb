"""From a place in preprocessed text back to the token of the original file that it came from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice

from pycparser.c_ast import Node

from polydl.base.errors import InputError, Span
from polydl.frontend.text.chunks import unescape
from polydl.frontend.text.outline import compiled
from polydl.frontend.text.preprocess import LINE_MARKER
from polydl.frontend.text.scan import TOKEN, SourceText, Token, matching, statement_end

_MOST_ALIGNED = 100_000
"""Tokens of a preprocessed line that are told apart: macros can make millions of one line, which then all stand where
the last of these stands."""

_NO_TOKENS = ("space", "newline", "splice", "comment")


class Places:
    """Maps (file, line, column) of preprocessed text to original tokens.

    A line that macros changed is aligned token by token with the original logical line (longest matching blocks);
    a token that a macro produced maps to the macro's name.
    """

    def __init__(self, source: SourceText, parsed: str) -> None:
        self.source = source
        self._parsed = parsed
        self._segments: dict[int, list[str]] | None = None
        self._tokens: list[Token] | None = None
        self._aligned: dict[int, list[tuple[int, Token]]] = {}

    def _segments_of(self, line: int) -> list[str]:
        if self._segments is None:
            self._segments = {}
            for number, text in self._own_lines():
                if text.strip() and not text.lstrip().startswith("#pragma polydl "):
                    self._segments.setdefault(number, []).append(text)
        return self._segments.get(line, [])

    def _own_lines(self) -> Iterator[tuple[int, str]]:
        """The lines of preprocessed text that come from the file, each with its number there."""
        file, number = "", 1
        for text in self._parsed.split("\n"):
            if marker := LINE_MARKER.match(text):
                file, number = unescape(marker.group(2)), int(marker.group(1))
                continue
            if file == self.source.path:
                yield number, text
            number += 1

    def _alignment(self, line: int) -> list[tuple[int, Token]]:
        """(column in the preprocessed line, original token), sorted by column; columns of all segments together."""
        if line in self._aligned:
            return self._aligned[line]
        original = self.source.logical_tokens(line)
        expanded: list[Token] = []
        for segment in self._segments_of(line):
            expanded += islice(_tokens_of(segment, line), _MOST_ALIGNED - len(expanded))
        texts = [token.text for token in expanded]
        names = [token.text for token in original]
        aligned: list[tuple[int, Token]] = []
        if texts == names:
            aligned = [(one.column, token) for one, token in zip(expanded, original, strict=True)]
        elif original:
            for _, a0, a1, b0, b1 in SequenceMatcher(None, texts, names, autojunk=False).get_opcodes():
                for at in range(a0, a1):
                    same = b1 - b0 == a1 - a0 and texts[at] == names[b0 + at - a0]
                    target = b0 + at - a0 if same else b0
                    aligned.append((expanded[at].column, original[min(target, len(original) - 1)]))
        aligned.sort(key=lambda pair: pair[0])
        self._aligned[line] = aligned
        return aligned

    def token(self, line: int, column: int) -> Token | None:
        """The original token at or before a column of the preprocessed line; None when the line has none."""
        aligned = self._alignment(line)
        if not aligned:
            return None
        at = bisect_right(aligned, column, key=lambda pair: pair[0])
        return aligned[max(0, at - 1)][1]

    def token_of(self, node: Node) -> Token | None:
        """The original token at which a pycparser node starts; None when it is in another file."""
        coord = getattr(node, "coord", None)
        if coord is None or str(coord.file) != self.source.path:
            return None
        return self.token(int(coord.line), int(coord.column or 1))

    def statement(self, node: Node) -> tuple[Token, Token] | None:
        """The original tokens at which a statement that macros may have made starts and ends: all of the macros' uses
        that it comes from. None where they make more than the statement, or where that is not known."""
        coord = getattr(node, "coord", None)
        if coord is None or str(coord.file) != self.source.path:
            return None
        expanded = self._expanded()
        here = (int(coord.line), int(coord.column or 1))
        firsts = [k for k, token in enumerate(expanded) if (token.line, token.column) == here]
        if len(firsts) != 1:
            return None
        first = firsts[0]
        try:
            last = statement_end(expanded, first) - 1
        except ValueError:
            return None
        start, end = (self._exactly(expanded[k]) for k in (first, last))
        if start is None or end is None:
            return None
        tokens = self.source.tokens
        at = self.source.index_at(end.offset)
        if end.text != expanded[last].text:  # a macro's name: its use ends behind its arguments
            if at + 1 < len(tokens) and tokens[at + 1].text == "(":
                try:
                    at = matching(tokens, at + 1)
                except ValueError:
                    return None
            end = tokens[at]
        before, behind = self.source.index_at(start.offset) - 1, at + 1
        neighbours = [(first - 1, before), (last + 1, behind)]
        for k, original in neighbours:
            known = 0 <= k < len(expanded) and 0 <= original < len(tokens)
            if not known or self._exactly(expanded[k]) != tokens[original]:
                return None
        return start, end

    def _exactly(self, one: Token) -> Token | None:
        """The original token of a token of the preprocessed text."""
        return next((token for at, token in self._alignment(one.line) if at == one.column), None)

    def _expanded(self) -> list[Token]:
        """The tokens of the file's own preprocessed text."""
        if self._tokens is None:
            lines = ((number, text) for number, text in self._own_lines() if not text.lstrip().startswith("#"))
            self._tokens = [token for number, text in lines for token in _tokens_of(text, number)]
        return self._tokens

    def compiled_tokens(self) -> list[Token]:
        """The tokens of the file, but for those in branches of an `#if` that are not compiled."""
        return compiled(self.source, {token.line for token in self._expanded()})

    def span(self, node: Node | None) -> Span | None:
        """The place of a pycparser node, subscripts included in its length; None when nothing is known."""
        if node is None:
            return None
        token = self.token_of(node)
        if token is None:
            coord = getattr(node, "coord", None)
            return None if coord is None else Span(str(coord.file), int(coord.line), int(coord.column or 1))
        return self.source.span(token, self._length(token))

    def _length(self, token: Token) -> int:
        """Characters from a token to the end of the subscripts that follow it, on its line."""
        tokens = self.source.logical_tokens(token.logical)
        at = next(i for i, other in enumerate(tokens) if other.offset == token.offset)
        end = token
        while token.kind == "name" and at + 1 < len(tokens) and tokens[at + 1].text == "[":
            try:
                at = matching(tokens, at + 1)
            except ValueError:
                break
            end = tokens[at]
        return end.offset + len(end.text) - token.offset if end.line == token.line else len(token.text)

    def error(self, reason: str, node: Node | None, hint: str | None = None, topic: str | None = None) -> InputError:
        """An input error at a node."""
        return InputError(reason, self.span(node), hint, topic)


def _tokens_of(text: str, line: int) -> Iterator[Token]:
    """The tokens of a line of preprocessed text."""
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "punct"
        if kind not in _NO_TOKENS:
            yield Token(match.group(), match.start(), line, match.start() + 1, line, kind)
