"""Convolutions whose sizes are arguments: layers of resnet at batches and image sizes that nobody tuned."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import conv
import numpy as np
from bench import POLYDL, Bound, Contender, Problem
from common import define_flags, scratch_folder
from native import KERNELS, Floats, bound_with_sizes, placed
from sizes import ConvLayer, conv_layers

import polydl

SOURCE = KERNELS / "conv_any.c"
TUNED = {"N": 1, "C": 128, "K": 128, "H": 28, "W": 28}
_MOST = 1e10
"""Operations of a point, at most: larger ones are drawn again."""
_IMAGES = 16
_SMALLEST = 7


@dataclass(frozen=True, slots=True)
class Point:
    """A layer with an image size, at a batch size."""

    layer: ConvLayer
    images: int

    @property
    def name(self) -> str:
        """As `3x3s2_64x128_n4_30x41`: filter, stride, channels, images, height and width."""
        one = self.layer
        return f"{one.kh}x{one.kw}s{one.stride}_{one.C}x{one.K}_n{self.images}_{one.ifh}x{one.ifw}"


def drawn(count: int, largest: int, seed: int) -> list[Point]:
    """Layers of resnet with 3x3 and 1x1 filters, in turn, with images from 7 to `largest` each way, 1 to 16 of them."""
    rng = np.random.default_rng(seed)
    layers = [one for one in conv_layers(networks=("resnet",)) if (one.kh, one.kw) in ((3, 3), (1, 1))]
    shapes = [[one for one in layers if one.kh == size] for size in (3, 1)]
    found: list[Point] = []
    while len(found) < count:
        among = shapes[len(found) % 2]
        images, height, width = (
            round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))
            for low, high in ((1, _IMAGES), (_SMALLEST, largest), (_SMALLEST, largest))
        )
        layer = replace(among[int(rng.integers(len(among)))], ifh=height, ifw=width)
        if layer.operations(images) <= _MOST:
            found.append(Point(layer, images))
    return found


def problem(point: Point, given: argparse.Namespace) -> Problem:
    """A point with oneDNN in its three layouts and polydl's one output for the filter and the stride."""
    from peers import onednn

    layer = point.layer
    macros = {"KH": layer.kh, "KW": layer.kw, "STRIDE": layer.stride}
    output, seconds = made(tuple(macros.values()), scratch_folder(given), given.threads, given.top_k, given.isa)
    contenders = [*onednn.conv_contenders(layer), _for_any(layer, output, define_flags(macros))]
    notes: dict[str, object] = {"polydl_seconds": seconds, "images": point.images}
    operations, size = layer.operations(point.images), layer.bytes(point.images)
    return Problem(point.name, operations, size, lambda r, i: conv.data(layer, point.images, r, i), contenders, notes)


@cache
def made(shape: tuple[int, int, int], folder: Path, threads: int, top_k: int, isa: str | None) -> tuple[Path, float]:
    """The output for filters of (height, width, stride), and the seconds that it took."""
    height, width, stride = shape
    output = folder / f"conv_any_{height}x{width}s{stride}.c"
    defines = {"KH": height, "KW": width, "STRIDE": stride}
    done = polydl.optimize(SOURCE, output, defines=defines, sizes=TUNED, threads=threads, top_k=top_k, isa=isa)
    taken = done.seconds["total"]
    print(f"one output for {height}x{width} in steps of {stride}, made in {taken:.0f} s: {done.scops[0].other_sizes}")
    return output, taken


def _for_any(layer: ConvLayer, c_file: Path, flags: Sequence[str]) -> Contender:
    """`conv2d` with its sizes as arguments. Layouts are changed outside of the time."""

    def bind(inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        image, filters = inputs
        height, width = layer.padded
        around = ((0, 0), (0, 0), (layer.pad_h, layer.pad_h), (layer.pad_w, layer.pad_w))
        padded = np.pad(image, around)[:, :, :height, :width]
        x, w = placed(padded.transpose(0, 2, 3, 1), rng), placed(filters.transpose(2, 3, 1, 0), rng)
        out = placed(np.zeros((len(image), layer.ofh, layer.ofw, layer.K), dtype=np.float32), rng)
        sizes = len(image), layer.C, layer.K, layer.ofh, layer.ofw
        call = bound_with_sizes(c_file, "conv2d", sizes, (x, w, out), flags)
        return Bound(call, lambda: np.ascontiguousarray(out.transpose(0, 3, 1, 2)))

    return Contender(POLYDL, bind)
