"""Packing: C text of a function that copies a block of an operand into the layout a microkernel reads best.

Both operands pack alike. The operand has a width (the columns n of B, the rows m of A) and reduction loops; it is cut
into panels of `block` along the width, and a panel holds for each reduction step, in the order of the loops, its
`block` elements side by side:

    packed[panel][reduction step][block]        zeros where the width ends inside a panel

which is the packing of BLIS (Van Zee and van de Geijn, TOMS 2015) and of TPP-MLIR's `pack`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from polydl.kernels.microkernel import MOST_REDUCTIONS, Parameter, environment, stride_text
from polydl.model.layout import Layout, row_major
from polydl.model.types import ElementType
from polydl.target.isa import ISAS

_LINE_BYTES = 64
"""Unit in which a transposing routine reads: the cache line of every machine with these instruction sets, and at
least a vector of each."""


@dataclass(frozen=True, slots=True)
class PackLoop:
    """A reduction loop of the operand."""

    extent: int | None
    """Iterations, >= 0; None = argument of the function."""
    stride: int | None
    """Elements of the source per iteration; None = argument."""


@dataclass(frozen=True, slots=True)
class PackSpec:
    """What a pack routine copies."""

    dtype: ElementType
    block: int
    """Elements of the width in a panel, >= 1: the n of the microkernel for B, the m for A."""
    width_stride: int | None
    """Elements of the source between neighbours along the width; None = argument."""
    loops: tuple[PackLoop, ...]
    """Outermost first; none: one step."""

    def __post_init__(self) -> None:
        """Raises ValueError for a panel, an extent or a number of loops outside of the limits."""
        if self.block < 1:
            raise ValueError(f"a panel of {self.block} elements")
        if len(self.loops) > MOST_REDUCTIONS:
            raise ValueError(f"{len(self.loops)} reduction loops, at most {MOST_REDUCTIONS}")
        if any(loop.extent is not None and loop.extent < 0 for loop in self.loops):
            raise ValueError("extents are >= 0")


@dataclass(frozen=True, slots=True)
class PackRoutine:
    """A generated function. Source and destination do not overlap; the destination has the size of
    `packed_layout`."""

    name: str
    text: str
    """C definitions, without the prologues; ends in a newline."""
    parameters: tuple[str, ...]
    """Names in call order: width (elements to pack, >= 0, any), source, packed, width_stride, then extent<i>,
    stride<i> of each loop; what is a compile-time constant is left out."""
    spec: PackSpec

    @property
    def signature(self) -> str:
        """Declarations of the parameters."""
        return ", ".join(p.declaration for p in pack_parameters(self.spec))


@dataclass(frozen=True, slots=True)
class _LoopText:
    index: int
    extent: str
    stride: str


def packed_layout(width: int, extents: Sequence[int], block: int) -> Layout:
    """Layout of the packed copy of an operand whose dimensions are its width and its reduction loops (`extents`)."""
    return row_major([width, *extents]).blocked(0, block)


def pack_prologue(element: ElementType) -> str:
    """What pack routines need beside `microkernel.isa_prologue`, after it: transposition in registers."""
    widths = []
    for lanes in sorted({target.lanes(element) for target in ISAS}):
        distances = []
        for exponent in range(lanes.bit_length() - 1):
            d = 1 << exponent
            low = [lanes + i - d if i & d else i for i in range(lanes)]
            high = [lanes + i if i & d else i + d for i in range(lanes)]
            distances.append((d, ", ".join(map(str, low)), ", ".join(map(str, high))))
        widths.append((lanes, distances))
    return environment().get_template("pack_prologue.c.j2").render(t=element, widths=widths)


def pack_parameters(spec: PackSpec) -> tuple[Parameter, ...]:
    """The arguments of the function, in call order (see `PackRoutine.parameters`)."""
    fixed = [Parameter("ptrdiff_t", "width"), Parameter(f"const {spec.dtype} *", "source")]
    fixed.append(Parameter(f"{spec.dtype} *", "packed"))
    strides = [("width_stride", spec.width_stride)]
    for index, loop in enumerate(spec.loops):
        strides += [(f"extent{index}", loop.extent), (f"stride{index}", loop.stride)]
    return (*fixed, *(Parameter("ptrdiff_t", name) for name, value in strides if value is None))


def pack_routine(spec: PackSpec) -> PackRoutine:
    """The C function for `spec`.

    A source contiguous along the width is copied by vectors; one contiguous along the innermost reduction is
    transposed in registers, a square of vectors at a time; any other is copied element by element.
    """
    arguments = pack_parameters(spec)
    loops = _joined(spec)
    inner = loops[-1][1]
    layout = "contiguous" if spec.width_stride == 1 else "transposed" if inner.stride == 1 else "strided"
    texts = [
        _LoopText(i, stride_text(loop.extent, f"extent{i}"), stride_text(loop.stride, f"stride{i}"))
        for i, loop in loops
    ]
    used = {name for loop in texts for name in (loop.extent, loop.stride)}
    strides = [p.name for p in arguments[3:] if p.name != "width_stride"]
    name = _name(spec)
    text = (
        environment()
        .get_template("pack.c.j2")
        .render(
            t=spec.dtype,
            name=name,
            summary=_summary(spec),
            layout=layout,
            block=spec.block,
            line=_LINE_BYTES // spec.dtype.bytes,
            steps=" * ".join(f"(ptrdiff_t){loop.extent}" for loop in texts),
            outer=texts[:-1],
            inner=texts[-1],
            width_stride=stride_text(spec.width_stride, "width_stride"),
            ignored=[parameter for parameter in strides if parameter not in used],
            signature=", ".join(p.declaration for p in arguments),
        )
    )
    return PackRoutine(name, text, tuple(p.name for p in arguments), spec)


def plain_loops(spec: PackSpec) -> str:
    """C statements in terms of a pack routine's parameters that do what it does."""
    extents = [stride_text(loop.extent, f"extent{i}") for i, loop in enumerate(spec.loops)]
    moved = "".join(f" + r{i} * {stride_text(loop.stride, f'stride{i}')}" for i, loop in enumerate(spec.loops))
    width = stride_text(spec.width_stride, "width_stride")
    inside = "".join(f"for (ptrdiff_t r{i} = 0; r{i} < {e}; ++r{i}) " for i, e in enumerate(extents))
    return (
        f"for (ptrdiff_t panel = 0; panel < width; panel += {spec.block}) "
        f"{inside}for (ptrdiff_t w = panel; w < panel + {spec.block}; ++w) "
        f"*packed++ = w < width ? source[w * {width}{moved}] : 0;\n"
    )


def _joined(spec: PackSpec) -> list[tuple[int, PackLoop]]:
    """The loops with their indices, those of one iteration left out, neighbours that continue each other joined."""
    loops: list[tuple[int, PackLoop]] = []
    for index, loop in enumerate(spec.loops):
        if loop.extent == 1:
            continue
        outer = loops[-1][1] if loops else None
        if (
            outer is not None
            and outer.extent is not None
            and loop.extent is not None
            and loop.stride is not None
            and outer.stride == loop.extent * loop.stride
        ):
            loops[-1] = (index, PackLoop(outer.extent * loop.extent, loop.stride))
        else:
            loops.append((index, loop))
    return loops or [(0, PackLoop(1, 0))]


def _name(spec: PackSpec) -> str:
    digest = hashlib.sha256(repr(spec).encode()).hexdigest()[:8]
    extents = "x".join("n" if loop.extent is None else str(loop.extent) for loop in spec.loops) or "1"
    return f"polydl_pack_{spec.dtype.name}_{spec.block}_k{extents}_{digest}"


def _summary(spec: PackSpec) -> str:
    def shown(value: int | None) -> str:
        return "s" if value is None else str(value)

    steps = "".join(f" + r{i}*{shown(loop.stride)}" for i, loop in enumerate(spec.loops))
    return (
        f"packed[w / {spec.block}][r][w % {spec.block}] = source[w*{shown(spec.width_stride)}{steps}], w < width; "
        f"zeros up to a multiple of {spec.block}"
    )
