"""Runs graphs with what groups write, compiled as it is, in place of ATen's operators."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

from polydl.base.resources import headers
from polydl.torch_backend.graph_values import Reason
from polydl.torch_backend.groups import Group, groups
from polydl.torch_backend.operator_call import LOWERINGS
from polydl.torch_backend.support import VIEWS, is_getitem, lowering
from tests.compiling import run_compiler


@cache
def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions of all that has no lowering."""
    return {op: how for op, how in core_aten_decompositions().items() if str(op) not in LOWERINGS}


def traced(function: Callable[..., Any], args: Sequence[Any], *, mutates: bool = True) -> fx.GraphModule:
    """The ATen graph of a function of tensors, without in-place operators."""
    functional = torch.func.functionalize(function, remove="mutations") if mutates else function
    made = make_fx(functional, table(), tracing_mode="fake")(*args)
    made.graph.eliminate_dead_code()
    return made


def runs(graph: fx.Graph) -> list[list[fx.Node]]:
    """Lowered nodes that follow each other, and each other node alone."""
    found: list[list[fx.Node]] = []
    last = False
    for node in graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        lowers = lowering(node) is None
        if lowers and last:
            found[-1].append(node)
        else:
            found.append([node])
        last = lowers
    return found


def is_view(node: fx.Node) -> bool:
    return str((node.args[0] if is_getitem(node) else node).target) in VIEWS


def base(node: fx.Node, inner: set[fx.Node]) -> fx.Node:
    """What a view among the nodes is of."""
    while node in inner and is_view(node):
        node = (node.args[0] if is_getitem(node) else node).args[0]
    return node


def wanted(nodes: list[fx.Node]) -> list[fx.Node]:
    """Values of the nodes that others read, views replaced by what they are of."""
    inner = set(nodes)
    read = [node for node in nodes if any(user not in inner for user in node.users)]
    found = dict.fromkeys(base(node, inner) for node in read)
    return [node for node in found if node in inner and not isinstance(node.meta["val"], list | tuple)]


class Executed:
    """A graph whose lowered nodes are compiled."""

    def __init__(self, module: fx.GraphModule) -> None:
        self.module = module
        self.steps: list[tuple[list[fx.Node], list[Group] | None]] = []
        self.groups: list[Group] = []
        self.functions: dict[str, Any] = {}
        for nodes in runs(module.graph):
            made = groups(nodes, wanted(nodes)) if lowering(nodes[0]) is None else None
            self.steps.append((nodes, made))
            self.groups += made or []

    def reasons(self) -> list[Reason]:
        every = [lowering(node) for node in self.module.graph.nodes if node.op == "call_function"]
        return [one for one in every if one is not None]

    def __call__(self, *args: Any) -> Any:
        env: dict[fx.Node, Any] = {}
        given = iter(args)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "get_attr":
                env[node] = getattr(self.module, node.target)
        for nodes, made in self.steps:
            for group in made or []:
                self._run(group, env)
            for node in nodes:  # those that are not lowered, and views of what is there now
                if node in env or not (made is None or is_view(node)):
                    continue
                if all(one in env for one in node.all_input_nodes):
                    env[node] = node.target(*_values(node.args, env), **_values(node.kwargs, env))
        (output,) = [node for node in self.module.graph.nodes if node.op == "output"]
        return _values(output.args[0], env)

    def _run(self, group: Group, env: dict[fx.Node, Any]) -> None:
        arguments = [env[value.node] for value in group.inputs]
        for value, tensor in zip(group.inputs, arguments, strict=True):
            assert tuple(tensor.shape) == value.sizes, value
            same = zip(value.sizes, tensor.stride(), value.strides, strict=True)
            assert all(n == 1 or a == b for n, a, b in same), (value, tensor.stride())
        for number, least, most in group.index_ranges:
            assert bool((arguments[number] >= least).all()) and bool((arguments[number] <= most).all())
        for value in group.outputs:
            made = torch.empty_strided(value.sizes, value.strides, dtype=value.dtype)
            env[value.node] = made.fill_(1 if value.dtype is torch.bool else 77)
        every = arguments + [env[value.node] for value in group.outputs]
        every += [torch.full((size,), 255, dtype=torch.uint8) for size in group.scratch]  # floats of it are NaN
        text = group.text(NAME)
        self.functions[text](*(ctypes.c_void_p(one.data_ptr()) for one in every))


NAME = "polydl_group"


def compiled(graphs: Sequence[Executed], folder: Path, flags: Sequence[str] = ("-O1",)) -> None:
    """Compiles all groups of graphs, equal ones once, in one library."""
    texts = list(dict.fromkeys(group.text(NAME) for one in graphs for group in one.groups))
    if not texts:
        return
    source, library = folder / "groups.c", folder / "groups.so"
    source.write_text("\n".join(text.replace(f" {NAME}(", f" g{n}(") for n, text in enumerate(texts)))
    warnings = ["-Wall", "-Werror", "-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-unknown-pragmas"]
    includes = ["-I", headers()]
    run_compiler(["cc", "-std=gnu11", *flags, *warnings, *includes, "-shared", "-fPIC", "-o", library, source, "-lm"])
    made = ctypes.CDLL(str(library))
    functions = {text: getattr(made, f"g{n}") for n, text in enumerate(texts)}
    for one in graphs:
        one.functions = functions


def _values(given: Any, env: dict[fx.Node, Any]) -> Any:
    return fx.map_arg(given, lambda node: env[node])
