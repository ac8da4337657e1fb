"""`Region` and `Watch`: the C extension and its twin in Python do the same."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from polydl.torch_backend import call_extension, calls_in_python

TEXT = """
#include <omp.h>
#include <stddef.h>
void add(void *const *a) { for (int i = 0; i < 6; i++) ((float *)a[2])[i] = ((float *)a[0])[i] + ((float *)a[1])[i]; }
void twice(void *const *a) { for (int i = 0; i < 6; i++) ((float *)a[1])[i] = 2 * ((float *)a[0])[i]; }
void team(void *const *a)
{
    int n = 0;
    #pragma omp parallel
    #pragma omp single
    n = omp_get_num_threads();
    ((int *)a[0])[0] = n;
}
void apart(void *const *a) { ((long *)a[1])[0] = (long)a[0] % 64; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("calls")
    (folder / "x.c").write_text(TEXT)
    command = ["gcc", "-O1", "-fopenmp", "-shared", "-fPIC", str(folder / "x.c"), "-o", str(folder / "x.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "x.so"))


@pytest.fixture(params=["C", "Python"])
def calls(request: pytest.FixtureRequest) -> Any:
    if request.param == "Python":
        return calls_in_python
    module = call_extension.calls("gcc")
    assert module is not calls_in_python
    return module


def address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


def made(sizes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return sizes, torch.empty(sizes).stride(), dtype


def test_a_region_with_a_value_in_its_arena(calls: Any, library: ctypes.CDLL) -> None:
    add, twice = address(library, "add"), address(library, "twice")
    # inputs 0, 1; output 2; inner 3
    steps = ((add, (0, 1, 3)), (twice, (3, 2)))
    for release in (True, False):
        region = calls.Region(2, (made((2, 3)),), (64,), 128, steps, release, (), (library,))
        a, b = torch.randn(2, 3), torch.nn.Parameter(torch.randn(2, 3))
        found = region(a, b)
        assert torch.equal(found, 2 * (a + b))
        assert not found.requires_grad
        for _ in range(20):
            region(a, b)
        assert region.arenas == 1
    region = calls.Region(2, (made((2, 3)), made((6,))), (), 0, ((add, (0, 1, 2)), (twice, (2, 3))), True, (), ())
    first, second = region(a, b)
    assert torch.equal(second, 2 * first.flatten())


def test_wrong_calls_are_refused(calls: Any, library: ctypes.CDLL) -> None:
    region = calls.Region(1, (made((6,)),), (), 0, ((address(library, "twice"), (0, 1)),), True, (), ())
    with pytest.raises(TypeError, match="takes 1 tensors, not 2"):
        region(torch.ones(6), torch.ones(6))
    with pytest.raises(TypeError, match="takes tensors, not int"):
        region(3)
    with pytest.raises(ValueError, match="no value 2 in a region of 2"):
        calls.Region(1, (made((6,)),), (), 0, ((address(library, "twice"), (0, 2)),), True, (), ())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_indices_out_of_bounds_are_told_before_anything_runs(
    calls: Any, library: ctypes.CDLL, dtype: torch.dtype
) -> None:
    indices = torch.arange(24, dtype=dtype).reshape(4, 6)[::2, 1::2]
    bound = (0, dtype.itemsize, tuple(indices.shape), indices.stride(), -3, 17)
    steps = ((address(library, "twice"), (1, 2)),)
    region = calls.Region(2, (made((6,)),), (), 0, steps, False, (bound,), ())
    x = torch.ones(6)
    assert region(indices, x).sum() == 12
    for wrong in (18, -4):
        indices[1, 2] = wrong
        with pytest.raises(IndexError, match=f"index {wrong} is not between -3 and 17"):
            region(indices, x)
    with pytest.raises(ValueError, match="no input 2"):
        calls.Region(2, (made((6,)),), (), 0, steps, False, ((2, 4, (1,), (1,), 0, 1),), ())


def test_many_values(calls: Any, library: ctypes.CDLL) -> None:
    add = address(library, "add")
    n = 150
    steps = tuple((add, (i, i + 1, n + i)) for i in range(n - 1))
    region = calls.Region(n, tuple(made((6,)) for _ in range(n - 1)), (), 0, steps, False, (), ())
    tensors = [torch.randn(6) for _ in range(n)]
    for found, a, b in zip(region(*tensors), tensors, tensors[1:], strict=False):
        assert torch.equal(found, a + b)


def test_threads_are_those_of_torch(calls: Any, library: ctypes.CDLL) -> None:
    region = calls.Region(0, (made((1,), torch.int32),), (), 0, ((address(library, "team"), (0,)),), True, (), ())
    before = torch.get_num_threads()
    found: list[int] = []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            assert region().item() == n
            thread = threading.Thread(target=lambda: found.append(int(region().item())))
            thread.start()
            thread.join()
            assert found.pop() == n
    finally:
        torch.set_num_threads(before)


def test_one_openmp_runtime(library: ctypes.CDLL) -> None:
    call_extension.calls("gcc")
    mapped = Path("/proc/self/maps").read_text().splitlines()
    runtimes = {line.split()[-1] for line in mapped if any(n in line for n in ("libgomp", "libomp", "libiomp5"))}
    assert len(runtimes) == 1, runtimes


def test_denormals_are_as_before() -> None:
    call_extension.calls("gcc")
    x = torch.full((4,), 1e-40)
    assert (x * 0.5).sum() > 0


def test_many_threads_call_at_once(calls: Any, library: ctypes.CDLL) -> None:
    add, twice = address(library, "add"), address(library, "twice")
    region = calls.Region(2, (made((6,)),), (0,), 64, ((add, (0, 1, 3)), (twice, (3, 2))), True, (), ())
    wrong: list[int] = []

    def work(k: int) -> None:
        a, b = torch.full((6,), float(k)), torch.arange(6.0)
        for i in range(1000):
            if not torch.equal(region(a, b), 2 * (a + b)):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 1 <= region.arenas <= 4


def test_a_forked_process_does_not_wait_for_lost_threads(calls: Any, library: ctypes.CDLL) -> None:
    region = calls.Region(0, (made((1,), torch.int32),), (), 0, ((address(library, "team"), (0,)),), True, (), ())
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert region().item() == 2
        child = os.fork()
        if child == 0:
            os._exit(int(region().item()))
        for _ in range(200):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the forked process hangs")
        assert os.waitstatus_to_exitcode(status) == 1
        assert region().item() == 2
    finally:
        torch.set_num_threads(before)


def test_watch(calls: Any) -> None:
    watch = calls.Watch(lambda a, b: (a + b,))
    a, b = torch.ones(3), torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        (first,) = watch(a, b)
        assert watch(a, b)[0] is first
        b.add_(1)
        assert watch(a, b)[0].tolist() == [3, 3, 3]
        assert watch(a, torch.nn.Parameter(b.data))[0].tolist() == [3, 3, 3]
        assert watch.computed == 3
        watch.forget()
        watch(a, b)
        assert watch.computed == 4
        a.data = torch.zeros(3)
        assert watch(a, b)[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.complex128])
def test_watch_sees_what_pytorch_does_not_count(calls: Any, dtype: torch.dtype) -> None:
    def seen(tensor: torch.Tensor, change: Callable[[torch.Tensor], object]) -> bool:
        watch = calls.Watch(lambda a: (a.clone(),))
        watch(tensor)
        watch(tensor)
        before = tensor._version
        change(tensor.data)
        assert tensor._version == before and watch.computed == 1
        watch(tensor)
        return bool(watch.computed == 2)

    large = torch.ones(60, 50).to(dtype)
    for one in (large, large.t(), large[3:, ::2]):
        assert seen(one, lambda a: a.mul_(-1))
        assert seen(one[:5, :5], lambda a: a[2, 3].fill_(5))  # all of a small one
        assert seen(one, lambda a: a[-1, -1].fill_(7))
    assert seen(torch.ones((), dtype=dtype), lambda a: a.add_(1))
    assert not seen(torch.ones(0, 3, dtype=dtype), lambda a: a.add_(1))
    assert not seen(large, lambda a: a[2, 17].fill_(9))  # one of 3,000 elements: nobody can


def test_watch_is_told_of_changes(calls: Any) -> None:
    watch = calls.Watch(lambda a, b: (a + b,))
    a, b = torch.ones(2), torch.ones(2)
    watch(a, b)
    watch.forget_changed({1, 2})
    watch(a, b)
    assert watch.computed == 1
    watch.forget_changed({id(b)})
    watch.forget_changed({id(b)})
    watch(a, b)
    assert watch.computed == 2


def test_watch_of_inference_tensors_computes_each_time(calls: Any) -> None:
    watch = calls.Watch(lambda a: (a + 1,))
    with torch.inference_mode():
        a = torch.ones(2)
        watch(a)
        a.add_(1)
        assert watch(a)[0].tolist() == [3, 3]
        assert watch.computed == 2


def test_a_failing_computation_is_told_and_tried_again(calls: Any) -> None:
    attempts: list[int] = []

    def compute(a: torch.Tensor) -> tuple[torch.Tensor]:
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("no memory")
        return (a,)

    watch = calls.Watch(compute)
    with pytest.raises(RuntimeError, match="no memory"):
        watch(torch.ones(1))
    watch(torch.ones(1))
    with pytest.raises(TypeError, match="takes tensors"):
        watch(1)


def test_without_a_compiler_calls_go_through_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    call_extension.calls.cache_clear()
    try:
        with pytest.warns(UserWarning, match="go through Python"):
            assert call_extension.calls("no-such-compiler") is calls_in_python
    finally:
        call_extension.calls.cache_clear()


def test_compiled_once_for_all_processes(tmp_path: Path) -> None:
    code = "from polydl.torch_backend import call_extension as c, calls_in_python as p; print(c.calls('gcc') is p)"
    root = Path(__file__).parent.parent.parent
    environment = {"PYTHONPATH": str(root), "PATH": os.environ["PATH"], "POLYDL_CACHE": str(tmp_path)}
    for _ in range(2):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.stdout == "False\n", done.stderr
    (entry,) = (tmp_path / "torch_call").iterdir()
    entry.write_bytes(entry.read_bytes()[:1000])
    done = subprocess.run([*command[:1], "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "False\n"
    assert "damaged" in done.stderr
