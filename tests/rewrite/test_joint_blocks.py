"""Joint states in blocks: moments and rescaled sums as people write them, against double precision, and what stays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl import load, rank
from polydl.equations.step import Step
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rewrite import joint_blocks as module
from polydl.rewrite.canonical import canonical
from polydl.rewrite.joint_blocks import Blocks
from tests.oracle.native import NATIVE
from tests.rewrite.executing import compiled

OPTIONS = Options(threads=2, space="small", machine="epyc-zen3")
FLAGS = (*NATIVE, "-ffp-contract=off", "-Werror", "-Wno-maybe-uninitialized")
N, R, M, D = 1000, 12, 60, 20
HEAD = (
    f"void f(const T x[restrict {N}], const T A[restrict {R}][{M}], const T w[restrict {N}], "
    f"const T V[restrict {M}][{D}], T out[restrict 4], T P[restrict {R}][4], T O[restrict {R}][{D}], T c)"
)
SHAPES = {"x": (N,), "A": (R, M), "w": (N,), "V": (M, D), "out": (4,), "P": (R, 4), "O": (R, D)}
LONG, ROWS, COLUMNS = (
    f"for (int i = 0; i < {N}; i++)",
    f"for (int r = 0; r < {R}; r++)",
    f"for (int i = 0; i < {M}; i++)",
)

Arrays = dict[str, np.ndarray]


def moments(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sum of squared deviations of rows."""
    weights = np.ones_like(values) if weights is None else weights
    mean = (values * weights).sum(-1) / weights.sum(-1)
    return mean, (weights * (values - mean[..., None]) ** 2).sum(-1)


def of_all(a: Arrays) -> Arrays:
    mean, m2 = moments(a["x"])
    return {"out": np.array([mean, m2])}


def of_all_weighted(a: Arrays) -> Arrays:
    mean, m2 = moments(a["x"], a["w"])
    return {"out": np.array([mean, m2, a["w"].sum()])}


def of_rows(a: Arrays) -> Arrays:
    return {"P": np.stack(moments(a["A"]), -1)}


def softmax(a: Arrays, base: float = np.e, scale: float = 1.0) -> Arrays:
    top = a["A"].max(-1)
    e = np.power(base, scale * (a["A"] - top[:, None]))
    return {"P": np.stack([top, e.sum(-1)], -1), "O": (e @ a["V"]) / e.sum(-1)[:, None]}


def log_sum(a: Arrays) -> Arrays:
    return {"out": np.array([a["x"].max(), np.exp(a["x"] - a["x"].max()).sum()])}


def softmax_rows(a: Arrays) -> Arrays:
    return {"P": softmax(a)["P"]}


CASES: dict[str, tuple[str, Callable[[Arrays], Arrays]]] = {
    "Welford": (
        (
            f"T mean = 0, m2 = 0; {LONG} {{ T d = x[i] - mean; mean += d / (i + 1); m2 += d * (x[i] - mean); }} "
            "out[0] = mean; out[1] = m2;"
        ),
        of_all,
    ),
    "Welford, counting": (
        (
            f"T mean = 0, m2 = 0; T n = 0; {LONG} {{ n += 1; T d = x[i] - mean; mean = mean + d / n; "
            "m2 = m2 + d * (x[i] - mean); } out[0] = mean; out[1] = m2;"
        ),
        of_all,
    ),
    "Welford, counting in floats": (
        (
            f"T mean = 0, m2 = 0; {LONG} {{ T d = x[i] - mean; mean += d / (i + 1.0f); m2 += d * (x[i] - mean); }} "
            "out[0] = mean; out[1] = m2;"
        ),
        of_all,
    ),
    "Welford, a number times one": (
        (
            f"T mean = 0, m2 = 0; {LONG} {{ T d = x[i] - mean; mean += d / ((T)(i + 1) * 1.0f); "
            "m2 += d * (x[i] - mean); } out[0] = mean; out[1] = m2;"
        ),
        of_all,
    ),
    "Welford by the old mean": (
        (
            f"T mean = 0, m2 = 0; {LONG} {{ T d = x[i] - mean; m2 += d * d * i / (i + 1); mean += d / (i + 1); }} "
            "out[0] = mean; out[1] = m2;"
        ),
        of_all,
    ),
    "a mean that is weighed anew": (
        (
            f"T mean = 0, m2 = 0; {LONG} {{ T old = mean; mean = (mean * i + x[i]) / (i + 1); "
            "m2 += (x[i] - old) * (x[i] - mean); } out[0] = mean; out[1] = m2;"
        ),
        of_all,
    ),
    "downwards": (
        (
            f"T mean = 0, m2 = 0; for (int i = {N - 1}; i >= 0; i--) {{ T d = x[i] - mean; mean += d / ({N} - i); "
            "m2 += d * (x[i] - mean); } out[0] = mean; out[1] = m2;"
        ),
        of_all,
    ),
    "with weights": (
        (
            f"T mean = 0, m2 = 0; T n = 0; {LONG} {{ n += w[i]; T d = x[i] - mean; mean += d * w[i] / n; "
            "m2 += w[i] * d * (x[i] - mean); } out[0] = mean; out[1] = m2; out[2] = n;"
        ),
        of_all_weighted,
    ),
    "of what is there": (
        (
            f"out[0] = 0; out[1] = 0; {LONG} {{ T d = x[i] - out[0]; out[0] += d / (i + 1); "
            "out[1] += d * (x[i] - out[0]); }"
        ),
        of_all,
    ),
    "of rows": (
        (
            f"{ROWS} {{ T mean = 0, m2 = 0; int n = 0; {COLUMNS} {{ n++; T d = A[r][i] - mean; mean += d / n; "
            "m2 += d * (A[r][i] - mean); } P[r][0] = mean; P[r][1] = m2; }"
        ),
        of_rows,
    ),
    "greatest and rescaled sum": (
        (
            f"T m = -INFINITY, s = 0; {LONG} {{ T now = FMAX(m, x[i]); s = s * EXP(m - now) + EXP(x[i] - now); "
            "m = now; } out[0] = m; out[1] = s;"
        ),
        log_sum,
    ),
    "from the first element on": (
        (
            f"T m = x[0], s = 1; for (int i = 1; i < {N}; i++) {{ T old = m; if (x[i] > m) m = x[i]; "
            "s = s * EXP(old - m) + EXP(x[i] - m); } out[0] = m; out[1] = s;"
        ),
        log_sum,
    ),
    "a choice of two updates": (
        (
            f"T m = -INFINITY, s = 0; {LONG} if (x[i] > m) {{ s = s * EXP(m - x[i]) + 1; m = x[i]; }} "
            "else s += EXP(x[i] - m); out[0] = m; out[1] = s;"
        ),
        log_sum,
    ),
    "rescaled where it has to be": (
        (
            f"T m = -INFINITY, s = 0; {LONG} {{ if (x[i] > m) {{ s *= EXP(m - x[i]); m = x[i]; }} "
            "s += EXP(x[i] - m); } out[0] = m; out[1] = s;"
        ),
        log_sum,
    ),
    "softmax in one pass": (
        (
            f"{ROWS} {{ T m = -INFINITY, s = 0; {COLUMNS} {{ T now = A[r][i] > m ? A[r][i] : m; "
            "s = s * EXP(m - now) + EXP(A[r][i] - now); m = now; } P[r][0] = m; P[r][1] = s; }"
        ),
        softmax_rows,
    ),
    "attention": (
        (
            f"{ROWS} {{ T m = -INFINITY, s = 0; for (int k = 0; k < {D}; k++) O[r][k] = 0; "
            f"{COLUMNS} {{ T z = 0; for (int k = 0; k < 1; k++) z += A[r][i]; T now = z > m ? z : m; "
            "T f = EXP(m - now), p = EXP(z - now); s = s * f + p; "
            f"for (int k = 0; k < {D}; k++) O[r][k] = O[r][k] * f + p * V[i][k]; m = now; }} "
            f"P[r][0] = m; P[r][1] = s; for (int k = 0; k < {D}; k++) O[r][k] /= s; }}"
        ),
        softmax,
    ),
    "attention, rescaled in a loop of its own": (
        (
            f"{ROWS} {{ T m = -INFINITY, s = 0; for (int k = 0; k < {D}; k++) O[r][k] = 0; "
            f"{COLUMNS} {{ T now = FMAX(m, A[r][i]); T f = EXP(m - now); s *= f; "
            f"for (int k = 0; k < {D}; k++) O[r][k] *= f; T p = EXP(A[r][i] - now); s += p; "
            f"for (int k = 0; k < {D}; k++) O[r][k] += p * V[i][k]; m = now; }} "
            f"P[r][0] = m; P[r][1] = s; for (int k = 0; k < {D}; k++) O[r][k] /= s; }}"
        ),
        softmax,
    ),
    "attention, scaled within": (
        (
            f"{ROWS} {{ T m = -INFINITY, s = 0; for (int k = 0; k < {D}; k++) O[r][k] = 0; "
            f"{COLUMNS} {{ T now = FMAX(m, A[r][i]); T p = EXP2(c * (A[r][i] - now)); T f = EXP2(c * (m - now)); "
            f"for (int k = 0; k < {D}; k++) {{ O[r][k] *= f; O[r][k] += p * V[i][k]; }} s = f * s + p; m = now; }} "
            f"P[r][0] = m; P[r][1] = s; for (int k = 0; k < {D}; k++) O[r][k] /= s; }}"
        ),
        lambda a: softmax(a, 2.0, 0.5),
    ),
}


def text(body: str, of: str) -> str:
    spelled = {"EXP2": "exp2", "EXP": "exp", "FMAX": "fmax"}
    for macro, function in spelled.items():
        body = body.replace(f"{macro}(", f"{function}{'f' if of == 'float' else ''}(")
    return f"#include <math.h>\ntypedef {of} T;\n{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


def scop_of(folder: Path, body: str, of: str = "float") -> Scop:
    path = folder / "s.c"
    path.write_text(text(body, of))
    return load(path).scops[0]


def blocks(scop: Scop) -> list[Step]:
    return [step for step in canonical(scop).steps if isinstance(step.rewrite, Blocks)]


def run(library: ctypes.CDLL, arrays: Arrays, of: type) -> Arrays:
    copies: Arrays = {name: values.astype(of) for name, values in arrays.items()}
    c = ctypes.c_float(0.5) if of is np.float32 else ctypes.c_double(0.5)
    library.f(*(a.ctypes.data_as(ctypes.c_void_p) for a in copies.values()), c)
    return copies


def inputs() -> Arrays:
    generator = np.random.default_rng(4)
    made = {name: generator.standard_normal(shape).astype(np.float32).astype(float) for name, shape in SHAPES.items()}
    # What weighs nothing changes nothing, be it a whole block; in front of all others it would be 0 / 0.
    made["w"] = abs(made["w"])
    made["w"][1:3], made["w"][90:320], made["w"][500:] = 0, 0, 0
    made["x"] += 3
    return made


@pytest.mark.parametrize("size", [0, 100], ids=["whole", "in blocks"])
@pytest.mark.parametrize("case", list(CASES))
def test_the_same_results(tmp_path: Path, case: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if size:
        monkeypatch.setattr(module, "WHOLE", 10)
        monkeypatch.setattr(module, "BLOCK", 16)
    body, wanted = CASES[case]
    of = np.float64 if case in ("with weights", "from the first element on") else np.float32
    scop = scop_of(tmp_path, body, "double" if of is np.float64 else "float")
    made = blocks(scop)
    assert len(made) == 1 and made[0].broken() is None
    rewrite = made[0].rewrite
    assert isinstance(rewrite, Blocks) and bool(rewrite.size) is bool(size)
    arrays = inputs()
    if "EXP" in body:  # what is masked, whole blocks of it
        arrays["x"][90:320] = arrays["A"][:, 20:50] = -np.inf
    want = wanted(arrays)
    for number, variant in enumerate(rank(scop, options=OPTIONS).variants[:2]):
        library = compiled(tmp_path, f"v{number}", [variant.code()], FLAGS)
        got = run(library, arrays, of)
        for name, values in want.items():
            mine = got[name][..., : values.shape[-1]]
            close = 3e-6 if of is np.float32 else 1e-13
            assert np.allclose(mine, values, rtol=close, atol=close / 10), (name, mine, values)


LEFT_ALONE = {
    "the mean of each element": f"T m = 0, q = 0; {LONG} {{ T d = x[i] - m; m += d / (i + 1); q += d * (x[i] - m); "
    "out[i & 3] = m; }",
    "another number": f"T m = 0, q = 0; {LONG} {{ T d = x[i] - m; m += d / (2 * i + 1); q += d * (x[i] - m); }} "
    "out[0] = m; out[1] = q;",
    "a wrong sign": f"T m = 0, q = 0; {LONG} {{ T d = x[i] - m; m += d / (i + 1); q += d * (x[i] + m); }} "
    "out[0] = m; out[1] = q;",
    "not rescaled": f"T m = -INFINITY, s = 0; {LONG} {{ T now = FMAX(m, x[i]); s = s + EXP(x[i] - now); m = now; }} "
    "out[0] = m; out[1] = s;",
    "the greatest too late": f"T m = 0, s = 0; {LONG} {{ T now = FMAX(m, x[i]); s = s * EXP(m - now) + EXP(x[i] - m); "
    "m = now; } out[0] = m; out[1] = s;",
    "integers": f"int m = 0; int q = 0; {LONG} {{ int d = (int)x[i] - m; m += d / (i + 1); "
    "q += d * ((int)x[i] - m); } out[0] = m; out[1] = q;",
    "an element that is made twice": (
        f"T m = -INFINITY, s = 0; {LONG} {{ T z = 0; for (int k = 0; k < 2; k++) z += x[i] * k; T now = FMAX(m, z); "
        "z = 1; for (int k = 0; k < 2; k++) z += w[i] * k; s = s * EXP(m - now) + EXP(z - now); m = now; } "
        "out[0] = m; out[1] = s;"
    ),
    "an element that is handed on": (
        f"T m = -INFINITY, s = 0, z = 0; {LONG} {{ for (int k = 0; k < 2; k++) z += x[i] * k; T now = FMAX(m, z); "
        "s = s * EXP(m - now) + EXP(z - now); m = now; } out[0] = m; out[1] = s;"
    ),
    "a difference that is needed": f"T m = 0, q = 0, d = 0; {LONG} {{ d = x[i] - m; m += d / (i + 1); "
    "q += d * (x[i] - m); } out[0] = m; out[1] = q; out[2] = d;",
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_what_is_no_such_step_stays(tmp_path: Path, case: str) -> None:
    assert not blocks(scop_of(tmp_path, LEFT_ALONE[case]))


def test_it_needs_leave_to_reassociate(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, CASES["Welford"][0])
    assert not any(isinstance(s.rewrite, Blocks) for s in canonical(scop, reassociate=False).steps)


def test_another_program_is_seen(tmp_path: Path) -> None:
    (step,) = blocks(scop_of(tmp_path, CASES["Welford"][0]))
    fewer = replace(step.after, statements=step.after.statements[1:])
    assert "was changed" in str(replace(step, after=fewer).broken())


def test_the_check_looks_for_itself(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, LEFT_ALONE["a wrong sign"])
    names = tuple(s.name for s in scop.statements if s.depth)
    assert "no" in str(Blocks(names, (scop.statements[2].position[0],), "moments", 0).broken(scop, scop))


def best(folder: Path, name: str, body: str, length: int) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The first variant of a loop over so many floats, and the original."""
    path = folder / f"{name}.c"
    path.write_text(
        text(body, "float").replace(f"[restrict {N}]", f"[restrict {length}]").replace(f"< {N};", f"< {length};")
    )
    variant = rank(load(path).scops[0], options=OPTIONS).variants[0]
    assert variant.program.statements != load(path).scops[0].statements
    return compiled(folder, f"{name}v", [variant.code()], FLAGS), compiled(
        folder, f"{name}o", [path.read_text()], FLAGS
    )


def found(library: ctypes.CDLL, x: np.ndarray) -> np.ndarray:
    return run(library, {**inputs(), "x": x}, np.float32)["out"].astype(float)


def test_a_mean_far_from_zero(tmp_path: Path) -> None:
    """Ten million values around 10,000 with a variance of 1: at least as exact as one after the other."""
    length = 10_000_000
    x = (10_000 + np.random.default_rng(2).standard_normal(length)).astype(np.float32).astype(float)
    mean, m2 = moments(x)
    mine, original = (found(one, x) for one in best(tmp_path, "far", CASES["Welford"][0], length))
    for place, want in enumerate((mean, m2)):
        assert abs(mine[place] - want) <= max(abs(original[place] - want), 1e-6 * want), (mine, original, mean, m2)
    assert abs(mine[1] - m2) < 1e-3 * m2


def test_extreme_logits(tmp_path: Path) -> None:
    mine, original = best(tmp_path, "logits", CASES["greatest and rescaled sum"][0], 50_000)
    generator = np.random.default_rng(3)
    x = generator.uniform(-1e4, 1e4, 50_000).astype(np.float32)
    want = log_sum({"x": x.astype(float)})["out"]
    assert np.allclose(found(mine, x)[:2], want, rtol=1e-6)
    x[[7, 30_000]] = np.nan
    assert np.array_equal(found(mine, x)[:2], found(original, x)[:2], equal_nan=True)
    x[:] = -np.inf
    assert np.array_equal(found(mine, x)[:2], found(original, x)[:2], equal_nan=True)
