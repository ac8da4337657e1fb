"""`export`: a model as C with a header, its weights in a binary file, and a test of itself; nothing of it needs Python.

torch.export ─▶ ATen graph ─ the same decompositions, groups and code as of `torch.compile` ─▶ a file of C per group
and one that calls them. Every operator must have loops, for there is no eager PyTorch to leave one to. What depends on
weights alone is computed here and stored in the place of the weights.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from polydl.base import resources
from polydl.base.errors import InputError, PolyDLError
from polydl.base.output_files import write, write_bytes
from polydl.options import Options
from polydl.torch_backend import fold, group_code, region_plan
from polydl.torch_backend.backend_options import BackendOptions, read
from polydl.torch_backend.checked_call import RELATIVE, Checked
from polydl.torch_backend.decompositions import traced
from polydl.torch_backend.exported_text import Buffer, ModelSize, Program, Tensor, files, weights_file
from polydl.torch_backend.graph_compiler import Failed, Lowerings, build, prepared
from polydl.torch_backend.graph_levels import Region
from polydl.torch_backend.graph_values import value_of
from polydl.torch_backend.model_sizes import ModelSizes, sizes_of
from polydl.torch_backend.node_kinds import is_view, kinds
from polydl.torch_backend.region_plan import RegionPlan, at
from polydl.torch_backend.sized_groups import for_all_sizes, same_operators
from polydl.torch_backend.sized_programs import DiffersError, united

_ALIGNMENT = 64
Groups = Callable[[Sequence[fx.Node], Sequence[fx.Node]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    folder: Path
    files: tuple[str, ...]
    """Names in the folder."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    weights_bytes: int
    arena_bytes: int
    groups: tuple[str, ...]
    """Names of the C functions that the model calls, in order."""

    def __str__(self) -> str:
        told = ", ".join(f"{one.name} {one.dtype}{list(one.sizes)}" for one in self.inputs)
        given = ", ".join(f"{one.name} {one.dtype}{list(one.sizes)}" for one in self.outputs)
        return (
            f"{self.folder}: {len(self.groups)} calls; inputs {told}; outputs {given}; "
            f"{self.weights_bytes} bytes of weights, {self.arena_bytes} of arena"
        )


@dataclass(frozen=True, slots=True)
class _Traced:
    """A graph of ATen operators, and what its inputs and outputs are."""

    gm: fx.GraphModule
    tensors: tuple[torch.Tensor, ...]
    """Of each input of the graph."""
    names: tuple[str, ...]
    """Of each input, as the model calls it."""
    weights: frozenset[int]
    """Numbers of the inputs that are the model's own."""
    outputs: tuple[str, ...]
    states: Mapping[int, int]
    """Of each output that is the new value of one of the model's tensors: the number of that input."""


def written(
    model: torch.nn.Module,
    args: Sequence[Any] | torch.Tensor,
    folder: str | Path,
    lowerings: Lowerings,
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str = "model",
    options: Mapping[str, object] | None = None,
    dynamic_shapes: Any = None,
) -> Exported:
    """See `polydl.torch_backend.export`."""
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
        raise InputError(f"'{name}' is no name for functions of C", hint="letters, digits and underscores")
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"export takes a torch.nn.Module, not {type(model).__name__}")
    o = replace(read(None, options), strict=True)
    given = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    with torch.no_grad():
        found = _traced(model, given, dict(kwargs or {}))
        expected = Checked.reference(found.gm)(*(copy.deepcopy(one) for one in found.tensors))
        sizes = None if dynamic_shapes is None else sizes_of(model, given, dict(kwargs or {}), dynamic_shapes)
        if sizes is None:
            spelled = None
            gm, parts = _prepared(found, o, lowerings)
        else:
            graphs = [_prepared(_traced(model, *sizes.arguments(one)), o, lowerings) for one in sizes.points]
            folds = [_computed(parts, found.tensors) for _, parts in graphs]
            if not all(_equal(folds[0], one) for one in folds):  # of weights and sizes: computed in each run
                o = replace(o, weights="live")
                graphs = [_prepared(_traced(model, *sizes.arguments(one)), o, lowerings) for one in sizes.points]
            gm, parts = graphs[0]
            every = [one for one, _ in graphs]
            spelled = _spelled(sizes, every)
            try:
                same_operators(every)
            except DiffersError as error:
                raise PolyDLError(f"the model cannot be exported: {error}") from error
            lowerings = replace(
                lowerings, groups=_greatest_first(for_all_sizes(sizes.names, sizes.fit, every, lowerings), sizes)
            )
        plan = _plan(gm, o, lowerings)
        names = list(found.names)
        for part in parts:
            names += [f"of {', '.join(names[i] for i in part.inputs)} ({k})" for k in range(part.results)]
        tensors = [*found.tensors, *_computed(parts, found.tensors)]
    return _write(Path(folder), name, found, gm, plan, tensors, names, expected, o, sizes, spelled)


def _greatest_first(groups_of: Groups, sizes: ModelSizes) -> Groups:
    """The same groups. Raises PolyDLError for a tensor that is larger at another than the first point: memory is laid
    out for this one."""

    def checked(nodes: Sequence[fx.Node], wanted: Sequence[fx.Node]) -> Sequence[Any]:
        found = groups_of(nodes, wanted)
        for group in found:
            for point in sizes.points:
                sized = at(group, point)
                if any(a.elements > b.elements for a, b in zip(sized.outputs, group.outputs, strict=True)):
                    raise PolyDLError(
                        "a tensor is larger where the sizes are not the greatest: memory is laid out for these"
                    )
        return found

    return checked


def _computed(parts: Sequence[fold.Part], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What depends on weights alone."""
    return [one for part in parts for one in fx.Interpreter(part.gm).run(*(tensors[i] for i in part.inputs))]


def _equal(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))


def _prepared(found: _Traced, o: BackendOptions, lowerings: Lowerings) -> tuple[fx.GraphModule, list[fold.Part]]:
    """The graph of a model as operators with loops, and what depends on its weights alone."""
    _dense_outputs(found.gm)
    static = [i for i in found.weights if i not in found.states.values()]
    gm, parts = prepared(found.gm, static, o, lowerings)
    _all_lowered(gm, lowerings)
    return gm, parts


def _spelled(sizes: ModelSizes, graphs: Sequence[fx.GraphModule]) -> dict[str, tuple[int, ...]]:
    """Sizes of inputs and outputs of a graph by the name of their node, as functions of those of the model. Raises
    PolyDLError."""

    def shapes(gm: fx.GraphModule) -> list[tuple[int, ...]]:
        return [tuple(node.meta["val"].shape) for node in _ends(gm)]

    try:
        found = united([shapes(one) for one in graphs], sizes.fit)
    except DiffersError as error:
        raise PolyDLError(f"an input or output is not affine in sizes: {error}") from error
    return {node.name: one for node, one in zip(_ends(graphs[0]), found, strict=True)}


def _ends(gm: fx.GraphModule) -> list[fx.Node]:
    """Inputs, then outputs."""
    (output,) = gm.graph.find_nodes(op="output")
    return [*gm.graph.find_nodes(op="placeholder"), *output.args[0]]


def _traced(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Traced:
    """The model as functional ATen operators. Raises InputError where torch.export cannot take it."""
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda one: one.contiguous(), (args, kwargs))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of torch to itself
            program = torch.export.export(model, args, kwargs).run_decompositions({})
    except Exception as error:
        raise InputError(
            f"torch.export cannot take the model with these arguments: {_first(error)}",
            hint="arguments must be those of the model's forward; branches on values of tensors cannot be exported",
        ) from error
    signature = program.graph_signature
    placeholders = program.graph.find_nodes(op="placeholder")
    values: list[torch.Tensor] = []
    names: list[str] = []
    weights: set[int] = set()
    kept: list[fx.Node] = []
    inputs = iter(torch.utils._pytree.tree_leaves((args, kwargs)))
    for spec, node in zip(signature.input_specs, placeholders, strict=True):
        value = next(inputs) if spec.kind is InputKind.USER_INPUT else _own(program, spec)
        if isinstance(spec.arg, ConstantArgument) or not isinstance(value, torch.Tensor):
            if node.users:
                raise InputError(f"the input '{node.name}' is {type(value).__name__}, which no C takes")
            continue
        if spec.kind is not InputKind.USER_INPUT:
            weights.add(len(values))
        kept.append(node)
        values.append(value.detach())
        names.append(spec.target or node.name)
    outputs: list[str] = []
    states: dict[int, int] = {}
    for spec in signature.output_specs:
        if not isinstance(spec.arg, TensorArgument):
            raise InputError(f"output {len(outputs)} of the model is no tensor: {spec.arg}")
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            states[len(outputs)] = names.index(str(spec.target))
            outputs.append(f"new {spec.target}")
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            outputs.append(f"changed {spec.target}")
        elif spec.kind is OutputKind.USER_OUTPUT:
            outputs.append(spec.arg.name)
        else:
            raise InputError(f"output '{spec.arg.name}' is of kind {spec.kind.name}, which export does not know")
    graph = traced(program.graph_module, placeholders, kept)
    return _Traced(graph, tuple(values), tuple(names), frozenset(weights), tuple(outputs), states)


def _own(program: torch.export.ExportedProgram, spec: Any) -> Any:
    """A parameter, buffer or constant of the model."""
    if spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent):
        return program.state_dict[spec.target]
    return program.constants[spec.target]


def _first(error: Exception) -> str:
    """What an error of torch's says in one line, with the line of the model that it names."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    places = [line for line in lines if line.startswith('File "') and "site-packages/torch" not in line]
    return f"{text} ({places[-1]})" if places else text


def _dense_outputs(gm: fx.GraphModule) -> None:
    """Make each output a tensor of its own, its elements in rows without gaps."""
    (output,) = gm.graph.find_nodes(op="output")
    seen: set[fx.Node] = set()
    results: list[fx.Node] = []
    with gm.graph.inserting_before(output):
        for node in output.args[0]:
            if not isinstance(node, fx.Node):
                raise InputError(f"an output of the model is {node!r}, and no tensor that it computes")
            value = node.meta["val"]
            if node.op != "call_function" or is_view(node) or node in seen or not value.is_contiguous():
                copied = gm.graph.call_function(
                    torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
                )
                copied.meta = {**node.meta, "val": value.clone(memory_format=torch.contiguous_format)}
                node = copied
            seen.add(node)
            results.append(node)
    output.args = (tuple(results),)


def _all_lowered(gm: fx.GraphModule, lowerings: Lowerings) -> None:
    """Raise PolyDLError that names all operators without loops."""
    _, reasons = kinds(gm.graph, lowerings.lowering)
    if reasons:
        listed = "\n".join(map(str, reasons))
        raise PolyDLError(
            f"the model cannot be exported: {len(reasons)} of its operators have no loops:\n{listed}",
            hint="compute these outside of the model, or use torch.compile, which leaves them to eager PyTorch",
        )


def _plan(gm: fx.GraphModule, o: BackendOptions, lowerings: Lowerings) -> RegionPlan:
    built = build(gm, o, lowerings, Failed(), within=True)
    regions = [i for i, unit in enumerate(built.units) if isinstance(unit, Region)]
    if not regions:
        raise InputError("the model computes nothing")
    (number,) = regions  # lowered operators alone are one region
    unit = built.units[number]
    assert isinstance(unit, Region)
    return region_plan.planned(unit, built.made[number])


def _whole(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _described(name: str, value: torch.Tensor, offset: int = 0, spelled: tuple[int, ...] = ()) -> Tensor:
    kind, size = str(value.dtype).removeprefix("torch."), _span(value) * value.dtype.itemsize
    return Tensor(name, kind, tuple(value.shape), tuple(value.stride()), offset, size, spelled)


def _span(value: torch.Tensor) -> int:
    """Elements from the first to behind the last."""
    if 0 in value.shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))


def _bytes(value: torch.Tensor) -> bytes:
    """The memory of a tensor, from its first to its last element."""
    flat = value.detach().as_strided((_span(value),), (1,)).contiguous()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _write(
    folder: Path, name: str, found: _Traced, gm: fx.GraphModule, plan: RegionPlan, tensors: Sequence[torch.Tensor],
    names: Sequence[str], expected: Sequence[torch.Tensor], o: BackendOptions, sizes: ModelSizes | None,
    spelled: Mapping[str, tuple[int, ...]] | None,
) -> Exported:  # fmt: skip
    placeholders = {node: i for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    (output,) = gm.graph.find_nodes(op="output")
    results: list[fx.Node] = list(output.args[0])
    user_inputs = [i for i in range(len(found.tensors)) if i not in found.weights]
    user_outputs = [i for i in range(len(results)) if i not in found.states]
    read = {placeholders[value.node] for value in plan.inputs} - set(user_inputs)
    own = sorted(read | set(found.states.values()))
    offsets: dict[int, int] = {}
    size = 0
    for i in own:
        offsets[i] = size
        size += _whole(_span(tensors[i]) * tensors[i].dtype.itemsize)
    arena = _whole(plan.arena)
    buffers: dict[fx.Node, Buffer] = {}
    for value in plan.inputs:
        i = placeholders[value.node]
        buffers[value.node] = Buffer("weights", offsets[i]) if i in offsets else Buffer("inputs", user_inputs.index(i))
    for k, i in enumerate(user_outputs):
        buffers[results[i]] = Buffer("outputs", k)
    copies: list[tuple[Buffer, Buffer, int]] = []
    for i, state in found.states.items():
        taken = value_of(results[i]).elements * expected[i].dtype.itemsize
        buffers[results[i]] = Buffer("arena", arena)
        copies.append((Buffer("weights", offsets[state]), buffers[results[i]], taken))
        arena += _whole(taken)
    order = [*(v.node for v in plan.inputs), *(v.node for v in plan.outputs)]
    places = [*(buffers[node] for node in order), *(Buffer("arena", offset) for offset in plan.offsets)]
    weights = tuple(_described(names[i], tensors[i], offsets[i]) for i in own)
    inputs = tuple(
        _described(found.names[i], tensors[i], 0, (spelled or {}).get(node.name, ()))
        for node, i in placeholders.items()
        if i in user_inputs
    )
    outputs = tuple(
        _described(found.outputs[i], expected[i].contiguous(), 0, (spelled or {}).get(results[i].name, ()))
        for i in user_outputs
    )
    calls = tuple(
        (step.made.code.name, [places[n] for n in step.numbers], [(places[one.number], one) for one in step.bounds])
        for step in plan.steps
    )
    groups = {
        code.name: code.text
        + group_code.entry(code.name, len(step.numbers), f"{code.name}_call", step.made.group.sizes)
        for step in plan.steps
        for code in (step.made.code,)
    }
    sized = {step.made.code.name: bool(step.made.group.sizes) for step in plan.steps}
    own_sizes = () if sizes is None else tuple(
        ModelSize(of, one.least, one.most, tested)
        for of, one, tested in zip(sizes.of, sizes.names, sizes.example, strict=True)
    )  # fmt: skip
    toolchain = Options(cc=o.cc).toolchain()
    flags = dict.fromkeys(flag for step in plan.steps for flag in step.made.code.flags)
    changes = tuple(k for k, i in enumerate(own) if i in found.states.values())
    texts = files(
        Program(
            name, inputs, outputs, weights, own_sizes, size, arena, calls, copies, changes, sized, groups,
            toolchain.cc, (*toolchain.cflags, *flags), toolchain.ldflags,
            {str(dtype).removeprefix("torch."): value for dtype, value in RELATIVE.items()},
        )
    )  # fmt: skip
    if any("polydl.h" in text for text in groups.values()):
        texts["polydl.h"] = (resources.headers() / "polydl.h").read_text(encoding="utf-8")
    data = bytearray()
    for i in own:
        one = _bytes(tensors[i])
        data += one + b"\0" * (_whole(len(one)) - len(one))
    new = {state: expected[i] for i, state in found.states.items()}
    after = [new[i] for i in own if i in new]
    tested = [found.tensors[i] for i in user_inputs] + [expected[i].contiguous() for i in user_outputs] + after
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error}") from error
    for file, text in texts.items():
        write(folder / file, text)
    write_bytes(folder / f"{name}_weights.bin", weights_file(weights, bytes(data)))
    write_bytes(folder / f"{name}_test.bin", b"".join(_bytes(one) for one in tested))
    names_of_files = (*texts, f"{name}_weights.bin", f"{name}_test.bin")
    return Exported(folder, names_of_files, inputs, outputs, size, arena, tuple(one for one, _, _ in calls))
