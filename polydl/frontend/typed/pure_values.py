"""Pure values with C's conversions written down, integers folded: what needs nothing but types."""

from __future__ import annotations

from dataclasses import replace

from polydl.base.errors import Span
from polydl.frontend.typed.core_values import (
    AddressOf,
    ArrayOf,
    Bin,
    Const,
    Conv,
    Distance,
    Index,
    Place,
    Pointer,
    Record,
    Scalar,
    Select,
    Signature,
    Type,
    Un,
    Value,
    Void,
    Why,
)
from polydl.frontend.typed.emitter import NotUnderstood
from polydl.frontend.typed.literals import as_float
from polydl.model.types import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    U64,
    ElementType,
    Kind,
    common,
    evaluated,
    promoted,
)

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
SHIFTS = frozenset({"<<", ">>"})
ONE, ZERO = Const(1, I32), Const(0, I32)
_POINTER_BYTES = 8


# --- types


def size(kind: Type) -> int | None:
    """Bytes of a type whose size is a constant; None of others."""
    match kind:
        case ElementType():
            return kind.bytes
        case Pointer():
            return _POINTER_BYTES
        case Record():
            return kind.size if kind.members is not None else None
        case ArrayOf(element, Const(count)):
            inner = size(element)
            return None if inner is None or not isinstance(count, int) else inner * count
        case Void() | Signature():
            return 1  # GNU C: pointers to them move by bytes
    return None


def bytes_of(kind: Type) -> Value:
    """The size of a type, an I64. Raises NotUnderstood."""
    known = size(kind)
    if known is not None:
        return Const(known, I64)
    if isinstance(kind, ArrayOf) and kind.count is not None:
        return binary("*", kind.count, bytes_of(kind.element))
    raise NotUnderstood(f"the size of '{kind}' is not known")


def alignment(kind: Type) -> int:
    while isinstance(kind, ArrayOf):
        kind = kind.element
    if isinstance(kind, Record):
        return kind.alignment
    known = size(kind) or 1
    # a complex number is aligned as its parts are
    return known // 2 if isinstance(kind, ElementType) and kind.kind is Kind.COMPLEX else known


# --- conversions


def wrapped(number: int, kind: ElementType) -> int:
    """An integer modulo 2^bits, in the range of its type."""
    if kind is BOOL:
        return int(number != 0)
    low = number & ((1 << kind.bits) - 1)
    return low if low <= kind.maximum else low - (1 << kind.bits)


def convert(value: Value, to: Type, why: Why, span: Span | None = None) -> Value:
    """The value as C converts it to a type. Raises NotUnderstood where C does not."""
    source = value.type
    if source == to:
        return value
    match source, to:
        case ElementType(), ElementType():
            if source.through is not to.through:
                raise NotUnderstood("a conversion by functions of polydl.h")
            return _converted_number(value, source, to, why, span)
        case Pointer(), Pointer(target):
            if isinstance(value, AddressOf):
                return AddressOf(replace(value.place, type=target, volatile=to.volatile))
            return Conv(value, to, why, span)
        case (ElementType(), Pointer()) if source.is_int:
            if isinstance(value, Const):
                return Const(value.number, to)
            return Conv(value, to, why, span)
        case (Pointer(), ElementType()) if to.is_int:
            return Conv(value, to, Why.TRUTH if to is BOOL else why, span)
    raise NotUnderstood(f"a conversion of '{source}' to '{to}'")


def _converted_number(value: Value, source: ElementType, to: ElementType, why: Why, span: Span | None) -> Value:
    if to is BOOL:
        why = Why.TRUTH
    if isinstance(value, Const) and Kind.COMPLEX not in (source.kind, to.kind):
        number = value.number
        assert not isinstance(number, complex), "it is real"
        if source.is_int and to.is_int:
            return Const(wrapped(int(number), to), to)
        if to is F64:
            return Const(float(number), to)
        if to is F32 and (source.is_float or abs(number) <= 1 << F64.significand):
            return Const(as_float(number), to)
    return Conv(value, to, why, span)


def truth(value: Value) -> Value:
    """An int that is zero exactly where the value is: a comparison as it is, `v != 0` of anything else."""
    if isinstance(value, Bin) and value.op in COMPARISONS:
        return value
    if isinstance(value, Const):
        return Const(int(value.number != 0), I32)
    if isinstance(value, Select) and all(_is_truth(one) for one in (value.a, value.b)):
        return value
    return compared_with_zero("!=", value)


def _is_truth(value: Value) -> bool:
    return (
        (isinstance(value, Bin) and value.op in COMPARISONS)
        or (isinstance(value, Const) and value.type is I32 and value.number in (0, 1))
        or (isinstance(value, Select) and _is_truth(value.a) and _is_truth(value.b))
    )


def compared_with_zero(op: str, value: Value, span: Span | None = None) -> Value:
    """`value op 0`, where op is == or !=. Raises NotUnderstood."""
    kind = value.type
    if isinstance(kind, Pointer):
        return Bin(op, value, Const(0, kind), I32, span=span)
    if not isinstance(kind, ElementType):
        raise NotUnderstood(f"a condition of type '{kind}'")
    wide = promoted(kind)
    value = convert(value, wide, Why.PROMOTION, span)
    return binary(op, value, convert(ZERO, wide, Why.USUAL), span)


# --- operations


def arithmetic(op: str, a: Value, b: Value, span: Span | None = None) -> Value:
    """An operation on numbers, with C's promotions and usual arithmetic conversions. Raises NotUnderstood."""
    if not isinstance(a.type, ElementType) or not isinstance(b.type, ElementType):
        raise NotUnderstood(f"'{op}' of '{a.type}' and '{b.type}'")
    if op in SHIFTS:
        return binary(op, promoted_value(a, span), promoted_value(b, span), span)
    both = evaluated(common(a.type, b.type))
    return binary(op, convert(a, both, Why.USUAL, span), convert(b, both, Why.USUAL, span), span)


def promoted_value(value: Value, span: Span | None = None) -> Value:
    kind = value.type
    if not isinstance(kind, ElementType):
        raise NotUnderstood(f"arithmetic with '{kind}'")
    return convert(value, evaluated(promoted(kind)), Why.PROMOTION, span)


def binary(op: str, a: Value, b: Value, span: Span | None = None) -> Value:
    """An operation on two numbers of one type; constants are folded, but not where C leaves the result undefined."""
    kind = a.type
    assert isinstance(kind, ElementType), "it was asked for before"
    if isinstance(a, Const) and isinstance(b, Const) and kind.is_int:
        number = _folded(op, int(a.number), int(b.number), kind)  # type: ignore[arg-type]  # integers
        if number is not None:
            return Const(number, I32 if op in COMPARISONS else kind)
    if op in ("%", "<<", ">>", "&", "|", "^") and not kind.is_int:
        raise NotUnderstood(f"'{op}' of '{kind}'")
    return Bin(op, a, b, I32 if op in COMPARISONS else kind, kind.unsigned and op not in COMPARISONS, span)


def _folded(op: str, a: int, b: int, kind: ElementType) -> int | None:
    """The result on integers of a type; None where C leaves it undefined."""
    if op in COMPARISONS:
        signs = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}
        return int(signs[op])
    result = folded_integer(op, a, b, kind)
    if result is None or kind.unsigned:
        return result if result is None else wrapped(result, kind)
    return result if kind.minimum <= result <= kind.maximum else None


def folded_integer(op: str, a: int, b: int, kind: ElementType) -> int | None:
    """The exact result of an operation on integers; None where C has none."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" | "%" if b != 0:
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if op == "/" else a - quotient * b
        case "<<" | ">>" if 0 <= b < kind.bits and (op == ">>" or a >= 0):
            return a << b if op == "<<" else a >> b
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
    return None


def negated(value: Value, span: Span | None = None) -> Value:
    """`-value`, of a promoted number."""
    kind = value.type
    assert isinstance(kind, ElementType), "it was promoted"
    if isinstance(value, Const) and not (kind.is_int and value.number == kind.minimum):
        return Const(wrapped(-value.number, kind) if kind.is_int else -value.number, kind)  # type: ignore[arg-type]
    return Un("-", value, kind, kind.unsigned, span)


def complemented(value: Value, span: Span | None = None) -> Value:
    """`~value`, of a promoted integer."""
    kind = value.type
    if not isinstance(kind, ElementType) or not kind.is_int:
        raise NotUnderstood("'~' of what is no integer")
    if isinstance(value, Const):
        return Const(wrapped(~int(value.number), kind), kind)  # type: ignore[arg-type]
    return Un("~", value, kind, kind.unsigned, span)


# --- pointers


def dereferenced(pointer: Value) -> Place:
    """What a pointer points to. Raises NotUnderstood."""
    kind = pointer.type
    if not isinstance(kind, Pointer):
        raise NotUnderstood("'*' of what is no pointer")
    if isinstance(pointer, AddressOf):
        return pointer.place
    base: Value = pointer
    while isinstance(base, Conv) and isinstance(base.a.type, Pointer):  # what is accessed says the type
        base = base.a
    if isinstance(base, AddressOf):
        return replace(base.place, type=kind.target, volatile=kind.volatile)
    return Place(base, (), kind.target, kind.volatile)


def moved(pointer: Value, by: Value) -> Value:
    """`pointer + by`: an index of the array that the pointer is known to point into, if any."""
    place = dereferenced(pointer)
    stride = bytes_of(place.type)
    last = place.path[-1] if place.path else None
    if isinstance(last, Index) and last.stride == stride and isinstance(last.value, Const):
        if isinstance(by, Const) and isinstance(last.value.number, int) and isinstance(by.number, int):
            by = Const(last.value.number + by.number, I64)
            return AddressOf(replace(place, path=(*place.path[:-1], Index(_plain(by), stride, last.count))))
        if last.value.number == 0:
            return AddressOf(replace(place, path=(*place.path[:-1], Index(_plain(by), stride, last.count))))
    if isinstance(by, Const) and by.number == 0:
        return pointer
    return AddressOf(replace(place, path=(*place.path, Index(_plain(by), stride))))


def _plain(value: Value) -> Value:
    """A constant index: an I64."""
    return Const(value.number, I64) if isinstance(value, Const) else value


def decayed(place: Place) -> Value:
    """The pointer to the first element of an array. Raises NotUnderstood."""
    assert isinstance(place.type, ArrayOf)
    element = place.type.element
    first = Index(Const(0, I64), bytes_of(element), place.type.count)
    return AddressOf(replace(place, path=(*place.path, first), type=element))


def distance(a: Value, b: Value) -> Value:
    """`a - b` of pointers."""
    kind = a.type
    assert isinstance(kind, Pointer)
    return Distance(a, b, bytes_of(kind.target), I64)


def chosen(condition: Value, a: Value, b: Value, kind: Scalar) -> Value:
    """`condition ? a : b` of two values of one type without effects."""
    if isinstance(condition, Const):
        return a if condition.number else b
    return Select(condition, a, b, kind)


def unsigned_size(value: Value) -> Value:
    """A size in bytes as `sizeof` gives it."""
    return convert(value, U64, Why.USUAL)
