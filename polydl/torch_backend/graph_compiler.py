"""A graph of ATen operators becomes a function: regions as calls of C, the rest as eager PyTorch."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import fx

from polydl.base.errors import PolyDLError
from polydl.torch_backend import (
    call_extension,
    fold,
    graph_assembly,
    graph_layouts,
    group_check,
    group_code,
    region_plan,
    region_timing,
    stored_graph,
    straight_line,
)
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.decompositions import ORIGIN, expand, forward_identities, pad_in_eager
from polydl.torch_backend.graph_assembly import Function
from polydl.torch_backend.graph_levels import Region, Unit, units
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.graph_values import Reason, Value
from polydl.torch_backend.group_code import GroupCode
from polydl.torch_backend.group_search import Compilers, Job
from polydl.torch_backend.in_place import store_in_place
from polydl.torch_backend.node_kinds import Kind, Lowering, kinds, reason
from polydl.torch_backend.region_plan import Group, Made, RegionPlan
from polydl.torch_backend.support import checked_indices

_HEAVY = 1e6
"""Work of a group from which its products had better run in blocks."""
_IN_CACHE = 1 << 20
"""Bytes that one nest writes and another reads which stay in a cache meanwhile."""
_OF_EACH = 4
"""Operations for each element up to which memory is what takes time: products of a matrix and two vectors."""
_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_PRODUCTS = frozenset(
    getattr(torch.ops.aten, name) for name in ("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward")
) | {_ATTENTION}


class BackendWarning(UserWarning):
    """Something that could not be compiled is run by eager PyTorch."""


@dataclass(frozen=True, slots=True)
class Lowerings:
    """What turns operators into loops: `support.lowering` and `groups.groups`, or others in tests."""

    lowering: Lowering
    groups: Callable[[Sequence[fx.Node], Sequence[fx.Node]], Sequence[Group]]


@dataclass(slots=True)
class Failed:
    """Operators that could not be compiled, and why."""

    nodes: dict[fx.Node, Reason] = field(default_factory=dict)
    broken: bool = False
    """Whether there was a warning."""

    def add(self, nodes: Sequence[fx.Node], error: Exception, text: str | None, o: BackendOptions) -> None:
        """One warning for a group; raises the error again if options say so."""
        if o.strict:
            raise PolyDLError(f"{nodes[0].name}: cannot be compiled: {error}") from error
        self.broken = True
        kind = "" if isinstance(error, PolyDLError) else f"{type(error).__name__}: "
        names = ", ".join(node.name for node in nodes)
        kept = f" (its C is {_kept(text)})" if text is not None else ""
        warnings.warn(f"eager PyTorch runs {names}: {kind}{error}{kept}", BackendWarning, stacklevel=2)
        for node in nodes:
            self.nodes[node] = reason(node, f"its group cannot be compiled: {kind}{error}")


LaidOut = tuple[fx.GraphModule, list[fold.Part], frozenset[str]]
"""The rest of a graph, the parts of it that depend on parameters alone, and the names of the nodes for which tensors
were laid out."""
Together = Callable[[Sequence[LaidOut]], Callable[[Sequence[fx.Node], Sequence[fx.Node]], Sequence[Group]]]
"""Of a graph at several sizes: what gives groups of its nodes that take sizes."""


def _kept(text: str) -> Path:
    """A file with the C of a group that could not be compiled."""
    from polydl.frontend.inline import located

    return located(text)[0]


def compile_graph(
    gm: fx.GraphModule, static: Sequence[int], o: BackendOptions, lowerings: Lowerings, *, keep: bool = False
) -> tuple[Function, GraphReport, list[Any]]:
    """The function of a graph with numbers for sizes, its report, and the watches on its parameters (`call_extension`).

    `static` are the numbers of inputs that are the same tensors in every call. Every node has `meta["val"]`; the graph
    is changed. Raises PolyDLError for an operator without loops if options are strict; other failures leave a group to
    eager PyTorch, with a BackendWarning. `keep`: whether a graph that was compiled before is taken from the cache.
    """
    begin = time.perf_counter()
    module = call_extension.calls(o.cc)
    key = stored_graph.key(gm, static, o) if keep else None
    stored = None if key is None else stored_graph.read(key)
    if stored is None:
        stored = _compiled(gm, static, o, lowerings, module, key)
    function, report, watches = stored_graph.assembled(*stored, gm, o, module)
    return function, replace(report, seconds=time.perf_counter() - begin), watches


def _compiled(
    gm: fx.GraphModule, static: Sequence[int], o: BackendOptions, lowerings: Lowerings, module: Any, key: str | None
) -> tuple[stored_graph.Stored, dict[str, GroupCode]]:
    """What the function of a graph is made of, and the code of its groups by their keys. It is kept under a key, unless
    something could not be compiled: that is told again next time."""
    found = planned([gm], static, o, lowerings, module)
    stored = stored_of(found)
    if key is not None and not found.failed.broken:
        stored_graph.write(key, stored)
    return stored, found.codes


def stored_of(found: Planned, sizes: Sequence[str] = ()) -> stored_graph.Stored:
    """What the function of a planned graph is made of; `sizes` are the names of those that it is given."""
    built = found.built
    regions = {f"polydl_region_{n}": graph_assembly.data_of(plan) for n, plan in found.plans.items()}
    calls = {
        n: straight_line.RegionCall(f"polydl_region_{n}", _nodes(plan.inputs), _nodes(plan.outputs), plan.sized)
        for n, plan in found.plans.items()
    }
    folds, computed = _folds(found.rest, found.parts)
    lines = straight_line.function_of(found.rest, built.units, calls, folds, sizes)
    results = sum(part.results for part in found.parts)
    return stored_graph.Stored(lines, regions, computed, built.reasons, built.operators, results)


@dataclass(frozen=True, slots=True)
class Planned:
    """A graph with the code of its groups, and how its regions call them."""

    graphs: Sequence[fx.GraphModule]
    """What runs in each call, of one graph or, the same, at several sizes."""
    parts: Sequence[fold.Part]
    """What is computed of parameters alone."""
    built: Built
    plans: Mapping[int, RegionPlan]
    """Of each region, by the number of its unit."""
    failed: Failed

    @property
    def rest(self) -> fx.GraphModule:
        return self.graphs[0]

    @property
    def codes(self) -> dict[str, GroupCode]:
        """By their keys."""
        return {one.code.key: one.code for made in self.built.made.values() for one in made}


def planned(
    graphs: Sequence[fx.GraphModule],
    static: Sequence[int],
    o: BackendOptions,
    lowerings: Lowerings,
    module: Any,
    together: Together | None = None,
    points: Sequence[Sequence[int]] = (),
) -> Planned:
    """The plan of a graph, or of one graph at several sizes, `points`, of which `together` makes groups that take
    sizes. Groups that are measured to be slower than eager PyTorch are left to it, with the operators that they are
    parts of, as they were (`region_timing`)."""
    plain: dict[str, Reason] = {}
    while True:
        laid = [_laid_out(_expanded(gm, lowerings, plain), static, o, lowerings, plain) for gm in graphs]
        rest, parts, laid_out = laid[0]
        own = lowerings if together is None else replace(lowerings, groups=together(laid))
        failed = Failed({node: plain[node.name] for node in rest.graph.nodes if node.name in plain})
        while True:
            built = build(rest, o, own, failed)
            plans = {n: region_plan.planned(_region_of(built.units[n]), made) for n, made in built.made.items()}
            slow = {} if o.strict else _slower([gm for gm, _, _ in laid], built, o, module, points)
            again = {name: why for name, why in _by_origin(slow).items() if name not in plain}
            if again or not slow:
                break
            failed.nodes.update(slow)  # what has names of its own
        again |= {node.name: why for node, why in failed.nodes.items() if node.name in laid_out}
        if not again:
            return Planned([one for one, _, _ in laid], parts, built, plans, failed)
        plain |= again


def _slower(
    graphs: Sequence[fx.GraphModule], built: Built, o: BackendOptions, module: Any, points: Sequence[Sequence[int]]
) -> dict[fx.Node, Reason]:
    """The nodes that eager PyTorch was measured to run faster."""
    elsewhere = [{node.name: node for node in gm.graph.nodes} for gm in graphs]
    of_origins = region_timing.parts_of(graphs[0].graph)
    least = 0.0 if o.tune else o.least_work
    found: dict[fx.Node, str] = {}
    for made in built.made.values():
        found |= region_timing.slower(made, least, of_origins, module, elsewhere, points)
    return {node: reason(node, why) for node, why in found.items()}


def _by_origin(slow: Mapping[fx.Node, Reason]) -> dict[str, Reason]:
    """Reasons by the names that nodes have before any is replaced by its parts, and of these."""
    found: dict[str, Reason] = {}
    for node, why in slow.items():
        origin = node.meta.get(ORIGIN)
        name, target = (node.name, why.target) if origin is None else (origin.name, str(origin.target))
        found[name] = replace(why, node=name, target=target)
    return found


def _region_of(unit: Unit) -> Region:
    assert isinstance(unit, Region)
    return unit


def _nodes(values: Sequence[Value]) -> tuple[fx.Node, ...]:
    return tuple(value.node for value in values)


def prepared(
    gm: fx.GraphModule, static: Sequence[int], o: BackendOptions, lowerings: Lowerings
) -> tuple[fx.GraphModule, list[fold.Part]]:
    """The graph with its operators decomposed as far as loops need it and its tensors laid out, and what was split off
    because it depends on parameters alone."""
    rest, parts, _ = _laid_out(_expanded(gm, lowerings), static, o, lowerings, ())
    return rest, parts


def _expanded(original: fx.GraphModule, lowerings: Lowerings, plain: Container[str] = ()) -> fx.GraphModule:
    """The graph with its operators decomposed as far as loops need it, but for those that are `plain`."""
    graph = fx.Graph()
    (output,) = original.graph.find_nodes(op="output")
    graph.output(graph.graph_copy(original.graph, {})).meta = dict(output.meta)
    gm = fx.GraphModule(original, graph)
    gm.graph.eliminate_dead_code(lambda node: node.is_impure())
    _describe_constants(gm)
    forward_identities(gm.graph)
    store_in_place(gm.graph)
    expand(gm, lowerings.lowering, plain)
    return gm


def _laid_out(
    gm: fx.GraphModule, static: Sequence[int], o: BackendOptions, lowerings: Lowerings, plain: Container[str]
) -> LaidOut:
    """The graph laid out, but for the nodes that are `plain`, since eager PyTorch runs them."""
    if o.weights == "live":
        return gm, [], frozenset()
    made, names = graph_layouts.lay_out(gm, static, lowerings.lowering, plain)
    return *fold.split(made, static), names


@dataclass(frozen=True, slots=True)
class Built:
    """A graph with the code of its groups."""

    units: Sequence[Unit]
    made: Mapping[int, Sequence[Made]]
    """The groups of each region, by the number of the unit."""
    reasons: tuple[Reason, ...]
    """Why operators are left to eager PyTorch."""
    operators: int


def build(
    gm: fx.GraphModule, o: BackendOptions, lowerings: Lowerings, failed: Failed, *, within: bool = False
) -> Built:
    """The groups of a prepared graph and their code; what cannot be compiled is added to `failed`, and is eager.
    `within` says that whoever runs the groups checks indices that other groups of the region compute.

    Raises PolyDLError for operators without loops if options are strict.
    """

    def lowering(node: fx.Node) -> Reason | None:
        return failed.nodes.get(node) or lowerings.lowering(node)

    while True:
        before = len(failed.nodes)
        pad_in_eager(gm.graph, failed.nodes)
        found, reasons = kinds(gm.graph, lowering)
        if o.strict and reasons:
            listed = "\n".join(map(str, reasons))
            raise PolyDLError(f"{len(reasons)} operators have no loops:\n{listed}", hint="leave out strict=True")
        cut = units(gm.graph, found, {} if within else _checked_indices(found))
        grouped = _grouped(cut, lowerings, o, failed)
        made = _built(grouped, o, failed)
        if len(failed.nodes) == before:
            operators = sum(kind in (Kind.EAGER, Kind.LOWERED) for kind in found.values())
            return Built(cut, made, tuple(reasons), operators)


def _describe_constants(gm: fx.GraphModule) -> None:
    """Give the constants of a graph a `meta["val"]`."""
    for node in gm.graph.find_nodes(op="get_attr"):
        if "val" not in node.meta:
            found: Any = gm
            for name in str(node.target).split("."):
                found = getattr(found, name)
            if isinstance(found, torch.Tensor):
                node.meta["val"] = found


def _grouped(
    cut: Sequence[Unit], lowerings: Lowerings, o: BackendOptions, failed: Failed
) -> dict[int, Sequence[Group]]:
    """The groups of each region, by the number of the unit."""
    made: dict[int, Sequence[Group]] = {}
    for number, unit in enumerate(cut):
        if isinstance(unit, Region):
            try:
                made[number] = _checked(unit, lowerings.groups(unit.nodes, unit.wanted))
            except region_plan.GroupsDifferError as error:
                if o.strict:
                    raise
                failed.nodes.update((node, reason(node, str(error))) for node in error.nodes)
            except Exception as error:  # noqa: BLE001  # eager PyTorch can run it, whatever is wrong here
                failed.add([node for node in unit.nodes if node not in failed.nodes], error, None, o)
    return made


def _checked_indices(found: Mapping[fx.Node, Kind]) -> dict[fx.Node, tuple[fx.Node, ...]]:
    """Of lowered nodes: the tensors of indices that a call of their region checks before it runs."""
    return {node: checked_indices(node) for node, kind in found.items() if kind is Kind.LOWERED}


def _checked(unit: Region, groups: Sequence[Group]) -> Sequence[Group]:
    """The groups. Raises PolyDLError if one reads what no group before it wrote, or what is wanted is not written."""
    inside, written = set(unit.nodes), set[fx.Node]()
    for group in groups:
        for value in group.inputs:
            if value.node in inside and value.node not in written:
                raise PolyDLError(f"{value.node.name} is read before it is written")
        written.update(value.node for value in group.outputs)
    missing = [node.name for node in unit.wanted if node not in written]
    if missing:
        raise PolyDLError(f"no group writes {', '.join(missing)}")
    return groups


def _built(grouped: Mapping[int, Sequence[Group]], o: BackendOptions, failed: Failed) -> dict[int, list[Made]]:
    """The code of each group; groups with most work are searched, as many as options say."""
    named = {id(group): group_code.name_of(group.text) for groups in grouped.values() for group in groups}
    # What is little work at the sizes of the first call may be much at others.
    every = (group for groups in grouped.values() for group in groups)
    all_groups = [group for group in every if group.sizes or group.work >= o.least_work]
    heaviest = sorted(((group.work, named[id(group)]) for group in all_groups), reverse=True)
    searched = set(list(dict.fromkeys(name for _, name in heaviest))[: o.groups])
    made: dict[int, list[Made]] = {}
    wrong: set[str] = set()

    def fails(group: Group, error: Exception) -> None:
        name = named[id(group)]
        if name in wrong:
            for node in group.nodes:
                failed.nodes[node] = reason(node, "its group cannot be compiled, like an equal one")
        else:
            wrong.add(name)
            failed.add(group.nodes, error, group.text(name), o)

    asked: dict[str, GroupCode | Job] = {}
    waits: dict[str, Callable[[], GroupCode]] = {}
    for group in (group for groups in grouped.values() for group in groups):
        name = named[id(group)]
        if name in asked or name in waits:
            continue
        try:
            arguments = len(group.inputs) + len(group.outputs) + len(group.scratch)
            asked[name] = group_code.asked(
                group.text,
                arguments,
                o,
                search=name in searched,
                sizes=group.sizes,
                moved=group.moved,
            )
        except Exception as error:  # noqa: BLE001  # eager PyTorch can run it, whatever is wrong here
            waits[name] = partial(_raise, error)
    jobs = [one for one in asked.values() if isinstance(one, Job)]
    tell = _told if o.log else None
    with Compilers(sum(job.how != "as written" for job in jobs), timed=o.tune, tell=tell) as compilers:
        # Those with most work take longest: what is begun last ends alone.
        work = {named[id(group)]: group.work for groups in grouped.values() for group in groups}
        for name, one in sorted(asked.items(), key=lambda each: -work[each[0]]):
            try:
                waits[name] = partial(_given, one) if isinstance(one, GroupCode) else _begun(one, compilers)
            except Exception as error:  # noqa: BLE001  # as above
                waits[name] = partial(_raise, error)
        for number, group in ((number, group) for number, groups in grouped.items() for group in groups):
            made.setdefault(number, [])
            try:
                code = waits[named[id(group)]]()
                made[number].append(_proved(Made(group, code)))
            except Exception as error:  # noqa: BLE001  # as above
                fails(group, error)
                continue
            why = None if o.strict or code.how != "ranked" else _faster_in_pytorch(group, code)
            if why is not None:
                failed.nodes.update((node, reason(node, why)) for node in group.nodes)
    return made


def _proved(made: Made) -> Made:
    """A group with its code. Raises PolyDLError where that computes other values than eager PyTorch."""
    told = None if made.group.sizes else group_check.difference(made)
    if told is not None:
        raise PolyDLError(f"its code computes other values than eager PyTorch: {told}")
    return made


def _faster_in_pytorch(group: Group, code: GroupCode) -> str | None:
    """Why a group whose time is nearly all in sums of products, for which PyTorch has a library, is left to that."""
    operators = {getattr(one.target, "overloadpacket", None) for one in group.nodes}
    if group.work < _HEAVY or not any(map(_is_product_of_matrices, group.nodes)) or _reads_once(group):
        return None
    if not code.kernels:
        return "no microkernel fits its products: PyTorch's library is faster"
    if _ATTENTION in operators and sum(group.scratch) > _IN_CACHE and not code.shared:
        return "its nests share no loops, and what passes between them fits no cache: PyTorch's kernel is faster"
    return None


def _is_product_of_matrices(node: fx.Node) -> bool:
    """Whether an operator sums products that libraries have blocks for: each factor is in many sums. In a convolution
    with one channel of outputs for each group, a weight meets the pixels of one channel alone."""
    packet = getattr(node.target, "overloadpacket", None)
    if packet is not torch.ops.aten.convolution:
        return packet in _PRODUCTS
    weight, transposed, groups = node.args[1], node.args[6], node.args[8]
    assert isinstance(weight, fx.Node) and isinstance(groups, int)
    sizes = weight.meta["val"].shape
    return int(sizes[1] if transposed else sizes[0] // groups) > 1


def _reads_once(group: Group) -> bool:
    """Whether there are hardly more products than elements: whoever computes them waits for memory."""
    elements = sum(one.elements for one in (*group.inputs, *group.outputs))
    return group.work - group.moved <= _OF_EACH * elements


def _begun(job: Job, compilers: Compilers) -> Callable[[], GroupCode]:
    """Begins with a group; what is returned waits for its code."""
    waiting = compilers.begin(job)
    return lambda: group_code.loaded(job.key, job.name, job.how, *waiting())


def _told(line: str) -> None:
    sys.stderr.write(f"polydl: {line}\n")
    sys.stderr.flush()


def _given(code: GroupCode) -> GroupCode:
    return code


def _raise(error: Exception) -> GroupCode:
    raise error


def _folds(
    gm: fx.GraphModule, parts: Sequence[fold.Part]
) -> tuple[list[straight_line.FoldCall], dict[str, straight_line.Lines]]:
    """The calls of what depends on parameters alone, and the functions by the names that are called."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    following = iter(placeholders[len(placeholders) - sum(part.results for part in parts) :])
    calls: list[straight_line.FoldCall] = []
    functions: dict[str, straight_line.Lines] = {}
    for part in parts:
        found, _ = kinds(part.gm.graph, _nothing)
        name = f"polydl_fold_{len(calls)}"
        functions[name] = straight_line.function_of(part.gm, units(part.gm.graph, found), {})
        calls.append(straight_line.FoldCall(name, part.inputs, tuple(next(following) for _ in range(part.results))))
    return calls, functions


def _nothing(node: fx.Node) -> Reason:
    return reason(node, "it is computed of parameters, when they change")
