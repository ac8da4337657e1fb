"""The text of a region as it was written."""

from __future__ import annotations

import re

_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+(?:polydl\b(?:.*\\\r?\n)*.*|(?:end)?scop\b.*)$", re.MULTILINE)


def without_pragmas(text: str) -> str:
    """The region's text with polydl's pragmas left out, so that `-Wunknown-pragmas` has nothing to say."""
    return re.sub(r"\n{2,}", "\n", _PRAGMA.sub("", text)) if _PRAGMA.search(text) else text
