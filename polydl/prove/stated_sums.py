"""Generated functions that add up segments, and that share out rows: what they say of themselves.

They are taken for what they say where their text is what polydl writes for it, to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.kernels.segment_sum import SumFactor, segment_function, shares_function
from polydl.model.types import F32, F64, I32, ElementType, spelled

_STATED = re.compile(
    r"/\* (The sums? over p < n(?:, c < (\d+))? of ([^\n]*?)(?:, r < (\d+))?, in another order)\. \*/\n"
    r"static [^\n]*?(\w+) (polydl_entries_\w+)\(const ptrdiff_t n(?:, (\w+) \*restrict sums)?([^\n]*)\)\n"
)
_SHARES = re.compile(r"^static [^\n]*\bint polydl_shares_\w+\(const ([\w ]+?) \*ptr,", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StatedSum:
    """What a function adds up."""

    text: str
    factors: tuple[SumFactor, ...]
    """In the order of its parameters."""
    depth: int
    """Products of an entry, in a row."""
    rows: int
    """That it adds up together."""


def stated_sums(text: str) -> Mapping[str, StatedSum]:
    """The functions of a file that add up segments, by name."""
    found: dict[str, StatedSum] = {}
    for stated in _STATED.finditer(text):
        said, depth, summary, rows, type_, name, type_of_rows, declared = stated.groups()
        element = spelled(type_of_rows or type_)
        factors = _factors(summary, declared, element)
        if element not in (F32, F64, I32) or factors is None:
            continue
        assert element is not None
        made = segment_function(element, factors, int(depth or 1), int(rows or 1))
        threads = made.on_threads if f"{name}_on_threads" in text else ""
        if made.name == name and all(part in text for part in (*made.prologue, threads)):
            found[name] = StatedSum(said[0].lower() + said[1:], tuple(factors), int(depth or 1), int(rows or 1))
    return found


def _factors(summary: str, declared: str, element: ElementType | None) -> list[SumFactor] | None:
    types = {name: spelled(type_) for type_, name in re.findall(r"const ([\w ]+?) \*?(x\d+(?:_table)?)\b", declared)}
    found: list[SumFactor] = []
    for name in (one for one in types if not one.endswith("_table")):
        one = _factor(summary, name, types.get(f"{name}_table"))
        if one is None:
            return None
        found.append(one if types[name] is element else replace(one, narrow=types[name]))
    return found


def _factor(summary: str, name: str, table: ElementType | None) -> SumFactor | None:
    place = re.escape(f"{name}_table[p]") if table is not None else "p"
    found = re.search(rf"\b{name}\b(?:\[({place})?(?: \* (\d+))?( \+ )?(?:r \* (\d+))?(?: \+ )?(c)?\])?", summary)
    if found is None or (table is not None and found.group(1) is None):
        return None
    moves, step, _, row, along = found.groups()
    made = SumFactor(name, moves is not None, table, int(step or 1), along is not None, int(row or 0))
    return made if f"{made.plain}" in summary else None


def sharing(text: str) -> frozenset[str]:
    """The functions of a file that divide rows among threads."""
    found: set[str] = set()
    for type_ in _SHARES.findall(text):
        name, made = shares_function(spelled(type_) or I32)
        found |= {name} if made in text else set()
    return frozenset(found)
