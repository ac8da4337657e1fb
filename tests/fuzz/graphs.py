"""Random graphs of PyTorch's operators through the backend, held against eager PyTorch.

Integers that wrap, narrow types, views, updates in place, NaN, infinities, ties, values near 1e-30 and 1e30. Integers
and truths must be equal in bits, floats within a bound of what float64 gives or as near as eager PyTorch, and NaN and
infinities where eager PyTorch has them, unless a sum or a rounding decides. A graph is data: a seed gives it, a failing
one is made smaller by leaving out operators and shrinking sizes, and is printed as a program.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from polydl.torch_backend.backend import polydl
from polydl.torch_backend.graph_compiler import BackendWarning
from polydl.torch_backend.graph_report import GraphReport
from tests.torch_backend.executed import Executed, compiled, traced

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
BOUND = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that a graph is given."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    filling: str
    seed: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: its text with `{0}`, `{1}` … for arguments, and which values these are."""

    text: str
    args: tuple[int, ...]
    """Numbers of inputs, then of steps."""
    kind: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A program of straight-line operators; every step's value that no other reads is a result."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    backward: bool = False

    def text(self) -> str:
        """The function in Python."""
        names = [f"x{n}" for n in range(len(self.inputs))]
        lines = [f"def f({', '.join(names)}):"]
        read: set[int] = set()
        for number, step in enumerate(self.steps, len(names)):
            given = [_name(n, len(self.inputs)) for n in step.args]
            lines.append(f"    v{number} = {step.text.format(*given)}")
            read.update(step.args)
        last = [n for n in range(len(names), len(names) + len(self.steps)) if n not in read]
        results = ", ".join(f"v{n}" for n in last)
        return "\n".join([*lines, f"    return ({results},)"])

    def function(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        names: dict[str, Any] = {"torch": torch}
        exec(self.text(), names)
        made: Callable[..., tuple[torch.Tensor, ...]] = names["f"]
        return made

    def tensors(self) -> list[torch.Tensor]:
        return [filled(one) for one in self.inputs]


def _name(number: int, inputs: int) -> str:
    return f"x{number}" if number < inputs else f"v{number}"


SPECIAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0)


def filled(one: Input) -> torch.Tensor:
    """The data of an input."""
    draw = torch.Generator().manual_seed(one.seed)
    if one.dtype is torch.bool:
        return torch.randint(0, 2, one.sizes, generator=draw).bool()
    if one.filling == "indices":
        return torch.randint(0, 3, one.sizes, generator=draw).to(one.dtype)
    if not one.dtype.is_floating_point:
        ends = torch.iinfo(one.dtype)
        every = torch.randint(-(1 << 63), (1 << 63) - 1, one.sizes, generator=draw).to(one.dtype)
        few = torch.tensor([ends.min, ends.max, 0, 1, ends.max - 1, ends.min + 1])
        which = torch.randint(0, 12, one.sizes, generator=draw)
        return torch.where(which < 6, few[which % 6].to(one.dtype), every)
    plain = torch.randn(one.sizes, generator=draw, dtype=torch.float64)
    match one.filling:
        case "ties":
            plain = (plain * 2).round() / 2
        case "little":
            plain = plain * (1e-30 if one.dtype is not torch.float16 else 1e-6)
        case "much":
            plain = plain * (1e30 if one.dtype is not torch.float16 else 1e4)
        case "special":
            which = torch.randint(0, 30, one.sizes, generator=draw)
            plain = torch.where(which < 5, torch.tensor(SPECIAL, dtype=torch.float64)[which % 5], plain.round())
    return plain.to(one.dtype)


# What a graph may be made of: a text, whether it takes these tensors, and its kind.

_SAME = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.minimum({0}, {1})")
_COMPARED = ("{0} > {1}", "{0} <= {1}", "{0} == {1}", "{0} != {1}")
_OF_INTEGERS = ("-{0}", "{0}.abs()", "{0} + 1", "{0} * 3", "{0} - 7", "{0} // 3", "{0} % 5", "{0} ** 2", "~{0}",
                "torch.sign({0})", "{0}.clamp(3, 50)", "{0} // -1", "torch.fmod({0}, 7)", "2 - {0}")  # fmt: skip
_OF_FLOATS = ("-{0}", "{0}.abs()", "{0} + 1.5", "{0} * 0.5", "torch.relu({0})", "torch.sigmoid({0})", "torch.tanh({0})",
              "{0}.clamp(-1, 2)", "{0}.floor()", "torch.sign({0})", "1 - {0}", "{0}.square()", "torch.isnan({0})",
              "{0}.isfinite()", "torch.nn.functional.leaky_relu({0})", "{0}.abs().sqrt()", "{0} / 3")  # fmt: skip
_REDUCED = ("{0}.sum({d})", "{0}.amax({d})", "{0}.amin({d})", "{0}.sum({d}, keepdim=True)", "{0}.cumsum({d})")
_REDUCED_FLOATS = ("{0}.mean({d})", "{0}.var({d})", "{0}.std({d})", "torch.softmax({0}, {d})", "{0}.argmax({d})",
                   "{0}.logsumexp({d})", "{0}.max({d})[0]", "{0}.argmin({d})")  # fmt: skip
_VIEWS = (
    "{0}.transpose(0, -1)", "{0}.flatten()", "{0}[..., ::2]", "{0}[1:]", "{0}.unsqueeze(1)", "{0}.flip(0)",
    "{0}.expand(2, *{0}.shape)", "{0}.as_strided((2, 2), (1, 1))", "{0}[..., -1]", "{0}.contiguous()",
    "{0}.reshape(-1)[2:]", "torch.cat(({0}, {0}), 0)", "{0}.roll(1, 0)",
    "{0}.permute(*reversed(range({0}.dim())))", "{0}.repeat_interleave(2, 0)",
    "torch.nn.functional.pad({0}, (1, 2))", "torch.stack(({0}, {0}), -1)",
)  # fmt: skip
_IN_PLACE = ("{0}.clone().add_({0})", "{0}.clone().mul_(3)", "{0}.clone().zero_()", "{0}.clone().fill_(2)")


def _written(values: Sequence[torch.Tensor], draw: random.Random) -> tuple[str, tuple[int, ...], str]:
    """An operator on some of the values."""
    number = len(values) - 1 if draw.random() < 0.6 else draw.randrange(len(values))
    x = values[number]
    like = [n for n, one in enumerate(values) if one.shape == x.shape]
    same = [n for n in like if values[n].dtype == x.dtype]
    other = draw.choice(same)
    truths = [n for n in like if values[n].dtype is torch.bool]
    dims = max(x.dim(), 1)
    d = str(draw.randrange(dims))
    roll = draw.random()
    if x.dtype is torch.bool:
        if roll < 0.3:
            return (
                draw.choice(("~{0}", "{0}.int()", "{0}.float()", "{0}.sum()", "{0}.any()", "{0}.all()")),
                (number,),
                "truth",
            )
        if roll < 0.6:
            return draw.choice(("{0} & {1}", "{0} | {1}", "{0} ^ {1}")), (number, other), "truth"
        return draw.choice(_VIEWS), (number,), "view"
    floats = x.dtype.is_floating_point
    if roll < 0.25:
        return draw.choice(_SAME), (number, other), "arithmetic"
    if roll < 0.4:
        return draw.choice(_OF_FLOATS if floats else _OF_INTEGERS), (number,), "arithmetic"
    if roll < 0.5:
        return draw.choice(_COMPARED), (number, draw.choice(like if draw.random() < 0.3 else same)), "comparison"
    if roll < 0.62:
        text = draw.choice(
            _REDUCED + (_REDUCED_FLOATS if floats else ("{0}.prod({d})", "{0}.sum({d}, dtype=torch.int32)"))
        )
        return text.replace("{d}", d), (number,), "reduction"
    if roll < 0.78:
        return draw.choice(_VIEWS), (number,), "view"
    if roll < 0.84 and truths:
        return (
            draw.choice(("torch.where({0}, {1}, {2})", "{1}.masked_fill({0}, 1)")),
            (draw.choice(truths), number, other),
            "where",
        )
    if roll < 0.89:
        texts = _IN_PLACE if draw.random() < 0.5 else ("{0}.clone().copy_({1})", "{0}.clone().sub_({1})")
        return draw.choice(texts), (number, other), "in place"
    if roll < 0.94:
        indices = [n for n, one in enumerate(values) if one.dtype is torch.int64 and one.dim() == 1 and one.numel()
                   and int(one.min()) >= 0 and int(one.max()) < 3]  # fmt: skip
        if indices and x.dim() and x.shape[0] >= 3:
            texts = ("{0}[{1}]", "torch.index_select({0}, 0, {1})", "{0}.index_add(0, {1}, {0}[{1}])",
                     "{0}.clone().index_put_(({1},), {0}[{1}], accumulate=True)")  # fmt: skip
            return draw.choice(texts), (number, draw.choice(indices)), "index"
    # In-range: what a float is beyond an integer type is undefined.
    kinds = ["float()", "double()", "bool()"] if floats else ["float()", "double()", "bool()", "to(torch.int8)",
             "to(torch.uint8)", "to(torch.int16)", "int()", "long()", "bfloat16()"]  # fmt: skip
    text = draw.choice([*(f"{{0}}.{one}" for one in kinds), *["{0}.nan_to_num(0, 9, -9).clamp(0, 99).int()"] * floats])
    return text, (number,), "conversion"


def drawn(seed: int) -> Graph:
    """The graph of a seed."""
    draw = random.Random(seed)
    shape = tuple(draw.choice((1, 2, 3, 4, 5, 7, 8, 17, 33, 64)) for _ in range(draw.randint(1, 3)))
    main = draw.choice((*INTEGERS, *FLOATS))
    made = []
    for _ in range(draw.randint(1, 3)):
        dtype = main if draw.random() < 0.7 else draw.choice((*INTEGERS, *FLOATS, torch.bool))
        filling = draw.choice(("plain", "plain", "ties", "little", "much", "special"))
        made.append(Input(dtype, shape, filling, draw.randrange(1000)))
    made.append(Input(torch.int64, (draw.randint(1, 6),), "indices", draw.randrange(1000)))
    values = [filled(one) for one in made]
    steps: list[Step] = []
    for _ in range(draw.randint(2, 9)):
        for _ in range(20):
            text, args, kind = _written(values, draw)
            step = Step(text, args, kind)
            found = _ran(step, values)
            if found is not None and 0 < found.numel() <= 20_000 and found.dim() <= 4:
                values.append(found)
                steps.append(step)
                break
    backward = draw.random() < 0.25 and any(one.dtype in (torch.float32, torch.float64) for one in made)
    return Graph(tuple(made), tuple(steps), backward)


def _ran(step: Step, values: Sequence[torch.Tensor]) -> torch.Tensor | None:
    names = [f"a{n}" for n in range(len(step.args))]
    try:
        found = eval(
            step.text.format(*names), {"torch": torch, **dict(zip(names, (values[n] for n in step.args), strict=True))}
        )
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return None  # PyTorch has no such operator on these tensors
    return found if isinstance(found, torch.Tensor) and not found.is_complex() else None


# Comparison.


def _with_gradients(f: Callable[..., Any], graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results, and the gradients of the inputs if the graph has some."""
    given = [one.clone() for one in inputs]
    if not graph.backward:
        with torch.no_grad():
            return list(f(*given))
    for one in given:
        one.requires_grad_(one.dtype in (torch.float32, torch.float64))
    found = list(f(*given))
    wanted = [one for one in found if one.requires_grad]
    if not wanted:
        return [one.detach() for one in found]
    mine = [one for one in given if one.requires_grad]
    gradients = torch.autograd.grad([one.sum() for one in wanted], mine, allow_unused=True)
    return [*(one.detach() for one in found), *(one for one in gradients if one is not None)]


def _difference(mine: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor, loose: bool) -> str | None:
    """How a result differs, a clause."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return f"is {mine.dtype} {tuple(mine.shape)}, not {theirs.dtype} {tuple(theirs.shape)}"
    if not theirs.dtype.is_floating_point:
        wrong = mine != theirs
        if loose:
            wrong &= theirs.double() == exact  # otherwise a rounding decides
    else:
        found, expected = mine.double(), theirs.double()
        bound = BOUND[theirs.dtype]
        finite = exact.isfinite() & expected.isfinite()
        scale = float(expected[finite].abs().max()) if bool(finite.any()) else 0.0
        near = (found - expected).abs() <= bound * (expected.abs() + scale)
        near |= (found - exact).abs() <= 2 * (expected - exact).abs() + bound * exact.abs()
        told = (expected.isnan() & exact.isnan()) | (expected == exact) if loose else torch.ones_like(finite)
        same = (found == expected) | (found.isnan() & expected.isnan())
        wrong = (finite & ~near) | (~expected.isfinite() & told & ~same)
    if not bool(wrong.any()):
        return None
    place = tuple(wrong.nonzero()[0].tolist())
    return f"at {list(place)} is {mine[place]}, not {theirs[place]} ({int(wrong.sum())} of {wrong.numel()})"


@dataclass
class Tally:
    """What was run."""

    graphs: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    """By kind."""
    compiled: int = 0
    """Operators that ran in groups of polydl's."""
    faults: list[tuple[int, str, str]] = field(default_factory=list)
    """Seed, what, program."""


def fault(graph: Graph, tally: Tally | None = None) -> str | None:
    """What is wrong with a graph's results through the whole backend; None if nothing is."""
    told = _expected(graph)
    if told is None:
        return None
    f, inputs = graph.function(), graph.tensors()
    reports: list[GraphReport] = []
    torch._dynamo.reset()
    options = {"report": reports.append, "least_work": 2000, "threads": 2}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        run = torch.compile(f, backend=polydl, options=options, dynamic=False)
        try:
            found = _with_gradients(run, graph, inputs)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a fault
            return f"{type(error).__name__}: {str(error)[:300]}"
    for one in warned:
        if issubclass(one.category, BackendWarning):
            return f"warning: {str(one.message)[:400]}"
    if tally is not None:
        tally.compiled += sum(len(group.nodes) for report in reports for group in report.groups)
    return _differences(graph, found, *told)


Results = list[torch.Tensor]


def _expected(graph: Graph) -> tuple[Results, Results] | None:
    """What eager PyTorch gives, and what it gives of wider floats; None where it takes no such graph."""
    f, inputs = graph.function(), graph.tensors()
    try:
        expected = _with_gradients(f, graph, inputs)
    except RuntimeError:
        return None
    wide = [one.double() if one.dtype.is_floating_point else one for one in inputs]
    try:
        exact = [one.double() for one in _with_gradients(f, graph, wide)]
    except (RuntimeError, IndexError):
        exact = [one.double() for one in expected]
    if [one.shape for one in exact] != [one.shape for one in expected]:
        exact = [one.double() for one in expected]
    return expected, exact


def _differences(graph: Graph, found: Results, expected: Results, exact: Results) -> str | None:
    text = graph.text()
    # What is made of rounded numbers may be another whole number or class.
    loose = any(one.dtype.is_floating_point for one in graph.inputs) or "float" in text or "double" in text
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for number, (mine, theirs, one) in enumerate(zip(found, expected, exact, strict=True)):
        what = _difference(mine, theirs, one, loose)
        if what is not None:
            return f"result {number} {what}"
    return None


def faults_as_written(graphs: Sequence[Graph], folder: Path, tally: Tally) -> list[tuple[Graph, str]]:
    """Faults of graphs whose groups are compiled together, as they are written, without a search."""
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for graph in graphs:
            told = _expected(replace(graph, backward=False))
            if told is not None:
                made.append((graph, told, Executed(traced(graph.function(), graph.tensors()))))
        compiled([one for _, _, one in made], folder, ("-O2", "-march=native", "-ffp-contract=off", "-w"))
        found = []
        for graph, told, one in made:
            tally.compiled += sum(len(group.nodes) for group in one.groups)
            what = _differences(graph, list(one(*graph.tensors())), *told)
            if what is not None:
                found.append((graph, what))
    return found


def smaller(graph: Graph) -> Iterator[Graph]:
    """Graphs with one step, or half of a size, less."""
    first = len(graph.inputs)
    if graph.backward:
        yield replace(graph, backward=False)
    for gone in reversed(range(len(graph.steps))):
        for by in dict.fromkeys((*graph.steps[gone].args, -1)):
            kept = []
            for n, step in enumerate(graph.steps):
                if n == gone or (by < 0 and gone + first in step.args):
                    continue
                args = tuple(by if a == gone + first else a for a in step.args)
                kept.append(replace(step, args=tuple(a - (a > gone + first) for a in args)))
            if by >= 0 or len(kept) == len(graph.steps) - 1:
                yield replace(graph, steps=tuple(kept))
    for d in range(len(graph.inputs[0].sizes)):
        n = graph.inputs[0].sizes[d]
        if n > 1:
            sizes = (*graph.inputs[0].sizes[:d], n // 2, *graph.inputs[0].sizes[d + 1 :])
            made = tuple(replace(one, sizes=sizes) if one.filling != "indices" else one for one in graph.inputs)
            yield replace(graph, inputs=made)


Fails = Callable[[Graph], str | None]


def shrunk(graph: Graph, fails: Fails, tries: int = 60) -> Graph:
    """A small graph that is still wrong."""
    progress = True
    while progress and tries > 0:
        progress = False
        for one in smaller(graph):
            tries -= 1
            if one.steps and _runs(one) and fails(one) is not None:
                graph, progress = one, True
                break
            if tries <= 0:
                break
    return graph


def _runs(graph: Graph) -> bool:
    try:
        graph.function()(*graph.tensors())
    except Exception:  # noqa: BLE001  # a graph that PyTorch does not take is none
        return False
    return True


def explore(seed: int, count: int, tally: Tally, whole: int = 2) -> None:
    """`count` graphs from a seed on: all as they are written, and the first `whole` through the whole backend. Faults
    are shrunk and go into the tally."""
    graphs = {number: one for number in range(seed, seed + count) if (one := drawn(number)).steps}
    numbers = {id(one): number for number, one in graphs.items()}
    tally.graphs += len(graphs)
    for one in graphs.values():
        tally.operators.update(step.kind for step in one.steps)
    with tempfile.TemporaryDirectory(prefix="polydl-graphs-") as folder:
        wrong = faults_as_written(list(graphs.values()), Path(folder), tally)
    for graph, what in wrong:
        _add(tally, numbers[id(graph)], graph, what, _fault_as_written)
    for number, graph in list(graphs.items())[:whole]:
        told = fault(graph, tally)
        if told is not None:
            _add(tally, number, graph, told, fault)


def _fault_as_written(graph: Graph) -> str | None:
    with tempfile.TemporaryDirectory(prefix="polydl-graphs-") as folder:
        return next((what for _, what in faults_as_written([graph], Path(folder), Tally())), None)


def _add(tally: Tally, number: int, graph: Graph, what: str, fails: Fails) -> None:
    small = shrunk(graph, fails)
    inputs = "\n".join(f"# x{n}: {one}" for n, one in enumerate(small.inputs))
    tally.faults.append((number, fails(small) or what, f"{small.text()}\n{inputs}\n# backward: {small.backward}"))


BATCH = 24
"""Graphs that are compiled together."""


def main(minutes: float, seed: int) -> int:
    """Batches of graphs for some minutes; prints what is wrong, with the seed of its batch. Returns the exit code."""
    end, tally, told = time.monotonic() + 60 * minutes, Tally(), 0
    while time.monotonic() < end:
        explore(seed, BATCH, tally)
        for number, what, text in tally.faults[told:]:
            print(f"{what}\n{text}\nfound with --graphs --seed {number}", file=sys.stderr, flush=True)
        told = len(tally.faults)
        seed += BATCH
        kinds = ", ".join(f"{count} {kind}" for kind, count in tally.operators.most_common())
        print(f"seed {seed - 1}: {tally.graphs} graphs, {tally.compiled} operators in C ({kinds})", flush=True)
    return int(told > 0)
