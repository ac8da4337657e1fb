"""What a block of a loop that steps a joint state (`rewrite.joint_groups`) starts from: the state and the number of
iterations in front of it."""

from __future__ import annotations

from polydl.base.records import dataclass
from polydl.equations.algebra import NoAlgebra
from polydl.equations.lift import Equations
from polydl.model import isl
from polydl.model.expr import Binary, Const, Convert, Expr, Unary, is_zero
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import map_from_affs
from polydl.model.types import literal_value
from polydl.rewrite.joint_groups import Joint


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the loop of a joint state."""

    scop: Scop
    joint: Joint
    points: isl.Set
    """{ [i…] } the loops around."""
    each: isl.Set
    """{ [i…, i] } those and the loop."""

    @property
    def depth(self) -> int:
        """Of the loop."""
        return self.joint.depth

    def around(self, of: Statement) -> list[int]:
        """The loops of a statement that are around the loop or inside of it."""
        return [d for d in range(of.depth) if d != self.depth]

    def starts_as_identity(self) -> bool:
        """Whether the state in front of the loop is what leaves that of the block as it is."""
        row, joint = self.joint.row, self.joint
        equations = Equations(self.scop)
        needed = [joint.fields[name] for name in row.identity if name in joint.fields]
        needed += [one for one, _ in joint.several]
        for carried in needed:
            for name in joint.statements:
                s = self.scop.statement(name)
                for number, access in enumerate(s.accesses):
                    if access.write or access.array != carried.array:
                        continue
                    here = isl.domain_onto(access.relation.intersect_domain(s.domain), self.around(s))
                    own = isl.domain_onto(carried.place, self.around(carried.writer))
                    if not isl.domain_named(here, None).is_equal(isl.domain_named(own, None)):
                        continue  # another element
                    for source in equations.sources(name, number):
                        if source.writer in joint.statements:
                            continue
                        writer = source.writer and self.scop.statement(source.writer).body
                        if not isinstance(writer, Assignment) or writer.op != "=" or not is_zero(writer.value):
                            return False
        for name, before in joint.counts.items():
            if name in row.identity:
                value = self.count_before(before)
                if not value.is_cst() or isl.to_int(value.max_val()) != 0:
                    return False
        return True

    def _ends(self) -> tuple[isl.Map, isl.Map]:
        """{ [i…] -> [i…, i] } the first and the last iteration of a block."""
        coordinates = isl.coordinates(self.each)[: self.depth]
        whole = map_from_affs(self.each, coordinates).reverse()
        return whole.lexmin(), whole.lexmax()

    def iterations(self) -> isl.PwAff:
        """{ [i…] -> [n] } how many a block has."""
        counter = map_from_affs(self.each, [isl.coordinates(self.each)[self.depth]])
        low, high = (function_of_map(end.apply_range(counter)) for end in self._ends())
        return high.sub(low).add_constant_val(isl.value(1)).coalesce()

    def count_before(self, before: Expr) -> isl.PwAff:
        """{ [i…] -> [n] } a number of iterations at the first one of a block. Raises NoAlgebra where it is no affine
        one."""
        match before:
            case Const(name) if name in self.joint.leaves:
                leaf = self.joint.leaves[name]
                first = self._ends()[0]
                if leaf.dims <= self.depth:
                    return function_of_map(leaf.relation.intersect_domain(self.points))
                return function_of_map(first.apply_range(leaf.relation))
            case Const(text) if (number := literal_value(text)) is not None and number.is_integer():
                return isl.PwAff.from_aff(isl.constant(self.points, int(number)))
            case Convert(_, _, operand) | Unary("+", operand):
                return self.count_before(operand)
            case Unary("-", operand):
                return self.count_before(operand).neg()
            case Binary("+" | "-" | "*" as op, left, right):
                one, other = self.count_before(left), self.count_before(right)
                if op != "*" or one.is_cst() or other.is_cst():
                    return one.add(other) if op == "+" else one.sub(other) if op == "-" else one.mul(other)
        raise NoAlgebra


def function_of_map(of: isl.Map) -> isl.PwAff:
    """{ [i…] -> [v] } as a function."""
    return isl.components(isl.PwMultiAff.from_map(isl.range_named(of, None)))[0]
