"""Convolutions of image networks: polydl against oneDNN in three layouts and LIBXSMM, weights packed beforehand.

python experiments/conv.py --network resnet --json resnet.json --plot resnet.png
python experiments/conv.py --network resnet --dtype bf16 --isa avx512
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import conv_types
import gemm_types
import numpy as np
from bench import POLYDL, Bound, Contender, Problem, Settings, measure
from blocked import blocked_inputs, blocked_output
from common import define_flags, need_peer, on_isa, optimized, parser, peers_of, prepare, run
from native import KERNELS, Floats, bound_packed, placed
from sizes import DATA, ConvLayer, channel_block, conv_layers

import polydl

SOURCE = KERNELS / "conv.c"
INSIDE = KERNELS / "conv_inside.c"
DEPTHWISE = KERNELS / "depthwise.c"
PLAIN_OPERATIONS = 2e10
"""The plain code is run on problems of up to this many operations only."""


NEGLIGIBLE = 0.03
"""A predicted gain that is no reason to leave the usual layout."""
NEAR = 0.1
"""Layouts predicted to be so much slower than the best are not tried."""


def data(layer: ConvLayer, images: int, rng: np.random.Generator, integral: bool) -> Sequence[Floats]:
    """Image [N][C][H][W] and filter [K][C][kh][kw]. Integers from -2 to 2: sums stay far below 2^24."""
    shapes = ((images, layer.C, layer.ifh, layer.ifw), (layer.K, layer.C // layer.groups, layer.kh, layer.kw))
    if integral:
        return [rng.integers(-2, 3, shape, dtype=np.int8).astype(np.float32) for shape in shapes]
    return [rng.random(shape, dtype=np.float32) - np.float32(0.5) for shape in shapes]


def source_of(layer: ConvLayer, padding: str) -> Path:
    """The C file of a layer. A depthwise layer's image always has the zeros around it."""
    return DEPTHWISE if layer.depthwise else INSIDE if padding == "conditions" else SOURCE


def defines(layer: ConvLayer, images: int, source: Path = SOURCE) -> dict[str, int]:
    """Macros of a layer's C file."""
    inside = {"IFH": layer.ifh, "IFW": layer.ifw, "PAD_H": layer.pad_h, "PAD_W": layer.pad_w}
    return {
        **({"DILATION": layer.dilation} if layer.dilation > 1 else {}),
        **(inside if source == INSIDE else {}),
        **({} if layer.depthwise else {"NIFM": layer.C, "IFM_BLOCK": layer.ifm_block}),
        "NIMG": images,
        "NOFM": layer.K,
        "OFH": layer.ofh,
        "OFW": layer.ofw,
        "KH": layer.kh,
        "KW": layer.kw,
        "STRIDE_H": layer.stride,
        "STRIDE_W": layer.stride,
        "OFM_BLOCK": layer.ofm_block,
    }


def likely_layouts(layer: ConvLayer, images: int, given: argparse.Namespace) -> list[ConvLayer]:
    """The layer in up to `--layouts` layouts whose best variants polydl predicts to be fastest, the best first."""
    if layer.depthwise:
        return [layer]
    predicted = {}
    source = source_of(layer, given.padding)
    lanes = polydl.Options(isa=given.isa).target().simd.vector_bytes // 4
    for blocks in layer.layouts(lanes):
        macros = {k: str(v) for k, v in defines(replace(layer, blocks=blocks), images, source).items()}
        ranking = polydl.rank(source, defines=macros, threads=given.threads, space=given.space, isa=given.isa)
        predicted[blocks] = ranking.variants[0].score
    best = min(predicted.values())
    usual = (channel_block(layer.K), channel_block(layer.C))
    if predicted[usual] <= best * (1 + NEGLIGIBLE):
        predicted[usual] = best
    order = sorted(predicted, key=lambda b: (predicted[b], b != usual, -b[0], -b[1]))
    near = [b for b in order if predicted[b] <= best * (1 + NEAR)]
    return [replace(layer, blocks=blocks) for blocks in near[: given.layouts]]


def fastest(
    layer: ConvLayer, images: int, made: Sequence[tuple[ConvLayer, Path]], given: argparse.Namespace
) -> tuple[ConvLayer, Path]:
    """Of the layer in several layouts, each with the C file that polydl wrote for it, the one measured fastest."""
    if len(made) == 1:
        return made[0]
    source = source_of(layer, given.padding)
    contenders = [
        from_c(str(place), chosen, c_file, define_flags(defines(chosen, images, source)), inside=source == INSIDE)
        for place, (chosen, c_file) in enumerate(made)
    ]
    alone = Problem(
        layer.name,
        layer.operations(images),
        layer.bytes(images),
        lambda r, i: data(layer, images, r, i),
        contenders,
    )
    found = measure(alone, Settings(rounds=5, cold_rounds=0, turn_seconds=given.turn_seconds, seed=given.seed + 1))
    return made[min(range(len(made)), key=lambda place: found.timings[str(place)].seconds)]


def from_c(name: str, layer: ConvLayer, c_file: Path, flags: Sequence[str], *, inside: bool = False) -> Contender:
    """`conv2d` of a C file; `inside`: it gets the image as it is."""

    def bind(inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        image, filters, out = (placed(a, rng) for a in blocked_inputs(layer, *inputs, inside=inside))
        run = bound_packed(c_file, "conv2d", flags, (out, image, filters), filters)
        return Bound(run, lambda: blocked_output(out))

    return Contender(name, bind)


def padded_ahead(layer: ConvLayer, contenders: Callable[[ConvLayer], list[Contender]]) -> list[Contender]:
    """Peers that get images with the zeros around them, as conv.c does, and so multiply all that it multiplies."""
    height, width = layer.padded
    bare = replace(layer, ifh=height, ifw=width, pad_h=0, pad_w=0)
    around = ((0, 0), (0, 0), (layer.pad_h, layer.pad_h), (layer.pad_w, layer.pad_w))

    def bind(inner: Contender, inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        image, filters = inputs
        return inner.bind([np.ascontiguousarray(np.pad(image, around)[:, :, :height, :width]), filters], rng)

    return [Contender(c.name, partial(bind, c)) for c in contenders(bare)]


def problem(layer: ConvLayer, images: int, given: argparse.Namespace) -> Problem:
    """A layer with everything that is to compute it. The first contender is what the others are compared with."""
    wanted = peers_of(given)
    source = source_of(layer, given.padding)
    inside = source == INSIDE
    start = time.perf_counter()
    chosen, output = layer, None
    if not given.skip_polydl:
        constant = "" if layer.depthwise else "filter"
        made = []
        for likely in likely_layouts(layer, images, given):
            name = f"conv_{layer.name}_{likely.ofm_block}_{likely.ifm_block}"
            made.append((likely, optimized(source, name, defines(likely, images, source), given, constant)[0]))
        chosen, output = fastest(layer, images, made, given)
    seconds = time.perf_counter() - start
    flags = define_flags(defines(chosen, images, source))
    contenders: list[Contender] = []
    notes: dict[str, object] = {
        "network": layer.network,
        "images": images,
        "padding": given.padding,
        "layout": f"{chosen.ofm_block} output and {chosen.ifm_block} input channels together",
    }
    if "onednn" in wanted:
        from peers import onednn

        contenders += padded_ahead(layer, onednn.conv_contenders) if given.pad_ahead else onednn.conv_contenders(layer)
    if "xsmm" in wanted and not layer.depthwise and layer.dilation == 1:
        from peers import xsmm

        if xsmm.available():
            contenders.append(xsmm.conv_contender(layer))
    if "plain" in wanted and layer.operations(images) <= PLAIN_OPERATIONS:
        contenders.append(from_c("plain C", chosen, source, flags, inside=inside))
    need_peer(contenders)
    if output is not None:
        notes["polydl_seconds"] = seconds
        contenders.append(from_c(POLYDL, chosen, output, flags, inside=inside))
    return Problem(
        layer.name,
        layer.operations(images),
        layer.bytes(images),
        lambda r, i: data(layer, images, r, i),
        contenders,
        notes,
    )


def main() -> int:
    options = parser(__doc__ or "")
    options.add_argument("--layers", type=Path, default=DATA / "conv_layers.csv", metavar="CSV")
    options.add_argument("--network", default="", help="comma-separated; default: all of the file")
    options.add_argument("--minibatch", type=int, help="images; default: as many as threads")
    options.add_argument(
        "--pad-ahead",
        action="store_true",
        help="oneDNN gets padded images, as polydl does, instead of leaving out what the padding's zeros are in",
    )
    options.add_argument(
        "--layouts",
        type=int,
        default=3,
        metavar="N",
        help="time polydl's output in up to so many; default: %(default)s",
    )
    options.add_argument(
        "--padding",
        choices=("ahead", "conditions"),
        default="ahead",
        help="polydl's program gets images with the zeros around them, or the images as they are, and leaves out what "
        "lies beyond them; default: %(default)s",
    )
    options.add_argument(
        "--dtype",
        choices=("fp32", *gemm_types.KINDS),
        default="fp32",
        help="of image and filter, in blocked and channels-last layouts; without AMX where --isa is avx512",
    )
    given = options.parse_args()
    if given.dtype != "fp32" and (given.padding, given.pad_ahead) != ("ahead", False):
        sys.exit(f"--dtype {given.dtype} has images with the zeros around them: leave out --padding and --pad-ahead")
    if given.pad_ahead and given.padding == "conditions":
        sys.exit("--pad-ahead is for comparing with images that have the zeros around them: leave out one of the two")
    prepare(given.threads, given.isa)
    if "onednn" in peers_of(given):
        from peers import onednn

        onednn.start(given.threads)
    try:
        layers = conv_layers(given.layers, tuple(n for n in given.network.split(",") if n))
    except ValueError as error:
        sys.exit(str(error))
    images = given.minibatch or given.threads
    title = f"Convolutions, {given.dtype}, {images} images, {given.threads} threads{on_isa(given)}, GFLOP/s hot (cold)"
    if given.dtype != "fp32":
        dense = [layer for layer in layers if not layer.depthwise]
        return run(given, title, [(x.name, lambda x=x: conv_types.problem(x, images, given)) for x in dense])
    return run(given, title, [(layer.name, lambda layer=layer: problem(layer, images, given)) for layer in layers])


if __name__ == "__main__":
    sys.exit(main())
