"""What a contraction's microkernel computes: a block of the output, reductions with strides, steps, windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.kernels.direct_reads import DirectReads
from polydl.model.contraction import WINDOWS
from polydl.model.types import ElementType
from polydl.target.isa import VECTOR_TYPES
from polydl.target.products import FMA, Product
from polydl.target.schemes import Tile, tile_of

MOST_REDUCTIONS = 6

MOST_TAPS = 16
"""Of a reduction whose elements of A are shared by rows: more make too much code."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction loop. Strides in elements, per iteration; None = argument of the function."""

    extent: int | None
    """Iterations, >= 0; None = argument of the function."""
    a_stride: int | None
    b_stride: int | None
    a_table: str = field(default="", repr=False)
    """C type of a table of integers, an argument of the function, whose entries say by how many strides A moves; empty:
    the number of the iteration does."""
    b_table: str = field(default="", repr=False)
    """The same of B: batch-reduce GEMM with offsets (Georganas et al., TPP)."""

    @property
    def by_table(self) -> bool:
        """Whether a table says how an operand moves."""
        return bool(self.a_table or self.b_table)


@dataclass(frozen=True, slots=True)
class Step:
    """`m = f(x, y, m)`, x of A, y of B, in every iteration of the reductions, in their order: it starts from the
    element of C, or from a number."""

    vector: str
    """C of the vector f(x, y, m)."""
    plain: str
    """C of f(x, y, m) on elements."""
    start: str = ""
    """C of the vector that m starts from; empty: C's elements."""
    plain_start: str = ""
    """C of the element that it starts from."""
    prologue: tuple[str, ...] = field(default=(), repr=False)
    """What must stand before the function, after `isa_prologue`."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Elements of A that several rows of a block have in common: row i's at tap t is row i + 1's at tap t - rate."""

    loop: int
    """The index of the reduction over the taps."""
    taps: int
    """Its iterations."""
    rate: int
    """By how many taps the next row is ahead."""


@dataclass(frozen=True, slots=True)
class MicrokernelSpec:
    """What a microkernel computes: for i < m_rt, j < n_rt, over all reduction iterations r

    C[i*c_m + j] = beta * C[i*c_m + j] ± alpha * sum_r A[i*a_m + r.a_stride] * B[j + r.b_stride]

    B and C have unit stride along j, the vector dimension; C overlaps neither A nor B. With beta = 0, C is not read.
    """

    dtype: ElementType
    m: int
    """Rows of the largest block the function is called with, >= 1."""
    n: int
    """Columns of the largest block, elements, >= 1."""
    a_m: int | None
    """Elements between rows of A; None = argument."""
    c_m: int | None
    """Elements between rows of C; None = argument."""
    reductions: tuple[Reduction, ...]
    """Outermost first; none: a single product (outer product)."""
    beta: int = 1
    negate: bool = False
    """Subtract the product."""
    alpha: bool = False
    """A last scalar argument multiplies the sum once."""
    remainders: bool = True
    """False: only ever called with m_rt = m and n_rt = n, so that no code for smaller blocks is made (it is a
    multiple of the rest, in bytes and in the compiler's time)."""
    prefetch: int = 0
    """Innermost iterations ahead at which B is prefetched; 0 = not at all."""
    prefetch_rows: int = 0
    """Elements ahead at which the rows of A are prefetched, where neighbours along the innermost reduction are
    neighbours in memory; 0 = not at all. Pays where rows stream from memory: hardware follows few streams at once, and
    each to the end of its page (1024x16x500000 GEMM, 29 rows: 24 GB/s without, 30 with 64 elements)."""
    prefetch_next: bool = field(default=False, repr=False)
    """Fetch the rows of B that the next entry of its table leads to while those of this one are used: hardware does not
    foresee them. Only where the innermost reduction but one has the table."""
    prefetch_output: bool = False
    """Fetch the block of C for writing before the reduction, so that it has arrived when the sums are stored. Pays
    where the rows of C lie far apart, which the hardware does not foresee."""
    epilogue: tuple[str, ...] = ()
    """C statements run on every vector before it is stored. They see `polydl_acc` (the vector, to be changed),
    `polydl_row`, `polydl_column` (of its first lane, from the start of the block), `POLYDL_FETCH(pointer)` (a vector
    load of the lanes in range) and the prologue's `polydl_f32_*` functions."""
    epilogue_parameters: tuple[str, ...] = ()
    """C declarations of further arguments the epilogue uses: `const float *bias`."""
    stores: bool = field(default=True, repr=False)
    """False: the epilogue stores what is made of the sums, and C, which nothing reads any more, stays as it is."""
    product: Product = field(default=FMA, repr=False)
    """Where it multiplies groups, A and B are words of them, and strides and extents count groups."""
    in_place: bool = field(default=False, repr=False)
    """A's words are elements of an array of the program's, with their type and alignment, instead of a copy."""
    step: Step | None = field(default=None, repr=False)
    """What takes the place of the sum of products; None: nothing does."""
    window: int = field(default=0, repr=False)
    """Elements between neighbours of A along j, one of `WINDOWS`: A[i*a_m + j*window + r.a_stride]; 0: A does not move
    along j."""
    scalar_b: bool = field(default=False, repr=False)
    """B does not move along j: B[r.b_stride]. Only of windows."""
    long: str = field(default="", repr=False)
    """Long vectors that it has code for (`target.isa.LONG`); empty: none."""
    direct: DirectReads | None = field(default=None, repr=False)
    """A and B are of other types than the sum, and no copies: strides of B count its elements, also where words are put
    together of them."""

    @property
    def word(self) -> ElementType:
        """What A and B are made of."""
        return self.product.word(self.dtype)

    @property
    def tile(self) -> Tile | None:
        """The tiles that it multiplies: along the innermost reduction A has unit stride, and tiles their words. None:
        vectors."""
        return tile_of(self.product)

    def __post_init__(self) -> None:
        """Raises ValueError for a contradictory specification."""
        if self.m < 1 or self.n < 1:
            raise ValueError(f"a block of {self.m} x {self.n} has no elements")
        if len(self.reductions) > MOST_REDUCTIONS:
            raise ValueError(f"{len(self.reductions)} reduction loops, at most {MOST_REDUCTIONS}")
        if self.beta not in (0, 1):
            raise ValueError(f"beta must be 0 or 1, not {self.beta}")
        if self.dtype not in self.product.sums:
            raise ValueError(f"{self.product.name} does not compute in {self.dtype}")
        if (self.step is not None or self.window) and (self.product.in_words or self.dtype not in VECTOR_TYPES):
            raise ValueError("steps and windows are of elements that have vectors")
        if self.step is not None and (self.negate or self.alpha):
            raise ValueError("a step says itself what becomes of the output")
        if self.window not in (0, *WINDOWS):
            raise ValueError(f"no vectors of elements that lie {self.window} apart")
        if self.scalar_b and not self.window:
            raise ValueError("one of the operands moves along the columns")
        if any(r.by_table for r in self.reductions) and self.product.in_words and not self.direct:
            raise ValueError("tables are for operands that are no copies")
        if self.direct is not None and (self.step is not None or self.window or self.in_place != self.product.in_words):
            raise ValueError("operands of other types are read for products, of words of A as they are")
        tile = self.tile
        if tile is not None and (self.m % tile.rows or self.n % tile.columns):
            raise ValueError(f"a block of {self.m} x {self.n} is no whole number of tiles")
        if tile is not None and (not self.reductions or self.reductions[-1].extent != tile.steps):
            raise ValueError("the innermost reduction of tiles is over the words of one")
        if self.in_place and not self.product.in_words:
            raise ValueError("elements have no words to be read as")
        if (
            any(r.extent is not None and r.extent < 0 for r in self.reductions)
            or min(self.prefetch, self.prefetch_rows) < 0
        ):
            raise ValueError("extents and prefetch distances are >= 0")


def shared_taps(a_m: int | None, reductions: Sequence[Reduction]) -> Shared | None:
    """Which elements of A the rows of a window share; None: none. Every place is written out."""
    for index, one in enumerate(reductions):
        if a_m and one.a_stride and one.extent is not None and a_m % one.a_stride == 0:
            rate = a_m // one.a_stride
            if 0 < rate < one.extent <= MOST_TAPS:
                return Shared(index, one.extent, rate)
    return None
