"""Generated functions that add up segments, and that share out rows: what they say of themselves.

They are taken for what they say where their text is what polydl writes for it, to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from polydl.kernels.segment_sum import SumFactor, segment_function, shares_function
from polydl.model.types import F32, F64, I32, ElementType, spelled

_STATED = re.compile(
    r"/\* (The sum over p < n(?:, c < (\d+))? of ([^\n]*), in another order)\. \*/\n"
    r"static [^\n]*?(\w+) (polydl_entries_\w+)\(const ptrdiff_t n([^\n]*)\)\n"
)
_SHARES = re.compile(r"^static [^\n]*\bint polydl_shares_\w+\(const ([\w ]+?) \*ptr,", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StatedSum:
    """What a function adds up."""

    text: str
    factors: tuple[SumFactor, ...]
    """In the order of its parameters."""
    depth: int
    """Products of an entry."""


def stated_sums(text: str) -> Mapping[str, StatedSum]:
    """The functions of a file that add up segments, by name."""
    found: dict[str, StatedSum] = {}
    for stated in _STATED.finditer(text):
        said, depth, summary, type_, name, declared = stated.groups()
        element, factors = spelled(type_), _factors(summary, declared)
        if element not in (F32, F64) or factors is None:
            continue
        assert element is not None
        made = segment_function(element, factors, int(depth or 1))
        threads = made.on_threads if f"{name}_on_threads" in text else ""
        if made.name == name and all(part in text for part in (*made.prologue, threads)):
            found[name] = StatedSum(said[0].lower() + said[1:], tuple(factors), int(depth or 1))
    return found


def _factors(summary: str, declared: str) -> list[SumFactor] | None:
    tables = {name: spelled(type_) for type_, name in re.findall(r"const ([\w ]+?) \*(x\d+)_table", declared)}
    names = [name for name in re.findall(r"(\w+)(?:,|$)", declared) if not name.endswith("_table")]
    found: list[SumFactor] = []
    for name in names:
        one = _factor(summary, name, tables.get(name))
        if one is None:
            return None
        found.append(one)
    return found


def _factor(summary: str, name: str, table: ElementType | None) -> SumFactor | None:
    place = re.escape(f"{name}_table[p]") if table is not None else "p"
    moved = re.search(rf"\b{name}\[{place}(?: \* (\d+))?( \+ c)?\]", summary)
    if moved is not None:
        return SumFactor(name, True, table, int(moved.group(1) or 1), moved.group(2) is not None)
    if table is None and re.search(rf"\b{name}\b", summary):
        return SumFactor(name, False, None, along=f"{name}[c]" in summary)
    return None


def sharing(text: str) -> frozenset[str]:
    """The functions of a file that divide rows among threads."""
    found: set[str] = set()
    for type_ in _SHARES.findall(text):
        name, made = shares_function(spelled(type_) or I32)
        found |= {name} if made in text else set()
    return frozenset(found)
