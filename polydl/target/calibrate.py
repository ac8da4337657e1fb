"""Measures the machine: FMA peak, bandwidth and latency of each level, one core and all of them; under a minute."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from polydl.base.errors import ToolchainError
from polydl.base.resources import templates
from polydl.target.detect import calibration_path, detect
from polydl.target.isa import VECTOR_TYPES
from polydl.target.machine_files import save
from polydl.target.model import OBSERVED, CacheLevel, Machine, Provenance, Tlb
from polydl.target.narrower import narrowing_flags

TIMEOUT_SECONDS = 120
"""For the compiler and for the measurement each: several times what they take on a busy machine."""
RUNS = 50
"""Of each measurement; the best counts."""
RUN_SECONDS = 5e-4
"""Of one run: well inside a scheduler's time slice, so that on a busy machine some runs are not interrupted."""
LONG_RUNS, LONG_SECONDS = 8, 0.5
"""A buffer that takes a run much longer to read is read this often at least, and no more once so much time is spent:
each run is then an average over many time slices."""
MEMORY_BYTES_MOST = 512 * 2**20
"""Largest buffer that memory is measured with: several times the L3 of one core complex."""
_LEAST_CYCLES = 1.0
"""Of a figure that is the difference of two times: less would be lost in their noise."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Buffer sizes that a cache level is measured with."""

    level: int
    alone_bytes: int
    shared_bytes: int
    """Per thread, with all threads active."""
    probed_from: int = 0
    """Of a level that several cores share: the least buffer that the level before it does not hold, from which on it is
    measured how much the level does; 0: its size is taken as the system says."""
    probed_to: int = 0
    """Its size as the system says."""
    sharers: int = 1
    """Threads that share it, all of them active."""


def calibrate(
    machine: Machine | None = None, folder: Path | None = None, compiler: str = "cc", isa: str | None = None
) -> Machine:
    """Measure the machine that this process runs on and store the result where `detect` finds it.

    `machine` is what is known without measuring (default: `detect()`), `folder` where to store (default: the user's
    data folder), `isa` the instruction set that it is kept to (default: all that it has). Takes the whole machine for
    some seconds. Figures that were measured are marked so; entries of the TLB and sizes stay what they were.

    Raises ToolchainError when there is no compiler, it fails, or the program does.
    """
    known = machine if machine is not None else detect(isa=isa)
    found = measure(known, compiler, isa)
    measured = _apply(known, found)
    save(measured, calibration_path(known, folder, isa))
    return measured


def measure(machine: Machine, compiler: str = "cc", isa: str | None = None) -> dict[str, float]:
    """The measured figures by name, as the generated program prints them. Raises ToolchainError."""
    path = shutil.which(compiler)
    if path is None:
        raise ToolchainError(f"no C compiler '{compiler}'", hint="install gcc or clang, or name one")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    text = environment.get_template("calibrate.c.j2").render(
        vector_bytes=machine.simd.vector_bytes,
        line_bytes=machine.caches[0].line_bytes,
        threads=machine.cores,
        runs=RUNS,
        run_seconds=RUN_SECONDS,
        long_runs=LONG_RUNS,
        long_seconds=LONG_SECONDS,
        levels=_levels(machine),
        memory_bytes=_memory_bytes(machine),
        tlb=machine.tlb,
    )
    with tempfile.TemporaryDirectory(prefix="polydl-calibrate-") as scratch:
        source, program = Path(scratch) / "calibrate.c", Path(scratch) / "calibrate"
        source.write_text(text, encoding="utf-8")
        flags = ["-O2", "-march=native", *narrowing_flags(isa), "-fopenmp", "-ffp-contract=fast", "-Wno-psabi"]
        _run([path, *flags, "-o", str(program), str(source)], "compiling the calibration program")
        bound = {"OMP_PROC_BIND": "true", "OMP_WAIT_POLICY": "active"}
        output = _run([str(program)], "the calibration program", bound)
    figures = {}
    for line in output.splitlines():
        key, value = line.split()
        figures[key] = float(value)
    return figures


def _run(command: list[str], what: str, variables: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env={**os.environ, **(variables or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{what} failed: {error}") from error
    if done.returncode != 0:
        raise ToolchainError(f"{what} failed with code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def _levels(machine: Machine) -> list[_Level]:
    """Half of each level, or of a thread's share of it, yet several times the level before it where that is room."""
    levels = []
    before = 0
    for cache in machine.caches:
        sharers = min(machine.cores, cache.shared_by_cores)
        alone = _round(max(cache.bytes // 2, min(2 * before, cache.bytes * 3 // 4)))
        shared = _round(max(cache.bytes // sharers // 2, min(2 * before, cache.bytes // sharers * 3 // 4)))
        probed = _round(2 * before) if cache.shared_by_cores > 1 and before and 4 * before <= cache.bytes else 0
        levels.append(_Level(cache.level, alone, shared, probed, _round(cache.bytes), sharers))
        before = cache.bytes
    return levels


def _round(size: int) -> int:
    return max(4096, size // 4096 * 4096)


def _memory_bytes(machine: Machine) -> int:
    """At least four times the outermost cache that a core sees, and twice all of them together where that is room."""
    last = machine.caches[-1]
    instances = -(-machine.cores // last.shared_by_cores)
    wanted = max(4 * last.bytes, 2 * instances * last.bytes * 2)
    return _round(min(wanted, max(MEMORY_BYTES_MOST, 4 * last.bytes)))


def _apply(machine: Machine, found: dict[str, float]) -> Machine:
    """`machine` with what was measured in place of what was assumed."""
    provenance = dict(machine.provenance)
    frequency = found.get("frequency_ghz", machine.frequency_ghz)
    if "frequency_ghz" in found:
        provenance["frequency_ghz"] = Provenance.MEASURED
    caches = tuple(_cache(cache, found, machine, frequency) for cache in machine.caches)
    for cache, before in zip(caches, machine.caches, strict=True):
        if cache.bytes != before.bytes:
            provenance[f"cache.{cache.level}.bytes"] = Provenance.MEASURED
        for key in ("latency_cycles", "bandwidth_bytes_per_cycle", "shared_bandwidth_bytes_per_cycle"):
            provenance[f"cache.{cache.level}.{key}"] = Provenance.MEASURED
    peaks = {element.c: found[f"fma_peak_gflops.{element.c}"] for element in VECTOR_TYPES}
    memory = replace(
        machine.memory,
        **{key: found[f"memory.{key}"] for key in ("latency_ns", "bandwidth_gbs", "shared_bandwidth_gbs")},
    )
    for key in (
        *(f"fma_peak_gflops.{element}" for element in peaks),
        "memory.latency_ns",
        "memory.bandwidth_gbs",
        "memory.shared_bandwidth_gbs",
        "call_cycles",
        "parallel_region_us",
    ):
        provenance[key] = Provenance.MEASURED
    tlb = _tlb(machine.tlb, found, frequency)
    if tlb is not machine.tlb:
        provenance |= dict.fromkeys(("tlb.l2_latency_cycles", "tlb.walk_cycles"), Provenance.MEASURED)
    observed = _observed(found, frequency)
    provenance |= {f"observed.{name}": Provenance.MEASURED for name in observed}
    return replace(
        machine,
        frequency_ghz=frequency,
        caches=caches,
        memory=memory,
        tlb=tlb,
        fma_peak_gflops={**machine.fma_peak_gflops, **peaks},
        call_cycles=max(_LEAST_CYCLES, found["call_ns"] * frequency),
        parallel_region_us=found["parallel_region_us"],
        observed=observed,
        provenance=provenance,
    )


def _tlb(tlb: Tlb, found: dict[str, float], frequency: float) -> Tlb:
    """With the cycles that were measured, where the system let base pages be asked for."""
    if "tlb.walk_ns" not in found:
        return tlb
    second = max(_LEAST_CYCLES, found["tlb.second_ns"] * frequency)
    return replace(tlb, l2_latency_cycles=second, walk_cycles=max(second, found["tlb.walk_ns"] * frequency))


def _observed(found: dict[str, float], frequency: float) -> dict[str, float]:
    """What no estimate uses, under the names of `polydl.target.model.OBSERVED`."""
    names = (key.removeprefix("observed.") for key in found if key.startswith("observed."))
    observed = {name: found[f"observed.{name}"] for name in names}
    if "huge_walk_ns" in observed:
        observed["huge_walk_cycles"] = max(0.0, observed.pop("huge_walk_ns") * frequency)
    return {name: round(observed[name], 3) for name in OBSERVED if name in observed}


def _cache(cache: CacheLevel, found: dict[str, float], machine: Machine, frequency: float) -> CacheLevel:
    """A level with its measured figures; the shared bandwidth is of one instance, with its active cores. Its size is
    what this process gets of it."""
    alone = found[f"cache.{cache.level}.bandwidth"] / frequency
    instances = -(-machine.cores // cache.shared_by_cores)
    together = found[f"cache.{cache.level}.all_bandwidth"] / frequency / instances
    return replace(
        cache,
        bytes=int(found.get(f"cache.{cache.level}.bytes", cache.bytes)),
        latency_cycles=found[f"cache.{cache.level}.latency_ns"] * frequency,
        bandwidth_bytes_per_cycle=alone,
        shared_bandwidth_bytes_per_cycle=together,
    )
