"""Fused statements as the epilogue of a generated microkernel: they work on the accumulators before these are stored.

`polydl_acc` is the vector of sums. What comes before the contraction gives the value that it adds to; what comes after
works on the result. Operands are arguments of the microkernel, addressed from the block's corner by row and column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from polydl.kernels.vector_text import NotVectorised, Vectors, math_prologue, uses_functions
from polydl.lower.ctree import Expr, Unary
from polydl.lower.instance import Place
from polydl.model import isl
from polydl.model.contraction import Stride, linear_strides
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.types import ElementType
from polydl.rewrite.conditions import Fused, Group
from polydl.schedule.kernel_call import KernelCall
from polydl.schedule.structure import Structure


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
    structure: Structure
    group: Group
    element: ElementType
    stride: Callable[[str, Stride], Stride]
    lines: list[str] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """Per array whose element the statement before has made, its C variable."""

    @property
    def vector(self) -> str:
        return f"polydl_{self.element.name}"

    def add(self, fused: Fused) -> None:
        """The lines of one more statement. Raises NotVectorised."""
        statement = fused.statement
        assert isinstance(statement.body, Assignment)
        for a in statement.accesses:
            if self.scop.arrays[a.array].element is not self.element:
                raise NotVectorised(f"{a.array} is {self.scop.arrays[a.array].element}, the sums are {self.element}")
        heavy = self._from_heavy(fused)

        def load(access: int) -> str:
            one = statement.accesses[access]
            if one.array in self.values:
                return self.values[one.array]
            operand = self._operand(one, heavy)
            if operand.scalar or not operand.column:
                return f"{self.vector}_all({operand.name if operand.scalar else f'*({operand.address})'})"
            return f"POLYDL_FETCH({operand.address})"

        body, target = statement.body, statement.accesses[statement.body.target]
        value = Vectors(self.element, load, self.scop.fast_math).text(body.value)
        if body.op != "=":
            if body.op[:-1] not in "+-*/" or body.target_read is None:
                raise NotVectorised(f"the operator {body.op}")
            value = f"{load(body.target_read)} {body.op[:-1]} {value}"
        if target.array in self.values:
            self.lines.append(f"{self.values[target.array]} = {value};")
            return
        name = f"polydl_value{len(self.values)}"
        self.lines.append(f"{self.vector} {name} = {value};")
        self.values[target.array] = name

    def store(self, array: str, fused: Fused) -> None:
        """Write what the statements made of an array that the microkernel does not store itself."""
        target = next(a for a in fused.statement.accesses if a.write and a.array == array)
        operand = self._operand(target, self._from_heavy(fused))
        if operand.scalar or operand.column != 1:
            raise NotVectorised(f"{array} is not written along the columns of {self.group.output}")
        value = self.values[array]
        self.lines.append(f"if (cut) {self.vector}_store_part({operand.address}, part, {value});")
        self.lines.append(f"else {self.vector}_store({operand.address}, {value});")

    def _from_heavy(self, fused: Fused) -> isl.Map:
        """{ H[h…] -> S[i…] } the fused instance on the element of a heavy one."""
        heavy = self.structure.nest.statements[0]
        assert isinstance(heavy.body, Assignment)
        return heavy.accesses[heavy.body.target].relation.intersect_domain(heavy.domain).apply_range(fused.element)

    def _operand(self, access: Access, heavy: isl.Map) -> Operand:
        relation = heavy.apply_range(access.relation).coalesce()
        for one in self.operands:
            if one.access.array == access.array and one.access.write == access.write:
                if one.access.relation.is_equal(relation):
                    return one
        array, statement = self.scop.arrays[access.array], self.structure.nest.statements[0]
        moved = Access(access.array, access.write, relation)
        row, column = (0, 0) if array.is_scalar else self._strides(statement, moved)
        operand = Operand(f"polydl_e{len(self.operands)}", moved, row, column, array.is_scalar, self.element)
        self.operands.append(operand)
        return operand

    def _strides(self, statement: Statement, access: Access) -> tuple[Stride, int]:
        strides = linear_strides(self.scop, statement, access)
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
    structure: Structure,
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
    writer = _Writer(scop, structure, group, element, stride)
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
            assert isinstance(fused.statement.body, Assignment)
            last[fused.statement.accesses[fused.statement.body.target].array] = fused
        for array, fused in last.items():
            if array != group.output:
                writer.store(array, fused)
    text = " ".join(writer.lines)
    prologue = (math_prologue(element),) if uses_functions(text, element) else ()
    return Epilogue(tuple(writer.lines), tuple(writer.operands), prologue)
