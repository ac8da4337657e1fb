"""Programs around products in tiles, emulated: several nests, operands packed ahead of time, integers that are scaled
back, special values, and which products the estimates choose."""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.base import resources
from polydl.target import detect, narrowed, preset
from tests.kernels.test_products import EMULATE
from tests.kernels.test_tiles import AMX, MACHINE, PROGRAM, VALUES
from tests.oracle.native import QUICK, compile_c

pytestmark = [
    pytest.mark.few_sizes,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="vector code of x86 around the tiles"),
]
HEAD = "#include <stdint.h>\n#include <polydl.h>\n"
FLAGS = (*QUICK, "-march=native", f"-I{resources.headers()}")


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def bf16(values: np.ndarray) -> np.ndarray:
    """The bits of floats that are bfloat16."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def written(source: str, folder: Path, machine: str = MACHINE, **options: object) -> str:
    """What polydl writes for a machine."""
    path, out = folder / "f.c", folder / "made.c"
    path.write_text(HEAD + source)
    given = {"threads": 2, **options}
    pipeline.optimize(path, out, run=False, machine=machine, **given)  # type: ignore[arg-type]
    return out.read_text()


def as_it_is(source: str) -> ctypes.CDLL:
    """The original of a function called `after`, as `before`."""
    return compile_c([HEAD + source.replace("void after(", "void before(")], FLAGS)


def built(source: str, folder: Path, machine: str = MACHINE, **options: object) -> tuple[ctypes.CDLL, ctypes.CDLL, str]:
    """(the original as `before`, what polydl writes for a machine, emulated; its C) of a function called `after`."""
    made = written(source, folder, machine, **options)
    return as_it_is(source), compile_c([made], (*FLAGS, "-fopenmp", *EMULATE)), made


def product(**kinds: str) -> str:
    """A product of matrices of any sizes."""
    text = PROGRAM.format(op="+=", shape="M][K", **kinds)
    return text[text.index("void f(") :].replace("void f(", "void after(")


def calls_of_tiles(made: str, scheme: str = "tile") -> set[str]:
    """The kernels of matrices that are called."""
    return set(re.findall(rf"\b(polydl_mk_{scheme}_\w+)\(\w[^;{{]*&", made))


NETWORK = """void after(const polydl_bf16 X[restrict 70][96], const polydl_bf16 V[restrict 96][64],
           const float b[restrict 64], const polydl_bf16 W[restrict 64][80], float Y[restrict 70][80])
{
    static polydl_bf16 H[70][64];
    for (int i = 0; i < 70; i++)
        for (int j = 0; j < 64; j++) {
            float s = b[j];
            for (int k = 0; k < 96; k++)
                s += polydl_to_float(X[i][k]) * polydl_to_float(V[k][j]);
            H[i][j] = polydl_to_bf16(s < 0 ? 0 : s);
        }
    for (int i = 0; i < 70; i++)
        for (int j = 0; j < 80; j++) {
            float s = 0;
            for (int k = 0; k < 64; k++)
                s += polydl_to_float(H[i][k]) * polydl_to_float(W[k][j]);
            Y[i][j] = s;
        }
}
"""


def test_two_layers(tmp_path: Path) -> None:
    """Both products are in tiles, whether or not they share loops; the layer between them is rounded as in C."""
    before, after, made = built(NETWORK, tmp_path)
    assert len(calls_of_tiles(made)) >= 2
    rng = np.random.default_rng(1)
    x, v, w = (bf16(rng.integers(-8, 9, shape)) for shape in ((70, 96), (96, 64), (64, 80)))
    b, found = rng.integers(-50, 50, 64).astype(np.float32), []
    for function in (before.before, after.after):
        y = np.zeros((70, 80), np.float32)
        function(*map(pointer, (x, v, b, w, y)))
        found.append(y)
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) > 500


QUANTISED = """void after(const uint8_t X[restrict 77][100], const int8_t V[restrict 100][64],
           const int32_t b[restrict 64], const int8_t W[restrict 64][50], int32_t Y[restrict 77][50])
{
    static uint8_t H[77][64];
    static int32_t S[77][64];
    for (int i = 0; i < 77; i++)
        for (int j = 0; j < 64; j++) {
            S[i][j] = b[j];
            for (int k = 0; k < 100; k++)
                S[i][j] += X[i][k] * V[k][j];
        }
    for (int i = 0; i < 77; i++)
        for (int j = 0; j < 64; j++) {
            int32_t t = (S[i][j] + 512) >> 10;
            H[i][j] = t < 0 ? 0 : t > 255 ? 255 : t;
        }
    for (int i = 0; i < 77; i++)
        for (int j = 0; j < 50; j++) {
            Y[i][j] = 0;
            for (int k = 0; k < 64; k++)
                Y[i][j] += H[i][k] * W[k][j];
        }
}
"""


def test_two_quantised_layers(tmp_path: Path) -> None:
    before, after, made = built(QUANTISED, tmp_path)
    assert len(calls_of_tiles(made)) >= 2
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (77, 100), dtype=np.uint8)
    v, w = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((100, 64), (64, 50)))
    b, found = rng.integers(-50_000, 50_000, 64, dtype=np.int32), []
    for function in (before.before, after.after):
        y = np.zeros((77, 50), np.int32)
        function(*map(pointer, (x, v, b, w, y)))
        found.append(y)
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) > 500


@pytest.mark.parametrize("kind", ["polydl_bf16", "int8_t"])
def test_packed_ahead_of_time(kind: str, tmp_path: Path) -> None:
    """Weights in tiles, packed once by a function of their own; for other weights a call packs for itself."""
    floats = kind == "polydl_bf16"
    source = PROGRAM.format(
        c="float" if floats else "int32_t",
        a=kind,
        b=kind,
        op="+=",
        shape="M][K",
        value=VALUES["bf16" if floats else "bytes"],
    ).partition("\nvoid")[2]
    source = f"void {source.strip()}\n".replace("f(int M", "after(int M")
    before, after, made = built(source, tmp_path, prepack=("B",), sizes={"M": 90, "N": 130, "K": 200})
    assert calls_of_tiles(made)
    rng = np.random.default_rng(4)
    after.after_pack_bytes.restype = ctypes.c_size_t
    for m, n, k in ((90, 130, 200), (90, 130, 200), (33, 130, 200), (5, 7, 9)):
        sizes = [ctypes.c_int(one) for one in (m, n, k)]
        a, b = (rng.integers(-8, 9, shape) for shape in ((m, k), (k, n)))
        a, b = (bf16(one) if floats else one.astype(np.int8) for one in (a, b))
        functions = [before.before, after.after]
        memory = np.zeros(after.after_pack_bytes(), np.uint8)
        if (n, k) == (130, 200):
            after.after_pack(pointer(b), pointer(memory))
            functions.append(after.after_packed)
        results = []
        for function in functions:
            c = np.ones((m, n), np.float32 if floats else np.int32)
            function(*sizes, *map(pointer, (c, a, b)), *([pointer(memory)] if function is after.after_packed else []))
            results.append(c)
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("machine", [MACHINE, "graviton-3"])
def test_infinities_and_no_numbers(machine: str, tmp_path: Path) -> None:
    """Where the original has an infinity or no number, so have products in tiles, and nowhere else: what fills up the
    last step, and rows and columns beyond the output, are zeros that meet zeros. Denormal numbers are zeros."""
    source = product(c="float", a="polydl_bf16", b="polydl_bf16", value=VALUES["bf16"])
    before, after, made = built(source, tmp_path, machine, sizes={"M": 90, "N": 130, "K": 200})
    assert calls_of_tiles(made, "tile" if machine == MACHINE else "mmla")
    rng = np.random.default_rng(6)
    cases = ((90, 130, 200), (90, 130, 200), (17, 33, 1), (16, 16, 33), (40, 50, 0), (31, 20, 67))
    for turn, (m, n, k) in enumerate(cases):
        a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        for one in (a, b):
            spread = rng.random(one.shape)
            if turn % 2:  # which no infinity meets: to the instructions their product is none
                one[(spread > 0.2) & (spread < 0.25)] = 1e-40
            else:
                one[spread < 0.002], one[spread > 0.998] = np.inf, -np.inf
                one[(spread > 0.5) & (spread < 0.501)] = np.nan
            one[(spread > 0.6) & (spread < 0.65)] = -0.0
        operands, results = (bf16(a), bf16(b)), []
        for function in (before.before, after.after):
            c = np.full((m, n), 3, np.float32)
            function(*(ctypes.c_int(one) for one in (m, n, k)), *map(pointer, (c, *operands)))
            results.append(c)
        np.testing.assert_array_equal(np.isnan(results[0]), np.isnan(results[1]))
        numbers = ~np.isnan(results[0])
        wanted = np.where(np.abs(results[0]) < np.finfo(np.float32).tiny, 0, results[0])
        np.testing.assert_array_equal(wanted[numbers], results[1][numbers])


BYTES = """void after(const int8_t I[restrict 9][20][48], const int8_t W[restrict 3][3][48][40],
           int32_t O[restrict 7][18][40])
{
    for (int h = 0; h < 7; h++)
        for (int w = 0; w < 18; w++)
            for (int o = 0; o < 40; o++)
                for (int y = 0; y < 3; y++)
                    for (int x = 0; x < 3; x++)
                        for (int c = 0; c < 48; c++)
                            O[h][w][o] += I[h + y][w + x][c] * W[y][x][c][o];
}
"""


@pytest.mark.parametrize(("machine", "scheme"), [(MACHINE, "tile"), ("graviton-3", "mmla")])
def test_a_convolution_of_bytes(machine: str, scheme: str, tmp_path: Path) -> None:
    """Its 48 channels are no whole step of tiles, six of SMMLA: exactly."""
    before, after, made = built(BYTES, tmp_path, machine)
    assert calls_of_tiles(made, scheme)
    rng = np.random.default_rng(8)
    image, weights = (rng.integers(-128, 128, n, dtype=np.int8) for n in (9 * 20 * 48, 9 * 48 * 40))
    found = []
    for function in (before.before, after.after):
        out = np.ones(7 * 18 * 40, np.int32)
        function(*map(pointer, (image, weights, out)))
        found.append(out)
    np.testing.assert_array_equal(*found)


SPEEDUPS = {
    (4, 4, 4): (1, 1), (16, 16, 8): (1, 1), (2048, 2048, 16): (1, 1.1), (8, 64, 512): (1, 4),
    (32, 32, 32): (1, 4), (64, 64, 64): (1, 9), (1024, 16, 1024): (1, 9), (256, 256, 256): (1.5, 9),
    (1024, 1024, 1024): (1.2, 9),
}  # fmt: skip
"""By rows, columns and depth: between which figures the best variant with tiles is faster, by the estimates, than the
best one without. Not where most of a tile is zeros or the output is all there is to move; eight times at most."""


@pytest.mark.parametrize("kind", ["bf16", "bytes"])
def test_estimates_of_tiles_are_sane(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    kinds = ("float", "polydl_bf16", "polydl_bf16") if kind == "bf16" else ("int32_t", "uint8_t", "int8_t")
    path.write_text(HEAD + product(**dict(zip("cab", kinds, strict=True)), value=VALUES[kind]))
    found = {}
    for size in SPEEDUPS:
        sizes = dict(zip("MNK", size, strict=True))
        ranked = [
            pipeline.rank(path, sizes=sizes, machine=MACHINE, isa=isa, threads=1, space="small").variants[0]
            for isa in (None, "avx512")
        ]
        assert "product=tile" not in str(ranked[1].recipe)
        found[size] = round(ranked[1].score / ranked[0].score, 2)
        assert ("product=tile" in str(ranked[0].recipe)) == (found[size] > 1), (size, found)
    assert all(least <= found[size] <= most for size, (least, most) in SPEEDUPS.items()), found


def test_matrices_are_no_vectors() -> None:
    """A machine that is kept to its vectors takes no tiles."""
    assert "amx_bf16" in preset(MACHINE).simd.features
    assert narrowed(preset(MACHINE), "avx512").simd.features == "avx512_vnni avx512_bf16"
    assert not any(one.startswith("amx") for one in detect(isa=detect().simd.isa).simd.features.split())


COUNTED = """
static int counted;
int count_of(void) { return counted; }
static inline void count_one(void) { __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED); }
"""


def test_each_thread_begins_once(tmp_path: Path) -> None:
    """Around all of its blocks: the thread that calls, and in the parallel loop each by itself."""
    source = product(c="float", a="polydl_bf16", b="polydl_bf16", value=VALUES["bf16"])
    made = written(source, tmp_path, sizes={"M": 256, "N": 1024, "K": 128})
    assert calls_of_tiles(made)
    counting = COUNTED + made.replace("{ polydl_tiles_on++; }", "{ polydl_tiles_on++, count_one(); }")
    library = compile_c([counting], (*FLAGS, "-fopenmp", *EMULATE))
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(2)
    a, b, c = bf16(np.ones((256, 128))), bf16(np.ones((128, 1024))), np.zeros((256, 1024), np.float32)
    for calls in (1, 2, 3):
        library.after(*map(ctypes.c_int, (256, 1024, 128)), *map(pointer, (c, a, b)))
        assert (library.count_of(), c.min(), c.max()) == (calls * (1 + 2), 128 * calls, 128 * calls)
    library.omp_set_num_threads(before)


REFUSING = """
static long asked[8], times;
long refuse(long number, ...)
{
    va_list rest;
    va_start(rest, number);
    asked[0] = number, asked[1] = va_arg(rest, int), asked[2] = va_arg(rest, int);
    va_end(rest);
    times++;
    return -1;
}
long question(int part) { return part < 3 ? asked[part] : times; }
"""


@pytest.mark.skipif(" avx512bw " not in Path("/proc/cpuinfo").read_text(), reason="vector code of AVX-512")
def test_the_system_is_asked_and_may_refuse(tmp_path: Path) -> None:
    """arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) once, however often the function is called; then vectors."""
    source = product(c="float", a="polydl_bf16", b="polydl_bf16", value=VALUES["bf16"])
    before, made = as_it_is(source), written(source, tmp_path, sizes={"M": 90, "N": 130, "K": 200}, threads=1)
    library = compile_c(["#include <stdarg.h>", REFUSING, made], (*FLAGS, *AMX, "-Dsyscall=refuse"))
    rng = np.random.default_rng(9)
    a, b = (bf16(rng.integers(-8, 9, shape)) for shape in ((90, 200), (200, 130)))
    for _ in range(2):
        found = []
        for function in (before.before, library.after):
            c = np.ones((90, 130), np.float32)
            function(*map(ctypes.c_int, (90, 130, 200)), *map(pointer, (c, a, b)))
            found.append(c)
        np.testing.assert_array_equal(*found)
    assert [library.question(part) for part in range(4)] == [158, 0x1023, 18, 1]
