"""The text of a region as it was written."""

from __future__ import annotations

import re

from polydl.model.scop import Scop

_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+(?:polydl\b(?:.*\\\r?\n)*.*|(?:end)?scop\b.*)$", re.MULTILINE)


def without_pragmas(text: str) -> str:
    """The region's text without polydl's pragmas, which compilers warn about (-Wunknown-pragmas)."""
    return re.sub(r"\n{2,}", "\n", _PRAGMA.sub("", text)) if _PRAGMA.search(text) else text


def original_text(scop: Scop) -> str:
    """The region as it was written, from the beginning of its first line, without polydl's pragmas."""
    text, start = scop.source.text, scop.region.start
    line = text.rfind("\n", 0, start) + 1
    start = line if not text[line:start].strip() else start
    return without_pragmas(text[start : scop.region.end]).strip("\r\n")
