"""Operators that are no contraction: polydl beside torch, and beside a copy of the same bytes.

python experiments/operators.py --json operators.json [--only NAME]… [--size SIZE]… [--type TYPE]… [--prepare]

Softmax, norms and pointwise functions, forward and backward, as the C programs of tests/everyday say them, at three
sizes: within the second-level caches, the last-level cache, and memory. polydl is called from C, and from Python as
`polydl.compile` makes it; torch eager and Inductor (frozen, compiled with g++) as users call them. All take turns in
one process with one OpenMP runtime; a figure is the median of the ratios within a round. `copy` copies half of the
least traffic (each array that is read once, each that is written once) to another half, past the caches where that is
larger than they are. Each result is held against torch's in double precision.

Rows are written as they come; those that are in the file already are left out. --prepare compiles everything and times
nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from native import KERNELS, last_level_bytes, library, openmp_runtimes, set_threads
from output import commit, machine

ROOT = Path(__file__).parents[1]
EVERYDAY = ROOT / "tests" / "everyday"
EPS = 1e-5

ROWS = {"l2": {"M": 197, "N": 768}, "llc": {"M": 2048, "N": 1024}, "memory": {"M": 16384, "N": 1024}}
FLAT = {"l2": {"n": 150000}, "llc": {"n": 2 << 20}, "memory": {"n": 16 << 20}}
GROUPS = {
    "l2": {"B": 1, "G": 32, "C": 4, "S": 784},
    "llc": {"B": 4, "G": 32, "C": 8, "S": 1568},
    "memory": {"B": 16, "G": 32, "C": 8, "S": 3136},
}
CHANNELS = {
    "l2": {"B": 4, "C": 32, "S": 784},
    "llc": {"B": 8, "C": 128, "S": 1568},
    "memory": {"B": 16, "C": 256, "S": 3136},
}

Tensors = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator and how torch computes it."""

    name: str
    """Of the program in tests/everyday."""
    sizes: Mapping[str, Mapping[str, int]]
    arrays: Mapping[str, tuple[str, ...]]
    """Name in C -> sizes that its extents are, in C's order; those of `results` are written."""
    results: tuple[str, ...]
    torch: Callable[[Tensors, Any], Any]
    """torch(arrays by name, torch.nn.functional): the result, or all of them in the order of `results`."""
    renamed: Mapping[str, str] | None = None
    """Size here -> its name in the program, where that is another."""
    shaped: Mapping[str, tuple[str, ...]] | None = None
    """Extents as torch wants them, where these are others."""
    fixed: Mapping[str, int] | None = None
    """More sizes of the program."""
    types: tuple[str, ...] = ("f32",)


def _rms_backward(t: Tensors, _: Any) -> Any:
    x, g = t["x"], t["dy"] * t["weight"]
    r = (x * x).mean(-1, keepdim=True).add(EPS).rsqrt()
    return r * (g - x * ((g * x).mean(-1, keepdim=True) * r * r)), (t["dy"] * x * r).sum(0)


def _rms(t: Tensors, f: Any) -> Any:
    return f.rms_norm(t["x"], t["x"].shape[-1:], t["weight"], EPS)


def _aten() -> Any:
    return sys.modules["torch"].ops.aten


def _layer_norm_backward(t: Tensors, _: Any) -> Any:
    shape = list(t["x"].shape[-1:])
    mean, rstd = t["mean"].unsqueeze(-1), t["rstd"].unsqueeze(-1)
    return _aten().native_layer_norm_backward(t["dy"], t["x"], shape, mean, rstd, t["weight"], t["weight"], [True] * 3)


def _batch_norm_backward(t: Tensors, _: Any) -> Any:
    return _aten().native_batch_norm_backward(
        t["dy"], t["x"], t["weight"], None, None, t["mean"], t["rstd"], True, EPS, [True] * 3
    )


def _dropout_residual_norm(t: Tensors, f: Any) -> Any:
    h = t["residual"] + (t["x"] + t["bias"]) * t["mask"] * 1.1111111
    return f.layer_norm(h, h.shape[-1:], t["weight"], t["beta"], EPS)


def _unary(
    name: str, forward: Callable[[Any, Any], Any], order: Sequence[str] = ("x", "y"), n: str = "n", **more: Any
) -> Operator:
    source, result = ("inp", "out") if "inp" in order else ("x", "y")
    return Operator(
        name, FLAT, dict.fromkeys(order, ("n",)), (result,), lambda t, f: forward(t[source], f), {"n": n}, **more
    )


MN: tuple[str, ...] = ("M", "N")
NARROW = {
    "f16": ("_Float16", "(float)", "(_Float16)"),
    "bf16": ("polydl_bf16", "polydl_to_float", "polydl_to_bf16"),
}
"""Type of elements in C, what converts one to float, and a float to one."""
TYPES = ("f32", *NARROW)
OPERATORS = (
    Operator("softmax_plain", ROWS, {"x": MN, "y": MN}, ("y",), lambda t, f: f.softmax(t["x"], -1)),
    Operator("softmax_buffered", ROWS, {"x": MN, "y": MN}, ("y",), lambda t, f: f.softmax(t["x"], -1), types=TYPES),
    Operator("softmax_backward", ROWS, {"y": MN, "dy": MN, "dx": MN}, ("dx",),
             lambda t, f: _aten()._softmax_backward_data(t["dy"], t["y"], -1, t["y"].dtype), types=TYPES),
    Operator("log_softmax", ROWS, {"x": MN, "y": MN}, ("y",), lambda t, f: f.log_softmax(t["x"], -1), types=TYPES),
    Operator("log_softmax_backward", ROWS, {"y": MN, "dy": MN, "dx": MN}, ("dx",),
             lambda t, f: _aten()._log_softmax_backward_data(t["dy"], t["y"], -1, t["y"].dtype)),
    Operator("logsumexp_rows", ROWS, {"x": MN, "z": ("M",)}, ("z",), lambda t, f: t["x"].logsumexp(-1)),
    Operator("layer_norm", ROWS, {"out": MN, "in": MN, "weight": ("N",), "bias": ("N",)}, ("out",),
             lambda t, f: f.layer_norm(t["in"], t["in"].shape[-1:], t["weight"], t["bias"], EPS),
             {"M": "T", "N": "C"}, fixed={"B": 1}, types=TYPES),
    Operator("layer_norm_backward", ROWS,
             {"dy": MN, "x": MN, "weight": ("N",), "mean": ("M",), "rstd": ("M",), "dx": MN, "dweight": ("N",),
              "dbias": ("N",)},
             ("dx", "dweight", "dbias"), _layer_norm_backward),
    Operator("rms_norm", ROWS, {"out": MN, "x": MN, "weight": ("N",)}, ("out",), _rms, {"M": "ROWS", "N": "DIM"},
             types=TYPES),
    Operator("rms_norm_backward", ROWS, {"dy": MN, "x": MN, "weight": ("N",), "dx": MN, "dweight": ("N",)},
             ("dx", "dweight"), _rms_backward),
    Operator("dropout_residual_norm", ROWS,
             {"x": MN, "bias": ("N",), "mask": MN, "residual": MN, "weight": ("N",), "beta": ("N",), "y": MN}, ("y",),
             _dropout_residual_norm),
    Operator("group_norm", GROUPS,
             {"x": ("B", "G", "C", "S"), "weight": ("G", "C"), "bias": ("G", "C"), "y": ("B", "G", "C", "S")}, ("y",),
             lambda t, f: f.group_norm(t["x"], 32, t["weight"], t["bias"], EPS),
             shaped={"x": ("B", "G*C", "S"), "weight": ("G*C",), "bias": ("G*C",), "y": ("B", "G*C", "S")}),
    Operator("batch_norm_training", CHANNELS,
             {"x": ("B", "C", "S"), "weight": ("C",), "bias": ("C",), "y": ("B", "C", "S"), "running_mean": ("C",),
              "running_var": ("C",)},
             ("y",),
             lambda t, f: f.batch_norm(t["x"], t["running_mean"], t["running_var"], t["weight"], t["bias"], True, 0.1,
                                       EPS)),
    Operator("batch_norm_backward", CHANNELS,
             {"dy": ("B", "C", "S"), "x": ("B", "C", "S"), "weight": ("C",), "mean": ("C",), "rstd": ("C",),
              "dx": ("B", "C", "S"), "dweight": ("C",), "dbias": ("C",)},
             ("dx", "dweight", "dbias"), _batch_norm_backward),
    _unary("gelu_erf", lambda x, f: f.gelu(x), types=TYPES),
    _unary("gelu_tanh", lambda x, f: f.gelu(x, approximate="tanh"), ("out", "inp"), "N", types=TYPES),
    Operator("gelu_tanh_backward", FLAT, dict.fromkeys(("dinp", "inp", "dout"), ("n",)), ("dinp",),
             lambda t, f: _aten().gelu_backward(t["dout"], t["inp"], approximate="tanh"), {"n": "N"}),
    _unary("silu", lambda x, f: f.silu(x), types=TYPES),
    Operator("silu_backward", FLAT, dict.fromkeys(("x", "dy", "dx"), ("n",)), ("dx",),
             lambda t, f: _aten().silu_backward(t["dy"], t["x"])),
    _unary("sigmoid", lambda x, f: x.sigmoid(), types=TYPES),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """An operator measured at a size."""

    name: str
    size: str
    type: str
    bytes: int
    """The least traffic: each array once."""
    times: Mapping[str, Sequence[float]]
    """Seconds of a call of each contender, round by round."""
    recipe: str
    error: float
    """Largest difference from the result in double precision, over that result's largest magnitude."""
    torch_error: float

    def ratio(self, peer: str, of: str = "polydl") -> float:
        """Seconds of a peer over those of polydl, the median over the rounds."""
        return statistics.median(b / a for a, b in zip(self.times[of], self.times[peer], strict=True))


def source_of(operator: Operator, kind: str) -> str:
    """The program, with arrays of another type where one is asked for: computed with as floats all the same, by a
    conversion of each element that is read and of each that is stored."""
    text = (EVERYDAY / f"{operator.name}.c").read_text(encoding="utf-8")
    if kind == "f32":
        return text
    element, read, stored = NARROW[kind]
    head, name, after = text.partition(f"{operator.name}(")
    arguments, brace, body = after.partition("{")
    arrays = re.findall(r"float\s*\*?\s*(?:restrict\s+)?(\w+)", arguments)
    # Pointers of the function itself point into these arrays.
    arrays += re.findall(r"float \*(\w+) =", body)
    body = body.replace("float *", f"{element} *")
    subscripted = rf"\b(?:{'|'.join(arrays)})(?:\[[^\]]*\])+"
    body = re.sub(rf"({subscripted})(?!\[| = )", rf"{read}(\1)", body)
    body = re.sub(rf"({subscripted}) = ([^;]*);", rf"\1 = {stored}(\2);", body)
    return "#include <polydl.h>\n" + head + name + arguments.replace("float", element) + brace + body


def inputs(operator: Operator, size: str, kind: str, torch: Any) -> dict[str, Any]:
    """Arrays by name. Weights and what is of a row are about 1; the rest is normally distributed."""
    values = operator.sizes[size]
    torch.manual_seed(0)
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[kind]
    made = {}
    for name, extents in operator.arrays.items():
        shape = [values[e] for e in extents]
        if name == "mask":
            made[name] = (torch.rand(shape) < 0.9).to(torch.uint8)
        elif name == "y" and name not in operator.results:  # of a forward pass
            forward = torch.log_softmax if "log" in operator.name else torch.softmax
            made[name] = forward(torch.randn(shape), -1).to(dtype)
        elif name in operator.results:
            made[name] = torch.zeros(shape, dtype=dtype)
        elif len(extents) < len(max(operator.arrays.values(), key=len)):
            made[name] = (1 + 0.1 * torch.randn(shape)).to(dtype)
        else:
            made[name] = torch.randn(shape).to(dtype)
    return made


def as_torch(operator: Operator, arrays: Tensors, size: str) -> dict[str, Any]:
    """The arrays in torch's shapes."""
    values = operator.sizes[size]

    def extent(text: str) -> int:
        return eval(text, {}, dict(values))  # a product of sizes, written above

    shaped = operator.shaped or {}
    return {n: a.view([extent(e) for e in shaped[n]]) if n in shaped else a for n, a in arrays.items()}


def compiled(operator: Operator, size: str, kind: str, given: argparse.Namespace) -> Any:
    """What polydl makes of the program."""
    import polydl

    named = operator.renamed or {}
    sizes = {named.get(n, n): v for n, v in operator.sizes[size].items()} | dict(operator.fixed or {})
    return polydl.compile(
        source_of(operator, kind), sizes, tune=given.tune, threads=given.threads, function=operator.name
    )


def tuple_of(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def difference(found: Sequence[Any], exact: Sequence[Any]) -> float:
    """The largest difference, over the largest magnitude."""
    pairs = [(f.double().flatten(), e.flatten()) for f, e in zip(found, exact, strict=True)]
    return max(float((f - e).abs().max() / e.abs().max().clamp(min=1e-300)) for f, e in pairs)


def measure(operator: Operator, size: str, kind: str, given: argparse.Namespace) -> Row | None:
    """One row; None where nothing is to be timed. Raises SystemExit where several OpenMP runtimes are loaded."""
    import torch
    import torch._inductor.config as inductor

    inductor.freezing = True
    torch._dynamo.reset()
    torch.set_num_threads(given.threads)
    kernel = compiled(operator, size, kind, given)
    arrays = inputs(operator, size, kind, torch)
    shaped = as_torch(operator, arrays, size)
    functional = torch.nn.functional
    names = [n for n in shaped if n not in operator.results]

    def eager(*tensors: Any) -> Any:
        return operator.torch(dict(zip(names, tensors, strict=True)), functional)

    tensors = [shaped[n] for n in names]
    induced = torch.compile(eager)
    order = [p.name for p in kernel.signature.parameters if p.is_array]
    arguments = [arrays[n] for n in order]
    with torch.no_grad():
        kernel(**dict(zip(order, arguments, strict=True)))
        kernel(*arguments)
        mine = [shaped[n].clone() for n in operator.results]
        theirs = tuple_of(induced(*[t.clone() for t in tensors]))
        exact = tuple_of(eager(*[t.double() if t.is_floating_point() else t.clone() for t in tensors]))
        errors = difference(mine, exact), difference(theirs, exact)
        if given.prepare:
            print(f"{operator.name} {size} {kind}: {errors[0]:.1e} (torch {errors[1]:.1e}) {kernel.made.recipe}")
            return None
        if len(runtimes := openmp_runtimes()) > 1:
            sys.exit(f"several OpenMP runtimes are loaded, which spoils every timing: {', '.join(runtimes)}")
        moved = sum(a.nbytes for a in arrays.values())
        contenders = {
            "polydl": _direct(kernel, arrays, given.threads),
            "python": lambda: kernel(*arguments),
            "eager": lambda: eager(*tensors),
            "inductor": lambda: induced(*tensors),
            "copy": _copy(moved // 2, torch),
        }
        times = _timed(contenders, given.rounds, given.turn_seconds)
    return Row(operator.name, size, kind, moved, times, kernel.made.recipe, *errors)


def _direct(kernel: Any, arrays: Tensors, threads: int) -> Callable[[], None]:
    """The C function, without Python's look at the arguments; constants were packed before."""
    parameters = kernel.signature.parameters
    pointers = (ctypes.c_void_p * len(parameters))()
    alive: list[Any] = [pointers, arrays]
    for at, p in enumerate(parameters):
        if p.is_array:
            pointers[at] = arrays[p.name].data_ptr()
        else:
            alive.append(ctypes.c_long(p.default))
            pointers[at] = ctypes.addressof(alive[-1])
    call, where, packed = kernel._call, ctypes.addressof(pointers), None
    if kernel.made.packed:
        copies = kernel._constants.packed([arrays[name] for name in kernel.made.packed], pointers)
        packed, alive = copies.ctypes.data, [*alive, copies]
    return lambda: call(where, None, threads, packed) if alive else None


def _copy(bytes_: int, torch: Any) -> Callable[[], None]:
    """Copies so many bytes."""
    source, target = torch.ones(bytes_ // 4), torch.zeros(bytes_ // 4)
    past = 2 * bytes_ > last_level_bytes()
    entry = library(KERNELS / "copy.c").copy_floats
    entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
    entry.restype = None
    return lambda: entry(target.data_ptr(), source.data_ptr(), source.numel(), past)


def _timed(contenders: Mapping[str, Callable[[], object]], rounds: int, turn: float) -> dict[str, list[float]]:
    """Seconds of a call, each contender once in each round, in an order that rotates."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    counts = {}
    for name, run in contenders.items():
        run()
        begin = time.perf_counter()
        run()
        counts[name] = max(1, int(turn / max(time.perf_counter() - begin, 1e-7)))
    names = list(contenders)
    for number in range(rounds):
        for name in (*names[number % len(names) :], *names[: number % len(names)]):
            run = contenders[name]
            run()
            begin = time.perf_counter()
            for _ in range(counts[name]):
                run()
            times[name].append((time.perf_counter() - begin) / counts[name])
    return times


def table(rows: Sequence[Row]) -> str:
    """Markdown, a line for each operator and type: at each size microseconds from C, and the times of eager torch and
    of Inductor over those from Python and of the copy over those from C; over 1 is faster than the peer."""
    heads = [f"{size}: us | eager | Inductor | copy" for size in ROWS]
    lines = [f"| operator | type | {' | '.join(heads)} |", "|---|---|" + "---:|" * (4 * len(ROWS))]
    lists: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        ratios = [row.ratio("eager", "python"), row.ratio("inductor", "python"), row.ratio("copy")]
        shown = " | ".join(f"{r:.2f}" for r in ratios)
        cells = lists.setdefault((row.name, row.type), {})
        cells[row.size] = f"{statistics.median(row.times['polydl']) * 1e6:.0f} | {shown}"
    for (name, kind), cells in lists.items():
        lines.append(f"| {name} | {kind} | {' | '.join(cells.get(size, ' | | | ') for size in ROWS)} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, required=True, metavar="FILE")
    options.add_argument("--only", action="append", metavar="NAME")
    options.add_argument("--size", action="append", choices=list(ROWS))
    options.add_argument("--type", action="append", choices=TYPES)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--rounds", type=int, default=11)
    options.add_argument("--turn-seconds", type=float, default=0.005)
    options.add_argument("--tune", action="store_true", help="polydl times its best variants")
    options.add_argument("--prepare", action="store_true", help="compile and check everything, time nothing")
    options.add_argument("--again", action="store_true", help="measure rows that are in the file, too")
    given = options.parse_args()
    set_threads(given.threads)
    known = json.loads(given.json.read_text(encoding="utf-8"))["rows"] if given.json.is_file() else []
    rows = {(r["name"], r["size"], r["type"]): Row(**r) for r in known}
    failed = 0
    for operator in OPERATORS:
        for size in given.size or ROWS:
            for kind in operator.types:
                key = (operator.name, size, kind)
                if (given.only and operator.name not in given.only) or (given.type and kind not in given.type):
                    continue
                if key in rows and not given.again and not given.prepare:
                    continue
                try:
                    row = measure(operator, size, kind, given)
                except Exception as error:  # noqa: BLE001  # a row that fails is told, and the others are measured
                    print(f"{' '.join(key)}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                    failed += 1
                    continue
                if row is None:
                    continue
                rows[key] = row
                document = {"machine": machine(), "commit": commit(), "threads": given.threads}
                document["rows"] = [asdict(r) for r in rows.values()]
                given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
                print(table([row]).splitlines()[-1], flush=True)
    if rows:
        print(table(list(rows.values())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
