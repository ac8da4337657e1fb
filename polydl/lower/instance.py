"""The C of one statement instance: its elements, values and calls at a place in isl's syntax tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce

from polydl.base.records import dataclass
from polydl.lower import ctree
from polydl.lower.cexpr import FromIsl, of_body
from polydl.lower.ctree import (
    Assign,
    Binary,
    Cast,
    Declare,
    Evaluate,
    Expr,
    Finite,
    Int,
    Invoke,
    Item,
    Name,
    Node,
    Paren,
    Pragma,
    Raw,
    Scope,
    Text,
    Unary,
    plus,
    times,
)
from polydl.model import isl
from polydl.model.conversions import explicit
from polydl.model.expr import (
    AffineValue,
    Call,
    Conditional,
    Convert,
    Gather,
    Load,
    constant_number,
    every_part,
    loads,
    on_operands,
)
from polydl.model.expr import Binary as BinaryOfModel
from polydl.model.expr import Expr as ExprOfModel
from polydl.model.functions import BITS_NAMES, function_of
from polydl.model.packed import Packed
from polydl.model.packed import subscript as subscript_name
from polydl.model.scop import Array, Assignment, BlackBox, MicrokernelCall, Statement
from polydl.model.segment_ends import AHEAD, END, end_of_rows, entries_ahead, is_far
from polydl.model.strides import ByExtents
from polydl.model.types import C64, F32, F64, I32, I64, U32, ElementType, Kind


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the generated code, chosen so that they cannot collide with the user's."""

    iterator: str
    """Prefix of loop variables."""
    prefix: str
    """Prefix of functions."""
    integer: str
    """Type of loop variables: `int`, or `long` where addresses need it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement instance runs in isl's syntax tree; its methods give the C of things there."""

    build: isl.AstBuild
    back: isl.PwMultiAff
    """{ [AST loops] -> S[i…] }."""
    arrays: Mapping[str, Array]
    c: FromIsl
    bases: Mapping[str, Mapping[str, isl.PwAff]] = field(default_factory=dict)
    """By array of which a part is in memory, and by what runs here, { S[i…] -> [e] }: the place of the part's first
    element."""

    def affine(self, value: isl.PwAff) -> Expr:
        """The value { S[i…] -> [v] }."""
        return self.c(self.build.expr_from_pw_aff(self._here((value,))[0].coalesce()))

    def _here(self, values: Sequence[isl.PwAff]) -> list[isl.PwAff]:
        """Values { S[i…] -> [v] } as those of the AST's loops."""
        found = [one.pullback_pw_multi_aff(self.back) for one in values]
        if self.back.domain().is_disjoint(found[0].domain()):
            # Behind a condition that never holds here there is still C for the value.
            found = [isl.everywhere(one).pullback_pw_multi_aff(self.back) for one in values]
        return found

    def element(self, array: str, subscript: isl.PwMultiAff) -> Expr:
        """The array element at { S[i…] -> A[a…] }."""
        found = self.arrays[array]
        if found.is_scalar:
            return Name(found.name)
        where = self._here(isl.components(subscript))
        if array in self.bases:
            return Item(found.name, (self._moved(found, self._begin(array), where),))
        subscripts = tuple(self.c(self.build.expr_from_pw_aff(one.coalesce())) for one in where)
        if not found.linear:
            return Item(found.name, subscripts) if found.members is None else _member(found, subscripts, subscript)
        if found.behind:
            rows = len(subscripts) - found.behind
            moved = (times(self._inside(found.in_front, d), s) for d, s in enumerate(subscripts[:rows]))
            first: Expr = Int(0)
            own = (reduce(plus, moved, first), *subscripts[rows:])
            return Item(found.name, own) if found.members is None else _member(found, own, subscript)
        start: Expr = Int(0)
        if found.layout.packed is not None:
            return Item(found.name, (self._packed(found.layout.packed, subscripts),))
        strides = found.layout.strides
        if strides is None and found.layout.is_row_major:
            moved = (times(self._inside(found, d), s) for d, s in enumerate(subscripts))
            return Item(found.name, (reduce(plus, moved, start),))
        if strides is None or any(found.layout.before):
            address = found.layout.accessed(isl.Map.from_pw_multi_aff(subscript)).as_pw_multi_aff()
            (place,) = isl.components(address.pullback_pw_multi_aff(self.back))
            return Item(found.name, (self.c(self.build.expr_from_pw_aff(place.coalesce())),))
        terms = (times(Int(n), s) for s, n in zip(subscripts, strides, strict=True))
        return Item(found.name, (reduce(plus, terms, start),))

    def _packed(self, layout: Packed, subscripts: Sequence[Expr]) -> Expr:
        """The place of an element in a packed array: `c0 * (c0 + 1) / 2 + c1`, computed as `long`."""
        *_, column = names = [subscript_name(d) for d in range(layout.rank)]
        rows = {monomial: c for monomial, c in layout.address.items() if monomial != (column,)}
        by = math.lcm(*(c.denominator for c in rows.values()))
        values = dict(zip(names, map(self._long, subscripts), strict=True))
        for name in {name for monomial in rows for name in monomial} - values.keys():
            own = isl.parametric(isl.PwAff.from_aff(isl.parameter(name)), [name])
            values[name] = self._long(self._parametric(own))
        # what is multiplied by the first row stands behind it, in parentheses: c0 * (2 * n - c0 + 1)
        factor = names[0] if all(names[0] in monomial for monomial in rows) else ""
        whole: Expr = Int(0)
        terms = sorted(rows.items(), key=lambda term: (term[1] < 0, -len(term[0]), term[0]))
        for monomial, coefficient in terms:
            rest = list(monomial)
            if factor:
                rest.remove(factor)
            number = int(coefficient * by)
            term: Expr = Int(abs(number))
            for name in rest:
                term = Binary("*", term, values[name]) if term != Int(1) else values[name]
            if whole == Int(0):
                whole = Unary("-", term) if number < 0 else term
            else:
                whole = Binary("+" if number > 0 else "-", whole, term)
        if factor:
            whole = Binary("*", values[factor], whole)
        if by > 1 and whole != Int(0):
            whole = Binary("/", whole, Int(by))
        return plus(whole, subscripts[-1])

    def _long(self, value: Expr) -> Expr:
        """A value that C computes as `long`, as it does where a loop variable of the output is in it."""
        parameters = {self.c.renamed(name) for name in isl.parameters(isl.Map.from_pw_multi_aff(self.back))}
        used = {*ctree.names(value)}
        return value if not used or not used <= parameters else Cast("long", value)

    def _moved(self, array: Array, base: isl.PwAff, subscripts: Sequence[isl.PwAff]) -> Expr:
        """The place of an element in the memory that begins at a place of the array."""
        assert array.layout.strides is not None
        place = base.pullback_pw_multi_aff(self.back).neg()
        for stride, subscript in zip(array.layout.strides, subscripts, strict=True):
            place = place.add(subscript.scale_val(isl.value(stride)))
        return self.c(self.build.expr_from_pw_aff(place.coalesce()))

    def base(self, array: str) -> Expr:
        """Where the part of an array begins that is in memory: its first element's place in the array."""
        base = self._begin(array).pullback_pw_multi_aff(self.back)
        return self.c(self.build.expr_from_pw_aff(base.coalesce()))

    def _begin(self, array: str) -> isl.PwAff:
        return self.bases[array][isl.range_name(isl.Map.from_pw_multi_aff(self.back))]

    def distance(self, between: ByExtents) -> Expr:
        """Elements between places of a row-major array."""
        array = self.arrays[between.array]
        terms = (times(Int(move), self._inside(array, d)) for d, move in enumerate(between.moves) if move)
        start: Expr = Int(0)
        return reduce(plus, terms, start)

    def _inside(self, array: Array, dimension: int) -> Expr:
        """Elements between neighbours along a dimension of a row-major array."""
        product: Expr = Int(1)
        for extent in array.extents[dimension + 1 :]:
            assert extent is not None, "only the first extent of an array may be unknown"
            factor = self._parametric(extent)
            # The product may be too large for an int, which each of the extents is.
            product = times(Cast("long", product) if not isinstance(product, Int) else product, factor)
        return product

    def _parametric(self, value: isl.PwAff) -> Expr:
        """A value { [] -> [v] } that depends on parameters alone."""
        nowhere = isl.Map.from_domain_and_range(isl.Map.from_pw_multi_aff(self.back).domain(), value.domain())
        return self.c(self.build.expr_from_pw_aff(value.pullback_pw_multi_aff(nowhere.as_pw_multi_aff())))

    def address(self, array: str, subscript: isl.PwMultiAff) -> Expr:
        """The address of that element."""
        return Unary("&", self.element(array, subscript))


def _member(array: Array, subscripts: tuple[Expr, ...], subscript: isl.PwMultiAff) -> Expr:
    """A member of an array of structures, as C has it. A place that no one member takes is counted from the start of
    the element."""
    assert array.members is not None
    *outer, place = subscripts
    first, last = isl.bounds(isl.Map.from_pw_multi_aff(subscript).range(), len(array.extents) - 1)
    stem = array.members.run(first, last)
    known = place.value if isinstance(place, Int) else first if first == last else -1
    if stem is not None and known < 0:
        return Item(array.spelled, tuple(outer), stem, (_less(place, first),))
    return _at_place(array, outer, place, known)


def _at_place(array: Array, outer: Sequence[Expr], place: Expr, known: int) -> Expr:
    """A member at a place in a structure, which is `known` if it is >= 0."""
    assert array.members is not None
    if known >= 0 and array.members.paths[known]:
        return Item(array.spelled, tuple(outer), array.members.paths[known])
    element = Cast(f"{array.element} *", Unary("&", Item(array.spelled, tuple(outer))))
    return Unary("*", Paren(plus(element, place)))


def _less(value: Expr, number: int) -> Expr:
    """A difference, without a number that is added and taken away again."""
    match value:
        case _ if number == 0:
            return value
        case Binary("+", left, Int(added)) if added == number:
            return left
        case _:
            return Binary("-", value, Int(number))


Product = Callable[[BinaryOfModel, Expr, Expr], Expr | None]


def _as_ever(part: BinaryOfModel, left: Expr, right: Expr) -> None:
    """Products are written as all operations."""


def sides(statement: Statement, body: Assignment, at: Place, product: Product = _as_ever) -> tuple[Expr, Expr]:
    """Target and value. `product`: see `of_body`."""

    def load(access: int) -> Expr:
        one = statement.accesses[access]
        return at.element(one.array, one.relation.as_pw_multi_aff())

    def chosen(access: int, subscripts: Sequence[Expr]) -> Expr:
        found = at.arrays[statement.accesses[access].array]
        if found.is_scalar:
            return Name(found.name)
        *outer, place = subscripts
        if found.members is None:
            return Item(found.name, tuple(subscripts))
        return _at_place(found, outer, place, place.value if isinstance(place, Int) else -1)

    def element(access: int) -> ElementType:
        return at.arrays[statement.accesses[access].array].element

    value = _in_int(body, element)
    return load(body.target), of_body(value, load, chosen, at.affine, at.c.helpers.function, product)


def _in_int(body: Assignment, element: Callable[[int], ElementType]) -> ExprOfModel:
    """The value of an assignment, with casts of what iterators give where C converts an `int` to `unsigned`: the loops
    may count in `long`, and `unsigned` beside `long` does not wrap. `element`: the type of what an access reads."""
    value, result = explicit(body.value, element)
    with_target = body.op != "=" and result is I32 and element(body.target) is U32
    wraps = with_target or any(
        isinstance(one, Convert) and one.target is U32 and one.source is I32 for one in every_part(value)
    )
    return _cast(body.value) if wraps else body.value


def _cast(value: ExprOfModel) -> ExprOfModel:
    match value:
        case AffineValue():
            return value if constant_number(value) is not None else Convert(I64, I32, value)
        case Gather() | Convert(_, _, AffineValue()):
            return value
        case _:
            return on_operands(value, _cast)


def finite(statement: Statement, body: Assignment, at: Place) -> Finite | None:
    """A statement with products of complex numbers that are known to be finite; None where it has other calls than
    those that take a number apart, choices, or quotients of complex numbers."""
    parts = list(every_part(body.value))

    def element(access: int) -> ElementType:
        return at.arrays[statement.accesses[access].array].element

    def is_complex(value: ExprOfModel) -> bool:
        return explicit(value, element)[1].kind is Kind.COMPLEX

    if any(isinstance(part, Conditional) or (isinstance(part, Call) and not _takes_apart(part)) for part in parts):
        return None
    if any(isinstance(part, BinaryOfModel) and part.op in ("/", "&&", "||") and is_complex(part) for part in parts):
        return None
    if body.op in ("*=", "/=") and element(body.target).kind is Kind.COMPLEX:
        if body.op == "/=" or body.target_read is None:
            return None
        body = replace(body, op="=", value=BinaryOfModel("*", Load(body.target_read), body.value))
    found: list[Invoke] = []
    factors: set[int] = set()

    def product(part: BinaryOfModel, left: Expr, right: Expr) -> Expr | None:
        if not (is_complex(part.left) and is_complex(part.right)):
            return None
        suffix = F32.suffix if explicit(part, element)[1] is C64 else F64.suffix
        factors.update(loads(part))
        found.append(Invoke(f"{at.c.helpers.prefix}too_large{suffix}", (left, right)))
        return Invoke(f"{at.c.helpers.prefix}finite_product{suffix}", (left, right))

    target, value = sides(statement, body, at, product)
    return Finite(Assign(target, body.op, value), tuple(found), frozenset(factors))


def _takes_apart(call: Call) -> bool:
    row = function_of(call.function)
    return row is not None and row.takes_apart


def user_call(body: MicrokernelCall, at: Place) -> Evaluate:
    """A call that the user wrote."""
    arguments: list[Expr] = []
    for argument in body.arguments:
        if argument.array is not None and argument.subscript is not None:
            arguments.append(at.address(argument.array, isl.PwMultiAff.from_multi_pw_aff(argument.subscript)))
        elif argument.value is not None:
            arguments.append(at.affine(argument.value))
        else:
            arguments.append(Text(argument.text))
    return Evaluate(Invoke(body.function, tuple(arguments)))


def black_box(statement: Statement, body: BlackBox, at: Place) -> Scope:
    """The text in braces, behind the declarations that it needs; rows that come from far are fetched ahead."""
    text, declared = body.text, [declaration(words, None if v is None else at.affine(v)) for words, v in body.locals]
    fetched = [at.arrays[name] for name in body.fetched]
    if body.ahead and not body.lanes and any(map(is_far, fetched)):
        text = body.ahead
        declared.append(declaration(f"const int {AHEAD}", Int(entries_ahead(fetched))))
        if body.entries is not None:
            declared.append(declaration(f"const long {END}", at.affine(end_of_rows(statement.domain, body.entries))))
    for name in sorted(BITS_NAMES):  # the front end's: no name of the file is like these
        if name in text:
            text = text.replace(name, at.c.helpers.function(name))
    return Scope((*declared, *_text(text.splitlines())))


def _text(lines: Sequence[str]) -> list[Node]:
    """Lines of C, pragmas by themselves."""
    found: list[Node] = []
    for line in lines:
        if line.lstrip().startswith("#pragma "):
            found.append(Pragma(line.strip().removeprefix("#pragma ")))
        elif found and isinstance(found[-1], Raw):
            found[-1] = Raw((*found[-1].lines, line))
        else:
            found.append(Raw((line,)))
    return found


def declaration(text: str, value: Expr | None) -> Declare:
    """Of a declaration as it was written (`int i`), whose last word is the name."""
    type_, _, name = text.rpartition(" ")
    return Declare(type_, ((name, value),))
