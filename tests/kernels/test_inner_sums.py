"""Rows whose columns are short sums of products of integers: to the bit, for every number and kind of blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from tests.kernels.test_narrow_rows import CPU
from tests.oracle.native import compile_c
from tests.together import asked


@dataclass(frozen=True, slots=True)
class Kind:
    """Blocks of numbers, and what becomes of two of them."""

    w: str
    """Members of a block of the first operand."""
    x: str
    """Of the second one."""
    body: str
    """Adds to `dot`; `p` and `q` are the blocks."""
    finish: str = "(float)dot * (float)p->s * (float)q->s"


KINDS = {
    "16 bytes by bytes": Kind(
        "float s; signed char v[16]", "float s; signed char v[16]", "J(16) dot += p->v[j] * q->v[j];"
    ),
    "32 halves": Kind(
        "_Float16 s; signed char v[32]", "_Float16 s; signed char v[32]", "J(32) dot += p->v[j] * q->v[j];"
    ),
    "64, unsigned by signed": Kind(
        "float s; unsigned char v[64]", "float s; signed char v[64]", "J(64) dot += p->v[j] * q->v[j];"
    ),
    "256, unsigned": Kind(
        "float s; unsigned char v[256]",
        "float s; unsigned char v[256]",
        "J(256) dot += p->v[j] * q->v[j];",
        "(float)(dot >> 8) * p->s",
    ),
    "24, taken away": Kind(
        "float s; signed char v[24]", "float s; signed char v[24]", "J(24) dot -= 3 * (p->v[j] * q->v[j]);"
    ),
    "zero points of blocks": Kind(
        "float s; unsigned char z; unsigned char v[32]",
        "float s; signed char v[32]",
        "J(32) dot += (p->v[j] - p->z) * q->v[j];",
    ),
    "lower and upper halves": Kind(
        "_Float16 s; unsigned char v[16]",
        "_Float16 s; signed char v[32]",
        "J(16) dot += ((p->v[j] & 15) - 8) * q->v[j] + ((p->v[j] >> 4) - 8) * q->v[j + 16];",
    ),
    "alternating": Kind(
        "float s; unsigned char v[16]",
        "float s; signed char v[32]",
        "J(16) { dot += (p->v[j] & 15) * q->v[2 * j]; dot += (p->v[j] >> 4) * q->v[2 * j + 1]; }",
    ),
    "alternating, unsigned": Kind(
        "float s; unsigned char v[16]",
        "float s; unsigned char v[32]",
        "J(16) dot += ((p->v[j] & 15) ^ 8) * q->v[2 * j] - (p->v[j] >> 4) * q->v[2 * j + 1];",
    ),
    "signed 4 bits": Kind(
        "float s; signed char v[16]",
        "float s; signed char v[32]",
        "J(16) dot += ((signed char)(p->v[j] << 4) >> 4) * q->v[j] + (p->v[j] >> 4) * q->v[j + 16];",
    ),
    "least values": Kind(
        "_Float16 s, m; unsigned char v[16]",
        "float s; signed char v[32]",
        "int all = 0; J(16) { dot += (p->v[j] & 15) * q->v[j] + (p->v[j] >> 4) * q->v[j + 16];"
        " all += q->v[j] + q->v[j + 16]; }",
        "((float)dot * (float)p->s + (float)all * (float)p->m) * q->s",
    ),
    "words": Kind(
        "float s; short v[32]",
        "float s; short v[32]",
        "J(32) dot += p->v[j] * (q->v[j] >> 8);",
        "(float)(dot >> 12) * p->s",
    ),
}
ROWS, MOST = 5, 37
"""Rows, and blocks in the longest of them."""
FLAGS = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mavx2", "-mfma", "-mf16c"),
    "avx512 without vnni": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx2", "-mfma", "-mf16c"),
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "plain": (),
}


def text(*kinds: Kind) -> str:
    """One file: functions f0, f1, …, and `sizes`, of the blocks of all of them."""
    functions = [function(kind, number) for number, kind in enumerate(kinds)]
    found = "".join(
        f" found[{2 * n}] = sizeof(struct w{n}); found[{2 * n + 1}] = sizeof(struct x{n});" for n in range(len(kinds))
    )
    return f"#define J(n) for (int j = 0; j < n; j++)\n{''.join(functions)}void sizes(int *found) {{{found} }}\n"


def function(kind: Kind, number: int) -> str:
    w, x = f"w{number}", f"x{number}"
    return f"""struct {w} {{ {kind.w}; }};
struct {x} {{ {kind.x}; }};
void f{number}(int rows, int blocks, const struct {w} *w, const struct {x} *x, float *restrict y)
{{
    for (int r = 0; r < rows; r++) {{
        float sum = 0;
        for (int b = 0; b < blocks; b++) {{
            const struct {w} *p = &w[r * blocks + b];
            const struct {x} *q = &x[b];
            int dot = 0;
            {kind.body}
            sum += {kind.finish};
        }}
        y[r] = sum;
    }}
}}
"""


def in_rows(*scops: Scop, called: str = "") -> str:
    """The file with vector functions; `called`: what the code of each scop calls."""
    made = []
    for scop in scops:
        found = canonical(scop).scop
        parts = [ordered(nest, (Vectorize(),)) for nest in nests(found, dependences(found, reads=False))]
        made.append((scop, generate(found, program_tree(parts))))
        assert called in "".join((*made[-1][1].prologue, made[-1][1].region))
    return splice(scops[0].source, made, "")


@cache
def libraries(names: tuple[str, ...], isa: str) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The programs as they are, and in rows: functions f0, f1, …"""
    source, written = in_one_file(names)
    common = ("-ffp-contract=off", "-fno-fast-math", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
    common += () if isa.startswith("avx512") else ("-mno-avx512f",)
    quick = ("-Og", "-fstrict-aliasing", *common)
    return compile_c([source], ("-Og", *common)), compile_c([written], (*quick, *FLAGS[isa]))


@cache
def in_one_file(names: tuple[str, ...]) -> tuple[str, str]:
    source = text(*(KINDS[name] for name in names))
    return source, in_rows(*polydl.load(source, require_sizes=False).scops, called="polydl_sum_")


def results(
    function: Callable[..., object],
    blocks: int,
    sizes: tuple[int, int],
    w: npt.NDArray[np.uint8],
    x: npt.NDArray[np.uint8],
) -> list[float]:
    """What a function makes of so many blocks in a row, right in front of the end of their memory. `sizes`: bytes of a
    block of each operand."""
    y = np.zeros(ROWS, np.float32)
    ends = (one[len(one) - size :] for one, size in ((w, ROWS * blocks * sizes[0]), (x, blocks * sizes[1])))
    first, second = (np.ascontiguousarray(one) for one in ends)
    function(ROWS, blocks, *(ctypes.c_void_p(one.ctypes.data) for one in (first, second, y)))
    return [float(one) for one in y]


def blocks_of(kind: str, members: str, size: int, count: int, seed: int) -> npt.NDArray[np.uint8]:
    """Blocks of any numbers, with scales that are small integers, so that no sum is rounded."""
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 256, (count, size), dtype=np.uint8)
    made[::3] = 0x80  # the least number there is, in all places
    scale = np.float16 if "_Float16" in members else np.float32
    for place in range(1 + ("s, m" in members)):
        own = rng.integers(-1, 2, count).astype(scale).view(np.uint8).reshape(count, -1)
        made[:, place * own.shape[1] : (place + 1) * own.shape[1]] = own
    return made.ravel()


@pytest.mark.parametrize("isa", FLAGS)
@pytest.mark.parametrize("name", KINDS)
def test_the_same_bits_as_plain_c(name: str, isa: str, request: pytest.FixtureRequest) -> None:
    if not {flag.removeprefix("-m").replace("vnni", "_vnni") for flag in FLAGS[isa]} <= CPU:
        pytest.skip(f"the processor has no {isa}")
    names = asked(request, "name", isa=isa)
    both, place = libraries(names, isa), names.index(name)
    found = (ctypes.c_int * (2 * len(names)))()
    both[0].sizes(found)
    sizes = found[2 * place], found[2 * place + 1]
    kind = KINDS[name]
    w, x = blocks_of(name, kind.w, sizes[0], ROWS * MOST, 1), blocks_of(name, kind.x, sizes[1], MOST, 2)
    plain, rows = (library[f"f{place}"] for library in both)
    for blocks in (0, 1, 3, 7, 8, 15, 16, 17, MOST):
        assert results(rows, blocks, sizes, w, x) == results(plain, blocks, sizes, w, x), blocks


@pytest.mark.parametrize(
    ("members", "body"),
    [
        ("int v[16]", "J(16) dot += p->v[j] * q->v[j];"),  # 32 bits by 32 bits
        ("unsigned short v[16]", "J(16) dot += p->v[j] * q->v[j];"),  # more than 16 bits with a sign have
        ("signed char v[12]", "J(12) dot += p->v[j] * q->v[j];"),  # no vectors of them
        ("signed char v[32]", "J(16) dot += p->v[2 * j] * q->v[j];"),  # every second one, and none in between
        ("signed char v[16]", "J(16) dot += p->v[15 - j] * q->v[j];"),
    ],
)
def test_what_stays_plain_c(members: str, body: str) -> None:
    kind = Kind(f"float s; {members}", f"float s; {members}", body)
    (scop,) = polydl.load(text(kind), require_sizes=False).scops
    assert "polydl_sum_" not in in_rows(scop)
