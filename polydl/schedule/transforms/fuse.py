"""An element-wise nest inside another nest."""

from __future__ import annotations

from polydl.schedule.transform import Transform


class Fuse(Transform, frozen=True):
    """Move an element-wise nest into another nest: it runs on each element when that one has finished with it (or,
    where it comes first, before it begins).

    before:    for i: for j: for k: C[i][j] += A[i][k] * B[k][j];   for i: for j: C[i][j] = max(C[i][j], 0)
    after:     for i: for j: for k: { C[i][j] += A[i][k] * B[k][j]; at the last k: C[i][j] = max(C[i][j], 0) }
    requires:  schedule.fusion_conditions; into a microkernel, that it computes all of the other nest's blocks
    source:    PolyDL, algorithm 3 (Tavarageri et al., 2021)
    """

    into: str
    """Name of the other nest."""
    loops: tuple[str, ...] = ()
    """Where two nests become one by loop fusion: the loops that they share; empty: at the end of the other's
    reductions."""
