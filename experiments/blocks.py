"""Blocks of other steps than products: pooling, depthwise convolution, box filters, (min, +), distances.

    python experiments/blocks.py --json blocks.json
    python experiments/blocks.py --only depthwise_channels_last-3x3-1 --only min_plus

    python experiments/blocks.py --keep made --no-tune --prepare; python experiments/blocks.py --keep made --made

polydl's output for programs of tests/everyday and tests/programs, as people write them, beside gcc's and, where there
is such an operator, oneDNN's by its own name in the same layout with packed weights (depthwise convolutions),
PyTorch's, or LIBXSMM's (batches of small products). Everything is alternated in one process; ratios are medians of
those within each round. Operations: one for each addition, product, or comparison of the innermost statement, so that
the share of the FMA peak says how far it is from the bound of one port. --prepare has polydl write everything and times
nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from bench import POLYDL, Bound, Contender, Problem
from common import define_flags, optimized, parser, prepare, run
from native import Floats, bound_call, keep_libraries, library, placed
from peers import xsmm
from sizes import ConvLayer

EVERYDAY = Path(__file__).parents[1] / "tests" / "everyday"
PROGRAMS = EVERYDAY.parent / "programs"
_LARGEST = 1 << 20
"""Elements of a result up to which all of it is compared."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program with sizes."""

    name: str
    program: str
    """File and function."""
    defines: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    """Of its arguments; the last one is the result."""
    operations: float
    torch: Callable[[Sequence[object]], Callable[[], object]] | None = None
    """From the inputs as tensors what runs the same operator; None: there is none."""
    dtype: str = "float32"
    peer: Callable[[], Contender] | None = None
    """A library that computes the same; its result has the layout of the program's."""
    source: Path | None = None
    """Where the program is, if not in tests/everyday."""

    @property
    def file(self) -> Path:
        return self.source or EVERYDAY / f"{self.program}.c"


def cases() -> list[Case]:
    """All that is measured."""
    found = []
    for k, s in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2)):
        c, h = 128, 56 // s
        rows = h * s + k - s
        sizes = {"H": h, "W": h, "K": k, "S": s}
        done = 2.0 * c * h * h * k * k
        planar = ((c, rows, rows), (c, k, k), (c, h, h))
        last = ((rows, rows, c), (k, k, c), (h, h, c))
        blocked = ((c // 16, rows, rows, 16), (c // 16, k, k, 16), (c // 16, h, h, 16))
        label = f"{k}x{k}-{s}"
        bare = ConvLayer("blocks", label, rows, rows, c, c, k, k, 0, 0, s, groups=c)
        found += [
            Case(f"depthwise_{name}-{label}", f"depthwise_{name}", {**sizes, **channels}, shapes, done,
                 peer=partial(_depthwise, bare, layout))
            for name, layout, channels, shapes in (("planar", "nchw", {"CH": c}, planar),
                ("channels_last", "nhwc", {"CH": c}, last), ("blocked", "blocked", {"CB": c // 16}, blocked))
        ]  # fmt: skip
        inside = ConvLayer("blocks", label, h * s, h * s, c, c, k, k, k // 2, k // 2, s, groups=c)
        found += [
            Case(f"depthwise_padded-{label}", "depthwise_padded", {**sizes, "CH": c},
                 ((c, h * s, h * s), (c, k, k), (c, h, h)), done, peer=partial(_depthwise, inside, "nchw")),
            Case(f"depthwise_padded_last-{label}", "depthwise_padded_last", {**sizes, "CH": c},
                 ((h * s, h * s, c), (k, k, c), (h, h, c)), done, peer=partial(_depthwise, inside, "nhwc")),
        ]  # fmt: skip
    c, h = 128, 56
    windows = 9.0 * c * h * h
    over = {"CH": c, "H": h, "W": h}
    found += [
        Case("max_pool_channels_last", "max_pool_channels_last", over, ((2 * h + 1, 2 * h + 1, c), (h, h, c)), windows,
             _pool("max", last=True, padding=0, stride=2)),
        Case("avg_pool_channels_last", "avg_pool_channels_last", over, ((2 * h + 1, 2 * h + 1, c), (h, h, c)), windows,
             _pool("avg", last=True, padding=0, stride=2)),
        Case("max_pool_padded", "max_pool_padded", over, ((c, h, h), (c, h, h)), windows,
             _pool("max", last=False, padding=1, stride=1)),
        Case("max_pool_strided", "max_pool_strided", over, ((c, 2 * h, 2 * h), (c, h, h)), windows,
             _pool("max", last=False, padding=1, stride=2)),
        Case("max_pool", "max_pool", {"C": 64, "H": 56, "W": 56}, ((64, 112, 112), (64, 56, 56)), 3.0 * 64 * 56 * 56,
             _window2),
        Case("box_5x5", "box_5x5", {"H": 1080, "W": 1920}, ((1084, 1924), (1080, 1920)), 25.0 * 1080 * 1920, _box),
        Case("min_plus_product", "min_plus_product", {"M": 512, "N": 512, "K": 512}, ((512, 512),) * 3, 2.0 * 512**3),
        Case("max_plus_product", "max_plus_product", {"M": 512, "N": 512, "K": 512}, ((512, 512),) * 3, 2.0 * 512**3),
        Case("viterbi_step", "viterbi_step", {"B": 512, "S": 512}, ((512, 512),) * 4, 2.0 * 512**3),
        Case("pairwise_distances", "pairwise_distances", {"M": 512, "N": 512, "DIM": 64}, _POINTS, 3.0 * 64 * 512**2,
             _cdist(2.0)),
        Case("manhattan_distances", "manhattan_distances", {"M": 512, "N": 512, "DIM": 64}, _POINTS, 3.0 * 64 * 512**2,
             _cdist(1.0), "float64"),
        Case("chebyshev_distances", "chebyshev_distances", {"M": 512, "N": 512, "DIM": 64}, _POINTS, 3.0 * 64 * 512**2,
             _cdist(float("inf"))),
        Case("conv1d_dilated", "conv1d_dilated", {"CI": 15, "CO": 15, "W": 60400, "TAPS": 51},
             ((15, 60400 + 400), (15, 15, 51), (15, 60400)), 2.0 * 15 * 15 * 51 * 60400, _dilated),
        Case("conv1d_dilated_data", "conv1d_dilated_data", {"CI": 15, "CO": 15, "W": 60400, "TAPS": 51},
             ((15, 60400), (15, 15, 51), (15, 60400 + 400)), 2.0 * 15 * 15 * 51 * 60400, _dilated_data),
        Case("conv1d_dilated_weights", "conv1d_dilated_weights", {"CI": 15, "CO": 15, "W": 60400, "TAPS": 51},
             ((15, 60400), (15, 60400 + 400), (15, 15, 51)), 2.0 * 15 * 15 * 51 * 60400, _dilated_weights),
    ]  # fmt: skip
    for m, n, depth in _SMALL:
        batch = _BATCH // (m * depth + depth * n + m * n)
        found.append(
            Case(
                f"batch-{m}x{n}x{depth}",
                "gemm_batched",
                {"BATCH": batch, "M": m, "N": n, "K": depth},
                ((batch, m, depth), (batch, depth, n), (batch, m, n)),
                2.0 * batch * m * n * depth,
                peer=xsmm.batch_contender,
                source=PROGRAMS / "gemm_batched.c",
            )
        )
    return found


_SMALL = ((4, 4, 4), (8, 8, 8), (16, 16, 16), (23, 23, 23), (32, 32, 32), (64, 64, 64), (9, 35, 15))
"""Rows, columns and depth of products in batches."""
_BATCH = 1 << 21
"""Elements of the three matrices of a batch, about: they stay in the last-level cache."""
_POINTS = ((512, 64), (512, 64), (512, 512))


def _depthwise(layer: ConvLayer, layout: str) -> Contender:
    """oneDNN in the layout of the program, whose image has the padding's zeros or leaves them out as `layer` says."""
    from peers import onednn

    names = {"nchw": "oneDNN plain", "nhwc": "oneDNN channels-last", "blocked": "oneDNN blocked"}
    inner = next(c for c in onednn.conv_contenders(layer) if c.name == names[layout])

    def bind(given: Sequence[Floats], rng: np.random.Generator) -> Bound:
        image, weights = given
        bound = inner.bind([_planes(image, layout)[None], _planes(weights, layout)[:, None]], rng)
        return replace(bound, result=lambda: _laid_out(bound.result()[0], layout).reshape(-1)[:_LARGEST])

    return Contender(inner.name, bind)


def _planes(image: Floats, layout: str) -> Floats:
    """[channels][y][x] of an image or of weights."""
    if layout == "nchw":
        return image
    if layout == "nhwc":
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    return np.ascontiguousarray(image.transpose(0, 3, 1, 2)).reshape(-1, *image.shape[1:3])


def _laid_out(planes: Floats, layout: str) -> Floats:
    """The image in a layout, of [channels][y][x]."""
    if layout == "nchw":
        return planes
    if layout == "nhwc":
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    return np.ascontiguousarray(planes.reshape(-1, 16, *planes.shape[1:]).transpose(0, 2, 3, 1))


def _pool(what: str, *, last: bool, padding: int, stride: int) -> Callable[[Sequence[object]], Callable[[], object]]:
    def bind(inputs: Sequence[object]) -> Callable[[], object]:
        import torch
        from torch.nn import functional

        image = torch.as_tensor(inputs[0])
        image = (image.permute(2, 0, 1) if last else image)[None]
        image = image.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
        if what == "max":
            return lambda: functional.max_pool2d(image, 3, stride=stride, padding=padding)
        return lambda: functional.avg_pool2d(image, 3, stride=stride, padding=padding)

    return bind


def _window2(inputs: Sequence[object]) -> Callable[[], object]:
    import torch
    from torch.nn import functional

    image = torch.as_tensor(inputs[0])[None]
    return lambda: functional.max_pool2d(image, 2)


def _box(inputs: Sequence[object]) -> Callable[[], object]:
    import torch
    from torch.nn import functional

    image = torch.as_tensor(inputs[0])[None, None]
    return lambda: functional.avg_pool2d(image, 5, stride=1)


def _cdist(power: float) -> Callable[[Sequence[object]], Callable[[], object]]:
    def bind(inputs: Sequence[object]) -> Callable[[], object]:
        import torch

        x, y = (torch.as_tensor(one) for one in inputs)
        return lambda: torch.cdist(x, y, p=power, compute_mode="donot_use_mm_for_euclid_dist")

    return bind


def _dilated(inputs: Sequence[object]) -> Callable[[], object]:
    import torch

    image, weights = (torch.as_tensor(one) for one in inputs)
    return lambda: torch.conv1d(image[None], weights, dilation=8)


def _dilated_data(inputs: Sequence[object]) -> Callable[[], object]:
    import torch

    gradient, weights = (torch.as_tensor(one) for one in inputs)
    return lambda: torch.conv_transpose1d(gradient[None], weights, dilation=8)


def _dilated_weights(inputs: Sequence[object]) -> Callable[[], object]:
    import torch

    gradient, image = (torch.as_tensor(one) for one in inputs)
    shape = (gradient.shape[0], image.shape[0], (image.shape[1] - gradient.shape[1]) // 8 + 1)
    return lambda: torch.nn.grad.conv1d_weight(image[None], shape, gradient[None], dilation=8)


def _from_c(name: str, case: Case, source: Path) -> Contender:
    def bind(given: Sequence[Floats], rng: np.random.Generator) -> Bound:
        arrays = [placed(one, rng) for one in given]
        arrays.append(placed(np.zeros(case.shapes[-1], case.dtype), rng))
        call = bound_call(source, case.program, ["-fopenmp", *define_flags(case.defines)], arrays)
        return Bound(call, lambda: arrays[-1].reshape(-1)[:_LARGEST])

    return Contender(name, bind)


def _from_torch(case: Case) -> Contender:
    """Its results have other layouts, and the pairs' distances are roots: what is compared is gcc's with polydl's."""
    make = case.torch
    assert make is not None

    def bind(given: Sequence[Floats], rng: np.random.Generator) -> Bound:
        call = make([placed(one, rng) for one in given])
        plain = _from_c("gcc", case, case.file).bind(given, rng)
        plain.run()
        return Bound(call, plain.result)

    return Contender("torch", bind)


def problem(case: Case, given: argparse.Namespace) -> Problem:
    """A case with everything that is to compute it. The first contender is what the others are compared with."""
    source = case.file
    contenders = [_from_c("gcc", case, source)]
    if case.torch is not None:
        contenders.append(_from_torch(case))
    if case.peer is not None:
        contenders.append(case.peer())
    if not given.skip_polydl:
        contenders.append(_from_c(POLYDL, case, optimized(source, case.name, case.defines, given)[0]))

    def data(rng: np.random.Generator, integral: bool) -> Sequence[Floats]:
        def values(shape: tuple[int, ...]) -> Floats:
            made = rng.integers(-3, 4, shape) if integral else rng.random(shape)
            return made.astype(case.dtype)

        return [values(shape) for shape in case.shapes[:-1]]

    size = 4 if case.dtype == "float32" else 8
    moved = float(size * sum(int(np.prod(shape)) for shape in case.shapes))
    return Problem(case.name, case.operations, moved, data, contenders)


def main() -> int:
    """Entry point. Exit code 1 where a result is wrong."""
    options = parser(__doc__ or "")
    options.add_argument("--prepare", action="store_true", help="have polydl write everything, and time nothing")
    given = options.parse_args()
    prepare(given.threads, given.isa)
    if given.keep is not None:
        keep_libraries(given.keep)
    if given.prepare:
        for case in cases():
            if not given.only or case.name in given.only:
                made, seconds = optimized(case.file, case.name, case.defines, given)
                print(case.name, made, f"{seconds:.1f} s", flush=True)
                for source in (case.file, made):
                    library(source, ("-fopenmp", *define_flags(case.defines)))
        return 0
    todo = [(case.name, partial(problem, case, given)) for case in cases()]
    return run(given, "Blocks of other steps than products", todo)


if __name__ == "__main__":
    sys.exit(main())
