"""What the hardware is, as data: every figure has a unit, and `Machine.provenance` says where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from enum import Enum
from typing import Any

from polydl.base import html
from polydl.base.records import dataclass
from polydl.model.types import ElementType, element_type


class Provenance(Enum):
    """Where a figure comes from, most trusted first."""

    MEASURED = "measured"
    """By `polydl machine --calibrate` on this machine."""
    SYSFS = "sysfs"
    """The operating system says so (/sys, /proc, sysconf)."""
    FILE = "file"
    """A TOML file that the user gave, or a preset, which states its sources."""
    DEFAULT = "default"
    """Of a preset for the same kind of processor, or of `presets/default.toml`: this machine wasn't asked."""


@dataclass(frozen=True, slots=True)
class Simd:
    """Vector unit."""

    isa: str
    """`avx512`, `avx2`, `neon`, `sve` or `none`."""
    vector_bytes: int
    """Bytes of one vector register."""
    registers: int
    """Architectural vector registers."""
    features: str = ""
    """Extensions with instructions for products of small types, as Linux names them, with a space between:
    `avx512_vnni avx512_bf16` (those of `polydl.target.products.FEATURES`)."""


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """One level of data cache, as one core sees it."""

    level: int
    """1 is the fastest."""
    bytes: int
    """Capacity of one instance, shared by `shared_by_cores`."""
    line_bytes: int
    ways: int
    shared_by_cores: int
    """Physical cores that share one instance: on AMD the L3 belongs to a core complex, not to the socket."""
    latency_cycles: float
    """Load to use, core cycles."""
    bandwidth_bytes_per_cycle: float
    """Into one core that has the level to itself, bytes per core cycle, sustained."""
    shared_bandwidth_bytes_per_cycle: float
    """Out of one instance with all the cores that share it active, bytes per core cycle."""

    @property
    def sets(self) -> int:
        return max(1, self.bytes // (self.line_bytes * self.ways))

    @property
    def usable(self) -> float:
        """Bytes for what is to stay: one way is left to what streams through (Low et al., "Analytical modeling is
        enough for high-performance BLIS", TOMS 2016, equations for kc and mc)."""
        return self.bytes * (self.ways - 1) / self.ways


@dataclass(frozen=True, slots=True)
class Memory:
    """Main memory of the machine (all the channels that its cores use)."""

    latency_ns: float
    bandwidth_gbs: float
    """Into one core alone, 10^9 bytes per second, sustained."""
    shared_bandwidth_gbs: float
    """Into all cores together, 10^9 bytes per second, sustained."""


@dataclass(frozen=True, slots=True)
class Tlb:
    """Data address translation."""

    page_bytes: int
    """Of a base page."""
    l1_entries: int
    l2_entries: int
    l2_latency_cycles: float
    """Added to a load whose page is in the second level only."""
    walk_cycles: float
    """Added to a load whose page is in neither level, with the page table in cache."""


OBSERVED: Mapping[str, str] = {
    "overlap_L2": "FMAs beside loads from L2: share of the shorter time that hides",
    "overlap_L3": "FMAs beside loads from L3: share of the shorter time that hides",
    "overlap_memory": "FMAs beside loads from memory: share of the shorter time that hides",
    "streams": "sequential streams that one core reads in turn at half of its bandwidth or more",
    "huge_walk_cycles": "cycles that translation adds to a load on huge pages",
}
"""Figures that are measured to be read by people: what they are, by name.

`overlap_LEVEL`: of FMAs on registers and loads of a stream that take the same time alone, what hides of one of them
when a core does both, 0 (their sum) to 1 (the longer one). `streams`: read a line each in turn from memory, the most up
to which a core gets at least half of its bandwidth, of up to 64. `huge_walk_cycles`: as `Tlb.walk_cycles`, for the
same places on transparent huge pages."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine to optimise for. Made by `detect`, `load` or `preset`."""

    name: str
    cores: int
    """Physical cores that this process may use."""
    frequency_ghz: float
    """Core clock while running vector code; turns cycles into seconds."""
    call_cycles: float
    """Spent on one call of a microkernel besides its arithmetic and its data: call, addresses, loop control."""
    parallel_region_us: float
    """Microseconds to start and join the threads of one parallel loop."""
    simd: Simd
    caches: tuple[CacheLevel, ...]
    """Fastest first; at least one."""
    memory: Memory
    tlb: Tlb
    fma_peak_gflops: Mapping[str, float]
    """Of one core, 10^9 floating-point operations (an FMA is two) per second, by the type that they are done in."""
    register_blocks: Mapping[str, float] = field(default_factory=dict)
    """Fraction of the FMA peak of one core, in (0, 1], that register blocks reach on data in the first-level cache, by
    `ROWSxVECTORS`; a block that is left out has the estimate of `polydl.target.register_blocks`."""
    product_gops: Mapping[str, float] = field(default_factory=dict)
    """Of one core, 10^9 operations (a product and its addition are two) per second in inner products of groups, by the
    names of `polydl.target.products.MEASURED`; one that is left out has its rate of that table."""
    observed: Mapping[str, float] = field(default_factory=dict)
    """What calibration saw and no ranker uses, by the names of `OBSERVED`; for people."""
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    """By key of the TOML form: `cores`, `cache.1.bytes`, `memory.latency_ns`, …"""

    def _repr_html_(self) -> str:
        vectors = f"{self.simd.isa}, {self.simd.registers} registers of {self.simd.vector_bytes} bytes"
        known = {"cores": self.cores, "clock, GHz": self.frequency_ghz, "vectors": vectors}
        peaks = {f"peak of a core, {element}, GFLOP/s": peak for element, peak in self.fma_peak_gflops.items()}
        peaks |= {f"peak of a core, {name}, GOP/s": peak for name, peak in self.product_gops.items()}
        rows = [
            (f"L{c.level}", c.bytes, c.line_bytes, c.ways, c.shared_by_cores, c.bandwidth_bytes_per_cycle)
            for c in self.caches
        ]
        columns = ("cache", "bytes", "line", "ways", "cores", "bytes per cycle")
        seen = {OBSERVED[name]: value for name, value in self.observed.items()}
        memory = f"memory: {self.memory.bandwidth_gbs:.4g} GB/s into one core, {self.memory.latency_ns:.4g} ns"
        title = f"{self.name} ({self.fingerprint})"
        return html.block(title, html.facts(known | peaks | seen), html.table(columns, rows), html.line(memory))

    def peak(self, element: ElementType) -> float:
        """Floating-point operations per second of one core in FMAs on vectors of a type.

        Of a type that the machine's description leaves out: as many vectors per second as of one that it gives.
        """
        peaks = {element_type(name): peak for name, peak in self.fma_peak_gflops.items()}
        known = min(peaks, key=lambda e: (e is not element, e.bytes))
        return peaks[known] * known.bytes / element.bytes * 1e9

    def seconds(self, cycles: float) -> float:
        """Core cycles as seconds."""
        return cycles / (self.frequency_ghz * 1e9)

    def cache_bandwidth(self, cache: CacheLevel, threads: int = 1) -> float:
        """Bytes per second that a level delivers to each of `threads` threads, spread evenly over its instances."""
        sharers = max(1, min(threads, cache.shared_by_cores))
        share = min(cache.bandwidth_bytes_per_cycle, cache.shared_bandwidth_bytes_per_cycle / sharers)
        return share * self.frequency_ghz * 1e9

    def memory_bandwidth(self, threads: int = 1) -> float:
        """Bytes per second that memory delivers to each of `threads` threads."""
        return min(self.memory.bandwidth_gbs, self.memory.shared_bandwidth_gbs / max(1, threads)) * 1e9

    def as_data(self) -> dict[str, Any]:
        """Every figure as plain data, with the names that C has for element types."""
        tables = (self.fma_peak_gflops, self.register_blocks, self.product_gops, self.observed)
        peaks, blocks, products, observed = (dict(sorted(table.items())) for table in tables)
        whole = replace(self, fma_peak_gflops=peaks, register_blocks=blocks, product_gops=products, observed=observed)
        data = asdict(whole)
        # As before there were any: what was measured on a machine goes by its fingerprint.
        for name in ("register_blocks", "product_gops"):
            if not data[name]:
                del data[name]
        if not self.observed:
            del data["observed"]
        if not self.simd.features:
            del data["simd"]["features"]
        return data

    @property
    def fingerprint(self) -> str:
        """Stable id of the figures (not of the name, of where they come from, of what no ranker uses, nor of the
        vectors' extensions, without which it was measured before): 12 hexadecimal digits."""
        figures = replace(self, observed={}, simd=replace(self.simd, features="")).as_data()
        del figures["name"], figures["provenance"]
        return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:12]
