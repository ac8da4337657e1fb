"""Innermost loops as calls of vector functions: element-wise chains, sums and extremes of a row.

A row is an innermost loop, with the loops around it that continue its addresses (h and w of an image), whose statements
touch memory contiguously or not at all along it. It is decided on the printed loops: which instances run in one is
known exactly there, whatever transforms made it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import field, replace

from polydl.base.records import dataclass
from polydl.kernels.accumulators import MOST_TOGETHER, together
from polydl.kernels.family import Cycles
from polydl.kernels.inner_sums import sum_cycles, sums_prologue
from polydl.kernels.innermost import Innermost, OfRows, RowFunction
from polydl.kernels.masks import widening
from polydl.kernels.microkernel import MOST_CASES, environment, isa_prologue
from polydl.kernels.narrow_text import narrow_prologue
from polydl.kernels.narrow_values import SMALL, converts, row_element, takes_bits
from polydl.kernels.row_builder import RowArgument, RowBuilder, continued_by
from polydl.kernels.vector_text import NotVectorised, math_prologue, own_prologues, uses_functions
from polydl.model import isl
from polydl.model.combiners import SUM, adds
from polydl.model.expr import Binary, affine_values
from polydl.model.scop import Assignment, Statement
from polydl.model.types import F32, I32, ElementType
from polydl.target.instructions import RATE, arithmetic, vector_cycles
from polydl.target.isa import ROW_TYPES, VECTOR_TYPES, WHOLE_TYPES, Isa, isa, lanes_name, written

LONG = 1 << 16
"""Columns, beyond which a row adds up pieces by themselves, and their sums in double: each lane's sum would grow to
where little of a term is left of it (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., §4.2)."""
PIECE = 1 << 14
"""Columns of such a piece."""
FOUND = 2048
"""Columns of a piece that is looked through again for what it found, which the first cache holds."""


@dataclass(frozen=True, slots=True)
class Store:
    """A vector store at the end of a step."""

    address: str
    value: str
    stream: bool
    form: str = field(default="store", repr=False)
    """Of the vector function, behind the type of its lanes: narrow elements have their own, and one that converts. What
    is declared says it too, so names of functions need not."""


@dataclass(frozen=True, slots=True)
class RowUse:
    """A piece as a row."""

    piece: Innermost
    element: ElementType
    built: RowBuilder | None
    """None: only what it would take is asked."""


class GeneralRow(OfRows):
    """Any element-wise chain, sum or extreme that `vector_text` has the operations for: the last family to be asked."""

    name = "row"

    def matches(self, piece: Innermost) -> Sequence[RowUse]:
        """Of a piece that is not printed, it is taken for granted that its operations have vector forms."""
        types = {piece.arrays[a.array].element for s in piece.statements for a in s.accesses}
        widest = row_element(types)
        if piece.printed is None:
            return (RowUse(piece, widest, None),)
        probe = RowBuilder(piece, piece.printed, widest)
        keeping = probe.winners()
        inner = piece.inner
        others = [(at, s) for at, s in enumerate(piece.statements) if at not in keeping and at not in inner]
        types = {piece.arrays[a.array].element for _, s in others for a in s.accesses}
        types |= {probe.held(at, probe.target(at)) for at in inner}
        bits = takes_bits(s.body.value for _, s in others if isinstance(s.body, Assignment))
        longer = {at: probe.longer(at) for at, _ in others}
        short = {probe.held(at, i) for at, s in others for i in range(len(s.accesses)) if i not in longer[at]}
        if len(short) == 1 and all(one.is_int for one in short) and not bits:
            types = short
        if len(types) > 1 and not (inner or bits or converts(types)):
            asked = {at: probe.beside_lanes(at) for at, _ in others}
            types = {probe.held(at, i) for at, s in others for i in range(len(s.accesses)) if i not in asked[at]}
        widest = row_element({*types, F32} if bits else types)
        # A sum inside of a column is one of words, whatever is stored of it.
        read = {t for at in inner for t in _read_inside(piece, at)}
        words = bool(inner) and all(t in SMALL for t in types) and widest not in read
        if inner and not words and not converts(types):
            types |= read
            widest = row_element(types)
        widest = F32 if words else widest
        built = RowBuilder(piece, piece.printed, widest, narrow=words or converts(types) or (bits and widest is F32))
        widened = widest is I32 and all(t is I32 or (t.is_int and t.bytes < I32.bytes) for t in types)
        several = types != {widest} and not widened
        if (several and not built.narrow) or (types != {widest} and keeping) or widest not in ROW_TYPES:
            return ()
        try:
            for at in range(len(piece.statements)):
                if at in inner:
                    built.add_sum(at)
                elif at not in keeping:
                    built.add(at, {k: one for k, (found, one) in keeping.items() if found == at})
            built.check_searches()
            built.check_loads()
        except NotVectorised:
            return ()
        return (RowUse(piece, widest, built),)

    def cycles(self, use: RowUse, shape: int, isa: Isa) -> Cycles:
        piece = use.piece
        lanes = max(1, isa.vector_bytes // use.element.bytes)
        steps = []
        for at, (statement, moves, shares, times) in enumerate(
            zip(piece.statements, piece.moves, piece.shares, piece.times, strict=True)
        ):
            moving = [
                (move, share)
                for access, move, share in zip(statement.accesses, moves, shares, strict=True)
                if not (piece.arrays[access.array].is_scalar or move == 0)  # it stays in a register
            ]
            ops = arithmetic(statement)
            if _adds_products(statement) and not use.element.is_int:
                ops = replace(ops, simple=ops.simple - 1)  # an FMA
            if at in piece.inner and use.element not in _read_inside(piece, at):
                windows = all(abs(move) <= 1 for move, _ in moving if move is not None)
                steps.append(sum_cycles(piece.inner[at], ops.simple + len(moving), lanes, isa, windows=windows))
                continue
            each = times * piece.inner.get(at, 1)
            steps.append(each * vector_cycles(ops, moving, lanes, ops.vector_instructions / RATE))
        return Cycles(shape * sum(steps))

    def emit(self, use: RowUse, shape: int) -> RowFunction:
        assert use.built is not None, "only printed loops have a function"
        return _rendered(use.built)

    def meaning(self, use: RowUse, shape: int) -> str:
        assert use.built is not None, "only printed loops have a function"
        stores = [f"{address.partition(' ')[0]}[j] = {name};" for address, (_, name) in use.built.stored.items()]
        counted = "j = n - 1; j >= 0; j--" if use.built.where.turned else "j = 0; j < n; j++"
        return f"for (ptrdiff_t {counted}) {{ {' '.join([*use.built.plain, *stores])} }}"


def _adds_products(statement: Statement) -> bool:
    body = statement.body
    return isinstance(body, Assignment) and adds(body.op) and isinstance(body.value, Binary) and body.value.op == "*"


def _read_inside(piece: Innermost, at: int) -> set[ElementType]:
    """Types of what a statement in a loop inside of the row reads beside what it changes."""
    statement = piece.statements[at]
    changed = statement.target.array
    return {piece.arrays[a.array].element for a in statement.accesses if a.array != changed}


def _cycles(builder: RowBuilder) -> float:
    """What a step takes when it waits for nothing: its instructions, and loads of two vectors in a cycle."""
    counts = [arithmetic(statement) for statement in builder.piece.statements]
    loads = sum(a.pointer and not a.written for a in builder.arguments)
    simple = sum(c.simple for c in counts) - sum(a.op == "=" for a in builder.accumulators)
    if builder.sums or builder.windows:
        return float(MOST_TOGETHER)  # its columns are enough to do at a time
    return max(loads, simple) / 2 + sum(c.slow + c.vector_instructions for c in counts)


def _shift(builder: RowBuilder, argument: RowArgument) -> str:
    """What is added to an argument for a piece of the row that begins in column `from`."""
    of = argument.of
    if of.affine:
        body = builder.piece.statements[of.statement].body
        assert isinstance(body, Assignment)
        grows = builder.where.growth(of.statement, affine_values(body.value)[of.access].value)
        return continued_by(grows, "from") if grows else ""
    move = builder.move(of.statement, of.access)
    return f" + {'' if move == 1 else f'{move} * '}from" if of.pointer and move else ""


def _columns(builder: RowBuilder) -> int:
    """Columns of the row, at most; 0 where that is not known."""
    loops, times = builder.where.loops, builder.where.body[0].schedule.range()
    low, high = isl.least(times, loops.dims[0]), isl.greatest(times, loops.dims[0])
    return 0 if low is None or high is None else (high - low + 1) * math.prod(loops.extents)


def _rendered(builder: RowBuilder) -> RowFunction:
    t, arguments, accumulators = builder.element, builder.arguments, builder.accumulators
    long = (
        [a for a in accumulators if a.combiner is SUM and t.is_float and not a.scanned]
        if _columns(builder) > LONG
        else []
    )
    parts = {a.place: f"&{a.name}_part" for a in long}
    many = len(builder.piece.statements)
    loaded = {name for (name, _, pointer), a in zip(builder.keys, builder.arguments, strict=True) if not a.written}
    past = frozenset[str]() if builder.windows else builder.where.options.stream
    held = {array: builder.piece.arrays[array].element for array, _ in builder.stored.values()}
    used = "\n".join((*builder.lines, *(repr(a.content) for a in accumulators), *map(repr, builder.sums)))
    # What nothing else uses is rounded by its store.
    rounding = {name: how for name, how in builder.unrounded.items() if len(re.findall(rf"\b{name}\b", used)) == 1}
    stores = [
        Store(address, variable, array in past and array not in loaded)
        if held[array] is t
        else Store(address, variable, False, f"{'round' if variable in rounding else 'store'}_{held[array].name}")
        for address, (array, variable) in builder.stored.items()
    ]
    lines = [*builder.lines]
    for place, unrounded in rounding.values():
        lines[place] = unrounded
    streamed = [s.address.partition(" ")[0] for s in stores if s.stream]
    declared = "".join(f", {a.declaration}" for a in arguments)
    windows = [one.name for one in builder.windows]
    content = repr((builder.element, lines, stores, [a.content for a in accumulators], declared, *windows))
    name = f"polydl_row_{lanes_name(t)}_{hashlib.sha256(content.encode()).hexdigest()[:10]}{'_long' if long else ''}"
    text = (
        environment()
        .get_template("row.c.j2")
        .render(
            t=t,
            v=builder.vector,
            name=name,
            summary=f"A row of {many} statement{'s' if many > 1 else ''}",
            lines=lines,
            stores=stores,
            streamed=streamed,
            declared=declared,
            unused=[a.name for a in arguments],
            passed="".join(f", {a.name}" for a in arguments),
            accumulators=accumulators,
            shifted="".join(f", {parts.get(a.name, f'{a.name}{_shift(builder, a)}')}" for a in arguments),
            long=long,
            turned=builder.where.turned,
            columns=PIECE if long else FOUND,
            windows=builder.windows,
            searches=list(dict.fromkeys(a.search for a in accumulators if a.search)),
            together=1 if any(a.scanned for a in accumulators) else together(len(accumulators), _cycles(builder)),
        )
    )
    called = [*builder.lines, *(a.gathered(builder.vector) for a in accumulators)]
    called += [f"{builder.vector}_any(" for a in accumulators if a.beside]
    scans = dict.fromkeys(a.combiner for a in accumulators if a.scanned)
    called += [row.step.format(v=builder.vector, m="m", x="x") for row in scans]
    math = builder.narrow or (t.is_float and uses_functions(" ".join(called), builder.element))
    values = [s.body.value for s in builder.piece.statements if isinstance(s.body, Assignment)]
    own = own_prologues(values, t, fast=builder.where.options.fast_math)
    before = (*row_prologue(t, builder.where.options.long), *([math_prologue(t), *own] if math else []))
    before = (*before, *([narrow_prologue()] if builder.narrow else []))
    sums = (*(one.text for one in builder.sums), *(one.text for one in builder.windows))
    before = (*before, *([sums_prologue()] if sums else []), *sums)
    before = (*before, *widening(t, builder.widened, builder.masks))
    scan = environment().get_template("row_scan.c.j2")
    before = (*before, *(scan.render(t=t, v=builder.vector, row=row) for row in scans))
    return RowFunction(
        name,
        text,
        f"const ptrdiff_t n{declared}",
        before,
        tuple(a.of for a in arguments),
        bool(streamed),
        bool(accumulators),
    )


def row_prologue(element: ElementType, long: str = "") -> tuple[str, ...]:
    """What every row of one element type needs; `long`: with such vectors (`target.isa.LONG`)."""
    if element.is_int:
        same = [row for row in WHOLE_TYPES if row.bytes == element.bytes]
        signed, unsigned = (next(row.c for row in same if row.unsigned == kind) for kind in (False, True))
        template = environment().get_template("row_integers.c.j2")
        v = f"polydl_{lanes_name(element)}"
        text = template.render(
            t=element, v=v, signed=signed, unsigned=unsigned, most_cases=MOST_CASES, isas=written(long),
            long=isa(long) if long else None,
        )  # fmt: skip
        return (text,)
    return (
        isa_prologue(element, long),
        environment().get_template("row_prologue.c.j2").render(t=element, x86=VECTOR_TYPES[element]),
    )
