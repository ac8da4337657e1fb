"""polydl and its rivals on the same workloads: speed, and the time that it takes to get there.

python experiments/rivals.py --rows rivals.jsonl --environments ~/rivals             # all, in environments made there
python experiments/rivals.py --rows rivals.jsonl --environments ~/rivals --rivals gcc,polly --workloads jacobi_2d
python experiments/rivals.py --rows rivals.jsonl --environments ~/rivals --only-make # nothing is measured
python experiments/rivals.py --rows rivals.jsonl --shown                              # the table

Each rival runs in processes of its own, in an environment that is made from the package registries the first time
(`pip` in a virtual environment, Debian's packages unpacked into a folder), or that was built beside it (`--pluto
FOLDER/polycc`, `--torch PYTHON`). A process has the workload ready (what that takes is 'to get there': search,
compilation, packing of constants), computes once from the data that all have, which is compared with gcc's, and then
waits for its turns: in each round every rival runs for `--turn` seconds, in an order that rotates. A figure is the
median of the rounds; the ratio to polydl is the median of the ratios within a round.

Rows are written as they come; a rival of a workload that the file has is not measured again. What is not measured has a
row with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import RowFile
from output import machine

from polydl.base.cache import key_of, stamp
from polydl.base.resources import own_files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PROGRAMS = ROOT / "tests" / "programs"
POLYDL, REFERENCE = "polydl", "gcc"
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fopenmp", "-w", "-shared", "-fPIC")
TOLERANCE = {"float32": 1e-3, "float64": 1e-8}
"""Differences that are allowed, relative to the greatest magnitude."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A function of C, its sizes and what it is called with."""

    name: str
    group: str
    """Whose it is: `products`, `polyhedral`, `operators`."""
    source: Path
    function: str
    defines: Mapping[str, int]
    arguments: tuple[tuple[str, tuple[int, ...] | None], ...]
    """(name, extents), None for a number, in the order of the function."""
    outputs: tuple[str, ...]
    operations: float
    """Additions and multiplications."""
    dtype: str = "float32"
    numbers: Mapping[str, float] = field(default_factory=dict)

    def data(self) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays, the same for all: between -0.5 and 0.5; what is written begins at 0 where it is only written."""
        rng = np.random.default_rng(0)
        shapes = {name: shape for name, shape in self.arguments if shape is not None}
        return {name: (rng.random(shape) - 0.5).astype(self.dtype) for name, shape in shapes.items()}


def _product(name: str, m: int, n: int, k: int) -> Workload:
    arguments = (("A", (m, k)), ("B", (k, n)), ("C", (m, n)))
    source = HERE / "kernels" / "gemm.c"
    return Workload(name, "products", source, "matmul", {"M": m, "N": n, "K": k}, arguments, ("C",), 2.0 * m * n * k)


def _conv(name: str, channels: int, filters: int, size: int, kernel: int) -> Workload:
    block = 32
    reach = size + kernel - 1
    defines = {"NIMG": 2, "NOFM": filters, "NIFM": channels, "OFH": size, "OFW": size, "KH": kernel, "KW": kernel}
    defines |= {"STRIDE_H": 1, "STRIDE_W": 1, "OFM_BLOCK": block, "IFM_BLOCK": block}
    arguments = (
        ("output", (2, filters // block, size, size, block)),
        ("input", (2, channels // block, reach, reach, block)),
        ("filter", (filters // block, channels // block, kernel, kernel, block, block)),
    )
    operations = 4.0 * channels * filters * size * size * kernel * kernel
    source = HERE / "kernels" / "conv.c"
    return Workload(name, "operators", source, "conv2d", defines, arguments, ("output",), operations)


def _program(
    name: str,
    defines: Mapping[str, int],
    arguments: tuple[tuple[str, tuple[int, ...] | None], ...],
    outputs: tuple[str, ...],
    operations: float,
    **more: Any,
) -> Workload:
    group, dtype = more.pop("group", "polyhedral"), more.pop("dtype", "float64")
    source = PROGRAMS / f"{name}.c"
    return Workload(name, group, source, name, defines, arguments, outputs, operations, dtype, more)


WORKLOADS = {
    one.name: one
    for one in (
        _product("matmul_512", 512, 512, 512),
        _product("matmul_128x2048x4096", 128, 2048, 4096),
        _product("matmul_1024x16x65536", 1024, 16, 65536),
        _conv("conv_64x64x56", 64, 64, 56, 3),
        _conv("conv_256x256x14", 256, 256, 14, 3),
        Workload(
            "mlp_layer", "operators", ROOT / "examples" / "mlp_layer.c", "mlp_layer", {},
            (("y", (512, 1024)), ("x", (512, 768)), ("w", (768, 1024)), ("bias", (1024,)), ("residual", (512, 1024))),
            ("y",), 2.0 * 512 * 1024 * 768,
        ),
        _program("softmax", {"M": 2000, "N": 2000}, (("in", (2000, 2000)), ("out", (2000, 2000))), ("out",), 2e7,
                 group="operators", dtype="float32"),
        _program("jacobi_2d", {"T": 20, "N": 1500}, (("A", (1500, 1500)), ("B", (1500, 1500))), ("A",),
                 2.0 * 20 * 5 * 1500**2),
        _program("heat_3d", {"T": 8, "N": 150}, (("A", (150, 150, 150)), ("B", (150, 150, 150))), ("A",),
                 2.0 * 8 * 15 * 150**3),
        _program("fdtd_2d", {"T": 20, "NX": 1000, "NY": 1000},
                 (("ex", (1000, 1000)), ("ey", (1000, 1000)), ("hz", (1000, 1000)), ("f", (20,))),
                 ("ex", "ey", "hz"), 20 * 11 * 1e6),
        _program("gemver", {"N": 2000},
                 (("alpha", None), ("beta", None), ("A", (2000, 2000)), ("u1", (2000,)), ("v1", (2000,)),
                  ("u2", (2000,)), ("v2", (2000,)), ("w", (2000,)), ("x", (2000,)), ("y", (2000,)), ("z", (2000,))),
                 ("A", "x", "w"), 10.0 * 2000**2, alpha=0.5, beta=0.25),
        _program("mvt", {"N": 3000},
                 (("x1", (3000,)), ("x2", (3000,)), ("y1", (3000,)), ("y2", (3000,)), ("A", (3000, 3000))),
                 ("x1", "x2"), 4.0 * 3000**2),
        _program("mm2", {"NI": 500, "NJ": 500, "NK": 500, "NL": 500},
                 (("alpha", None), ("beta", None), ("tmp", (500, 500)), ("A", (500, 500)), ("B", (500, 500)),
                  ("C", (500, 500)), ("D", (500, 500))),
                 ("D",), 4.0 * 500**3, alpha=0.5, beta=0.25),
        _program("doitgen", {"NR": 100, "NQ": 100, "NP": 120},
                 (("A", (100, 100, 120)), ("C4", (120, 120))), ("A",), 2.0 * 100 * 100 * 120**2),
    )
}  # fmt: skip


class NotMeasured(Exception):
    """A rival is not to be had, or has no such workload; the message says why."""


@dataclass(frozen=True, slots=True)
class Made:
    """A rival's environment."""

    python: Path
    """Runs `rival_worker.py`; has numpy."""
    compiler: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def python_environment(folder: Path, packages: Sequence[str]) -> Path:
    """The interpreter of a virtual environment with packages. Raises NotMeasured where pip has none."""
    python, done = folder / "bin" / "python", folder / "made"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _need([sys.executable, "-m", "venv", str(folder)])
        _need([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", *packages])
        done.touch()
    return python


def debian_packages(folder: Path, names: Sequence[str]) -> Path:
    """A folder with Debian packages and what they depend on of their own source, unpacked and not installed. Raises
    NotMeasured where apt has none."""
    done = folder / "made"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if shutil.which("apt-get") is None:
            raise NotMeasured("there is no apt-get")
        _need(["apt-get", "--quiet", "download", *names], folder)
        for package in sorted(folder.glob("*.deb")):
            _need(["dpkg", "-x", str(package), str(folder / "root")])
            package.unlink()
        done.touch()
    return folder / "root"


def _need(command: Sequence[str], folder: Path | None = None, more: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, **(more or {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise NotMeasured(f"{Path(command[0]).name} {' '.join(command[1:4])}…: {last}")


@dataclass(frozen=True, slots=True)
class Rival:
    """A way to get code for a workload."""

    name: str
    make: Callable[[argparse.Namespace], Made]
    """Its environment; raises NotMeasured."""
    worker: str
    """The function of `rival_worker.py` that has it ready."""
    workloads: tuple[str, ...] = ()
    """Of which it has something; empty: all."""
    build: Callable[[Workload, Made, Path, argparse.Namespace], list[Path]] | None = None
    """Makes shared objects of the workload's function, where it compiles C: the fastest counts. Raises NotMeasured."""


def _here(given: argparse.Namespace) -> Made:
    return Made(Path(sys.executable))


def _compiled(
    command: Sequence[str], workload: Workload, source: Path, output: Path, more: Mapping[str, str] | None = None
) -> Path:
    macros = [f"-D{name}={value}" for name, value in workload.defines.items()]
    _need([*command, *macros, str(source), "-o", str(output), "-lm", "-lgomp"], None, more)
    return output


def _gcc(workload: Workload, made: Made, folder: Path, given: argparse.Namespace) -> list[Path]:
    return [_compiled(["gcc", *FLAGS], workload, workload.source, folder / "gcc.so")]


def _polydl(workload: Workload, made: Made, folder: Path, given: argparse.Namespace) -> list[Path]:
    written = folder / "polydl.c"
    macros = [f"-D{name}={value}" for name, value in workload.defines.items()]
    command = [sys.executable, "-m", "polydl", "optimize", str(workload.source), "-o", str(written), *macros]
    cache = {"POLYDL_CACHE": str(folder / "cache")}
    _need([*command, "--threads", str(given.threads), "--no-learn"], ROOT, cache)
    return [_compiled(["gcc", *FLAGS], workload, written, folder / "polydl.so")]


CLANG = "14"
"""The version whose packages are unpacked where no clang is installed: Debian's, with Polly inside."""


def _clang(given: argparse.Namespace) -> Made:
    found = next((path for name in ("clang-19", "clang-16", "clang") if (path := shutil.which(name))), None)
    if found is not None:
        return Made(Path(sys.executable), Path(found))
    names = [f"clang-{CLANG}", f"libclang-common-{CLANG}-dev", f"libclang-cpp{CLANG}", f"libllvm{CLANG}",
             "libclang1-" + CLANG, f"llvm-{CLANG}-linker-tools", f"libomp-{CLANG}-dev", f"libomp5-{CLANG}"]  # fmt: skip
    root = debian_packages(given.environments / "clang", names)
    library = root / "usr" / "lib"
    paths = f"{library / 'x86_64-linux-gnu'}:{library / f'llvm-{CLANG}' / 'lib'}"
    environment = {"LD_LIBRARY_PATH": paths}
    return Made(Path(sys.executable), library / f"llvm-{CLANG}" / "bin" / "clang", environment)


def _polly(workload: Workload, made: Made, folder: Path, given: argparse.Namespace) -> list[Path]:
    polly = ("-mllvm", "-polly", "-mllvm", "-polly-parallel", "-mllvm", "-polly-omp-backend=GNU")
    flags = ["-std=gnu11", "-O3", "-march=native", "-w", "-shared", "-fPIC", *polly, "-Wl,-Bsymbolic"]
    return [_compiled([str(made.compiler), *flags], workload, workload.source, folder / "polly.so", made.environment)]


def _pluto_made(given: argparse.Namespace) -> Made:
    if given.pluto is None:
        raise NotMeasured("no registry has it, and no --pluto FOLDER/polycc was given")
    return Made(Path(sys.executable), given.pluto)


TILES = (16, 32, 64, 128, 256)
"""Pluto's, of which its best counts."""


def _pluto(workload: Workload, made: Made, folder: Path, given: argparse.Namespace) -> list[Path]:
    plain, found = folder / "plain.c", []
    macros = [f"-D{name}={value}" for name, value in workload.defines.items()]
    _need(["gcc", "-E", "-P", "-fdirectives-only", *macros, str(workload.source), "-o", str(plain)])
    for size in TILES:
        (folder / "tile.sizes").write_text(f"{size}\n" * 8)
        written = folder / f"pluto_{size}.c"
        _need([str(made.compiler), "--tile", "--parallel", str(plain), "-o", str(written)], folder)
        found.append(_compiled(["gcc", *FLAGS], workload, written, written.with_suffix(".so")))
    return found


def _xsmm_made(given: argparse.Namespace) -> Made:
    if not any(Path(folder, "libxsmm.h").exists() for folder in ("/usr/include", "/usr/local/include")):
        raise NotMeasured("libxsmm.h is not installed (apt libxsmm-dev)")
    return Made(Path(sys.executable))


def _xsmm(workload: Workload, made: Made, folder: Path, given: argparse.Namespace) -> list[Path]:
    libraries = ("-lxsmm", "-lxsmmnoblas", "-lpthread", "-lrt", "-ldl", "-lm")
    output = folder / "xsmm.so"
    _need(["gcc", *FLAGS, str(HERE / "kernels" / "xsmm.c"), "-o", str(output), *libraries])
    return [output]


def _torch(given: argparse.Namespace) -> Made:
    if given.torch is not None:
        return Made(given.torch)
    try:
        import torch  # noqa: F401
    except ImportError:
        return Made(python_environment(given.environments / "torch", ("torch",)))
    return Made(Path(sys.executable))


def _pip(name: str, *packages: str) -> Callable[[argparse.Namespace], Made]:
    return lambda given: Made(python_environment(given.environments / name, packages))


TVM = ("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post1", "cloudpickle", "xgboost", "psutil", "tornado")
PRODUCTS = tuple(name for name, one in WORKLOADS.items() if one.group == "products")
CONVOLUTIONS = tuple(name for name, one in WORKLOADS.items() if one.function == "conv2d")

RIVALS = {
    one.name: one
    for one in (
        Rival(REFERENCE, _here, "of_library", build=_gcc),
        Rival(POLYDL, _here, "of_library", build=_polydl),
        Rival("polly", _clang, "of_library", build=_polly),
        Rival("pluto", _pluto_made, "of_library", build=_pluto),
        Rival("mkl", _pip("mkl", "mkl"), "of_mkl", (*PRODUCTS, "mm2")),
        Rival("libxsmm", _xsmm_made, "of_libxsmm", (*PRODUCTS, *CONVOLUTIONS), _xsmm),
        Rival("onednn", _torch, "of_onednn", (*PRODUCTS, *CONVOLUTIONS)),
        Rival("inductor", _torch, "of_inductor"),
        Rival("numba", _pip("numba", "numba"), "of_numba"),
        Rival("tvm", _pip("tvm", *TVM), "of_tvm", (*PRODUCTS, *CONVOLUTIONS, "mlp_layer")),
    )
}
NOT_MEASURED = {
    "parlooper": "needs LIBXSMM's main branch and libxsmm-dnn, which no package registry has",
    "zentorch": "is built for another version of PyTorch than the one beside it",
}
"""Rivals of which nothing is tried, and why."""


class Worker:
    """A rival's process that has a workload ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.ready: float = float(self._answer()["ready"])
        """Seconds that it took to get there, without what was built before."""

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                if "not_measured" in found:
                    raise NotMeasured(found["not_measured"])
                return found
        raise NotMeasured(f"its process ended with {self._process.wait()}")

    def turn(self, seconds: float) -> float:
        """Seconds of a call, the median over a turn."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])


@contextmanager
def started(rival: Rival, made: Made, workload: Workload, given: argparse.Namespace, folder: Path) -> Iterator[Worker]:
    """A rival's worker, ended on leaving. Raises NotMeasured."""
    built, building = folder / f"{rival.name}.json", 0.0
    libraries: list[str] = []
    if rival.build is not None:
        # polydl's own code changes: what an earlier state wrote says nothing of this one.
        state = key_of(stamp(path) for _, path in own_files()) if rival.name == POLYDL else ""
        if not built.exists() or json.loads(built.read_text()).get("state") != state:
            start = time.perf_counter()
            made_now = [str(one) for one in rival.build(workload, made, folder, given)]
            seconds = time.perf_counter() - start
            built.write_text(json.dumps({"libraries": made_now, "seconds": seconds, "state": state}))
        kept = json.loads(built.read_text())
        libraries, building = kept["libraries"], float(kept["seconds"])
    specification = {
        "worker": rival.worker,
        "workload": {**asdict(workload), "source": str(workload.source)},
        "libraries": libraries,
        "threads": given.threads,
        "trials": given.trials,
        "folder": str(folder),
        "data": str(folder / "data.npz"),
        "results": str(folder / f"{rival.name}.npz"),
    }
    path = folder / f"{rival.name}.specification.json"
    path.write_text(json.dumps(specification))
    threads = str(given.threads)
    environment = {
        **os.environ, **made.environment, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads, "TVM_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0",
        # Else a thread that wakes up may share its core with the one that woke it, for as long as a product takes.
        "OMP_PROC_BIND": "true",
    }  # fmt: skip
    command = [str(made.python), str(HERE / "rival_worker.py"), str(path)]
    with (folder / f"{rival.name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        try:
            worker = Worker(process)
            worker.ready += building
            yield worker
        finally:
            process.kill()
            process.communicate()  # closes its pipes


def differs(workload: Workload, ours: Path, theirs: Path) -> str:
    """What of a result is not the reference's; empty where nothing is."""
    with np.load(ours) as found, np.load(theirs) as expected:
        for name in workload.outputs:
            scale = float(np.abs(expected[name]).max())
            error = float(np.abs(found[name] - expected[name]).max())
            if not error <= TOLERANCE[workload.dtype] * scale:
                return f"{name} differs by {error:.2g} where the greatest is {scale:.2g}"
    return ""


def measured(
    workload: Workload, rivals: Sequence[Rival], given: argparse.Namespace, known: set[str]
) -> Iterator[dict[str, Any]]:
    """Rows of a workload: of those rivals that have none, beside polydl."""
    folder: Path = given.environments / "built" / workload.name
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "data.npz", allow_pickle=False, **workload.data())
    base = {"machine": machine()["cpu"], "workload": workload.name, "group": workload.group, "threads": given.threads}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for rival in rivals:
            if rival.name in known and rival.name not in (POLYDL, REFERENCE):
                continue
            try:
                if rival.workloads and workload.name not in rival.workloads:
                    raise NotMeasured("has no such operation, or is not written for it here")
                worker = stack.enter_context(started(rival, rival.make(given), workload, given, folder))
                if wrong := differs(workload, folder / f"{rival.name}.npz", folder / f"{REFERENCE}.npz"):
                    raise NotMeasured(f"its result is another one: {wrong}")
                workers[rival.name] = worker
            except NotMeasured as reason:
                if rival.name not in known:
                    yield {**base, "rival": rival.name, "seconds": None, "ready_seconds": None, "over": None,
                           "why": str(reason)}  # fmt: skip
        times: dict[str, list[float]] = {name: [] for name in workers}
        names = list(workers)
        for turn in range(given.rounds):
            for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
                times[name].append(workers[name].turn(given.turn))
        for name, several in times.items():
            if name not in known:
                over = [a / b for a, b in zip(several, times.get(POLYDL, several), strict=True)]
                yield {
                    **base,
                    "rival": name,
                    "seconds": statistics.median(several),
                    "ready_seconds": workers[name].ready,
                    "over": statistics.median(over),
                    "why": "",
                }


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table in Markdown: milliseconds, and seconds to get there; then ratios to polydl by group."""
    names = list(dict.fromkeys(row["rival"] for row in rows))
    print("| workload | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    table = {(row["workload"], row["rival"]): row for row in rows}
    for workload in dict.fromkeys(row["workload"] for row in rows):
        cells = []
        for name in names:
            row = table.get((workload, name))
            shown = row is not None and row["seconds"] is not None
            cells.append(f"{1e3 * row['seconds']:.3g} ({row['ready_seconds']:.2g})" if row and shown else "-")
        print(f"| {workload} | " + " | ".join(cells) + " |")
    for name in names:
        for group in dict.fromkeys(row["group"] for row in rows):
            over = [r["over"] for r in rows if r["rival"] == name and r["group"] == group and r["over"]]
            if over and name != POLYDL:
                mean = statistics.geometric_mean(over)
                print(f"{name}, {group}: takes {mean:.2f} of polydl's time (geometric mean of {len(over)})")
    for row in rows:
        if row["seconds"] is None:
            print(f"not measured: {row['rival']} on {row['workload']}: {row['why']}")
    for name, why in NOT_MEASURED.items():
        print(f"not measured: {name}: {why}")


def _chosen(text: str, known: Mapping[str, Any], what: str) -> list[str]:
    names = text.split(",") if text else list(known)
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no {what} called {', '.join(unknown)}: there are {', '.join(known)}")
    return names


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=Path, required=True, metavar="JSONL", help="where rows are added")
    options.add_argument("--environments", type=Path, metavar="DIR", help="where environments are made and kept")
    options.add_argument("--rivals", default="", help="of them only these, comma-separated")
    options.add_argument("--workloads", default="", help="of them only these, comma-separated")
    options.add_argument("--only-make", action="store_true", help="make the environments and build; measure nothing")
    options.add_argument("--shown", action="store_true", help="show the rows; nothing is measured")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--turn", type=float, default=0.1, help="seconds of a turn")
    options.add_argument("--trials", type=int, default=192, help="of MetaSchedule")
    options.add_argument("--pluto", type=Path, metavar="POLYCC", help="Pluto, built beside this")
    options.add_argument("--torch", type=Path, metavar="PYTHON", help="an interpreter that has PyTorch")
    given = options.parse_args()
    rows = RowFile(given.rows, ("machine", "workload", "group", "rival", "threads", "seconds", "ready_seconds", "why"))
    names = _chosen(given.rivals, RIVALS, "rival")
    chosen = [RIVALS[name] for name in dict.fromkeys((REFERENCE, POLYDL, *names))]
    workloads = [WORKLOADS[name] for name in _chosen(given.workloads, WORKLOADS, "workload")]
    if given.shown:
        show(rows.rows())
        return 0
    if given.environments is None:
        sys.exit("--environments DIR: where shall the rivals' environments be?")
    given.environments = given.environments.resolve()
    if given.only_make:
        for rival in chosen:
            try:
                print(f"{rival.name}: {rival.make(given).python}", file=sys.stderr)
            except NotMeasured as reason:
                print(f"{rival.name}: not to be had: {reason}", file=sys.stderr)
        return 0
    for workload in workloads:
        here = [r for r in rows.rows() if (r["workload"], r["threads"]) == (workload.name, given.threads)]
        known = {row["rival"] for row in here if row["machine"] == machine()["cpu"]}
        if known.issuperset(rival.name for rival in chosen):
            continue
        for row in measured(workload, chosen, given, known):
            rows.add(row)
            said = row["why"] or f"{1e3 * row['seconds']:.3g} ms, {row['ready_seconds']:.2g} s to get there"
            print(f"{workload.name} {row['rival']}: {said}", file=sys.stderr, flush=True)
    show(rows.rows())
    return 0


if __name__ == "__main__":
    sys.exit(main())
