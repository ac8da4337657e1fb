"""Fused operators: batch normalisation + ReLU and convolution + ReLU6, unfused, fused, and oneDNN through PyTorch.

    python experiments/fusion.py --what bnorm --json bnorm.json
    python experiments/fusion.py --what conv --network resnet --json conv_relu6.json --plot conv_relu6.png

The figures 20 and 21 of the PolyDL paper. Batch normalisation runs on the outputs of the layers, with as many images as
make the tensor at least `--megabytes` large (default: twice the last-level cache); layers with outputs of one shape are
measured once. `polydl` is fused; `polydl unfused` is what --no-fuse gives (batch normalisation) or the same variant
with the clip in a nest of its own, in vectors (convolution); `convolution alone` is that variant without the clip;
`copy` moves as many bytes as batch normalisation must.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import POLYDL, Bound, Contender, Problem, Row, geomean
from blocked import blocked_inputs, blocked_output
from common import define_flags, parser, prepare, run, scratch_folder
from conv import data as conv_data
from conv import defines as conv_defines
from native import KERNELS, Floats, bound_call, last_level_bytes, library, placed
from sizes import DATA, ConvLayer, conv_layers

import polydl
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.results import OptimizeResult
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Parallelize, Vectorize
from polydl.search.variant import Variant

UNFUSED, ALONE, COPY = "polydl unfused", "convolution alone", "copy"
OWN = (UNFUSED, ALONE, COPY)
"""Contenders that are no peers."""
LOW, HIGH = 0.0, 6.0
"""ReLU6 keeps values between these."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A tensor in NCHW."""

    images: int
    channels: int
    height: int
    width: int

    @property
    def all(self) -> tuple[int, int, int, int]:
        return self.images, self.channels, self.height, self.width

    @property
    def elements(self) -> int:
        return math.prod(self.all)


class FusionRow(Row):
    """A row whose peers are other people's code only."""

    @property
    def peers(self) -> list[str]:
        return [name for name in self.timings if name != POLYDL and name not in OWN]

    def extra(self) -> dict[str, Any]:
        """Ratios within each round to polydl's own other forms."""
        return {
            "ratio_to_unfused": self.ratio(UNFUSED),
            "ratio_to_convolution_alone": self.ratio(ALONE),
            "fraction_of_copy": self.ratio(COPY),
            "own": {name: self.gflops(name) for name in OWN if name in self.timings},
        }


def optimized(
    source: Path, name: str, defines: dict[str, int], given: argparse.Namespace, fuse: bool = True
) -> OptimizeResult:
    """polydl's result for a kernel with these sizes. Raises RuntimeError when nothing was usable."""
    done = polydl.optimize(
        source,
        scratch_folder(given) / f"{name}.c",
        defines={key: str(value) for key, value in defines.items()},
        threads=given.threads,
        top_k=given.top_k,
        space=given.space,
        seed=given.seed,
        fuse=fuse,
        budget=None,
    )
    if done.output is None:
        raise RuntimeError(f"polydl wrote no output for {name}")
    return done


def text_of(done: OptimizeResult, parts: Sequence[Ordered], path: Path) -> Path:
    """The C file of other parts of the chosen variant's scop."""
    scop = done.scops[0].ranking.scop
    path.write_text(splice(scop.source, [(scop, generate(scop, program_tree(parts)))], ""), encoding="utf-8")
    return path


# Convolution and ReLU6


def clipped(values: Floats) -> Floats:
    """ReLU6."""
    return np.clip(values, np.float32(LOW), np.float32(HIGH))


def conv_from_c(name: str, layer: ConvLayer, c_file: Path, flags: Sequence[str], clip: bool = False) -> Contender:
    """`conv2d` of a C file; `clip`: it leaves the clip out, so that the comparison makes up for it."""

    def bind(inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        image, filters, out = (placed(a, rng) for a in blocked_inputs(layer, *inputs))
        finish: Callable[[Floats], Floats] = clipped if clip else lambda values: values
        return Bound(bound_call(c_file, "conv2d", flags, (out, image, filters)), lambda: finish(blocked_output(out)))

    return Contender(name, bind)


def conv_problem(layer: ConvLayer, given: argparse.Namespace) -> Problem:
    """A convolution with its clip. The unfused forms are the fused variant with the clip elsewhere or nowhere."""
    images = given.minibatch or given.threads
    macros = conv_defines(layer, images)
    flags, folder = define_flags(macros), scratch_folder(given)
    contenders: list[Contender] = []
    notes: dict[str, object] = {"network": layer.network, "images": images, "operator": "convolution + ReLU6"}
    if "onednn" in given.peers.split(","):
        from peers import onednn

        contenders += onednn.conv_clip_contenders(layer, LOW, HIGH)
    done = optimized(KERNELS / "conv_relu6.c", f"conv_relu6_{layer.name}", macros, given)
    chosen = done.scops[0].chosen
    assert done.output is not None
    notes |= {"polydl_seconds": done.seconds["total"], "recipe": str(chosen.recipe) if chosen else "original"}
    contenders.append(conv_from_c(POLYDL, layer, done.output, flags))
    fused = [v for v in (chosen, *done.scops[0].ranking.variants) if v is not None and is_fused(v)]
    if not fused:
        raise RuntimeError(f"{layer.name}: no variant has the clip in its microkernel")
    notes["chosen_is_fused"] = chosen is not None and is_fused(chosen)
    parts = fused[0].parts
    apart = [apart_again(part) for part in parts]
    alone = [part for part in apart if part.name != parts[-1].name]
    unfused = text_of(done, apart, folder / f"conv_unfused_{layer.name}.c")
    contenders.append(conv_from_c(UNFUSED, layer, unfused, flags))
    plain = text_of(done, alone, folder / f"conv_alone_{layer.name}.c")
    contenders.append(conv_from_c(ALONE, layer, plain, flags, clip=True))
    return Problem(
        layer.name,
        layer.operations(images),
        layer.bytes(images),
        lambda r, i: conv_data(layer, images, r, i),
        contenders,
        notes,
    )


def is_fused(variant: Variant) -> bool:
    """Whether a variant has something in a microkernel's epilogue."""
    return any(part.into for part in variant.parts)


def apart_again(part: Ordered) -> Ordered:
    """A fused nest by itself: parallel, in vectors."""
    if part.into is None or part.loops is None:
        return part
    nest = part.loops.nest
    return ordered(nest, (Parallelize(nest.loops[:2]), Vectorize()))


# Batch normalisation and ReLU


def bnorm_data(shape: Shape, rng: np.random.Generator, integral: bool) -> Sequence[Floats]:
    """x in NCHW, mean, scale and shift of each channel; integers and powers of two when `integral`."""
    per_channel = (shape.channels,)
    if integral:
        x = rng.integers(-8, 9, shape.all, dtype=np.int8).astype(np.float32)
        mean, shift = (rng.integers(-3, 4, per_channel).astype(np.float32) for _ in range(2))
        return [x, mean, np.exp2(rng.integers(-2, 3, per_channel)).astype(np.float32), shift]
    return [
        rng.random(shape.all, dtype=np.float32) - np.float32(0.5),
        *(rng.random(per_channel, dtype=np.float32) + np.float32(0.5) for _ in range(3)),
    ]


def bnorm_from_c(name: str, shape: Shape, c_file: Path, flags: Sequence[str]) -> Contender:
    """`bnorm_relu` of a C file."""

    def bind(inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        arrays = [placed(a, rng) for a in (np.zeros(shape.all, dtype=np.float32), *inputs)]
        return Bound(bound_call(c_file, "bnorm_relu", flags, arrays), lambda: arrays[0].copy())

    return Contender(name, bind)


def copy_contender(shape: Shape) -> Contender:
    """A copy of x with every thread, past the caches where memcpy does so: the mark for the bandwidth."""

    def bind(inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        x, mean, scale, shift = inputs
        source, target = placed(x, rng), placed(np.zeros_like(x), rng)
        copy_all = library(KERNELS / "support.c").copy_all
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (target, source)]
        size = ctypes.c_long(x.size)

        def result() -> Floats:
            each = (1, shape.channels, 1, 1)
            made = (target - mean.reshape(each)) * scale.reshape(each) + shift.reshape(each)
            return np.maximum(made, np.float32(0))

        return Bound(lambda: copy_all(*pointers, size), result)

    return Contender(COPY, bind)


def bnorm_problem(layer: ConvLayer, shape: Shape, given: argparse.Namespace) -> Problem:
    """Batch normalisation and ReLU of a layer's output."""
    macros = dict(zip(("NIMG", "CHANNELS", "HEIGHT", "WIDTH"), shape.all, strict=True))
    flags, source = define_flags(macros), KERNELS / "bnorm_relu.c"
    contenders: list[Contender] = []
    if "onednn" in given.peers.split(","):
        from peers import onednn

        contenders += onednn.bnorm_relu_contenders(shape.all)
    notes: dict[str, object] = {"network": layer.network, "shape": shape.all, "operator": "batch norm + ReLU"}
    for name, fuse in ((POLYDL, True), (UNFUSED, False)):
        done = optimized(source, f"bnorm_{layer.name}_{'fused' if fuse else 'unfused'}", macros, given, fuse)
        assert done.output is not None
        chosen = done.scops[0].chosen
        notes[f"{name} recipe"] = str(chosen.recipe) if chosen else "original"
        notes[f"{name} seconds"] = done.seconds["total"]
        contenders.append(bnorm_from_c(name, shape, done.output, flags))
    contenders.append(copy_contender(shape))
    size = shape.elements
    return Problem(
        f"{layer.name}_bnorm", 4.0 * size, 8.0 * size, lambda r, i: bnorm_data(shape, r, i), contenders, notes
    )


def bnorm_problems(layers: Sequence[ConvLayer], given: argparse.Namespace) -> list[tuple[str, Callable[[], Problem]]]:
    """One problem for each shape of output, with images enough for the size asked for."""
    seen: set[tuple[int, int, int]] = set()
    problems: list[tuple[str, Callable[[], Problem]]] = []
    least = given.megabytes * 1e6 if given.megabytes else 2 * last_level_bytes()
    for layer in layers:
        key = (layer.K, layer.ofh, layer.ofw)
        if key in seen:
            continue
        seen.add(key)
        images = given.minibatch or max(given.threads, math.ceil(least / 4 / math.prod(key)))
        shape = Shape(images, *key)
        problems.append((f"{layer.name}_bnorm", lambda layer=layer, shape=shape: bnorm_problem(layer, shape, given)))
    return problems


def with_ratios(path: Path, rows: Sequence[FusionRow]) -> None:
    """Add the ratios to polydl's own other forms to the JSON document."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for entry, row in zip(document["rows"], rows, strict=True):
        entry |= row.extra()
    for key in ("ratio_to_unfused", "ratio_to_convolution_alone", "fraction_of_copy"):
        for what in ("bnorm", "conv"):
            values = [
                r for row in rows if row.problem.name.endswith("_bnorm") == (what == "bnorm")
                and (r := row.extra()[key]) is not None
            ]  # fmt: skip
            if values:
                document["geomean"][f"{what}_{key}"] = geomean(values)
    for what in ("bnorm", "conv"):
        values = [
            r for row in rows if row.problem.name.endswith("_bnorm") == (what == "bnorm")
            and (r := row.ratio_to_best_peer()) is not None
        ]  # fmt: skip
        if values:
            document["geomean"][f"{what}_ratio_to_best_peer"] = geomean(values)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    options = parser(__doc__ or "")
    options.add_argument("--what", choices=("bnorm", "conv", "all"), default="all")
    options.add_argument("--layers", type=Path, default=DATA / "conv_layers.csv", metavar="CSV")
    options.add_argument("--network", default="", help="comma-separated; default: all of the file")
    options.add_argument(
        "--minibatch", type=int, help="images; default: threads (conv), enough for --megabytes (bnorm)"
    )
    options.add_argument("--megabytes", type=float, help="least size of a tensor; default: twice the last-level cache")
    given = options.parse_args()
    prepare(given.threads, given.isa)
    if "onednn" in given.peers.split(","):
        from peers import onednn

        onednn.start(given.threads)
    try:
        layers = conv_layers(given.layers, tuple(n for n in given.network.split(",") if n))
    except ValueError as error:
        sys.exit(str(error))
    problems: list[tuple[str, Callable[[], Problem]]] = []
    if given.what in ("bnorm", "all"):
        problems += bnorm_problems(layers, given)
    if given.what in ("conv", "all"):
        # A depthwise convolution is no contraction: it has no microkernel to fuse into.
        dense = [layer for layer in layers if getattr(layer, "groups", 1) == 1]
        problems += [(layer.name, lambda layer=layer: conv_problem(layer, given)) for layer in dense]
    title = f"Fused operators, fp32, {given.threads} threads, GFLOP/s hot (cold)"
    rows: list[FusionRow] = []

    def refined(measured: Row) -> Row:
        row = FusionRow(measured.problem, measured.timings, measured.peaks)
        rows.append(row)
        return row

    done = run(given, title, problems, refine=refined)
    if given.json is not None and rows:
        with_ratios(given.json, rows)
    for row in rows:
        shown = {k: v for k, v in row.extra().items() if isinstance(v, float)} | {"best peer": row.ratio_to_best_peer()}
        print(row.problem.name, ", ".join(f"{k} {v:.3f}" for k, v in shown.items() if v is not None))
    return done


if __name__ == "__main__":
    sys.exit(main())
