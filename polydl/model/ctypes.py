"""Sizes of C's arithmetic types on the LP64 data model (System V ABI, x86-64 and AArch64)."""

from __future__ import annotations

from collections.abc import Mapping

from polydl.base.errors import InputError

_BYTES: Mapping[str, int] = {
    "_Bool": 1,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "long": 8,
    "unsigned long": 8,
    "long long": 8,
    "unsigned long long": 8,
    "_Float16": 2,
    "__bf16": 2,
    "float": 4,
    "double": 8,
    "long double": 16,
    "_Complex float": 8,
    "_Complex double": 16,
    **{f"int{bits}_t": bits // 8 for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": bits // 8 for bits in (8, 16, 32, 64)},
    "size_t": 8,
    "ptrdiff_t": 8,
}

_WORD_ORDER = ("unsigned", "signed", "_Complex", "char", "short", "long", "int", "float", "double")


def canonical(ctype: str) -> str:
    """One spelling for each arithmetic type: `long unsigned int` and `unsigned long` are `unsigned long`."""
    words = ctype.split()
    if len(words) > 1 and "int" in words and any(w in words for w in ("short", "long")):
        words.remove("int")
    if words == ["unsigned"]:
        words = ["unsigned", "int"]
    if "signed" in words and words != ["signed", "char"]:
        words = [w for w in words if w != "signed"] or ["int"]
    return " ".join(sorted(words, key=lambda w: _WORD_ORDER.index(w) if w in _WORD_ORDER else -1))


def element_bytes(ctype: str) -> int:
    """sizeof of an element type, in bytes. Raises InputError for a type it does not know."""
    try:
        return _BYTES[canonical(ctype)]
    except KeyError:
        raise InputError(
            f"the size of element type '{ctype}' is not known",
            hint="use one of C's arithmetic types, or a typedef of one",
        ) from None
