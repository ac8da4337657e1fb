"""Vector instruction sets as the microkernel generator sees them: registers, ports, and which blocks they can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from polydl.model.contraction import Contraction, Lack, NoContraction, judged
from polydl.model.scop import Scop, Statement
from polydl.model.types import F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, ElementType
from polydl.target.products import FMA, MACROS, Product, Rate, inner_product


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """How the x86 intrinsics spell an element type."""

    letters: str
    """Suffix of the operations: `ps`."""
    register_letter: str
    """Suffix of the register types: `__m512` + ''."""


VECTOR_TYPES: Mapping[ElementType, Intrinsics] = {F32: Intrinsics("ps", ""), F64: Intrinsics("pd", "d")}
"""The element types that have vectors in all kinds of kernels. Contractions may be of others: `target.products`."""
WHOLE_TYPES = (I8, U8, I16, U16, I32, U32, I64, U64)
"""Integers that rows have vectors of, too."""
ROW_TYPES = (*VECTOR_TYPES, *WHOLE_TYPES)


def lanes_name(element: ElementType) -> str:
    """What the generated code calls vectors of a row's type, behind `polydl_`: `f32`, `i8s`."""
    return f"{element.name}s" if element.is_int else element.name


def kernel_contraction(scop: Scop, statement: Statement, *, in_place: bool = False) -> Contraction | None:
    """The contraction that a statement computes, where microkernels are generated for its element types; else None.

    `in_place`: see `model.contraction.contraction`.
    """
    found = kernel_judged(scop, statement, in_place=in_place)
    return found if isinstance(found, Contraction) else None


def kernel_judged(scop: Scop, statement: Statement, *, in_place: bool = False) -> Contraction | NoContraction:
    """What `kernel_contraction` finds, or the first thing that is missing."""
    found = judged(scop, statement, in_place=in_place)
    if isinstance(found, NoContraction):
        return found
    if found.element not in FMA.sums:
        return NoContraction(Lack.ELEMENT, found.output.access)
    return found if inner_product(found) is not None else NoContraction(Lack.OPERANDS, found.left.access)


def has_register_blocks(scop: Scop, statement: Statement) -> bool:
    """Whether a statement is a contraction that microkernels keep blocks of in registers."""
    found = kernel_contraction(scop, statement)
    return found is not None and found.in_blocks


@dataclass(frozen=True, slots=True)
class Isa:
    """A vector instruction set with the execution resources of its usual cores.

    Figures: uops.info and Agner Fog's microarchitecture manual for x86 (Skylake-X and later, Zen 4 and 5 for
    AVX-512; Haswell and later, Zen 2 and later for AVX2), Arm's Neoverse N1/V1 optimisation guides for NEON.
    """

    name: str
    compiler: str
    """C preprocessor condition under which the compiler may use it; empty for the portable one, the fallback."""
    macro: str
    """Defined to 1 by `isa_prologue` where this one was chosen."""
    vector_bytes: int
    registers: int
    """Architectural vector registers."""
    fmas: float
    """Vector FMAs per cycle."""
    loads: int
    """Vector loads (or broadcasts from memory) per cycle, from the first-level cache."""
    latency: int
    """Cycles from one FMA to the next that needs its result."""
    scratch: int
    """Registers the inner loop needs beside the accumulators and the held vectors of B."""
    pairs: bool = False
    """Whether the prologue has the shuffles for two reduction steps at a time (see `paired_rows`)."""
    shares: tuple[tuple[int, int, float], ...] = ()
    """(rows, vectors, fraction of the FMA peak) of register blocks that were measured on a machine."""
    intrinsics: str = ""
    """Header of the intrinsics that the prologue's operations are written with; empty: the compiler's own vectors."""
    features: tuple[str, ...] = ()
    """Extensions that the machine has beside, as Linux names them: `avx512_vnni`."""
    window: int = 0
    """Not 0: the elements of A are vectors of their own for each row, of which the next rows share all but one of so
    many taps; 1: none (`windowed`)."""
    measured: tuple[tuple[str, float], ...] = ()
    """(inner product, its words per cycle over FMAs per cycle) as it was measured on a machine, in place of the share
    in `target.products`."""

    @property
    def condition(self) -> str:
        """C preprocessor condition after `isa_prologue`; empty for the portable one, the fallback."""
        return f"defined({self.macro})" if self.compiler else ""

    def lanes(self, element: ElementType) -> int:
        """Elements per vector."""
        return self.vector_bytes // element.bytes

    def multiplying(self, product: Product) -> Isa:
        """The same with another inner product in place of the FMA: its rate, its latency, the registers it needs."""
        rate = product.rate(self.name, self.features)
        if rate is None:
            return self
        share = dict(self.measured).get(product.measured_as or product.name, rate.share)
        return self._at(replace(rate, share=share))

    def ways(self, product: Product) -> list[tuple[str, Isa]]:
        """(C preprocessor condition after `isa_prologue`, `multiplying` where it holds) for each of the ways that the
        instruction set has, fastest first; the last one's is `condition`."""
        plain, rates = replace(self, features=(), measured=()), product.rates.get(self.name, ())
        extended = [(f"{self.condition} && defined({MACROS[r.feature]})", plain._at(r)) for r in rates if r.feature]
        return [*extended, (self.condition, plain.multiplying(product))]

    def windowed(self, taps: int) -> Isa:
        """The same for blocks that read A in vectors (`window`)."""
        return replace(self, window=taps, pairs=False, shares=()) if taps else self

    def _at(self, rate: Rate) -> Isa:
        return replace(
            self,
            fmas=self.fmas * rate.share,
            latency=rate.latency,
            scratch=self.scratch + rate.scratch,
            pairs=False,
            shares=(),
        )


_X86 = "immintrin.h"

# Most capable first: the order of the #if chain.
ISAS: tuple[Isa, ...] = (
    Isa(
        "avx512", "defined(__AVX512F__)", "POLYDL_AVX512", 64, 32,
        fmas=2, loads=2, latency=4, scratch=1, pairs=True, intrinsics=_X86,
    ),
    Isa(
        "avx2", "defined(__AVX2__) && defined(__FMA__)", "POLYDL_AVX2", 32, 16,
        fmas=2, loads=2, latency=4, scratch=1, pairs=True, intrinsics=_X86,
    ),
    Isa("neon", "defined(__aarch64__)", "POLYDL_VECTOR16_32", 16, 32, fmas=2, loads=2, latency=4, scratch=1),
    # Two-operand SSE without FMA: the product needs a register of its own.
    Isa("generic", "", "POLYDL_VECTOR16_16", 16, 16, fmas=1, loads=2, latency=8, scratch=2),
)  # fmt: skip


def isa(name: str) -> Isa:
    """The instruction set called `name` (`avx512`, `avx2`, `neon`, `generic`). Raises KeyError."""
    for candidate in ISAS:
        if candidate.name == name:
            return candidate
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """The accumulators that stay in registers during the reduction: `rows` x `vectors`."""

    rows: int
    vectors: int
    held: int
    """Vectors of B held at once (`held_vectors`); if not all, A is broadcast again for the second half."""
    by_rows: bool
    """The elements of A are held, and the vectors of B are loaded one by one (`holds_rows`)."""
    steps: int
    """Steps of the innermost reduction that are written one after the other (`unrolled`)."""


def held_vectors(target: Isa, rows: int, vectors: int) -> int:
    """How many vectors of B to hold beside rows x vectors accumulators; 0 when the block would spill.

    All of them where they fit. Else two even halves with a register to spare, since the loads of the second overlap
    the FMAs of the first. More than two groups: gcc 12 keeps the vectors of several in registers, and spills.
    """
    free = target.registers - target.scratch - rows * vectors
    if target.window:
        # A vector of A, and the vectors of B that its taps are multiplied with.
        return vectors if free > target.window * vectors else 0
    half = -(-vectors // 2)
    return vectors if free >= vectors else half if free > half else 0


def holds_rows(target: Isa, rows: int, vectors: int) -> bool:
    """Whether the elements of A are held beside rows x vectors accumulators instead of the vectors of B: these do not
    all fit, those do, and each of both is loaded once."""
    used = rows * vectors + target.scratch
    return not target.window and used + vectors > target.registers >= used + rows


def unrolled(rows: int, vectors: int) -> int:
    """Steps of the innermost reduction between two branches. Three scalar instructions close the loop, and compete with
    the FMAs for ports: with two steps of 6 x 2 vectors instead of one, 9 to 12 % more speed in the first-level cache
    (Golden Cove, AVX2); beyond 24 FMAs nothing is gained (experiments/microkernel_peak.py)."""
    return next((steps for steps in (1, 2) if steps * rows * vectors >= _BODY), 4)


_BODY = 24
"""FMAs between two branches."""


def paired_rows(target: Isa) -> int:
    """The most rows of a block one vector wide that takes two reduction steps at a time; 0 where it never does.

    Such a block broadcasts pairs of neighbours of A, interleaves two rows of B and has two accumulators per row: half
    the loads, half the latency. Beside them, the two interleaved rows stay in registers.
    """
    return (target.registers - target.scratch - 2) // 2 if target.pairs else 0


def _loads(target: Isa, rows: int, vectors: int, paired: bool) -> float:
    """Vector loads of one step of the innermost reduction."""
    if target.window:
        # Neighbouring taps start in the middle of a line: of vectors as long as one, each touches two.
        crossing = 1 + target.vector_bytes / 128
        return crossing * vectors * (rows + target.window - 1) / target.window + vectors
    if paired and vectors == 1 and rows <= paired_rows(target):
        return 1 + rows / 2
    if holds_rows(target, rows, vectors):
        return rows + vectors
    held = held_vectors(target, rows, vectors)
    if held == 0:
        raise ValueError(f"{rows} x {vectors} accumulators do not fit {target.name}")
    return vectors + rows * -(-vectors // held)


def cycles(target: Isa, rows: int, vectors: int, paired: bool = False) -> float:
    """Cycles of one step of the innermost reduction for a register block, operands in the first-level cache.

    The slowest of the FMA ports, the load ports (each vector of B once, each element of A broadcast once for each
    group of held vectors) and the latency of the FMA, on which each accumulator waits for itself. `paired`: A allows
    blocks one vector wide to take two steps at a time.
    Raises ValueError for a block that does not fit the registers.
    """
    steps = 2 if paired and vectors == 1 and rows <= paired_rows(target) else 1
    loads = _loads(target, rows, vectors, paired)
    return max(rows * vectors / target.fmas, loads / target.loads, target.latency / steps)


def fits(target: Isa, rows: int, vectors: int) -> bool:
    """Whether the accumulators of a block stay in registers."""
    return held_vectors(target, rows, vectors) > 0 or holds_rows(target, rows, vectors)


def _fitting(target: Isa, most_rows: int, most_vectors: int) -> Iterator[tuple[int, int]]:
    for vectors in range(1, most_vectors + 1):
        for rows in range(1, most_rows + 1):
            if fits(target, rows, vectors):
                yield rows, vectors


def _cover(extent: int, step: int) -> list[tuple[int, int]]:
    """(size, how many) of the pieces when `extent` is cut into pieces of `step` and a remainder."""
    whole, rest = divmod(extent, step)
    return [(size, count) for size, count in ((step, whole), (rest, 1)) if size and count]


@cache
def split_block(target: Isa, element: ElementType, m: int, n: int, paired: bool = False) -> RegisterBlock:
    """The register block that covers m rows x n elements in the fewest modelled cycles.

    Remainders count for what they cost, so blocks that divide m x n are preferred; ties go to the fewest pieces,
    then to the fewest loads.
    """
    vectors_in_all = -(-n // target.lanes(element))

    def price(block: tuple[int, int]) -> tuple[float, int, float]:
        rows, vectors = block
        pieces = [
            (r, v, rows_times * vectors_times)
            for r, rows_times in _cover(m, rows)
            for v, vectors_times in _cover(vectors_in_all, vectors)
        ]
        return (
            sum(times * cycles(target, r, v, paired) for r, v, times in pieces),
            sum(times for _, _, times in pieces),
            sum(times * _loads(target, r, v, paired) for r, v, times in pieces),
        )

    rows, vectors = min(_fitting(target, m, vectors_in_all), key=price)
    return RegisterBlock(
        rows,
        vectors,
        held_vectors(target, rows, vectors) or 1,
        holds_rows(target, rows, vectors),
        unrolled(rows, vectors),
    )


def efficiency(element: ElementType, target: Isa, m: int, n: int, paired: bool = False) -> float:
    """Modelled fraction of the FMA peak, in (0, 1], of an m x n block (elements) on data in the first-level cache.

    Counts lanes that a masked last vector leaves empty as lost. Any m, n >= 1: split into register blocks as
    `split_block` does.
    """
    block = split_block(target, element, m, n, paired)
    spent = sum(
        rows_times * vectors_times * cycles(target, r, v, paired)
        for r, rows_times in _cover(m, block.rows)
        for v, vectors_times in _cover(-(-n // target.lanes(element)), block.vectors)
    )
    return m * n / (target.lanes(element) * target.fmas) / spent


def register_blocks(element: ElementType, target: Isa, least: float = 0.9) -> tuple[tuple[int, int], ...]:
    """The (m, n) blocks, in elements, whose accumulators stay in registers, best modelled efficiency first.

    Only those whose `efficiency` is at least `least`; n is a whole number of vectors. Ties: the larger block first,
    then the squarer, since both lower the traffic of A and B.
    """
    lanes = target.lanes(element)
    # More than eight vectors leave each with fewer than four rows to be used in.
    blocks = [(rows, vectors) for rows, vectors in _fitting(target, target.registers, 8)]
    scored = [
        (-efficiency_of(target, rows, vectors), -rows * vectors, abs(rows - vectors), rows, vectors)
        for rows, vectors in blocks
    ]
    return tuple((rows, vectors * lanes) for score, _, _, rows, vectors in sorted(scored) if -score >= least)


def efficiency_of(target: Isa, rows: int, vectors: int) -> float:
    """Modelled fraction of the FMA peak of one register block of full vectors."""
    return rows * vectors / target.fmas / cycles(target, rows, vectors)
