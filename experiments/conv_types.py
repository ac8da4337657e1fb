"""Convolutions of small types: sources, inputs and peers for `conv.py --dtype`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench import POLYDL, Bound, Contender, Problem
from blocked import blocked_inputs, blocked_output
from common import define_flags, need_peer, optimized, peers_of
from gemm_types import KINDS, Array, Kind, peak_product, stored
from native import KERNELS, bound_packed, placed
from sizes import ConvLayer, channel_block

import polydl
from polydl.learn.collect.problems import DTYPES

SOURCE = KERNELS / "conv_types.c"


def data(kind: Kind, layer: ConvLayer, images: int, rng: np.random.Generator, integral: bool) -> Sequence[Array]:
    """Image [N][C][H][W] and filter [K][C][kh][kw], of whole numbers; from -2 to 2, or 0, when `integral`."""
    shapes = ((images, layer.C, layer.ifh, layer.ifw), (layer.K, layer.C, layer.kh, layer.kw))
    return stored(kind, shapes, rng, integral)


def _defines(layer: ConvLayer, images: int, dtype: str) -> Mapping[str, int]:
    return {
        **({"DILATION": layer.dilation} if layer.dilation > 1 else {}),
        "DTYPE": DTYPES.index(dtype),
        "NIMG": images,
        "NIFM": layer.C,
        "NOFM": layer.K,
        "OFH": layer.ofh,
        "OFW": layer.ofw,
        "KH": layer.kh,
        "KW": layer.kw,
        "STRIDE_H": layer.stride,
        "STRIDE_W": layer.stride,
        "IFM_BLOCK": layer.ifm_block,
        "OFM_BLOCK": layer.ofm_block,
    }


def layouts(layer: ConvLayer) -> list[tuple[int, int]]:
    """Blockings (output, input) worth considering: by 16 to 64 channels, and channels-last."""
    outputs = {channel_block(layer.K, most) for most in (16, 32, 64)}
    inputs = {channel_block(layer.C, most) for most in (16, 64)}
    return sorted({(layer.K, layer.C), *((o, i) for o in outputs for i in inputs)}, reverse=True)


def with_best_layout(layer: ConvLayer, images: int, given: argparse.Namespace) -> tuple[ConvLayer, float]:
    """The layer in the layout whose best variant polydl predicts to be fastest, and the seconds that this took."""
    start = time.perf_counter()
    predicted = {}
    for blocks in layouts(layer):
        macros = {k: str(v) for k, v in _defines(replace(layer, blocks=blocks), images, given.dtype).items()}
        ranking = polydl.rank(SOURCE, defines=macros, threads=given.threads, space=given.space, isa=given.isa)
        predicted[blocks] = ranking.variants[0].score
    return replace(layer, blocks=min(predicted, key=lambda b: (predicted[b], b))), time.perf_counter() - start


def _from_c(kind: Kind, name: str, layer: ConvLayer, c_file: Path, flags: Sequence[str]) -> Contender:
    """`conv2d` of a C file."""

    def bind(inputs: Sequence[Array], rng: np.random.Generator) -> Bound:
        image, filters, zeros = blocked_inputs(layer, *inputs)
        sums = zeros.astype(np.int32 if kind.c == "int32_t" else np.float32)
        image, filters, out = (placed(a, rng) for a in (image, filters, sums))
        run = bound_packed(c_file, "conv2d", flags, (out, image, filters), filters)
        return Bound(run, lambda: kind.rounded(blocked_output(out)).astype(np.float64))

    return Contender(name, bind)


def problem(layer: ConvLayer, images: int, given: argparse.Namespace) -> Problem:
    """A layer with everything that is to compute it. The first contender is what the others are compared with."""
    kind, wanted = KINDS[given.dtype], peers_of(given)
    chosen, choice_seconds = (layer, 0.0) if given.skip_polydl else with_best_layout(layer, images, given)
    macros = dict(_defines(chosen, images, given.dtype))
    flags = [f"-I{Path(polydl.__file__).parent / 'include'}", *define_flags(macros)]
    notes: dict[str, object] = {
        "network": layer.network,
        "images": images,
        "dtype": given.dtype,
        "layout": f"{chosen.ofm_block} output and {chosen.ifm_block} input channels together",
    }
    contenders: list[Contender] = []
    if "onednn" in wanted:
        from peers import small_types

        contenders += small_types.conv_contenders(given.dtype, layer)
    if "plain" in wanted:
        contenders.append(_from_c(kind, "plain C", chosen, SOURCE, flags))
    need_peer(contenders)
    if not given.skip_polydl:
        output, seconds = optimized(
            SOURCE, f"conv_{given.dtype}_{layer.name}", macros, given, kind.prepacked * "filter"
        )
        notes["polydl_seconds"] = seconds + choice_seconds
        contenders.append(_from_c(kind, POLYDL, chosen, output, flags))
    height, width = layer.padded
    a, b = data(kind, replace(layer, ifh=1, ifw=1, C=1, K=1), 1, np.random.default_rng(0), True)
    traffic = a.itemsize * images * layer.C * height * width + b.itemsize * layer.K * layer.C * layer.kh * layer.kw
    traffic += 4 * images * layer.K * layer.ofh * layer.ofw
    return Problem(
        layer.name,
        layer.operations(images),
        traffic,
        lambda r, i: data(kind, layer, images, r, i),
        contenders,
        notes,
        peak_product(kind, given.isa),
    )
