"""Copies of the output for a reduction that is shared out: one per block of its loop, begun before, combined after.

    parallel for w in [0, ways): copy[w][…] = 0
    parallel for w in [0, ways): the nest's block w, with copy[w] in place of C
    for w in [0, ways), in order: C[…] += copy[w][…]

Nothing depends on the number of threads, nor on which of them runs a block: the same sums in the same order always.
Extremes begin with what the output holds; of equal ones the first is kept, for blocks are put together in order.
"""

from __future__ import annotations

from dataclasses import replace

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.lower.ast import Writer
from polydl.lower.cexpr import Helpers
from polydl.lower.ctree import Assign, Binary, Choice, Expr, Invoke, Node, Raw, Text
from polydl.lower.instance import Names, Place
from polydl.lower.marks import COPIED, PARALLEL, SERIAL
from polydl.lower.scratch import Scratch
from polydl.model import isl
from polydl.model.accumulation import accumulation
from polydl.model.combiners import Combiner
from polydl.model.isl.trees import add_loop, add_mark, tree_of
from polydl.model.scop import Access, Array, Assignment, Scop
from polydl.model.time import map_from_affs
from polydl.schedule.tree import Node as Tree
from polydl.schedule.tree import bands, own_statements, summed_cut

_MANY = 1 << 16
"""Additions from which on the copies are added up by all threads: below, starting them takes longer."""
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one statement's output."""

    scop: Scop
    """With the output replaced by the copy of the block at hand, for the statement's own code."""
    part: Tree
    """The loops, one of which is shared out."""
    statement: str
    access: Access
    """The statement's write."""
    array: Array
    combiner: Combiner
    buffer: str
    """C name of the first copy."""
    each: int
    """Elements between copies."""
    count: int

    def _part(self) -> Array:
        return self.scop.arrays[self.array.name]

    def _declare(self, block: str) -> Raw:
        """C declaration of the pointer to a block's copy, which has the type of the output's."""
        of = f"{self.array.element.c} *" if self.array.is_scalar else f"__typeof__(&{self.array.spelled}[0]) "
        name = f"{self.buffer}_here"
        return Raw((f"{of}__restrict__ const {name} = ({of})({self.buffer} + (size_t){block} * {self.each});",))

    def thread_line(self, names: Names) -> Raw:
        """The declaration for inside of the grid's loops."""
        loops = [member for band in bands(self.part) for member in band.members]
        first = next(place for place, member in enumerate(loops) if member.share.summed)
        share = loops[first].share
        axes = sorted((cut.axis for cut in share.grid), key="LRC".index)
        axis = next(cut.axis for cut in share.grid if cut.loop.name == share.summed)
        return self._declare(f"{names.iterator}{first + axes.index(axis)}")

    def _instances(self, name: str) -> isl.Set:
        """{ name[w, a…] } every block with every element that the statement writes."""
        blocks = isl.interval(0, self.count - 1)
        return blocks.flat_product(self.access.relation.range()).set_tuple_name(name)

    def _element(self, at: Place, array: str, instances: isl.Set) -> Expr:
        """The element of an instance { name[w, a…] }."""
        _, *subscripts = isl.coordinates(instances)
        to_array = map_from_affs(instances, subscripts)
        return at.element(array, isl.range_named(to_array, self.array.name).as_pw_multi_aff())

    def zeroing(self, original: Scop, names: Names, helpers: Helpers) -> Node:
        """Code that sets all copies to what the combiner starts from, each by the thread that runs its block."""
        name, key = f"{self.statement}_zero", f"{self.buffer}_here"
        instances = self._instances(name)
        neutral = self.combiner.neutral

        def zero(at: Place) -> Node:
            value = self._element(at, self.array.name, instances) if neutral is None else Text(neutral)
            return Assign(self._element(at, key, instances), "=", value)

        block, *subscripts = isl.coordinates(instances)
        node = add_mark(tree_of(instances), PARALLEL)
        node = add_mark(add_loop(node, block, instances), SERIAL)
        for subscript in subscripts:
            node = add_loop(node, subscript, instances)
        both = replace(original, arrays={**original.arrays, key: self._part()})
        writer = Writer(both, names, helpers, {name: zero}, (self._declare(f"{names.iterator}0"),))
        return writer.write(node.get_schedule())

    def adding(self, original: Scop, names: Names, helpers: Helpers) -> Node:
        """Code that combines the copies with the output, one after the other."""
        name, key = f"{self.statement}_sum", f"{self.buffer}_here"
        instances = self._instances(name)

        def add(at: Place) -> Node:
            part, whole = (self._element(at, array, instances) for array in (key, self.array.name))
            row = self.combiner
            if row.compounds:
                return Assign(whole, row.op, part)
            if row.better:
                test = Binary(row.better, part, whole)
                test = Binary("||", test, Binary("!=", whole, whole)) if row.renews else test
                return Assign(whole, "=", Choice(test, part, whole))
            return Assign(whole, "=", Invoke(row.called(self.array.element), (whole, part)))

        block, *subscripts = isl.coordinates(instances)
        many = self.count * self.each >= _MANY and len(subscripts) > 1
        node = tree_of(instances)
        if many:
            node = add_mark(add_loop(add_mark(node, PARALLEL), subscripts.pop(0), instances), COPIED)
        node = add_mark(add_loop(node, block, instances), SERIAL)
        for subscript in subscripts:
            node = add_loop(node, subscript, instances)
        both = replace(original, arrays={**original.arrays, key: self._part()})
        counter = f"{names.iterator}{1 if many else 0}"
        return Writer(both, names, helpers, {name: add}, (self._declare(counter),)).write(node.get_schedule())


def copies(scop: Scop, part: Tree, scratch: Scratch) -> Copies:
    """Reserve the copies of a statement with a summed loop. Raises InputError for an output of unknown shape."""
    (name,), cut = own_statements(part), summed_cut(part)
    assert cut is not None, "a loop of the grid is summed"
    statement = next(s for s in scop.statements if s.name == name)
    body, how = statement.body, accumulation(scop, statement)
    assert isinstance(body, Assignment) and how is not None
    access = statement.target
    array = scop.arrays[access.array]
    written = access.relation.intersect_domain(statement.domain).range()
    ends = [] if array.layout.strides is None else [isl.bounds(written, d) for d in range(len(array.extents))]
    if array.layout.strides is None or any(low < 0 for low, _ in ends):
        raise InputError(f"no copy can be made of '{array.name}': its shape is not known", array.span)
    elements = 1 + array.layout.offset([high for _, high in ends])
    size = array.element.bytes
    each = -(-elements * size // _PAGE) * _PAGE // size
    last = isl.greatest(map_from_affs(statement.domain, [cut.loop.affs[name]]).range(), 0)
    assert last is not None, "a thread grid knows how often its loops run"
    count = last // cut.chunk + 1
    buffer = scratch.reserve(f"polydl_{name}_copies", array.element, count * each * size)
    spelled = f"(*{buffer}_here)" if array.is_scalar else f"{buffer}_here"
    members = None if array.members is None else replace(array.members, of="")
    changed = replace(scop, arrays={**scop.arrays, array.name: replace(array, name=spelled, members=members)})
    return Copies(changed, part, name, access, array, how.combiner, buffer, each, count)
