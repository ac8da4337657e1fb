"""Attributes of GNU C that lay structures out otherwise: the parser's text has none left, the preprocessed text has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pycparser import c_ast

from polydl.frontend.text.chunks import unescape
from polydl.frontend.text.preprocess import LINE_MARKER

_LAYOUT = re.compile(r"__attribute(?:__)?\s*\(\([^;{}]*?\b_*(?:packed|aligned|ms_struct|scalar_storage_order)_*\b")
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+pack\b", re.MULTILINE)
_BRACES = re.compile(r"\"(?:\\.|[^\"\\])*\"|[{};]")


class LayoutAttributes:
    """Of a preprocessed file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._everywhere = _PRAGMA.search(text) is not None
        self._anywhere = _LAYOUT.search(text) is not None
        self._lines: Mapping[tuple[str, int], list[int]] | None = None

    def of(self, node: c_ast.Struct | c_ast.Union) -> bool:
        """Whether a structure that is declared whole may be laid out otherwise than the ABI says."""
        if self._everywhere or not self._anywhere or node.coord is None:
            return self._everywhere
        if self._lines is None:
            self._lines = _lines(self._text)
        starts = self._lines.get((str(node.coord.file), int(node.coord.line)), [])
        return any(self._within(start + int(node.coord.column or 1) - 1) for start in starts)

    def _within(self, at: int) -> bool:
        """Whether the declaration around an offset has such an attribute."""
        begin = max(self._text.rfind(mark, 0, at) for mark in ";{}") + 1
        depth, end = 0, len(self._text)
        for match in _BRACES.finditer(self._text, begin):
            depth += (match[0] == "{") - (match[0] == "}")
            if match[0] == ";" and depth <= 0:
                end = match.end()
                break
        return _LAYOUT.search(self._text, begin, end) is not None


def _lines(text: str) -> dict[tuple[str, int], list[int]]:
    """Where the lines of files begin in the preprocessed text."""
    found: dict[tuple[str, int], list[int]] = {}
    file, number, start = "", 1, 0
    for line in text.split("\n"):
        if marker := LINE_MARKER.match(line):
            file, number = unescape(marker.group(2)), int(marker.group(1))
        else:
            found.setdefault((file, number), []).append(start)
            number += 1
        start += len(line) + 1
    return found
