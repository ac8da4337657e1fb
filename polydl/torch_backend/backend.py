"""The backend that `torch.compile(model, backend="polydl")` calls for each graph that Dynamo finds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch._guards import TracingContext

from polydl.base.errors import PolyDLError
from polydl.torch_backend import group_code
from polydl.torch_backend.backend_options import BackendOptions, read, usable_cores
from polydl.torch_backend.checked_call import Checked
from polydl.torch_backend.graph_assembly import Function
from polydl.torch_backend.graph_compiler import Lowerings, compile_graph
from polydl.torch_backend.graph_report import Explained, GraphReport
from polydl.torch_backend.groups import groups
from polydl.torch_backend.model_export import Exported, written
from polydl.torch_backend.node_kinds import reason
from polydl.torch_backend.region_plan import GroupsDifferError
from polydl.torch_backend.sized_graph import sized_graph
from polydl.torch_backend.sized_programs import DiffersError
from polydl.torch_backend.sizes import AtFirstCall, PerSizes, symbolic
from polydl.torch_backend.support import lowering
from polydl.torch_backend.whole_operators import whole

_LOWERINGS = Lowerings(lowering, groups)
_watches: weakref.WeakSet[Any] = weakref.WeakSet()
"""Of all graphs of this process: what was computed of parameters."""


def polydl(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's. `mode` and `options` are those of `torch.compile`, see `BackendOptions`.

    Raises InputError for an unknown mode or option, naming the known ones.
    """
    o = read(mode, options)
    if o.threads is None:
        o = replace(o, threads=usable_cores())
    partition = min_cut_rematerialization_partition if o.partition == "min-cut" else default_partition
    made = aot_autograd(
        fw_compiler=_boxed(o, forward=True), bw_compiler=_boxed(o, forward=False), partition_fn=partition,
        keep_inference_input_mutations=not o.strict,
    )  # fmt: skip
    with whole():
        compiled: Callable[..., Any] = made(gm, example_inputs)
    return compiled


def _reset() -> None:
    """What `torch.compiler.reset()` calls: empties what this process holds in memory."""
    group_code.forget()


polydl.reset = _reset  # type: ignore[attr-defined]  # torch looks for it there


def _boxed(o: BackendOptions, *, forward: bool) -> Callable[..., Any]:
    def compiler(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        function = compiled(gm, _static_inputs() if forward else (), o)
        function._boxed_call = True  # type: ignore[attr-defined]  # takes one list and empties it
        return function

    return compiler


def compiled(
    gm: fx.GraphModule, static: Sequence[int], o: BackendOptions, lowerings: Lowerings = _LOWERINGS
) -> Function:
    """The function of a graph of ATen operators with `meta["val"]`; `static` are the numbers of the inputs that are
    the same tensors in every call."""

    def one(part: fx.GraphModule) -> Function:
        eager = Checked.reference(part) if o.check else None
        function, report, watches = compile_graph(part, static, o, lowerings, keep=lowerings is _LOWERINGS)
        _watch(watches)
        _tell(report, o)
        return function if eager is None else Checked(function, eager, report)

    def beyond(why: str) -> None:
        reasons = tuple(reason(node, why) for node in gm.graph.nodes if node.op == "call_function")
        if o.strict:
            raise PolyDLError(f"{reasons[0]}", hint="the option 'sizes' says for how many sizes there is code")
        _tell(GraphReport(len(reasons), (), reasons, 0, "", 0.0), o)

    def at_first_call(inputs: Sequence[Any]) -> Function:
        try:
            function, report, watches = sized_graph(gm, inputs, static, o, lowerings, beyond)
        except (DiffersError, GroupsDifferError) as error:
            why = f"there is code for {o.sizes} other sizes already, and none for all: {error}"
            return PerSizes(gm, one, o.sizes, partial(beyond, why))
        _watch(watches)
        _tell(report, o)
        return Checked(function, Checked.reference(gm), report) if o.check else function

    return AtFirstCall(at_first_call) if symbolic(gm) else one(gm)


def _watch(watches: Sequence[Any]) -> None:
    if watches:
        _watches.update(watches)
        _see_steps()


@cache
def _see_steps() -> None:
    """Has optimizers tell of their steps: kernels of fused ones change parameters and count nothing."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_stepped)


def _stepped(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    if torch.compiler.is_compiling():
        return  # a step that is compiled is not traced through here
    changed = {id(one) for group in optimizer.param_groups for one in group["params"]}
    for watch in list(_watches):
        watch.forget_changed(changed)


def _static_inputs() -> tuple[int, ...]:
    """Numbers of the inputs of the graph that is compiled which are parameters or buffers and are not changed by it."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return ()
    changed = {*metadata.mutated_inp_runtime_indices, *metadata.mutated_graph_handled_indices}
    return tuple(i for i in metadata.static_input_indices if i not in changed)


def _tell(report: GraphReport, o: BackendOptions) -> None:
    if o.report is None:
        return
    if isinstance(o.report, str | Path):
        with Path(o.report).open("a", encoding="utf-8") as file:
            file.write(f"{report}\n\n")
    else:
        o.report(report)


def register() -> None:
    """Make the backend known to torch, where polydl is used from a source tree that is not installed."""
    from torch._dynamo.backends.registry import _BACKENDS, list_backends, register_backend

    list_backends()
    if "polydl" not in _BACKENDS:
        register_backend(polydl, name="polydl")


def refresh() -> None:
    """Forget what was computed of parameters, so that the next call of each graph computes it again: after changes of
    a few elements that PyTorch does not count, such as those of `parameter.data` or through NumPy."""
    for watch in list(_watches):
        watch.forget()


def export(
    model: torch.nn.Module,
    args: Sequence[Any] | torch.Tensor,
    folder: str | Path,
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str = "model",
    options: Mapping[str, object] | None = None,
    dynamic_shapes: Any = None,
) -> Exported:
    """Write a model as C: a header, a file of C that loads weights and runs the model, one of each group of operators,
    the weights in a binary file, a program that compares with what PyTorch computed of `args`, and a Makefile, whose
    `make test` runs it without Python.

    `args` and `kwargs` are those of the model, and fix its sizes but for those that `dynamic_shapes` names, as
    torch.export knows it: each call of the C says these. Inputs and outputs of the C are tensors in rows without gaps.
    `name` begins the names of files and functions; options are those of the backend.
    Raises InputError where torch.export cannot take the model with these arguments, and PolyDLError that names all
    operators without loops.
    """
    return written(
        model, args, folder, _LOWERINGS, kwargs=kwargs, name=name, options=options, dynamic_shapes=dynamic_shapes
    )


def explain(
    model: Callable[..., Any], *args: Any, options: Mapping[str, object] | None = None, **kwargs: Any
) -> Explained:
    """What the backend makes of a model for these arguments: groups, what eager PyTorch runs and why. Runs it once."""
    reports: list[GraphReport] = []
    told_options: dict[str, Any] = {**(options or {}), "report": reports.append}
    # A function of its own: what was compiled of the model before stays, and is not taken.
    told = torch.compile(lambda *a, **k: model(*a, **k), backend=polydl, options=told_options)
    told(*args, **kwargs)
    return Explained(tuple(reports))
