"""How the statements of a row become lines of a vector function: what they load, compute, gather and store.

Values pass from statement to statement in registers, and an element that several statements write is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from types import MappingProxyType

from polydl.base.records import dataclass
from polydl.kernels.accumulators import Accumulator
from polydl.kernels.inner_sums import Operand, Sum, inner_sum
from polydl.kernels.innermost import Argument, Innermost, Printed
from polydl.kernels.masks import Mask, joined_by, mask_of
from polydl.kernels.narrow_text import Narrow, everywhere, fetched, register
from polydl.kernels.narrow_values import stored_value
from polydl.kernels.scalar_text import scalar_text
from polydl.kernels.vector_text import NotVectorised, Vectors
from polydl.kernels.whole_text import Whole, worst_text
from polydl.kernels.window_sums import WindowSum, window_operands, window_sum
from polydl.model import isl
from polydl.model.accumulation import Place, accumulation_in, places
from polydl.model.combiners import Combiner, Regrouping, adds, subtracts
from polydl.model.expr import (
    AffineValue,
    Call,
    Conditional,
    Convert,
    Expr,
    Gather,
    affine_values,
    every_part,
    loads,
    sure_loads,
)
from polydl.model.scop import Access, Assignment
from polydl.model.types import BF16, F16, F32, I8, I16, I32, I64, U8, U16, ElementType
from polydl.target.isa import lanes_name

APART = (F32, F16, BF16, I8, U8, I16, U16, I32)
"""Types of elements of which a vector can be loaded one by one (templates/row_sums.c.j2)."""
MOST_INSIDE = 64
"""Iterations of a loop that each lane runs for its own column: what a vector of columns touches in it may lie anywhere,
and stays in the first cache for the next one."""
_LAST = "(cut ? (ptrdiff_t)polydl_f32_count(part) - 1 : POLYDL_F32_LANES - 1)"
"""C of the number of a step's last column."""


@dataclass(frozen=True, slots=True)
class RowArgument:
    """What a row's function is called with."""

    name: str
    of: Argument
    written: bool
    element: ElementType

    @property
    def pointer(self) -> bool:
        return self.of.pointer

    @property
    def declaration(self) -> str:
        if not self.pointer:
            return f"const {self.element} {self.name}"
        return f"{'' if self.written else 'const '}{self.element} *{self.name}"


@dataclass(slots=True)
class RowBuilder:
    """The lines of one row, statement by statement."""

    piece: Innermost
    where: Printed
    element: ElementType
    lines: list[str] = field(default_factory=list)
    arguments: list[RowArgument] = field(default_factory=list)
    keys: list[tuple[str, isl.Map | None, bool]] = field(default_factory=list)
    values: list[tuple[str, isl.Map, str]] = field(default_factory=list)
    """(array, { [c…] -> A[a…] }, C variable) of the elements that the body has made so far."""
    stored: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Per address the array and the variable to store there."""
    unrounded: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Of variables that were rounded to be stored the place of their line, and what it is without that."""
    accumulators: list[Accumulator] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    """Plain C that does what `lines` do, in column j."""
    narrow: bool = False
    """Whether it converts (kernels.narrow_text)."""
    masks: dict[tuple[str, ElementType], None] = field(default_factory=dict)
    """Comparisons of elements of other types than the lanes', and these types."""
    widened: dict[ElementType, None] = field(default_factory=dict)
    """Other types of integers that are made as long as the lanes."""
    sums: list[Sum] = field(default_factory=list)
    """The functions of sums inside of the row."""
    windows: list[WindowSum] = field(default_factory=list)
    """Those that make the sums of two vectors of columns before the steps of these."""
    _alike: dict[tuple[object, ...], list[int]] = field(default_factory=dict)
    """Places of the arguments by array, whether they are pointers, and where what they touch begins."""

    @property
    def vector(self) -> str:
        return f"polydl_{lanes_name(self.element)}"

    def move(self, at: int, access: int) -> float | None:
        return self.piece.moves[at][access]

    def steps(self, at: int, access: int) -> int | None:
        """By how many elements a column moves an access, where that is a whole number."""
        move = self.move(at, access)
        return int(move) if move is not None and move == int(move) else None

    def held(self, at: int, access: int) -> ElementType:
        """The type of what an access touches."""
        return self.piece.arrays[self.piece.statements[at].accesses[access].array].element

    def vectors(self, at: int, load: Callable[[int], str]) -> Vectors:
        """How the right-hand side of a statement is printed."""
        if self.narrow:
            return Narrow(self.element, load, self.where.options.fast_math, of=lambda access: self.held(at, access))

        def uniform(condition: Expr) -> str | None:
            return self._uniform(at, condition)

        def masked(condition: Expr) -> str | None:
            return self._masked(at, condition)

        if self.element.is_int:
            return Whole(self.element, load, uniform=uniform, masked=masked)
        return Vectors(self.element, load, self.where.options.fast_math, uniform=uniform, masked=masked)

    def _uniform(self, at: int, condition: Expr) -> str | None:
        """C of a condition on elements of other types than the lanes' that no column moves or changes; None: it is
        another one."""
        read = loads(condition)
        if not self._stays(at, condition) or all(self.held(at, access) is self.element for access in read):
            return None
        return scalar_text(condition, lambda access: self.argument(at, access, pointer=False).name)

    def _stays(self, at: int, condition: Expr) -> bool:
        """Whether a condition is made of elements that no column moves or changes."""
        parts = list(every_part(condition))
        if any(isinstance(part, Gather | AffineValue | Call) for part in parts):
            return False
        changed = {a.array for s in self.piece.statements for a in s.accesses if a.write}
        accesses = self.piece.statements[at].accesses
        return all(self.move(at, i) == 0 and accesses[i].array not in changed for i in loads(condition))

    def _mask(self, at: int, condition: Expr) -> Mask | None:
        """A mask of elements that each column has one of, and that the row leaves alone."""
        mask = mask_of(condition, self.element, lambda access: self.held(at, access))
        if mask is None or at in self.piece.inner or self.move(at, mask.access) != 1:
            return None
        written = {a.array for s in self.piece.statements for a in s.accesses if a.write}
        return None if self.piece.statements[at].accesses[mask.access].array in written else mask

    def _masked(self, at: int, condition: Expr) -> str | None:
        """C of the lanes for which a mask holds; None: the condition is none."""
        mask = self._mask(at, condition)
        if mask is None or mask.access not in self.beside_lanes(at):
            return None
        self.masks.setdefault((mask.op, mask.element))
        self.widened.setdefault(mask.element)
        return mask.text(self.element, f"{self.argument(at, mask.access, pointer=True).name} + polydl_column")

    def beside_lanes(self, at: int) -> frozenset[int]:
        """The accesses that a statement only asks for in conditions that stay in all columns, or in masks."""
        body = self.piece.statements[at].body
        assert isinstance(body, Assignment)
        asked: list[int] = []
        for part in every_part(body.value):
            if isinstance(part, Conditional) and self._stays(at, part.condition):
                asked += loads(part.condition)
            elif isinstance(part, Conditional):
                asked += [mask.access for one in joined_by(part.condition) if (mask := self._mask(at, one)) is not None]
        every = list(loads(body.value))
        return frozenset(i for i in asked if every.count(i) == asked.count(i))

    def argument(self, at: int, access: int, *, pointer: bool) -> RowArgument:
        touched = self.piece.statements[at].accesses[access]
        relation = self.where.relation(at, touched)
        if at in self.piece.inner and self.where.along(self.piece.arrays[touched.array], at, access) == 0:
            # One element in all iterations inside: the address that the statements around them have for it.
            relation = self._of_column(at, touched)
        elements = relation.range()
        begin = tuple(isl.least(elements, d) for d in range(isl.arity(elements)))
        alike = self._alike.setdefault((touched.array, pointer, begin), [])
        for place in alike:
            other, known = self.keys[place][1], self.arguments[place]
            if other is not None and other.is_equal(relation) and (known.written or not touched.write):
                return known
        alike.append(len(self.arguments))
        of = Argument(at, access, pointer)
        element = self.piece.arrays[touched.array].element
        made = RowArgument(f"polydl_e{len(self.arguments)}", of, touched.write, element)
        self.keys.append((touched.array, relation, pointer))
        self.arguments.append(made)
        return made

    def _store(self, address: str, array: str, variable: str) -> None:
        """An element that the row leaves, behind those that were changed before."""
        self.stored.pop(address, None)
        self.stored[address] = (array, variable)

    def load(self, at: int, access: int) -> tuple[str, str]:
        """What an access reads, as a vector and as plain C. Raises NotVectorised."""
        read = self.piece.statements[at].accesses[access]
        relation = self.where.relation(at, read)
        for array, element, variable in reversed(self.values):
            if array == read.array and relation.is_subset(element):
                return variable, variable
        move, held = self.move(at, access), self.held(at, access)
        if move == 0:
            name = self.argument(at, access, pointer=False).name
            lanes = held is self.element or self.element.is_int
            return f"{self.vector}_all({name})" if lanes else everywhere(held, name), name
        steps = self.steps(at, access)
        if move != 1 and self.piece.inner and self.narrow and steps is not None and held in APART:
            # A load for each lane: beside a sum for each of them it is little.
            name = self.argument(at, access, pointer=True).name
            step = f"{steps} * (ptrdiff_t)sizeof *{name}"
            return (
                f"polydl_f32_apart_{held.name}({name} + polydl_column * {steps}, {step}, {_LAST})",
                f"{name}[j * {steps}]",
            )
        if move != 1:
            raise NotVectorised(f"{read.array} moves by {move} elements")
        name = self.argument(at, access, pointer=True).name
        if held is not self.element and self.element.is_int:
            self.widened.setdefault(held)
            return f"{self.vector}_widened_{held.name}({name} + polydl_column, part, cut)", f"{name}[j]"
        if held is not self.element:
            return fetched(held, f"{name} + polydl_column"), f"{name}[j]"
        return f"POLYDL_FETCH({name} + polydl_column)", f"{name}[j]"

    def affine(self, at: int, value: isl.PwAff) -> str:
        """Plain C of a value made of loop variables, in column j. Raises NotVectorised."""
        body = self.piece.statements[at].body
        assert isinstance(body, Assignment)
        grows = self.where.growth(at, value)
        if grows is None:
            raise NotVectorised("a value that does not grow evenly")
        number = next(k for k, one in enumerate(affine_values(body.value)) if one.value is value)
        made = RowArgument(f"polydl_e{len(self.arguments)}", Argument(at, number, False, affine=True), False, I64)
        self.keys.append(("", None, False))
        self.arguments.append(made)
        return f"({made.name}{continued_by(grows, 'j')})" if grows else made.name

    def winners(self) -> Mapping[int, tuple[int, Place]]:
        """Statements that keep something of the column with the greatest (least) value, with the statement behind them
        that finds that. `_kept` holds the two against each other."""
        found: dict[int, tuple[int, Place]] = {}
        targets = [s.target.array for s in self.piece.statements if isinstance(s.body, Assignment)]
        for at, statement in enumerate(self.piece.statements):
            body = statement.body
            assert isinstance(body, Assignment)
            others = (s for s in self.piece.statements if s is not statement)
            alone = all(a.array != targets[at] for s in others for a in s.accesses)
            if not alone or self.move(at, body.target) != 0 or targets[at] in self.where.private:
                continue
            for one in places(statement):
                if not one.guards and targets.count(one.extreme) == 1 and targets.index(one.extreme) > at:
                    found[at] = targets.index(one.extreme), one
        return found

    def longer(self, at: int) -> frozenset[int]:
        """The accesses to the extreme that a statement finds, where it is an integer that may be of a longer type than
        what it is found among: `int m; m = bytes[j] > m ? bytes[j] : m`."""
        statement = self.piece.statements[at]
        if not self.held(at, self.target(at)).is_int or self.move(at, self.target(at)) != 0:
            return frozenset()
        how = accumulation_in(self.piece.arrays, statement, fast_math=self.where.options.fast_math)
        return how.own if how is not None and how.combiner.better else frozenset()

    def add(self, at: int, beside: Mapping[int, Place] = MappingProxyType({})) -> None:
        """The lines of one statement, and of those that keep something beside what it finds. Raises NotVectorised."""
        statement = self.piece.statements[at]
        body = statement.body
        assert isinstance(body, Assignment)
        if self.narrow:
            body = replace(body, value=stored_value(body, lambda access: self.held(at, access)))
        target, move = statement.target, self.move(at, body.target)
        asked = () if self.narrow else (i for i in self.beside_lanes(at) if self.held(at, i) is not self.element)
        plain = {}
        for i in asked:
            moves = self.move(at, i) != 0
            plain[i] = f"{self.argument(at, i, pointer=moves).name}{'[j]' * moves}"

        def load(access: int) -> str:
            vector, plain[access] = self.load(at, access)
            return vector

        vectors = self.vectors(at, load)
        if move == 0 and target.array not in self.where.private:
            self._accumulate(at, body, vectors, plain, beside)
            return
        if beside:
            raise NotVectorised(f"{statement.name} finds nothing")
        if move not in (0, 1):
            raise NotVectorised(f"{target.array} moves by {move} elements")
        if self.element.is_int and self.held(at, body.target) is not self.element:
            raise NotVectorised(f"{self.element}s as {self.held(at, body.target)}s")
        value = vectors.text(body.value)
        written = scalar_text(body.value, plain.__getitem__)
        if body.op != "=":
            if body.op[:-1] not in vectors.operators or body.target_read is None:
                raise NotVectorised(f"the operator {body.op}")
            value = f"{load(body.target_read)} {body.op[:-1]} {value}"
            written = f"{plain[body.target_read]} {body.op[:-1]} {written}"
        name, held = f"polydl_v{len(self.values)}", self.held(at, body.target)
        declared = f"const {self.vector if held is self.element else register(held)} {name}"
        match body.value:
            case Convert(source, to, operand) if isinstance(vectors, Narrow) and (
                source is F32 and to == held and to.name in (BF16.name, F16.name) and move == 1
            ):
                self.unrounded[name] = len(self.lines), f"{declared} = {vectors.before_rounding(operand)};"
        self.lines.append(f"{declared} = {value};")
        self.plain.append(f"const {held} {name} = {written};")
        self.values.append((target.array, self.where.relation(at, target), name))
        if move == 1:
            address = f"{self.argument(at, body.target, pointer=True).name} + polydl_column"
            self._store(address, target.array, name)

    def add_sum(self, at: int) -> None:
        """The line of a sum that each column has of its own, in a loop inside of it: of a scalar that begins in the
        column, or of the column's element of an array. Raises NotVectorised."""
        statement, extent = self.piece.statements[at], self.piece.inner[at]
        body = statement.body
        assert isinstance(body, Assignment)
        target, mine = statement.target, self._of_column(at, statement.target)
        if self.where.along(self.piece.arrays[target.array], at, body.target) != 0:
            raise NotVectorised(f"{statement.name} changes another element of {target.array} in each iteration inside")
        kept = self.move(at, body.target) == 1
        before = next(
            (v for array, element, v in reversed(self.values) if array == target.array and mine.is_subset(element)),
            None,
        )
        alone = kept or (target.array in self.where.private and before is not None)
        if alone and not self.narrow:
            self._add_loop(at, mine, before)
            return
        if not alone or not adds(body.op):
            raise NotVectorised(f"{statement.name} is no sum that begins in its column")
        if self.held(at, body.target) is not I32 or body.target_read is None:
            raise NotVectorised(f"{statement.name} adds up {self.held(at, body.target)}")
        plain: dict[int, str] = {}

        def load(access: int) -> Operand:
            read = statement.accesses[access]
            along, move = self.where.along(self.piece.arrays[read.array], at, access), self.steps(at, access)
            if read.array == target.array or along is None or move is None:
                raise NotVectorised(f"{read.array} does not move evenly")
            name, column = self.argument(at, access, pointer=True).name, int(move)
            plain[access] = f"{name}[j * {column} + polydl_j * {along}]"
            return Operand(name, self.held(at, access), column, along, self._in_pair(at, access) if along == 2 else 0)

        name = f"polydl_v{len(self.values)}"
        operands = {access: load(access) for access in dict.fromkeys(loads(body.value))}
        if (windows := window_operands(operands, extent)) is not None:
            made = f"{body.op[:-1]} polydl_f32_load_i32(polydl_window{len(self.windows)})"
            self.windows.append(window_sum(body.value, extent, windows))
        else:
            found = inner_sum(body.value, extent, operands.__getitem__, negative=subtracts(body.op))
            made = f"+ {found.call(_LAST)}"
            self.sums.append(found)
        element = self.argument(at, body.target, pointer=True).name if kept else ""
        first = before or fetched(I32, f"{element} + polydl_column")
        self.lines.append(f"const {register(I32)} {name} = {first} {made};")
        adding = scalar_text(body.value, plain.__getitem__)
        counted = f"for (ptrdiff_t polydl_j = 0; polydl_j < {extent}; polydl_j++)"
        self.plain.append(f"{I32} {name} = {before or f'{element}[j]'}; {counted} {name} {body.op} {adding};")
        self.values.append((target.array, mine, name))
        if kept:
            self._store(f"{element} + polydl_column", target.array, name)

    def _add_loop(self, at: int, mine: isl.Map, before: str | None) -> None:
        """The lines of a short loop inside of the row that each lane runs for its own column, in the order that C has:
        it changes `mine`, the column's value, which is in the variable `before` or in memory. Raises NotVectorised."""
        statement, extent = self.piece.statements[at], self.piece.inner[at]
        body, target = statement.body, statement.target
        assert isinstance(body, Assignment)
        if extent > MOST_INSIDE:
            raise NotVectorised("a long loop inside of a row")
        there = [statement.accesses[i] for i in (body.target, *sure_loads(body.value))]
        for one in (statement.accesses[i] for i in loads(body.value)):
            if not any(one.array == a.array and one.relation.is_equal(a.relation) for a in there):
                raise NotVectorised(f"elements of {one.array} that may not be there")
        name, plain = f"polydl_v{len(self.values)}", dict[int, str]()

        def load(access: int) -> str:
            read = statement.accesses[access]
            along, move = self.where.along(self.piece.arrays[read.array], at, access), self.move(at, access)
            if read.array == target.array and self._of_column(at, read).is_equal(mine):
                plain[access] = name
                return name
            if along is None or move not in (0, 1) or read.array == target.array:
                raise NotVectorised(f"{read.array} does not move evenly")
            if self.held(at, access) is not self.element:
                raise NotVectorised(f"{read.array} is of another type")
            element = self.argument(at, access, pointer=True).name
            inside = (f" + {along} * polydl_j" if along != 1 else " + polydl_j") if along else ""
            plain[access] = f"*({element}{' + j' if move else ''}{inside})"
            if move:
                return f"POLYDL_FETCH({element} + polydl_column{inside})"
            return f"{self.vector}_all(*({element}{inside}))"

        vectors = self.vectors(at, load)
        value, written = vectors.text(body.value), scalar_text(body.value, plain.__getitem__)
        op = body.op.removesuffix("=")
        if op:
            if op not in vectors.operators:
                raise NotVectorised(f"the operator {body.op}")
            value, written = f"{name} {op} {value}", f"{name} {op} {written}"
        kept = self.move(at, body.target) == 1
        element = self.argument(at, body.target, pointer=True).name if kept else ""
        counted = f"for (ptrdiff_t polydl_j = 0; polydl_j < {extent}; polydl_j++)"
        first = before or f"POLYDL_FETCH({element} + polydl_column)"
        self.lines.append(f"{self.vector} {name} = {first}; {counted} {name} = {value};")
        self.plain.append(f"{self.element} {name} = {before or f'{element}[j]'}; {counted} {name} = {written};")
        self.values.append((target.array, mine, name))
        if kept:
            self._store(f"{element} + polydl_column", target.array, name)

    def _in_pair(self, at: int, access: int) -> int:
        """Whether a sum reads the neighbour behind an element, too (0), or the one before (1). Raises NotVectorised."""
        read = self.piece.statements[at].accesses[access]
        mine = isl.components(self.where.relation(at, read).as_pw_multi_aff())
        for other in self.piece.inner:
            for one in self.piece.statements[other].accesses:
                if one.array != read.array or not self.piece.arrays[read.array].layout.is_row_major:
                    continue
                theirs = isl.components(self.where.relation(other, one).as_pw_multi_aff())
                apart = [isl.Map.from_pw_aff(b.sub(a)).range() for a, b in zip(mine, theirs, strict=True)]
                ends = [(isl.least(by, 0), isl.greatest(by, 0)) for by in apart]
                if all(end == (0, 0) for end in ends[:-1]) and ends[-1] in ((1, 1), (-1, -1)):
                    return int(ends[-1] == (-1, -1))
        raise NotVectorised(f"every second element of {read.array}")

    def _of_column(self, at: int, target: Access) -> isl.Map:
        """{ [c…] -> A[a…] } of what a statement in a loop inside of the row touches, without that loop."""
        relation = self.where.relation(at, target)
        return isl.domain_onto(relation, range(isl.domain_arity(relation) - 1))

    def _accumulate(
        self, at: int, body: Assignment, vectors: Vectors, plain: dict[int, str], beside: Mapping[int, Place]
    ) -> None:
        statement = self.piece.statements[at]
        target = statement.target
        own = [i for i, a in enumerate(statement.accesses) if a.array == target.array]
        mine = self.where.relation(at, target)
        if not all(mine.is_equal(self.where.relation(at, statement.accesses[i])) for i in own):
            raise NotVectorised(f"{statement.name} reads another element of {target.array}")
        alone = all(
            other == at
            or other in beside
            or all(a.array != target.array or self.where.apart(mine, self.where.relation(other, a)) for a in s.accesses)
            for other, s in enumerate(self.piece.statements)
        )
        scanned = not alone
        if scanned and (self.where.turned or not self._behind(at, mine, beside)):
            raise NotVectorised(f"{target.array} is the same in every iteration")
        place = self.argument(at, body.target, pointer=True).name
        name = f"polydl_acc{len(self.accumulators)}"
        how = accumulation_in(self.piece.arrays, replace(statement, body=body), fast_math=self.where.options.fast_math)
        if how is None or how.own != {*own} or not how.combiner.gather:
            raise NotVectorised(f"{statement.name} gathers nothing")
        row, held = how.combiner, self.held(at, body.target)
        longer = self.element.is_int and held is not self.element
        text = vectors.compared(how.value) if longer else vectors.text(how.value)
        if longer and (scanned or not row.better or (how.guards and not beside)):
            raise NotVectorised(f"{statement.name} gathers {held}")
        if (beside and (not row.better or how.guards)) or (how.guards and row.neutral is not None):
            raise NotVectorised(f"{statement.name} finds nothing")
        if scanned and (beside or how.guards or self.element.bytes not in (4, 8) or body.op not in ("=", _first(row))):
            raise NotVectorised(f"{target.array} is the same in every iteration")
        x = ""
        if how.rounds and not self.where.options.reassociate:
            raise NotVectorised(f"{statement.name} is computed in another order")
        if (beside or how.regrouping is Regrouping.FIRST) and (self.sums or self.windows):
            raise NotVectorised(f"{statement.name} looks for a column once more, sums inside of it included")
        if beside or (how.regrouping is Regrouping.FIRST and not scanned):
            x = scalar_text(how.value, plain.__getitem__)
        more = row.step.format(v=self.vector, m=f"*{name}", x="polydl_x")
        for guard, holds in reversed(how.guards):
            test = vectors.test(guard)
            more = f"{self.vector}_select({test}, {', '.join((more, f'*{name}') if holds else (f'*{name}', more))})"
            # Where it does not count, it is no zero.
            asked = scalar_text(guard, plain.__getitem__)
            x = x and f"({asked}) ? {f'({x}) : 1' if holds else f'1 : ({x})'}"
        if row.compounds:
            doing = f"*{place} {body.op} {scalar_text(how.value, plain.__getitem__)};"
        else:
            known = {i: self.load(at, i)[1] for i in set(loads(body.value)) - how.own} | dict.fromkeys(own, f"*{place}")
            doing = f"*{place} = {scalar_text(body.value, known.__getitem__)};"
        if scanned:
            found = Accumulator(name, row, place, "=", "", scanned=True)
            number, variable = len(self.accumulators), f"polydl_v{len(self.values)}"
            self.lines.append(f"const {self.vector} polydl_x{number} = {text};")
            self.lines.append(f"const {self.vector} {variable} = {found.running(self.vector, f'polydl_x{number}')};")
            self.plain += [doing, f"const {self.element} {variable} = *{place};"]
            self.values.append((target.array, mine, variable))
            self.accumulators.append(found)
            return
        kept = tuple(self._kept(other, one, row, text, mine) for other, one in beside.items())
        last = {one.last for one in beside.values()}
        if len(last) > 1 or (True in last and not self.element.is_int):
            raise NotVectorised("the last of equal values, or of zeros")
        before = tuple(p for p in self.plain if not p.startswith("*"))
        vector = (tuple(line for line in self.lines if not line.startswith("{")), text)
        worst = worst_text(row, self.element) if longer or True in last else ""
        guarded = more if how.guards else ""
        made = Accumulator(
            name, row, place, body.op, x, before, kept, vector, guarded,
            last=True in last, turned=self.where.turned, worst=worst,
        )  # fmt: skip
        self.lines.append(made.line(self.vector, text))
        self.plain.append(doing)
        self.accumulators.append(made)

    def _behind(self, at: int, mine: isl.Map, beside: Mapping[int, Place]) -> bool:
        """Whether the statements that touch what a statement gathers only read the running value, behind it."""
        array = self.piece.statements[at].accesses[self.target(at)].array
        for other, statement in enumerate(self.piece.statements):
            for access in statement.accesses if other != at and other not in beside else ():
                if access.array == array and not self.where.apart(mine, self.where.relation(other, access)):
                    if access.write or other < at or not self.where.relation(other, access).is_subset(mine):
                        return False
        return True

    def target(self, at: int) -> int:
        """The access that a statement stores to."""
        body = self.piece.statements[at].body
        assert isinstance(body, Assignment)
        return body.target

    def _kept(self, at: int, one: Place, row: Combiner, x: str, extreme: isl.Map) -> tuple[str, str]:
        """(address, plain C of the value in column j) of what a statement keeps, where it asks for the same as the
        statement that finds the value x. Raises NotVectorised."""
        statement = self.piece.statements[at]
        assert isinstance(statement.body, Assignment)
        asked = self.vectors(at, lambda access: self.load(at, access)[0])
        mine = [self.where.relation(at, a) for a in statement.accesses if a.array == one.extreme]
        if not all(extreme.is_equal(other) for other in mine):
            raise NotVectorised(f"{statement.name} asks for another element of {one.extreme}")
        if one.combiner is not row or asked.text(one.x) != x:
            raise NotVectorised(f"{statement.name} asks for something else")
        value = scalar_text(one.value, lambda access: self.load(at, access)[1], lambda v: self.affine(at, v))
        return self.argument(at, statement.body.target, pointer=True).name, value

    def check_loads(self, only: Collection[tuple[int, int]] | None = None) -> None:
        """Vectors load what C may leave alone, behind a `?`: that has to be there. `only`: the statements and accesses
        that are loaded in vectors; None: all are. Raises NotVectorised."""
        sure: dict[str, list[tuple[int, Access]]] = {}
        perhaps: list[tuple[int, Access]] = []
        for at, statement in enumerate(self.piece.statements):
            body = statement.body
            assert isinstance(body, Assignment)
            if at in self.piece.inner:
                continue  # it reads all that it has
            reads = sure_loads(body.value)
            for number, access in enumerate(statement.accesses):
                known = access.write or number in reads or number == body.target_read
                if known:
                    sure.setdefault(access.array, []).append((at, access))
                elif only is None or (at, number) in only:
                    perhaps.append((at, access))
        for at, access in perhaps:
            array, relation = self.piece.arrays[access.array], self.where.relation(at, access)
            touched = any(relation.is_subset(self.where.relation(*one)) for one in sure.get(access.array, ()))
            if not touched and not all(
                extent is not None
                and (low := isl.least(access.relation.range(), d)) is not None
                and (high := isl.greatest(access.relation.range(), d)) is not None
                and 0 <= low <= high < extent
                for d, extent in enumerate(array.shape)
            ):
                raise NotVectorised(f"elements of {access.array} that may not be there")

    def check_searches(self) -> None:
        """What is looked at again behind the row must still be there. Raises NotVectorised."""
        written = {name for (name, _, _), a in zip(self.keys, self.arguments, strict=True) if a.written}
        read = {
            name
            for (name, _, pointer), a in zip(self.keys, self.arguments, strict=True)
            if not a.written or not pointer
        }
        if any(a.x for a in self.accumulators) and written & read:
            raise NotVectorised("a row that changes what it finds the first zero in")


def _first(row: Combiner) -> str:
    """The compound assignment that combines, not the one with the inverse; empty where there is none."""
    return row.compounds[0].op if row.compounds else ""


def continued_by(grows: int, counter: str) -> str:
    """C of what a value that grows by so much with each column has more in the column of that number."""
    return f" + {counter}" if grows == 1 else f" + {grows} * {counter}"
