"""A graph as a Python function without loops or tests: eager nodes, views and calls of regions, one a line.

The text is in the report. Tensors are dropped behind the line that reads them last; inputs come in a list that is
emptied, so that they can be freed early (AOTAutograd's boxed convention).
"""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from torch import fx

from polydl.torch_backend.graph_levels import Unit

_numbers = count()
SIZES = "polydl_sizes"
"""The argument of the function of a graph for any size that is a tensor of all sizes."""


@dataclass(frozen=True, slots=True)
class RegionCall:
    """How a region is called."""

    name: str
    """Of the global that is its function."""
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    """One is returned as it is, several as a tuple."""
    sized: bool = False
    """Whether it is given `SIZES` behind its inputs."""


@dataclass(frozen=True, slots=True)
class FoldCall:
    """What is computed of inputs, or taken from an earlier call: the placeholders that it gives values to."""

    name: str
    """Of the global that is its function."""
    inputs: tuple[int, ...]
    outputs: tuple[fx.Node, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """A Python function, which takes a list of inputs and empties it: its text and its globals."""

    text: str
    names: Mapping[str, Any]
    """Its globals, but for attributes and the functions of regions and folds."""
    attributes: Mapping[str, str]
    """Globals that are tensors of the graph's module: name -> attribute."""

    def function(self, gm: fx.GraphModule, more: Mapping[str, Any]) -> Callable[..., tuple[Any, ...]]:
        """The function; `more` are the functions of regions and folds. Tracebacks show its lines."""
        file = f"<polydl graph {next(_numbers)}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        given = {**self.names, **more, **{name: _attribute(gm, one) for name, one in self.attributes.items()}}
        exec(compile(self.text, file, "exec"), given)
        function: Callable[..., tuple[Any, ...]] = given["polydl_run"]
        return function


@dataclass(slots=True)
class _Writer:
    """The lines of the function, each with the names that it sets and reads."""

    names: dict[str, Any] = field(default_factory=dict)
    """What the function's globals are."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Those that are tensors of the graph's module, and their attributes."""
    lines: list[tuple[str, list[str], list[str]]] = field(default_factory=list)
    """Text, names set, names read."""
    known: set[fx.Node] = field(default_factory=set)
    """Nodes whose tensors are there."""

    def constant(self, value: object) -> str:
        """A name or literal that stands for a value."""
        if value is None or isinstance(value, int):
            return repr(value)
        name = f"polydl_c{len(self.names)}"
        self.names[name] = value
        return name

    def argument(self, value: Any, read: list[str]) -> str:
        """The text of an argument of a node; adds what it reads."""
        if isinstance(value, fx.Node):
            read.append(value.name)
            return value.name
        if isinstance(value, tuple | list):
            inside = ", ".join(self.argument(one, read) for one in value)
            if isinstance(value, list):
                return f"[{inside}]"
            return f"({inside},)" if value else "()"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {self.argument(one, read)}" for k, one in value.items()) + "}"
        if isinstance(value, slice):
            ends = ", ".join(self.argument(one, read) for one in (value.start, value.stop, value.step))
            return f"slice({ends})"
        return self.constant(value)

    def call(self, function: str, inputs: Sequence[str], outputs: Sequence[str], always_tuple: bool) -> None:
        given = ", ".join(outputs) + ("," if len(outputs) == 1 and always_tuple else "")
        self.lines.append((f"{given} = {function}({', '.join(inputs)})", list(outputs), list(inputs)))

    def node(self, node: fx.Node) -> None:
        """The lines that run a node, after those of views that it reads."""
        if node in self.known:
            return
        self.known.add(node)
        for one in node.all_input_nodes:
            self.node(one)
        read: list[str] = []
        if node.op == "get_attr":
            self.attributes[node.name] = str(node.target)
            return
        args = [self.argument(one, read) for one in node.args]
        args += [f"{name}={self.argument(one, read)}" for name, one in node.kwargs.items()]
        if node.op == "call_method":
            text = f"{args[0]}.{node.target}({', '.join(args[1:])})"
        elif node.target is operator.getitem:
            text = f"{args[0]}[{args[1]}]"
        elif node.op == "call_function":
            text = f"{self.constant(node.target)}({', '.join(args)})"
        else:
            raise AssertionError(f"a graph of ATen operators has no {node.op}")
        self.lines.append((f"{node.name} = {text}", [node.name], read))


def function_of(
    gm: fx.GraphModule,
    units: Sequence[Unit],
    regions: Mapping[int, RegionCall],
    folds: Sequence[FoldCall] = (),
    sizes: Sequence[str] = (),
) -> Lines:
    """The function of a graph, which is given sizes of these names behind its inputs: a tensor of all, then each.
    `regions` has the call of each of the units that is a region, by its number; nodes that
    need nothing to run but what is there (views) come where they are read first."""
    made = _Writer()
    placeholders = gm.graph.find_nodes(op="placeholder")
    folded = {node for fold in folds for node in fold.outputs}
    inputs = [node for node in placeholders if node not in folded]
    made.known.update(placeholders)
    for fold in folds:
        made.call(fold.name, [inputs[i].name for i in fold.inputs], [n.name for n in fold.outputs], True)
    for i, unit in enumerate(units):
        if isinstance(unit, fx.Node):
            made.node(unit)
            continue
        call = regions[i]
        for node in call.inputs:
            made.node(node)
        given = [*(n.name for n in call.inputs), *[SIZES] * call.sized]
        made.call(call.name, given, [n.name for n in call.outputs], False)
        made.known.update(call.outputs)
    (output,) = gm.graph.find_nodes(op="output")
    read: list[str] = []
    for node in output.all_input_nodes:
        made.node(node)
    returned = made.argument(tuple(output.args[0]), read)
    made.lines.append((f"return {returned}", [], read))
    text = _text([node.name for node in inputs], made.lines, [SIZES, *sizes] if sizes else [])
    return Lines(text, made.names, made.attributes)


def _text(inputs: Sequence[str], lines: Sequence[tuple[str, list[str], list[str]]], more: Sequence[str]) -> str:
    last: dict[str, int] = dict.fromkeys(inputs, -1)
    for i, (_, sets, reads) in enumerate(lines):
        for name in (*sets, *reads):
            last[name] = i
    own = {*inputs, *(name for _, sets, _ in lines for name in sets)}
    unpacked = f"    {', '.join(inputs)}{',' if len(inputs) == 1 else ''} = polydl_inputs\n" if inputs else ""
    text = f"def polydl_run({', '.join(['polydl_inputs', *more])}):\n{unpacked}    polydl_inputs.clear()\n"
    unread = [name for name, at in last.items() if at == -1]
    if unread:
        text += f"    del {', '.join(unread)}\n"
    for i, (line, _, _) in enumerate(lines):
        text += f"    {line}\n"
        gone = [name for name, at in last.items() if at == i and name in own]
        if gone and i + 1 < len(lines):
            text += f"    del {', '.join(gone)}\n"
    return text


def _attribute(gm: fx.GraphModule, attribute: str) -> Any:
    found: Any = gm
    for name in attribute.split("."):
        found = getattr(found, name)
    return found
