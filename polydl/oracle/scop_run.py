"""Runs a Scop: its statement instances in their original order, on bytes of memory.

What a Scop means is what it says of itself: iterators from domains, the order from positions and directions, places of
memory from access relations and layouts, values from expressions in C's types. Nothing is looked up in the source but
the text of statements that are kept as they are written, which the caller runs (`Kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Protocol

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.model.expr import Convert, Expr, Load
from polydl.model.scop import Array, Assignment, BlackBox, MicrokernelCall, Scop, Statement
from polydl.model.types import ElementType
from polydl.oracle.scop_expressions import Expressions, Point, Value, binary
from polydl.oracle.scop_numbers import Number, Undefined, Unsupported, decoded, encoded


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of memory."""

    object: int
    """Number of the object that it lies in."""
    offset: int
    """Bytes from the object's start; it may lie outside of it until it is read or written."""


class Memory(Protocol):
    """Bytes of objects. Both raise Undefined for what lies outside of an object."""

    def load(self, place: Place, size: int) -> bytes:
        """Raises Undefined for bytes that were never given a value, too."""

    def store(self, place: Place, data: bytes) -> None: ...


Where = Callable[[Point], Place]
"""The place of an element by its subscripts."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A statement at values of its iterators."""

    statement: str
    point: Point

    def __str__(self) -> str:
        return f"{self.statement}[{', '.join(map(str, self.point))}]"


class Kept(Protocol):
    """Runs C that is kept as it is written."""

    def run(self, statement: Statement, text: str, variables: Mapping[str, int | None]) -> None:
        """Run a statement's text; `variables`: by declaration (`const int i`) its value, None for one that the text
        sets itself. Raises Unsupported, Undefined."""

    def call(self, function: str, arguments: list[tuple[Number, ElementType]], element: ElementType) -> Number:
        """What a function of the file returns. Raises Unsupported, Undefined."""


@dataclass(slots=True)
class Watched:
    """What runs at the moment, for a memory that tells which instance reads and writes."""

    instance: Instance | None = None
    target: Place | None = None
    """What it is about to write, where one statement assigns."""
    copies: bool = False
    """Whether it assigns what it reads as it is, or converted."""


def row_major(array: Array, start: Place) -> Where:
    """Where the elements of an array of known sizes lie, by its layout. Raises Unsupported for unknown ones."""
    packed, size = array.layout.packed, array.element.bytes
    if packed is not None and packed.offset((0,) * packed.rank) is not None:
        return lambda subscripts: Place(start.object, start.offset + size * array.layout.offset(subscripts))
    if None in array.layout.axis_strides:
        raise Unsupported(f"the size of '{array.name}' is not known")
    return lambda subscripts: Place(start.object, start.offset + size * array.layout.offset(subscripts))


def subscripted(array: Array, where: Where) -> Where:
    """Where an element lies that data choose, by the subscripts of C: one for a linear array, and those behind."""
    if not array.linear:
        return where
    if not array.layout.is_row_major:
        raise Unsupported("data choose elements of an array that is not row-major")
    behind = len(array.extents) - array.behind
    inside = 1
    for extent in array.layout.shape[behind:]:
        assert extent is not None, "only the first extent may be unknown"
        inside *= extent
    first = where((0,) * len(array.extents))
    size = array.element.bytes

    def place(subscripts: Point) -> Place:
        rest = where((*(0,) * behind, *subscripts[1:])).offset - first.offset
        return Place(first.object, first.offset + size * subscripts[0] * inside + rest)

    return place


@dataclass(slots=True)
class _Body:
    """A statement with tables of what its instances touch."""

    statement: Statement
    points: list[Point]
    tables: dict[int, dict[Point, Point]] = field(default_factory=dict)
    """By access, the element of each instance."""
    affine: dict[int, dict[Point, int]] = field(default_factory=dict)
    """By the identity of a function, its value in each instance."""
    held: list[isl.PwAff] = field(default_factory=list)
    """The functions, which so keep their identities."""
    value: Value | None = None
    """Of an assignment, in the type of its target."""

    def element(self, access: int, point: Point) -> Point:
        """The subscripts of the one element that an access touches. Raises Undefined where there is none."""
        if access not in self.tables:
            there = self.statement.accesses[access].relation.intersect_domain(self.statement.domain)
            found: dict[Point, Point] = {}
            for source, target in isl.pairs(there):
                if found.setdefault(source, target) != target:
                    raise Undefined(f"{self.statement.name}{list(source)} has several elements of one access")
            self.tables[access] = found
        if point not in self.tables[access]:
            raise Undefined(f"{self.statement.name}{list(point)} has no element of '{self._array(access)}'")
        return self.tables[access][point]

    def _array(self, access: int) -> str:
        return self.statement.accesses[access].array

    def number(self, function: isl.PwAff, point: Point) -> int:
        """A function of the iterators in an instance. Raises Undefined where it has no value."""
        if id(function) not in self.affine:
            self.held.append(function)
            self.affine[id(function)] = _values(function, self.statement.domain)
        try:
            return self.affine[id(function)][point]
        except KeyError:
            raise Undefined(f"a value of {self.statement.name}{list(point)} is not defined") from None


def _values(function: isl.PwAff, domain: isl.Set) -> dict[Point, int]:
    """A function of a statement's iterators at every instance."""
    if function.is_cst():
        value = isl.to_int(function.max_val())
        return dict.fromkeys(isl.points(domain), value)
    graph = isl.Map.from_pw_aff(function)
    return {source: target[0] for source, target in isl.pairs(graph.intersect_domain(domain))}


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one instance reads: `scop_expressions.Reads`."""

    run: Run
    body: _Body
    point: Point

    def element(self, access: int) -> Number:
        array = self.body.statement.accesses[access].array
        return self.run.load(array, self.run.where[array](self.body.element(access, self.point)))

    def chosen(self, access: int, subscripts: Point) -> Number:
        array = self.run.scop.arrays[self.body.statement.accesses[access].array]
        return self.run.load(array.name, subscripted(array, self.run.where[array.name])(subscripts))

    def affine(self, value: isl.PwAff) -> int:
        return self.body.number(value, self.point)


@dataclass(slots=True)
class Run:
    """A Scop whose parameters have values, with memory for its arrays."""

    scop: Scop
    """As `sized` gives it."""
    memory: Memory
    where: Mapping[str, Where]
    """By array. All of one structure, and all views of one object, lead to the same memory."""
    kept: Kept | None = None
    """None: statements that are kept as they are written are not supported."""
    watched: Watched = field(default_factory=Watched)
    most: int = 20_000
    """Instances, above which a run is not supported."""
    _bodies: dict[str, _Body] = field(default_factory=dict)

    def load(self, array: str, place: Place) -> Number:
        element = self.scop.arrays[array].element
        return decoded(self.memory.load(place, element.bytes), element)

    def run(self) -> None:
        """Run every instance. Raises Unsupported, and Undefined for what no Scop of a program without undefined
        behaviour may do: touch what is in no array, overflow, read what has no value."""
        for statement, point in in_order(self.scop.statements, self.most):
            self._instance(statement, point)

    def _instance(self, statement: Statement, point: Point) -> None:
        self.watched.instance = Instance(statement.name, point)
        body = self._bodies.get(statement.name)
        if body is None:
            body = self._bodies[statement.name] = _Body(statement, [])
        try:
            match statement.body:
                case Assignment():
                    self._assign(statement.body, body, point)
                case BlackBox(text, variables):
                    if self.kept is None:
                        raise Unsupported("statements that are kept as they are written")
                    given = {name: None if of is None else body.number(of, point) for name, of in variables}
                    self.kept.run(statement, text, given)
                case MicrokernelCall(_, _, inner):
                    # Those of the loops that the call stands for, at these iterators of the loops around.
                    there = [replace(one, domain=_below(one.domain, point)) for one in inner]
                    for one, at in in_order(there, self.most):
                        self._instance(replace(one, domain=_whole(inner, one)), at)
        except Undefined as error:
            raise Undefined(f"{self.watched.instance}: {error}") from None

    def _assign(self, assignment: Assignment, body: _Body, point: Point) -> None:
        target = self.scop.arrays[body.statement.accesses[assignment.target].array]
        if body.value is None:
            body.value = self._value(assignment, body.statement, target.element)
        place = self.where[target.name](body.element(assignment.target, point))
        self.watched.target = place
        self.watched.copies = assignment.op == "=" and _is_copy(assignment.value)
        value = body.value(_Reading(self, body, point))
        self.watched.target = None
        self.memory.store(place, encoded(value, target.element))

    def _value(self, assignment: Assignment, statement: Statement, element: ElementType) -> Value:
        def loaded(access: int) -> ElementType:
            return self.scop.arrays[statement.accesses[access].array].element

        call = None if self.kept is None else self.kept.call
        expressions = Expressions(self.scop.functions, call)
        value = expressions.typed(assignment.value, loaded)
        if assignment.op != "=":
            if assignment.target_read is None:
                raise Undefined("a compound assignment that does not read its target")
            value = binary(assignment.op[:-1], expressions.typed(Load(assignment.target_read), loaded), value)
        return value.to(element)


def _is_copy(value: Expr) -> bool:
    return isinstance(value, Load) or (isinstance(value, Convert) and _is_copy(value.operand))


def _below(domain: isl.Set, point: Point) -> isl.Set:
    for dim, value in enumerate(point):
        domain = isl.fix(domain, dim, value)
    return domain


def _whole(inner: tuple[Statement, ...], one: Statement) -> isl.Set:
    return next(s.domain for s in inner if s.name == one.name)


def in_order(statements: tuple[Statement, ...] | list[Statement], most: int) -> Iterator[tuple[Statement, Point]]:
    """Every instance, in the order in which the loops of the source run them (Cohen's 2d+1 schedule). Raises
    Unsupported for more than `most`."""
    timed: list[tuple[tuple[int, ...], int, Point]] = []
    for number, statement in enumerate(statements):
        if not statement.domain.is_bounded():
            raise Unsupported("a domain without a bound")
        signs = [-1 if name in statement.descending else 1 for name in statement.iterators]
        for point in isl.points(statement.domain):
            time = [statement.position[0]]
            for sign, value, place in zip(signs, point, statement.position[1:], strict=True):
                time += [sign * value, place]
            timed.append((tuple(time), number, point))
        if len(timed) > most:
            raise Unsupported(f"more than {most} instances")
    timed.sort()
    for _, number, point in timed:
        yield statements[number], point


def sized(scop: Scop, values: Mapping[str, int]) -> Scop | None:
    """A Scop at values of all its parameters; None where its context excludes them, so that nothing is said of them.

    Raises Unsupported where a parameter is left.
    """
    asked = {name: values[name] for name in scop.parameters if name in values}
    there = at_sizes(scop, asked)
    if there.parameters:
        raise Unsupported(f"the parameter '{there.parameters[0]}' has no value")
    return None if there.context.is_empty() else there
