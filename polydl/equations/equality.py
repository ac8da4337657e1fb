"""Do two programs compute the same? Decided from their equations alone, whoever made the second from the first.

Statements of the same name are assumed to store the same in the same iteration, and what each stores is compared under
these assumptions: an instance reads only what ran before it, so that all of them hold by induction over time, once none
fails. Those that fail are dropped, their values are what they are made of, and the others are compared again. At last
what the programs leave behind is compared. Sums are compared as the terms that they consist of (Verdoolaege, Janssens,
Bruynooghe, "Equivalence checking of static affine programs using widening to handle recurrences", TOPLAS 2012, where
recurrences are found instead of assumed).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from polydl.equations.compared_values import (
    Made,
    Of,
    arms_of,
    as_sum,
    both,
    called,
    condition_of,
    deeper,
    equal,
    inside_of,
    is_nothing,
    loaded,
    made_of,
    number_of,
    operation,
    unread_of,
)
from polydl.equations.footprint_comparison import elements_in, same_text, touched, unchanged
from polydl.equations.lift import Equations, Source, reads
from polydl.equations.terms_of_sums import NotShown, Term, compare, times
from polydl.model import isl
from polydl.model.expr import (
    AffineValue,
    Binary,
    Conditional,
    Const,
    Convert,
    Gather,
    Load,
    Unary,
    operands,
    summands,
)
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, Storage

_MOST_TERMS = 64


Instances = Mapping[str, Sequence[tuple[str, isl.Map]]]
"""Per statement of a program the statements of another one that may store the same, each with the relation
{ T[j…] -> S[i…] } to the instance that does."""


def check(before: Scop, after: Scop, *, reassociate: bool, instances: Instances | None = None) -> str | None:
    """Why `after` is not shown to leave behind what `before` does; None: it does.

    `instances`: per statement of `after` those of `before` that store the same, where it has another name or other
    iterations: what to assume first, and nothing that is believed. With `reassociate` sums may be added up in another
    order, products be distributed over them, and products not be rounded to a narrower type than the sum that they are
    added to. Raises QuotaExceeded.
    """
    return _Comparison(before, after, reassociate, instances or {}).difference()


_Pair = tuple[str, str]
"""A statement of the program before, and one of the program after."""


class _Comparison:
    def __init__(self, before: Scop, after: Scop, reassociate: bool, instances: Instances) -> None:
        self.before, self.after, self.reassociate = Equations(before), Equations(after), reassociate
        self.back: dict[_Pair, isl.Map | None] = {
            (name, name): None
            for name, s in self.before.statements.items()
            if (other := self.after.statements.get(name)) is not None
            and other.depth == s.depth
            and name not in instances
        }
        """{ T[j…] -> S[i…] } per statement S before and T after that may store the same; None: in one iteration."""
        self.back |= {
            (name, new): relation
            for new, olds in instances.items()
            for name, relation in olds
            if name in self.before.statements and new in self.after.statements
        }
        self.assumed = {pair for pair, back in self.back.items() if back is None or not self.after.is_opaque(pair[1])}
        self.used: set[_Pair] = set()
        """Those of the assumptions that the comparison that is going on rests on."""
        self._same_arrays: dict[str, bool] = {}
        self.known = before.context.params()

    def difference(self) -> str | None:
        """See `check`."""
        with quota(f"the elements that {self.before.scop.function} touches"):
            why = self._outside()
        if why is not None:
            return why
        rests: dict[_Pair, set[_Pair]] = {}
        failed: dict[_Pair, str] = {}
        waiting = list(self.back)
        while waiting:
            pair = waiting.pop(0)
            self.used = set()
            with quota(f"the values of {pair[1]}"):
                why = self._stores_other(*pair)
            rests[pair] = set(self.used)
            if why is not None:
                failed[pair] = why
                self.assumed.discard(pair)
                waiting += [o for o in self.back if o in self.assumed and pair in rests.get(o, ()) and o not in waiting]
        for array in sorted(self.before.scop.live_out):
            with quota(f"the values in {array}"):
                why = self._leaves_other(array) if self._may_change(array) else None
            if why is not None:
                return next((f"{why}: {reason}" for reason in failed.values()), why)
        return None

    def _is_assumed(self, program: Equations, name: str | None) -> bool:
        """Whether a statement of a program is assumed to store what one of the other program does."""
        side = 0 if program is self.before else 1
        return any(pair[side] == name for pair in self.assumed)

    def _all_the_same(self, writers: Iterable[str]) -> set[_Pair] | None:
        """The assumptions that statements store the same in the same iterations; None where they are not all made."""
        pairs = {(name, name) for name in writers}
        return pairs if all(pair in self.assumed and self.back[pair] is None for pair in pairs) else None

    # What is touched.

    def _outside(self) -> str | None:
        """Why the program after touches elements that the one before does not, and that may not be there, or has
        instances that store nowhere."""
        for name, s in self.after.statements.items():
            if isinstance(s.body, Assignment) and self.before.statements.get(name) is not s:
                if not self.after.unread(name, s.body.target).is_empty():
                    return f"{name} does not always store"
        old, new = self.before.scop, self.after.scop
        if (old.parameters, old.sizes, old.fast_math) != (new.parameters, new.sizes, new.fast_math):
            return "it is a program of something else"
        if not (old.context is new.context or old.context.is_equal(new.context)):
            return "other values of the parameters are assumed"
        for name, array in new.arrays.items():
            known = old.arrays.get(name)
            if known is not None and known is not array and known != array:
                return f"{name} is another array"
            found = None if self._unchanged(name) else touched(new, name, self.known)
            if found is None or not array.extents:
                continue
            there = touched(old, name, self.known) if known is not None else None
            if known is None or array.storage is Storage.SCRATCH:
                there = elements_in(array, found)
            if there is None or not found.is_subset(there):
                return f"elements of {name} are touched that were not, or are not there"
        return None

    def _may_change(self, name: str) -> bool:
        """Whether an array that is read after the program may have other contents then."""
        array = self.before.scop.arrays.get(name)
        if array is None or array.storage in (Storage.REGION, Storage.SCRATCH):
            return False
        if name in self.after.scop.arrays and name not in self.after.scop.live_out:
            return True
        writers = {*self.before.writers(name), *self.after.writers(name)}
        return not self._unchanged(name) or self._all_the_same(writers) is None

    def _unchanged(self, array: str) -> bool:
        """Whether the same instances of the same statements touch the same elements of an array in the same order."""
        if array not in self._same_arrays:
            self._same_arrays[array] = unchanged(self.before.scop, self.after.scop, array)
        return self._same_arrays[array]

    # What is compared.

    def _stores_other(self, name: str, new: str) -> str | None:
        """Why a statement does not store the same in both programs, wherever both have an instance."""
        one, two, back = self.before.statements[name], self.after.statements[new], self.back[name, new]
        known = not self.before.is_opaque(name) and not self.after.is_opaque(new)
        # What is only perhaps written keeps its value perhaps.
        found = reads(one) if known else range(len(one.accesses))
        if back is None and (one.body is two.body or one.body == two.body) and len(one.accesses) == len(two.accesses):
            if all(self._reads_same(one, two, access) for access in found):
                return None
        if known:
            points = two.domain.intersect_params(self.known)
            points = both(points, one.domain if back is None else back.domain())
            if back is not None and not back.domain().is_subset(points):
                back = back.intersect_domain(points)
            first = Of(self.before, name, back, self.before.stored(name))
            return self._differ(points, first, Of(self.after, new, None, self.after.stored(new)))
        if back is not None or not same_text(one, two):
            return f"{new} is something else than {name}"
        if not one.domain.is_equal(two.domain):
            return f"{new} has other instances than {name}"
        return _first(self._found_other(one, two, access) for access in found)

    def _reads_same(self, one: Statement, two: Statement, access: int) -> bool:
        """Whether an access reads what the same instances of the same statements wrote."""
        a, b = one.accesses[access], two.accesses[access]
        if a.array != b.array or not self._unchanged(a.array):
            return False
        writers = self._all_the_same(self.before.writers(a.array))
        if writers is None or not (a.relation is b.relation or a.relation.is_equal(b.relation)):
            return False
        self.used |= writers
        return True

    def _found_other(self, one: Statement, two: Statement, access: int) -> str | None:
        """Why an access of a statement that nothing is known of finds other values."""
        a, b = one.accesses[access], two.accesses[access]
        if self._reads_same(one, two, access):
            return None
        if not isl.range_named(a.relation, "").is_equal(isl.range_named(b.relation, "")):
            return f"{two.name} reads other elements of {b.array}"
        lefts, rights = self.before.sources(one.name, access), self.after.sources(two.name, access)
        return self._come_from_other(lefts, rights, (a.array, b.array))

    def _leaves_other(self, array: str) -> str | None:
        """Why an array has other contents after the programs."""
        found = f"{array} is not the same afterwards"
        if array not in self.after.scop.arrays or array not in self.after.scop.live_out:
            return found
        writers = (program.writers(array).values() for program in (self.before, self.after))
        elements = isl.united(relation.range() for own in writers for relation in own)
        if elements is None:
            return None
        elements = elements.intersect_params(self.known)
        lefts, rights = (program.finally_in(array, elements) for program in (self.before, self.after))
        why = self._come_from_other(lefts, rights, (array, array))
        return None if why is None else f"{found}: {why}"

    def _come_from_other(
        self, lefts: Iterable[Source], rights: Iterable[Source], arrays: tuple[str, str]
    ) -> str | None:
        """Why values that are in these arrays are not the same, by where they come from."""
        return _first(
            self._differ(points, made_of(self.before, left, arrays[0]), made_of(self.after, right, arrays[1]))
            for left, right in product(lefts, rights)
            if not (points := self._common(left, right)).is_empty()
        )

    def _common(self, left: Source, right: Source) -> isl.Set:
        return left.relation.domain().intersect(right.relation.domain()).intersect_params(self.known)

    def _differ(self, points: isl.Set, one: Of | Made, two: Of | Made) -> str | None:
        """Why two values are not the same for all points."""
        try:
            why = self._other(points, one, two)
        except NotShown as error:
            return str(error)
        if why is None or not self.reassociate:
            return why
        try:
            compare(points, list(self._terms(points, one)), list(self._terms(points, two)))
        except NotShown:
            return why
        return None

    def _other(self, points: isl.Set, one: Of | Made, two: Of | Made) -> str | None:
        """`_differ`, operation by operation. Raises NotShown."""
        choices = [isinstance(value, Of) and isinstance(value.value, Conditional) for value in (one, two)]
        if choices[0] != choices[1] and (arms := arms_of(points, one, two)) is not None:
            return self._other(points, *arms)
        unread = [unread_of(points, value) for value in (one, two)]
        if unread[0] is not None or unread[1] is not None:
            # Where a condition around it says that it is not read in either, it may be anything.
            if unread[0] is None or unread[1] is None or not unread[0].is_equal(unread[1]):
                return f"{called(two)} is read elsewhere than {called(one)}"
            points = points.subtract(unread[0])
        if isinstance(one, Of) and isinstance(one.value, Load):
            return _first(self._other(where, made, two) for where, made in loaded(points, one))
        if isinstance(two, Of) and isinstance(two.value, Load):
            return _first(self._other(where, one, made) for where, made in loaded(points, two))
        if isinstance(one, Made) and isinstance(two, Made) and self._is_same(points, one, two):
            return None
        inner = self._looked_into(one, two)
        if inner is not None:
            return self._other(points, *inner)
        if isinstance(one, Made) or isinstance(two, Made):
            return f"{called(two)} is not {called(one)}"
        return self._other_operation(points, one, two)

    def _looked_into(self, one: Of | Made, two: Of | Made) -> tuple[Of | Made, Of | Made] | None:
        """The values with what they are made of in place of one that is to be looked into, or of both; None where none
        can be."""
        first, second = (inside_of(value) if isinstance(value, Made) else None for value in (one, two))
        if first is not None and self._is_looked_into(first):
            return first, two
        if second is not None and self._is_looked_into(second):
            return one, second
        return None if first is None and second is None else (first or one, second or two)

    def _is_looked_into(self, inside: Of) -> bool:
        """Whether a value is more than a name for the comparison: a copy, or what is not assumed to be the same."""
        return isinstance(inside.value, Load) or not self._is_assumed(inside.program, inside.statement)

    def _is_same(self, points: isl.Set, one: Made, two: Made) -> bool:
        if one.writer is None or two.writer is None:
            return one.writer is two.writer and one.array == two.array and equal(points, one.to, two.to)
        pair = one.writer, two.writer
        if pair not in self.assumed or self._place(one) != self._place(two, pair):
            return False
        back = self.back[pair]
        same = equal(points, one.to, two.to if back is None else two.to.apply_range(back))
        if same:
            self.used.add(pair)
        return same

    def _place(self, made: Made, pair: _Pair | None = None) -> str:
        """Where a value was stored, for a message: " in A"; "" of a statement that stores in one array only.

        The array is named as the program before the rewrite named it. For a value of the program after, `pair` says
        which statements correspond: the array is then that of the corresponding access of the statement before.
        """
        assert made.writer is not None
        if not made.program.is_opaque(made.writer):
            return ""
        if pair is None:
            return f" in {made.array}"
        one, two = self.before.statements[pair[0]], self.after.statements[pair[1]]
        names = (a.array for a, b in zip(one.accesses, two.accesses, strict=False) if b.array == made.array)
        return f" in {next(names, made.array)}"

    def _other_operation(self, points: isl.Set, one: Of, two: Of) -> str | None:
        why = f"{two.statement} does not compute what {one.statement} computed"
        a, b = one.value, two.value
        if isinstance(a, Conditional) and isinstance(b, Conditional):
            if self._differ(points, condition_of(points, one), condition_of(points, two)) is not None:
                arms = arms_of(points, one, two)
                return why if arms is None else self._other(points, *arms)
            alone = zip((a.then, a.otherwise), (b.then, b.otherwise), strict=True)
            return _first(self._differ(points, replace(one, value=x), replace(two, value=y)) for x, y in alone)
        if isinstance(a, Gather) and isinstance(b, Gather):
            return why if self._gathers_other(points, one, two) else None
        if isinstance(a, AffineValue) and isinstance(b, AffineValue):
            return None if equal(points, number_of(one), number_of(two)) else why
        if operation(a) != operation(b):
            return why
        compared = self._other if isinstance(a, Binary) and a.op in "+-*" else self._differ
        pairs = zip(operands(a), operands(b), strict=True)
        return _first(compared(points, replace(one, value=x), replace(two, value=y)) for x, y in pairs)

    def _gathers_other(self, points: isl.Set, one: Of, two: Of) -> bool:
        """Whether what data choose is not shown to be the same: other subscripts, or other values to choose from."""
        a, b = one.value, two.value
        assert isinstance(a, Gather) and isinstance(b, Gather)
        first, second = (
            program.program.statements[program.statement].accesses[value.element.access]
            for program, value in ((one, a), (two, b))
        )
        if first.array != second.array or len(a.subscripts) != len(b.subscripts):
            return True
        writers = {*self.before.writers(first.array), *self.after.writers(first.array)}
        pairs_of_them = self._all_the_same(writers)
        if (
            pairs_of_them is None
            or not self._unchanged(first.array)
            or (writers and not (one.to is None and two.to is None))
        ):
            return True
        self.used |= pairs_of_them
        pairs = zip(a.subscripts, b.subscripts, strict=True)
        return any(self._differ(points, replace(one, value=x), replace(two, value=y)) for x, y in pairs)

    # Sums.

    def _terms(self, points: isl.Set, value: Of | Made) -> Iterator[Term]:
        """The products that a value is the sum of. Raises NotShown."""
        if isinstance(value, Made):
            yield from self._terms_made(points, value)
            return
        value = replace(value, value=as_sum(value.value))
        match value.value:
            case Binary("+" | "-") | Unary("+" | "-"):
                for one, negative in summands(value.value):
                    for term in self._terms(points, replace(value, value=one)):
                        yield replace(term, sign=-term.sign) if negative else term
            case Binary("*", left, right):
                ones, others = (list(self._terms(points, replace(value, value=side))) for side in (left, right))
                # Of a sum that has no terms here, a multiple is nothing either.
                if len(ones) * len(others) > _MOST_TERMS:
                    raise NotShown(f"{value.statement} adds more than {_MOST_TERMS} products")
                yield from (times(one, other) for one in ones for other in others)
            case Const() | Convert() if is_nothing(value.value):
                return
            case Load():
                for where, made in loaded(points, value):
                    yield from self._terms_made(where, made)
            case _:
                for where, what, maps in self._factors(points, value):
                    yield Term(where, None, 1, ((what, maps),))

    def _atoms(self, points: isl.Set, made: Made) -> Iterator[tuple[isl.Set, str, isl.Map]] | None:
        """What a value is called in both programs, for some of the points each; None where it has to be looked into.
        Raises NotShown."""
        to = made.to.intersect_domain(points)
        if made.writer is None:
            return iter([(points, f"given {made.name}", to)])
        if not self._is_assumed(made.program, made.writer):
            return None
        if made.program is self.before:
            self.used |= {pair for pair in self.assumed if pair[0] == made.writer}
            return iter([(points, f"made {made.writer}{self._place(made)}", to)])
        return self._atoms_after(points, made, to)

    def _atoms_after(self, points: isl.Set, made: Made, to: isl.Map) -> Iterator[tuple[isl.Set, str, isl.Map]]:
        for pair in [pair for pair in self.back if pair in self.assumed and pair[1] == made.writer]:
            back = self.back[pair]
            self.used.add(pair)
            there = to if back is None else to.apply_range(back)
            where = points if back is None else there.domain()
            if not where.is_empty():
                yield where, f"made {pair[0]}{self._place(made, pair)}", there
            points = points.subtract(where)
        if not points.is_empty():
            raise NotShown(f"some of what {made.writer} stores is not compared")

    def _terms_made(self, points: isl.Set, made: Made) -> Iterator[Term]:
        held = inside_of(made)
        if held is not None and is_nothing(held.value):
            return
        atoms = self._atoms(points, made)
        if atoms is not None:
            yield from (Term(where, None, 1, ((kind, (to,)),)) for where, kind, to in atoms)
            return
        assert made.writer is not None  # else it has a name
        if made.program.is_opaque(made.writer):
            raise NotShown(f"nothing is known of {made.writer}")
        if made.program.added(made.writer) is None:
            yield from self._terms(points, deeper(made))
            return
        to, around = made.to.intersect_domain(points), deeper(made).around
        array = made.program.statements[made.writer].target.array
        for where, source, sums in made.program.sums(made.writer, to, partial(self._is_assumed, made.program)):
            yield from self._terms_made(where, made_of(made.program, source, array, around))
            for one in sums:
                of = Of(made.program, one.statement.name, one.instance, one.body, around)
                for term in self._terms(one.domain, of):
                    back = one.projection if term.back is None else term.back.apply_range(one.projection)
                    yield replace(term, back=back, sign=one.sign * term.sign)

    def _factors(self, points: isl.Set, value: Of | Made) -> Iterator[tuple[isl.Set, str, tuple[isl.Map, ...]]]:
        """A value that is no sum as what is done, on what, for some of the points each. Raises NotShown."""
        if isinstance(value, Made):
            atoms = self._atoms(points, value)
            if atoms is not None:
                yield from ((where, kind, (to,)) for where, kind, to in atoms)
                return
            assert value.writer is not None  # else it has a name
            if value.program.added(value.writer) is not None:
                raise NotShown(f"{value.writer} adds up inside of something else")
            yield from self._factors(points, deeper(value))
            return
        match value.value:
            case Load():
                for where, made in loaded(points, value):
                    yield from self._factors(where, made)
            case AffineValue():
                yield points, "number", (number_of(value).intersect_domain(points),)
            case Gather():
                raise NotShown(f"data choose what {value.statement} reads")
            case _:
                parts = [list(self._factors(points, replace(value, value=one))) for one in operands(value.value)]
                for choice in product(*parts):
                    where = points
                    for some, _, _ in choice:
                        where = where.intersect(some)
                    if not where.is_empty():
                        what = f"{operation(value.value)}({', '.join(kind for _, kind, _ in choice)})"
                        maps = (one.intersect_domain(where) for _, _, made in choice for one in made)
                        yield where, what, tuple(maps)


def _first(reasons: Iterable[str | None]) -> str | None:
    """The first reason that there is."""
    return next((reason for reason in reasons if reason is not None), None)
