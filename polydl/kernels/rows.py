"""Innermost loops without a microkernel as calls of vector functions: element-wise chains, sums and extremes of a row.

A row is an innermost loop, with the loops around it that continue its addresses (h and w of an image), whose statements
touch memory contiguously or not at all along it. It is decided on the printed loops: which instances run in one is
known exactly there, whatever transforms made it. Values pass from statement to statement in registers, and an element
that several statements write is stored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from polydl.kernels.microkernel import environment, isa_prologue
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.kernels.vector_text import NotVectorised, Vectors, math_prologue, uses_functions
from polydl.model import isl
from polydl.model.expr import Binary, Call, Conditional, Expr, Load, loads
from polydl.model.scop import Access, Array, Assignment
from polydl.model.types import ElementType
from polydl.target.isa import VECTOR_TYPES


@dataclass(frozen=True, slots=True)
class RowArgument:
    """An element, or its address, that a statement touches."""

    at: RowStatement
    access: Access
    pointer: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A vector function and what it is called with."""

    name: str
    prologue: tuple[str, ...]
    arguments: tuple[RowArgument, ...]
    """In the first iteration of the loops, without the length."""
    streams: bool
    """Whether it stores past the caches."""


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What a row may do."""

    stream: frozenset[str] = frozenset()
    """Arrays that are stored past the caches."""
    reassociate: bool = True
    """Sums may be added up in another order."""
    fast_math: bool = False
    """See Scop."""


@dataclass(frozen=True, slots=True)
class _Argument:
    name: str
    of: RowArgument
    written: bool
    element: ElementType

    @property
    def pointer(self) -> bool:
        return self.of.pointer

    @property
    def declaration(self) -> str:
        if not self.pointer:
            return f"const {self.element} {self.name}"
        return f"{'' if self.written else 'const '}{self.element} *{self.name}"


@dataclass(frozen=True, slots=True)
class Store:
    """A vector store at the end of a step."""

    address: str
    value: str
    stream: bool


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A value that a row adds up, or the extreme of one."""

    name: str
    start: str
    finish: str


@dataclass(slots=True)
class _Builder:
    arrays: Mapping[str, Array]
    private: frozenset[str]
    """Scalars that no statement outside of the body uses, and whose first user writes them."""
    loops: RowLoops
    body: Sequence[RowStatement]
    options: RowOptions
    element: ElementType
    lines: list[str] = field(default_factory=list)
    arguments: list[_Argument] = field(default_factory=list)
    keys: list[tuple[str, isl.Map | None, bool]] = field(default_factory=list)
    values: list[tuple[str, isl.Map, str]] = field(default_factory=list)
    """(array, { [c…] -> A[a…] }, C variable) of the elements that the body has made so far."""
    stored: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Per address the array and the variable to store there."""
    accumulators: list[Accumulator] = field(default_factory=list)

    @property
    def vector(self) -> str:
        return f"polydl_{self.element.name}"

    def relation(self, at: RowStatement, access: Access) -> isl.Map:
        return at.schedule.reverse().apply_range(access.relation)

    def stride(self, access: Access, relation: isl.Map) -> int:
        """Elements from one iteration of the row to the next. Raises NotVectorised."""
        array = self.arrays[access.array]
        if array.is_scalar:
            return 0
        moves = [self._coefficients(access.array, relation, d) for d in self.loops.dims]
        along = [self._elements(array, m) for m in moves]
        for k, extent in enumerate(self.loops.extents):
            if along[k] != extent * along[k + 1]:
                raise NotVectorised(f"{access.array} does not continue over the row")
        return along[-1]

    def _coefficients(self, name: str, relation: isl.Map, loop: int) -> list[int]:
        found = []
        for subscript in isl.components(relation.as_pw_multi_aff()):
            one = isl.pieces(subscript.gist(relation.domain()))
            factors = isl.coefficients(one[0][1]) if len(one) == 1 else None
            if factors is None:
                raise NotVectorised(f"the subscripts of {name} are not affine")
            found.append(factors[loop])
        return found

    def _elements(self, array: Array, moves: Sequence[int]) -> int:
        if not any(moves[:-1]):
            return moves[-1]
        distance = array.layout.distance(moves)
        if distance is None:
            raise NotVectorised(f"the extents of {array.name} are not known")
        return distance

    def argument(self, at: RowStatement, access: Access, *, pointer: bool) -> _Argument:
        relation = self.relation(at, access)
        for (name, other, is_pointer), known in zip(self.keys, self.arguments, strict=True):
            if name == access.array and is_pointer == pointer and other is not None and other.is_equal(relation):
                if access.write and not known.written:
                    continue
                return known
        of = RowArgument(at, access, pointer)
        made = _Argument(f"polydl_e{len(self.arguments)}", of, access.write, self.element)
        self.keys.append((access.array, relation, pointer))
        self.arguments.append(made)
        return made

    def load(self, at: RowStatement, access: Access) -> str:
        relation = self.relation(at, access)
        for array, element, variable in reversed(self.values):
            if array == access.array and relation.is_subset(element):
                return variable
        stride = self.stride(access, relation)
        if stride == 0:
            return f"{self.vector}_all({self.argument(at, access, pointer=False).name})"
        if stride != 1:
            raise NotVectorised(f"{access.array} moves by {stride} elements")
        return f"POLYDL_FETCH({self.argument(at, access, pointer=True).name} + polydl_column)"

    def add(self, at: RowStatement) -> None:
        """The lines of one statement. Raises NotVectorised."""
        statement, body = at.statement, at.statement.body
        if not isinstance(body, Assignment):
            raise NotVectorised(f"{statement.name} is a call")
        for a in statement.accesses:
            if self.arrays[a.array].element is not self.element:
                raise NotVectorised(f"{a.array} is {self.arrays[a.array].element}")
        target = statement.accesses[body.target]
        relation = self.relation(at, target)
        stride = self.stride(target, relation)
        vectors = Vectors(
            self.element, lambda access: self.load(at, statement.accesses[access]), self.options.fast_math
        )
        if stride == 0 and target.array not in self.private:
            self._accumulate(at, vectors)
            return
        if stride not in (0, 1):
            raise NotVectorised(f"{target.array} moves by {stride} elements")
        value = vectors.text(body.value)
        if body.op != "=":
            if body.op[:-1] not in "+-*/" or body.target_read is None:
                raise NotVectorised(f"the operator {body.op}")
            value = f"{self.load(at, statement.accesses[body.target_read])} {body.op[:-1]} {value}"
        name = f"polydl_v{len(self.values)}"
        self.lines.append(f"const {self.vector} {name} = {value};")
        self.values.append((target.array, relation, name))
        if stride == 1:
            address = f"{self.argument(at, target, pointer=True).name} + polydl_column"
            self.stored[address] = (target.array, name)

    def _accumulate(self, at: RowStatement, vectors: Vectors) -> None:
        statement, body = at.statement, at.statement.body
        assert isinstance(body, Assignment)
        target = statement.accesses[body.target]
        own = [i for i, a in enumerate(statement.accesses) if a.array == target.array]
        alone = all(
            other is at or all(a.array != target.array for a in other.statement.accesses) for other in self.body
        )
        if not alone or not self.options.reassociate:
            raise NotVectorised(f"{target.array} is the same in every iteration")
        place = self.argument(at, target, pointer=True).name
        name = f"polydl_acc{len(self.accumulators)}"
        if body.op in ("+=", "-="):
            if len(own) != 2:
                raise NotVectorised(f"{statement.name} reads the sum that it adds to")
            value = vectors.text(body.value)
            part = f"cut ? {self.vector}_keep(part, polydl_x, {self.vector}_zero()) : polydl_x"
            self.lines.append(f"{{ const {self.vector} polydl_x = {value}; *{name} = *{name} + ({part}); }}")
            finish = f"*{place} {body.op} {self.vector}_sum({name});"
            self.accumulators.append(Accumulator(name, f"{self.vector}_zero()", finish))
            return
        extreme = (
            _extreme(body.value, lambda i: i in own, lambda x, y: vectors.text(x) == vectors.text(y))
            if body.op == "="
            else None
        )
        if extreme is None or len(own) < 2:
            raise NotVectorised(f"{statement.name} is neither a sum nor an extreme")
        operation, other_value = extreme
        value = vectors.text(other_value)
        better = f"{self.vector}_{operation}(polydl_x, *{name})"
        if operation.startswith("f"):
            better = f"{self.vector}_{operation}(*{name}, polydl_x)"
        kept = f"cut ? {self.vector}_keep(part, {better}, *{name}) : {better}"
        self.lines.append(f"{{ const {self.vector} polydl_x = {value}; *{name} = {kept}; }}")
        which = {"max": "greatest", "min": "least"}.get(operation, operation + "_all")
        start = f"{self.vector}_all(*{place})"
        self.accumulators.append(Accumulator(name, start, f"*{place} = {self.vector}_{which}({name});"))

    def check_independent(self) -> None:
        """No iteration of the row needs another. Raises NotVectorised."""
        accumulated = set()
        for at in self.body:
            body = at.statement.body
            assert isinstance(body, Assignment)
            target = at.statement.accesses[body.target]
            if self.stride(target, self.relation(at, target)) == 0:
                accumulated.add(target.array)  # private, or looked at by `_accumulate`
        for one in self.body:
            for a in one.statement.accesses:
                if not a.write or a.array in accumulated:
                    continue
                for two in self.body:
                    for b in two.statement.accesses:
                        if a.array == b.array and self._conflict(self.relation(one, a), self.relation(two, b)):
                            raise NotVectorised(f"iterations touch the same elements of {a.array}")

    def _conflict(self, a: isl.Map, b: isl.Map) -> bool:
        """Whether two different iterations of one row touch the same element."""
        pairs = a.apply_range(b.reverse())
        outer = (d for d in range(isl.domain_arity(pairs)) if d not in self.loops.dims)
        return not isl.differ(isl.agree(pairs, outer), self.loops.dims).is_empty()


def _extreme(value: Expr, own: Callable[[int], bool], same: Callable[[Expr, Expr], bool]) -> tuple[str, Expr] | None:
    """(operation, other operand) of `s = max(s, e)` in one of its spellings."""
    match value:
        case Call("fmaxf" | "fmax" | "fminf" | "fmin" as name, (left, right)):
            operation = "fmax" if "max" in name else "fmin"
            for mine, other in ((left, right), (right, left)):
                if isinstance(mine, Load) and own(mine.access) and not _mentions(other, own):
                    return operation, other
        case Conditional(Binary(">" | "<" as op, left, right), then, otherwise):
            sides = (left, right)
            for k, mine in enumerate(sides):
                other = sides[1 - k]
                if not (isinstance(mine, Load) and own(mine.access)) or _mentions(other, own):
                    continue
                if not (isinstance(otherwise, Load) and own(otherwise.access) and same(then, other)):
                    continue
                # e > s ? e : s keeps s when e is NaN, as the vector form does.
                greater = (op == ">") == (k == 1)
                return ("max" if greater else "min"), other
    return None


def _mentions(value: Expr, own: Callable[[int], bool]) -> bool:
    return any(own(access) for access in loads(value))


def row(
    arrays: Mapping[str, Array],
    private: frozenset[str],
    loops: RowLoops,
    body: Sequence[RowStatement],
    options: RowOptions,
) -> Row:
    """The vector function for a body of statements. Raises NotVectorised with the reason."""
    types = {arrays[a.array].element for at in body for a in at.statement.accesses}
    if len(types) != 1 or not types <= VECTOR_TYPES.keys():
        raise NotVectorised(f"elements of type {', '.join(sorted(t.c for t in types))}")
    element = types.pop()
    builder = _Builder(arrays, private, loops, body, options, element)
    for at in body:
        if not isinstance(at.statement.body, Assignment):
            raise NotVectorised(f"{at.statement.name} is a call")
    builder.check_independent()
    for at in body:
        builder.add(at)
    loaded = {name for (name, _, pointer), a in zip(builder.keys, builder.arguments, strict=True) if not a.written}
    stores = [
        Store(address, variable, array in options.stream and array not in loaded)
        for address, (array, variable) in builder.stored.items()
    ]
    return _rendered(builder, stores)


def _rendered(builder: _Builder, stores: Sequence[Store]) -> Row:
    t, arguments, accumulators = builder.element, builder.arguments, builder.accumulators
    streamed = [s.address.partition(" ")[0] for s in stores if s.stream]
    declared = "".join(f", {a.declaration}" for a in arguments)
    content = repr((builder.element, builder.lines, stores, accumulators, declared))
    name = f"polydl_row_{t.name}_{hashlib.sha256(content.encode()).hexdigest()[:10]}"
    text = (
        environment()
        .get_template("row.c.j2")
        .render(
            t=t,
            name=name,
            summary="A row of one statement" if len(builder.body) == 1 else f"A row of {len(builder.body)} statements",
            lines=builder.lines,
            stores=stores,
            streamed=streamed,
            declared=declared,
            unused=[a.name for a in arguments],
            passed="".join(f", {a.name}" for a in arguments),
            accumulators=accumulators,
            accumulators_declared="".join(f", {builder.vector} *{a.name}" for a in accumulators),
            accumulators_passed="".join(f", &{a.name}" for a in accumulators),
        )
    )
    math = uses_functions(" ".join([*builder.lines, *(a.finish for a in accumulators)]), builder.element)
    pieces_ = [isa_prologue(builder.element), row_prologue(builder.element)]
    pieces_ += [math_prologue(builder.element)] if math else []
    return Row(name, (*pieces_, text), tuple(a.of for a in arguments), bool(streamed))


def row_prologue(element: ElementType) -> str:
    """What every row of one element type needs, after `microkernel.isa_prologue`."""
    return environment().get_template("row_prologue.c.j2").render(t=element, x86=VECTOR_TYPES[element])
