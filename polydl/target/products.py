"""Inner products: the instructions with which microkernels multiply elements of two types and add up what they make.

Every row computes in the type of the sum, one lane for each column. Those that multiply `group` neighbours along a
reduction at once read words of 32 bits from copies of both operands, which hold a group side by side; where the
extent ends inside a group, the copies have zeros.

A new instruction is a row here, the C of its function in `templates/microkernel_dot.c.j2`, and one in scalar code in
`polydl/include/polydl_emulate.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from polydl.base.records import dataclass
from polydl.model.contraction import OLD, Contraction
from polydl.model.expr import Binary, Call, Conditional, Expr, operands
from polydl.model.functions import function_of
from polydl.model.types import BF16, F32, F64, I8, I16, I32, U8, ElementType

SVE = "sve"
"""Vectors of any fixed length, whose instructions are the same (`target.isa.Isa.kind`)."""
ARM_BF16 = BF16.name
"""FEAT_BF16: Linux calls the extension as the type is called."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How an instruction set multiplies and adds, next to its FMA."""

    feature: str
    """Feature of the instruction set that it needs (`Simd.features`); empty: none."""
    share: float
    """Words per cycle over FMAs per cycle."""
    latency: int
    """Cycles from one to the next that adds to its result."""
    scratch: int = 0
    """Registers that it needs beside those of an FMA."""


@dataclass(frozen=True, slots=True)
class Product:
    """An inner product."""

    name: str
    """Part of the names of generated functions: `fma`, `dot_i16`."""
    group: int = 1
    """Neighbours along a reduction in one lane of an operand."""
    a: ElementType | None = None
    """Of the elements of A's copy; None: that of the sum."""
    b: ElementType | None = None
    """Of the elements of B's copy; None: that of the sum."""
    sums: tuple[ElementType, ...] = ()
    """Types that it computes in."""
    rates: Mapping[str, tuple[Rate, ...]] = field(default_factory=dict, hash=False)
    """By the name of an instruction set, fastest first; as its FMA where there is none."""
    function: str = ""
    """The C function that it calls; empty: that of its name."""
    correction: int = 0
    """Where it is not 0, A's copy has the highest bit of its elements the other way round, which takes unsigned ones
    for signed ones of 128 less and signed ones for unsigned ones of 128 more; B's copy has, behind the steps of a
    panel, one more word for each column: the sum of the column times this, which the kernel starts from."""

    measured_as: str = ""
    """The inner product that takes the same instructions, whose rate is measured in its place; empty: its own."""
    scheme: str = field(default="outer", repr=False)
    """Which blocks are kept in registers and how operands lie: a name of `target.schemes.SCHEMES`."""
    behind: Product | None = field(default=None, repr=False)
    """What vector code multiplies with on the same copies, where a core or its system has not this one; None: it is
    vector code itself."""
    instruction: str = field(default="", repr=False)
    """Of matrices: the instruction, as the C of its scheme calls it."""

    @property
    def in_words(self) -> bool:
        """Whether the operands are words of groups."""
        return self.group > 1

    @property
    def call(self) -> str:
        """Name of its C function behind the prefix of all."""
        return self.function or self.name

    def word(self, sums: ElementType) -> ElementType:
        """What the microkernel loads from the operands."""
        return I32 if self.in_words else sums

    def copy(self, role: str, sums: ElementType) -> ElementType:
        """Of the elements of the copy of A, or of B."""
        return (self.a if role == "A" else self.b) or sums

    def rate(self, isa: str, features: tuple[str, ...]) -> Rate | None:
        """The fastest way of an instruction set with these features; None: at the rate of its FMA."""
        return next((r for r in self.rates.get(isa, ()) if not r.feature or r.feature in features), None)


FMA = Product("fma", sums=(F32, F64, I32))
"""A product of one element of each, in the type of the sum."""

_SUMMED = 4
"""Cycles of an addition, a minimum, or a product, of each instruction set's usual cores."""


def step_product(step: Expr) -> Product:
    """What stands in place of the FMA where the output is made anew in another way (`Contraction.step`): as many
    instructions as the expression has parts, each of them once, a product and what is added to it being one."""
    parts = dict.fromkeys(_instructions(step))
    chain = _SUMMED * max(1, _depth(step))
    share = 1 / max(1.0, sum(map(_count, parts)))
    rate = (Rate("", share, chain, 1),)
    return Product("step", sums=(F32, F64), rates=dict.fromkeys(("avx512", "avx2", "neon", "generic", SVE), rate))


_CHOICE = 3.0
"""Instructions of a function that chooses one of two arguments: of a number and a NaN it gives the number."""


def _count(part: Expr) -> float:
    row = function_of(part.function) if isinstance(part, Call) else None
    return _CHOICE if row is not None and row.chooses and row.arity > 1 else 1.0


def _instructions(value: Expr) -> Iterator[Expr]:
    """The parts of an expression that are instructions. A choice between the two sides of its comparison is one."""
    match value:
        case Binary("+" | "-", Binary("*", left, right), other) | Binary("+" | "-", other, Binary("*", left, right)):
            inside: tuple[Expr, ...] = (left, right, other)
        case Conditional(Binary("<" | ">", left, right), then, otherwise) if {left, right} == {then, otherwise}:
            inside = (left, right)
        case _:
            inside = operands(value)
    for part in inside:
        yield from _instructions(part)
    if inside:
        yield value


def _depth(value: Expr) -> int:
    """Instructions from the old value to the new one."""
    if value == OLD:
        return 0
    found = [_depth(part) for part in operands(value)]
    compares = isinstance(value, Binary) and value.op in ("<", ">")
    return max((depth if compares else depth + 1 for depth in found if depth >= 0), default=-1)


# uops.info: VPDPWSSD and VPMADDWD + VPADDD on Zen 4 and Ice Lake, VDPBF16PS on Zen 4. SDOT, USDOT and BFDOT as those of
# Neoverse N2 (LLVM's AArch64SchedNeoverseN2.td, after Arm's optimization guide), not measured.
DOT_I16 = Product(
    "dot_i16", 2, I16, I16, (I32,),
    {
        "avx512": (Rate("avx512_vnni", 1.0, 4), Rate("", 0.67, 1, 1)),
        "avx2": (Rate("avx_vnni", 1.0, 4), Rate("", 0.75, 1, 1)),
        "neon": (Rate("", 0.5, 4, 2),),
        "generic": (Rate("", 0.25, 8, 4),),
        SVE: (Rate("", 0.5, 4, 2),),
    },
)  # fmt: skip
"""Pairs of integers of at most 16 bits, exactly: sums are modulo 2^32, as far as C gives them a meaning."""

DOT_BF16 = Product(
    "dot_bf16", 2, BF16, BF16, (F32,),
    {
        "avx512": (Rate("avx512_bf16", 1.0, 6), Rate("", 0.4, 8, 2)),
        "avx2": (Rate("", 0.4, 8, 2),),
        "neon": (Rate(ARM_BF16, 1.0, 2), Rate("", 0.4, 8, 2)),
        "generic": (Rate("", 0.25, 16, 4),),
        SVE: (Rate("svebf16", 1.0, 2), Rate("", 0.4, 8, 2)),
    },
)  # fmt: skip
"""Pairs of bf16. The instruction takes denormal operands and sums for zero, and rounds to nearest even whatever the
rounding mode is (Intel, Software Developer's Manual, VDPBF16PS); that of Arm takes them for zero too, and rounds to odd
after each step (Arm Architecture Reference Manual, BFDOT)."""

_BYTES = {
    "avx512": (Rate("avx512_vnni", 1.0, 4), Rate("", 0.25, 4, 6)),
    "avx2": (Rate("avx_vnni", 1.0, 4), Rate("", 0.25, 4, 4)),
    "neon": (Rate("i8mm", 1.0, 1), Rate("asimddp", 0.5, 1, 2), Rate("", 0.2, 8, 4)),
    "generic": (Rate("", 0.1, 16, 6),),
    SVE: (Rate("svei8mm", 1.0, 1), Rate("", 0.5, 1, 2)),
}  # fmt: skip
DOT_8: Mapping[tuple[ElementType, ElementType], Product] = {
    (U8, I8): Product("dot_u8i8", 4, U8, I8, (I32,), _BYTES),
    (I8, U8): Product("dot_i8u8", 4, I8, U8, (I32,), _BYTES, measured_as="dot_u8i8"),
    (I8, I8): Product("dot_i8i8", 4, U8, I8, (I32,), _BYTES, "dot_u8i8", -128, "dot_u8i8"),
    (U8, U8): Product("dot_u8u8", 4, I8, U8, (I32,), _BYTES, "dot_i8u8", 128, "dot_u8i8"),
}
"""Groups of four integers of 8 bits, by the types of A and B; the instruction takes unsigned ones of one and signed
ones of the other (VPDPBUSD, USDOT: neither saturates). Only where there is this instruction: else pairs are faster."""

_SAME_BYTES = {
    "avx512": (Rate("", 0.25, 4, 6),),
    "avx2": (Rate("", 0.25, 4, 4),),
    "neon": (Rate("asimddp", 1.0, 1), Rate("", 0.2, 8, 4)),
    "generic": (Rate("", 0.1, 16, 6),),
    SVE: (Rate("", 1.0, 1),),
}  # fmt: skip
DOT_SIGNED = Product("dot_signed", 4, I8, I8, (I32,), _SAME_BYTES, measured_as="dot_u8i8")
DOT_UNSIGNED = Product("dot_unsigned", 4, U8, U8, (I32,), _SAME_BYTES, measured_as="dot_u8i8")
"""Groups of four integers of 8 bits of one sign (SDOT, UDOT): what stands behind matrices of them."""


def _in_tiles(of: Product, instruction: str, feature: str) -> Product:
    # TDPBF16PS and TDPBUSD (Intel, Optimization Reference Manual, "Intel AMX"): one in 16 cycles, each 16 x 16 x 16
    # words, which is eight times two FMAs of 16 lanes; done after 52. Not measured.
    return replace(
        of, name=of.name.replace("dot", "tile"), rates={"avx512": (Rate(feature, 8.0, 52),)}, function=of.call,
        measured_as=of.measured_as.replace("dot", "tile"), scheme="tile", behind=of, instruction=instruction,
    )  # fmt: skip


TILE_BF16 = _in_tiles(DOT_BF16, "dpbf16ps", "amx_bf16")
"""Pairs of bf16 in tiles. Sums of the even products and of the odd ones of a tile are rounded apart, then added up;
denormal numbers are zeros (Intel, Software Developer's Manual, TDPBF16PS)."""
TILE_8: Mapping[tuple[ElementType, ElementType], Product] = {
    types: _in_tiles(of, "dpbusd" if of.call == "dot_u8i8" else "dpbsud", "amx_int8") for types, of in DOT_8.items()
}
"""Groups of four integers of 8 bits in tiles, exactly, on the copies that `DOT_8` reads."""
TILE_SIGNED = _in_tiles(DOT_SIGNED, "dpbssd", "amx_int8")
TILE_UNSIGNED = _in_tiles(DOT_UNSIGNED, "dpbuud", "amx_int8")
"""The same of one sign without a correction, where A is read as it is. The vector code behind them is slower."""


def _in_blocks(of: Product, instruction: str, feature: str, latency: int) -> Product:
    # SMMLA and BFMMLA multiply 2 x 2 blocks over two words, as often as FMAs of four lanes start: Arm's Neoverse V1
    # Software Optimization Guide. Not measured.
    return replace(
        of, name=of.name.replace("dot", "mmla"), rates={"neon": (Rate(feature, 2.0, latency),)}, function=of.call,
        measured_as=of.measured_as.replace("dot", "mmla"), scheme="mmla", behind=of, instruction=instruction,
    )  # fmt: skip


MMLA_BF16 = _in_blocks(DOT_BF16, "bfmmla", ARM_BF16, 3)
"""Pairs of bf16, four along the reduction, as two BFDOTs one after the other (Arm Architecture Reference Manual)."""
MMLA_8: Mapping[tuple[ElementType, ElementType], Product] = {
    (U8, I8): _in_blocks(DOT_8[U8, I8], "usmmla", "i8mm", 1),
    (I8, U8): _in_blocks(DOT_8[I8, U8], "usmmla_turned", "i8mm", 1),
    (I8, I8): _in_blocks(DOT_SIGNED, "smmla", "i8mm", 1),
    (U8, U8): _in_blocks(DOT_UNSIGNED, "ummla", "i8mm", 1),
}
"""Integers of 8 bits, eight along the reduction, exactly. USMMLA takes unsigned ones of its first operand: where B has
these, the operands are the other way round, and the block that it makes is transposed."""

BYTES, SINGLE = "dot_8", "fma"
"""What a microkernel may be told to take in place of the inner product of its types: one of `DOT_8`, the FMA, or
matrices, by a name of `MATRICES`."""
MATRICES: Mapping[str, Mapping[tuple[ElementType, ElementType], Product]] = {
    "tile": {(BF16, BF16): TILE_BF16, **TILE_8},
    "mmla": {(BF16, BF16): MMLA_BF16, **MMLA_8},
}
"""Products of matrices in registers by the scheme that they are of, then by the types of A and B."""
DIRECT_MATRICES: Mapping[str, Mapping[tuple[ElementType, ElementType], Product]] = {
    "tile": {**MATRICES["tile"], (I8, I8): TILE_SIGNED, (U8, U8): TILE_UNSIGNED},
    "mmla": MATRICES["mmla"],
}
"""The same where data choose what is read, so that A is read as it is, and B when it is put together in words."""
FEATURES: Mapping[str, str] = {
    "amx_bf16": "avx512",
    "amx_int8": "avx512",
    "avx512_vnni": "avx512",
    "avx512_bf16": "avx512",
    "avx_vnni": "avx2",
    "asimddp": "neon",
    "i8mm": "neon",
    ARM_BF16: "neon",
    "svei8mm": SVE,
    "svebf16": SVE,
}
"""Extensions with such instructions, by their names in Linux, and the instruction set whose registers they use."""

MACROS: Mapping[str, str] = {
    "amx_bf16": "__AMX_BF16__",
    "amx_int8": "__AMX_INT8__",
    "avx512_vnni": "__AVX512VNNI__",
    "avx512_bf16": "__AVX512BF16__",
    "avx_vnni": "__AVXVNNI__",
    "asimddp": "__ARM_FEATURE_DOTPROD",
    "i8mm": "__ARM_FEATURE_MATMUL_INT8",
    ARM_BF16: "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC",
    "svei8mm": "__ARM_FEATURE_SVE_MATMUL_INT8",
    "svebf16": "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC",
}
"""What compilers define where they may use an extension."""

PRODUCTS: tuple[Product, ...] = (DOT_I16, DOT_BF16, FMA)
"""Those of larger groups first."""
IN_WORDS: Mapping[str, Product] = {
    p.name: p
    for p in (
        DOT_I16, DOT_BF16, *DOT_8.values(), DOT_SIGNED, DOT_UNSIGNED,
        *(product for of in (*MATRICES.values(), *DIRECT_MATRICES.values()) for product in of.values()),
    )
}  # fmt: skip
"""Those that read words of groups, by name."""
MEASURED: Mapping[str, Product] = {
    p.name: p for p in (DOT_BF16, DOT_I16, DOT_8[U8, I8], TILE_BF16, TILE_8[U8, I8], MMLA_BF16, MMLA_8[U8, I8])
}
"""Inner products whose rates `polydl machine --calibrate` measures where a machine has them, by name."""


def features_of(isa: str, flags: frozenset[str]) -> str:
    """Those of `flags` that are extensions of an instruction set, as `Simd.features` has them."""
    return " ".join(name for name, of in FEATURES.items() if of == isa and name in flags)


def vector_features(features: str) -> str:
    """Those of `Simd.features` whose instructions are vectors'."""
    tiles = {rate.feature for of in MATRICES["tile"].values() for rates in of.rates.values() for rate in rates}
    return " ".join(feature for feature in features.split() if feature not in tiles)


def in_matrices(
    scheme: str, a: ElementType, b: ElementType, sums: ElementType, *, direct: bool = False
) -> Product | None:
    """The product of `MATRICES` for elements of A and of B, or of `DIRECT_MATRICES`; None where there is none."""
    left, right = (BF16 if is_bf16(one) else one if direct else of_bytes(one) for one in (a, b))
    found = (DIRECT_MATRICES if direct else MATRICES)[scheme]
    product = found.get((left, right)) if left is not None and right is not None else None
    return product if product is not None and sums in product.sums else None


def preferred(found: Contraction, speed: Callable[[Product], float]) -> str:
    """What a machine had better take: `BYTES`, `SINGLE`, or empty for the inner product of the types. `speed`: words
    of an inner product per cycle over FMAs per cycle."""
    if found.element is I32 and all(of_bytes(o.element) for o in (found.left, found.right)):
        bytes_, pairs = DOT_8[U8, I8], DOT_I16
        return BYTES if bytes_.group * speed(bytes_) > pairs.group * speed(pairs) else ""
    if inner_product(found) is DOT_BF16:
        return "" if DOT_BF16.group * speed(DOT_BF16) >= 1 else SINGLE
    return ""


def of_bytes(element: ElementType) -> ElementType | None:
    """The type of 8 bits with all values of an integer type; None where there is none."""
    return next((t for t in (U8, I8) if element.is_int and t.holds(element)), None)


def inner_product(found: Contraction) -> Product | None:
    """The inner product of a contraction by the types of its operands; None where there is none for them."""
    if found.step is not None:
        return step_product(found.step)
    elements = {found.left.element, found.right.element}
    if found.uniform and found.element in FMA.sums:
        return FMA
    for product in PRODUCTS:
        copied = product.copy("A", found.element)
        # Pairs of bf16 are floats of that type only: others have more digits or larger exponents.
        if found.element in product.sums and all(_converts(e, copied) for e in elements):
            return product
    return None


def direct_product(a: ElementType, b: ElementType, sums: ElementType) -> Product:
    """The inner product of groups of elements as A and B have them; that of single elements where there is none."""

    def same(kept: ElementType | None, own: ElementType) -> bool:
        return kept is own or (kept is not None and is_bf16(kept) and is_bf16(own))

    for product in (DOT_BF16, DOT_I16):
        if same(product.a, a) and same(product.b, b) and sums in product.sums:
            return product
    found = DOT_8.get((a, b))
    return found if found is not None and sums in found.sums else FMA


def is_bf16(element: ElementType) -> bool:
    """Whether a type is that of brain floats, however C spells it."""
    return element.is_float and (element.significand, element.exponent) == (BF16.significand, BF16.exponent)


def _converts(source: ElementType, copied: ElementType) -> bool:
    """Whether a copy holds the values of its source: of bf16 only its own, bit by bit."""
    if is_bf16(copied):
        return is_bf16(source)
    return copied.holds(source) and (source.is_int or source.is_float)
