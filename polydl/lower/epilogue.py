"""Fused statements as the epilogue of a generated microkernel: they work on the accumulators before these are stored.

`polydl_acc` is the vector of sums. What comes before the contraction gives the value that it adds to; what comes after
works on the result. Operands are arguments of the microkernel, addressed from the block's corner by row and column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from polydl.base.records import dataclass
from polydl.kernels.microkernel import isa_prologue
from polydl.kernels.narrow_text import Narrow, everywhere, fetched, narrow_prologue, register
from polydl.kernels.narrow_values import HALVES, SMALL, stored_value
from polydl.kernels.vector_text import NotVectorised, Vectors, math_prologue, own_prologues, uses_functions
from polydl.lower.ctree import Expr, Unary
from polydl.lower.instance import Place
from polydl.model import isl
from polydl.model.expr import Binary, Load, repeated
from polydl.model.expr import Expr as Value
from polydl.model.scop import Access, Assignment, Scop, Statement, Storage
from polydl.model.strides import Stride, strides_of
from polydl.model.types import F32, I32, U32, ElementType
from polydl.schedule.fusion_conditions import Fused, Group
from polydl.schedule.kernel_call import KernelCall
from polydl.schedule.loops import NestLoops


@dataclass(frozen=True, slots=True)
class Operand:
    """Something that the epilogue reads or writes in memory."""

    name: str
    """C name of the argument."""
    access: Access
    """In terms of the heavy statement's instances."""
    row: Stride
    """Elements from one row of the block to the next; an argument where they depend on parameters."""
    column: int
    """0 or 1 elements from one column to the next."""
    scalar: bool
    element: ElementType

    @property
    def declarations(self) -> tuple[str, ...]:
        """Of its arguments."""
        if self.scalar:
            return (f"{self.element} {self.name}",)
        pointer = f"{'' if self.access.write else 'const '}{self.element} *{self.name}"
        return (pointer,) if isinstance(self.row, int) else (pointer, f"ptrdiff_t {self.name}_row")

    @property
    def address(self) -> str:
        distance = self.row if isinstance(self.row, int) else f"{self.name}_row"
        row = f" + polydl_row * {distance}" if distance else ""
        return f"{self.name}{row}{' + polydl_column' if self.column else ''}"


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What a microkernel does with its sums, and the arguments for it."""

    lines: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    prologue: tuple[str, ...] = ()
    stores: bool = True
    """False: nothing reads the sums themselves."""

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(declaration for o in self.operands for declaration in o.declarations)

    def arguments(self, at: Place, call: KernelCall) -> list[Expr]:
        """The arguments at a call."""
        found = []
        for operand in self.operands:
            element = at.element(operand.access.array, _subscript(operand.access, call))
            found.append(element if operand.scalar else Unary("&", element))
            found += [] if isinstance(operand.row, int) else [at.distance(operand.row)]
        return found


def _subscript(access: Access, call: KernelCall) -> isl.PwMultiAff:
    return access.relation.as_pw_multi_aff().pullback_pw_multi_aff(call.corner)


@dataclass(slots=True)
class _Writer:
    scop: Scop
    structure: NestLoops
    group: Group
    element: ElementType
    stride: Callable[[str, Stride], Stride]
    lines: list[str] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """Per array whose element the statement before has made, its C variable."""
    parts: int = 0
    """Of values, that have a variable."""
    narrow: bool = False
    """Whether it converts (kernels.narrow_text): everything but the sums is in vectors of float, and of integers as
    wide."""

    @property
    def vector(self) -> str:
        return f"polydl_{self.element.name}"

    def held(self, array: str) -> ElementType:
        """The type of an array's elements."""
        return self.scop.arrays[array].element

    def registers(self, array: str) -> str:
        """The C type of a vector of an array's elements."""
        if array == self.group.output or not self.narrow:
            return self.vector
        held = self.held(array)
        return register(I32 if held is U32 else held)

    def add(self, fused: Fused) -> None:
        """The lines of one more statement. Raises NotVectorised."""
        statement = fused.statement
        for a in statement.accesses:
            held = self.held(a.array)
            if held is not self.element and not (self.narrow and held in NARROW):
                raise NotVectorised(f"{a.array} is {held}, the sums are {self.element}")
        heavy = self._from_heavy(fused)

        def load(access: int) -> str:
            one = statement.accesses[access]
            if one.array in self.values:
                made = self.values[one.array]
                return f"(({register(I32)}){made})" if self._is_sum_of_words(one.array) else made
            operand = self._operand(one, heavy)
            if self.narrow:
                return _fetched(operand)
            if operand.scalar or not operand.column:
                return f"{self.vector}_all({operand.name if operand.scalar else f'*({operand.address})'})"
            return f"POLYDL_FETCH({operand.address})"

        target = statement.target
        value = self._value(statement, load)
        if self._is_sum_of_words(target.array):
            value = f"({self.vector}){value}"
        if target.array in self.values:
            self.lines.append(f"{self.values[target.array]} = {value};")
            return
        name = f"polydl_value{len(self.values)}"
        self.lines.append(f"{self.registers(target.array)} {name} = {value};")
        self.values[target.array] = name

    def _is_sum_of_words(self, array: str) -> bool:
        """Whether an array holds the sums, in vectors of unsigned numbers."""
        return array == self.group.output and self.element is I32

    def _value(self, statement: Statement, load: Callable[[int], str]) -> str:
        """What a statement stores, as a vector. Raises NotVectorised."""
        body = statement.body
        assert isinstance(body, Assignment)
        if self.narrow:

            def of(access: int) -> ElementType:
                return self.held(statement.accesses[access].array)

            if body.op != "=":
                if body.op[:-1] not in "+-*" or body.target_read is None:
                    raise NotVectorised(f"the operator {body.op}")
                body = replace(body, op="=", value=Binary(body.op[:-1], Load(body.target_read), body.value))
            return self._in_parts(stored_value(body, of), Narrow(F32, load, self.scop.fast_math, of=of))
        value = Vectors(self.element, load, self.scop.fast_math).text(body.value)
        if body.op != "=":
            if body.op[:-1] not in "+-*/" or body.target_read is None:
                raise NotVectorised(f"the operator {body.op}")
            value = f"{load(body.target_read)} {body.op[:-1]} {value}"
        return value

    def _in_parts(self, value: Value, vectors: Narrow) -> str:
        """C of a vector, behind lines that make what is used more than once of it. Raises NotVectorised."""
        names: dict[Value, str] = {}
        vectors = replace(vectors, names=names)
        for part in repeated(value):
            if not vectors.is_vector(part):
                continue
            try:
                text = vectors.text(part)
            except NotVectorised:
                continue  # the whole, which has it, says why, unless it has it otherwise
            name = f"polydl_part{self.parts}"
            self.parts += 1
            self.lines.append(f"const {register(vectors.made(part))} {name} = {text};")
            names[part] = name
        return vectors.text(value)

    def store(self, array: str, fused: Fused) -> None:
        """Write what the statements made of an array that the microkernel does not store itself."""
        target = next(a for a in fused.statement.accesses if a.write and a.array == array)
        operand = self._operand(target, self._from_heavy(fused))
        if operand.scalar or operand.column != 1:
            raise NotVectorised(f"{array} is not written along the columns of {self.group.output}")
        value, own = self.values[array], self.vector
        form = ""
        if self.narrow:
            own, form = f"polydl_{F32.name}", "" if operand.element is F32 else f"_{operand.element.name}"
        self.lines.append(f"if (cut) {own}_store{form}_part({operand.address}, part, {value});")
        self.lines.append(f"else {own}_store{form}({operand.address}, {value});")

    def _from_heavy(self, fused: Fused) -> isl.Map:
        """{ H[h…] -> S[i…] } the fused instance on the element of a heavy one."""
        heavy = self.structure.nest.statements[0]
        return heavy.target.relation.intersect_domain(heavy.domain).apply_range(fused.element)

    def _operand(self, access: Access, heavy: isl.Map) -> Operand:
        relation = heavy.apply_range(access.relation).coalesce()
        for one in self.operands:
            if one.access.array == access.array and one.access.write == access.write:
                if one.access.relation.is_equal(relation):
                    return one
        array, statement = self.scop.arrays[access.array], self.structure.nest.statements[0]
        moved = Access(access.array, access.write, relation)
        row, column = (0, 0) if array.is_scalar else self._strides(statement, moved)
        operand = Operand(f"polydl_e{len(self.operands)}", moved, row, column, array.is_scalar, array.element)
        self.operands.append(operand)
        return operand

    def _strides(self, statement: Statement, access: Access) -> tuple[Stride, int]:
        strides = strides_of(self.scop, statement, access)
        if strides is None:
            raise NotVectorised(f"the subscripts of {access.array} are not affine in the loops of {statement.name}")
        kernel = self.structure.kernel
        assert kernel is not None
        rows, columns = (
            0 if loop is None else self.stride(loop.iterator, strides[loop.iterator])
            for loop in (kernel.rows, kernel.columns)
        )
        if not isinstance(columns, int):
            raise NotVectorised(f"the distance between neighbouring columns of {access.array} depends on parameters")
        if columns not in (0, 1):
            raise NotVectorised(f"neighbouring columns of {access.array} are {columns} elements apart")
        return rows, columns


def epilogue(
    scop: Scop,
    structure: NestLoops,
    group: Group,
    element: ElementType,
    stride: Callable[[str, Stride], Stride],
    *,
    before: bool,
    after: bool,
) -> Epilogue:
    """The statements of a group around a microkernel's sums: those before it, those after, or both.

    `stride(iterator, elements)` turns elements per step of an iterator into elements per step of its loop. With
    `before` the sums must start from zero (beta = 0). Raises NotVectorised.
    """
    others = {scop.arrays[a.array].element for f in group.members for a in f.statement.accesses}
    narrow = element in (F32, I32) and (element is I32 or others != {F32})
    writer = _Writer(scop, structure, group, element, stride, narrow=narrow)
    if before and group.before:
        reads = any(a.array == group.output and not a.write for a in group.before[0].statement.accesses)
        start = "POLYDL_FETCH(p)" if reads else f"{writer.vector}_zero()"
        writer.lines.append(f"{writer.vector} polydl_start = {start};")
        writer.values[group.output] = "polydl_start"
        for fused in group.before:
            writer.add(fused)
        writer.lines.append("polydl_acc = polydl_start + polydl_acc;")
    writer.values = {group.output: "polydl_acc"}
    if after:
        last: dict[str, Fused] = {}
        for fused in group.after:
            writer.add(fused)
            last[fused.statement.target.array] = fused
        for array, fused in last.items():
            if array != group.output:
                writer.store(array, fused)
    text = " ".join(writer.lines)
    bodies = [f.statement.body for f in (*(group.before if before else ()), *(group.after if after else ()))]
    values = [body.value for body in bodies if isinstance(body, Assignment)]
    own = own_prologues(values, F32 if narrow else element, fast=scop.fast_math)
    prologue: tuple[str, ...] = (math_prologue(element), *own) if uses_functions(text, element) else ()
    if narrow:
        prologue = (isa_prologue(F32, scop.long), math_prologue(F32), *own, narrow_prologue())
    inside = {group.heavy.statements[0].name, *(f.statement.name for f in group.members)}
    unread = all(s.name in inside for s in scop.statements if any(a.array == group.output for a in s.accesses))
    dead = scop.arrays[group.output].storage is Storage.SCRATCH and unread
    return Epilogue(tuple(writer.lines), tuple(writer.operands), prologue, stores=not (dead and after))


NARROW = (F32, *HALVES, *SMALL, U32)
"""Types that an epilogue converts from and to."""


def _fetched(operand: Operand) -> str:
    """C of a vector of what an operand holds, in a register of `kernels.narrow_text`."""
    held, name = I32 if operand.element is U32 else operand.element, f"polydl_{F32.name}"
    if operand.scalar or not operand.column:
        one = operand.name if operand.scalar else f"*({operand.address})"
        return f"{name}_all({one})" if held is F32 else everywhere(held, one)
    if held is F32:
        return f"(cut ? {name}_load_part({operand.address}, part) : {name}_load({operand.address}))"
    return fetched(held, operand.address)
