"""Detection on made-up system trees: shared caches, affinity, cgroups, missing files, stored calibrations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polydl.model.types import F32
from polydl.rank.instruction_set import target_isa
from polydl.target import Provenance, calibration_path, detect, preset, preset_names, save
from polydl.target.detect import preset_for, read_processor
from polydl.target.machine_files import preset_match

ZEN4 = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\nmodel name : AMD EPYC 9654\ncpu MHz : 2400.0\n"
AVX512 = "flags : fpu avx2 fma avx512f avx512vl avx512dq avx512bw\n"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def tree(root: Path, cpus: int = 16, threads: int = 2, complex_cores: int = 4, cpuinfo: str = ZEN4 + AVX512) -> Path:
    """A socket of core complexes: CPU c and c + cpus/threads are hardware threads of one core."""
    cores = cpus // threads
    write(root, "proc/cpuinfo", cpuinfo)
    for cpu in range(cpus):
        base = f"sys/devices/system/cpu/cpu{cpu}"
        core = cpu % cores
        siblings = ",".join(str(core + t * cores) for t in range(threads))
        write(root, f"{base}/topology/thread_siblings_list", siblings)
        first = core // complex_cores * complex_cores
        group = ",".join(f"{first + t * cores}-{first + t * cores + complex_cores - 1}" for t in range(threads))
        for index, (level, kind, size, ways, shared) in enumerate(
            [
                ("1", "Data", "32K", "8", siblings),
                ("1", "Instruction", "32K", "8", siblings),
                ("2", "Unified", "1M", "8", siblings),
                ("3", "Unified", "16384K", "16", group),
            ]
        ):
            for name, value in {
                "level": level, "type": kind, "size": size, "ways_of_associativity": ways,
                "coherency_line_size": "64", "shared_cpu_list": shared,
            }.items():  # fmt: skip
                write(root, f"{base}/cache/index{index}/{name}", value)
    return root


def test_l3_belongs_to_the_core_complex(tmp_path: Path) -> None:
    machine = detect(tree(tmp_path), tmp_path / "none", set(range(16)))
    assert machine.cores == 8
    l3 = machine.caches[2]
    assert (l3.level, l3.bytes, l3.shared_by_cores, l3.ways) == (3, 16 * 2**20, 4, 16)
    assert machine.caches[0].shared_by_cores == 1
    assert machine.provenance["cache.3.shared_by_cores"] is Provenance.SYSFS
    assert machine.provenance["cache.3.latency_cycles"] is Provenance.DEFAULT
    assert machine.name == "AMD EPYC 9654"
    assert machine.memory == preset("epyc-zen4").memory


@pytest.mark.parametrize(("flags", "megabytes"), [(AVX512, 480), (AVX512.strip() + " hypervisor\n", 64)])
def test_a_guest_counts_its_share_of_the_last_cache(tmp_path: Path, flags: str, megabytes: int) -> None:
    root = tree(tmp_path, cpuinfo=ZEN4 + flags)
    for cpu in range(16):
        write(root, f"sys/devices/system/cpu/cpu{cpu}/cache/index3/size", "491520K")
    found = detect(root, tmp_path / "none", set(range(16))).caches
    assert [cache.bytes for cache in found] == [32 << 10, 1 << 20, megabytes << 20]


def test_affinity_counts_cores_not_hardware_threads(tmp_path: Path) -> None:
    root = tree(tmp_path)
    assert detect(root, tmp_path / "none", {0, 1, 8, 9}).cores == 2
    assert detect(root, tmp_path / "none", {5}).cores == 1


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/box", {"box/cpu.max": "300000 100000"}, 3),
        ("0::/box/inner", {"box/cpu.max": "200000 100000", "box/inner/cpu.max": "max 100000"}, 2),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("4:cpu,cpuacct:/j", {"cpu/j/cpu.cfs_quota_us": "400000", "cpu/j/cpu.cfs_period_us": "100000"}, 4),
        ("4:cpu:/j", {"cpu/j/cpu.cfs_quota_us": "-1", "cpu/j/cpu.cfs_period_us": "100000"}, 8),
        ("4:memory:/j", {"cpu/j/cpu.cfs_quota_us": "100000", "cpu/j/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cgroup_limits(tmp_path: Path, group: str, files: dict[str, str], cores: int) -> None:
    root = tree(tmp_path)
    write(root, "proc/self/cgroup", group)
    for name, text in files.items():
        write(root, f"sys/fs/cgroup/{name}", text)
    assert detect(root, tmp_path / "none", set(range(16))).cores == cores


def test_nothing_at_all_gives_the_default(tmp_path: Path) -> None:
    machine = detect(tmp_path, tmp_path / "none", {0})
    default = preset("default")
    assert machine.caches == default.caches
    assert machine.frequency_ghz == default.frequency_ghz
    assert machine.cores == 1
    assert machine.provenance["cache.1.bytes"] is Provenance.DEFAULT
    assert set(machine.provenance) >= {"name", "cores", "memory.latency_ns", "tlb.l1_entries", "fma_peak_gflops.float"}


def test_unknown_processor_scales_the_default_peak(tmp_path: Path) -> None:
    info = "vendor_id : Other\ncpu family : 1\nmodel : 1\ncpu MHz : 5000.0\nflags : avx2 fma\n"
    machine = detect(tree(tmp_path, cpuinfo=info), tmp_path / "none", {0})
    assert machine.simd.isa == "avx2"
    assert machine.frequency_ghz == 5.0
    assert machine.fma_peak_gflops[F32.c] == pytest.approx(preset("default").fma_peak_gflops[F32.c] * 2 * 2)


def test_hidden_vector_unit_lowers_the_peak(tmp_path: Path) -> None:
    machine = detect(tree(tmp_path, cpuinfo=ZEN4 + "flags : sse2\n"), tmp_path / "none", {0})
    assert machine.simd.isa == "none"
    assert machine.fma_peak_gflops[F32.c] == preset("epyc-zen4").fma_peak_gflops[F32.c] / 4


@pytest.mark.parametrize(("model", "name", "share"), [("25 17", "epyc-zen4", 1.0), ("26 2", "epyc-zen5", 0.5)])
def test_hidden_avx512_costs_what_the_pipes_lose(tmp_path: Path, model: str, name: str, share: float) -> None:
    """Zen 4's pipes have 256 bits, so that it does two AVX2 FMAs per cycle; Zen 5's have 512."""
    family, number = model.split()
    info = f"vendor_id : AuthenticAMD\ncpu family : {family}\nmodel : {number}\nflags : avx2 fma\n"
    machine = detect(tree(tmp_path, cpuinfo=info), tmp_path / "none", {0})
    assert machine.simd.isa == "avx2"
    assert machine.provenance["simd.isa"] is Provenance.SYSFS
    assert machine.fma_peak_gflops[F32.c] == pytest.approx(preset(name).fma_peak_gflops[F32.c] * share)
    assert (target_isa(machine).fmas, target_isa(machine).loads) == (2, 2)


def test_no_processor_has_two_presets() -> None:
    known = [
        (match.vendor, match.family, model)
        for name in preset_names()
        if (match := preset_match(name)) is not None
        for model in match.models
    ]
    assert len(known) == len(set(known))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\n", "xeon-8280"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n", "xeon-8480plus"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 63\n", "xeon-e5-2680v3"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 79\n", "xeon-e5-2680v3"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 106\n", "xeon-8380"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 151\n", "core-i9-12900k"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 183\n", "core-i9-12900k"),
        ("vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 49\n", "epyc-zen2"),
        ("vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 1\n", "default"),
        ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\n", "epyc-zen4"),
        ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 117\n", "epyc-zen4"),
        ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\n", "epyc-zen3"),
        ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 68\n", "epyc-zen3"),
        ("vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\n", "epyc-zen5"),
        ("vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 36\n", "ryzen-ai-hx370"),
        ("vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 80\n", "default"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 158\n", "xeon-e5-2680v3"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 173\n", "xeon-8480plus"),
        ("CPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd0c\n", "graviton-2"),
        ("CPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd40\n", "graviton-3"),
        ("CPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd4f\n", "graviton-4"),
        ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 999\n", "default"),
        ("", "default"),
    ],
)
def test_presets_are_found_by_processor(tmp_path: Path, text: str, name: str) -> None:
    write(tmp_path, "proc/cpuinfo", text)
    assert preset_for(read_processor(tmp_path)) == name


def test_stored_calibration_is_used(tmp_path: Path) -> None:
    root = tree(tmp_path)
    plain = detect(root, tmp_path / "store", set(range(16)))
    measured = replace(plain, memory=replace(plain.memory, latency_ns=123.0), provenance={
        **plain.provenance, "memory.latency_ns": Provenance.MEASURED,
    })  # fmt: skip
    save(measured, calibration_path(plain, tmp_path / "store"))
    again = detect(root, tmp_path / "store", {0, 1})
    assert again.memory.latency_ns == 123.0
    assert again.provenance["memory.latency_ns"] is Provenance.MEASURED
    assert again.cores == 2, "the affinity of this run, not of the calibration's"


def test_this_machine() -> None:
    machine = detect()
    assert machine.cores >= 1
    assert machine.caches
    assert all(cache.bytes > 0 for cache in machine.caches)
