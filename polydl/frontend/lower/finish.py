"""Raw statements -> model.Scop: shapes settled, isl spaces named, parameters aligned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pycparser.c_ast import Node

from polydl.base.errors import InputError, Span
from polydl.base.records import dataclass
from polydl.frontend.lower.entries import in_segments
from polydl.frontend.lower.raw import (
    RawAccess,
    RawArgument,
    RawBlackBox,
    RawCall,
    RawEntries,
    RawSegment,
    RawStatement,
    Walked,
    every_access,
)
from polydl.frontend.meaning.affine import Evaluator, NotAffine, tidy
from polydl.frontend.meaning.affine_terms import constant_aff, poly_aff
from polydl.frontend.meaning.data_subscripts import Form
from polydl.frontend.meaning.delinearize import Shape, fitting, recover
from polydl.frontend.meaning.packed_subscripts import PackedShape, is_bent, packed
from polydl.frontend.meaning.symbols import Symbol
from polydl.frontend.text.places import Places
from polydl.model import isl
from polydl.model.layout import NO_AXES, packed_by
from polydl.model.packed import Packed
from polydl.model.scop import (
    Access,
    Array,
    Assignment,
    BlackBox,
    Body,
    CallArgument,
    Entries,
    MicrokernelCall,
    Segment,
    Statement,
    Storage,
)
from polydl.model.spaces import StatementSpace
from polydl.model.types import ElementType


@dataclass(frozen=True, slots=True)
class Settled:
    """Array shapes, and the subscripts that go with them."""

    extents: Mapping[str, tuple[isl.PwAff | None, ...]]
    """Functions of symbols."""
    linear: frozenset[str]
    """Arrays whose dimensions were recovered."""
    subscripts: Mapping[int, tuple[isl.PwAff | None, ...]]
    """id of a raw access -> its subscripts; None for one that data choose."""
    forms: Mapping[int, tuple[tuple[int, Form], ...]]
    """id of a raw access -> `RawAccess.chosen` in recovered dimensions."""
    segments: Mapping[int, RawEntries]
    """id of a raw access -> the segment that its first subscript counts."""
    packed: Mapping[str, Packed]
    """Those of the linear arrays whose rows have different lengths."""
    may_fit: bool
    """Whether sums over segments have subscripts that are not affine, which rows that fit may make so."""

    def forms_of(self, access: RawAccess) -> tuple[tuple[int, Form], ...]:
        """The subscripts that data choose, by their place."""
        return self.forms.get(id(access), access.chosen)

    def known(self, access: RawAccess) -> tuple[isl.PwAff, ...]:
        """The subscripts of an access none of which data choose."""
        return tuple(one for one in self.subscripts[id(access)] if one is not None)


def declared_extents(
    symbol: Symbol, evaluator: Evaluator, places: Places, context: isl.Set
) -> tuple[isl.PwAff | None, ...]:
    """Extents as declared, functions of symbols. Raises InputError when one is not affine."""
    extents: list[isl.PwAff | None] = []
    for at, level in enumerate(symbol.levels):
        if level.pointer or level.extent is None:
            if at and not symbol.of_rows:
                raise places.error(
                    f"a dimension of '{symbol.name}' has no size", symbol.node, "give it one", topic="array-shapes"
                )
            extents.append(None)
            continue
        try:
            extents.append(_not_negative(evaluator.affine(level.extent, context), at, symbol, places))
        except NotAffine as error:
            if at == 0:
                # the outermost extent of a parameter says nothing about the layout
                extents.append(None)
                continue
            raise places.error(
                f"the size of dimension {at + 1} of '{symbol.name}' is not affine: {error.why}",
                error.node,
                error.hint or "give sizes to parameters with -D or --size",
                topic="array-shapes",
            ) from None
    return tuple(extents)


def _not_negative(extent: isl.PwAff, at: int, symbol: Symbol, places: Places) -> isl.PwAff:
    """An extent that may be 0 or more for some parameters. Raises InputError for a size below 0."""
    if not isl.parameters(extent) and not extent.nonneg_set().intersect(extent.domain()).is_equal(extent.domain()):
        raise places.error(
            f"dimension {at + 1} of '{symbol.name}' has the size {extent.max_val().to_python()}",
            symbol.node,
            "sizes are 1 or more: check -D and --size",
            topic="array-shapes",
        )
    return extent


@dataclass(frozen=True, slots=True)
class _Said:
    """An access, and the access from which its subscripts are taken.

    For almost all accesses the two are one. A loop over a segment, `for (p = ptr[i]; p < ptr[i + 1]; p++)`, is kept as
    text, and the elements that its text names are chosen by data; the sum that the loop was recognised as has affine
    subscripts for the same elements.
    """

    access: RawAccess
    said: RawAccess
    """Where the subscripts are taken from: `access`, or the corresponding access of the segment's sum."""
    segment: RawSegment | None = None
    """The segment whose sum this is about; None for an access outside of such loops."""

    @property
    def in_sum(self) -> bool:
        """Whether it is an access of the sum, which is no statement of the program."""
        return self.segment is not None and self.access is self.said


def _by_array(statements: Sequence[RawStatement]) -> dict[str, list[_Said]]:
    found: dict[str, list[_Said]] = {}
    for statement in statements:
        segment = statement.body.segment if isinstance(statement.body, RawBlackBox) else None
        several = [_Said(access, access) for access in every_access([statement])]
        if segment is not None:
            sums = segment.sum.accesses
            for at, access in enumerate(one.access for one in several):
                same = [one for one in sums if (one.symbol, one.write) == (access.symbol, access.write)]
                if access.chosen and len(same) == 1:
                    several[at] = _Said(access, same[0], segment)
            several += [_Said(access, access, segment) for access in sums]
        for one in several:
            found.setdefault(one.access.symbol.name, []).append(one)
    return found


def _unbounded(several: Sequence[_Said]) -> frozenset[str]:
    """Iterators that stand for entries of segments and elements of tables."""
    segments = [one.segment for one in several if one.segment is not None]
    return frozenset(name for segment in segments for name in (segment.entry, *segment.tables))


def rows_that_fit(walked: Walked, context: isl.Set, wraps: Sequence[tuple[isl.Set, isl.Set]] = ()) -> isl.Set:
    """The context with what makes linear subscripts those of rows, leading dimensions that are at least as long, and
    with parameters for which nothing wraps around below zero that would otherwise (`Evaluator.wraps`)."""
    iterators = frozenset(walked.temporaries)
    for below, where in wraps:
        above = isl.some_values(below, iterators).complement()
        known = set(isl.involved_parameters(above)) <= walked.parameters.keys()
        if known and not where.intersect(context).intersect(above).is_empty():
            context = tidy(context.intersect(above))
    for several in _by_array(walked.statements).values():
        if not _may_be_linear([one.said for one in several]):
            continue
        used = [(one.said, one.said.where.intersect(context)) for one in several]
        free = _unbounded(several)
        if recover(used, iterators | free, free) is None:
            fits = fitting(used, iterators | free, free)
            if fits is not None and (not free or _leaves_sizes(fits, [one.said.where for one in several], context)):
                context = context.intersect(fits)
    return context


def _leaves_sizes(fits: isl.Set, iterations: Sequence[isl.Set], context: isl.Set) -> bool:
    """Whether rows fit for any number of iterations, given that they are long enough."""
    bounds = {name for where in iterations for name in isl.involved_parameters(where)}
    lengths = [name for name in isl.parameters(fits) if name not in bounds]
    return bool(context.is_subset(isl.some_values(fits, lengths)))


def settle(
    walked: Walked,
    declared: Mapping[str, tuple[isl.PwAff | None, ...]],
    context: isl.Set,
    evaluator: Evaluator,
    places: Places,
) -> tuple[Settled, list[InputError]]:
    """Shapes for all arrays, recovering those that are subscripted linearly."""
    errors: list[InputError] = []
    extents = dict(declared)
    linear: set[str] = set()
    subscripts: dict[int, tuple[isl.PwAff | None, ...]] = {}
    forms: dict[int, tuple[tuple[int, Form], ...]] = {}
    packed_ones: dict[str, Packed] = {}
    may_fit = False
    iterators = frozenset(walked.temporaries)
    segments = in_segments(walked.statements)
    for name, several in _by_array(walked.statements).items():
        shape: Shape | None = None
        if _may_be_linear([one.said for one in several]):
            free = _unbounded(several)
            used = [(one.said, one.said.where.intersect(context)) for one in several]
            shape = recover(used, iterators | free, free)
            rows = _packed(used, iterators) if shape is None and not free else None
            if rows is not None:
                packed_ones[name] = rows.layout
                shape = Shape((None,) * rows.layout.rank, rows.subscripts)
        if shape is not None:
            linear.add(name)
            extents[name] = (*shape.extents, *declared[name][1:])
        for at, one in enumerate(several):
            access = one.access
            own: tuple[isl.PwAff | None, ...] = () if shape is None else shape.subscripts[at]
            rest = access.subscripts if shape is None else access.subscripts[1:]
            if shape is not None and one.said is not access and one.segment is not None:
                first = one.said.subscripts[0]
                moved, chosen = _chosen(shape, at, one.segment, {} if first is None else first.parts)
                behind = [(d + len(own) - 1, form) for d, form in access.chosen if d]
                own, forms[id(access)] = moved, (*chosen, *behind)
            try:
                values = [None if value is None else evaluator.require(value, access.node) for value in rest]
            except NotAffine as error:
                if one.in_sum:
                    may_fit = True
                else:
                    errors.append(_not_linear(error, access, iterators, places))
            else:
                found = (*own, *values)
                counted = segments.get(id(access))
                subscripts[id(access)] = found if counted is None else (counted.row, *found[1:])
    return Settled(extents, frozenset(linear), subscripts, forms, segments, packed_ones, may_fit), errors


def _packed(used: Sequence[tuple[RawAccess, isl.Set]], iterators: frozenset[str]) -> PackedShape | None:
    """The dimensions of an array whose subscripts are polynomials; None of others."""
    known = [(value, where) for access, where in used if (value := access.subscripts[0]) is not None]
    return packed(known, iterators) if len(used[0][0].symbol.levels) == 1 else None


def _chosen(
    shape: Shape, at: int, segment: RawSegment, parts: Mapping[str, isl.PwAff]
) -> tuple[tuple[isl.PwAff | None, ...], tuple[tuple[int, Form], ...]]:
    """The subscripts in recovered dimensions of an element that data choose in a loop over a segment, None for those
    that they do choose, and what those are made of by their place. `parts`: what names in polynomials stand for."""
    held = {segment.entry: segment.counter, **segment.tables}
    values: list[isl.PwAff | None] = []
    forms: list[tuple[int, Form]] = []
    for d, (value, poly) in enumerate(zip(shape.subscripts[at], shape.polynomials[at], strict=True)):
        names = [name for name in held if name in isl.involved_parameters(value)]
        values.append(None if names else value)
        if names:
            rest = poly_aff({monomial: own for monomial, own in poly.items() if not held.keys() & set(monomial)}, parts)
            rest = constant_aff(0) if held.keys() & set(isl.involved_parameters(rest)) else rest
            forms.append((d, Form({held[name]: poly.get((name,), 1) for name in names}, rest)))
    return tuple(values), tuple(forms)


def _may_be_linear(accesses: Sequence[RawAccess]) -> bool:
    """Whether dimensions are looked for in the first subscripts of an array: of one that has no others, or where they
    are not affine as they stand (`p[i*N + j].x[k]`)."""
    if any(access.chosen for access in accesses):
        return False
    if len(accesses[0].symbol.levels) < 2:
        return bool(accesses[0].symbol.levels)
    first = [access.subscripts[0] for access in accesses]
    return any(len(monomial) > 1 for value in first for monomial in (value.poly if value is not None else None) or {})


def _not_linear(error: NotAffine, access: RawAccess, iterators: frozenset[str], places: Places) -> InputError:
    """The message for a product of symbols in a subscript."""
    values = [value for value in access.subscripts if value is not None]
    reason = f"the subscript is not affine: {error.why}"
    name = access.symbol.name
    if len(access.symbol.levels) == 1 and any(is_bent(value, iterators) for value in values):
        reason += f", and no packed shape of '{name}' is proven: two of its subscripts may be the same element"
        hint = f"use the same formula in all subscripts of '{name}', as i * (i + 1) / 2 + j with j <= i, or a 2-D array"
        return places.error(reason, access.node, hint, topic="not-affine")
    if any(sum(name in iterators for name in monomial) > 1 for value in values for monomial in value.poly or {}):
        hint = "a subscript may use loop variables, parameters, constants, + - and * / % by constants"
        return places.error(reason, access.node, hint, topic="not-affine")
    return places.error(
        f"{reason}, and no 2-D shape of '{name}' is proven", access.node, error.hint, topic="not-affine"
    )


def _private(statements: Sequence[RawStatement]) -> frozenset[str]:
    """Arrays declared in the region that one microkernel alone uses: they are inside of it."""
    users: dict[str, set[int]] = {}
    calls = {at for at, statement in enumerate(statements) if isinstance(statement.body, RawCall)}
    for at, statement in enumerate(statements):
        for access in every_access([statement]):
            if access.symbol.storage is Storage.REGION:
                users.setdefault(access.symbol.name, set()).add(at)
    return frozenset(name for name, used in users.items() if len(used) == 1 and used <= calls)


class Builder:
    """Names statements and puts everything into its isl space."""

    def __init__(self, settled: Settled, parameters: Sequence[str], places: Places, context: isl.Set) -> None:
        self.settled = settled
        self.context = context
        """{ [] : what is known about the parameters }: left out of domains and relations, as Scop.context says it."""
        self._private: frozenset[str] = frozenset()
        self.parameters = tuple(parameters)
        self.places = places

    def statements(self, raw: Sequence[RawStatement]) -> tuple[Statement, ...]:
        """S0, S1, … in textual order."""
        self._private = _private(raw)
        return tuple(self._statement(statement, f"S{at}") for at, statement in enumerate(raw))

    def _statement(self, raw: RawStatement, name: str) -> Statement:
        iterators = tuple(loop.name for loop in raw.loops)
        space = StatementSpace(name, iterators, self.parameters)
        domain = space.set(raw.domain.gist(self.context)).coalesce()
        body: Body
        if isinstance(raw.body, RawCall):
            inner = tuple(self._statement(s, f"{name}_{at}") for at, s in enumerate(raw.body.inner))
            arguments = tuple(self._argument(argument, space) for argument in raw.body.arguments)
            body = MicrokernelCall(raw.body.function, arguments, inner, raw.body.form)
            accesses = self._united(inner, space, domain, self._private)
        elif isinstance(raw.body, RawBlackBox):
            inner = tuple(self._statement(s, f"{name}_{at}") for at, s in enumerate(raw.body.inner))
            values = [(text, None if value is None else space.function(value)) for text, value in raw.body.locals]
            through = raw.body.entries
            entries = None if through is None else Entries(through.bounds, space.function(through.row))
            segment = self._segment(raw.body.segment, name)
            body = BlackBox(
                raw.body.text,
                tuple(values),
                raw.body.lanes,
                segment,
                entries,
                ahead=raw.body.ahead,
                fetched=raw.body.fetched,
            )
            accesses = self._accesses(raw.accesses, space) if not inner else ()
            accesses = accesses or self._united(inner, space, domain, frozenset())
        else:
            accesses = self._accesses(raw.accesses, space)
            own = raw.body
            body = Assignment(own.target, own.op, space.expression(own.value), own.target_read)
        return Statement(
            name,
            iterators,
            domain,
            raw.position,
            frozenset(loop.name for loop in raw.loops if loop.descending),
            accesses,
            body,
            self._span(raw.node),
        )

    def _segment(self, raw: RawSegment | None, name: str) -> Segment | None:
        """None where the dimensions of an array are not those that its subscripts have."""
        if raw is None or any(id(access) not in self.settled.subscripts for access in raw.sum.accesses):
            return None
        return Segment(self._statement(raw.sum, f"{name}_sum"), raw.entry, raw.first, raw.last, raw.tables)

    def _span(self, node: Node) -> Span:
        span = self.places.span(node)
        return span if span is not None else self.places.source.line_span(1)

    def _accesses(self, several: Sequence[RawAccess], space: StatementSpace) -> tuple[Access, ...]:
        domains = {id(raw.where): raw.where for raw in several}  # most of a statement's accesses share one
        where = {key: space.set(domain.gist(self.context)) for key, domain in domains.items()}
        found = []
        for raw in several:
            name = raw.symbol.name
            if raw.chosen:
                subscripts, extents = self.settled.subscripts[id(raw)], self.settled.extents[name]
                relation = space.chosen(name, subscripts, extents, raw.where.gist(self.context))
            else:
                relation = space.relation(name, self.settled.known(raw), where[id(raw.where)])
            found.append(Access(name, raw.write, relation, self.places.span(raw.node), not raw.chosen))
        return tuple(found)

    def _argument(self, raw: RawArgument, space: StatementSpace) -> CallArgument:
        if raw.address is not None:
            array = raw.address.symbol.name
            return CallArgument(raw.text, array, space.multi(array, self.settled.known(raw.address)))
        return CallArgument(raw.text, value=None if raw.value is None else space.function(raw.value))

    @staticmethod
    def _united(
        inner: Sequence[Statement], space: StatementSpace, domain: isl.Set, private: frozenset[str]
    ) -> tuple[Access, ...]:
        """One access per array and direction over the outer iterations, and one for what data choose of it: the union
        over the loops inside."""
        found: dict[tuple[bool, str, bool], tuple[isl.Map, Span | None]] = {}
        for write in (False, True):
            for statement in inner:
                for access in statement.accesses:
                    if access.write is not write or access.array in private:
                        continue
                    relation = isl.domain_onto(access.relation, range(len(space.iterators)))
                    relation = isl.domain_named(relation, space.name, space.iterators)
                    key = (write, access.array, access.exact)
                    before = found.get(key)
                    found[key] = (relation if before is None else before[0].union(relation), access.span)
        return tuple(
            Access(array, write, relation.coalesce().intersect_domain(domain), span, exact)
            for (write, array, exact), (relation, span) in found.items()
        )


def arrays(
    walked: Walked, settled: Settled, parameters: Sequence[str], used: frozenset[str], places: Places
) -> dict[str, Array]:
    """The model's arrays, in order of first use."""
    result: dict[str, Array] = {}
    for name, symbol in walked.symbols.items():
        if name not in used:
            continue
        assert isinstance(symbol.ctype, ElementType), "values.py lets no others through"
        # A constant that the region declares is given its value by a statement there.
        begun = symbol.const and not symbol.levels and symbol.storage is Storage.REGION
        result[name] = Array(
            name,
            symbol.ctype,
            tuple(None if e is None else isl.parametric(e, parameters) for e in settled.extents[name]),
            symbol.storage,
            f"{symbol.ctype.c} {name}" if begun else symbol.declaration,
            name in settled.linear,
            restrict=symbol.restrict,
            const=symbol.const and not begun,
            span=places.span(symbol.node),
            static=symbol.is_static,
            members=symbol.members,
            behind=len(symbol.levels) - 1 if name in settled.linear else 0,
            layout=packed_by(settled.packed[name]) if name in settled.packed else NO_AXES,
        )
    return result
