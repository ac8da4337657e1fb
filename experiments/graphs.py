"""Programs of several nests beside torch: attention and multilayer perceptrons.

python experiments/graphs.py --json graphs.json [--only NAME]… [--prepare] [--again]

polydl compiles plain C: the scores, the softmax and the values of attention one after the other; of a perceptron a
product, a bias and a ReLU for each layer. It is called from C and from Python. The peers are called as their users call
them, in one process with one OpenMP runtime, in turns: for attention the flash kernel by its own name, the MATH path,
and Inductor; for perceptrons oneDNN's linear with its post-op by its own name on packed weights (eager torch takes MKL
for fp32, which is slow on AMD), eager, and Inductor with freezing. A figure is the median of the ratios within a round.
Each result is held against torch's in double precision.

Rows are written as they come; those that are in the file already are left out. --prepare compiles everything and times
nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from native import KERNELS, openmp_runtimes, set_threads
from operators import _direct as direct
from operators import _timed as timed
from operators import difference
from output import commit, machine


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of all heads of a batch."""

    name: str
    heads: int
    """Of all of the batch."""
    length: int
    depth: int
    mask: bool = False

    def source(self) -> tuple[str, Mapping[str, int]]:
        """C and its sizes."""
        head = f"#define SCALE {1 / math.sqrt(self.depth)!r}f\n" + ("#define MASK\n" if self.mask else "")
        return head + (KERNELS / "attention.c").read_text(encoding="utf-8"), {
            "HEADS": self.heads, "S": self.length, "D": self.depth,
        }  # fmt: skip

    def arrays(self, torch: Any) -> dict[str, Any]:
        """By name; the last one is the result."""
        shape = (self.heads, self.length, self.depth)
        made = {name: torch.randn(shape) for name in "QKV"}
        made |= {"mask": torch.randn(self.length, self.length)} if self.mask else {}
        return {**made, "O": torch.zeros(shape)}

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
        """What computes the same, by name; the first one is held to."""
        q, k, v = (arrays[name].unsqueeze(0) for name in "QKV")
        mask = arrays["mask"].view(1, 1, self.length, self.length) if self.mask else None
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        sdpa, backend = torch.nn.functional.scaled_dot_product_attention, torch.nn.attention

        def by_math() -> Any:
            with backend.sdpa_kernel(backend.SDPBackend.MATH):
                return sdpa(q, k, v, attn_mask=mask)

        def plain(q: Any, k: Any, v: Any) -> Any:
            scores = q @ k.transpose(-1, -2) / math.sqrt(self.depth)
            return torch.softmax(scores if mask is None else scores + mask, -1) @ v

        induced = torch.compile(plain)
        return {
            "flash": lambda: flash(q, k, v, attn_mask=mask)[0],
            "math": by_math,
            "inductor": lambda: induced(q, k, v),
        }

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        """In double precision."""
        q, k, v = (arrays[name].double() for name in "QKV")
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.depth)
        return torch.softmax(scores + arrays["mask"].double() if self.mask else scores, -1) @ v

    @property
    def operations(self) -> float:
        """Of the products."""
        return 4.0 * self.heads * self.length**2 * self.depth


@dataclass(frozen=True, slots=True)
class Perceptron:
    """Layers, each a product, a bias and a ReLU."""

    name: str
    batch: int
    widths: tuple[int, ...]

    def source(self) -> tuple[str, Mapping[str, int]]:
        """C and its sizes."""
        last = len(self.widths) - 1
        arguments, locals_, body = [f"float X[restrict {self.batch}][{self.widths[0]}]"], [], []
        for n, (k, m) in enumerate(zip(self.widths, self.widths[1:], strict=False), start=1):
            arguments += [f"float W{n}[restrict {k}][{m}]", f"float b{n}[restrict {m}]"]
            before, after = "X" if n == 1 else f"h{n - 1}", "Y" if n == last else f"h{n}"
            locals_ += [f"    static float {after}[{self.batch}][{m}];"] if n < last else []
            body.append(f"""    for (int i = 0; i < {self.batch}; i++)
        for (int j = 0; j < {m}; j++) {{
            {after}[i][j] = b{n}[j];
            for (int k = 0; k < {k}; k++)
                {after}[i][j] += {before}[i][k] * W{n}[k][j];
            {after}[i][j] = {after}[i][j] > 0.0f ? {after}[i][j] : 0.0f;
        }}""")
        arguments.append(f"float Y[restrict {self.batch}][{self.widths[-1]}]")
        lines = [f"void mlp({', '.join(arguments)})", "{", *locals_, "#pragma scop", *body, "#pragma endscop", "}"]
        return "\n".join(lines) + "\n", {}

    def arrays(self, torch: Any) -> dict[str, Any]:
        """By name; the last one is the result."""
        made = {"X": torch.randn(self.batch, self.widths[0])}
        for n, (k, m) in enumerate(zip(self.widths, self.widths[1:], strict=False), start=1):
            made |= {f"W{n}": torch.randn(k, m) / math.sqrt(k), f"b{n}": torch.randn(m)}
        return {**made, "Y": torch.zeros(self.batch, self.widths[-1])}

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
        """What computes the same, by name; the first one is held to."""
        layers = range(1, len(self.widths))
        weights = [arrays[f"W{n}"].t().contiguous() for n in layers]
        biases = [arrays[f"b{n}"] for n in layers]
        packed = [torch.ops.mkldnn._reorder_linear_weight(w, self.batch) for w in weights]

        def one_dnn() -> Any:
            x = arrays["X"]
            for w, b in zip(packed, biases, strict=True):
                x = torch.ops.mkldnn._linear_pointwise(x, w, b, "relu", [], "")
            return x

        linears = []
        for w, b in zip(weights, biases, strict=True):
            linear = torch.nn.Linear(w.shape[1], w.shape[0])
            linear.weight.data, linear.bias.data = w, b
            linears += [linear, torch.nn.ReLU()]
        model = torch.nn.Sequential(*linears).eval()
        induced = torch.compile(model)
        x = arrays["X"]
        return {"onednn": one_dnn, "eager": lambda: model(x), "inductor": lambda: induced(x)}

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        """In double precision."""
        x = arrays["X"].double()
        for n in range(1, len(self.widths)):
            x = torch.relu(x @ arrays[f"W{n}"].double() + arrays[f"b{n}"].double())
        return x

    @property
    def operations(self) -> float:
        """Of the products."""
        return 2.0 * self.batch * sum(k * m for k, m in zip(self.widths, self.widths[1:], strict=False))


MLP_1, MLP_2 = (13, 512, 256, 128), (479, 1024, 1024, 512, 256, 1)
WORKLOADS: tuple[Attention | Perceptron, ...] = (
    Attention("mha-1", 8, 128, 96),
    Attention("mha-2", 12, 128, 64),
    Attention("bert", 12, 384, 64),
    Attention("mha-3", 8, 384, 128),
    Attention("mha-4", 16, 512, 64),
    Attention("mha-4-mask", 16, 512, 64, mask=True),
    Attention("mha-2-batch-8", 96, 128, 64),
    Attention("mha-4-batch-8", 128, 512, 64),
    *(Perceptron(f"mlp-1-{batch}", batch, MLP_1) for batch in (32, 64, 128, 512)),
    *(Perceptron(f"mlp-2-{batch}", batch, MLP_2) for batch in (32, 128, 512)),
    Perceptron("mlp-1024x3-256", 256, (1024, 1024, 1024, 1024)),
)


@dataclass
class Row:
    """A workload, timed."""

    name: str
    operations: float
    times: Mapping[str, Sequence[float]]
    """By contender the seconds of a call in each round."""
    recipe: str
    error: float
    """Largest difference from the exact result over its largest magnitude."""
    peer_error: float

    def ratio(self, peer: str, mine: str = "python") -> float:
        """By how much polydl is faster; the median over the rounds."""
        pairs = zip(self.times[peer], self.times[mine], strict=True)
        return statistics.median(theirs / own for theirs, own in pairs)

    @property
    def merged(self) -> bool:
        """Whether loops are shared in what was chosen."""
        return "Merge(" in self.recipe


def measure(work: Attention | Perceptron, given: argparse.Namespace) -> Row | None:
    """One row; None where nothing is to be timed. Raises SystemExit where several OpenMP runtimes are loaded."""
    import torch
    import torch._inductor.config as inductor

    import polydl

    inductor.freezing = True
    torch._dynamo.reset()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    source, sizes = work.source()
    kernel = polydl.compile(source, sizes, tune=not given.no_tune, threads=given.threads)
    arrays = work.arrays(torch)
    arguments = [arrays[p.name] for p in kernel.signature.parameters if p.is_array]
    with torch.no_grad():
        kernel(*arguments)
        exact, result = work.exact(torch, arrays), list(arrays.values())[-1].clone()
        peers = work.peers(torch, arrays)
        theirs = next(iter(peers.values()))().reshape(exact.shape)
        errors = difference([result], [exact]), difference([theirs], [exact])
        if given.prepare:
            print(f"{work.name}: {errors[0]:.1e} (peer {errors[1]:.1e}) {kernel.made.recipe}", flush=True)
            return None
        if len(runtimes := openmp_runtimes()) > 1:
            sys.exit(f"several OpenMP runtimes are loaded, which spoils every timing: {', '.join(runtimes)}")
        contenders = {"polydl": direct(kernel, arrays, given.threads), "python": lambda: kernel(*arguments), **peers}
        times = timed(contenders, given.rounds, given.turn_seconds)
    return Row(work.name, work.operations, times, kernel.made.recipe, *errors)


def table(rows: Sequence[Row]) -> str:
    """Markdown: over 1 is faster than the peer."""
    lines = [
        "| workload | GFLOP/s | shared loops | of flash or oneDNN | of MATH or eager | of Inductor | error | peer's |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        rate = row.operations / statistics.median(row.times["polydl"]) * 1e-9
        peers = [name for name in row.times if name not in ("polydl", "python")]
        ratios = " | ".join(f"{row.ratio(peer):.2f}" for peer in peers)
        lines.append(
            f"| {row.name} | {rate:.0f} | {'yes' if row.merged else 'no'} | {ratios} | {row.error:.0e} "
            f"| {row.peer_error:.0e} |"
        )
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, required=True, metavar="FILE")
    options.add_argument("--only", action="append", metavar="NAME")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--rounds", type=int, default=11)
    options.add_argument("--turn-seconds", type=float, default=0.01)
    options.add_argument("--no-tune", action="store_true", help="polydl takes its best ranked variant, untimed")
    options.add_argument("--prepare", action="store_true", help="compile and check everything, time nothing")
    options.add_argument("--again", action="store_true", help="measure rows that are in the file, too")
    given = options.parse_args()
    set_threads(given.threads)
    known = json.loads(given.json.read_text(encoding="utf-8"))["rows"] if given.json.is_file() else []
    rows = {r["name"]: Row(**r) for r in known}
    failed = 0
    for work in WORKLOADS:
        if (given.only and work.name not in given.only) or (
            work.name in rows and not given.again and not given.prepare
        ):
            continue
        try:
            row = measure(work, given)
        except Exception as error:  # noqa: BLE001  # a row that fails is told, and the others are measured
            print(f"{work.name}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
            failed += 1
            continue
        if row is None:
            continue
        rows[work.name] = row
        document = {"machine": machine(), "commit": commit(), "threads": given.threads}
        document["rows"] = [asdict(r) for r in rows.values()]
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
        print(table([row]).splitlines()[-1], flush=True)
    if rows:
        print(table(list(rows.values())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
