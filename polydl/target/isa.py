"""Vector instruction sets as the microkernel generator sees them: registers, ports, and which blocks they can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model.contraction import Contraction, Lack, NoContraction, judged
from polydl.model.scop import Scop, Statement
from polydl.model.types import F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, ElementType
from polydl.target.products import FMA, MACROS, SVE, Product, Rate, inner_product


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


NARROW = (16, 32)
"""Bytes of the short vectors that a core of x86 with longer ones has beside them."""


def narrow_name(element: ElementType, width: int) -> str:
    """What the generated code calls short vectors, behind `polydl_`: `f32x4`."""
    return f"{element.name}x{width // element.bytes}"


def narrow_lanes(isa: Isa) -> dict[str, tuple[int, ElementType]]:
    """By their name the lanes of short vectors, and of what: half as long as the usual ones, or less; where intrinsics
    have none, they are the usual ones (templates/microkernel_narrow.c.j2)."""
    found = ((element, width) for element in VECTOR_TYPES for width in NARROW)
    longest = isa.vector_bytes if isa.intrinsics else 0
    return {narrow_name(t, width): (width // t.bytes if width < longest else isa.lanes(t), t) for t, width in found}


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
    """Whether the prologue has the shuffles for two reduction steps at a time (see `register_blocks.paired_rows`)."""
    shares: tuple[tuple[int, int, float], ...] = ()
    """(rows, vectors, fraction of the FMA peak) of register blocks that were measured on a machine."""
    intrinsics: str = ""
    """Header of the intrinsics that the prologue's operations are written with; empty: the compiler's own vectors."""
    predicates: str = ""
    """Header of the intrinsics with which the first lanes of a vector are loaded and stored under a predicate, all else
    being the compiler's own vectors; empty: it has none."""
    flags: tuple[str, ...] = ()
    """What a compiler must be told so that it uses vectors of this length."""
    kind: str = ""
    """Under which name products have rates for it; empty: its own."""
    features: tuple[str, ...] = ()
    """Extensions that the machine has beside, as Linux names them: `avx512_vnni`."""
    window: int = 0
    """Not 0: the elements of A are vectors of their own for each row, of which the next rows share all but one of so
    many taps; 1: none (`windowed`)."""
    apart: int = 1
    """Elements between neighbours of such a vector in memory: of more than one, it is put together from two."""
    measured: tuple[tuple[str, float], ...] = ()
    """(inner product, its words per cycle over FMAs per cycle) as it was measured on a machine, in place of the share
    in `target.products`."""

    @property
    def rated(self) -> str:
        """Under which name products have rates for it."""
        return self.kind or self.name

    @property
    def condition(self) -> str:
        """C preprocessor condition after `isa_prologue`; empty for the portable one, the fallback."""
        return f"defined({self.macro})" if self.compiler else ""

    def lanes(self, element: ElementType) -> int:
        """Elements per vector."""
        return self.vector_bytes // element.bytes

    def multiplying(self, product: Product) -> Isa:
        """The same with another inner product in place of the FMA: its rate, its latency, the registers it needs."""
        rate = product.rate(self.rated, self.features)
        if rate is None:
            return self
        share = dict(self.measured).get(product.measured_as or product.name, rate.share)
        return self._at(replace(rate, share=share))

    def has(self, product: Product) -> bool:
        """Whether there are instructions for a product, those of vectors being of all instruction sets."""
        return product.behind is None or product.rate(self.rated, self.features) is not None

    def ways(self, product: Product) -> list[tuple[str, Isa]]:
        """(C preprocessor condition after `isa_prologue`, `multiplying` where it holds) for each of the ways that the
        instruction set has, fastest first; the last one's is `condition`."""
        plain, rates = replace(self, features=(), measured=()), product.rates.get(self.rated, ())
        extended = [(f"{self.condition} && defined({MACROS[r.feature]})", plain._at(r)) for r in rates if r.feature]
        return [*extended, (self.condition, plain.multiplying(product))]

    def windowed(self, taps: int, apart: int = 1) -> Isa:
        """The same for blocks that read A in vectors (`window`, `apart`)."""
        return replace(self, window=taps, apart=apart, pairs=False, shares=()) if taps else self

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


def _scalable(bits: int, fmas: float, latency: int) -> Isa:
    """SVE as its code is compiled with -msve-vector-bits (Arm C Language Extensions, "Fixed-length SVE types")."""
    return Isa(
        f"sve{bits}", f"defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == {bits}", f"POLYDL_SVE{bits}",
        bits // 8, 32, fmas=fmas, loads=2, latency=latency, scratch=1,
        predicates="arm_sve.h", flags=(f"-msve-vector-bits={bits}",), kind=SVE,
    )  # fmt: skip


LONG: tuple[Isa, ...] = (
    # A64FX (Fujitsu, A64FX Microarchitecture Manual); Neoverse V1 and V2 (Arm's optimisation guides).
    _scalable(512, 2, 9),
    _scalable(256, 2, 4),
    _scalable(128, 4, 4),
)
"""Long vectors of one length, which an output has code for where it is made for a machine that is said to have them."""


def written(long: str = "") -> tuple[Isa, ...]:
    """The instruction sets that an output has code for, in the order of its #if chain; `long`: the name of one of
    `LONG`, before the vectors that the same processors have beside it."""
    return tuple(one for each in ISAS for one in ((isa(long), each) if long and each.name == "neon" else (each,)))


def long_vectors(name: str) -> str:
    """`name` where it is that of one of `LONG`; else empty."""
    return name if any(one.name == name for one in LONG) else ""


def isa(name: str) -> Isa:
    """The instruction set called `name` (`avx512`, `avx2`, `neon`, `generic`, or one of `LONG`). Raises KeyError."""
    for candidate in (*ISAS, *LONG):
        if candidate.name == name:
            return candidate
    raise KeyError(name)
