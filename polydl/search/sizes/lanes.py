"""Chains of unknown length in the lanes of a vector loop around them, at every size.

    for i < n: { r = c[0]; for k < m: r = r * x[i] + c[k]; y[i] = r; }

No iteration of the inner loop can begin before the last one ends, but those of different i can: each lane runs the
inner loop by itself. What is searched for known sizes writes short chains out, which no other length takes.
"""

from __future__ import annotations

from polydl.base.errors import QuotaExceeded
from polydl.model import isl
from polydl.model.isl import quota
from polydl.schedule.resized import on_one_thread
from polydl.schedule.tree import Node, Run, bands
from polydl.search.candidates import as_written
from polydl.search.sizes.code import Setting
from polydl.search.sizes.partial_sums import together
from polydl.search.sizes.searched_families import Base, Candidate


def candidates_in_lanes(base: Base, setting: Setting) -> tuple[list[Candidate], list[str]]:
    """The program in the order as written, with vector loops around others, on all threads and on one; none where no
    loop suits that. And what was left out, with the reason."""
    try:
        with quota("vector loops around others for every size", setting.effort.operations):
            parts = tuple(
                as_written(base.scop, group, base.dependences, reassociate=setting.reassociate, unroll=True)
                for group in together(base.scop)
            )
    except (QuotaExceeded, isl.Error) as error:
        return [], [f"vector loops around others: {error}"]
    if not any(runs_lanes(part.tree) for part in parts):
        return [], []
    alone = Candidate(base, tuple(map(on_one_thread, parts)))
    return [Candidate(base, parts), alone] if setting.threads > 1 else [alone], []


def runs_lanes(node: Node) -> bool:
    """Whether a vector loop has another loop inside that is not written out."""
    return any(
        band.members[-1].run is Run.SIMD and any(not m.unroll for inner in bands(band.child) for m in inner.members)
        for band in bands(node)
    )
