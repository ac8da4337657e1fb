"""Which operators become one function of C: loops over one domain, in which each of them is computed where the
others have it at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from math import prod

import torch
from torch import fx

from polydl.torch_backend.chained_groups import PRODUCTS, Link, chains, one_of
from polydl.torch_backend.cut_loops import cut
from polydl.torch_backend.graph_values import Value, value_of
from polydl.torch_backend.joined_loops import joined
from polydl.torch_backend.kept_rows import kept
from polydl.torch_backend.loop_index import ZERO, Index, Quotient, Remainder, Var
from polydl.torch_backend.loop_program import (
    Array,
    Const,
    Declare,
    Expr,
    Load,
    Loop,
    Program,
    SizeName,
    Statement,
    Store,
    When,
    indices,
    statements,
    values,
)
from polydl.torch_backend.loop_text import c_text
from polydl.torch_backend.loop_writer import Writer
from polydl.torch_backend.operand_arrays import Subscripts, operand_array
from polydl.torch_backend.operator_call import (
    EVERYWHERE,
    STORED,
    Element,
    Kind,
    Lowered,
    Target,
    cast,
    computed,
    loaded,
    stored_value,
)
from polydl.torch_backend.support import Probe, Read, is_getitem, lowered, probed, target_name, view_of
from polydl.torch_backend.wrapping import wrapped

MOST_MEMBERS = 16
"""Operators of a group."""
MOST_INPUTS = 12
"""Tensors that a group reads."""
MOST_ROWS = 4
"""Operators that reduce rows in one group."""
MOST_ROW_BYTES = 1 << 18
"""Of a row that several reductions of a group go through, one after the other: a part of a core's second cache."""
MOST_SPLITS = 4
"""Rounds of taking loops apart."""


@dataclass(eq=False)
class _Open:
    """A group that is being made."""

    number: int
    domain: tuple[int, ...]
    axes: tuple[Index, ...]
    members: list[fx.Node] = field(default_factory=list)
    points: dict[fx.Node, tuple[Index, ...]] = field(default_factory=dict)
    """Of each member, the axes of its own domain in terms of the group's."""
    places: dict[fx.Node, tuple[Index, ...]] = field(default_factory=dict)
    """Of each value of a member, its subscripts at a point of the domain."""
    kinds: list[Kind] = field(default_factory=list)
    reduced: frozenset[int] = frozenset()
    reads: set[fx.Node] = field(default_factory=set)
    depends: set[int] = field(default_factory=set)
    """Groups that must run before, through others as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Operators that are one function of C."""

    nodes: tuple[fx.Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    program: Program
    work: float
    """Estimated floating-point operations plus bytes moved."""
    index_ranges: tuple[tuple[int, int, int], ...] = ()
    """(number of an input, least, most): what its elements must lie between, or the function reads and writes beyond
    its tensors. Nothing else checks it."""
    known_ranges: tuple[tuple[int, int, int], ...] = ()
    """The same of indices that are computed such that nothing needs to check them."""

    @property
    def moved(self) -> int:
        """Bytes of its tensors."""
        return _bytes((*self.inputs, *self.outputs))

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of memory that the function takes behind its outputs."""
        return tuple(prod(one.shape) * one.type.bytes for one in self.program.scratch)

    @property
    def sizes(self) -> tuple[SizeName, ...]:
        """Sizes that the function takes in front of its inputs."""
        return self.program.sizes

    def text(self, name: str) -> str:
        """A C file with a function of this name: inputs, then outputs, then scratch memory."""
        operators = ", ".join(dict.fromkeys(target_name(node) for node in self.nodes))
        return c_text(wrapped(kept(self.program)), name, operators)


def groups(nodes: Sequence[fx.Node], wanted: Iterable[fx.Node]) -> list[Group]:
    """Groups of the lowered nodes of a region, in an order in which they can run; see `polydl.torch_backend`."""
    inner = frozenset(nodes)
    wanted_nodes = frozenset(wanted)
    made = _grouped(nodes, inner)
    readers: dict[fx.Node, set[int]] = {}
    for group in made:
        for one in group.reads:
            readers.setdefault(one, set()).add(group.number)
    found: list[Group] = []
    links: list[Link] = []
    for group in made:
        outputs = [
            value for member in group.members for value in values_of(member, inner)
            if value in wanted_nodes or readers.get(value, set()) - {group.number}
        ]  # fmt: skip
        if outputs:
            found.append(_finished(group, outputs, inner))
            links.append(_link(group, found[-1]))
    return [
        _chained([found[n] for n in chain], one_of([links[n] for n in chain], wanted_nodes)) for chain in chains(links)
    ]


def _link(group: _Open, made: Group) -> Link:
    indices = frozenset(made.inputs[position].node for position, _, _ in made.index_ranges)
    product = not PRODUCTS.isdisjoint(map(target_name, group.members))
    return Link(frozenset(group.kinds), product, made.inputs, made.outputs, made.program, indices)


def _chained(found: Sequence[Group], link: Link) -> Group:
    """One group of several, as functions of which the link is made, its loops joined."""

    def ranges(each: Iterable[tuple[Group, tuple[tuple[int, int, int], ...]]]) -> tuple[tuple[int, int, int], ...]:
        bounds: dict[int, tuple[int, int]] = {}
        for one, its in each:
            for position, least, most in its:
                # What a group of the chain computes is no input of it.
                for number, value in enumerate(link.inputs):
                    if value.node is one.inputs[position].node:
                        known = bounds.get(number, (least, most))
                        bounds[number] = max(known[0], least), min(known[1], most)
        return tuple((n, *bounds[n]) for n in sorted(bounds))

    return Group(
        tuple(node for one in found for node in one.nodes), link.inputs, link.outputs, joined(link.program),
        sum(one.work for one in found), ranges((one, one.index_ranges) for one in found),
        ranges((one, one.known_ranges) for one in found),
    )  # fmt: skip


def values_of(node: fx.Node, inner: frozenset[fx.Node]) -> list[fx.Node]:
    """The nodes that stand for the results of an operator."""
    if not isinstance(node.meta["val"], list | tuple):
        return [node]
    return [user for user in node.users if is_getitem(user) and user in inner]


def _grouped(nodes: Sequence[fx.Node], inner: frozenset[fx.Node]) -> list[_Open]:
    """Groups in an order in which they can run."""
    made: dict[int, _Open] = {}
    owner: dict[fx.Node, _Open] = {}
    for node in nodes:
        if is_getitem(node):
            continue
        probe = probed(node, inner)
        if probe.lowered.kind is Kind.VIEW:
            continue
        group = _joined(node, probe, owner, made, inner) or _begun(node, probe, len(owner), made, inner)
        for value in (node, *values_of(node, inner)):
            owner[value] = group
        read_groups = {owner[one.node].number for one in probe.reads if one.node in owner} - {group.number}
        _depend(group, read_groups, made)
    order: list[_Open] = []
    done: set[int] = set()
    pending = list(made.values())
    while pending:
        ready = next(one for one in pending if one.depends <= done)
        pending.remove(ready)
        done.add(ready.number)
        order.append(ready)
    return order


def _depend(group: _Open, on: set[int], made: dict[int, _Open]) -> None:
    """What depends on the group depends on these as well."""
    new = set(on)
    for number in on:
        new |= made[number].depends
    for one in made.values():
        if one is group or group.number in one.depends:
            one.depends |= new


def _begun(node: fx.Node, probe: Probe, number: int, made: dict[int, _Open], inner: frozenset[fx.Node]) -> _Open:
    group = _Open(number, probe.lowered.domain, probe.point)
    made[number] = group
    _take(group, node, probe, probe.point, inner)
    return group


def _take(group: _Open, node: fx.Node, probe: Probe, point: tuple[Index, ...], inner: frozenset[fx.Node]) -> None:
    group.members.append(node)
    group.points[node] = point
    group.kinds.append(probe.lowered.kind)
    group.reduced |= probe.lowered.reduced
    group.reads |= {one.node for one in probe.reads}
    for value in values_of(node, inner):
        number = value.args[1] if is_getitem(value) and value is not node else 0
        assert isinstance(number, int)
        group.places[value] = probe.lowered.results[number].place(point)


def _joined(
    node: fx.Node, probe: Probe, owner: dict[fx.Node, _Open], made: dict[int, _Open], inner: frozenset[fx.Node]
) -> _Open | None:
    """The group of something that the node reads, where it can be computed; groups that become one so are merged."""
    if probe.lowered.kind not in (Kind.POINTWISE, Kind.ROW):
        return None
    sources = {owner[one.node].number: owner[one.node] for one in probe.reads if one.node in owner}
    for group in sorted(sources.values(), key=lambda one: -one.number):
        if group.number not in made:  # another one took it in, which has no place for the node
            continue
        point = _point(node, probe, group)
        if point is None or not _acyclic(group, sources.keys() & made.keys(), made):
            continue
        if _turns_image(node, probe.lowered.results[0].place(point), group):
            continue
        for other in sorted(sources.values(), key=lambda one: -one.number):
            # What the node reads beside both must not wait for one of them: it would wait for the node then.
            waits = any(other.number in one.depends for one in sources.values() if one.number in made)
            if other is not group and not waits and _mergeable(group, other, probe, made):
                _merge(group, other, owner, made)
        if _point(node, probe, group) is None:
            continue
        _take(group, node, probe, point, inner)
        return group
    return _joined_sibling(node, probe, sources.keys() & made.keys(), made, inner)


def _joined_sibling(
    node: fx.Node, probe: Probe, sources: Set[int], made: dict[int, _Open], inner: frozenset[fx.Node]
) -> _Open | None:
    """A group that reduces rows of a tensor which the node reduces, too: rows that lie in memory without gaps and fit a
    cache, where the next reduction finds them."""
    if probe.lowered.kind is not Kind.ROW or _most_of_row(node, probe) > MOST_ROW_BYTES:
        return None
    reads = {
        one.node for one in probe.reads
        if {var.axis for var in _neighbours(one.node, one.index)} & probe.lowered.reduced
    }  # fmt: skip
    for group in made.values():
        if Kind.ROW not in group.kinds or group.number in sources or reads.isdisjoint(group.reads):
            continue
        waits = any(group.number in made[one].depends for one in sources)
        point = None if waits else _point(node, probe, group)
        if point is not None:
            _take(group, node, probe, point, inner)
            return group
    return None


def _most_of_row(node: fx.Node, probe: Probe) -> int:
    """Bytes of a row that the node reduces; of a tensor whose sizes change, the most that were seen."""
    source = node.all_input_nodes[0]
    every: tuple[torch.Tensor, ...] = source.meta.get(EVERYWHERE, (source.meta["val"],))
    if every[0].ndim != len(probe.lowered.domain):
        return MOST_ROW_BYTES + 1
    return max(prod(one.shape[d] for d in probe.lowered.reduced) * one.dtype.itemsize for one in every)


def _turns_image(node: fx.Node, place: tuple[Index, ...], group: _Open) -> bool:
    """Whether neighbours in the node's tensor, whose subscripts these are, are none in that of a convolution of the
    group. Its vectors would be of pixels instead of channels, and pixels that lie apart are copied for each window: to
    turn the image behind it moves less."""
    return any(
        getattr(one.target, "overloadpacket", None) is torch.ops.aten.convolution
        and _neighbours(one, group.places[one]) != _neighbours(node, place)
        for one in group.members
    )


def _neighbours(node: fx.Node, place: tuple[Index, ...]) -> frozenset[Var]:
    """The variables of the subscript along which elements of a node's tensor, or of its first one, lie side by side."""
    value = node.meta["val"]
    tensor = value[0] if isinstance(value, list | tuple) else value
    dense = [one for one, size, by in zip(place, tensor.shape, tensor.stride(), strict=True) if size > 1 and by == 1]
    return dense[0].variables if dense else frozenset()


def _acyclic(group: _Open, sources: Set[int], made: dict[int, _Open]) -> bool:
    """Whether nothing else that the node reads depends on the group."""
    return all(group.number not in made[one].depends for one in sources if one != group.number)


def _point(node: fx.Node, probe: Probe, group: _Open) -> tuple[Index, ...] | None:
    """The axes of the node's domain in terms of the group's, such that it reads each member's value where the member
    computes it; None if there is none, or the group is full."""
    reads = group.reads | {one.node for one in probe.reads}
    if len(group.members) >= MOST_MEMBERS or len(reads - set(group.places)) > MOST_INPUTS:
        return None
    if Kind.WHOLE in group.kinds:
        return None
    row = probe.lowered.kind is Kind.ROW
    if row:
        if Kind.CONTRACTION in group.kinds or probe.lowered.domain != group.domain:
            return None
        if group.reduced and group.reduced != probe.lowered.reduced:
            return None
        if sum(one is Kind.ROW for one in group.kinds) >= MOST_ROWS:
            return None
    own = [one for one in probe.reads if one.node in group.places]
    if any(one.guarded for one in own):
        return None
    candidates = []
    if probe.lowered.domain == group.domain:
        candidates.append(group.axes)
    elif len(probe.lowered.domain) == len(group.domain) and not row:
        if all(n in (1, m) for n, m in zip(probe.lowered.domain, group.domain, strict=True)):
            same = zip(probe.lowered.domain, group.axes, strict=True)
            candidates.append(tuple(ZERO if n == 1 else axis for n, axis in same))
    if not row:
        candidates += [one for read in own if (one := _solved(read, probe, group)) is not None]
    for candidate in candidates:
        # The group's iterations must be those of the node: a slice that begins at 0 is read at the same point.
        if any(one.range != (0, max(n - 1, 0)) for one, n in zip(candidate, probe.lowered.domain, strict=True)):
            continue
        if all(_moved(one.index, probe, candidate) == group.places[one.node] for one in own):
            return candidate
    return None


def _solved(read: Read, probe: Probe, group: _Open) -> tuple[Index, ...] | None:
    """The point at which a node reads a member's value where the member computes it, if the axes are its subscripts."""
    known: dict[Index, Index] = {}
    for own, place in zip(read.index, group.places[read.node], strict=True):
        if own in probe.point:
            known[own] = place
    if any(axis.terms and axis not in known for axis in probe.point):
        return None
    point = tuple(known[axis] if axis.terms else ZERO for axis in probe.point)
    # A slice reads a part of what the group computes: its own points would be written beyond its tensor.
    whole = all(axis.range == (0, n - 1) for axis, n in zip(point, probe.lowered.domain, strict=True))
    return point if whole else None


def _moved(index: tuple[Index, ...], probe: Probe, point: tuple[Index, ...]) -> tuple[Index, ...]:
    """An index of a read at another point; loops of a reduction stand for the axis that they run over."""
    by: dict[Var, Index] = {}
    for one in index:
        for var in one.variables:
            if 0 <= var.axis < len(point):
                by[var] = point[var.axis]
    return tuple(one.replaced(by) for one in index)


def _mergeable(group: _Open, other: _Open, probe: Probe, made: dict[int, _Open]) -> bool:
    if group.domain != other.domain or Kind.WHOLE in (*group.kinds, *other.kinds):
        return False
    kinds = group.kinds + other.kinds
    if kinds.count(Kind.CONTRACTION) > 1 or (Kind.CONTRACTION in kinds and Kind.ROW in kinds):
        return False
    if group.reduced and other.reduced and group.reduced != other.reduced:
        return False
    if len(group.members) + len(other.members) >= MOST_MEMBERS or kinds.count(Kind.ROW) > MOST_ROWS:
        return False
    values = set(group.places) | set(other.places)
    if len((group.reads | other.reads | {one.node for one in probe.reads}) - values) > MOST_INPUTS:
        return False
    # What one reads of the other must be at its own place, or the group could not be one nest.
    if group.number in other.depends or other.number in group.depends:
        return False
    between = [one for one in made.values() if one is not group and one is not other]
    return not any(
        (group.number in one.depends and one.number in other.depends)
        or (other.number in one.depends and one.number in group.depends)
        for one in between
    )


def _merge(group: _Open, other: _Open, owner: dict[fx.Node, _Open], made: dict[int, _Open]) -> None:
    by = {var: mine for theirs, mine in zip(other.axes, group.axes, strict=True) for var in theirs.variables}

    def moved(index: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(one.replaced(by) for one in index)

    group.members = sorted({*group.members, *other.members})
    group.points |= {node: moved(point) for node, point in other.points.items()}
    group.places |= {node: moved(place) for node, place in other.places.items()}
    group.kinds += other.kinds
    group.reduced |= other.reduced
    group.reads |= other.reads
    for node, one in owner.items():
        if one is other:
            owner[node] = group
    del made[other.number]
    for one in made.values():
        if other.number in one.depends:
            one.depends.discard(other.number)
            one.depends.add(group.number)
    _depend(group, {*other.depends}, made)


class _Emission:
    """The scope in which a group is written: members are computed, everything else is read."""

    def __init__(self, group: _Open, outputs: Sequence[fx.Node], inner: frozenset[fx.Node], splits: Splits) -> None:
        self.writer = Writer(splits)
        self.group = group
        self.inner = inner
        self.inputs: dict[fx.Node, tuple[Array, Subscripts]] = {}
        self.bounds: dict[fx.Node, tuple[int, int]] = {}
        self.known: dict[fx.Node, tuple[int, int]] = {}
        self.outputs = {node: self._operand(f"o{n}", node) for n, node in enumerate(outputs)}
        self._lowered: dict[fx.Node, Lowered] = {}
        self._members = set(group.members)
        self._uses: dict[fx.Node, int] = {}
        for member in group.members:
            for one in {read.node for read in probed(member, inner).reads}:
                self._uses[one] = self._uses.get(one, 0) + 1

    @staticmethod
    def _operand(name: str, node: fx.Node) -> tuple[Array, Subscripts]:
        value = value_of(node)
        return operand_array(name, STORED[value.dtype], value.sizes, value.strides)

    def lowered(self, node: fx.Node) -> Lowered:
        if node not in self._lowered:
            self._lowered[node] = lowered(node, self)
        return self._lowered[node]

    def element(self, node: fx.Node) -> Element:
        parent, number = (node.args[0], node.args[1]) if is_getitem(node) else (node, 0)
        assert isinstance(parent, fx.Node) and isinstance(number, int)
        if parent in self._members:
            return self._computed(node, self.lowered(parent), number)
        if node in self.inner:
            found = view_of(node, self)
            if found is not None:
                return found
        return self._input(node)

    def _computed(self, node: fx.Node, made: Lowered, number: int) -> Element:
        source = made.results[number].element
        if self._uses.get(node, 0) + (node in self.outputs) < 2:
            return source

        def at(index: tuple[Index, ...]) -> Expr:
            free: frozenset[Var] = frozenset()
            for one in index:
                free |= one.variables

            def make() -> Expr:
                return self.writer.let(source.at(index))

            return self.writer.once((node, index), free, make)

        return Element(source.sizes, source.dtype, at)

    def _input(self, node: fx.Node) -> Element:
        dtype = node.meta["val"].dtype

        def at(index: tuple[Index, ...]) -> Expr:
            if node not in self.inputs:
                self.inputs[node] = self._operand(f"a{len(self.inputs)}", node)
            array, subscripts = self.inputs[node]
            return loaded(array, subscripts(index), dtype)

        return Element(tuple(node.meta["val"].shape), dtype, at)

    def bound(self, node: fx.Node, least: int, most: int, *, known: bool = False) -> None:
        """Notes what the elements of an input lie between."""
        noted = self.known if known else self.bounds
        before = noted.get(node, (least, most))
        noted[node] = max(before[0], least), min(before[1], most)

    def target(self, node: fx.Node) -> Target:
        array, subscripts = self.outputs[node]
        return lambda index: Load(array, subscripts(index))

    def write(self) -> None:
        """Writes all loops of the group."""
        first = self.lowered(self.group.members[0])
        if first.write is not None:
            (member,) = self.group.members
            targets: list[Target | None] = [None] * len(first.results)
            for value in self.outputs:
                number = value.args[1] if value is not member else 0
                assert isinstance(number, int)
                targets[number] = self.target(value)
            first.write(targets)
            return
        pending = [node for node in self.outputs if 0 not in node.meta["val"].shape]
        while pending:
            pending = self._nest(pending)

    def _nest(self, outputs: list[fx.Node]) -> list[fx.Node]:
        """Writes one nest of loops for as many of the outputs as have place in it; gives the others."""
        axes = self.group.axes
        needed = {node: _axes_of(self.group.places[node], axes) for node in outputs}
        first = max(outputs, key=lambda node: len(needed[node]))
        strides = dict(zip(self.group.places[first], value_of(first).strides, strict=True))
        order = sorted(
            needed[first], key=lambda a: (a in self.group.reduced, -strides.get(axes[a], 0), a)
        )  # fmt: skip
        prefixes = [set(order[:n]) for n in range(len(order) + 1)]
        here = [node for node in outputs if needed[node] in prefixes]
        made = {a: self.writer.variables(self.group.domain[a], a) for a in order}
        by = {
            var: made[a][0] for a, axis in enumerate(axes) if a in made for var in axis.variables
        }  # fmt: skip
        with self.writer.loops([var for a in order for var in made[a][1]]):
            for node in sorted(here, key=lambda node: len(needed[node])):
                place = tuple(one.replaced(by) for one in self.group.places[node])
                free: frozenset[Var] = frozenset()
                for one in place:
                    free |= one.variables
                with self.writer.outside(free):
                    value = self.element(node).at(place)
                    dtype = node.meta["val"].dtype
                    self.writer.store(self.target(node)(place), stored_value(cast(value, computed(dtype)), dtype))
        return [node for node in outputs if node not in here]

    def program(self) -> Program:
        given = tuple(array for array, _ in self.inputs.values())
        outputs = tuple(array for array, _ in self.outputs.values())
        return Program(given, outputs, tuple(self.writer.body), tuple(self.writer.scratch))


Splits = dict[int, tuple[int, ...]]


def _axes_of(place: tuple[Index, ...], axes: tuple[Index, ...]) -> set[int]:
    """The axes of more than one iteration on which a place depends."""
    variables = {var for one in place for var in one.variables}
    return {a for a, axis in enumerate(axes) if axis.variables & variables}


def _finished(group: _Open, outputs: list[fx.Node], inner: frozenset[fx.Node]) -> Group:
    splits: Splits = {}
    for _ in range(MOST_SPLITS):
        emission = _Emission(group, outputs, inner, splits)
        emission.write()
        program = emission.program()
        more = _wanted_splits(program, splits)
        if more == splits:
            break
        splits = more
    program = cut(program)
    inputs = tuple(value_of(node) for node in emission.inputs)
    written = tuple(value_of(node) for node in outputs)
    ranges, known = (
        tuple((n, *bounds[node]) for n, node in enumerate(emission.inputs) if node in bounds)
        for bounds in (emission.bounds, emission.known)
    )
    return Group(tuple(group.members), inputs, written, program, _work(program, (*inputs, *written)), ranges, known)


def _wanted_splits(program: Program, splits: Splits) -> Splits:
    """Into which parts loops are taken, so that subscripts have no floors and remainders of their variables."""
    found = {number: set(parts) for number, parts in splits.items()}
    for index in _indices(program.body):
        for atom, _ in index.terms:
            if not isinstance(atom, Quotient | Remainder) or len(atom.of.terms) != 1 or atom.of.constant:
                continue
            ((var, n),) = atom.of.terms
            if isinstance(var, Var) and n == 1 and var.extent % atom.by == 0:
                parts = found.setdefault(var.number // Writer.PIECES, set())
                parts.add(var.weight * atom.by)
    nested = {}
    for number, parts in found.items():
        kept: list[int] = []
        for one in sorted(parts):
            if not kept or one % kept[-1] == 0:
                kept.append(one)
        nested[number] = tuple(kept)
    return nested


def _indices(body: Sequence[Statement]) -> Iterable[Index]:
    for one in statements(list(body)):
        if isinstance(one, Store):
            yield from one.index
        for value in values(one):
            yield from indices(value)


def _work(program: Program, tensors: Sequence[Value]) -> float:
    """Iterations of statements, and bytes of the tensors."""

    def count(body: Sequence[Statement]) -> float:
        total = 0.0
        for one in body:
            if isinstance(one, Loop):
                extent = one.end.range[1] - one.begin.range[0]
                total += max(extent, 0) * count(one.body)
            elif isinstance(one, When):
                total += count(one.body)
            elif isinstance(one, Store) or (isinstance(one, Declare) and not isinstance(one.value, Const | None)):
                total += 2
        return total

    return count(list(program.body)) + _bytes(tensors)


def _bytes(tensors: Sequence[Value]) -> int:
    return sum(one.elements * one.dtype.itemsize for one in tensors)
