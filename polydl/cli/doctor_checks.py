"""The checks of `polydl doctor`: what polydl needs, whether this machine has it, and how to repair what is missing.

Each check tries what it checks, instead of comparing version numbers: it compiles and runs a program, writes a file.
"""

from __future__ import annotations

import ctypes.util
import os
import platform
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from polydl.base import cache, resources
from polydl.base.errors import ModelError, PolyDLError
from polydl.base.records import dataclass
from polydl.base.version import __version__
from polydl.measure import Toolchain
from polydl.rank.dnn import DnnRanker
from polydl.rank.paper_model import PaperRanker
from polydl.target import Machine, Provenance, calibration_path, detect
from polydl.target.detect import cgroup_cpus

SECONDS = 60
"""Time limit for a compiler, or a program that it made."""
_ENOUGH_BYTES = 2 << 30
"""Memory for two copies of the arrays of a large nest and for the compilers; below it there is a warning."""
_ENOUGH_DISK = 200 << 20
"""Bytes for temporary files; below it there is a warning."""
_MACROS = {"avx512": "__AVX512F__", "avx2": "__AVX2__", "neon": "__ARM_NEON"}
"""The macro that a compiler defines when it may use an instruction set."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")


class Status(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    """polydl works, but slower, less exactly, or without one of its features."""
    ABSENT = "absent"
    """An optional part is missing, which most people do not need."""
    FAILED = "failed"
    """polydl cannot optimize anything here."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check, with its outcome."""

    name: str
    status: Status
    found: str
    """A description of what was found, for people."""
    remedy: str = ""
    """What to do about it; empty when the status is OK."""


def examine(cc: str = "cc") -> list[Check]:
    """Run all checks, in the order in which they are shown. Takes some seconds, since compilers run."""
    return [*_installation(), *_compiler(cc), *_machine(), *_permissions(), *_limits(), *_models(), *_optional()]


def usable(checks: list[Check]) -> bool:
    """Whether polydl can be used: no check failed."""
    return all(check.status is not Status.FAILED for check in checks)


def to_data(checks: list[Check]) -> dict[str, Any]:
    """The document of `polydl doctor --json`."""
    return {"usable": usable(checks), "polydl": __version__, "checks": [asdict(check) for check in checks]}


def _ok(name: str, found: str) -> Check:
    return Check(name, Status.OK, found)


def _warning(name: str, found: str, remedy: str) -> Check:
    return Check(name, Status.WARNING, found, remedy)


def _absent(name: str, found: str, remedy: str) -> Check:
    return Check(name, Status.ABSENT, found, remedy)


def _failed(name: str, found: str, remedy: str) -> Check:
    return Check(name, Status.FAILED, found, remedy)


def _installation() -> Iterator[Check]:
    yield _ok("polydl", f"{__version__} in {Path(__file__).parent}, Python {platform.python_version()}")
    if platform.system() != "Linux":
        yield _failed("system", platform.system(), "polydl measures on Linux only")
    try:
        templates = list(resources.templates().glob("*.j2"))
    except FileNotFoundError as error:
        yield _failed("templates", str(error), "install polydl again: pip install --force-reinstall polydl")
    else:
        yield _ok("templates", f"{len(templates)} in {resources.templates()}")
    header = resources.headers() / "polydl.h"
    if header.is_file():
        yield _ok("header", str(header))
    else:
        yield _failed("header", f"no {header}", "install polydl again: pip install --force-reinstall polydl")


_THREADS = """#include <omp.h>
#include <stdio.h>
int main(void)
{
    int threads = 0;
    #pragma omp parallel reduction(+ : threads)
    threads += 1;
    printf("%d of %d\\n", threads, omp_get_max_threads());
    return 0;
}
"""


def _compiler(cc: str) -> Iterator[Check]:
    path = shutil.which(cc)
    if path is None:
        yield _failed("compiler", f"there is no '{cc}'", "apt install gcc, or name another one with --cc")
        return
    _, text = _run([path, "--version"])
    yield _ok("compiler", f"{path}: {text.splitlines()[0] if text else 'no version'}")
    plain = Toolchain(cc=cc)
    with tempfile.TemporaryDirectory(prefix="polydl-doctor-") as folder:
        program = Path(folder, "program")
        source = Path(folder, "source.c")
        source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
        done, text = _run([path, "-O1", "-o", str(program), str(source)])
        if not done:
            yield _failed("compiling", _first(text), "apt install libc6-dev, or name another compiler with --cc")
            return
        done, text = _run([str(program)])
        if not done:
            where = f"{_first(text)} in {tempfile.gettempdir()}"
            yield _failed("running", where, "set TMPDIR to a folder whose file system allows programs (no noexec)")
            return
        yield _ok("compiling", f"compiles and runs in {tempfile.gettempdir()}")
        source.write_text(_THREADS, encoding="utf-8")
        done, text = _run([path, *plain.cflags, "-o", str(program), str(source), *plain.ldflags])
        if not done:
            remedy = "apt install libomp-dev for clang; gcc has it in libgomp1"
            yield _failed("OpenMP", f"with {' '.join(plain.cflags)}: {_first(text)}", remedy)
            return
        done, text = _run([str(program)])
        if done:
            yield _ok("OpenMP", f"{text.strip()} threads ran")
        else:
            yield _failed("OpenMP", _first(text), "a program made with -march=native does not run: check the compiler")
    yield _vectors(path, list(plain.cflags))


def _vectors(compiler: str, flags: list[str]) -> Check:
    """Whether the compiler uses the vector instructions that the processor has."""
    simd = detect().simd
    done, text = _run([compiler, *flags, "-dM", "-E", "-x", "c", "/dev/null"])
    found = f"{simd.isa}: {simd.registers} registers of {simd.vector_bytes} bytes"
    if simd.isa not in _MACROS:
        return _warning("SIMD", found, "microkernels are made for AVX2, AVX-512 and NEON; other code runs as it is")
    if not done or f"#define {_MACROS[simd.isa]} " not in text:
        return _warning("SIMD", f"{found}, but not with this compiler", "use a newer compiler")
    return _ok("SIMD", found)


def _machine() -> Iterator[Check]:
    machine = detect()
    levels = ", ".join(f"L{c.level} {_bytes(c.bytes)} for {c.shared_by_cores} cores" for c in machine.caches)
    unknown = [c for c in machine.caches if not _known(machine, f"cache.{c.level}.bytes")]
    if unknown:
        yield _warning("caches", f"not detected, taken to be: {levels}", "describe the machine: --machine FILE.toml")
    else:
        yield _ok("caches", levels)
    stored = calibration_path(machine)
    if stored.is_file():
        yield _ok("calibration", str(stored))
    else:
        remedy = "polydl machine --calibrate (20 s, on an idle machine)"
        yield _warning("calibration", f"speeds are those of '{machine.name}' in general", remedy)


def _known(machine: Machine, key: str) -> bool:
    return machine.provenance.get(key, Provenance.DEFAULT) is not Provenance.DEFAULT


def _permissions() -> Iterator[Check]:
    folder = cache.folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        found = f"{folder}: {error.strerror or error}"
        yield _warning("result cache", found, "every run measures anew; name another folder with POLYDL_CACHE")
    else:
        yield _ok("result cache", str(folder))
    free = shutil.disk_usage(tempfile.gettempdir()).free
    room = f"{_bytes(free)} free in {tempfile.gettempdir()}"
    if free < _ENOUGH_DISK:
        yield _warning("temporary files", room, "make room, or set TMPDIR")
    else:
        yield _ok("temporary files", room)
    yield _pinning()
    yield _pages()


def _pinning() -> Check:
    allowed = sorted(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {allowed[0]})
        os.sched_setaffinity(0, before)
    except OSError as error:
        remedy = "timings are less even; in a container allow sched_setaffinity (seccomp)"
        return _warning("thread pinning", error.strerror or str(error), remedy)
    return _ok("thread pinning", f"allowed on {len(allowed)} of {os.cpu_count()} CPUs")


def _pages() -> Check:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    try:
        text = setting.read_text(encoding="utf-8").strip()
    except OSError as error:
        return _warning("huge pages", f"unknown: {error.strerror}", "packed arrays may miss the TLB more often")
    chosen = text.partition("[")[2].partition("]")[0]
    if chosen == "never":
        remedy = f"large arrays miss the TLB more often; as root: echo madvise > {setting}"
        return _warning("huge pages", "switched off", remedy)
    return _ok("huge pages", chosen or text)


def _limits() -> Iterator[Check]:
    yield _memory()
    cores = len(os.sched_getaffinity(0))
    quota = cgroup_cpus(Path("/"))
    if quota is not None and quota < cores:
        remedy = "threads wait for each other; give the container whole CPUs (--cpuset-cpus), or use --threads"
        yield _warning("CPU quota", f"{quota:g} CPUs' worth of time on {cores} CPUs", remedy)
    else:
        yield _ok("CPU quota", f"none below the {cores} CPUs")
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor.is_file() and governor.read_text(encoding="utf-8").strip() == "powersave":
        remedy = "clocks change while polydl measures; as root: cpupower frequency-set -g performance"
        yield _warning("clock", "governor powersave", remedy)
    busy = os.getloadavg()[0]
    if busy > 0.5 * cores:
        found = f"{busy:.1f} processes ran on {cores} CPUs in the last minute"
        yield _warning("load", found, "measure on an idle machine: timings are disturbed")
    else:
        yield _ok("load", f"{busy:.1f} processes in the last minute")


def _memory() -> Check:
    """The memory that polydl may use: the least of what is free, and the limits of the control group and the shell."""
    limits = {"free memory": os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}
    information = Path("/proc/meminfo")
    for line in information.read_text(encoding="utf-8").splitlines() if information.is_file() else ():
        if line.startswith("MemAvailable:"):  # with the pages that can be reclaimed
            limits["free memory"] = int(line.split()[1]) << 10
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space != resource.RLIM_INFINITY:
        limits["ulimit -v"] = address_space
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        if path.is_file() and (text := path.read_text(encoding="utf-8").strip()).isdecimal():
            limits[f"control group ({path})"] = int(text)
    name, least = min(limits.items(), key=lambda item: item[1])
    found = f"{_bytes(least)} ({name})"
    if least < _ENOUGH_BYTES:
        return _warning("memory", found, f"large nests need more than {_bytes(_ENOUGH_BYTES)}: raise the limit")
    return _ok("memory", found)


def _models() -> Iterator[Check]:
    rankers: tuple[tuple[str, Callable[[], object]], ...] = (("dnn", DnnRanker), ("dnn-paper", PaperRanker))
    for name, make in rankers:
        try:
            make()
        except (ModelError, FileNotFoundError) as error:
            reason = error.reason if isinstance(error, PolyDLError) else str(error)
            yield _warning(f"ranker {name}", reason, "install polydl again; the other rankers need no weights")
        else:
            yield _ok(f"ranker {name}", "its weights are read")


def _optional() -> Iterator[Check]:
    for name, extra, purpose in (
        ("torch", "train", "training rankers"),
        ("distributed", "cluster", "measuring on several machines"),
        ("matplotlib", "report", "charts of reports"),
    ):
        try:
            yield _ok(name, version(name))
        except PackageNotFoundError:
            yield _absent(name, "not installed", f"only for {purpose}: pip install 'polydl[{extra}]'")
    xsmm = ctypes.util.find_library("xsmm")
    if xsmm is not None:
        yield _ok("LIBXSMM", xsmm)
    else:
        yield _absent("LIBXSMM", "not found", "only for microkernels of yours that call it: apt install libxsmm-dev")
    for name, commands, purpose, package in (
        ("clang", ("clang",), "a second compiler to try with --cc", "clang"),
        ("browser", _BROWSERS, "looking at reports", "chromium"),
    ):
        path = next((found for command in commands if (found := shutil.which(command))), None)
        if path is not None:
            yield _ok(name, path)
        else:
            yield _absent(name, "not found", f"only for {purpose}: apt install {package}")


def _run(command: list[str]) -> tuple[bool, str]:
    """Whether a command succeeded, and what it printed."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=SECONDS, check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        return False, error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return False, f"did not end within {SECONDS} s"
    text = done.stdout.decode(errors="replace")
    return done.returncode == 0, text or (f"exit code {done.returncode}" if done.returncode else "")


def _first(text: str) -> str:
    """The first line that mentions an error, or else the first line."""
    lines = text.splitlines() or [""]
    return next((line for line in lines if "error" in line), lines[0])


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"
