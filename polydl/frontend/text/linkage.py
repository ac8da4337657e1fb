"""`extern "C"` of C++, without which a file may be C."""

from __future__ import annotations

import re

from polydl.frontend.text.scan import SourceText, Token, matching

_LINKAGE = re.compile(r'\bextern\s+"C(?:\+\+)?"')


def as_c(text: str) -> str:
    """The text of a file with `extern "C" {` and the brace that closes it blanked, `extern "C"` alone as `extern`;
    offsets and lines stay. What stands in an `#if`, as that on `__cplusplus`, is left as it is."""
    if _LINKAGE.search(text) is None:
        return text
    source = SourceText("", text)
    tokens = source.tokens
    conditional = [(group.start, group.end) for group in source.groups()]
    blank: list[Token] = []
    for at, token in enumerate(tokens[:-2]):
        if token.text != "extern" or tokens[at + 1].text not in ('"C"', '"C++"'):
            continue
        if any(start <= token.offset < end for start, end in conditional):
            continue
        blank.append(tokens[at + 1])
        if tokens[at + 2].text == "{":
            try:
                closing = matching(tokens, at + 2)
            except ValueError:
                continue
            blank += [token, tokens[at + 2], tokens[closing]]
    for token in blank:
        end = token.offset + len(token.text)
        text = text[: token.offset] + " " * len(token.text) + text[end:]
    return text
