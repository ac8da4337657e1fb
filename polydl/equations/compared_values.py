"""Values of a program while they are compared: where they come from, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.decided import simplified, taken
from polydl.equations.lift import Equations, Source
from polydl.equations.terms_of_sums import NotShown
from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Load, Unary, is_zero
from polydl.model.functions import FMA


@dataclass(frozen=True, slots=True)
class Of:
    """An expression of a statement, for instances of it."""

    program: Equations
    statement: str
    to: isl.Map | None
    """{ [p…] -> S[i…] }; None: the points are the instances."""
    value: Expr
    around: tuple[str, ...] = ()
    """Statements whose values are looked into for this one."""


@dataclass(frozen=True, slots=True)
class Made:
    """What an instance of a statement stores, or (writer None) what is in an element before the program."""

    program: Equations
    writer: str | None
    array: str
    """That it is in."""
    to: isl.Map
    """See `Source.relation`."""
    around: tuple[str, ...] = ()
    """See `Of.around`."""

    @property
    def name(self) -> str:
        """Of the statement or the array."""
        return self.writer or self.array


def inside_of(made: Made) -> Of | None:
    """What a value is made of; None where nothing is known of it, or it is made of it"""
    if made.writer is None or made.program.is_opaque(made.writer):
        return None
    if made.writer in made.around:
        return None
    stored = made.program.stored(made.writer)
    return Of(made.program, made.writer, made.to, stored, (*made.around, made.writer))


def deeper(made: Made) -> Of:
    """The same, for a sum. Raises NotShown."""
    inside = inside_of(made)
    if inside is None:
        raise NotShown(f"what {made.name} stores is not compared")
    return inside


def loaded(points: isl.Set, of: Of) -> Iterator[tuple[isl.Set, Made]]:
    """The values that a load gets, for some of the points each. Raises NotShown."""
    assert isinstance(of.value, Load)
    if unread_of(points, of) is not None:
        raise NotShown(f"{of.statement} does not always read")
    array = of.program.statements[of.statement].accesses[of.value.access].array
    sources = of.program.sources(of.statement, of.value.access)
    whole = len(sources) == 1 and of.program.unread(of.statement, of.value.access).is_empty()
    for source in sources:
        if source.relation.domain().is_wrapping():
            raise NotShown(f"{of.statement} reads several elements of {array}")
        relation = through(of.to, source.relation)
        where = points if whole else both(points, relation.domain())
        if not where.is_empty():
            yield where, made_of(of.program, replace(source, relation=relation), array, of.around)


def made_of(program: Equations, source: Source, array: str, around: tuple[str, ...] = ()) -> Made:
    return Made(program, source.writer, array, source.relation, around)


def called(value: Of | Made) -> str:
    if isinstance(value, Of):
        return f"what {value.statement} computes"
    return f"what is in {value.name} before" if value.writer is None else f"what {value.writer} stores"


def arm_of(points: isl.Set, value: Of | Made) -> Of | None:
    """The arm of a choice that is taken for all of the points; None where it is one or the other."""
    if not isinstance(value, Of) or not isinstance(value.value, Conditional):
        return None
    arm = taken(value.value, points if value.to is None else value.to.intersect_domain(points).range())
    return None if arm is None else replace(value, value=arm)


def arms_of(points: isl.Set, one: Of | Made, two: Of | Made) -> tuple[Of | Made, Of | Made] | None:
    """Two values with the arms that are taken (`arm_of`) in place of choices; None where none is."""
    arms = arm_of(points, one), arm_of(points, two)
    return None if arms == (None, None) else (arms[0] or one, arms[1] or two)


def condition_of(points: isl.Set, value: Of) -> Of:
    """The condition of a choice, without what is decided for all of the points."""
    assert isinstance(value.value, Conditional)
    there = points if value.to is None else value.to.intersect_domain(points).range()
    return replace(value, value=simplified(value.value.condition, there))


def through(to: isl.Map | None, relation: isl.Map) -> isl.Map:
    """A relation that starts from where another one leads to, from where that starts."""
    if to is None:
        return relation
    points = to.domain()
    if not points.is_wrapping() and isl.arity(points) == isl.range_arity(to):
        name = points.get_tuple_name()
        if isl.range_named(to, name).is_subset(isl.Map.identity(points.get_space().map_from_set())):
            # The same coordinates under another name, as of parts of a statement: isl need not put pieces together.
            return isl.domain_named(relation, name).intersect_domain(points)
    return to.apply_range(relation)


def unread_of(points: isl.Set, value: Of | Made) -> isl.Set | None:
    """The points for which a load reads nothing; None where there are none, and for other values."""
    if not isinstance(value, Of) or not isinstance(value.value, Load):
        return None
    unread = value.program.unread(value.statement, value.value.access)
    if unread.is_empty():
        return None
    unread = unread if value.to is None else value.to.intersect_range(unread).domain()
    found = unread.intersect(points)
    return None if found.is_empty() else found


def number_of(of: Of) -> isl.Map:
    """{ [p…] -> [v] }"""
    assert isinstance(of.value, AffineValue)
    number = isl.domain_named(isl.Map.from_pw_aff(of.value.value), of.statement)
    return through(of.to, number)


def operation(value: Expr) -> str:
    """What is done, apart from what it is done on."""
    match value:
        case Const(text):
            return text
        case Unary(op, _):
            return f"unary {op}"
        case Binary(op, _, _):
            return op
        case Call(function, arguments, element):
            return f"{function}/{len(arguments)} {element.c}"
        case Conditional():
            return "?"
        case Convert(source, target, _):
            return f"{source.c} to {target.c}"
        case _:
            return type(value).__name__


def as_sum(value: Expr) -> Expr:
    """A multiplication and addition as both, and a conversion of a sum or product to a wider type as one of what is
    converted: a product is not rounded to the narrower type then. Other values as they are."""
    match value:
        case Call(function, (one, two, added)) if function in FMA.spellings:
            return Binary("+", Binary("*", one, two), added)
        case Convert(source, target, inner) if source.is_float and target.holds(source):
            match inner:
                case Unary("-", operand):
                    return Unary("-", Convert(source, target, operand))
                case Binary("+" | "-" | "*" as op, left, right):
                    return Binary(op, Convert(source, target, left), Convert(source, target, right))
    return value


def is_nothing(value: Expr) -> bool:
    """Whether a value is a zero, of whatever type."""
    return is_nothing(value.operand) if isinstance(value, Convert) else is_zero(value)


def both(one: isl.Set, two: isl.Set) -> isl.Set:
    """What is in both sets, in as few pieces as it has in one of them where that is all."""
    return one if one.is_subset(two) else two if two.is_subset(one) else one.intersect(two).coalesce()


def equal(points: isl.Set, one: isl.Map, two: isl.Map) -> bool:
    return bool(one.intersect_domain(points).is_equal(two.intersect_domain(points)))
