"""Innermost loops that read along one loop and write along another: transposes and relayouts, in squares of vectors.

    to[j][i] = f(from[i][j])        i < m, j < n; f: any element-wise operation, with conversions

Lanes times lanes elements are loaded as vectors along j, transposed in registers (`kernels.packing`), computed with
and stored as vectors along i; of one and two bytes fewer columns, which stay in registers. Squares follow one another
along j within strips of `STRIP_BYTES`, so that lines of the source are read while they are in a cache, and lines that
are written get full there. The loops may be groups of loops
that continue each other, and run backwards: any permutation of dimensions, blocked layouts and rotations are of this
form.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.kernels.family import Cycles
from polydl.kernels.innermost import Argument, Printed, RowOptions, conflict, move_along
from polydl.kernels.microkernel import environment
from polydl.kernels.narrow_text import Narrow, everywhere, narrow_prologue, register
from polydl.kernels.narrow_values import converts, row_element, stored_value
from polydl.kernels.packing import GROUP_BYTES, MOST_IN_PIECES, square_columns, transpose_prologue
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.kernels.rows import row_prologue
from polydl.kernels.scalar_text import scalar_text
from polydl.kernels.vector_text import NotVectorised, Vectors, math_prologue, own_prologues, uses_functions
from polydl.kernels.whole_text import Whole
from polydl.model import isl
from polydl.model.expr import loads, sure_loads
from polydl.model.layout import Layout
from polydl.model.scop import Array, Assignment, Statement
from polydl.model.types import ElementType
from polydl.target.instructions import RATE, arithmetic
from polydl.target.isa import ROW_TYPES, WHOLE_TYPES, Isa, lanes_name

STRIP_BYTES = 2048
"""Of a row of the source that a strip reads: of 256 to 4096, the best or close to it in memory and in each cache
(Zen 4, two threads)."""
MOST_COLUMNS = 512
"""Of a strip, each of which has a line of the result: 32 KiB of them."""
BLOCK_LINES = 4
"""Cache lines of each row of the result that are put into a buffer before they go to memory past the caches: of 1 to 8,
with strips of 1 and 2 KiB, the best (Xeon with AMX, two threads)."""
BUFFERED_COLUMNS = 256
"""Of a strip whose rows go there, at most: the buffer takes 80 KiB of a stack, and threads of musl have 128."""
LEAST_LINES = 4
"""Of a row of the result, from which on squares begin where a vector lies in whole lines: 400 x 400 floats 16 bytes
behind lines take 0.55 of the time (Xeon with AMX). Only where squares are whole."""
_LEAST = 4
"""Part of a vector that each of both loops must have, where its length is known, for squares to be worth it."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """An assignment in two innermost loops, each with the loops that go on where it ends. No instance needs another."""

    arrays: Mapping[str, Array]
    statement: Statement
    moves: tuple[tuple[int | None, int | None], ...]
    """Per access the elements from one iteration to the next of the outer and of the inner loop; None: not one
    number."""
    same: tuple[int, ...]
    """Per access the first one that touches the same element."""
    extents: tuple[int | None, int | None] = (None, None)
    """Iterations of both loops, at most; None: not known."""
    options: RowOptions = field(default_factory=RowOptions)


@dataclass(frozen=True, slots=True)
class TransposeFunction:
    """A function, and what it is called with."""

    name: str
    text: str
    """C definitions; ends in a newline."""
    signature: str
    """`const ptrdiff_t m, const ptrdiff_t n`, the iterations of the loop that it writes along and of the one that it
    reads along, come first."""
    prologue: tuple[str, ...]
    """File-scope pieces that must stand before it."""
    arguments: tuple[Argument | int, ...]
    """Those behind the lengths: elements of the first iteration, and strides."""
    along: int
    """Which loop it writes along: 0, the outer one, or 1."""
    backwards: tuple[bool, bool]
    """Whether the first iteration of the outer, of the inner loop is its last one."""
    streams: bool
    """Whether it stores past the caches."""

    @property
    def always_touches(self) -> bool:
        """Whether a call reads elements or writes to memory though there are no iterations."""
        return self.streams or any(isinstance(one, Argument) and not one.pointer for one in self.arguments)


@dataclass(frozen=True, slots=True)
class Turned:
    """A rectangle with the roles of its loops."""

    piece: Rectangle
    along: int
    """The loop that it writes along."""
    backwards: tuple[bool, bool]
    element: ElementType
    """Which it computes in."""
    made: _Text | None = None


@dataclass(frozen=True, slots=True)
class _Square:
    """A square that is read, in the template's words."""

    variable: str
    whole: str
    """C of vector k of it."""
    part: str
    """The same where it has fewer columns; empty: `whole` does that, too."""


@dataclass(frozen=True, slots=True)
class _Text:
    squares: tuple[_Square, ...]
    lines: tuple[str, ...]
    """C in vector r of the result."""
    plain: str
    """The same as plain C, in element (i, j)."""
    declared: str
    names: tuple[str, ...]
    arguments: tuple[Argument | int, ...]
    along_i: tuple[str, ...]
    """C that moves the addresses by @ iterations."""
    along_j: tuple[str, ...]
    address: str
    form: str
    target: str
    prologue: tuple[str, ...]


def rectangle(
    arrays: Mapping[str, Array], at: RowStatement, counts: Sequence[int | None], inner: int, options: RowOptions
) -> Rectangle:
    """The piece that the innermost printed loops around a statement are. `counts`: their iterations, outermost first
    (None: not known); the last `inner` of them continue one another, as do the others. Raises NotVectorised where an
    instance needs another, or they are not the schedule's loops."""
    depth = isl.range_arity(at.schedule)
    dims = tuple(range(depth - len(counts), depth))
    times = at.schedule.range()
    pairs = isl.Map.from_domain_and_range(times, times)
    if dims[0] < 0 or any(isl.range_onto(isl.agree(pairs, range(d)), [d]).is_single_valued() for d in dims):
        raise NotVectorised("loops that are not the schedule's")
    cut = len(counts) - inner
    where = Printed((at,), RowLoops(dims, ()), frozenset(), options)
    groups = [RowLoops(dims[k:end], _known(counts[k + 1 : end])) for k, end in ((0, cut), (cut, len(counts)))]
    statement = at.statement
    relations = [where.relation(0, access) for access in statement.accesses]
    moves = tuple(
        (move_along(arrays[access.array], relation, groups[0]), move_along(arrays[access.array], relation, groups[1]))
        for access, relation in zip(statement.accesses, relations, strict=True)
    )
    for access, relation in zip(statement.accesses, relations, strict=True):
        for other, touched in zip(statement.accesses, relations, strict=True):
            if access.write and access.array == other.array and conflict(where, relation, touched):
                raise NotVectorised(f"iterations touch the same elements of {access.array}")
    same = tuple(
        next(
            k
            for k, (other, touched) in enumerate(zip(statement.accesses, relations, strict=True))
            if other.array == access.array and touched.is_equal(relation)
        )
        for access, relation in zip(statement.accesses, relations, strict=True)
    )
    most = [_most(times, d) for d in dims]
    first, second = (_product(most[k:end]) for k, end in ((0, cut), (cut, len(most))))
    return Rectangle(arrays, statement, moves, same, (first, second), options)


def _most(times: isl.Set, loop: int) -> int | None:
    """Iterations of a loop, at most; None where nothing bounds them."""
    least, greatest = isl.least(times, loop), isl.greatest(times, loop)
    return None if least is None or greatest is None else greatest - least + 1


def _known(counts: Sequence[int | None]) -> tuple[int, ...]:
    found = tuple(count for count in counts if count is not None)
    if len(found) < len(counts):
        raise NotVectorised("loops that do not continue each other")
    return found


def _product(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return math.prod(known) if len(known) == len(counts) else None


class Transposes:
    """Squares of vectors, transposed in registers."""

    name = "transpose"

    def matches(self, piece: Rectangle) -> Sequence[Turned]:
        """The loop along which it writes is the one whose iterations are neighbours in the target. At least one operand
        has neighbours along the other."""
        statement, body = piece.statement, piece.statement.body
        if not isinstance(body, Assignment):
            return ()
        types = {piece.arrays[access.array].element for access in statement.accesses}
        element, narrow = row_element(types), converts(types)
        if (types != {element} and not narrow) or element not in ROW_TYPES:
            return ()
        for along in (0, 1):
            found = _turned(piece, body, along)
            if found is None:
                continue
            use = Turned(piece, along, found, element)
            try:
                return (Turned(piece, along, found, element, _Builder(use, body, narrow=narrow).text()),)
            except NotVectorised:
                return ()
        return ()

    def shapes(self, use: Turned, isa: Isa) -> Sequence[int]:
        """None to choose: a square has as many vectors as a vector has lanes."""
        return (1,)

    def layouts(self, use: Turned, shape: int) -> Mapping[str, Layout]:
        """None: operands are read where they are."""
        return {}

    def cycles(self, use: Turned, shape: int, isa: Isa) -> Cycles:
        """Of one vector of the result: shuffles and arithmetic, while other ports load and store. Vectors of more than
        32 bytes take two turns; where a vector is put together of pieces of rows, each of them is loaded."""
        assert use.made is not None
        lanes, squares = isa.lanes(use.element), len(use.made.squares)
        turns = max(1.0, isa.vector_bytes / 32)
        columns = square_columns(use.element, lanes)
        loads = squares * lanes / columns
        ops = arithmetic(use.piece.statement)
        computed = squares * math.log2(columns) + ops.simple + ops.vector_instructions
        return Cycles(turns * max(computed / RATE, loads / isa.loads + 1.0) + ops.slow)

    def emit(self, use: Turned, shape: int) -> TransposeFunction:
        made = use.made
        assert made is not None
        t = use.element
        streams = made.target in use.piece.options.stream and not _reads_target(use.piece)
        held = use.piece.arrays[made.target].element
        sent = held if held in ROW_TYPES else next(row for row in WHOLE_TYPES if row.bytes == held.bytes)
        line = 64 // held.bytes
        buffered = {"line": line, "block": BLOCK_LINES * line, "apart": (BLOCK_LINES + 1) * line}
        signature = f"const ptrdiff_t m, const ptrdiff_t n{made.declared}"
        columns = str(GROUP_BYTES // t.bytes) if t.bytes <= MOST_IN_PIECES else ""
        content = repr((t.name, made.squares, made.lines, made.address, made.form, made.declared, streams))
        name = f"polydl_transpose_{lanes_name(t)}_{hashlib.sha256(content.encode()).hexdigest()[:10]}"
        text = (
            environment()
            .get_template("transpose.c.j2")
            .render(
                t=t,
                v=f"polydl_{lanes_name(t)}",
                columns=columns,
                name=name,
                meaning=self.meaning(use, shape),
                squares=made.squares,
                lines=made.lines,
                address=made.address,
                form=made.form,
                held=held.c,
                sent=f"polydl_{lanes_name(sent)}",
                cast="" if sent is held else f"({sent.c} *)",
                stream=streams,
                declared=made.declared,
                signature=signature,
                along_i="".join(f", {one}" for one in made.along_i),
                start=", ".join(made.along_i).replace("@", "i"),
                least=0 if columns else LEAST_LINES * 64 // t.bytes,
                along_j="".join(f", {one}" for one in made.along_j),
                passed="".join(f", {one}" for one in made.names),
                ignored="".join(f", (void){one}" for one in made.names[1:]),
                strip=min(BUFFERED_COLUMNS if streams else MOST_COLUMNS, STRIP_BYTES // t.bytes),
                passed_on="".join(f", {one}" for one in made.names[2:]),
                **buffered,
            )
        )
        send = environment().get_template("send.c.j2").render(t=sent, v=f"polydl_{lanes_name(sent)}", **buffered)
        aligned = environment().get_template("aligned.c.j2").render()
        past = [one for one in (*row_prologue(sent, use.piece.options.long), send) if one not in made.prologue]
        prologue = (*made.prologue, *([] if columns and not streams else [aligned]), *(past if streams else []))
        arguments, back = made.arguments, use.backwards
        return TransposeFunction(name, text, signature, prologue, arguments, use.along, back, streams)

    def meaning(self, use: Turned, shape: int) -> str:
        assert use.made is not None
        return f"for (ptrdiff_t i = 0; i < m; i++) for (ptrdiff_t j = 0; j < n; j++) {use.made.plain}"


def _turned(piece: Rectangle, body: Assignment, along: int) -> tuple[bool, bool] | None:
    """Which of the loops run backwards, where it writes along `along` and reads a square along the other; None: it does
    not."""
    other = 1 - along
    target = piece.moves[body.target]
    if target[along] not in (1, -1) or target[other] in (None, 0):
        return None
    squares = {
        move[other]
        for access, move in zip(piece.statement.accesses, piece.moves, strict=True)
        if not access.write and move[other] in (1, -1) and move[along] not in (0, 1, -1)
    }
    if len(squares) != 1:
        return None
    lanes = 16 // piece.arrays[piece.statement.target.array].element.bytes
    if any(extent is not None and extent < max(2, lanes // _LEAST) for extent in piece.extents):
        return None
    back = {along: target[along] == -1, other: squares == {-1}}
    return back[0], back[1]


def _reads_target(piece: Rectangle) -> bool:
    """Whether an iteration reads the element that it stores: a buffer in between does not hold it."""
    body = piece.statement.body
    assert isinstance(body, Assignment)
    return body.target_read is not None or any(piece.same[k] == piece.same[body.target] for k in loads(body.value))


class _Builder:
    """Writes the vector code of a rectangle."""

    def __init__(self, use: Turned, body: Assignment, *, narrow: bool) -> None:
        self.use, self.body, self.narrow = use, body, narrow
        self.piece, self.vector = use.piece, f"polydl_{lanes_name(use.element)}"
        self.squares: dict[int, _Square] = {}
        self.parameters: list[str] = []
        self.names: list[str] = []
        self.arguments: list[Argument | int] = []
        self.known: dict[int, tuple[str, str]] = {}
        self.before: list[str] = []
        self.along_i: list[str] = []
        self.along_j: list[str] = []

    def text(self) -> _Text:
        """All of it. Raises NotVectorised."""
        body = self.body
        statement = self.piece.statement
        sure = {self.piece.same[k] for k in (*sure_loads(body.value), body.target, body.target_read) if k is not None}
        if any(self.piece.same[k] not in sure for k in loads(body.value)):
            raise NotVectorised("elements that may not be there")
        target = body.target
        if self._moves(target)[0] != 1:
            raise NotVectorised("a target without neighbours")
        held = self._held(target)
        name = self._pointer(target, ("j",), written=True)
        value = stored_value(body, self._held) if self.narrow else body.value
        plain: dict[int, str] = {}

        def load(access: int) -> str:
            vector, plain[access] = self._load(access)
            return vector

        vectors = self._vectors(load)
        text, scalar = vectors.text(value), scalar_text(value, plain.__getitem__)
        if body.op != "=":
            if body.op[:-1] not in vectors.operators or body.target_read is None:
                raise NotVectorised(f"the operator {body.op}")
            text = f"{load(body.target_read)} {body.op[:-1]} {text}"
            scalar = f"{plain[body.target_read]} {body.op[:-1]} {scalar}"
        if not self.squares:
            raise NotVectorised("nothing to transpose")
        t = self.use.element
        kind = self.vector if held is t else register(held)
        lines = (*self.before, f"const {kind} polydl_value = {text};")
        math = self.narrow or (t.is_float and uses_functions(" ".join(lines), t))
        own = own_prologues([value], t, fast=self.piece.options.fast_math)
        prologue = (*row_prologue(t, self.piece.options.long), *([math_prologue(t), *own] if math else []))
        return _Text(
            tuple(self.squares.values()),
            lines,
            f"{name}[i + j * {name}_j] = {scalar};",
            "".join(f", {one}" for one in self.parameters),
            tuple(self.names),
            tuple(self.arguments),
            tuple(self.along_i),
            tuple(self.along_j),
            f"{name} + r * {name}_j",
            "" if held is t else f"_{held.name}",
            statement.accesses[target].array,
            (*prologue, *([narrow_prologue()] if self.narrow else []), transpose_prologue(t, self.piece.options.long)),
        )

    def _held(self, access: int) -> ElementType:
        return self.piece.arrays[self.piece.statement.accesses[access].array].element

    def _moves(self, access: int) -> tuple[int, int]:
        """Elements from one iteration to the next of the loop that it writes along, and of the other. Raises
        NotVectorised."""
        signs = [-1 if back else 1 for back in self.use.backwards]
        along, other = self.use.along, 1 - self.use.along
        first, second = self.piece.moves[access][along], self.piece.moves[access][other]
        if first is None or second is None:
            raise NotVectorised("an address that does not move evenly")
        return first * signs[along], second * signs[other]

    def _vectors(self, load: object) -> Vectors:
        element, fast = self.use.element, self.piece.options.fast_math
        if self.narrow:
            return Narrow(element, load, fast, of=self._held)  # type: ignore[arg-type]
        return Whole(element, load) if element.is_int else Vectors(element, load, fast)  # type: ignore[arg-type]

    def _pointer(self, access: int, strides: Sequence[str], *, written: bool = False) -> str:
        """A parameter for an address, with those for its strides along i, along j."""
        name = f"polydl_e{sum(isinstance(one, Argument) for one in self.arguments)}"
        self.parameters.append(f"{'' if written else 'const '}{self._held(access)} *{name}")
        self.arguments.append(Argument(0, access, pointer=True))
        self.names.append(name)
        for stride in strides:
            self.parameters.append(f"const ptrdiff_t {name}_{stride}")
            self.arguments.append(self._moves(access)["ij".index(stride)])
            self.names.append(f"{name}_{stride}")
        i, j = self._moves(access)
        if i:
            self.along_i.append(f"{name} += @" + (f" * {name}_i" if "i" in strides else ""))
        if j:
            self.along_j.append(f"{name} += @" + (f" * {name}_j" if "j" in strides else ""))
        return name

    def _load(self, access: int) -> tuple[str, str]:
        """What an access reads, as vector r and as plain C. Raises NotVectorised."""
        first = self.piece.same[access]
        if first not in self.known:
            self.known[first] = self._loaded(first)
        return self.known[first]

    def _loaded(self, access: int) -> tuple[str, str]:
        held, t, v = self._held(access), self.use.element, self.vector
        i, j = self._moves(access)
        if (i, j) == (0, 0):
            name = f"polydl_e{sum(isinstance(one, Argument) for one in self.arguments)}"
            self.parameters.append(f"const {held} {name}")
            self.arguments.append(Argument(0, access, pointer=False))
            self.names.append(name)
            return (f"{v}_all({name})" if held is t else everywhere(held, name)), name
        if i == 0:
            name = self._pointer(access, ("j",))
            element = f"{name}[r * {name}_j]"
            scalar = f"{name}_here"
            self.before.append(f"const {held} {scalar} = {element};")
            return (f"{v}_all({scalar})" if held is t else everywhere(held, scalar)), f"{name}[j * {name}_j]"
        form = "" if held is t else f"_{held.name}"
        if i == 1:
            own = access == self.piece.same[self.body.target]
            name = self.names[0] if own else self._pointer(access, ("j",) if j else ())
            at, plain = (f"{name} + r * {name}_j", f"{name}[i + j * {name}_j]") if j else (name, f"{name}[i]")
            part = f"{v}_load{form}_part({at}, {v}_first(rows))"
            return f"(rows < {v.upper()}_LANES ? {part} : {v}_load{form}({at}))", plain
        if j != 1:
            raise NotVectorised("an operand without neighbours")
        name = self._pointer(access, ("i",))
        at = f"{name} + k * {name}_i"
        if t.bytes <= MOST_IN_PIECES:
            pieces = f"{v}_pieces({at}, {name}_i, rows - k, columns)"
            self.squares[access] = _Square(f"{name}_square", pieces, "")
            return f"{name}_square[r]", f"{name}[i * {name}_i + j]"
        cast = f"({v})" if held is not t and held.is_int else ""
        self.squares[access] = _Square(
            f"{name}_square",
            f"{cast}{v}_load{form}({at})",
            f"{cast}{v}_load{form}_part({at}, {v}_first(columns))",
        )
        row = f"{name}_square[r]"
        return (f"({register(held)}){row}" if cast else row), f"{name}[i * {name}_i + j]"
