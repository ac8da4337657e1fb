"""Statements whose results nobody reads."""

from __future__ import annotations

from dataclasses import replace

from polydl.model.scop import Scop, Storage


def without_dead(scop: Scop) -> Scop:
    """The scop without statements that write only arrays which are neither live after it nor read by what stays.

    Whole statements and whole arrays are judged: an array that one kept statement reads anywhere keeps all its writers.
    Arrays stay in `Scop.arrays` as far as the region's own text needs them. A scop that is dead as a whole stays as
    it is.
    """
    wanted = set(scop.live_out)
    kept: set[str] = set()
    while True:
        more = [
            s for s in scop.statements if s.name not in kept and any(a.write and a.array in wanted for a in s.accesses)
        ]
        if not more:
            break
        kept |= {s.name for s in more}
        wanted |= {a.array for s in more for a in s.accesses if not a.write}
    if not kept or len(kept) == len(scop.statements):
        return scop
    statements = tuple(s for s in scop.statements if s.name in kept)
    used = {a.array for s in statements for a in s.accesses}
    arrays = {n: a for n, a in scop.arrays.items() if n in used or a.storage is not Storage.REGION}
    return replace(scop, statements=statements, arrays=arrays)
