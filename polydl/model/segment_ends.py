"""How far ahead of a segment's entries the program reads: which rows behind its own it goes through, and how many
entries ahead of their use rows that tables lead to are fetched.

Rows of 16 to 256 floats, products of rows at entries, Zen 5: 8 KiB ahead, no less than 8 and no more than 32 rows, is
best or within its spread; a core that looks 200 operations ahead has started on the next 8 short rows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from polydl.model import isl
from polydl.model.scop import Array, Entries

BYTES_AHEAD = 8 << 10
LEAST_AHEAD, MOST_AHEAD, UNKNOWN_AHEAD = 8, 32, 16
"""Entries, also of rows whose length is not known."""
LINE_BYTES = 64
"""That one fetch brings: a cache line of x86, no more than one elsewhere."""
MOST_LINES = 16
"""Lines of a row that are fetched: hardware follows what comes behind."""
AHEAD = "polydl_ahead"
"""Name, in text that is kept, of the number of entries ahead."""
END = "polydl_end"
"""Name, in text that is kept, of the row whose bound is the end of all entries that the program goes through."""
LARGE_BYTES = 1 << 20
"""Arrays with more than this hardly come from a cache of one core's own."""


def is_far(array: Array) -> bool:
    """Whether rows of an array come from past the caches in front, as far as is known."""
    size = array.layout.size
    return size is None or size * array.element.bytes > LARGE_BYTES


def end_of_rows(domain: isl.Set, entries: Entries) -> isl.PwAff:
    """{ S[i…] -> [r] } such that instances over `domain` go through all entries from those of their own row up to
    `array[r]`, which is that of the last row where the rows are consecutive.

    (An entry between `array[i]` and `array[r]` is in one of the segments between, also where bounds decrease.)
    """
    own = entries.row.add_constant_val(isl.value(1))
    rows = isl.Map.from_pw_aff(entries.row).intersect_domain(domain).range().coalesce()
    parts = rows.get_basic_sets()
    if len(parts) != 1 or isl.divisions(parts[0]):
        return own
    (last,) = isl.components(isl.Map.from_domain_and_range(domain, rows).lexmax_pw_multi_aff())
    return last.add_constant_val(isl.value(1)) if len(isl.pieces(last)) == 1 else own


def entries_ahead(arrays: Sequence[Array]) -> int:
    """Entries between the fetch of rows of arrays and their use."""
    known = [BYTES_AHEAD // (n * one.element.bytes) for one in arrays if len(one.shape) > 1 and (n := one.shape[-1])]
    return min(MOST_AHEAD, max(LEAST_AHEAD, min(known))) if known else UNKNOWN_AHEAD
