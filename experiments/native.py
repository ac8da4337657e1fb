"""C code called from the harness: compiling, placing buffers, the peak, the bandwidth, flushing caches."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import polydl
from polydl.kernels import microkernel
from polydl.target import narrowing_flags
from polydl.target.products import FMA, Product

KERNELS = Path(__file__).parent / "kernels"
FLAGS = ["-O3", "-march=native", "-fopenmp"]
"""What the output of polydl is promised to compile with; `keep_to` adds to them."""

Floats = NDArray[np.float32]

_build = tempfile.TemporaryDirectory(prefix="polydl-bench-")
_libraries = [Path(_build.name)]
"""Where libraries are, the last one of these."""


def keep_libraries(folder: Path) -> None:
    """Compile libraries into a folder, and take those that it has: by what is in a file and the flags."""
    folder.mkdir(parents=True, exist_ok=True)
    _libraries.append(folder)


@cache
def library(c_file: Path, flags: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> ctypes.CDLL:
    """A C file compiled with FLAGS and `flags` (and `after`, behind the file: libraries), loaded.

    Raises subprocess.CalledProcessError, having printed the compiler's message.
    """
    key = hashlib.sha256(repr((c_file, c_file.read_bytes(), FLAGS, flags, after)).encode()).hexdigest()[:16]
    out = _libraries[-1] / f"{c_file.stem}-{key}.so"
    if out.exists():
        return ctypes.CDLL(str(out))
    subprocess.run(["cc", *FLAGS, *flags, "-shared", "-fPIC", "-o", str(out), str(c_file), *after, "-lm"], check=True)
    return ctypes.CDLL(str(out))


def polydl_callable(
    c_file: Path, function_name: str, flags: Sequence[str] = ()
) -> Callable[[Sequence[Floats], Sequence[int]], None]:
    """The function of a C file as `f(arrays, sizes)`: pointers first, then integers, as its arguments stand.

    The arrays must stay alive and contiguous; nothing is checked at the call, so that it costs next to nothing.
    """
    entry = getattr(library(c_file, tuple(flags)), function_name)
    entry.restype = None

    def call(arrays: Sequence[Floats], sizes: Sequence[int] = ()) -> None:
        entry(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays), *(ctypes.c_int(s) for s in sizes))

    return call


def bound_call(c_file: Path, function_name: str, flags: Sequence[str], arrays: Sequence[Floats]) -> Callable[[], None]:
    """`polydl_callable` with its arguments converted once: what is timed."""
    entry = getattr(library(c_file, tuple(flags)), function_name)
    entry.restype = None
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays]
    return lambda: entry(*pointers)


def bound_with_sizes(
    c_file: Path, function_name: str, sizes: Sequence[int], arrays: Sequence[Floats], flags: Sequence[str] = ()
) -> Callable[[], None]:
    """The same for a function whose first arguments are integers."""
    entry = getattr(library(c_file, tuple(flags)), function_name)
    entry.restype = None
    arguments = [*map(ctypes.c_int, sizes), *(a.ctypes.data_as(ctypes.c_void_p) for a in arrays)]
    return lambda: entry(*arguments)


def bound_packed(
    c_file: Path, function_name: str, flags: Sequence[str], arrays: Sequence[Floats], constant: Floats
) -> Callable[[], None]:
    """`bound_call`, with a constant operand that `<function>_pack` copies now, where polydl's output has that."""
    made = library(c_file, tuple(flags))
    if not hasattr(made, f"{function_name}_pack"):
        return bound_call(c_file, function_name, flags, arrays)
    needed, pack = getattr(made, f"{function_name}_pack_bytes"), getattr(made, f"{function_name}_pack")
    needed.restype, pack.restype = ctypes.c_size_t, None
    memory = np.empty(needed(), dtype=np.uint8)
    pack(*(a.ctypes.data_as(ctypes.c_void_p) for a in (constant, memory)))
    return bound_call(c_file, f"{function_name}_packed", flags, (*arrays, memory))


def placed(values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """A contiguous copy that starts at a random multiple of 64 bytes within some 256 KiB.

    Placement alone can change the speed of the same code (4 KiB aliasing, pages), so every allocation of a run
    draws another.
    """
    line = 64 // values.itemsize
    offset = int(rng.integers(0, 4096)) * line
    room = np.empty(values.size + offset + line, dtype=values.dtype)
    first = -(room.ctypes.data // room.itemsize) % line + offset
    view = room[first : first + values.size].reshape(values.shape)
    view[...] = values
    return view


def support_library() -> ctypes.CDLL:
    loaded = library(KERNELS / "support.c")
    loaded.fma_peak.restype = ctypes.c_double
    loaded.read_all.restype = ctypes.c_float
    return loaded


_IN_THREADS = """
double product_peak(long steps, float *sink)
{
    double operations = 0;
    float total = 0;
#pragma omp parallel reduction(+ : operations, total)
    {
        float last = 0;
        operations += polydl_tile_peak(steps, &last);
        total += last;
    }
    *sink = total;
    return operations;
}
"""
"""As `kernels/product_peak.c`, of tiles."""


@cache
def _product_loop(product: Product) -> Any:
    """C's `product_peak` for an inner product of groups, or of tiles."""
    sums, word = product.sums[0], product.word(product.sums[0])
    macros = {"GROUP": product.group, "SUMS": f"polydl_{sums.name}", "WORDS": f"polydl_{word.name}"}
    before = [
        *(microkernel.isa_prologue(e) for e in dict.fromkeys((sums, word))),
        microkernel.product_prologue(product),
    ]
    defined = [f"#define {name} {text}\n" for name, text in (macros | {"MULTIPLY": f"polydl_{product.call}"}).items()]
    source = Path(_build.name) / f"peak_{product.name}.c"
    tiles = microkernel.peak_tiles(product)
    if tiles is None:
        after = (KERNELS / "product_peak.c").read_text(encoding="utf-8")
    else:
        template = microkernel.environment().get_template("tile_peak.c.j2")
        after = template.render(tiles=tiles, t=sums, word=word, group=product.group) + _IN_THREADS
    source.write_text("".join([*before, *defined, after]))
    loop = library(source).product_peak
    loop.restype = ctypes.c_double
    return loop


def peak_gflops(seconds: float = 0.01, repeats: int = 4, product: Product = FMA) -> float:
    """Peak of all threads together in FMAs on fp32, or in another inner product, in 10^9 operations per second: the
    best of some runs of a register-only kernel that together last about `seconds`, since whatever disturbs one only
    takes away."""
    loop, sink = _product_loop(product) if product.in_words else support_library().fma_peak, ctypes.c_float()
    steps, best = 20_000, 0.0
    for _ in range(repeats + 1):  # the first finds out how many steps to take, and wakes the threads
        begin = time.perf_counter()
        operations = loop(ctypes.c_long(steps), ctypes.byref(sink))
        taken = time.perf_counter() - begin
        if operations == 0:
            raise RuntimeError(f"the system does not let this process use the tiles of {product.name}")
        best = max(best, operations / taken / 1e9)
        steps = max(20_000, int(steps * seconds / repeats / taken))
    return best


@cache
def _large() -> Floats:
    """A buffer four times as large as all last-level caches, and at least 256 MiB."""
    return np.ones(max(4 * last_level_bytes(), 256 << 20) // 4, dtype=np.float32)


def last_level_bytes() -> int:
    """Sum of the distinct last-level caches as sysfs tells them; 64 MiB where it tells nothing."""
    caches: dict[str, int] = {}
    for index in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index3"):
        text = (index / "size").read_text(encoding="ascii").strip()
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
        caches[(index / "shared_cpu_list").read_text(encoding="ascii")] = int(text.rstrip("KM")) * unit
    return sum(caches.values()) or 64 << 20


def read_bandwidth(repeats: int = 5) -> float:
    """Memory read bandwidth of all threads together, in GB/s: the best of some passes over a large buffer."""
    support, data, best = support_library(), _large(), 0.0
    for _ in range(repeats):
        begin = time.perf_counter()
        support.read_all(data.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(data.size))
        best = max(best, data.nbytes / (time.perf_counter() - begin) / 1e9)
    return best


def flush_caches() -> None:
    """Take everything else out of every cache."""
    data = _large()
    support_library().touch_all(data.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(data.size))


def openmp_runtimes() -> list[str]:
    """The OpenMP runtimes that this process has loaded. With more than one, each keeps threads of its own that spin
    on the others' cores, and no timing means anything."""
    names = ("libgomp", "libomp", "libiomp")
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {Path(line.split()[-1]).resolve() for line in lines if "/" in line}
    return sorted(str(f) for f in files if f.name.startswith(names))


def keep_to(isa: str | None) -> None:
    """Keep polydl's C, oneDNN, MKL, PyTorch's own kernels and LIBXSMM to an instruction set. Call before anything loads
    one of them. Raises InputError where the machine has not even that, SystemExit where a library cannot be kept to it.
    """
    if isa is None:
        return
    features = polydl.Options(isa=isa).target().simd.features.split()
    # oneDNN's is the most that it may use: with products of small types, without AMX.
    xsmm = "cpx" if "avx512_bf16" in features else "skx"
    names = {"avx512": ("AVX512_CORE_BF16", "AVX512", "avx512", xsmm), "avx2": ("AVX2", "AVX2", "avx2", "hsw")}
    if isa not in names:
        sys.exit(f"--isa {isa}: the libraries can be kept to {' or '.join(names)}")
    variables = ("ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY", "LIBXSMM_TARGET")
    os.environ.update(zip(variables, names[isa], strict=True))
    FLAGS.extend(narrowing_flags(isa))


def set_threads(threads: int) -> None:
    """Tell every OpenMP runtime of this process how many threads to use. Call before anything loads one."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ["MKL_NUM_THREADS"] = str(threads)


def keep_freed_memory() -> None:
    """Make malloc keep what is freed, so that a library that allocates its result on every call does not pay for
    page faults that another, writing in place, is spared. glibc only; elsewhere nothing changes."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        m_trim_threshold, m_mmap_max = -1, -4  # from malloc.h
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, -1)
