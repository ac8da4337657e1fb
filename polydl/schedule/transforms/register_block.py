"""The innermost block of a contraction in a generated microkernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from polydl.base.errors import InputError
from polydl.dependences.nests import Nest
from polydl.schedule.limits import BLOCKS, Limits
from polydl.schedule.loops import KernelLoops, Loop, LoopTransform, NestLoops
from polydl.schedule.transform import stated
from polydl.schedule.transforms.tile import Tile
from polydl.target.products import BYTES, MATRICES, SINGLE, in_matrices, of_bytes


class Microkernel(LoopTransform, frozen=True):
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
    statement: str = stated("")
    """The statement; may be left out when the nest has only one."""
    product: str = ""
    """The inner product, where it is not that of the operands' types: `dot_8`, of groups of four bytes; `tile`
    and `mmla`, of matrices in registers; `fma`, of single elements in the type of the sum (`target.products`)."""

    def applied(self, structure: NestLoops) -> NestLoops:
        if structure.nest.contraction is None:
            raise InputError(f"nest {structure.nest.name} is not a contraction: no microkernel can be made for it")
        loops = list(structure.loops)

        def block(name: str, size: int) -> Loop:
            loop = structure.loop(name)
            if size < 1 or loop.step != 1 or (loop.within is not None and loop.within % size):
                raise InputError(f"a microkernel block of {size} does not fit loop '{name}'")
            loops[loops.index(loop)] = replace(loop, step=size)
            return Loop(f"{name}.mk", loop.iterator, 1, size)

        rows = None if self.rows is None else block(self.rows, self.m)
        columns = block(self.columns, self.n)
        reductions = []
        for name in self.reduce:
            loop = structure.loop(name)
            if loop.step != 1:
                raise InputError(f"loop '{name}' cannot run inside the microkernel: it is not innermost in its tile")
            reductions.append(loop)
            loops.remove(loop)
        if self.product not in ("", BYTES, SINGLE, *MATRICES):
            known = ", ".join((BYTES, *MATRICES))
            raise InputError(f"no inner product '{self.product}'", hint=f"there are {known} and {SINGLE}")
        operands = (structure.nest.contraction.left, structure.nest.contraction.right)
        if self.product == BYTES and not all(of_bytes(operand.element) for operand in operands):
            raise InputError(f"{BYTES} takes integers of 8 bits", hint="leave the product out")
        sums = structure.nest.contraction.element
        elements = (operands[0].element, operands[1].element, sums)
        if self.product in MATRICES and in_matrices(self.product, *elements) is None:
            raise InputError(f"{self.product} takes pairs of bf16 or integers of 8 bits", hint="leave the product out")
        inside = KernelLoops(rows, columns, tuple(reductions), self.product)
        return structure.after(self, loops=tuple(loops), kernel=inside)


def microkernels(limits: Limits) -> Iterator[Microkernel | None]:
    """Register blocks with more or fewer reductions inside: what is tried; None where there is no microkernel."""
    nest, space = limits.nest, limits.space
    found = nest.contraction
    if found is None or not unit_columns(nest):
        yield None
        return
    reductions = [i for i in found.reductions if nest.counts[i].extent != 1]
    allowed = unit_columns(nest)
    possible = [b for b in limits.blocks(nest) if b[1] in allowed]
    tried = possible[: space.blocks]
    for matrices in (False, True):  # which of both is faster is for estimates of the whole nest
        alike = [b for b in possible if (b[4:] != () and b[-1] in MATRICES) == matrices]
        tried += [b for b in alike[:1] if b not in tried]
    limits.pruned[BLOCKS] += len(possible) - len(tried)
    for rows, columns, m, n, *product in tried:
        for inside in range(max(len(reductions), 1)):
            yield Microkernel(rows, columns, m, n, tuple(reductions[inside:]), product=product[0] if product else "")


def unit_columns(nest: Nest) -> tuple[str, ...]:
    """Columns loops whose steps, as counted, are neighbours in memory."""
    assert nest.contraction is not None
    upwards = [c for c in nest.contraction.columns() if c not in nest.statements[0].descending]
    neighbours = [c for c in upwards if nest.counts[c].stride == 1]
    return tuple(c for c in neighbours if nest.box or not nest.contraction.copied(c))


def inside_tiles(kernel: Microkernel, tiles: Sequence[Tile]) -> Microkernel:
    """The microkernel takes the innermost piece of a tiled loop."""
    point = {tile.loop: f"{tile.loop}.{len(tile.sizes)}" for tile in tiles}
    rows = None if kernel.rows is None else point.get(kernel.rows, kernel.rows)
    reduce = tuple(point.get(r, r) for r in kernel.reduce)
    columns = point.get(kernel.columns, kernel.columns)
    return Microkernel(rows, columns, kernel.m, kernel.n, reduce, product=kernel.product)
