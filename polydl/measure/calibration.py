"""`polydl machine --calibrate`: the machine's figures, and how near to the FMA peak its register blocks come."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polydl.base.errors import ToolchainError
from polydl.kernels import microkernel
from polydl.kernels.microkernel import Microkernel
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.measure.compiler import find_compiler
from polydl.measure.measurement import Toolchain
from polydl.model.types import F32, ElementType
from polydl.rank.instruction_set import target_isa
from polydl.target import Machine, calibrate, calibration_path, detect
from polydl.target.isa import long_vectors
from polydl.target.machine_files import save
from polydl.target.model import Provenance
from polydl.target.products import FMA, MEASURED, Product
from polydl.target.register_blocks import efficiency_of, register_blocks

TIMEOUT_SECONDS = 120
"""For the compiler and for the program each: several times what they take on a busy machine."""
SAMPLES = 15
"""Of each block and of the FMA loop before it; the best counts."""
SAMPLE_FLOPS = 1e8
"""Work in one timed sample: about a millisecond, well inside a scheduler's time slice."""
STEPS = 1024
"""Reduction steps of one call, about: next to these its start and its stores are lost."""
LEAST = 0.5
"""Modelled fraction of the peak below which a block is in no search."""


def calibrated(
    toolchain: Toolchain, machine: Machine | None = None, folder: Path | None = None, isa: str | None = None
) -> Machine:
    """The machine that this process runs on, measured and stored where `detect` finds it: what `target.calibrate`
    measures, the speeds of register blocks, and the peaks of inner products. Raises ToolchainError; what was measured
    before it stays stored."""
    known = machine if machine is not None else detect(isa=isa)
    measured = calibrate(known, folder, find_compiler(toolchain), isa)
    shares, products = block_shares(measured, toolchain), product_peaks(measured, toolchain)
    names = [*(f"register_blocks.{name}" for name in shares), *(f"product_gops.{name}" for name in products)]
    provenance = {**measured.provenance, **dict.fromkeys(names, Provenance.MEASURED)}
    whole = replace(measured, register_blocks=shares, product_gops=products, provenance=provenance)
    save(whole, calibration_path(known, folder, isa))
    return whole


def block_shares(machine: Machine, toolchain: Toolchain) -> dict[str, float]:
    """The fraction of the FMA peak that each register block of `machine` reaches on data in the first-level cache, by
    `ROWSxVECTORS`; at most 1. On `float`: other element types take as many vectors. Raises ToolchainError.

    Blocks of one vector are left out: what they reach depends on how A lies (`target.register_blocks.paired_rows`).
    """
    target = target_isa(machine)
    lanes = target.lanes(F32)
    blocks = [(m, n // lanes) for m, n in register_blocks(F32, target, 0.0) if n > lanes]
    blocks = [(rows, vectors) for rows, vectors in blocks if efficiency_of(target, rows, vectors) >= LEAST]
    kernels = [microkernel.generate(_near(machine, rows, vectors * lanes)) for rows, vectors in blocks]
    speeds = kernel_speeds(F32, kernels, SAMPLES, toolchain, SAMPLE_FLOPS, long=long_vectors(machine.simd.isa))
    # The best of each, as of every figure of a calibration: what the core does when no other thread takes its ports.
    best = speeds.max(axis=0)
    shares = np.minimum(1.0, best[1:] / best[0])
    return {f"{r}x{v}": round(float(share), 3) for (r, v), share in zip(blocks, shares, strict=True)}


def product_peaks(machine: Machine, toolchain: Toolchain) -> dict[str, float]:
    """10^9 operations per second of one core in each inner product of groups (`products.MEASURED`), by its name: the
    FMA peak of `machine` times what the one reaches of the other, both in registers and in turn; of matrices where the
    machine has them. Raises ToolchainError."""
    found, target = {}, target_isa(machine)
    for name, product in MEASURED.items():
        if not target.has(product):
            continue
        long = long_vectors(machine.simd.isa)
        speeds = kernel_speeds(product.sums[0], (), SAMPLES, toolchain, SAMPLE_FLOPS, product, long).max(axis=0)
        if speeds[0] > 0:  # the system may refuse tiles
            found[name] = round(machine.peak(F32) / 1e9 * float(speeds[0] / speeds[1]), 2)
    return found


def _near(machine: Machine, m: int, n: int) -> MicrokernelSpec:
    """m x n, row by row, B packed n wide, over rows of A and B that fill half of the first-level cache, read again
    until there were STEPS."""
    k = max(1, machine.caches[0].bytes // 2 // F32.bytes // (m + n))
    reductions = (Reduction(-(-STEPS // k), 0, 0), Reduction(k, 1, n))
    return MicrokernelSpec(F32, m, n, k, n, reductions, remainders=False, long=long_vectors(machine.simd.isa))


def kernel_speeds(
    element: ElementType,
    kernels: Sequence[Microkernel],
    samples: int,
    toolchain: Toolchain,
    sample_flops: float,
    product: Product = FMA,
    long: str = "",
) -> npt.NDArray[np.float64]:
    """10^9 operations per second, sample by sample: of a loop of nothing but `product` on sums of type `element`, of
    each of the kernels, which compute with it, and, where it is of groups, of a loop of nothing but FMAs on `float`:
    (samples, 1 + kernels), or (samples, 2 + kernels). One after the other in one process on the same buffers. Extents
    and strides are constants; `long`: see `target.isa.LONG`. Raises ToolchainError."""
    steps = [float(np.prod([r.extent or 1 for r in k.spec.reductions])) for k in kernels]
    flops = [2.0 * product.group * k.spec.m * k.spec.n * n for k, n in zip(kernels, steps, strict=True)]
    reached = np.array([(1, 1, 1), *(_elements(kernel.spec) for kernel in kernels)]).max(axis=0)
    needed = [microkernel.isa_prologue(e, long) for e in (F32, element, product.word(element))]
    before = dict.fromkeys([*needed, *(text for kernel in kernels for text in microkernel.prologues(kernel.spec))])
    tiles = microkernel.peak_tiles(product)
    lanes = f"POLYDL_{element.name.upper()}_LANES"
    most = 2 * product.group * (1 if tiles is None else tiles.words)
    each = f"(long)({sample_flops} / ({most}{f' * ACCUMULATORS * {lanes}' if tiles is None else ''}))"
    text = (
        microkernel.environment()
        .get_template("microkernel_peak.c.j2")
        .render(
            tiles=tiles,
            steps=each,
            t=element,
            word=product.word(element),
            group=product.group,
            multiply=f"polydl_{product.call if product.in_words else element.name + '_fma'}",
            prologue="".join([*before, microkernel.product_prologue(product, long)]),
            kernels=kernels,
            flops=flops,
            calls=[max(1, round(sample_flops / f)) for f in flops],
            sample_flops=sample_flops,
            samples=samples,
            elements=dict(zip("ABC", (int(count) for count in reached), strict=True)),
        )
    )
    with tempfile.TemporaryDirectory(prefix="polydl-calibrate-") as scratch:
        source, program = Path(scratch) / "peak.c", Path(scratch) / "peak"
        source.write_text(text, encoding="utf-8")
        flags = [*toolchain.cflags, str(source), "-o", str(program), *toolchain.ldflags]
        _run([find_compiler(toolchain), *flags], "compiling the register blocks")
        printed = _run([str(program)], "timing the register blocks")
    return np.array([[float(word) for word in line.split()] for line in printed.splitlines()])


def _elements(spec: MicrokernelSpec) -> tuple[int, int, int]:
    """From the first to the last element of A, B and C that a call with constant extents and strides touches."""
    far = [((r.extent or 1) - 1, r.a_stride or 0, r.b_stride or 0) for r in spec.reductions]
    a = (spec.m - 1) * (spec.a_m or 0) + sum(last * stride for last, stride, _ in far) + 1
    b = spec.n - 1 + sum(last * stride for last, _, stride in far) + 1
    return a, b, (spec.m - 1) * (spec.c_m or 0) + spec.n


def _run(command: list[str], what: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{what} failed: {error}") from error
    if done.returncode != 0:
        raise ToolchainError(f"{what} failed with code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout
