"""Loops that step a joint state (`rewrite.joint_groups`) by blocks: the state of each block by plain sums and extremes,
and the blocks joined one after the other.

    for i: { d = x[i] - mean; mean += d / (i + 1); m2 += d * (x[i] - mean); }

is two passes over a block that the cache holds: a sum, and the sums of what is left of the mean. Rows of vectors,
threads for blocks, and microkernels for rows of a state (`acc[d] = acc[d] * f + p * v[d]` is a product of matrices)
come from what polydl does with any sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from polydl.base.records import dataclass
from polydl.dependences.analysis import dependences
from polydl.dependences.scalars import private_storage
from polydl.equations.algebra import NoAlgebra, unknowns
from polydl.equations.step import Remade, Step, in_turn
from polydl.model import isl
from polydl.model.combiners import FMAX, SUM, of_function
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Load, on_operands
from polydl.model.functions import function_of
from polydl.model.isl import quota
from polydl.model.joint_combiners import Pass, formula
from polydl.model.scop import Array, Scop, Statement, Storage
from polydl.model.time import inside_of, map_from_affs
from polydl.model.types import I32, ElementType
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.joint_groups import Carried, Joint, joint_groups, with_values
from polydl.rewrite.joint_starts import Block, function_of_map
from polydl.rewrite.new_statements import assignment, free_statement_name, shifted
from polydl.rewrite.partial_results import piece_length
from polydl.rewrite.reduction_privatisation import in_pieces, trips_of
from polydl.rewrite.scratch_array import array_over, elements_of, ends_of, free_name, region_scalar, stored_in

WHOLE = 1 << 14
"""Iterations up to which a loop is one block: its elements are in the second cache for the next pass."""
BLOCK = 1 << 12
"""Iterations of a block of a longer loop, at least: its elements are in the first cache for the next pass."""
LEAST = 16
"""Iterations below which a block is not worth its join."""
MOST_EACH = 1 << 24
"""Elements of an array with a value for each iteration of all loops, at most; else there is one for each of a block."""


@dataclass(frozen=True, slots=True)
class Blocks(Remade):
    """A loop that steps a joint state takes a block at a time.

    before:    for i: state = join(state, lift(x[i]))
    after:     for p: { part[p] = block(x[p * size …]); }  for p: state = join(state, part[p])
    requires:  by algebra that an iteration is such a step, and that nothing else looks at the state within the loop;
               leave to reassociate
    """

    statements: tuple[str, ...]
    """Those that step the state."""
    loop: tuple[int, ...]
    """Position of the loop."""
    name: str
    """Of the joint combiner."""
    size: int
    """Iterations of a block; 0: all."""

    def made(self, before: Scop) -> Scop | str:
        """See `Remade.made`."""
        sizes = [self.size] if self.size else []
        with quota(f"the blocks of {', '.join(self.statements)}"):
            scop = in_pieces(before, self.statements[0], len(self.loop) - 1, sizes)
            for joint in joint_groups(scop, (*self.loop, *(0 for _ in sizes))):
                if joint.statements == self.statements:
                    return _Maker(scop, joint, bool(sizes)).made()
        return f"{', '.join(self.statements)} do not step a joint state"

    def __str__(self) -> str:
        pieces = f"in blocks of {self.size} iterations" if self.size else "of the whole loop at once"
        return f"{', '.join(self.statements)} make {self.name} {pieces}"


def joint_blocks(scop: Scop) -> Iterator[Step]:
    """Take joint states in blocks, wherever there are any. Raises QuotaExceeded."""
    yield from in_turn(scop, _candidates)


def _candidates(scop: Scop, tried: Collection[Remade], new: Collection[str]) -> Iterator[Blocks]:
    known = {*new, *(name for one in tried for name in one.statements)}
    for loop in dict.fromkeys(s.position[: d + 1] for s in scop.statements for d in range(s.depth)):
        with quota("what loops carry together"):
            joints = [joint for joint in joint_groups(scop, loop) if not known & {*joint.statements}]
        for joint in joints:
            trips = trips_of([scop.statement(joint.statements[0])], len(loop) - 1)
            if trips is None or trips >= LEAST:
                size = piece_length(trips, BLOCK) if trips is not None and trips > WHOLE else 0
                yield Blocks(joint.statements, loop, joint.row.name, size)


@dataclass(slots=True)
class _Maker:
    scop: Scop
    joint: Joint
    parts: bool
    """Whether blocks are joined in a loop of their own."""
    arrays: dict[str, Array] = field(default_factory=dict)
    names: dict[str, isl.Map | Expr] = field(default_factory=dict)
    """What names in formulas stand for."""
    statements: list[Statement] = field(default_factory=list)
    at: int = 0
    """Where the next statement or loop is put, in the loops around."""
    inside: int = 0
    """The same in the loop."""
    prefix: tuple[int, ...] = ()
    gathered: list[tuple[isl.Map, Expr, str, Statement]] = field(default_factory=list)
    """Of the loop that is put next: targets, values, operators, and statements with the same loops."""
    combined: set[str] = field(default_factory=set)
    """What it combines."""
    like: Statement = field(init=False)
    """One of the group in no loop inside."""
    block: Block = field(init=False)
    element: ElementType = field(init=False)
    """Of what is computed between."""

    @property
    def depth(self) -> int:
        return self.joint.depth

    def made(self) -> Scop | str:
        """The program with blocks, or why there is none."""
        scop, joint, loop = self.scop, self.joint, self.joint.loop
        members = [scop.statement(name) for name in joint.statements]
        first = next(s for s in members if s.depth == self.depth + 1)
        self.like = first
        points = isl.project_onto(first.domain, range(self.depth)).reset_tuple_id()
        self.block = Block(scop, joint, points, first.domain.reset_tuple_id())
        if isl.piece_count(self.block.each) != 1 or isl.stride(self.block.each, self.depth) != 1:
            return "the loop is not in one piece"
        all_inside = inside_of(scop, loop)
        others = [s for s in all_inside if s not in members]
        self.arrays = dict(scop.arrays)
        floats = [self.arrays[c.array].element for c in joint.carried if self.arrays[c.array].element.is_float]
        self.element = max(floats, key=lambda element: element.bytes)
        self.prefix, self.at = loop[: self.depth], loop[self.depth]
        expanded = self._expanded(others, members)
        if expanded is None:
            return "what else is in the loop does not run before it"
        if others:
            self.statements += expanded
            self.at += 1
        self.names |= dict(joint.elements)
        try:
            direct = not self.parts and self.block.starts_as_identity()
            counts = {name: AffineValue(self.block.count_before(before)) for name, before in joint.counts.items()}
        except NoAlgebra:
            return "the number of iterations in front of the loop is not affine"
        join, passes = self._needed(direct)
        self._block(join, passes)
        if self.parts:
            self.prefix, self.at = (*loop[: self.depth - 1], loop[self.depth - 1] + 1), 0
        self.names |= {f"a.{name}": before for name, before in counts.items()}
        self._join(join)
        more = 1 if self.parts else self.at - loop[self.depth] - 1
        place = self.depth - 1 if self.parts else self.depth
        done = [shifted(s, loop[: place + 1], behind=more) for s in scop.statements if s not in all_inside]
        before = sum(s.position < first.position for s in done)
        statements = (*done[:before], *self.statements, *done[before:])
        return _tidy(replace(scop, arrays=self.arrays, statements=statements), members)

    def _expanded(self, others: Sequence[Statement], members: Sequence[Statement]) -> list[Statement] | None:
        """What else is in the loop, run before the block, with a value for each iteration of what the group reads of
        it; None where that is not the same."""
        names, private, moved = {s.name for s in members}, private_storage(self.scop), dict[str, isl.Map]()
        for name in dict.fromkeys(leaf.array for leaf in self.joint.leaves.values()):
            writers = [s for s in others if s.target.array == name]
            if not writers or private.get(name, 0) <= self.depth:
                continue
            using = [(s, a) for s in (*others, *members) for a in s.accesses if a.array == name]
            one = all(isl.domain_onto(a.relation, range(self.depth)).is_single_valued() for _, a in using)
            anew = writers[0].depth == self.depth + 1 and writers[0].domain.reset_tuple_id().is_equal(self.block.each)
            done = max(s.position for s in writers) < min(s.position for s, _ in using if s.name in names)
            if not one or not anew or not done:
                return None
            moved[name] = self._each_of(name, self.arrays[name].element)
        inside = dependences(self.scop, reads=False, among=[s.name for s in (*others, *members)])
        later = [d for d in inside if d.source in names and d.target not in names and d.array not in moved]
        if any(d.depth is None or d.depth >= self.depth for d in later):
            return None
        self.names |= {key: moved[leaf.array] for key, leaf in self.joint.leaves.items() if leaf.array in moved}
        found = []
        for s in others:
            there = replace(s, position=(*self.prefix, self.at, *s.position[self.depth + 1 :]))
            for name, place in moved.items():
                there = stored_in(there, name, isl.range_name(place), self._at(place, s.domain))
            found.append(there)
        return found

    # Values.

    def _scalar(self, stem: str, element: ElementType) -> isl.Map:
        """{ [i…, i] -> x } a scalar."""
        name = free_name(replace(self.scop, arrays=self.arrays), f"{PREFIX}{stem}")
        self.arrays[name] = region_scalar(name, element)
        return isl.range_named(map_from_affs(self.block.each, []), name)

    def _array(self, stem: str, element: ElementType, like: Statement, loops: Sequence[int]) -> isl.Map:
        """{ [i…] -> A[…] } an array with an element for each value of some of the loops of a statement."""
        name = free_name(replace(self.scop, arrays=self.arrays), f"{PREFIX}{stem}")
        made = array_over(name, element, like.domain.reset_tuple_id(), loops)
        assert made is not None, "loops have ends"
        self.arrays[name], place = made
        return place

    def _each_of(self, stem: str, element: ElementType) -> isl.Map:
        """The same for each iteration of all loops, or for one block at a time where these would be too many."""
        ends = ends_of(self.block.each)
        many = ends is not None and elements_of(ends) > MOST_EACH
        return self._array(stem, element, self.like, [self.depth] if many else range(self.depth + 1))

    def _at(self, place: isl.Map, domain: isl.Set, *, within: bool = True) -> isl.Map:
        """{ S[i…] -> A[a…] } a place, as a statement sees it that is `within` the loop."""
        loops = isl.domain_arity(place)
        if not within:
            place = isl.domain_onto(place, [d for d in range(loops) if d != self.depth])
        return map_from_affs(domain, isl.coordinates(domain)[: loops - (not within)]).apply_range(place)

    # Statements.

    def _state(
        self,
        target: isl.Map,
        value: Expr,
        *,
        op: str = "=",
        like: Statement | None = None,
        within: bool = False,
        exactly: bool = False,
    ) -> None:
        """`target op value` at the next place, `within` the loop or beside it. `like`: a statement whose other loops it
        has, where these are more than those around. `exactly`: numbers are not converted."""
        known = replace(self.scop, statements=(*self.scop.statements, *self.statements))
        name, like = free_statement_name(known, f"{self.like.name}p"), like or self.like
        loops = range(like.depth) if within else self.block.around(like)
        iterators = tuple(like.iterators[d] for d in loops)
        domain = isl.named(isl.project_onto(like.domain, loops).set_tuple_name(name), iterators)
        position = (*self.prefix, self.at, *([self.inside] if within else []))
        position += (0,) * (len(iterators) + 1 - len(position))
        self.inside += within
        self.at += not within
        touched = list[isl.Map]()

        def taken(one: Expr) -> Expr:
            match one:
                case Const(text) if text in self.names:
                    known = self.names[text]
                    if not isinstance(known, isl.Map):
                        return taken(known)
                    touched.append(self._at(known, domain, within=within))
                    loaded = Load(len(touched) - 1)
                    element = self.arrays[isl.range_name(known)].element
                    return loaded if element.is_float or exactly else Convert(element, self.element, loaded)
                case Const(text) if text in self.joint.leaves:
                    leaf = self.joint.leaves[text]
                    here = map_from_affs(domain, isl.coordinates(domain)[: leaf.dims]).apply_range(leaf.relation)
                    if not leaf.array:
                        return AffineValue(function_of_map(here))
                    touched.append(here)
                    return Load(len(touched) - 1)
                case AffineValue(number):
                    here = map_from_affs(domain, isl.coordinates(domain)[: self.depth])
                    own = AffineValue(function_of_map(here.apply_range(isl.Map.from_pw_aff(number))))
                    return own if exactly else Convert(I32, self.element, own)
                case Binary("*", Const("1"), other) | Binary("*", other, Const("1")):
                    return taken(other)
                case Binary("*", Const(text), other) if self.joint.elements.get(text) == Const("1"):
                    return taken(other)
            return on_operands(one, taken)

        made = taken(value)
        touched.append(self._at(target, domain, within=within))
        self.statements.append(assignment(self.like, name, (iterators, domain), position, touched, made, op))

    def _formula(self, text: str) -> Expr:
        """A formula with functions as the type of what is computed spells them."""

        def spelled(one: Expr) -> Expr:
            made = on_operands(one, spelled)
            if not isinstance(made, Call):
                return made
            if of_function(made.function) is FMAX:
                a, b = made.arguments
                return Conditional(Binary(">", b, a), b, a)
            row = function_of(made.function)
            assert row is not None, "rows call functions of the table"
            return Call(row.of(self.element) or made.function, made.arguments, self.element)

        return spelled(formula(text))

    def _needed(self, direct: bool) -> tuple[list[str], list[Pass]]:
        """What of the join and of the block is needed for what is carried; `direct`: nothing of the join."""
        row = self.joint.row
        wanted = {*self.joint.fields, *([row.many] if self.joint.several else [])}
        join = [] if direct else _needed_of(row.join, wanted)
        wanted = wanted if direct else {one.removeprefix("b.") for one in wanted if one.startswith("b.")}
        passes = _needed_of({one.name: one.formula for one in row.block}, wanted)
        return join, [one for one in row.block if one.name in passes]

    def _block(self, join: Sequence[str], passes: Sequence[Pass]) -> None:
        """The passes over a block, whose results are `b.…`; without a join, what is carried is the result itself."""
        direct = not join
        asked = {one for name in join for one in unknowns(formula(self.joint.row.join[name]))}
        same = dict[str, Expr]()
        for one in passes:
            value = with_values(self._formula(one.formula), same)
            if one.usable and not self._may_weigh_nothing(one.formula, direct):
                same[one.name] = value
                continue
            if one.usable:
                value = Conditional(self._formula(one.usable), value, Const(one.otherwise))
            if self.combined & {*unknowns(value)} or (one.combiner is None and not one.each):
                self._run()
            if one.each:
                self._each(one.name, value)
            elif one.name == self.joint.row.many:
                for number, (carried, weight) in enumerate(self.joint.several):
                    self._row(f"b.{one.name} {number}", carried, with_values(value, {"w": weight}), direct)
            else:
                self._value(one, value, direct, kept=f"b.{one.name}" in asked)
        self._run()

    def _may_weigh_nothing(self, field: str, direct: bool) -> bool:
        """Whether a block may have no weight while its iterations, one by one, leave a state as it is: where the result
        is that of the block alone, it is no number there either; one that starts from the state's extreme has that; and
        iterations that are counted are some."""
        extreme = any(
            one.name == field and one.combiner is not None and one.combiner.better for one in self.joint.row.block
        )
        known = self.names.get(field)
        return not direct and (self.parts or not extreme) and isinstance(known, isl.Map)

    def _run(self) -> None:
        """The loop with what has been gathered for it."""
        if self.gathered:
            self.inside = 0
            for target, value, op, like in self.gathered:
                self._state(target, value, op=op, like=like, within=True)
            self.at += 1
        self.gathered, self.combined = [], set()

    def _each(self, name: str, value: Expr) -> None:
        """A value of each iteration: an array where several passes or loops inside use it."""
        several = self.joint.several
        if len(several) == 1 and several[0][0].writer.depth == self.depth + 1:
            self.names[name] = value
            return
        place = self._each_of(name, self.element)
        self.gathered.append((place, value, "=", self.like))
        self.names[name] = place

    def _row(self, name: str, carried: Carried, value: Expr, direct: bool) -> None:
        """A sum of several, which may be a row: then it has a loop of its own, as products of matrices have."""
        row = carried.writer.depth > self.depth + 1
        if row:
            self._run()
        target, like, element = carried.place, carried.writer, self.arrays[carried.array].element
        if not direct:
            several = row or self.parts
            target = self._array("s", element, like, self.block.around(like)) if several else self._scalar("s", element)
            self._state(target, Const("0"), like=like)
            self.names[name] = target
        self.gathered.append((target, value, SUM.op, like))
        if row:
            self._run()

    def _value(self, one: Pass, value: Expr, direct: bool, *, kept: bool) -> None:
        """What is combined, or computed of that; `kept`: the join needs it."""
        carried = self.joint.fields.get(one.name)
        element = self.element if carried is None else self.arrays[carried.array].element
        if one.combiner is not None and with_values(value, self.joint.elements) == Const("1"):
            number = AffineValue(self.block.iterations())
            self.names[one.name] = self.names[f"b.{one.name}"] = number
            if direct and carried is not None:
                self._state(carried.place, number, exactly=not element.is_float)
            return
        if direct and carried is not None:
            place = carried.place
        elif kept and self.parts:
            place = self._array(one.name, element, self.like, range(self.depth))
        else:
            place = self._scalar(one.name, element)
        self.names[one.name] = self.names[f"b.{one.name}"] = place
        if one.combiner is None:
            self._state(place, value)
            return
        self.combined.add(one.name)
        if one.combiner.better:
            assert carried is not None, "a state without its extreme is no state"
            if not direct:
                self.names["start"] = carried.place
                self._state(place, Const("start"))
            self.names[carried.symbol] = place
            self.gathered.append((place, self.joint.steps[carried.key], "=", self.like))
        else:
            # A zero in front of the loop may have been another one's.
            self._state(place, Const("0"))
            self.gathered.append((place, value, one.combiner.op, self.like))

    def _uses(self, join: Sequence[str], name: str) -> int:
        """How often what stands before fields is used."""
        of = {one: len(self.joint.several) if one == self.joint.row.many else 1 for one in join}
        return sum(of[one] * [*unknowns(formula(self.joint.row.join[one]))].count(name) for one in join)

    def _join(self, join: Sequence[str]) -> None:
        """The state with that of the block."""
        row, joint = self.joint.row, self.joint
        for name, carried in joint.fields.items():
            self.names[f"a.{name}"] = carried.place
        stores = list[tuple[isl.Map, Expr, str]]()
        for at, name in enumerate(join):
            value = self._formula(row.join[name])
            if name == row.many:
                for number, (carried, _) in enumerate(joint.several):
                    self.names[f"a.{name}"] = carried.place
                    self.names[f"b.{name}"] = self.names[f"b.{name} {number}"]
                    self._state(carried.place, value, like=carried.writer)
                continue
            later = {one for other in join[at + 1 :] for one in unknowns(formula(row.join[other]))}
            field, needed = joint.fields.get(name), bool(later & {name, f"a.{name}"})
            counts = field is not None and not self.arrays[field.array].element.is_float
            if field is not None and counts:
                stores.append((field.place, Const(f"b.{name}"), SUM.op))
            elif field is not None and not needed:
                self._state(field.place, value)
            elif field is None and self._uses(join, name) == 1:
                self.names[name] = value
                continue
            if field is None or needed:
                own = self._scalar(name, self.element)
                self._state(own, value)
                self.names[name] = own
                stores += [(field.place, Const(name), "=")] if field is not None and not counts else []
        for target, value, op in stores:
            self._state(target, value, op=op, exactly=True)


def _needed_of(lines: Mapping[str, str], wanted: set[str]) -> list[str]:
    """The names of formulas that some wanted ones need, in their order; what these need is wanted as well."""
    found = list[str]()
    for name in reversed([*lines]):
        if name in wanted:
            found.insert(0, name)
            wanted |= {*unknowns(formula(lines[name]))}
    return found


def _tidy(scop: Scop, gone: Sequence[Statement]) -> Scop:
    """The program without the scalars of statements that are gone."""
    used, names = ({a.array for s in several for a in s.accesses} for several in (scop.statements, gone))
    unused = {name for name in names - used if scop.arrays[name].storage is Storage.REGION}
    return replace(scop, arrays={name: array for name, array in scop.arrays.items() if name not in unused})
