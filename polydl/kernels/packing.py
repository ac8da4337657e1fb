"""Packing: C text of a function that copies a block of an operand into the layout a microkernel reads best.

Both operands pack alike. The operand has a width (the columns n of B, the rows m of A) and reduction loops; it is cut
into panels of `block` along the width, and a panel holds for each reduction step, in the order of the loops, its
`block` elements side by side:

    packed[panel][reduction step][block]        zeros where the width ends inside a panel

Where the kernel multiplies groups of neighbours along a reduction (`target.products`), an element of that layout is a
word of 32 bits with a group in it, the first in its lowest bits; elements of another type than the kernel's are
converted while they are copied. Kernels of tiles (`target.schemes`) take several groups along that reduction in one
step: zeros fill the last step, and copies of A have all groups of a step side by side for each row.

which is the packing of BLIS (Van Zee and van de Geijn, TOMS 2015) and of TPP-MLIR's `pack`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.kernels.microkernel import Parameter, environment, stride_text
from polydl.kernels.microkernel_spec import MOST_REDUCTIONS
from polydl.model.layout import Layout, row_major
from polydl.model.types import I32, ElementType
from polydl.target.isa import ISAS, LONG, VECTOR_TYPES, isa, lanes_name
from polydl.target.products import is_bf16

GROUP_BYTES = 16
"""Pieces of vectors within which the shuffles of all instruction sets work, the cheap ones of the larger."""
MOST_IN_PIECES = 2
"""Bytes of elements whose squares are put together of pieces of rows."""
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
    source: ElementType | None = field(default=None, repr=False)
    """Of the elements that are copied, each of which is exact in `dtype`; None: `dtype`."""
    group: int = field(default=1, repr=False)
    """Neighbours along a loop that are side by side in a word of 32 bits; 1: none."""
    grouped: int = field(default=0, repr=False)
    """Index of that loop, where there are groups."""
    sums: int = field(default=0, repr=False)
    """Where it is not 0, words follow the steps of a panel: the sums of all elements of each column times this."""
    flips: bool = field(default=False, repr=False)
    """Whether the highest bit of each copied byte is inverted."""
    run: int = field(default=0, repr=False)
    """Neighbours along the grouped loop that are side by side, a multiple of the group; 0: the group."""
    depth: int = field(default=0, repr=False)
    """The copy has zeros up to a multiple of so many iterations of that loop, a multiple of the run; 0: of the run."""

    @property
    def side(self) -> int:
        """Words of an element of the width that are side by side."""
        return max(1, self.run // self.group)

    @property
    def filled(self) -> int:
        """Iterations of the grouped loop that the copy has a multiple of."""
        return max(self.depth, self.run, self.group)

    @property
    def converts(self) -> bool:
        """Whether it is more than a copy of elements by vectors, which integers are not transposed in."""
        return self.group > 1 or self.source not in (None, self.dtype) or self.dtype not in VECTOR_TYPES

    @property
    def word(self) -> ElementType:
        """What the copy is made of."""
        return self.dtype if self.group == 1 else I32

    def __post_init__(self) -> None:
        """Raises ValueError for a panel, an extent or a number of loops outside of the limits."""
        if self.block < 1:
            raise ValueError(f"a panel of {self.block} elements")
        if len(self.loops) > MOST_REDUCTIONS:
            raise ValueError(f"{len(self.loops)} reduction loops, at most {MOST_REDUCTIONS}")
        if any(loop.extent is not None and loop.extent < 0 for loop in self.loops):
            raise ValueError("extents are >= 0")
        if self.group > 1 and (self.group * self.dtype.bytes != I32.bytes or not 0 <= self.grouped < len(self.loops)):
            raise ValueError(f"a group of {self.group} elements of type {self.dtype} along loop {self.grouped}")
        if self.run % self.group or self.filled % (self.run or 1) or (self.side > 1 and self.sums):
            raise ValueError(f"runs of {self.run} in steps of {self.depth}, groups of {self.group}")


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
    """What pack routines need beside `microkernel.isa_prologue`, after it: transposition in registers; of words, how
    they are made of groups, and of single elements how they are converted."""
    if element is I32:
        return environment().get_template("pack_words.c.j2").render()
    return transpose_prologue(element)


def transpose_prologue(element: ElementType, long: str = "") -> str:
    """Transposition in registers, of any type that rows have vectors of, after the vectors of that type; `long`: with
    such vectors (`target.isa.LONG`)."""
    networks = [_network(element, lanes) for lanes in sorted({target.lanes(element) for target in (*ISAS, *LONG)})]
    pieces = element.bytes <= MOST_IN_PIECES
    return (
        environment()
        .get_template("pack_prologue.c.j2")
        .render(
            name=lanes_name(element),
            t=element,
            lane=GROUP_BYTES,
            networks=networks,
            pieces=pieces,
            long=isa(long) if long else None,
        )
    )


@dataclass(frozen=True, slots=True)
class _Network:
    """How a square of vectors is transposed in registers."""

    lanes: int
    """Of a vector: as many rows has the square."""
    columns: int
    """As many vectors are in the square."""
    shuffles: tuple[tuple[str, str], ...]
    """Per shuffle of two vectors its name, and from which elements of both it takes each of its result."""
    steps: tuple[tuple[tuple[str, str], str, str, str, str], ...]
    """Two shuffles of the same two vectors, and C of the numbers of these, and of the results, made of i."""


def square_columns(element: ElementType, lanes: int) -> int:
    """Columns of what is transposed at once in vectors of so many lanes, which are its rows. A square of 32 or 64
    vectors does not stay in registers: of elements of one and two bytes each 16 bytes of a vector come from another
    row, and all shuffles stay within them."""
    group = min(lanes, GROUP_BYTES // element.bytes)
    return group if element.bytes <= MOST_IN_PIECES else lanes


def _network(element: ElementType, lanes: int) -> _Network:
    """A square of `lanes` vectors, transposed by perfect shuffles: `log2(lanes)` steps of `lanes` shuffles, of which
    most stay within 16 bytes, as the cheapest of x86 do.

    Interleaving the halves of a list of G vectors of G elements log2(G) times transposes it (Stone, "Parallel
    processing with the perfect shuffle", IEEE Transactions on Computers, 1971): first within each 16 bytes of each G
    vectors, then pieces of 16 bytes as if they were elements, backwards, since those are taken apart.
    """
    group, columns = min(lanes, GROUP_BYTES // element.bytes), square_columns(element, lanes)
    pieces = columns // group
    half, block = max(1, group // 2), range(0, lanes, group)
    low = [at for start in block for k in range(half) for at in (start + k, lanes + start + k)]
    high = [at for start in block for k in range(half, group) for at in (start + k, lanes + start + k)]
    even = [side + start + k for side in (0, lanes) for start in block[::2] for k in range(group)]
    odd = [side + start + k for side in (0, lanes) for start in block[1::2] for k in range(group)]
    shuffles = [("low", low), ("high", high)] if group > 1 else []
    shuffles += [("even", even), ("odd", odd)] if pieces > 1 else []
    at = f"(i / {half} * {group} + i % {half})"
    pair = f"(i / {half} * {group} + i % {half} * 2)"
    steps = [(("low", "high"), at, f"{at} + {half}", pair, f"{pair} + 1")] * (group.bit_length() - 1)
    if pieces > 1:
        # Of the vectors with the same place in their groups: i counts them, and the pairs of groups.
        first, rest = f"i % {group} + i / {group} * {2 * group}", f"i % {group} + i / {group} * {group}"
        step = (("even", "odd"), first, f"{first} + {group}", rest, f"{rest} + {lanes // 2}")
        steps += [step] * (pieces.bit_length() - 1)
    return _Network(lanes, columns, tuple((name, ", ".join(map(str, order))) for name, order in shuffles), tuple(steps))


def pack_parameters(spec: PackSpec) -> tuple[Parameter, ...]:
    """The arguments of the function, in call order (see `PackRoutine.parameters`)."""
    source = spec.source or spec.dtype
    # C has no type for bf16 everywhere: their bits are copied.
    read = "const void *" if is_bf16(source) else f"const {source} *"
    fixed = [Parameter("ptrdiff_t", "width"), Parameter(read, "source"), Parameter(f"{spec.word} *", "packed")]
    strides = [("width_stride", spec.width_stride)]
    for index, loop in enumerate(spec.loops):
        strides += [(f"extent{index}", loop.extent), (f"stride{index}", loop.stride)]
    return (*fixed, *(Parameter("ptrdiff_t", name) for name, value in strides if value is None))


def pack_routine(spec: PackSpec) -> PackRoutine:
    """The C function for `spec`.

    A source contiguous along the width is copied by vectors; one contiguous along the innermost reduction is
    transposed in registers, a square of vectors at a time; any other is copied element by element. What is converted
    or put into groups is left to the compiler's vectors.
    """
    if spec.converts:
        return _converting(spec)
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


def _converting(spec: PackSpec) -> PackRoutine:
    """The function for a copy that converts elements, or puts groups of them into words."""
    arguments = pack_parameters(spec)
    source, name = spec.source or spec.dtype, _name(spec)
    loops = [
        _LoopText(i, stride_text(loop.extent, f"extent{i}"), stride_text(loop.stride, f"stride{i}"))
        for i, loop in enumerate(spec.loops)
    ]
    grouped = loops[spec.grouped] if spec.group > 1 else None
    text = (
        environment()
        .get_template("pack_converted.c.j2")
        .render(
            name=name,
            summary=_summary(spec),
            word=spec.word.c,
            read=_read(source),
            one=_taken(spec, source),
            whole=_whole(spec, source),
            make=f"({spec.word.c})" if spec.group == 1 else f"polydl_word_{spec.group}",
            block=spec.block,
            group=spec.group,
            side=spec.side,
            filled=spec.filled,
            grouped=spec.grouped if grouped else -1,
            loops=loops,
            sums=spec.sums,
            step=grouped.stride if grouped else "0",
            there=f"{grouped.extent} - r{grouped.index}" if grouped else "1",
            width_stride=stride_text(spec.width_stride, "width_stride"),
            ignored=[],
            signature=", ".join(p.declaration for p in arguments),
        )
    )
    return PackRoutine(name, text, tuple(p.name for p in arguments), spec)


def _whole(spec: PackSpec, source: ElementType) -> str:
    """C of a word whose first element is at the address `@`, for groups whose elements are neighbours in memory and
    copied as they are but for their highest bits; empty where they are not."""
    if spec.group == 1 or source.bytes != spec.dtype.bytes or spec.loops[spec.grouped].stride != 1:
        return ""
    word = f"polydl_near_{spec.group}(@)"
    return f"(int)((uint32_t){word} ^ 0x80808080u)" if spec.flips else word


def _taken(spec: PackSpec, source: ElementType) -> str:
    """C of what is copied of an element `@`, before C converts it."""
    if spec.flips:
        return "(@ ^ 0x80)"
    return "polydl_widened(@)" if is_bf16(source) and not is_bf16(spec.dtype) else "@"


def _read(source: ElementType) -> str:
    """The C type as which the elements of a source are read."""
    return "polydl_bits_16" if is_bf16(source) else source.c


def plain_loops(spec: PackSpec) -> str:
    """C statements in terms of a pack routine's parameters that do what it does."""
    if spec.converts:
        return _plain_conversion(spec)
    extents = [stride_text(loop.extent, f"extent{i}") for i, loop in enumerate(spec.loops)]
    moved = "".join(f" + r{i} * {stride_text(loop.stride, f'stride{i}')}" for i, loop in enumerate(spec.loops))
    width = stride_text(spec.width_stride, "width_stride")
    inside = "".join(f"for (ptrdiff_t r{i} = 0; r{i} < {e}; ++r{i}) " for i, e in enumerate(extents))
    return (
        f"for (ptrdiff_t panel = 0; panel < width; panel += {spec.block}) "
        f"{inside}for (ptrdiff_t w = panel; w < panel + {spec.block}; ++w) "
        f"*packed++ = w < width ? source[w * {width}{moved}] : 0;\n"
    )


def _plain_conversion(spec: PackSpec) -> str:
    """Those of a copy that converts or groups: element by element, by where each goes."""
    source = spec.source or spec.dtype
    counts = [stride_text(loop.extent, f"extent{i}") for i, loop in enumerate(spec.loops)]
    run = spec.side * spec.group
    often = f" * {spec.filled // run}" if spec.filled > run else ""
    steps = [
        f"(({e} + {spec.filled - 1}) / {spec.filled}{often})" if i == spec.grouped else e for i, e in enumerate(counts)
    ]
    steps = steps if spec.group > 1 else counts
    moved = "".join(f" + r{i} * {stride_text(loop.stride, f'stride{i}')}" for i, loop in enumerate(spec.loops))
    place = "0"
    for i, e in enumerate(steps):
        at = f"r{i} / {run}" if spec.group > 1 and i == spec.grouped else f"r{i}"
        place = f"({place}) * {e} + {at}"
    inside = "".join(f"for (ptrdiff_t r{i} = 0; r{i} < {e}; ++r{i}) " for i, e in enumerate(counts))
    width = stride_text(spec.width_stride, "width_stride")
    element = f"((const {_read(source)} *)source)[w * {width}{moved}]"
    if spec.group == 1:
        value = f"polydl_widened({element})" if is_bf16(source) else f"({spec.dtype}){element}"
        put = f"packed[to] = {value};"
    else:
        bits = 8 * spec.dtype.bytes
        flipped = f"({element} ^ 0x80)" if spec.flips else element
        put = f"packed[to] |= (int)((uint32_t)(uint{bits}_t){flipped} << {bits} * (r{spec.grouped} % {spec.group}));"
        if spec.sums:
            put += f" packed[last] = (int)((uint32_t)packed[last] + (uint32_t)({spec.sums} * {element}));"
    side = f" * {spec.side}" if spec.side > 1 else ""
    lane = f" + r{spec.grouped} % {run} / {spec.group}" if side else ""
    whole = "(ptrdiff_t)" + " * ".join(steps or ["1"]) + side
    size = f"({whole} + 1)" if spec.sums else whole
    last = f", last = panel + {whole} * {spec.block} + w % {spec.block}" if spec.sums else ""
    return (
        f"for (ptrdiff_t i = 0; i < (width + {spec.block - 1}) / {spec.block} * {spec.block} * {size}; ++i) "
        f"packed[i] = 0;\nfor (ptrdiff_t w = 0; w < width; ++w) {inside}{{ "
        f"const ptrdiff_t panel = w / {spec.block} * {spec.block} * {size}, "
        f"to = panel + (({place}) * {spec.block} + w % {spec.block}){side}{lane}{last}; {put} }}\n"
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
    made = f"{spec.source} {spec.group} {spec.grouped} {spec.sums} {spec.flips}" if spec.converts else ""
    made += f" {spec.run} {spec.depth}" if spec.filled > spec.group else ""
    digest = hashlib.sha256((repr(spec) + made).encode()).hexdigest()[:8]
    extents = "x".join("n" if loop.extent is None else str(loop.extent) for loop in spec.loops) or "1"
    kind = spec.dtype.name
    if spec.converts:
        kind = f"{(spec.source or spec.dtype).name}_to_{spec.dtype.name}{f'x{spec.group}' if spec.group > 1 else ''}"
    return f"polydl_pack_{kind}_{spec.block}_k{extents}_{digest}"


def _together(spec: PackSpec) -> str:
    """The end of the contract of a copy for tiles: how many words of an element of the width are side by side."""
    return f", {spec.side} of a step side by side" if spec.side > 1 else ""


def _summary(spec: PackSpec) -> str:
    def shown(value: int | None) -> str:
        return "s" if value is None else str(value)

    steps = "".join(f" + r{i}*{shown(loop.stride)}" for i, loop in enumerate(spec.loops))
    if spec.converts:
        words = f" in words of {spec.group} neighbours along r{spec.grouped}" if spec.group > 1 else ""
        return (
            f"copied[w / {spec.block}][r][w % {spec.block}] = source[w*{shown(spec.width_stride)}{steps}] as "
            f"{spec.dtype}{words}{_together(spec)}, w < width; zeros up to a multiple of {spec.block}"
            + (f" and {spec.filled}" if spec.group > 1 else "")
            + ("; highest bits inverted" if spec.flips else "")
            + (f"; then {spec.sums} times the sums of the columns" if spec.sums else "")
        )
    return (
        f"packed[w / {spec.block}][r][w % {spec.block}] = source[w*{shown(spec.width_stride)}{steps}], w < width; "
        f"zeros up to a multiple of {spec.block}"
    )
