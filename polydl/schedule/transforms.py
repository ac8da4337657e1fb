"""Transforms of one loop nest. A transform is a small frozen value; a variant is a list of them (`Recipe`).

In JSON a transform is an object of its fields and its class's name under `transform`; fields that have their default
are left out, but for those made by `_stated`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class _Transform(Struct, frozen=True, tag_field="transform", tag=True, omit_defaults=True, forbid_unknown_fields=True):
    """How all of them are read and written."""


def _stated(default: Any) -> Any:
    """A default that is written to JSON even so: ids of recipes are digests of the JSON, and must not change."""
    return field(default_factory=lambda: default)


class Tile(_Transform, frozen=True):
    """Split one loop into nested tile loops and a point loop.

    before:    for i in [0, N)
    after:     for i.0 in [0, ceil(N / s0)): for i.1 in [0, s0 / s1): … for i.n in [0, s_last)
    invariant: i == i.0*s0 + i.1*s1 + … + i.n; partial tiles run short
    requires:  sizes strictly decreasing, each dividing the one before, the last > 1
    """

    loop: str
    sizes: tuple[int, ...]
    """Iterations of the original loop per tile, outermost tile first."""


class Microkernel(_Transform, frozen=True):
    """Give the innermost block of a contraction to a generated microkernel.

    before:    for … for rows for columns for reduce…: C[…] += A[…] * B[…]
    after:     for … for rows step m for columns step n: microkernel(m, n, reduce…, &A[…], &B[…], &C[…])
    invariant: each instance runs in exactly one call; the order inside a call is the microkernel's own
    requires:  C and B have unit stride in `columns`, A does not use it; C and A use `rows`, B does not; the
               `reduce` loops do not appear in C; no dependence but the accumulation inside a block
    source:    TPP's batch-reduce GEMM (Georganas et al., 2021); outer-product kernels as in BLIS
    """

    rows: str | None
    """Loop over the rows of the register block; None for a single row."""
    columns: str
    """Loop over the vectorised columns."""
    m: int
    """Rows per call, at least 1."""
    n: int
    """Columns per call, in elements, at least 1."""
    reduce: tuple[str, ...]
    """Reduction loops that run inside the call, outermost first."""
    statement: str = _stated("")
    """The statement; may be left out when the nest has only one."""


class Permute(_Transform, frozen=True):
    """Reorder the loops that are not inside a microkernel.

    before:    for i: for j: for k
    after:     for k: for i: for j     (order = k, i, j)
    requires:  every dependence stays lexicographically positive
    """

    order: tuple[str, ...]
    """Every loop, outermost first."""


class Parallelize(_Transform, frozen=True):
    """Run one loop, or several adjacent ones collapsed into one, on all threads; or up to three on a grid of threads.

    before:    for i: for j
    after:     #pragma omp parallel for collapse(2) / for i: for j
    grid:      #pragma omp parallel for collapse(2) schedule(static, 1) / for r in [0, R): for c in [0, C):
                   for i in block r of R: … for j in block c of C
    summed:    zero ways copies of the output / grid, block r accumulating into copy r / add the copies in order
    requires:  no dependence (accumulations included) is carried by these loops; on a grid none between iterations
               that differ in one of them, whatever sequential loop between them carries it; between blocks of the
               `summed` loop accumulations, and nothing else
    source:    PARLOOPER's two ways of parallelisation (Georganas et al., 2023)
    """

    loops: tuple[str, ...]
    """Outermost first; adjacent unless on a grid."""
    schedule: str = ""
    """Arguments of OpenMP's schedule clause, as `dynamic,1`; empty: no clause; `hilbert`: the iterations of two loops
    in the order of a generalised Hilbert curve, of which each thread runs one contiguous piece."""
    axes: str = ""
    """On a grid the axis of each loop, one letter per loop: R (rows), C (columns), L (layers); empty: no grid."""
    ways: tuple[int, ...] = ()
    """On a grid into how many blocks each loop is cut."""
    barriers: tuple[str, ...] = ()
    """Loops at whose end all threads wait. None of them is inside a parallel loop, and each parallel loop ends in a
    barrier anyway: these are kept as a part of the variant's text only."""
    summed: str = ""
    """On a grid the reduction loop whose blocks have a copy of the output each: the sums are reassociated, in the same
    way for any number of threads; empty: none."""


class Pack(_Transform, frozen=True):
    """Copy what the loops further inside use of one operand into a contiguous, aligned buffer.

    before:    for i: for j: … microkernel(&A[…], …)
    after:     for i: copy of A's part; for j: … microkernel(&buffer[…], …)
    invariant: the buffer is laid out in the order of the inner loops that move the operand, then the microkernel's
               reductions, then its rows (or columns): unit stride where the microkernel reads
    requires:  a microkernel and a rectangular nest (the operand, unlike the output, is never written in it); not
               between collapsed parallel loops
    source:    the paper's data packing; BLIS; TPP-MLIR's pack
    """

    operand: str
    """`A` (moved by rows, broadcast along columns) or `B` (read in vectors) of the microkernel."""
    after: str
    """The loop inside which the copy is made, once per iteration; empty: once, before all loops."""
    function: str = ""
    """The generated function that makes the copy ahead of time, once for many runs; empty: each run makes its own."""


class Fuse(_Transform, frozen=True):
    """Move an element-wise nest into another nest: it runs on each element when that one has finished with it (or,
    where it comes first, before it begins).

    before:    for i: for j: for k: C[i][j] += A[i][k] * B[k][j];   for i: for j: C[i][j] = max(C[i][j], 0)
    after:     for i: for j: for k: { C[i][j] += A[i][k] * B[k][j]; at the last k: C[i][j] = max(C[i][j], 0) }
    requires:  rewrite.conditions; into a microkernel, that it computes all of the other nest's blocks
    source:    PolyDL, algorithm 3 (Tavarageri et al., 2021)
    """

    into: str
    """Name of the other nest."""
    loops: tuple[str, ...] = ()
    """Where two nests become one by loop fusion: the loops that they share; empty: at the end of the other's
    reductions."""


class Schedule(_Transform, frozen=True):
    """Order the statements of one or several nests anew, whatever their shape.

    before:    the loops as they are written
    after:     a schedule tree: tiled bands, tiles in wavefronts, the outermost independent loop parallel, the loop
               with the best strides innermost and in vectors
    requires:  every dependence stays lexicographically positive; parallel and vector loops carry none
    source:    isl's schedulers; Bondhugula et al., PLDI 2008; time skewing (Wonnacott, 2000)
    """

    base: str
    """Where the tree comes from: `written`, `skewed`, or a setting of isl's scheduler (`pluto-max`, …)."""
    sizes: tuple[int, ...] = ()
    """Tile sizes of each permutable band, outermost loop first; the last one holds for all further in."""
    parallel: bool = _stated(True)
    simd: bool = _stated(True)
    diagonal: bool = False
    """Where the innermost loop waits for its own results: run the two innermost loops along diagonals, whose
    iterations are independent."""
    outer: int = 1
    """Tiles of a second level hold this many tiles in each direction; 1: one level."""
    block: tuple[int, ...] = ()
    """Rows and columns of the microkernel that takes the whole tiles of contractions; empty: they stay loops."""
    unroll: bool = False
    """Write short innermost loops out, and run the loop around them in vectors."""


class Vectorize(_Transform, frozen=True):
    """Run innermost loops without a microkernel as vector functions, wherever their statements allow it.

    before:    for j in [0, N): T = f(x[j]); y[j] = T > 0 ? T : 0
    after:     row(N, &x[0], &y[0])
    requires:  no dependence between the iterations of a row but a sum or an extreme (kernels.rows)
    """

    stream: tuple[str, ...] = ()
    """Arrays that are stored past the caches."""
    keep_order: int = 0
    """1: sums stay in their order, which leaves them out."""


Transform = Tile | Microkernel | Permute | Parallelize | Pack | Fuse | Vectorize | Schedule
