"""`polydl.compile`: C kernels called on NumPy arrays and torch tensors."""

from __future__ import annotations

import array
import inspect
import os
import pickle
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.base.errors import ArgumentTypeError, ArgumentValueError, InputError, PolyDLError, ToolchainError
from polydl.model.types import element_type
from polydl.native.signature import dtypes
from tests.compiling import run_compiler
from tests.efforts import FEW

pytestmark = pytest.mark.few_sizes

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

AXPY = """
void axpy(int n, float a, const float x[restrict n], float y[restrict n])
{
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}
"""
GEMM = """
#define K 24
void gemm(int n, int m, double alpha, double C[restrict n][m], const double A[restrict n][K], double B[restrict K][m])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int k = 0; k < K; k++)
                C[i][j] += alpha * A[i][k] * B[k][j];
}
"""


@cache
def axpy() -> polydl.Kernel:
    return polydl.compile(AXPY, {"n": 100}, tune=False, threads=2)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, np.dtype[Any]]:
    """Small integers, so that sums are exact in any order."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("how", [{"optimize": False}, {"tune": False}, {"top_k": 2}], ids=str)
def test_it_computes_what_the_c_code_says(how: dict[str, Any]) -> None:
    kernel = polydl.compile(GEMM, {"n": 40, "m": 56}, effort=FEW, threads=2, **how)
    a, b, c = (floats(*s, dtype="float64") for s in ((40, 24), (24, 56), (40, 56)))
    expected = c + 2 * a @ b
    assert kernel(2, c, a, b) is None
    np.testing.assert_array_equal(c, expected)


def test_a_file_with_macros_for_sizes() -> None:
    kernel = polydl.compile(EXAMPLES / "matmul.c", {"M": 30, "N": 17, "K": 9}, tune=False, threads=1)
    a, b = floats(30, 9), floats(9, 17)
    np.testing.assert_array_equal(kernel(a, b), a @ b)
    assert kernel.made.how == "ranked" and kernel.made.variant and kernel.sizes == {}


def test_sizes_may_be_left_out_or_given_by_name() -> None:
    kernel = polydl.compile(GEMM, {"n": 40, "m": 56}, effort=FEW, tune=False, threads=1)
    a, b = floats(5, 24, dtype="float64"), floats(24, 7, dtype="float64")
    np.testing.assert_array_equal(kernel(alpha=1, A=a, B=b, n=5, m=7), a @ b)
    assert str(inspect.signature(kernel)).startswith("(alpha: 'double', C: 'double[n][m]', A: 'const double[n][24]'")
    assert kernel.sizes == {"n": 40, "m": 56}


def test_nothing_is_copied() -> None:
    y = floats(2, 3, 100)
    x = floats(100)
    expected = y[1, 2] + x
    axpy()(1, x, y[1, 2])  # a row of a larger array, in place
    np.testing.assert_array_equal(y[1, 2], expected)


def test_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, y = torch.arange(100.0), torch.ones(100)
    before = y._version
    axpy()(2, x, y)
    assert torch.equal(y, 2 * torch.arange(100.0) + 1)
    assert y._version > before, "autograd has to know that the tensor has changed"
    made = axpy()(3, x)
    assert isinstance(made, torch.Tensor) and torch.equal(made, 3 * x)
    axpy()(1.0, x.numpy(), y)  # of both kinds at once


def test_tensors_without_gradients() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight = torch.nn.Parameter(torch.ones(100))
    with torch.no_grad():
        axpy()(1, torch.ones(100), weight)
    assert torch.equal(weight, 2 * torch.ones(100))
    with torch.inference_mode():
        assert torch.equal(axpy()(1, torch.ones(100)), torch.ones(100))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (lambda torch: torch.ones(100, requires_grad=True), "requires a gradient"),
        (lambda torch: torch.ones(100, device="meta"), "on device meta"),
        (lambda torch: torch.ones(100).to_sparse(), "no plain dense tensor"),
        (lambda torch: torch.ones(100, dtype=torch.float64), "elements of float64; expected float32"),
    ],
)
def test_refused_tensors(tensor: Callable[[Any], Any], message: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(TypeError, match=message):
        axpy()(1, tensor(torch), torch.ones(100))


def test_buffers_and_dlpack() -> None:
    class Exporter:
        """What exports DLPack and is neither NumPy's nor torch's."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __dlpack__(self, **given: Any) -> Any:
            return self.inner.__dlpack__(**given)

        def __dlpack_device__(self) -> Any:
            return self.inner.__dlpack_device__()

    y, other = array.array("f", [1.0] * 100), floats(100)
    axpy()(2, Exporter(other), y)
    np.testing.assert_array_equal(np.asarray(y), 1 + 2 * other)


READ_ONLY = np.ones(100, np.float32)
READ_ONLY.flags.writeable = False
UNALIGNED = np.zeros(401, np.uint8)[1:].view(np.float32)
BOTH = np.ones(150, np.float32)
X = np.ones(100, np.float32)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (ArgumentTypeError, (1, [1.0] * 100, X), "argument 'x' is a list; expected an array of float32"),
        (ArgumentTypeError, (1, X.astype(float), X), "argument 'x' has elements of float64; expected float32"),
        (ArgumentTypeError, (1, X.astype(">f4"), X), "of the other byte order"),
        (ArgumentTypeError, (1, np.ma.masked_array(X), X), "argument 'x' is a masked array"),
        (ArgumentTypeError, ("1", X, X), "argument 'a' is '1'; expected a number"),
        (ArgumentTypeError, (None, X, X), "argument 'a' is None; expected a number"),
        (ArgumentTypeError, (1j, X, X), "argument 'a' is 1j; expected a number"),
        (ArgumentTypeError, (X, X, X), r"argument 'a' has shape \(100,\); expected a number"),
        (ArgumentTypeError, (1,), r"argument 'x' \(const float\[n\]\) is missing"),
        (ArgumentTypeError, (1, X, X, X), r"takes 3 arguments by position \(a, x, y\), not 4"),
        (ArgumentValueError, (1, X[:99], X), r"argument 'x' has shape \(99,\); expected \(100,\)"),
        (ArgumentValueError, (1, X.reshape(10, 10), X), r"argument 'x' has shape \(10, 10\); expected \(100,\)"),
        (ArgumentValueError, (1, np.ones(200, np.float32)[::2], X), r"strides of \(8,\) bytes; expected \(4,\)"),
        (ArgumentValueError, (1, X[::-1], X.copy()), r"strides of \(-4,\) bytes; expected \(4,\)"),
        (ArgumentValueError, (1, X, READ_ONLY), "argument 'y' is read-only"),
        (ArgumentValueError, (1, X, UNALIGNED), "no multiple of 4 bytes"),
        (ArgumentValueError, (1, BOTH[:100], BOTH[50:]), "arguments 'x' and 'y' overlap"),
        (ArgumentValueError, (1, X, X), "arguments 'x' and 'y' overlap"),
    ],
)
def test_refused_arguments(kind: type[PolyDLError], given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(kind, match=message):
        axpy()(*given)
    assert issubclass(kind, TypeError if kind is ArgumentTypeError else ValueError)


def test_refused_names() -> None:
    with pytest.raises(ArgumentTypeError, match="no parameter 'z'"):
        axpy()(1, X, z=X)
    with pytest.raises(ArgumentTypeError, match="'x' is given twice"):
        axpy()(1, X, x=X)
    with pytest.raises(ArgumentTypeError, match=r"argument 'n' is 1\.5; expected a number \(int\)"):
        axpy()(1, X, n=1.5)
    with pytest.raises(ArgumentValueError, match="argument 'n' is 4294967396; expected -2147483648 to 2147483647"):
        axpy()(1, X, n=2**32 + 100)
    with pytest.raises(ArgumentValueError, match="extents"):
        axpy()(1, X, n=-1)


def test_read_only_where_nothing_is_written() -> None:
    y = np.zeros(100, np.float32)
    axpy()(1, READ_ONLY, y)
    np.testing.assert_array_equal(y, READ_ONLY)


def test_overlap_is_left_alone_where_c_allows_it() -> None:
    text = "void copy(int n, const float *x, float *y) {\n for (int i = 0; i < n; i++) y[i] = x[i] + 1;\n}"
    x = np.zeros(100, np.float32)
    polydl.compile(text, {"n": 100}, optimize=False)(x, x)
    np.testing.assert_array_equal(x, np.ones(100))
    with pytest.raises(ArgumentValueError, match="overlap"):
        polydl.compile(text.replace("*y", "*restrict y"), {"n": 100}, optimize=False)(x, x)


def test_pointers_need_enough_elements() -> None:
    text = "void f(int n, const float *x, float *y) {\n for (int i = 0; i < n; i++) y[2 * i + 1] = x[i];\n}"
    kernel = polydl.compile(text, {"n": 10}, tune=False, threads=1)
    y = np.zeros((4, 5), np.float32)  # any shape
    kernel(np.arange(10, dtype=np.float32), y)
    np.testing.assert_array_equal(y.ravel()[1::2], np.arange(10))
    with pytest.raises(ArgumentValueError, match="argument 'y' has 19 elements; expected 20 or more"):
        kernel(X[:10], np.zeros(19, np.float32))
    with pytest.raises(ArgumentValueError, match="only for the sizes that the kernel was made for"):
        kernel(X[:10], y, n=5)
    with pytest.raises(ArgumentTypeError, match="argument 'y' is missing, and C does not declare its size"):
        kernel(X[:10])


def test_linear_arrays_need_enough_elements() -> None:
    text = """
void f(int n, int m, const double *A, double *B)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            B[i * m + j] = 2 * A[i * m + j];
}
"""
    kernel = polydl.compile(text, {"n": 6, "m": 7}, tune=False, threads=1)
    a, b = floats(6, 7, dtype="float64"), np.zeros(43)
    kernel(a, b)
    np.testing.assert_array_equal(b, [*(2 * a).ravel(), 0])
    with pytest.raises(ArgumentValueError, match="argument 'B' has 41 elements; expected 42 or more"):
        kernel(a, b[:41])


def test_rows_of_an_array_without_a_first_extent() -> None:
    text = "void f(int n, double A[][3]) {\n for (int i = 0; i < n; i++) for (int j = 0; j < 3; j++) A[i][j] = i;\n}"
    kernel = polydl.compile(text, {"n": 4}, tune=False, threads=1)
    a = np.zeros((5, 3))
    kernel(a)
    np.testing.assert_array_equal(a[:, 0], [0, 1, 2, 3, 0])
    with pytest.raises(ArgumentValueError, match="argument 'A' has 3 rows; expected 4 or more"):
        kernel(a[:3])
    with pytest.raises(ArgumentValueError, match=r"has shape \(15,\); expected \(any, 3\)"):
        kernel(a.reshape(15))


@pytest.mark.parametrize("ctype", ["char", "unsigned char", "short", "unsigned int", "long long", "size_t", "float",
                                   "double", "_Bool", "_Float16", "long double"])  # fmt: skip
def test_element_types_and_scalars(ctype: str) -> None:
    text = f"#include <stddef.h>\nvoid f({ctype} s, {ctype} y[8])\n{{\n for (int i = 0; i < 8; i++) y[i] = s;\n}}\n"
    kernel = polydl.compile(text, optimize=False)
    value = True if ctype == "_Bool" else 100
    made = kernel(value)
    assert made.dtype.name in dtypes(element_type(ctype))
    np.testing.assert_array_equal(made, np.full(8, value, made.dtype))


def test_a_value_that_is_returned() -> None:
    text = """
double sum(int n, const double x[n], double total[1])
{
    double s = 0;
#pragma scop
    for (int i = 0; i < n; i++)
        s += x[i];
#pragma endscop
    total[0] = s;
    return 2 * s;
}
"""
    kernel = polydl.compile(text, {"n": 50}, tune=False, threads=2)
    value, total = kernel(np.arange(50.0))  # `total` is written outside of the scop
    assert (value, total.tolist()) == (2450.0, [1225.0])


WAITS = """
int wait(int n, int flag[n], int y[n])
{
    long spins = 0;
    while (!((volatile int *)flag)[0] && spins < 20000000000L)
        spins++;
#pragma scop
    for (int i = 0; i < n; i++)
        y[i] = i;
#pragma endscop
    return flag[0];
}
"""


def test_the_interpreter_runs_on_during_a_call() -> None:
    """The kernel waits for what only the interpreter can do meanwhile; it gives up after a minute or so."""
    kernel = polydl.compile(WAITS, {"n": 8}, optimize=False, threads=1)
    flag, y, started = np.zeros(8, np.int32), np.zeros(8, np.int32), threading.Event()
    results: list[int] = []

    def call() -> None:
        started.set()
        results.append(kernel(flag, y))

    thread = threading.Thread(target=call)
    thread.start()
    started.wait()
    flag[0] = 1
    thread.join()
    assert results == [1]
    np.testing.assert_array_equal(y, range(8))


def test_two_threads_at_once() -> None:
    kernel = polydl.compile(GEMM, {"n": 40, "m": 56}, effort=FEW, tune=False, threads=2)
    b = floats(24, 56, dtype="float64")
    wrong: list[int] = []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).integers(-3, 4, (40, 24)).astype(float)
        expected = a @ b
        for _ in range(50):
            if not np.array_equal(kernel(1, A=a, B=b), expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_of_a_call_are_set_and_put_back() -> None:
    text = """
extern int omp_get_max_threads(void);
int threads(int y[4])
{
#pragma scop
    for (int i = 0; i < 4; i++)
        y[i] = 1;
#pragma endscop
    return omp_get_max_threads();
}
"""
    three, one = (polydl.compile(text, optimize=False, threads=n) for n in (3, 1))
    y = np.zeros(4, np.int32)
    assert [three(y), one(y), three(y)] == [3, 1, 3]


def test_a_kernel_can_be_pickled() -> None:
    kernel = pickle.loads(pickle.dumps(axpy()))
    y = np.zeros(100, np.float32)
    kernel(2, X, y)
    np.testing.assert_array_equal(y, np.full(100, 2))


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        ("void f(int n, float *x[n]) {\n for (int i = 0; i < n; i++) x[i][0] = 1;\n}", {"n": 4}, "pointer|counterpart"),
        ("float y[8];\nvoid f(void) {\n for (int i = 0; i < 8; i++) y[i] = 1;\n}", {}, "writes to the global 'y'"),
        (AXPY, {"n": 1.5}, r"the size n is 1\.5"),
        (AXPY, {"m": 5}, "has nothing called 'm'"),
        (AXPY + AXPY.replace("axpy", "other"), {"n": 5}, "has 2 kernels: axpy, other"),
        ("struct s { float a; };\nvoid f(struct s p, float x[4]) {\n for (int i = 0; i < 4; i++) x[i] = 1;\n}", {},
         "parameter 'p' of f has no counterpart in Python"),
        ("void f(float x[4]) {\n#pragma scop\n x[0] = ;\n#pragma endscop\n}", {}, "syntax error before ';'"),
    ],
)  # fmt: skip
def test_refused_sources(text: str, sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        polydl.compile(text, sizes, tune=False)


def test_one_of_several_functions() -> None:
    text = AXPY + AXPY.replace("axpy", "other").replace("+=", "=")
    kernel = polydl.compile(text, {"n": 5}, function="other", tune=False)
    np.testing.assert_array_equal(kernel(2, X[:5]), np.full(5, 2))


def test_a_microkernel_of_the_users(tmp_path: Path) -> None:
    """Call form: the arrays that the microkernel only reads may be read-only, although C does not declare it."""
    micro = tmp_path / "gemm_micro.o"
    run_compiler(["cc", "-O2", "-fPIC", "-c", EXAMPLES / "gemm_micro.c", "-o", micro])
    sizes = {"M": 64, "N": 32, "K": 64}
    kernel = polydl.compile(EXAMPLES / "matmul_call_form.c", sizes, tune=False, threads=2, link=(str(micro),))
    a, b = floats(64, 64), floats(64, 32)
    a.flags.writeable = False
    np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        polydl.compile(tmp_path / "nowhere.c")
    with pytest.raises(InputError, match="no such file"):
        polydl.compile("nowhere.c")


def test_what_is_not_linked_is_an_error_at_once() -> None:
    text = """
void elsewhere(float *y);
void f(float y[8])
{
#pragma scop
    for (int i = 0; i < 8; i++)
        y[i] = 1;
#pragma endscop
    elsewhere(y);
}
"""
    with pytest.raises(ToolchainError, match=r"undefined reference to .elsewhere"):
        polydl.compile(text, optimize=False)


def test_names_of_the_file_do_not_meet_those_of_the_process() -> None:
    text = """
static int sin_calls;
double cbrt_(double x) { sin_calls++; return x; }
double environ[4] = {1, 2, 3, 4};
void f(double y[4])
{
#pragma scop
    for (int i = 0; i < 4; i++)
        y[i] = environ[i];
#pragma endscop
}
"""
    np.testing.assert_array_equal(polydl.compile(text, optimize=False)(), [1, 2, 3, 4])


def test_memory_of_a_thread_goes_with_it() -> None:
    """What a call keeps for the next one of its thread (packed operands, 2 MiB here) is freed when the thread ends."""
    how: dict[str, Any] = {"loops": "abc", "blocks": "c=512;mk=4x16:c;pack=B"}
    kernel = polydl.compile(EXAMPLES / "matmul.c", {"M": 4, "N": 1024, "K": 512}, tune=False, threads=1, **how)
    assert "polydl_scratch(2097152)" in kernel.source
    a, b, c = np.ones((4, 512), np.float32), np.ones((512, 1024), np.float32), np.zeros((4, 1024), np.float32)
    kernel(a, b, c)
    before = resident()
    for _ in range(64):
        thread = threading.Thread(target=kernel, args=(a, b, c))
        thread.start()
        thread.join()
    assert c[0, 0] == 65 * 512
    assert resident() - before < 64 << 20, "of 128 MiB that the threads have used"


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_without_sizes_one_kernel_is_for_every_value() -> None:
    text = """
void scale(int n, float a, const float x[restrict n], float y[restrict n])
{
    for (int i = 0; i < n; i++)
        y[i] = a * x[i];
}
"""
    scale = polydl.compile(text, tune=False, threads=1)
    assert str(scale) == "scale(n: int, a: float, x: const float[n], y: float[n])"
    assert scale.sizes == {}
    for n in (*range(41), 1000, 100_000):
        np.testing.assert_array_equal(scale(n, 3, np.arange(n, dtype=np.float32)), 3 * np.arange(n, dtype=np.float32))
    pointers = polydl.compile(text.replace("x[restrict n]", "*x").replace("y[restrict n]", "*y"), tune=False, threads=1)
    with pytest.raises(ArgumentValueError, match="is known only for the sizes that the kernel was made for"):
        pointers(4, 3, np.ones(4, np.float32), np.ones(4, np.float32))
