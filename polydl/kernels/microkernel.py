"""The contraction microkernel: C text of one function for a block of any contraction.

GEMM, batch-reduce GEMM (Georganas et al., TPP: strided variant) and direct convolution (reduction over ifm_tile, kj,
ki, ifm) differ only in how many reduction loops there are and with which strides: one generator serves them all.
The scheme is the outer product of BLIS and LIBXSMM: a rows x vectors block of accumulators stays in registers over
all reduction loops, vectors of B are loaded, elements of A are broadcast. Products of tiles (`target.schemes.Tile`)
have, before that code on the same copies, code for a core with registers that are matrices.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from functools import cache

import jinja2

from polydl.base import resources
from polydl.base.records import dataclass
from polydl.kernels.direct_reads import direct_values, element_of_a, read_b
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction, shared_taps
from polydl.model.types import F64, I32, ElementType
from polydl.target.isa import ISAS, LONG, NARROW, VECTOR_TYPES, isa, narrow_name, written
from polydl.target.products import FMA, MACROS, Product
from polydl.target.register_blocks import RegisterBlock, paired_rows, split_block
from polydl.target.schemes import Tile, tile_of

MOST_CASES = max(target.registers for target in (*ISAS, *LONG))
"""Longest POLYDL_EACH_n list of the prologue: no register block has more rows."""

_ROWS_PER_POINTER = 4
"""With a run-time row stride, rows are addressed from one pointer for each four rows: p, p+s, p+2s, p+3s. With one
pointer in all, 28 rows need 28 offsets in general registers and gcc spills them (0.74 of the speed, measured)."""

_FEW = 64
"""Iterations of all reductions that are written out one after the other, of a window whose rows share no taps. Where
they do, the taps alone make a long body, and loops around it are 1.05 to 1.2 times as fast as more of it (Zen 5)."""

_LINE_BYTES = 64
"""Bytes that one prefetch brings: a cache line of x86, no more than one elsewhere."""

_PAIRED_DOUBLE_ROWS = 8
"""From so many rows on there are accumulators enough to hide the latency of the FMA, and pairs of doubles only lose:
their broadcast to 64 bytes takes an arithmetic port on Zen 5 (28x8: 0.87 of the peak in pairs, 0.95 without)."""


_FOLDED = 32
"""Steps of the reductions from which on pairs of them pay: the two sums of an element are added at the end, in three
instructions (batches of 16 x 16 products of 16 steps, Zen 4: 152 GFLOP/s without pairs, 139 with them)."""


@dataclass(frozen=True, slots=True)
class Microkernel:
    """A generated function."""

    name: str
    """C name, the same for the same specification."""
    text: str
    """C definitions, without the prologue; ends in a newline."""
    parameters: tuple[str, ...]
    """Names in call order: m, n, A, B, C, a_m, c_m, then extent<i>, a_stride<i>, b_stride<i> of each reduction, b_row,
    a_table<i>, b_table<i> of each, alpha, the epilogue's; what is a compile-time constant is left out. m, n, extents
    and strides are ptrdiff_t."""
    spec: MicrokernelSpec

    @property
    def signature(self) -> str:
        """Declarations of the parameters."""
        return signature(self.spec)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a generated function."""

    ctype: str
    name: str

    @property
    def declaration(self) -> str:
        return f"{self.ctype}{'' if self.ctype.endswith('*') else ' '}{self.name}"


@dataclass(frozen=True, slots=True)
class ReductionText:
    """A reduction loop as C text."""

    index: int
    extent: str
    a_stride: str
    b_stride: str
    a_place: str
    """How far A has moved in iteration `r<index>`."""
    b_place: str


@dataclass(frozen=True, slots=True)
class _Choice:
    """The register block for one instruction set."""

    condition: str
    block: RegisterBlock
    paired_rows: int


@cache
def environment() -> jinja2.Environment:
    """The jinja2 environment of the C templates."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def isa_prologue(element: ElementType, long: str = "") -> str:
    """What every microkernel of one element type needs: includes and reserved `polydl_`/`POLYDL_` names, with include
    guards. Once per file and element type, before the first microkernel; `long`: with such vectors (`target.isa.LONG`).
    """
    if element not in VECTOR_TYPES:
        return _words_prologue(long)
    template = environment().get_template("microkernel_prologue.c.j2")
    return template.render(
        t=element, x86=VECTOR_TYPES[element], most_cases=MOST_CASES, isas=written(long), portable=_portable(long)
    )


def _alternate_prologue(element: ElementType, long: str) -> str:
    """Loads of every other element, with include guards; after `isa_prologue`."""
    template = environment().get_template("microkernel_alternate.c.j2")
    return template.render(t=element, x86=VECTOR_TYPES[element], portable=_portable(long))


def _narrow_prologue(spec: MicrokernelSpec) -> str:
    """Vectors of a few lanes, with include guards; after `isa_prologue`."""
    template = environment().get_template("microkernel_narrow.c.j2")
    element, v, whole = spec.dtype, vector_name(spec), f"polydl_{spec.dtype.name}"
    return template.render(t=element, x86=VECTOR_TYPES[element], v=v, whole=whole, width=narrow_bytes(spec))


def narrow_bytes(spec: MicrokernelSpec) -> int:
    """Bytes of the short vectors that hold a row of a block in place of a part of a long one, of which a core computes
    half as many at a time or fewer; 0 where vectors are the usual ones."""
    plain = spec.step is None and not spec.window and not spec.epilogue and not spec.product.in_words
    if not plain or spec.direct is not None or spec.dtype not in VECTOR_TYPES:
        return 0
    return next((width for width in NARROW if spec.n * spec.dtype.bytes <= width), 0)


def vector_name(spec: MicrokernelSpec) -> str:
    """The C type of vectors of sums."""
    width = narrow_bytes(spec)
    return f"polydl_{narrow_name(spec.dtype, width) if width else spec.dtype.name}"


def _portable(long: str) -> list[tuple[int, str, bool]]:
    """(bytes of a vector, C condition, whether there are predicates) of the instruction sets whose vectors are the
    compiler's own: one set of definitions for each; the last one is that of the one that is left."""
    portable = [target for target in written(long) if not target.intrinsics]
    kinds = dict.fromkeys((target.vector_bytes, bool(target.predicates)) for target in portable)
    return [
        (width, " || ".join(t.condition for t in portable if (t.vector_bytes, bool(t.predicates)) == (width, has)), has)
        for width, has in kinds
    ]


def _words_prologue(long: str) -> str:
    """Vectors of 32-bit integers: sums of integers, and words of groups."""
    template = environment().get_template("microkernel_words.c.j2")
    return template.render(most_cases=MOST_CASES, isas=written(long), portable=_portable(long))


def product_prologue(product: Product, long: str = "") -> str:
    """The function of an inner product, with include guards; after `isa_prologue` of I32 and of the type of its sums;
    for tiles also what begins and ends their use. Empty for the FMA."""
    if not product.in_words:
        return ""
    macro = isa(long).macro if long else ""
    vectors = environment().get_template("microkernel_dot.c.j2").render(product=product.call, long=macro)
    tile = tile_of(product)
    return vectors if tile is None else vectors + environment().get_template(f"{tile.macros}.c.j2").render()


def prologues(spec: MicrokernelSpec) -> tuple[str, ...]:
    """What the function for `spec` needs before it, without that of its epilogue."""
    own = () if spec.step is None else spec.step.prologue
    vectors = (isa_prologue(element, spec.long) for element in (spec.dtype, spec.word))
    loads = _alternate_prologue(spec.dtype, spec.long) if spec.window > 1 else ""
    narrow = _narrow_prologue(spec) if narrow_bytes(spec) else ""
    found = (*vectors, loads, narrow, product_prologue(spec.product, spec.long), *_direct_prologue(spec), *own)
    return tuple(dict.fromkeys(text for text in found if text))


def _direct_prologue(spec: MicrokernelSpec) -> tuple[str, ...]:
    """The functions that load vectors of B, behind vectors of 32-bit integers; none for copies."""
    if spec.direct is None:
        return ()
    text = environment().get_template("direct_reads.c.j2").render(direct_values(spec.direct, spec.product, spec.dtype))
    return isa_prologue(I32, spec.long), text


def parameters(spec: MicrokernelSpec) -> tuple[Parameter, ...]:
    """The arguments of the function for `spec`, in call order (see `Microkernel.parameters`)."""
    read, written = f"const {_read_of_b(spec)} *", f"{spec.dtype} *"
    fixed = [Parameter("ptrdiff_t", "m"), Parameter("ptrdiff_t", "n")]
    fixed += [Parameter(f"const {_read(spec)} *", "A"), Parameter(read, "B"), Parameter(written, "C")]
    strides = [("a_m", spec.a_m), ("c_m", spec.c_m)]
    for index, reduction in enumerate(spec.reductions):
        strides.append((f"extent{index}", reduction.extent))
        strides.append((f"a_stride{index}", reduction.a_stride))
        strides.append((f"b_stride{index}", reduction.b_stride))
    strides += [("b_row", spec.direct.b_row)] if spec.direct is not None else []
    fixed += [Parameter("ptrdiff_t", name) for name, value in strides if value is None]
    for index, reduction in enumerate(spec.reductions):
        tables = (("a", reduction.a_table), ("b", reduction.b_table))
        fixed += [Parameter(f"const {ctype} *", f"{role}_table{index}") for role, ctype in tables if ctype]
    if spec.alpha:
        fixed.append(Parameter(spec.dtype.c, "alpha"))
    for declaration in spec.epilogue_parameters:
        cut = max(declaration.rfind(" "), declaration.rfind("*")) + 1
        fixed.append(Parameter(declaration[:cut].strip(), declaration[cut:]))
    return tuple(fixed)


def _read(spec: MicrokernelSpec) -> str:
    """C type that elements of A are read as."""
    if spec.direct is not None and not spec.in_place:
        return spec.direct.a.c
    return f"polydl_{spec.word.name}_anywhere" if spec.in_place else spec.word.c


def _read_of_b(spec: MicrokernelSpec) -> str:
    """C type that elements of B are read as."""
    return spec.word.c if spec.direct is None else spec.direct.b.c


def signature(spec: MicrokernelSpec) -> str:
    """The declarations of the arguments."""
    return ", ".join(p.declaration for p in parameters(spec))


def generate(spec: MicrokernelSpec) -> Microkernel:
    """The C function for `spec`.

    A block of full size takes a path of compile-time constants; anything smaller takes code specialised on its rows
    and vectors, with the last vector masked. Where m x n accumulators do not fit the registers of the instruction set
    the function loops over register blocks that do (`polydl.target.register_blocks.split_block`).
    """
    name = _name(spec)
    arguments = parameters(spec)
    inside = arguments[2:]
    joined = _joined(spec)
    loops = [_loop(index, reduction) for index, reduction in joined]
    shared = shared_taps(spec.a_m, [r for _, r in joined]) if spec.window else None
    a_m, c_m = stride_text(spec.a_m, "a_m"), stride_text(spec.c_m, "c_m")
    declared = [p.declaration for p in inside]
    rest = [p.name for p in inside[3:]]
    # Only an epilogue needs to know where in the block it is.
    hook = [f"const ptrdiff_t {name}" for name in ("row0", "column0") if spec.epilogue]

    def at(a: str, b: str, c: str, *place: str) -> str:
        """The arguments of a block that starts at these addresses and, for an epilogue, this row and column."""
        return ", ".join([a, b, c, *rest, *(place if spec.epilogue else ())])

    weight = "" if spec.scalar_b else " + j"
    image = along_text(spec)
    # Loops of one iteration are left out, and with them their strides.
    single = [i for i, r in enumerate(spec.reductions) if r.extent == 1]
    unused = {f"{operand}_stride{i}" for i in single for operand in "ab"}
    pairs = _is_paired(spec)
    choices = []
    for condition, target in (
        way for each in written(spec.long) for way in each.ways(spec.product.behind or spec.product)
    ):
        if spec.window and (spec.m > 1 or shared is not None):  # a row alone shares no vectors of B
            target = target.windowed(1 if shared is None else shared.taps, spec.window)
        block = split_block(target, spec.dtype, spec.m, spec.n, pairs)
        choices.append(_Choice(condition, block, min(block.rows, paired_rows(target))))
    text = (
        environment()
        .get_template("microkernel.c.j2")
        .render(
            t=spec.dtype,
            v=vector_name(spec),
            word=spec.word,
            w=vector_name(spec) if spec.word is spec.dtype else f"polydl_{spec.word.name}",
            read=_read(spec),
            read_of_b=_read_of_b(spec),
            load_b="" if spec.direct is None else read_b(spec.direct, spec.product, spec.dtype),
            b_row="" if spec.direct is None else stride_text(spec.direct.b_row, "b_row"),
            of_a=lambda text: text if spec.direct is None or spec.in_place else element_of_a(spec.direct, text),
            less=spec.direct is not None and spec.product.correction != 0,
            multiply=_multiply(spec, name),
            loops=loops,
            shared=shared,
            taps=None if shared is None else loops[shared.loop],
            few=all(r.extent is not None for _, r in joined) and math.prod(r.extent or 0 for _, r in joined) <= _FEW,
            start=start_text(spec),
            load=f"{vector_name(spec)}_load{'_alternate' * (spec.window > 1)}",
            tiles=_tiles(spec),
            name=name,
            spec=spec,
            summary=_summary(spec),
            choices=choices,
            outer=loops[:-1],
            inner=loops[-1],
            rows_ahead=_LINE_BYTES // spec.dtype.bytes if _streams_rows(spec) else 0,
            next_entry=_next_entry(spec),
            overlapping=_overlaps(spec),
            group=_ROWS_PER_POINTER if spec.a_m is None and spec.m > _ROWS_PER_POINTER else 0,
            a_m=a_m,
            c_m=c_m,
            result=_result(spec),
            pairs=pairs,
            bystanders=["A", "B", *(p.name for p in arguments[5:] if p.name not in ("c_m", "alpha"))],
            ignored=[name for name in rest if name in unused],
            part_declared=", ".join(declared),
            column_declared=", ".join([*declared, *hook[1:]]),
            declared=", ".join([*declared, *hook]),
            part_start=at("A", "B", "C"),
            passed=at("A", "B", "C", "row0", "column0"),
            placed=at(f"A + i * {a_m}{image}", f"B{weight}", f"C + i * {c_m} + j", "i", "j"),
            row_placed=at(f"A + i * {a_m}", "B", f"C + i * {c_m}", "i", "column0"),
            column_placed=at(f"A{image}", f"B{weight}", "C + j", "j"),
            signature=signature(spec),
        )
    )
    return Microkernel(name, text, tuple(p.name for p in arguments), spec)


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a function for tiles holds them: of sums, numbered row by row from 0, then a column of A, then those of B."""

    of: Tile
    product: Product
    guard: str
    """C condition under which the compiler has the instruction."""
    high: int
    """Tiles of sums along the rows."""
    wide: int
    spare: int
    """Tiles of B at a time."""
    loops: tuple[ReductionText, ...] = ()
    """The reductions around a step, as the specification has them."""
    step: ReductionText | None = None
    """That over the words of a step."""

    @property
    def words(self) -> int:
        """Products of words in a step."""
        return self.high * self.wide * self.of.rows * self.of.columns * self.of.steps


def peak_tiles(product: Product) -> Tiles | None:
    """The tiles with which the peak of a product is measured: the most efficient block. None for vectors."""
    tile = tile_of(product)
    if tile is None:
        return None
    fitting = [(r, c) for r in range(1, tile.registers) for c in range(1, tile.registers) if tile.spare(r, c) >= 1]
    return _held(tile, product, max(fitting, key=lambda one: (one[0] * one[1], min(one))))


def _tiles(spec: MicrokernelSpec) -> Tiles | None:
    """None for vectors."""
    if spec.tile is None:
        return None
    *loops, step = plain_loops(spec)
    return replace(_held(spec.tile, spec.product, spec.tile.held(spec.m, spec.n)), loops=tuple(loops), step=step)


def _held(tile: Tile, product: Product, held: tuple[int, int]) -> Tiles:
    high, wide = held
    (rate,) = (rate for rates in product.rates.values() for rate in rates)
    macro = f"POLYDL_{tile.macros.upper()}"
    guard = f"defined({macro}) && (defined(POLYDL_EMULATE) || defined({MACROS[rate.feature]}))"
    spare = min(wide, tile.spare(high, wide))
    return Tiles(tile, product, guard, high, wide, spare)


def _multiply(spec: MicrokernelSpec, name: str) -> str:
    """The C function of one step of the reductions."""
    if spec.step is not None:
        return f"{name}_step"
    return f"polydl_{spec.product.call}" if spec.product.in_words else f"{vector_name(spec)}_fma"


def stride_text(value: int | None, name: str) -> str:
    """A stride or extent as C text."""
    return name if value is None else str(value) if value >= 0 else f"({value})"


def _joined(spec: MicrokernelSpec) -> list[tuple[int, Reduction]]:
    """The reduction loops with their indices, those of one iteration left out, neighbours joined where they can be.

    An outer loop continues an inner one exactly when each of its strides is the inner extent times the inner stride.
    Longer innermost loops mean fewer loop exits, each of which costs a branch misprediction.
    """
    loops: list[tuple[int, Reduction]] = []
    for index, inner in enumerate(spec.reductions):
        if inner.extent == 1:
            continue
        joined = _join(loops[-1][1], inner) if loops and not spec.window else None
        if joined is None:
            loops.append((index, inner))
        else:
            loops[-1] = (index, joined)
    if not loops:
        loops = [(0, Reduction(1, 0, 0))]
    elif loops[-1][1].by_table and not spec.window:
        # The innermost loop steps pointers, which a table does not.
        loops.append((len(spec.reductions), Reduction(1, 0, 0)))
    return loops


def _is_paired(spec: MicrokernelSpec) -> bool:
    """Whether blocks one vector wide take two reduction steps at a time: neighbours in A, a whole number of pairs."""
    if (
        spec.step is not None
        or spec.window
        or spec.direct is not None
        or spec.word not in VECTOR_TYPES
        or (spec.dtype is F64 and spec.m >= _PAIRED_DOUBLE_ROWS)
    ):
        return False
    loops = [loop for _, loop in _joined(spec)]
    if all(loop.extent is not None for loop in loops) and math.prod(loop.extent or 0 for loop in loops) < _FOLDED:
        return False
    last = loops[-1]
    return spec.a_m is not None and last.a_stride == 1 and last.extent is not None and last.extent % 2 == 0


def _streams_rows(spec: MicrokernelSpec) -> bool:
    """Whether rows of A are prefetched: as asked for, along an innermost reduction that runs through them."""
    return spec.prefetch_rows > 0 and not spec.window and spec.a_m is not None and _joined(spec)[-1][1].a_stride == 1


def _overlaps(spec: MicrokernelSpec) -> bool:
    """Whether a step of the innermost reduction loads vectors of B that the step before loaded, too. gcc would keep
    them in registers from step to step (`-fpredictive-commoning`) and spill sums for that."""
    stride = _joined(spec)[-1][1].b_stride
    return stride is not None and 0 < abs(stride) < spec.n and stride * spec.dtype.bytes % NARROW[0] == 0


def _next_entry(spec: MicrokernelSpec) -> str:
    """C of the elements from the rows of B that an entry of its table leads to to those of the next entry; empty: they
    are not fetched ahead. The last entry has none behind it, and is the next one itself."""
    tables = [(index, loop) for index, loop in _joined(spec)[:-1] if loop.b_table]
    if not spec.prefetch_next or spec.window or not tables or tables[-1] != _joined(spec)[-2]:
        return ""
    loop, table = _loop(*tables[-1]), f"b_table{tables[-1][0]}"
    r = f"r{loop.index}"
    return f"((ptrdiff_t){table}[{r} + ({r} + 1 < {loop.extent})] - {table}[{r}]) * {loop.b_stride}"


def plain_loops(spec: MicrokernelSpec) -> list[ReductionText]:
    """The reduction loops as C text, as the specification has them."""
    return [_loop(index, reduction) for index, reduction in enumerate(spec.reductions)]


def _loop(index: int, reduction: Reduction) -> ReductionText:
    strides = {
        "a": stride_text(reduction.a_stride, f"a_stride{index}"),
        "b": stride_text(reduction.b_stride, f"b_stride{index}"),
    }
    tables = {"a": reduction.a_table, "b": reduction.b_table}
    moved = {role: f"(ptrdiff_t){role}_table{index}[r{index}]" if tables[role] else f"r{index}" for role in strides}
    places = {role: f"{moved[role]} * {stride}" for role, stride in strides.items()}
    extent = stride_text(reduction.extent, f"extent{index}")
    return ReductionText(index, extent, strides["a"], strides["b"], places["a"], places["b"])


def _join(outer: Reduction, inner: Reduction) -> Reduction | None:
    """One loop in place of two, or None when the strides do not continue or are not known."""
    if outer.extent is None or inner.extent is None or inner.a_stride is None or inner.b_stride is None:
        return None
    if outer.by_table or inner.by_table:
        return None
    if (outer.a_stride, outer.b_stride) != (inner.extent * inner.a_stride, inner.extent * inner.b_stride):
        return None
    return Reduction(outer.extent * inner.extent, inner.a_stride, inner.b_stride)


def _result(spec: MicrokernelSpec) -> str:
    """C expression of the vector to store, before the epilogue."""
    v = vector_name(spec)
    if spec.step is not None:
        return "sum"
    product = f"sum * {v}_all(alpha)" if spec.alpha else "sum"
    old = f"(cut ? {v}_load_part(p, part) : {v}_load(p))" if spec.beta else f"{v}_zero()"
    if spec.negate:
        return f"{old} - {product}"
    return f"{old} + {product}" if spec.beta else product


def start_text(spec: MicrokernelSpec) -> str:
    """Elements from the start of B to what the sums start from; empty: they start elsewhere. It is in a copy of B,
    whose steps follow each other without gaps: behind the last iteration of the outermost reduction."""
    if not spec.product.correction or spec.direct is not None:
        return ""
    outermost = _loop(0, spec.reductions[0])
    return f"{outermost.extent} * {outermost.b_stride}"


def _extents(spec: MicrokernelSpec) -> str:
    return "x".join("n" if r.extent is None else str(r.extent) for r in spec.reductions) or "1"


def _name(spec: MicrokernelSpec) -> str:
    """A readable name, made unique by a hash of the whole specification."""
    product = "" if spec.product is FMA else spec.product.name
    forms = (
        " in place" * spec.in_place
        + " next" * spec.prefetch_next
        + " no store" * (not spec.stores)
        + f" {spec.long}" * bool(spec.long)
    )
    forms += "".join(f" {i}{r.a_table}{r.b_table}" for i, r in enumerate(spec.reductions) if r.by_table)
    forms += f" {spec.direct}" * (spec.direct is not None)
    forms += f" {spec.step}" * (spec.step is not None) + " window" * spec.window + " scalar" * spec.scalar_b
    digest = hashlib.sha256((repr(spec) + product + forms).encode()).hexdigest()[:8]
    return f"polydl_mk_{product or spec.dtype.name}_{spec.m}x{spec.n}_k{_extents(spec)}_b{spec.beta}_{digest}"


def _summary(spec: MicrokernelSpec) -> str:
    """What the function computes, for the comment above it."""
    c = f"C[i*{_shown(spec.c_m)} + j]"
    a = "".join(f" + {_number(i, 'a', r.a_table)}*{_shown(r.a_stride)}" for i, r in enumerate(spec.reductions))
    b = "".join(f" + {_number(i, 'b', r.b_table)}*{_shown(r.b_stride)}" for i, r in enumerate(spec.reductions))
    a = along_text(spec).replace(" * ", "*") + a
    sign = "-" if spec.negate else "+" if spec.beta else ""
    alpha = "alpha * " if spec.alpha else ""
    over = f"sum over r < {_extents(spec)} of " if spec.reductions else ""
    left, right = f"A[i*{_shown(spec.a_m)}{a}]", f"B[{'0' if spec.scalar_b else 'j'}{b}]"
    where = f"i < m <= {spec.m}, j < n <= {spec.n}"
    if spec.step is not None:
        start = "a number" if spec.step.start else "C"
        return f"{c} = step({left}, {right}) of {start} over r < {_extents(spec)}, {where}"
    product = f"{spec.product.name}({left}, {right})" if spec.product.in_words else f"{left} * {right}"
    kept = "" if spec.direct is None else f", operands of {spec.direct.a.c} and {spec.direct.b.c} as they are"
    return f"{c} {sign}= {alpha}{over}{product}, {where}{kept}"


def along_text(spec: MicrokernelSpec) -> str:
    """C text of how far A has moved in column j, behind what comes before."""
    return " + j" if spec.window == 1 else f" + j * {spec.window}" if spec.window else ""


def _shown(stride: int | None) -> str:
    return "s" if stride is None else str(stride)


def _number(index: int, role: str, table: str) -> str:
    return f"{role}_table{index}[r{index}]" if table else f"r{index}"
