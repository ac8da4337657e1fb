"""Largest errors and cycles of the vector functions of `polydl/model/functions.py`, and of the shorter ones for results
in 16 bits.

    python experiments/functions.py errors [--only NAME …] [--isa avx512] [--double] [--threads 2] [--share 1]
    python experiments/functions.py cycles [--isa avx512]
    python experiments/functions.py table

`errors`: of every float (2^32; `--share 0.01`: of a hundredth), against libm in double; of pow of 2^28 pairs.
`--double`: of 2^28 doubles, against libm in long double: half of them of all bit patterns, half between 2^-30 and 2^10
and, for sine and cosine, those next to multiples of pi/2. Units: see `tests/kernels/math_driver.c`. `cycles`: of an
element of 4096 in the first cache, beside libmvec of glibc and SLEEF (`apt-get install libsleef-dev`; left out where
it is not), the medians of rounds in turn. Both add to `experiments/data/functions.json`, and `table` prints it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polydl.kernels.microkernel import isa_prologue
from polydl.kernels.vector_text import math_prologue, own_prologues
from polydl.model.expr import Call, Load
from polydl.model.functions import FUNCTIONS, Function, Vector
from polydl.model.types import F32, F64, ElementType

ROOT = Path(__file__).parent.parent
DATA = ROOT / "experiments" / "data" / "functions.json"
DRIVERS = {F32: ROOT / "tests/kernels/math_driver.c", F64: ROOT / "tests/kernels/math_driver_double.c"}
FLAGS = {"avx512": ("-mavx512f", "-mavx512dq", "-mfma"), "avx2": ("-mavx2", "-mfma"), "generic": ()}
EVERY = 1 << 32
CHUNK = 1 << 24
SAMPLE = 1 << 28
RANGES = {
    "exp": (-80, 80), "exp2": (-120, 120), "expm1": (-5, 5), "log": (1e-3, 1e3), "log2": (1e-3, 1e3),
    "log10": (1e-3, 1e3), "log1p": (-0.9, 10), "sin": (-100, 100), "cos": (-100, 100), "tanh": (-4, 4), "erf": (-3, 3),
    "erfc": (-3, 5), "pow": (0.1, 10),
}  # fmt: skip
"""Arguments that are timed, evenly spread."""


def rows(element: ElementType) -> list[tuple[Function, Vector]]:
    """Those that compute, not only round or choose."""
    every = [(row, row.vector) for row in FUNCTIONS if row.vector is not None and row.name in RANGES]
    return [(row, v) for row, v in every if element is F32 or v.ulps_double is not None]


def prologues(element: ElementType) -> str:
    """All vector functions of a type."""
    called = [Call(row.of(element) or "", (Load(0),), element) for row, _ in rows(element)]
    return isa_prologue(element) + math_prologue(element) + "".join(own_prologues(called, element, fast=False))


def built(text: str, isa: str, folder: Path, libraries: Sequence[str] = ()) -> ctypes.CDLL:
    """A library of C text."""
    source, out = folder / "functions.c", folder / "functions.so"
    source.write_text(text)
    flags = ["-O2", "-Wno-psabi", *FLAGS[isa], "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(out), str(source), *libraries, "-lm"], check=True)
    return ctypes.CDLL(str(out))


def chunks(name: str, share: float) -> Iterator[tuple[int, int, int]]:
    """(start, count, step) of scans of floats."""
    if share >= 1:
        yield from ((start, CHUNK, 1) for start in range(0, EVERY, CHUNK))
    else:
        step = round(1 / share) | 1
        yield from ((start * step, CHUNK, step) for start in range(0, EVERY // step, CHUNK))


def bits(value: float) -> int:
    """Of a double."""
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def double_chunks(name: str, share: float) -> Iterator[tuple[int, int, int]]:
    """The same of doubles."""
    pieces = 64
    count = int(SAMPLE * share) // pieces // 2
    step = (1 << 64) // (pieces * count) | 1
    yield from ((piece * count * step, count, step) for piece in range(pieces))
    for sign in (1, -1):
        first, last = bits(sign * 2.0**-30), bits(sign * 2.0**10)
        step = (last - first) // (pieces // 2 * count)
        yield from ((first + piece * count * step, count, step) for piece in range(pieces // 2))
    if name in ("sin", "cos"):
        yield from ((max(bits(n * math.pi / 2) - 8, 0), 16, 1) for n in range(1, 1 << 18))


def scanned(library: ctypes.CDLL, name: str, element: ElementType, share: float, threads: int) -> tuple[float, Any]:
    """(largest error in ulps, where)"""
    scan = getattr(library, f"scan_{name}")
    scan.restype = ctypes.c_double

    def one(at: tuple[int, int, int]) -> tuple[float, Any]:
        if name == "pow":
            pair = (ctypes.c_float * 2)()
            return scan(ctypes.c_uint64(at[0]), ctypes.c_uint64(at[1]), pair), tuple(pair)
        place = ctypes.c_uint32() if element is F32 else ctypes.c_double()
        error = scan(*map(ctypes.c_uint64, at), ctypes.byref(place))
        return error, struct.unpack("<f", struct.pack("<I", place.value))[0] if element is F32 else place.value

    places = double_chunks(name, share) if element is F64 else chunks(name, share)
    if name == "pow":
        places = ((start, CHUNK, 0) for start in range(0, int(SAMPLE * share), CHUNK))
    with ThreadPoolExecutor(threads) as pool:
        return max(pool.map(one, places), key=lambda found: found[0])


LOOP = """
#define LOOP(name, vector, lanes, load, store, call) \\
void name(long rounds, {t} *y, const {t} *x, const {t} *w) {{ (void)w; \\
    for (long r = 0; r < rounds; r++) {{ \\
        for (long i = 0; i < 4096; i += lanes) store(y + i, call); \\
        __asm__ volatile("" ::: "memory"); }} }}
"""
CLOCK = """
#include <time.h>
double seconds(void (*f)(long, void *, const void *, const void *), long rounds, void *y, const void *x, const void *w)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    f(rounds, y, x, w);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}
/* A chain of products: three cycles for each. Additions of constants are done while they are renamed (Golden Cove). */
void chain(long rounds, void *y, const void *x, const void *w)
{
    (void)y, (void)x, (void)w;
    for (long r = 0, s = 0; r < rounds; r++) __asm__ volatile(".rept 64\\n imul %0, %0\\n .endr" : "+r"(s));
}
"""
PEERS = {
    "avx512": {"libmvec": "_ZGVeN{n}{v}_{f}", "sleef": "Sleef_{f}{w}_u10avx512f"},
    "avx2": {"libmvec": "_ZGVdN{n}{v}_{f}", "sleef": "Sleef_{f}{w}_u10avx2"},
}
SLEEF_SPELLING = {"erfc": "15"}
"""SLEEF has it with 1.5 ulps, not 1.0."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Loops over 4096 elements, of functions of one type."""

    library: ctypes.CDLL
    inputs: dict[str, np.ndarray]
    """By function its argument; the second one of pow is `w`."""
    w: np.ndarray
    out: np.ndarray

    def seconds(self, name: str, peer: str, repeats: int = 20) -> float:
        """Of an element."""
        at = [a.ctypes.data_as(ctypes.c_void_p) for a in (self.out, self.inputs[name], self.w)]
        function = getattr(self.library, f"{peer}_{name}")
        return float(self.library.seconds(function, ctypes.c_long(repeats), *at)) / repeats / 4096

    def cycle(self) -> float:
        """Seconds of a cycle."""
        return float(self.library.seconds(self.library.chain, ctypes.c_long(500), None, None, None)) / 500 / 64 / 3


def loops(element: ElementType, isa: str, sleef: bool) -> tuple[str, list[tuple[str, str]]]:
    """C of a loop for each function and library, and these: (function, library)."""
    width, intrinsics = {"avx512": (64, "_mm512"), "avx2": (32, "_mm256")}[isa]
    lanes, v = width // element.bytes, f"polydl_{element.name}"
    letters, register = ("ps", f"__m{width * 8}") if element is F32 else ("pd", f"__m{width * 8}d")
    text = prologues(element) + LOOP.format(t=element.c) + CLOCK
    calls: list[tuple[str, str]] = []
    for row, vector in rows(element):
        arguments = "{load}(x + i)" + (", {load}(w + i)" if row.arity == 2 else "")
        own = arguments.format(load=f"{v}_load")
        text += f"LOOP(own_{row.name}, {v}, {lanes}, , {v}_store, {v}_{vector.name}({own}))\n"
        calls.append((row.name, "own"))
        if vector.short and element is F32:
            text += f"LOOP(short_{row.name}, {v}, {lanes}, , {v}_store, {v}_{vector.name}_short({own}))\n"
            calls.append((row.name, "short"))
        for peer, pattern in PEERS[isa].items():
            if peer == "sleef" and not sleef:
                continue
            spelled = pattern.replace("u10", f"u{SLEEF_SPELLING.get(row.name, '10')}")
            wide = f"{lanes}" if element is F32 else f"d{lanes}"
            name = spelled.format(n=lanes, v="v" * row.arity, f=row.of(element if peer == "libmvec" else F64), w=wide)
            if peer == "sleef":
                name = name.replace(f"{row.name}{wide}", f"{row.name}{'f' if element is F32 else ''}{wide}")
            given = arguments.format(load=f"{intrinsics}_loadu_{letters}")
            text += f"extern {register} {name}({', '.join([register] * row.arity)});\n"
            store = f"{intrinsics}_storeu_{letters}"
            text += f"LOOP({peer}_{row.name}, {register}, {lanes}, , {store}, {name}({given}))\n"
            calls.append((row.name, peer))
    return text, calls


def timed(isa: str, rounds: int) -> dict[str, dict[str, float]]:
    """Cycles per element, by function and library."""
    found: dict[str, dict[str, float]] = {}
    sleef = any(Path("/usr/include").glob("**/sleef.h"))
    for element in (F32, F64):
        text, calls = loops(element, isa, sleef)
        kind = np.float32 if element is F32 else np.float64
        rng = np.random.default_rng(1)
        w = rng.uniform(-3, 3, 4096).astype(kind)
        inputs = {row.name: rng.uniform(*RANGES[row.name], 4096).astype(kind) for row, _ in rows(element)}
        with tempfile.TemporaryDirectory() as folder:
            library = built(text, isa, Path(folder), ("-lmvec", *(["-lsleef"] if sleef else [])))
            library.seconds.restype = ctypes.c_double
            timing = Timing(library, inputs, w, np.zeros(4096, kind))
            samples: dict[tuple[str, str], list[float]] = {call: [] for call in calls}
            for call in calls:
                timing.seconds(*call)
            for _ in range(rounds):
                for call in calls:  # the clock drifts
                    before, took, after = timing.cycle(), timing.seconds(*call), timing.cycle()
                    samples[call].append(2 * took / (before + after))
        for (name, peer), times in samples.items():
            key = f"{name}{element.suffix}"
            found.setdefault(key, {})[peer] = round(float(np.median(times)), 2)
    return found


def kept() -> dict[str, Any]:
    """What is in the file."""
    return json.loads(DATA.read_text()) if DATA.exists() else {"errors": {}, "cycles": {}}


def keep(data: dict[str, Any]) -> None:
    """Write the file."""
    DATA.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


def table() -> None:
    """Print what is in the file."""
    data = kept()
    print("| function | ulps | cycles: polydl | libmvec | SLEEF | AVX2: polydl | libmvec | SLEEF | libm computes |")
    print("|---|---|---|---|---|---|---|---|---|")
    short = []
    for element in (F32, F64):
        for row, vector in rows(element):
            name = row.of(element)
            error = data["errors"].get(f"{name} avx512", {})
            figures = [data["cycles"].get(isa, {}).get(name, {}) for isa in ("avx512", "avx2")]
            cells = [f"{one.get(p, '')}" for one in figures for p in ("own", "libmvec", "sleef")]
            print(f"| {name} | {error.get('ulps', '')} | {' | '.join(cells)} | {vector.scalar} |")
            if vector.short and element is F32:
                error = data["errors"].get(f"{name} short avx512", {})
                cells = [f"{one.get(p, '')}" for one in figures for p in ("own", "short")]
                short.append(f"| {name} | {error.get('ulps', '')} | {' | '.join(cells)} |")
    print("\n| in 16 bits | ulps of a float | cycles: exact | short | AVX2: exact | short |")
    print("|---|---|---|---|---|---|")
    print("\n".join(short))


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("errors", "cycles", "table"))
    parser.add_argument("--only", nargs="*", help="functions, as of doubles")
    parser.add_argument("--isa", choices=tuple(FLAGS), default="avx512")
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    data = kept()
    if options.what == "table":
        table()
    elif options.what == "cycles":
        data["cycles"][options.isa] = timed(options.isa, options.rounds)
        keep(data)
    else:
        element = F64 if options.double else F32
        with tempfile.TemporaryDirectory() as folder:
            library = built(prologues(element) + DRIVERS[element].read_text(), options.isa, Path(folder))
            for row, vector in rows(element):
                if options.only and row.name not in options.only:
                    continue
                for form in ("", " short") if vector.short and element is F32 else ("",):
                    name = vector.name + form.replace(" ", "_")
                    error, where = scanned(library, name, element, options.share, options.threads)
                    print(f"{row.of(element)}{form}: {error:.3f} ulps at {where!r}", flush=True)
                    if options.share >= 1:
                        entry = {"ulps": round(error, 3), "at": repr(where)}
                        data["errors"][f"{row.of(element)}{form} {options.isa}"] = entry
                        keep(data)


if __name__ == "__main__":
    main()
