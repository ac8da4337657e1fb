"""Groups of statements that together step a joint state by one element in each iteration of a loop.

What the iteration leaves in what is carried is written as expressions of what was there before (the statements are run
on symbols), and held against the rows of `model.joint_combiners`: a group is found where algebra shows that its step is
`join(state, lift(element))`, however it is spelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import permutations, product

from polydl.base.records import dataclass
from polydl.equations.algebra import NoAlgebra, equal, unknowns
from polydl.equations.lift import stored_value
from polydl.model import isl
from polydl.model.accumulation import accumulates
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Convert,
    Expr,
    Gather,
    Load,
    Unary,
    on_operands,
    operands,
)
from polydl.model.joint_combiners import JOINT_COMBINERS, JointCombiner, formula
from polydl.model.scop import Access, Assignment, Scop, Statement, Storage
from polydl.model.time import inside_of, map_from_affs
from polydl.model.types import integer_literal, literal_value
from polydl.rewrite.reduction_privatisation import together

_STATE, _LEAF, _ELEMENT = "state ", "leaf ", "element "
"""Begin the names of unknowns; none is a name in C."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """What an expression reads that the loop does not change: an element of an array, or an affine value."""

    array: str
    """Empty of an affine value."""
    dims: int
    """Of so many loops, the outermost first, it is a function."""
    relation: isl.Map
    """{ [i…] -> A[a…] }, { [i…] -> [v] }"""


@dataclass(frozen=True, slots=True)
class Carried:
    """A scalar, an element or a row that the iterations of a loop hand on, one value in each iteration of the loops
    inside."""

    key: str
    """Of it alone: the name of the array, with a number where it is one of several elements."""
    writer: Statement
    """Of those that write it the last."""

    @property
    def array(self) -> str:
        """The array that it is in."""
        return self.writer.target.array

    @property
    def symbol(self) -> str:
        """The unknown that it is before an iteration."""
        return _STATE + self.key

    @property
    def place(self) -> isl.Map:
        """{ [i…] -> A[a…] } where it is in the loops of its writer."""
        return isl.domain_named(self.writer.target.relation.intersect_domain(self.writer.domain), None)


@dataclass(frozen=True, slots=True)
class Joint:
    """A group that steps a joint state."""

    row: JointCombiner
    depth: int
    """Of its loop."""
    loop: tuple[int, ...]
    """Position of its loop."""
    statements: tuple[str, ...]
    """All that compute the state, and nothing else."""
    fields: Mapping[str, Carried]
    """What is carried, by field; fields that are numbers of iterations may be missing."""
    several: tuple[tuple[Carried, Expr], ...]
    """Those of `row.many`, each with its weight."""
    counts: Mapping[str, Expr]
    """Fields that nothing is carried for, as they are before an iteration."""
    elements: Mapping[str, Expr]
    """What elements and constants are, in terms of leaves."""
    leaves: Mapping[str, Leaf]
    steps: Mapping[str, Expr]
    """What an iteration leaves in what is carried, by key, in terms of leaves and of `Carried.symbol`."""

    @property
    def carried(self) -> tuple[Carried, ...]:
        return (*self.fields.values(), *(one for one, _ in self.several))


def joint_groups(scop: Scop, loop: tuple[int, ...]) -> Iterator[Joint]:
    """The groups in a loop. Whoever asks has set a quota for isl."""
    inside = inside_of(scop, loop)
    if not all(isinstance(s.body, Assignment) and all(a.exact for a in s.accesses) for s in inside):
        return
    found = _Iteration(scop, loop, inside)
    for group in found.groups():
        try:
            joint = _matched(found, group, found.steps(group))
        except NoAlgebra:
            continue
        if joint is not None:
            yield joint


@dataclass(slots=True)
class _Iteration:
    """One iteration of a loop on symbols."""

    scop: Scop
    loop: tuple[int, ...]
    inside: Sequence[Statement]
    leaves: dict[str, Leaf] = field(default_factory=dict)
    _keys: dict[tuple[str, str], str] = field(default_factory=dict)
    _staying: dict[tuple[str, int], str] = field(default_factory=dict)
    """What accesses touch in all iterations, by statement and number."""
    values: dict[str, Expr] = field(default_factory=dict)
    """What stands for leaves in algebra: of affine values, functions of loop variables."""
    terms: dict[str, Expr] = field(default_factory=dict)
    """What `element …` are."""

    @property
    def depth(self) -> int:
        return len(self.loop) - 1

    @property
    def _written(self) -> set[str]:
        return {a.array for s in self.inside for a in s.accesses if a.write}

    @property
    def _rows(self) -> set[str]:
        """What loops inside write."""
        return {s.target.array for s in self.inside if s.depth > self.depth + 1}

    def _stays(self, s: Statement, access: Access) -> isl.Map | None:
        """{ [i…] -> A[a…] } what all iterations of the loop touch by an access: one element, or, of an array that loops
        inside write, another one in each of their iterations. None: they touch several."""
        row = access.array in self._rows
        dims = [d for d in range(s.depth) if d != self.depth and (d < self.depth or row)]
        onto = isl.domain_named(isl.domain_onto(access.relation.intersect_domain(s.domain), dims), None)
        if not onto.is_single_valued():
            return None
        if row and s.depth > self.depth + 1:
            around = map_from_affs(onto.domain(), isl.coordinates(onto.domain())[: self.depth])
            return onto if around.range_product(onto).is_injective() else None
        return onto

    def __post_init__(self) -> None:
        for array in self._written:
            touching = [(s, n) for s in self.inside for n, a in enumerate(s.accesses) if a.array == array]
            elements, numbers = list[isl.Map](), list[int]()
            for s, n in touching:
                element = self._stays(s, s.accesses[n])
                if element is None:
                    break
                numbers.append(next((k for k, one in enumerate(elements) if _same_map(one, element)), len(elements)))
                elements += [element] if numbers[-1] == len(elements) else []
            else:
                if self._apart(elements):
                    keys = [f"{array} {k}" if len(elements) > 1 else array for k in numbers]
                    self._staying |= {(s.name, n): key for (s, n), key in zip(touching, keys, strict=True)}

    def _apart(self, several: Sequence[isl.Map]) -> bool:
        """Whether no two of them touch the same element in any iteration of the loops around."""
        outer = [isl.domain_onto(one, range(self.depth)) for one in several]
        return all(outer[k].intersect(outer[j]).is_empty() for k in range(len(outer)) for j in range(k))

    def key(self, s: Statement, access: Access) -> str | None:
        """What all iterations of the loop touch by an access; None: they touch several things, or do not write it."""
        return self._staying.get((s.name, s.accesses.index(access)))

    def groups(self) -> Iterator[list[Statement]]:
        """Statements that carry values from iteration to iteration, with those of what they carry together."""
        carried, seen = set[str](), set[str]()
        own = {s.name: {key for a in s.accesses if (key := self.key(s, a))} for s in self.inside}
        targets = {s.name: self.key(s, s.target) for s in self.inside}
        for s in self.inside:
            carried |= {key for a in s.accesses if not a.write and (key := self.key(s, a))} - seen
            seen |= {targets[s.name] or ""}
        depends = set(carried)
        while more := {
            key for s in self.inside if own[s.name] & depends and (key := targets[s.name]) and key not in depends
        }:
            depends |= more
        own = {name: keys & depends for name, keys in own.items()}
        for group in together(self.inside, own):
            made = {targets[s.name] for s in group}
            alone = all(own[s.name] == {targets[s.name]} and accumulates(self.scop, s) for s in group)
            if not alone and made & carried and None not in made:
                yield group

    def steps(self, group: Sequence[Statement]) -> dict[str, tuple[Carried, Expr]]:
        """By key, what an iteration leaves in what a group carries. Raises NoAlgebra where that is no expression."""
        dependent = {key for s in group if (key := self.key(s, s.target))}
        members, now = {s.name for s in group}, dict[str, Expr]()
        left, rows = dict[str, tuple[Carried, Expr]](), dict[str, Statement]()
        read_before = set[str]()
        domains = [s.domain.reset_tuple_id() for s in group if s.depth == self.depth + 1]
        if not domains or not all(domain.is_equal(domains[0]) for domain in domains):
            raise NoAlgebra
        for s in self.inside:
            key = self.key(s, s.target)
            if s.name not in members:
                if key is not None:
                    single = s.depth == self.depth + 1 and s.target.array not in self._rows
                    single = single and s.domain.reset_tuple_id().is_equal(domains[0])
                    value = self._between(s, now, dependent, read_before) if single else None
                    now.pop(key, None)
                    now |= {key: value} if value is not None else {}
                continue
            assert key is not None, "a group computes what stays"
            known = dict(now)
            if s.depth > self.depth + 1:
                onto = isl.project_onto(s.domain, range(self.depth + 1)).reset_tuple_id()
                earlier = rows.get(key)
                if not onto.is_equal(domains[0]) or key in now or (earlier is None and key in left):
                    raise NoAlgebra
                if earlier is not None:
                    # In one loop or in two: what one iteration of it leaves is for the same one alone.
                    if not earlier.domain.reset_tuple_id().is_equal(s.domain.reset_tuple_id()):
                        raise NoAlgebra
                    known[key] = left[key][1]
                rows[key] = s
            elif key in rows:
                raise NoAlgebra
            value = self._tree(s, known, dependent, read_before)
            left[key] = Carried(key, s), value
            if s.depth == self.depth + 1:
                now[key] = value
        return {name: one for name, one in left.items() if name in read_before}

    def _between(self, s: Statement, now: Mapping[str, Expr], dependent: set[str], before: set[str]) -> Expr | None:
        """What a statement computes that is an input of a group's states, as an expression in leaves and states.

        In `t = x[i] * w[i]; s += t; q += t * t;` the group is s and q, and t's value x[i] * w[i] is substituted where
        they read t. None if that is not the same later on: the value reads an array that the loop writes, or an element
        that data choose.
        """
        try:
            value = self._tree(s, now, dependent, before)
        except NoAlgebra:
            return None
        read = {self.leaves[name].array for name in unknowns(value) if name in self.leaves}
        return None if read & self._written else value

    def _tree(self, s: Statement, now: Mapping[str, Expr], dependent: set[str], before: set[str]) -> Expr:
        """What a statement stores, in terms of leaves and states. Raises NoAlgebra where it reads what data choose."""

        def leaf(of: Access | AffineValue) -> Expr:
            relation = of.relation if isinstance(of, Access) else isl.Map.from_pw_aff(of.value)
            relation = isl.domain_named(relation.intersect_domain(s.domain), None)
            changes = isinstance(of, Access) and of.array in self._written
            for dims in (self.depth, self.depth + 1, s.depth)[changes:]:
                onto = isl.domain_onto(relation, range(dims))
                if onto.is_single_valued():
                    break
            else:
                raise NoAlgebra
            array = of.array if isinstance(of, Access) else ""
            key = array, str(isl.domain_named(onto, None))
            if key not in self._keys:
                name = self._keys[key] = f"{_LEAF}{len(self._keys)}"
                self.leaves[name] = Leaf(array, dims, onto)
                if isinstance(of, AffineValue):
                    self.values[name] = _arithmetic_of(s, of)
            return Const(self._keys[key])

        def taken(one: Expr) -> Expr:
            match one:
                case Gather():
                    raise NoAlgebra
                case Load(access):
                    name = self.key(s, s.accesses[access])
                    if name is not None and name in now:
                        return now[name]
                    if name is not None and name in dependent:
                        before.add(name)
                        return Const(_STATE + name)
                    return leaf(s.accesses[access])
                case AffineValue():
                    return leaf(one)
            return on_operands(one, taken)

        return taken(stored_value(self.scop, s))

    def is_float(self, value: Expr) -> bool:
        """Whether a part of a tree is a floating-point number."""
        match value:
            case Const(text) if text in self.leaves:
                array = self.leaves[text].array
                return bool(array) and self.scop.arrays[array].element.is_float
            case Const(text) if text.startswith(_STATE):
                return self.scop.arrays[text.removeprefix(_STATE).partition(" ")[0]].element.is_float
            case Const(text):
                return integer_literal(text) is None
            case Convert(_, target, _):
                return target.is_float
            case Call(_, _, element):
                return element.is_float
            case Conditional(_, then, _):
                return self.is_float(then)
            case _:
                return self.is_float(operands(value)[0])

    def abstract(self, value: Expr) -> Expr:
        """A tree with unknowns for its largest parts that no state is in, but for arithmetic on numbers of iterations.
        Raises NoAlgebra where something else than arithmetic is done with states."""
        if not any(name.startswith(_STATE) for name in unknowns(value)):
            if self._counts(value):
                return value
            known = next((name for name, one in self.terms.items() if one == value), None)
            if known is None:
                known = f"{_ELEMENT}{len(self.terms)}"
                self.terms[known] = value
            return Const(known)
        match value:
            case Binary("+" | "-" | "*" | "<" | "<=" | ">" | ">=") | Unary("-" | "+" | "!") | Conditional() | Call():
                pass
            case Binary("/", left, _) if self.is_float(left):
                pass
            case Convert(source, target, _) if target.is_float or (source.is_int and target.bytes >= source.bytes):
                pass
            case Const():
                return value
            case _:
                raise NoAlgebra
        return on_operands(value, self.abstract)

    def _counts(self, value: Expr) -> bool:
        """Whether a tree is arithmetic on literals and loop variables alone."""
        match value:
            case Const(text):
                return text in self.values or literal_value(text) is not None
            case Binary("+" | "-" | "*", left, right):
                return self._counts(left) and self._counts(right)
            case Binary("/", left, right):
                return self.is_float(left) and self._counts(left) and self._counts(right)
            case Unary("-" | "+", operand):
                return self._counts(operand)
            case Convert(_, target, operand):
                return (target.is_float or not self.is_float(operand)) and self._counts(operand)
        return False

    def invariant(self, value: Expr) -> bool:
        """Whether an element is the same in all iterations, and in those of the loops inside."""
        leaves = [self.leaves[name] for name in unknowns(value)]
        return all(leaf.dims <= self.depth and leaf.array for leaf in leaves)


def _same_map(one: isl.Map, other: isl.Map) -> bool:
    return isl.domain_arity(one) == isl.domain_arity(other) and bool(one.is_equal(other))


def _arithmetic_of(s: Statement, value: AffineValue) -> Expr:
    """An affine value as arithmetic on loop variables and parameters; an unknown where it is no single function."""
    pieces = isl.pieces(value.value)
    factors = isl.coefficients(pieces[0][1]) if len(pieces) == 1 else None
    others = isl.parameter_terms(pieces[0][1]) if factors is not None else None
    number = isl.offset(pieces[0][1]) if factors is not None else None
    if factors is None or others is None or number is None:
        return Const(f"value {value.value}")
    found: Expr = Const(str(others.pop((), number)))
    terms = [(f"loop {name}", factor) for name, factor in zip(s.iterators, factors, strict=True)]
    terms += [("size " + " ".join(names), factor) for names, factor in others.items()]
    for name, factor in terms:
        if factor:
            found = Binary("+", found, Binary("*", Const(str(factor)), Const(name)))
    return found


def _matched(at: _Iteration, group: Sequence[Statement], steps: Mapping[str, tuple[Carried, Expr]]) -> Joint | None:
    """The group as what a row describes. Raises NoAlgebra."""
    made = {name: at.abstract(value) for name, (_, value) in steps.items()}
    elements = {name: at.scop.arrays[one.array].element for name, (one, _) in steps.items()}
    if not _known_outside(at, group, steps) or not any(element.is_float for element in elements.values()):
        return None
    if not all((element.is_float or element.is_int) and element.bytes >= 4 for element in elements.values()):
        return None
    whole = {name for name, element in elements.items() if element.is_int}
    scalars = [name for name, (one, _) in steps.items() if one.writer.depth == at.depth + 1]
    for row in JOINT_COMBINERS:
        single = [name for name in row.state if name != row.many]
        for chosen in dict.fromkeys(permutations([*scalars, *(None for _ in single)], len(single))):
            fields = {name: array for name, array in zip(single, chosen, strict=True) if array is not None}
            others = [name for name in steps if name not in fields.values()]
            if not fields or (others and not row.many) or (row.many and not others):
                continue
            found = _bound(at, row, fields, others, made, whole)
            if found is None:
                continue
            terms, counts, weights = found
            return Joint(
                row,
                at.depth,
                at.loop,
                tuple(s.name for s in group),
                {name: steps[array][0] for name, array in fields.items()},
                tuple((steps[name][0], weight) for name, weight in weights.items()),
                counts,
                terms,
                dict(at.leaves),
                {name: value for name, (_, value) in steps.items()},
            )
    return None


def _bound(
    at: _Iteration,
    row: JointCombiner,
    fields: Mapping[str, str],
    others: Sequence[str],
    steps: Mapping[str, Expr],
    whole: set[str],
) -> tuple[dict[str, Expr], dict[str, Expr], dict[str, Expr]] | None:
    """Elements, numbers of iterations and weights with which a row describes steps; `whole`: those of integers."""
    terms: list[Expr] = [Const(name) for name in at.terms]
    weight = next((name for name in row.elements if row.many and name in row.lift[row.many]), "")
    alone = [name for name in row.elements if name != weight]
    choices = [[*(Const(text) for text in row.elements[name]), *terms] for name in alone]
    same: list[Expr] = [Const(name) for name, one in at.terms.items() if at.invariant(one)]
    choices += [[*(Const(text) for text in texts), *same] for texts in row.constants.values()]
    missing = [name for name in row.state if name != row.many and name not in fields]
    counted = list(dict.fromkeys(one for step in steps.values() for one in _numbers(at, step)))
    # A number of iterations is what it is before this one.
    for numbers in product(counted, repeat=len(missing)):
        for taken in product(*choices):
            elements = dict(zip((*alone, *row.constants), taken, strict=True))
            before: dict[str, Expr] = {}
            for name, one in zip(missing, numbers, strict=True):
                before[name] = Binary("-", one, with_values(formula(row.lift[name]), elements))
            if any(not _one(row.lift[name], elements) for name in missing):
                continue
            if whole & {*others} or any(a in whole and not _one(row.lift[f], elements) for f, a in fields.items()):
                continue
            values: dict[str, Expr] = {**at.values, **elements}
            values |= {f"a.{name}": one for name, one in before.items()}
            values |= {f"a.{name}": Const(_STATE + array) for name, array in fields.items()}
            values |= {f"b.{name}": formula(row.lift[name]) for name in row.state}
            values |= {name: formula(text) for name, text in row.join.items()}
            if not equal({name: (steps[array], Const(name)) for name, array in fields.items()}, values):
                continue
            weights: dict[str, Expr] = {}
            for array in others:
                tried = [*(Const(text) for text in row.elements[weight]), *terms]
                fits = (
                    one
                    for one in tried
                    if equal(
                        {row.many: (steps[array], Const(row.many))},
                        {**values, weight: one, f"a.{row.many}": Const(_STATE + array)},
                    )
                )
                found = next(fits, None)
                if found is None:
                    break
                weights[array] = _out(at, found)
            else:
                if all(_advances(at, one) for one in before.values()):
                    return {name: _out(at, one) for name, one in elements.items()}, before, weights
    return None


def with_values(value: Expr, values: Mapping[str, Expr]) -> Expr:
    """An expression with what unknowns stand for."""
    if isinstance(value, Const):
        return values.get(value.text, value)
    return on_operands(value, lambda one: with_values(one, values))


def _out(at: _Iteration, value: Expr) -> Expr:
    """An unknown as what it is."""
    return at.terms.get(value.text, value) if isinstance(value, Const) else value


def _one(lift: str, elements: Mapping[str, Expr]) -> bool:
    """Whether a field counts elements."""
    return with_values(formula(lift), elements) == Const("1")


def _numbers(at: _Iteration, value: Expr) -> Iterator[Expr]:
    """The affine values in a step, and arithmetic on them."""
    if isinstance(value, Convert) and at._counts(value):
        value = value.operand
    if at._counts(value) and any(name in at.values for name in unknowns(value)):
        if not isinstance(value, Binary) or value.op != "/":
            yield value
            return
    for one in operands(value):
        yield from _numbers(at, one)


def _advances(at: _Iteration, before: Expr) -> bool:
    """Whether a number grows by one in each iteration of the loop."""
    s = at.inside[0]
    name = s.iterators[at.depth]
    later = {f"loop {name}": Binary("-" if name in s.descending else "+", Const("old"), Const("1"))}
    earlier = {f"loop {name}": Const("old")}
    value = with_values(before, at.values)
    return equal({"": (with_values(value, later), Binary("+", with_values(value, earlier), Const("1")))}, {})


def _known_outside(at: _Iteration, group: Sequence[Statement], steps: Mapping[str, tuple[Carried, Expr]]) -> bool:
    """Whether nothing needs what a group computes beside its state, and the group reads nothing that its loop changes
    but what it carries and what iterations compute for themselves."""
    names, mine = {s.name for s in group}, {s.target.array for s in group}
    if any(a.array in mine for s in at.inside if s.name not in names for a in s.accesses):
        return False
    for array in (at.scop.arrays[name] for name in mine - {one.array for one, _ in steps.values()}):
        alone = all(s in at.inside for s in at.scop.statements for a in s.accesses if a.array == array.name)
        if not alone or (array.storage is not Storage.REGION and array.name in at.scop.live_out):
            return False
    return True
