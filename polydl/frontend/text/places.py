"""From a place in preprocessed text back to the token of the original file that it came from."""

from __future__ import annotations

from bisect import bisect_right
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from polydl.base.errors import InputError, Span
from polydl.frontend.text.chunks import unescape
from polydl.frontend.text.preprocess import LINE_MARKER
from polydl.frontend.text.scan import TOKEN, SourceText, Token, matching

_MOST_ALIGNED = 100_000
"""Tokens of a preprocessed line that are told apart: macros can make millions of one line, which then all stand where
the last of these stands."""


class Places:
    """Maps (file, line, column) of preprocessed text to original tokens.

    A line that macros changed is aligned token by token with the original logical line (longest matching blocks);
    a token that a macro produced maps to the macro's name.
    """

    def __init__(self, source: SourceText, parsed: str) -> None:
        self.source = source
        self._parsed = parsed
        self._segments: dict[int, list[str]] | None = None
        self._aligned: dict[int, list[tuple[int, Token]]] = {}

    def _segments_of(self, line: int) -> list[str]:
        if self._segments is None:
            self._segments = {}
            file, number = "", 1
            for text in self._parsed.split("\n"):
                marker = LINE_MARKER.match(text)
                if marker:
                    file, number = unescape(marker.group(2)), int(marker.group(1))
                    continue
                if file == self.source.path and text.strip() and not text.lstrip().startswith("#pragma polydl "):
                    self._segments.setdefault(number, []).append(text)
                number += 1
        return self._segments.get(line, [])

    def _alignment(self, line: int) -> list[tuple[int, Token]]:
        """(column in the preprocessed line, original token), sorted by column; columns of all segments together."""
        if line in self._aligned:
            return self._aligned[line]
        original = self.source.logical_tokens(line)
        expanded: list[tuple[int, str]] = []
        for segment in self._segments_of(line):
            found = (
                (match.start() + 1, match.group())
                for match in TOKEN.finditer(segment)
                if match.lastgroup not in ("space", "newline", "splice", "comment")
            )
            expanded += islice(found, _MOST_ALIGNED - len(expanded))
        texts = [text for _, text in expanded]
        names = [token.text for token in original]
        aligned: list[tuple[int, Token]] = []
        if texts == names:
            aligned = [(column, token) for (column, _), token in zip(expanded, original, strict=True)]
        elif original:
            for _, a0, a1, b0, b1 in SequenceMatcher(None, texts, names, autojunk=False).get_opcodes():
                for at in range(a0, a1):
                    same = b1 - b0 == a1 - a0 and texts[at] == names[b0 + at - a0]
                    target = b0 + at - a0 if same else b0
                    aligned.append((expanded[at][0], original[min(target, len(original) - 1)]))
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

    def token_of(self, node: Any) -> Token | None:
        """The original token at which a pycparser node starts; None when it is in another file."""
        coord = getattr(node, "coord", None)
        if coord is None or str(coord.file) != self.source.path:
            return None
        return self.token(int(coord.line), int(coord.column or 1))

    def span(self, node: Any) -> Span | None:
        """The place of a pycparser node, subscripts included in its length; None when nothing is known."""
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

    def error(self, reason: str, node: Any, hint: str | None = None, topic: str | None = None) -> InputError:
        """An input error at a node."""
        return InputError(reason, self.span(node), hint, topic)
