"""Detects the machine that this process runs on: from Linux (/sys, /proc), a stored calibration, else from presets."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import fields, replace
from pathlib import Path

import platformdirs

from polydl.base.records import dataclass
from polydl.target.machine_files import load, preset, preset_match, preset_names
from polydl.target.model import CacheLevel, Machine, Provenance, Simd
from polydl.target.narrower import narrowed
from polydl.target.products import features_of

GUEST_BYTES_PER_CORE = 16 << 20
"""Of the last cache in a virtual machine, at most: it sees all of its host's, which it shares with other guests. Where
two cores see 480 MiB, stores to 32 MiB again and again take half as long as to 64 MiB and more (Xeon with AMX)."""
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True, slots=True)
class Processor:
    """What /proc/cpuinfo says, in one form for x86 and Arm; empty or 0 where it says nothing."""

    vendor: str
    family: int
    model: int
    name: str
    flags: frozenset[str]
    mhz: float


def detect(
    root: Path = Path("/"),
    calibrations: Path | None = None,
    affinity: set[int] | None = None,
    isa: str | None = None,
) -> Machine:
    """The machine that this process runs on; with `isa`, as one that has no wider instruction set (target.narrower).

    Sizes, sharing, cores and vector unit come from the system, respecting CPU affinity and cgroup quotas; latencies,
    bandwidths, TLB and FMA peak from a calibration of this machine when one is stored, otherwise from the preset of
    the processor's kind (`Provenance.DEFAULT`), otherwise from `presets/default.toml`. `root`, `calibrations` (the
    folder of `calibration_path`) and `affinity` are for tests. Nothing here fails on a missing file. Raises
    InputError for an `isa` that the machine has not.
    """
    cpus = affinity if affinity is not None else _affinity()
    processor = read_processor(root)
    machine = replace(preset(preset_for(processor)), provenance={})
    machine = replace(machine, provenance=dict.fromkeys(_keys(machine), Provenance.DEFAULT))
    machine = _with_caches(machine, root, min(cpus, default=0))
    machine = _with_cores(machine, root, cpus)
    machine = _with_share_of_guest(machine) if "hypervisor" in processor.flags else machine
    machine = _with_processor(machine, processor, root)
    whole = _calibrated(machine, calibration_path(machine, calibrations))
    if isa is None or isa == whole.simd.isa:
        return whole if isa is None else narrowed(whole, isa)
    return _calibrated(narrowed(whole, isa), calibration_path(machine, calibrations, isa))


def _calibrated(machine: Machine, stored: Path) -> Machine:
    """With what was measured, where it was."""
    if not stored.is_file():
        return machine
    # How many cores this process may use can change between runs; what was measured on them does not.
    return replace(load(stored, base=machine), cores=machine.cores)


def calibration_path(machine: Machine, folder: Path | None = None, isa: str | None = None) -> Path:
    """Where the calibration of `machine` is stored: by processor and cache sizes, and by the instruction set that it
    was kept to, in the user's data folder."""
    folder = folder if folder is not None else Path(platformdirs.user_data_dir("polydl")) / "machines"
    hardware = (machine.name, [(c.level, c.bytes, c.ways, c.shared_by_cores) for c in machine.caches])
    kept = f"-{isa}" if isa is not None else ""
    return folder / f"{hashlib.sha256(repr(hardware).encode()).hexdigest()[:12]}{kept}.toml"


def preset_for(processor: Processor) -> str:
    """Name of the preset for a processor; `default` when none matches."""
    for name in preset_names():
        match = preset_match(name)
        if match is None or (match.vendor, match.family) != (processor.vendor, processor.family):
            continue
        if not match.models or processor.model in match.models:
            return name
    return "default"


def read_processor(root: Path = Path("/")) -> Processor:
    """The first processor of /proc/cpuinfo."""
    text = _read(root / "proc/cpuinfo") or ""
    found: dict[str, str] = {}
    clocks = []
    for line in text.splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
        if key.strip() == "cpu MHz":
            clocks.append(_number(value))
    return Processor(
        vendor=found.get("vendor_id", found.get("CPU implementer", "")),
        family=_integer(found.get("cpu family", found.get("CPU architecture", ""))),
        model=_integer(found.get("model", found.get("CPU part", ""))),
        name=found.get("model name", ""),
        flags=frozenset(found.get("flags", found.get("Features", "")).split()),
        mhz=max(clocks, default=0.0),
    )


def _keys(machine: Machine) -> list[str]:
    keys = [
        "name",
        "cores",
        "frequency_ghz",
        "call_cycles",
        "parallel_region_us",
        *(f"fma_peak_gflops.{element}" for element in machine.fma_peak_gflops),
        *(f"product_gops.{name}" for name in machine.product_gops),
    ]
    for name in ("simd", "memory", "tlb"):
        keys += [f"{name}.{item.name}" for item in fields(getattr(machine, name))]
    return keys + [f"cache.{cache.level}.{item.name}" for cache in machine.caches for item in fields(cache)]


def _with_caches(machine: Machine, root: Path, cpu: int) -> Machine:
    """Caches as sysfs lists them for one core; levels it doesn't list are dropped if it lists any."""
    provenance = dict(machine.provenance)
    found = []
    for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        kind, level, size = (_read(index / name) for name in ("type", "level", "size"))
        if kind not in ("Data", "Unified") or not level or not size:
            continue
        nearest = min(machine.caches, key=lambda cache: abs(cache.level - int(level)))
        figures = {
            "bytes": _bytes(size),
            "line_bytes": _integer(_read(index / "coherency_line_size") or ""),
            "ways": _integer(_read(index / "ways_of_associativity") or ""),
            "shared_by_cores": len(_physical_cores(root, _cpu_list(_read(index / "shared_cpu_list") or ""))),
        }
        known = {key: value for key, value in figures.items() if value > 0}
        provenance |= {f"cache.{level}.{item.name}": Provenance.DEFAULT for item in fields(CacheLevel)}
        provenance |= {f"cache.{level}.{key}": Provenance.SYSFS for key in ("level", *known)}
        found.append(replace(nearest, level=int(level), **known))
    if not found:
        return machine
    levels = {cache.level for cache in found}
    provenance = {
        key: source
        for key, source in provenance.items()
        if not key.startswith("cache.") or int(key.split(".")[1]) in levels
    }
    return replace(machine, caches=tuple(sorted(found, key=lambda cache: cache.level)), provenance=provenance)


def _with_cores(machine: Machine, root: Path, cpus: set[int]) -> Machine:
    cores = len(_physical_cores(root, cpus)) or 1
    limit = cgroup_cpus(root)
    if limit is not None:
        cores = max(1, min(cores, int(limit)))
    return replace(machine, cores=cores, provenance={**machine.provenance, "cores": Provenance.SYSFS})


def _with_share_of_guest(machine: Machine) -> Machine:
    """With no more of the last cache than a virtual machine has for itself."""
    *inner, last = machine.caches
    most = GUEST_BYTES_PER_CORE * max(last.shared_by_cores, 1)
    return replace(machine, caches=(*inner, replace(last, bytes=min(last.bytes, most))))


def _with_processor(machine: Machine, processor: Processor, root: Path) -> Machine:
    """Name, vector unit and clock; the FMA peak of the preset scaled to them."""
    known = preset_for(processor) != "default"
    simd, frequency = machine.simd, machine.frequency_ghz
    if processor.flags:
        simd = next((unit for flags, unit in _VECTOR_UNITS if flags <= processor.flags), _NO_VECTOR_UNIT)
        simd = replace(simd, features=features_of(simd.isa, processor.flags))
        if known and simd.vector_bytes < machine.simd.vector_bytes:
            # A virtual machine hides the wide registers; pipes that are no wider than what is left lose nothing.
            machine = narrowed(machine, "generic" if simd.isa == _NO_VECTOR_UNIT.isa else simd.isa)
    provenance = dict(machine.provenance)
    if processor.flags:
        provenance |= {f"simd.{item.name}": Provenance.SYSFS for item in fields(Simd)}
    fastest = _integer(_read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") or "") / 1e6
    if not known and not fastest:
        # The clock of /proc/cpuinfo may be an idle one, or in a virtual machine the base clock: a known kind of
        # processor has its clock under vector load in its preset, which is nearer to the truth.
        fastest = processor.mhz / 1e3
    if fastest and (not known or fastest < frequency):
        frequency = fastest
        provenance["frequency_ghz"] = Provenance.SYSFS
    # The preset for unknown processors counts pipes of 16 bytes.
    widths = 1.0 if known else simd.vector_bytes / machine.simd.vector_bytes
    scale = frequency / machine.frequency_ghz * widths
    if processor.name:
        provenance["name"] = Provenance.SYSFS
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        provenance["tlb.page_bytes"] = Provenance.SYSFS
    except (OSError, ValueError):
        page = machine.tlb.page_bytes
    return replace(
        machine,
        name=processor.name or machine.name,
        simd=simd,
        frequency_ghz=frequency,
        tlb=replace(machine.tlb, page_bytes=page),
        fma_peak_gflops={element: peak * scale for element, peak in machine.fma_peak_gflops.items()},
        product_gops={name: peak * scale for name, peak in machine.product_gops.items()},
        provenance=provenance,
    )


_VECTOR_UNITS = (
    (frozenset({"avx512f", "avx512vl", "avx512dq", "avx512bw"}), Simd("avx512", 64, 32)),
    (frozenset({"avx2", "fma"}), Simd("avx2", 32, 16)),
    (frozenset({"asimd"}), Simd("neon", 16, 32)),
)
"""Flags of /proc/cpuinfo that a vector unit shows by, widest first (register counts: the architecture manuals)."""

_NO_VECTOR_UNIT = Simd("none", 16, 16)
"""The flags show none of these: SSE2, which is part of x86-64."""


def _physical_cores(root: Path, cpus: set[int]) -> set[str]:
    """CPUs that are hardware threads of one core counted once, by the list of their siblings."""
    cores = set()
    for cpu in cpus:
        siblings = _read(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings or str(cpu))
    return cores


def cgroup_cpus(root: Path) -> float | None:
    """CPUs' worth of time that cgroups (version 2 or 1) grant, the least along the hierarchy; None for no limit."""
    limits = []
    for line in (_read(root / "proc/self/cgroup") or "0::/").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        names: tuple[str, ...]
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("cpu.max",)
        elif "cpu" in controllers.split(","):
            top, names = root / "sys/fs/cgroup/cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in (top / group, *(top / parent for parent in group.parents)):
            words = " ".join(_read(folder / name) or "" for name in names).split()
            if len(words) == 2 and re.fullmatch(r"\d+", words[0]) and _integer(words[1]) > 0:
                limits.append(int(words[0]) / int(words[1]))
    return min(limits, default=None)


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _read(path: Path) -> str | None:
    """Contents of a small system file without surrounding blanks; None when it isn't there or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _cpu_list(text: str) -> set[int]:
    """`0-3,8` as a set."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        cpus.update(range(_integer(low), _integer(high or low) + 1))
    return cpus


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(match[1]) * _UNITS[match[2]] if match else 0


def _integer(text: str) -> int:
    try:
        return int(text.strip(), 0)
    except ValueError:
        return 0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
