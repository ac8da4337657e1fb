"""A program as equations: each value by what it is made of, without storage and without time.

    for i: { s = 0; for k: s += A[i][k]; B[i] = s; }

is `B[i] = Reduce(sum, k, A[i, k])`: what a read gets is the value of the instance that wrote the element last
(Feautrier, "Dataflow analysis of array and scalar references", 1991), and a chain of accumulations is one expression,
in whatever order they ran (Gautam and Rajopadhye, "Simplifying Reductions", POPL 2006). Everything is computed when it
is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.combiners import adds, subtracts
from polydl.model.conversions import converted, explicit
from polydl.model.expr import AffineValue, Binary, Call, Const, Expr, Load, Unary, constant_number, loads, on_operands
from polydl.model.functions import FMA
from polydl.model.scop import Access, Assignment, Function, Scop, Statement
from polydl.model.time import common_depth, map_from_affs, original_affs, time_affs
from polydl.model.types import ElementType


@dataclass(frozen=True, slots=True)
class Source:
    """Where some of the values come from that an access reads."""

    writer: str | None
    """The statement that wrote them; None: they are those from before the program."""
    relation: isl.Map
    """{ S[i…] -> W[j…] } the instance that wrote what an instance reads; of a statement that is no assignment to one
    element, { S[i…] -> [W[j…] -> [e…]] }. From before the program: { S[i…] -> [e…] }. Of an access to several elements
    it starts from [S[i…] -> [e…]]. Elements have no name: what an array is called is no value."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """Values added up in any order: the sum of sign * body(d) for all d that belong to a point."""

    domain: isl.Set
    """{ [d…] }"""
    projection: isl.Map
    """{ [d…] -> [p…] } the point that a value belongs to."""
    sign: int
    """1, or -1 for what is taken away."""
    statement: Statement
    """Of whose instances …"""
    instance: isl.Map
    """{ [d…] -> S[i…] }"""
    body: Expr
    """… this is added."""


class Equations:
    """The values of a program. Whoever asks has set a quota for isl."""

    def __init__(self, scop: Scop) -> None:
        self.scop = scop
        self.statements = {s.name: s for s in scop.statements}
        self._writers: dict[str, dict[str, isl.Map]] = {}
        for s in scop.statements:
            for access in s.accesses:
                if access.write:
                    own, relation = self._writers.setdefault(access.array, {}), _elements(s, access)
                    own[s.name] = own[s.name].union(relation) if s.name in own else relation
        self._sources: dict[tuple[str, int], tuple[Source, ...]] = {}
        self._unread: dict[tuple[str, int], isl.Set] = {}
        self._stored: dict[str, Expr] = {}

    def writers(self, array: str) -> dict[str, isl.Map]:
        """{ S[i…] -> [e…] } per statement that writes an array."""
        return self._writers.get(array, {})

    def is_opaque(self, name: str) -> bool:
        """Whether a statement is no assignment to one element: nothing is known of what it computes."""
        s = self.statements[name]
        if not isinstance(s.body, Assignment):
            return True
        target = s.target
        return not target.exact or not target.relation.is_single_valued()

    def stored(self, name: str) -> Expr:
        """What an assignment stores (`stored_value`), with the functions of the file as what they return."""
        if name not in self._stored:
            self._stored[name] = stored_value(self.scop, self.statements[name], functions=True)
        return self._stored[name]

    def added(self, name: str) -> tuple[int, Expr] | None:
        """(sign, value) of a statement that adds a value to the element that it stores; None for others."""
        s = self.statements[name]
        body = s.body
        if not isinstance(body, Assignment) or self.is_opaque(name):
            return None
        element = self.scop.arrays[s.target.array].element
        match body.value:
            case _ if adds(body.op):
                sign, read, value = -1 if subtracts(body.op) else 1, body.target_read, body.value
            case Call(function, (one, two, Load(read))) if FMA.spellings.get(function) is element and body.op == "=":
                sign, value = 1, Binary("*", one, two)
            case _:
                return None
        assert read is not None, "a compound assignment reads what it changes"
        target, found = s.target, s.accesses[read]
        if found.array != target.array or not found.relation.is_equal(target.relation):
            return None
        return sign, _typed(self.scop, s, value, element, True)

    def unread(self, name: str, access: int) -> isl.Set:
        """The instances of a statement in which an access touches nothing, as a condition around it decides."""
        key = name, access
        if key not in self._unread:
            s = self.statements[name]
            self._unread[key] = s.domain.subtract(s.accesses[access].relation.domain())
        return self._unread[key]

    def sources(self, name: str, access: int) -> tuple[Source, ...]:
        """Where the values come from that an access of a statement finds, before the statement writes."""
        key = name, access
        if key not in self._sources:
            s = self.statements[name]
            relation = _elements(s, s.accesses[access])
            at: isl.Map | None = None
            if not relation.is_single_valued():
                at, relation = relation.domain_map(), relation.range_map()
            self._sources[key] = tuple(self._last(s, at, relation, self.writers(s.accesses[access].array)))
        return self._sources[key]

    def finally_in(self, array: str, elements: isl.Set) -> tuple[Source, ...]:
        """Where the values come from that are in elements of an array after the program: relations start from them."""
        itself = isl.Map.identity(elements.get_space().map_from_set()).intersect_domain(elements)
        return tuple(self._last(None, None, itself, self.writers(array)))

    def sums(
        self, name: str, to: isl.Map, stops: Callable[[str], bool]
    ) -> Iterator[tuple[isl.Set, Source, list[Reduce]]]:
        """What is in the element that an instance `to` = { [p…] -> S[i…] } adds to, after it did: for some of the
        points each, where the value comes from that all is added to, and what is added. `stops` tells of the statements
        that add where to look no further back: what they made is a value to add to."""
        s = self.statements[name]
        element, writers = to.apply_range(_elements(s, s.target)), self.writers(s.target.array)
        adding = {w: added for w in writers if not stops(w) and (added := self.added(w)) is not None}
        first = self._last(s, to, element, {w: r for w, r in writers.items() if w not in adding})
        for source in first:
            points = source.relation.domain()
            found: list[Reduce] = []
            for w, (sign, body) in adding.items():
                touching = element.intersect_domain(points).apply_range(writers[w].reverse())
                pairs = self._ran_before(touching, to, name, w)
                if w == name:
                    pairs = pairs.union(to.intersect_domain(points))
                if source.writer is not None:
                    begun = source.relation.range_factor_domain() if self.is_opaque(source.writer) else source.relation
                    pairs = pairs.subtract(self._ran_before(pairs, begun, source.writer, w))
                pairs = pairs.coalesce()
                if not pairs.is_empty():
                    back, instance = pairs.domain_map(), pairs.range_map()
                    found.append(Reduce(pairs.wrap(), back, sign, self.statements[w], instance, body))
            yield points, source, found

    def _ran_before(self, pairs: isl.Map, at: isl.Map, name: str, writer: str) -> isl.Map:
        """The pairs { [p…] -> W[j…] } whose W ran before the instance { [p…] -> S[i…] } `at`."""
        s, w = self.statements[name], self.statements[writer]
        found = isl.Map.empty(pairs.get_space())
        for depth, carried, _ in self._levels(name, writer):
            found = found.union(_earlier(pairs, at, s, w, depth, carried=bool(carried)))
        return found

    def _levels(self, name: str, writer: str) -> Iterator[tuple[int, int, int]]:
        """How instances of a writer may run before those of a statement: (loops that have the same iteration, whether
        the next one carries, position in those): what is greater is later."""
        s, w = self.statements[name], self.statements[writer]
        shared = common_depth(s, w)
        if w.position[: shared + 1] < s.position[: shared + 1]:
            yield shared, 0, w.position[shared]
        yield from ((depth, 1, 0) for depth in range(shared))

    def _last(
        self, s: Statement | None, at: isl.Map | None, element: isl.Map, writers: dict[str, isl.Map]
    ) -> Iterator[Source]:
        """Who wrote an element last. `element`: { [p…] -> [e…] }; before the instance { [p…] -> S[i…] } `at` (None:
        they are the points), or at the end of the program where there is no statement `s`."""
        every = left = element.domain()
        levels: list[tuple[tuple[int, ...], str]] = []
        for name in writers:
            own = [(0, 0, self.statements[name].position[0])] if s is None else self._levels(s.name, name)
            levels += [(level, name) for level in own]
        levels.sort(reverse=True)
        for (depth, carried, _), group in groupby(levels, key=lambda one: one[0]):
            if left.is_empty():
                return
            candidates = {}
            whole = element if left is every else element.intersect_domain(left)
            for _, name in group:
                pairs = whole.apply_range(writers[name].reverse())
                if s is not None:
                    pairs = _earlier(pairs, at, s, self.statements[name], depth, carried=bool(carried))
                if not pairs.is_empty():
                    candidates[name] = pairs
            for name, pairs in self._latest(candidates).items():
                left = left.subtract(pairs.domain())
                yield Source(name, pairs.range_product(element) if self.is_opaque(name) else pairs)
        if not left.is_empty():
            yield Source(None, element if left is every else element.intersect_domain(left))

    def _latest(self, candidates: dict[str, isl.Map]) -> dict[str, isl.Map]:
        """Of instances { [p…] -> W[j…] } of statements the last one for each point."""
        if len(candidates) == 1:
            ((name, pairs),) = candidates.items()
            w = self.statements[name]
            if pairs.is_single_valued():
                return candidates
            if not w.descending:
                return {name: isl.latest(pairs)}
            time = map_from_affs(w.domain, time_affs(w))
            return {name: isl.latest(pairs.apply_range(time)).apply_range(time.reverse())}
        if not candidates:
            return {}
        writers = [self.statements[name] for name in candidates]
        depth = max(w.depth for w in writers)
        times = {w.name: map_from_affs(w.domain, original_affs(w, depth)) for w in writers}
        whole = isl.united(pairs.apply_range(times[name]) for name, pairs in candidates.items())
        assert whole is not None, "there are several"
        whole = isl.latest(whole)
        found = {name: whole.apply_range(times[name].reverse()) for name in candidates}
        return {name: pairs for name, pairs in found.items() if not pairs.is_empty()}


def _elements(statement: Statement, access: Access) -> isl.Map:
    """{ S[i…] -> [e…] } what an access touches."""
    return isl.range_named(access.relation.intersect_domain(statement.domain), None)


def _earlier(pairs: isl.Map, at: isl.Map | None, s: Statement, w: Statement, depth: int, *, carried: bool) -> isl.Map:
    """The pairs { [p…] -> W[j…] } that agree on the `depth` outer loops of the instance at p, and of which W's has the
    earlier iteration of the next one, where that carries."""
    if at is not None:
        order = isl.Map.from_domain_and_range(s.domain, w.domain)
        return pairs.intersect(at.apply_range(_earlier(order, None, s, w, depth, carried=carried)))
    found = isl.agree(pairs, range(depth))
    if not carried:
        return found
    return isl.ascending(found, depth) if s.iterators[depth] in s.descending else isl.descending(found, depth)


def stored_value(scop: Scop, statement: Statement, *, functions: bool = False) -> Expr:
    """What an assignment stores, its operator included, with C's conversions; `functions`: with the functions of the
    file as what they return."""
    body = statement.body
    assert isinstance(body, Assignment), "of a statement that is not opaque"
    value = body.value
    if body.op != "=":
        assert body.target_read is not None, "a compound assignment reads what it changes"
        value = Binary(body.op[:-1], Load(body.target_read), value)
    return _typed(scop, statement, value, scop.arrays[statement.target.array].element, functions)


def _typed(scop: Scop, statement: Statement, value: Expr, element: ElementType, functions: bool) -> Expr:
    def of_load(access: int) -> ElementType:
        return scop.arrays[statement.accesses[access].array].element

    whole, own = explicit(with_functions(scop, value, of_load) if functions else value, of_load)
    return _plain(converted(whole, own, element))


def with_functions(
    scop: Scop,
    value: Expr,
    of_load: Callable[[int], ElementType],
    worth: Callable[[Function, Sequence[Expr]], bool] | None = None,
) -> Expr:
    """An expression with what functions of the file return in place of their calls (`Scop.functions`), arguments
    converted to the types of their parameters; with `worth` of the calls only for which that says so."""

    def changed(one: Expr) -> Expr:
        one = on_operands(one, changed)
        function = scop.functions.get(one.function) if isinstance(one, Call) else None
        if function is None or not isinstance(one, Call) or len(one.arguments) != len(function.parameters):
            return one
        if worth is not None and not worth(function, one.arguments):
            return one
        types = [explicit(argument, of_load)[1] for argument in one.arguments]
        if any(own.through is not wanted.through for own, wanted in zip(types, function.parameters, strict=True)):
            return one
        return function.of([converted(*one) for one in zip(one.arguments, types, function.parameters, strict=True)])

    return changed(value) if scop.functions else value


def _plain(value: Expr) -> Expr:
    """An expression with literals in place of loop variables' values that are one number."""
    if isinstance(value, AffineValue) and (number := constant_number(value)) is not None:
        return Unary("-", Const(str(-number))) if number < 0 else Const(str(number))
    return on_operands(value, _plain)


def reads(statement: Statement) -> list[int]:
    """The accesses whose values an assignment is made of; of another statement all."""
    body = statement.body
    if not isinstance(body, Assignment):
        return list(range(len(statement.accesses)))
    return sorted({*loads(body.value), *([body.target_read] if body.target_read is not None else [])})
