"""Loops that step a joint state (`rewrite.joint_groups`) by blocks: the state of each block by plain sums and extremes,
and the blocks joined one after the other.

    for i: { d = x[i] - mean; mean += d / (i + 1); m2 += d * (x[i] - mean); }

is two passes over a block that the cache holds: a sum, and the sums of what is left of the mean. Rows of vectors,
threads for blocks, and microkernels for rows of a state (`acc[d] = acc[d] * f + p * v[d]` is a product of matrices)
come from what polydl does with any sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from polydl.equations.algebra import unknowns
from polydl.equations.step import Step
from polydl.model import isl
from polydl.model.combiners import FMAX, SUM, of_function
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Load, on_operands
from polydl.model.functions import function_of
from polydl.model.isl import quota
from polydl.model.joint_combiners import Pass, formula
from polydl.model.scop import Access, Array, Assignment, Scop, Statement, Storage
from polydl.model.time import inside_of, map_from_affs
from polydl.model.types import I32, ElementType
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.joint_groups import Carried, Joint, dead_outside, joint_groups, with_values
from polydl.rewrite.joint_starts import Block, Place, function_of_map
from polydl.rewrite.new_statements import free_statement_name, shifted
from polydl.rewrite.partial_results import piece_length
from polydl.rewrite.results_in_parts import chunked, counted_upwards
from polydl.rewrite.scratch_array import box_of, element_of, elements_of, ends_of, free_name, scratch_array

WHOLE = 1 << 14
"""Iterations up to which a loop is one block: its elements are in the second cache for the next pass."""
BLOCK = 1 << 12
"""Iterations of a block of a longer loop, at least: its elements are in the first cache for the next pass."""
LEAST = 16
"""Iterations below which a block is not worth its join."""
MOST_EACH = 1 << 24
"""Elements of an array with a value for each iteration of all loops, at most; else there is one for each of a block."""


@dataclass(frozen=True, slots=True)
class Blocks:
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

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.equations.step.Rewrite`."""
        with quota(f"the blocks of {', '.join(self.statements)}"):
            made = made_of(before, self)
        if made is None:
            return f"{', '.join(self.statements)} do not step a joint state"
        same = after.statements == made.statements and after.arrays == made.arrays
        return None if same else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        pieces = f"in blocks of {self.size} iterations" if self.size else "of the whole loop at once"
        return f"{', '.join(self.statements)} make {self.name} {pieces}"


def joint_blocks(scop: Scop) -> Iterator[Step]:
    """Take joint states in blocks, wherever there are any. Raises QuotaExceeded."""
    tried = set[str]()
    while (found := _next(scop, tried)) is not None:
        tried |= {*found.statements}
        with quota(f"the blocks of {', '.join(found.statements)}"):
            made = made_of(scop, found)
        if made is not None:
            tried |= {s.name for s in made.statements} - {s.name for s in scop.statements}
            yield Step(found, scop, made)
            scop = made


def _next(scop: Scop, tried: set[str]) -> Blocks | None:
    for loop in dict.fromkeys(s.position[: d + 1] for s in scop.statements for d in range(s.depth)):
        with quota("what loops carry together"):
            for joint in joint_groups(scop, loop):
                if not tried & {*joint.statements}:
                    ends = ends_of(isl.project_onto(scop.statement(joint.statements[0]).domain, [len(loop) - 1]))
                    trips = ends[0][1] - ends[0][0] + 1 if ends is not None else 0
                    if ends is None or trips >= LEAST:
                        size = piece_length(trips, BLOCK) if trips > WHOLE else 0
                        return Blocks(joint.statements, loop, joint.row.name, size)
    return None


def made_of(scop: Scop, plan: Blocks) -> Scop | None:
    """The program with blocks; None where there are none."""
    depth, loop = len(plan.loop) - 1, plan.loop
    scop = counted_upwards(scop, plan.statements[0], depth)
    if plan.size:
        scop = chunked(scop, plan.statements[0], depth, plan.size)
        loop = (*loop, 0)
    joint = next((one for one in joint_groups(scop, loop) if one.statements == plan.statements), None)
    return None if joint is None else _Maker(scop, joint, bool(plan.size)).made()


@dataclass(slots=True)
class _Maker:
    scop: Scop
    joint: Joint
    parts: bool
    """Whether blocks are joined in a loop of their own."""
    arrays: dict[str, Array] = field(default_factory=dict)
    names: dict[str, Place | Expr] = field(default_factory=dict)
    """What names in formulas stand for."""
    statements: list[Statement] = field(default_factory=list)
    at: int = 0
    """Where the next statement or loop is put, in the loops around."""
    inside: int = 0
    """The same in the loop."""
    prefix: tuple[int, ...] = ()
    gathered: list[tuple[Place, Expr, str, Statement]] = field(default_factory=list)
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

    def made(self) -> Scop | None:
        scop, joint, loop = self.scop, self.joint, self.joint.loop
        members = [scop.statement(name) for name in joint.statements]
        first = next(s for s in members if s.depth == self.depth + 1)
        self.like = first
        points = isl.project_onto(first.domain, range(self.depth)).reset_tuple_id()
        self.block = Block(scop, joint, points, first.domain.reset_tuple_id())
        if isl.piece_count(self.block.each) != 1 or isl.stride(self.block.each, self.depth) != 1:
            return None
        all_inside = inside_of(scop, loop)
        others = [s for s in all_inside if s not in members]
        self.arrays = dict(scop.arrays)
        floats = [self.arrays[c.array].element for c in joint.carried if self.arrays[c.array].element.is_float]
        self.element = max(floats, key=lambda element: element.bytes)
        self.prefix, self.at = loop[: self.depth], loop[self.depth]
        expanded = self._expanded(others, members)
        if expanded is None:
            return None
        if others:
            self.statements += expanded
            self.at += 1
        self.names |= dict(joint.elements)
        direct = not self.parts and self.block.starts_as_identity()
        self._block(direct)
        if self.parts:
            self.prefix, self.at = (*loop[: self.depth - 1], loop[self.depth - 1] + 1), 0
        if not direct:
            self._join()
        more = 1 if self.parts else self.at - loop[self.depth] - 1
        place = self.depth - 1 if self.parts else self.depth
        done = [shifted(s, loop[: place + 1], behind=more) for s in scop.statements if s not in all_inside]
        before = sum(s.position < first.position for s in done)
        statements = (*done[:before], *self.statements, *done[before:])
        return _tidy(replace(scop, arrays=self.arrays, statements=statements), members)

    def _expanded(self, others: Sequence[Statement], members: Sequence[Statement]) -> list[Statement] | None:
        """What else is in the loop, run before the block, with a value for each iteration of what the group reads of
        it; None where that is not the same."""
        read = {leaf.array for leaf in self.joint.leaves.values() if leaf.array}
        moved = dict[str, Place]()
        for name in read:
            users = [(s, a) for s in others for a in s.accesses if a.array == name]
            if not any(a.write for _, a in users):
                continue
            readers = [(s, a) for s in members for a in s.accesses if a.array == name]
            one = all(isl.domain_onto(a.relation, range(self.depth)).is_single_valued() for _, a in users + readers)
            if one and dead_outside(self.scop, self.joint.loop, name):
                if self._made_before(name, others, members):
                    moved[name] = self._array(name, self.block.each, self.arrays[name].element, each=True)
                    continue
                return None
            for s, written in users:
                for reader, a in readers:
                    if written.write and self._meets(reader, a, s, written):
                        return None
        for name, place in moved.items():
            for key, leaf in self.joint.leaves.items():
                if leaf.array == name:
                    self.names[key] = place
        found = []
        for s in others:
            accesses = tuple(self._at(moved[a.array], s.domain, a.write) if a.array in moved else a for a in s.accesses)
            position = (*self.prefix, self.at, *s.position[self.depth + 1 :])
            found.append(replace(s, accesses=accesses, position=position))
        return found

    def _made_before(self, name: str, others: Sequence[Statement], members: Sequence[Statement]) -> bool:
        """Whether each iteration makes a value anew, and is done with that before the group reads it."""
        using = [s for s in others if any(a.array == name for a in s.accesses)]
        first = min(using, key=lambda s: s.position)
        anew = isinstance(first.body, Assignment) and first.body.op == "=" and first.depth == self.depth + 1
        anew = anew and [a.array for a in first.accesses if a.array == name and a.write] == [name]
        anew = anew and not any(a.array == name and not a.write for a in first.accesses)
        last = max(s.position for s in using if any(a.array == name and a.write for a in s.accesses))
        readers = [s for s in members if any(a.array == name for a in s.accesses)]
        return (
            anew
            and bool(first.domain.reset_tuple_id().is_equal(self.block.each))
            and all(last < s.position for s in readers)
        )

    def _meets(self, reader: Statement, read: Access, writer: Statement, written: Access) -> bool:
        """Whether what a group reads is written later."""
        pairs = read.relation.intersect_domain(reader.domain).apply_range(
            written.relation.intersect_domain(writer.domain).reverse()
        )
        same = isl.agree(pairs, range(self.depth))
        if not isl.ascending(same, self.depth).is_empty():
            return True
        return writer.position > reader.position and not isl.agree(same, [self.depth]).is_empty()

    # Values.

    def _scalar(self, stem: str, element: ElementType) -> Place:
        name = self._free(stem)
        self.arrays[name] = Array(name, element, (), Storage.REGION, f"{element.c} {name}", restrict=True)
        return Place(name, isl.range_named(map_from_affs(self.block.points, []), name))

    def _array(self, stem: str, points: isl.Set, element: ElementType, *, each: bool = False) -> Place:
        """An array with an element for each point; `each`: for one block at a time where these would be too many."""
        name, whole, ends = self._free(stem), points, ends_of(points)
        if each and ends is not None and elements_of(ends) > MOST_EACH:
            points = isl.project_onto(points, [self.depth])
        box = box_of(points)
        assert box is not None, "loops have ends"
        self.arrays[name] = scratch_array(name, element, box)
        coordinates = isl.coordinates(whole)[-isl.arity(points) :]
        here = map_from_affs(whole, coordinates).apply_range(isl.domain_named(element_of(points, name, box), None))
        return Place(name, isl.domain_named(here, None), each)

    def _free(self, stem: str) -> str:
        return free_name(replace(self.scop, arrays={**self.scop.arrays, **self.arrays}), f"{PREFIX}{stem}")

    def _inner_points(self, carried: Carried) -> isl.Set:
        """{ [i…, d…] } the loops around a block and those inside of the loop."""
        s = carried.writer
        return isl.project_onto(s.domain, [d for d in range(s.depth) if d != self.depth]).reset_tuple_id()

    def _at(self, place: Place, domain: isl.Set, write: bool = False, *, within: bool = True) -> Access:
        """An access of a statement, which is `within` the loop."""
        coordinates = isl.coordinates(domain)
        if within and not place.each:
            coordinates = [*coordinates[: self.depth], *coordinates[self.depth + 1 :]]
        coordinates = coordinates[: isl.domain_arity(place.relation)]
        relation = map_from_affs(domain, coordinates).apply_range(place.relation)
        return Access(place.array, write, relation, self.like.span)

    # Statements.

    def _state(
        self,
        target: Place,
        value: Expr,
        *,
        op: str = "=",
        points: isl.Set | None = None,
        like: Statement | None = None,
        exactly: bool = False,
    ) -> None:
        """`target op value` at the next place. `points`: of a statement beside the loop; `like`: of one within it, of
        which it has the loops. `exactly`: numbers are not converted."""
        within = like is not None
        name = self._statement_name()
        if like is not None:
            domain, iterators = like.domain.set_tuple_name(name), like.iterators
            position = (*self.prefix, self.at, self.inside, *(0 for _ in range(like.depth - self.depth - 1)))
            self.inside += 1
        else:
            points = self.block.points if points is None else points
            more = isl.arity(points) - self.depth
            inner = next((c.writer.iterators[self.depth + 1 :] for c, _ in self.joint.several
                          if c.writer.depth == self.depth + 1 + more), ())  # fmt: skip
            iterators = (*self.like.iterators[: self.depth], *inner[:more])
            domain = points.set_tuple_name(name)
            position = (*self.prefix, self.at, *(0 for _ in range(more)))
            self.at += 1
        domain = isl.named(domain, iterators)
        accesses = list[Access]()

        def taken(one: Expr) -> Expr:
            match one:
                case Const(text) if text in self.names:
                    known = self.names[text]
                    if not isinstance(known, Place):
                        return taken(known)
                    accesses.append(self._at(known, domain, within=within))
                    loaded = Load(len(accesses) - 1)
                    element = self.arrays[known.array].element
                    return loaded if element.is_float or exactly else Convert(element, self.element, loaded)
                case Const(text) if text in self.joint.leaves:
                    leaf = self.joint.leaves[text]
                    here = map_from_affs(domain, isl.coordinates(domain)[: leaf.dims]).apply_range(leaf.relation)
                    if not leaf.array:
                        return AffineValue(function_of_map(here))
                    accesses.append(Access(leaf.array, False, here, self.like.span))
                    return Load(len(accesses) - 1)
                case AffineValue(number):
                    here = map_from_affs(domain, isl.coordinates(domain)[: self.depth])
                    own = AffineValue(function_of_map(here.apply_range(isl.Map.from_pw_aff(number))))
                    return own if exactly else Convert(I32, self.element, own)
                case Binary("*", Const("1"), other) | Binary("*", other, Const("1")):
                    return taken(other)
                case Binary("*", Const(text), other) if self.names.get(text) == Const("1"):
                    return taken(other)
            return on_operands(one, taken)

        made = taken(value)
        read = None
        if op != "=":
            read = len(accesses)
            accesses.append(self._at(target, domain, within=within))
        accesses.append(self._at(target, domain, True, within=within))
        body = Assignment(len(accesses) - 1, op, made, read)
        descending = self.like.descending & {*iterators}
        self.statements.append(
            Statement(name, iterators, domain, position, descending, tuple(accesses), body, self.like.span)
        )

    def _statement_name(self) -> str:
        known = replace(self.scop, statements=(*self.scop.statements, *self.statements))
        return free_statement_name(known, f"{self.like.name}p")

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
        """What of the join and of the block is needed for what is carried."""
        row = self.joint.row
        wanted = {*self.joint.fields, *([row.many] if self.joint.several else [])}
        join = list[str]()
        for name in reversed(list(row.join)):
            if name in wanted and not direct:
                join.append(name)
                wanted |= {*unknowns(formula(row.join[name]))}
        of_block = {one.removeprefix("b.") for one in wanted if one.startswith("b.")} if not direct else wanted
        passes = list[Pass]()
        for one in reversed(row.block):
            if one.name in of_block:
                passes.append(one)
                of_block |= {*unknowns(formula(one.formula))}
        return join[::-1], passes[::-1]

    def _block(self, direct: bool) -> None:
        """The passes over a block, whose results are `b.…`; `direct`: what is carried is the result itself."""
        join, passes = self._needed(direct)
        asked = {one for name in join for one in unknowns(formula(self.joint.row.join[name]))}
        for one in passes:
            value = self._formula(one.formula)
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

    def _run(self) -> None:
        """The loop with what has been gathered for it."""
        if self.gathered:
            self.inside = 0
            for target, value, op, like in self.gathered:
                self._state(target, value, op=op, like=like)
            self.at += 1
        self.gathered, self.combined = [], set()

    def _each(self, name: str, value: Expr) -> None:
        """A value of each iteration: an array where several passes or loops inside use it."""
        several = self.joint.several
        if len(several) == 1 and several[0][0].writer.depth == self.depth + 1:
            self.names[name] = value
            return
        place = self._array(name, self.block.each, self.element, each=True)
        self.gathered.append((place, value, "=", self.like))
        self.names[name] = place

    def _row(self, name: str, carried: Carried, value: Expr, direct: bool) -> None:
        """A sum of several, which may be a row: then it has a loop of its own, as products of matrices have."""
        row = carried.writer.depth > self.depth + 1
        if row:
            self._run()
        target = self.block.location(carried)
        if not direct:
            points, element = self._inner_points(carried), self.arrays[carried.array].element
            target = self._array("s", points, element) if row or self.parts else self._scalar("s", element)
            self._state(target, Const("0"), points=points)
            self.names[name] = target
        self.gathered.append((target, value, SUM.compounds[0].op, carried.writer_like(self.like)))
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
                self._state(self.block.location(carried), number, exactly=not element.is_float)
            return
        at_once = direct and carried is not None
        if at_once and carried is not None:
            place = self.block.location(carried)
        else:
            own = kept and self.parts
            place = self._array(one.name, self.block.points, element) if own else self._scalar(one.name, element)
        self.names[one.name] = self.names[f"b.{one.name}"] = place
        if one.combiner is None:
            self._state(place, value)
            return
        self.combined.add(one.name)
        if one.combiner.better:
            assert carried is not None, "a state without its extreme is no state"
            if not at_once:
                self.names["start"] = self.block.location(carried)
                self._state(place, Const("start"))
            self.names[carried.symbol] = place
            self.gathered.append((place, self.joint.steps[carried.key], "=", self.like))
        else:
            # A zero in front of the loop may have been another one's.
            self._state(place, Const("0"))
            self.gathered.append((place, value, one.combiner.compounds[0].op, self.like))

    def _uses(self, join: Sequence[str], name: str) -> int:
        """How often what stands before fields is used."""
        of = {one: len(self.joint.several) if one == self.joint.row.many else 1 for one in join}
        return sum(of[one] * [*unknowns(formula(self.joint.row.join[one]))].count(name) for one in join)

    def _join(self) -> None:
        """The state with that of the block."""
        row, joint = self.joint.row, self.joint
        join, _ = self._needed(False)
        for name, carried in joint.fields.items():
            self.names[f"a.{name}"] = self.block.location(carried)
        for name, before in joint.counts.items():
            self.names[f"a.{name}"] = AffineValue(self.block.count_before(before))
        stores = list[tuple[Place, Expr, str]]()
        for place, name in enumerate(join):
            value = self._formula(row.join[name])
            if name == row.many:
                for number, (carried, _) in enumerate(joint.several):
                    here = self.block.location(carried)
                    self.names[f"a.{name}"] = here
                    self.names[f"b.{name}"] = self.names[f"b.{name} {number}"]
                    self._state(here, value, points=self._inner_points(carried))
                continue
            later = {one for other in join[place + 1 :] for one in unknowns(formula(row.join[other]))}
            carried_field = joint.fields.get(name)
            if carried_field is not None and not self.arrays[carried_field.array].element.is_float:
                stores.append((self.block.location(carried_field), Const(f"b.{name}"), "+="))
            elif carried_field is not None and not later & {name, f"a.{name}"}:
                self._state(self.block.location(carried_field), value)
                continue
            if carried_field is None and self._uses(join, name) == 1:
                self.names[name] = value
                continue
            if carried_field is None or later & {name, f"a.{name}"}:
                own = self._scalar(name, self.element)
                self._state(own, value)
                self.names[name] = own
                if carried_field is not None and self.arrays[carried_field.array].element.is_float:
                    stores.append((self.block.location(carried_field), Const(name), "="))
        for target, value, op in stores:
            self._state(target, value, op=op, exactly=True)


def _tidy(scop: Scop, gone: Sequence[Statement]) -> Scop:
    """The program without the scalars of statements that are gone."""
    used = {a.array for s in scop.statements for a in s.accesses}
    names = {a.array for s in gone for a in s.accesses}
    unused = {name for name in names - used if scop.arrays[name].storage is Storage.REGION}
    return replace(scop, arrays={name: array for name, array in scop.arrays.items() if name not in unused})
