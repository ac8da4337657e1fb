"""Whole graphs in the cache: a graph that was compiled before becomes a function again without being looked at.

The key is what a graph computes and what decides how: operators with all arguments and their types, dtypes, sizes and
strides, which inputs are parameters, options, versions, the files of this package, processor and compiler; values of
parameters are not in it. An entry is JSON, the code of groups is in entries of its own. What was measured to be slower
than eager PyTorch is eager in the entry too. Nothing is unpickled, and an entry that is damaged, of another form, or
whose code is gone, is told of and made anew.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import fx

from polydl.base.cache import Cache, key_of
from polydl.base.errors import ToolchainError
from polydl.torch_backend import group_code
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.graph_assembly import Function, GroupCall, RegionData, folded, region
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.graph_values import Reason
from polydl.torch_backend.straight_line import Lines

_GRAPHS = Cache("torch_graphs", ".json", 1000)
_FORMAT = 1
_DECIDING = ("tune", "groups", "least_work", "weights", "strict", "threads", "reassociate", "fast_math", "cc")
"""Options that decide what is made of a graph."""


class _NotStored(Exception):
    """Something that JSON cannot hold."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything that the function of a graph is made of."""

    lines: Lines
    regions: Mapping[str, RegionData]
    """By the name of the global that is its function."""
    folds: Mapping[str, Lines]
    reasons: tuple[Reason, ...]
    operators: int
    tensors: int
    """That are computed of parameters."""


def key(gm: fx.GraphModule, static: Sequence[int], o: BackendOptions) -> str | None:
    """The key of a graph as PyTorch gives it; None for one that has something in it that no key can hold."""
    numbers: dict[fx.Node, int] = {}
    said: list[str] = []
    try:
        for node in gm.graph.nodes:
            numbers[node] = len(numbers)
            target = str(node.target)
            args = _literal((node.args, node.kwargs), numbers)
            said.append(f"{node.op} {node.name} {target} {args} {_meta(node.meta.get('val'))}")
    except _NotStored:
        return None
    options = repr([getattr(o, name) for name in _DECIDING])
    graph = [*said, repr(tuple(static)), options, torch.__version__, str(_FORMAT)]
    return key_of([*graph, *group_code.parts("", (), o)])


def _literal(value: Any, numbers: Mapping[fx.Node, int]) -> str:
    """An argument of a node as a text that differs where values or types do."""
    if isinstance(value, fx.Node):
        return f"%{numbers[value]}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__[0]}({', '.join(_literal(one, numbers) for one in value)})"
    if isinstance(value, dict):
        return f"d({', '.join(f'{k}: {_literal(one, numbers)}' for k, one in sorted(value.items()))})"
    if isinstance(value, slice):
        return f"s({_literal((value.start, value.stop, value.step), numbers)})"
    if value is None or type(value) in (bool, int, float, str, complex):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return f"{type(value).__name__} {value}"
    raise _NotStored(repr(value))


def _meta(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = tuple(value.stride()) if value.layout is torch.strided else ()
        bits = (value.is_conj(), value.is_neg())
        return f"{value.dtype} {tuple(value.shape)} {strides} {value.device} {value.layout} {bits}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_meta, value))})"
    return f"{type(value).__name__} {value}"


def write(key: str, stored: Stored) -> None:
    """Keep a graph; not one that has something which JSON cannot hold."""
    try:
        document = {
            "format": _FORMAT,
            "lines": _lines_data(stored.lines),
            "regions": {name: asdict(one) for name, one in stored.regions.items()},
            "folds": {name: _lines_data(one) for name, one in stored.folds.items()},
            "reasons": [asdict(one) for one in stored.reasons],
            "operators": stored.operators,
            "tensors": stored.tensors,
        }
    except _NotStored:
        return
    _GRAPHS.write(key, json.dumps(document).encode())


def read(key: str) -> tuple[Stored, dict[str, group_code.GroupCode]] | None:
    """A graph that was kept, and the code of its groups by their keys; None for none, or, with a warning, for one that
    cannot be used."""
    document = _GRAPHS.read(key)
    if document is None:
        return None
    try:
        stored = _stored(json.loads(document))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        _tell_unusable(key, error)
        return None
    codes: dict[str, group_code.GroupCode] = {}
    for call in (call for data in stored.regions.values() for call in data.calls):
        try:
            found = codes.get(call.key) or group_code.known(call.key, call.name, call.how)
        except ToolchainError as error:
            _tell_unusable(key, error)
            return None
        if found is None:
            return None  # its code went from the cache
        codes[call.key] = found
    return stored, codes


def _tell_unusable(key: str, error: Exception) -> None:
    told = f"{type(error).__name__}: {error}"
    warnings.warn(f"the cached graph {_GRAPHS.path(key)} cannot be used ({told}): made anew", stacklevel=3)


def assembled(
    stored: Stored, codes: Mapping[str, group_code.GroupCode], gm: fx.GraphModule, o: BackendOptions, module: Any
) -> tuple[Function, GraphReport, list[Any]]:
    """The function of a graph, its report (but for the time) and its watches on parameters."""
    names: dict[str, Any] = {}
    reports = []
    for name, data in stored.regions.items():
        names[name], said = region(data, [codes[call.key] for call in data.calls], module)
        reports.append(said)
    watches = []
    for name, lines in stored.folds.items():
        names[name] = folded(lines, gm, o.weights, module)
        watches.append(names[name])
    function = stored.lines.function(gm, names)
    report = GraphReport(
        stored.operators, tuple(reports), stored.reasons, stored.tensors, stored.lines.text, math.nan
    )  # fmt: skip
    return function, report, watches


def _lines_data(lines: Lines) -> dict[str, Any]:
    names = {name: _constant(value) for name, value in lines.names.items()}
    return {"text": lines.text, "names": names, "attributes": dict(lines.attributes)}


def _constant(value: Any) -> list[Any]:
    """A global of a graph's function: what it is, and a text."""
    if isinstance(value, torch._ops.OpOverload):
        return ["operator", str(value)]
    if type(value) is float:
        return ["real", value.hex()]
    if type(value) is str:
        return ["str", value]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return ["torch", str(value).removeprefix("torch.")]
    raise _NotStored(repr(value))


def _value(kind: str, text: str) -> Any:
    match kind:
        case "operator":
            found: Any = torch.ops
            for name in text.split("."):
                found = getattr(found, name, None)
            if not isinstance(found, torch._ops.OpOverload):
                raise ValueError(f"'{text}' is no operator")
            return found
        case "real":
            return float.fromhex(text)
        case "str":
            return text
        case "device":
            return torch.device(text)
        case "torch":
            return vars(torch)[text]
    raise ValueError(f"'{kind}' is no kind of constant")


def _lines(data: Mapping[str, Any]) -> Lines:
    return Lines(data["text"], {name: _value(*one) for name, one in data["names"].items()}, data["attributes"])


def _stored(document: Mapping[str, Any]) -> Stored:
    if document["format"] != _FORMAT:
        raise ValueError(f"it is of form {document['format']}")
    regions = {}
    for name, data in document["regions"].items():
        calls = tuple(GroupCall(**_tuples(call)) for call in data.pop("calls"))
        regions[name] = RegionData(calls=calls, **_tuples(data))
    reasons = tuple(Reason(**one) for one in document["reasons"])
    folds = {name: _lines(one) for name, one in document["folds"].items()}
    return Stored(_lines(document["lines"]), regions, folds, reasons, document["operators"], document["tensors"])


def _tuples(value: Any) -> Any:
    """With tuples in the place of lists."""
    if isinstance(value, dict):
        return {name: _tuples(one) for name, one in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


assert {one.name for one in fields(BackendOptions)} >= set(_DECIDING)
