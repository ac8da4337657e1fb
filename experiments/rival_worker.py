"""A rival's process for rivals.py: has one workload ready, then runs it for a turn whenever it is told to.

Run by the interpreter of the rival's environment, which has numpy and the rival, and nothing of polydl. Writes lines of
JSON: first the seconds that it took to be ready, then, for each line with a number of seconds that it reads, the median
seconds of a call over a turn of so many.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Call = Callable[[], object]
Ready = tuple[Call, Callable[[], Arrays]]
"""One execution, and what its outputs are, in the layout of the C function."""


class NotMeasured(Exception):
    """The rival has no such workload."""


def of_library(given: Mapping[str, Any], data: Arrays) -> Ready:
    """The function of shared objects: of the one that is fastest in three calls."""
    found: list[tuple[float, Call]] = []
    for path in given["libraries"]:
        call = _c_call(given["workload"], path, data)
        if len(given["libraries"]) > 1:
            kept = {name: array.copy() for name, array in data.items()}
            found.append((min(_seconds(call) for _ in range(3)), call))
            for name, array in kept.items():
                data[name][...] = array
        else:
            found.append((0.0, call))
    return min(found, key=lambda one: one[0])[1], lambda: data


def _c_call(workload: Mapping[str, Any], path: str, data: Arrays) -> Call:
    function = getattr(ctypes.CDLL(path), workload["function"])
    number = ctypes.c_double if workload["dtype"] == "float64" else ctypes.c_float
    arguments = [
        data[name].ctypes.data_as(ctypes.c_void_p) if shape is not None else number(workload["numbers"][name])
        for name, shape in workload["arguments"]
    ]
    function.restype = None
    return lambda: function(*arguments)


def of_libxsmm(given: Mapping[str, Any], data: Arrays) -> Ready:
    """Its kernels in the default loop order (kernels/xsmm.c); they add to what is there, so that it is cleared."""
    workload, library = given["workload"], ctypes.CDLL(given["libraries"][0])
    (out,) = (data[name] for name in workload["outputs"])
    sizes = workload["defines"]
    if workload["function"] == "matmul":
        function, numbers = library.xsmm_gemm, [sizes["M"], sizes["N"], sizes["K"], 64]
    else:
        numbers = [sizes["NIMG"], sizes["NOFM"] // sizes["OFM_BLOCK"], sizes["NIFM"] // sizes["IFM_BLOCK"]]
        numbers += [sizes[name] for name in ("OFH", "OFW", "KH", "KW", "STRIDE_H", "OFM_BLOCK", "IFM_BLOCK")]
        function = library.xsmm_conv
    pointers = [data[name].ctypes.data_as(ctypes.c_void_p) for name, _ in workload["arguments"]]
    longs = [ctypes.c_long(n) for n in numbers]

    def call() -> None:
        out.fill(0)
        if function(*pointers, *longs):
            raise NotMeasured("LIBXSMM has no kernel of this shape")

    return call, lambda: data


def of_mkl(given: Mapping[str, Any], data: Arrays) -> Ready:
    """cblas_?gemm of libmkl_rt, row-major."""
    (path,) = sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so*"))[:1] or (None,)
    if path is None:
        raise NotMeasured("its environment has no libmkl_rt")
    mkl, double = ctypes.CDLL(str(path)), given["workload"]["dtype"] == "float64"
    gemm = mkl.cblas_dgemm if double else mkl.cblas_sgemm
    number = ctypes.c_double if double else ctypes.c_float

    def product(alpha: float, a: Any, b: Any, beta: float, c: Any) -> Call:
        (m, k), n = a.shape, b.shape[1]
        pa, pb, pc = (x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c))
        return lambda: gemm(101, 111, 111, m, n, k, number(alpha), pa, k, pb, n, number(beta), pc, n)

    if given["workload"]["function"] == "matmul":
        return product(1.0, data["A"], data["B"], 0.0, data["C"]), lambda: data
    numbers = given["workload"]["numbers"]
    first = product(numbers["alpha"], data["A"], data["B"], 0.0, data["tmp"])
    second = product(1.0, data["tmp"], data["C"], numbers["beta"], data["D"])
    return (lambda: (first(), second())), lambda: data


def blocked_to_plain(image: Any) -> Any:
    """NCHWc to NCHW."""
    n, tiles, h, w, block = image.shape
    return np.ascontiguousarray(image.transpose(0, 1, 4, 2, 3)).reshape(n, tiles * block, h, w)


def plain_to_blocked(image: Any, block: int) -> Any:
    """NCHW to NCHWc."""
    n, channels, h, w = image.shape
    return np.ascontiguousarray(image.reshape(n, channels // block, block, h, w).transpose(0, 1, 3, 4, 2))


def plain_filter(blocked: Any) -> Any:
    """KCRSck to KCRS."""
    k_tiles, c_tiles, kh, kw, c, k = blocked.shape
    return np.ascontiguousarray(blocked.transpose(0, 5, 1, 4, 2, 3)).reshape(k_tiles * k, c_tiles * c, kh, kw)


def _tensors(given: Mapping[str, Any], data: Arrays) -> tuple[Any, dict[str, Any]]:
    torch = importlib.import_module("torch")
    torch.set_num_threads(given["threads"])
    torch.set_grad_enabled(False)
    return torch, {name: torch.from_numpy(array) for name, array in data.items()}


def of_onednn(given: Mapping[str, Any], data: Arrays) -> Ready:
    """oneDNN as PyTorch calls it: an inner product; a convolution with channels last and packed weights."""
    torch, t = _tensors(given, data)
    ops = torch.ops.mkldnn
    result: list[Any] = [None]
    if given["workload"]["function"] == "matmul":
        a, b = t["A"], t["B"].t()

        def call() -> None:
            result[0] = ops._linear_pointwise(a, b, None, "none", [], "")

        return call, lambda: {"C": result[0].numpy()}
    image = torch.from_numpy(blocked_to_plain(data["input"])).contiguous(memory_format=torch.channels_last)
    weights = torch._C._nn.mkldnn_reorder_conv2d_weight(
        torch.from_numpy(plain_filter(data["filter"])).to_mkldnn(), [0, 0], [1, 1], [1, 1], 1, list(image.shape)
    )

    def convolve() -> None:
        result[0] = ops._convolution_pointwise(image, weights, None, [0, 0], [1, 1], [1, 1], 1, "none", [], "")

    block = data["output"].shape[-1]
    return convolve, lambda: {"output": plain_to_blocked(result[0].contiguous().numpy(), block)}


def _torch_functions(torch: Any, workload: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """What the C functions compute, as people write it in PyTorch: of the arrays, by name, to the outputs."""
    sizes, numbers = workload["defines"], workload["numbers"]

    def jacobi_2d(A: Any, B: Any) -> Any:
        for _ in range(sizes["T"]):
            for source, target in ((A, B), (B, A)):
                target[1:-1, 1:-1] = 0.2 * (
                    source[1:-1, 1:-1] + source[1:-1, :-2] + source[1:-1, 2:] + source[2:, 1:-1] + source[:-2, 1:-1]
                )
        return (A,)

    def gemver(A: Any, u1: Any, v1: Any, u2: Any, v2: Any, w: Any, x: Any, y: Any, z: Any) -> Any:
        A.add_(torch.outer(u1, v1) + torch.outer(u2, v2))
        x.add_(numbers["beta"] * (A.t() @ y) + z)
        w.add_(numbers["alpha"] * (A @ x))
        return A, x, w

    def mvt(x1: Any, x2: Any, y1: Any, y2: Any, A: Any) -> Any:
        x1.add_(A @ y1)
        x2.add_(A.t() @ y2)
        return x1, x2

    def mm2(tmp: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
        D.mul_(numbers["beta"]).add_((numbers["alpha"] * (A @ B)) @ C)
        return (D,)

    def doitgen(A: Any, C4: Any) -> Any:
        A.copy_(A @ C4)
        return (A,)

    return {
        "matmul": lambda A, B, C: (A @ B,),
        "conv2d": lambda image, filters: (torch.conv2d(image, filters),),
        "mlp_layer": lambda y, x, w, bias, residual: (torch.relu(x @ w + bias + residual),),
        "softmax": lambda out, **arrays: (torch.softmax(arrays["in"], 1),),
        "jacobi_2d": jacobi_2d,
        "gemver": gemver,
        "mvt": mvt,
        "mm2": mm2,
        "doitgen": doitgen,
    }


def of_inductor(given: Mapping[str, Any], data: Arrays) -> Ready:
    """torch.compile in its mode max-autotune, of what people write in PyTorch."""
    torch, t = _tensors(given, data)
    workload = given["workload"]
    functions = _torch_functions(torch, workload)
    if workload["function"] not in functions:
        raise NotMeasured("is not written in PyTorch here")
    compiled = torch.compile(functions[workload["function"]], mode="max-autotune", dynamic=False)
    if workload["function"] == "conv2d":
        t = {
            "image": torch.from_numpy(blocked_to_plain(data["input"])).contiguous(memory_format=torch.channels_last),
            "filters": torch.from_numpy(plain_filter(data["filter"])),
        }
    # Compiled on copies: what is written in place begins from the data.
    compiled(**{name: tensor.clone() for name, tensor in t.items()})
    result: list[Any] = [None]

    def call() -> None:
        result[0] = compiled(**t)

    def outputs() -> Arrays:
        found = dict(zip(workload["outputs"], (one.contiguous().numpy() for one in result[0]), strict=True))
        if workload["function"] == "conv2d":
            found["output"] = plain_to_blocked(found["output"], data["output"].shape[-1])
        return found

    return call, outputs


def of_numba(given: Mapping[str, Any], data: Arrays) -> Ready:
    """The loops of C in Python, the outermost ones parallel where they may be, compiled with fastmath."""
    functions = importlib.import_module("rival_numba").functions(given["workload"])
    if given["workload"]["function"] not in functions:
        raise NotMeasured("is not written in numba here")
    function = functions[given["workload"]["function"]]
    arguments = [
        data[name] if shape is not None else given["workload"]["numbers"][name]
        for name, shape in given["workload"]["arguments"]
    ]
    function(*(one.copy() if isinstance(one, np.ndarray) else one for one in arguments))
    return (lambda: function(*arguments)), lambda: data


def of_tvm(given: Mapping[str, Any], data: Arrays) -> Ready:
    """MetaSchedule's best of so many trials."""
    return importlib.import_module("rival_tvm").ready(given, data)  # type: ignore[no-any-return]


LINE = 64
"""Bytes of a cache line, and of the widest vectors."""


def aligned(array: Any) -> Any:
    """A copy that begins with a line, as memory does that programs ask for; numpy's own begins 16 bytes behind one."""
    room = np.empty(array.nbytes + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def turn(call: Call, seconds: float) -> float:
    """The median of the calls of a turn, the first of which does not count."""
    call()
    found, end = [_seconds(call)], time.perf_counter() + seconds
    while time.perf_counter() < end:
        found.append(_seconds(call))
    return statistics.median(found)


def answer(values: Mapping[str, object]) -> None:
    """A line for rivals.py."""
    print(json.dumps(values), flush=True)


def main() -> int:
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with np.load(given["data"]) as stored:
        data = {name: aligned(stored[name]) for name in stored.files}
    start = time.perf_counter()
    try:
        call, outputs = WORKERS[given["worker"]](given, data)
        ready = time.perf_counter() - start
        call()
        found = outputs()
    except (NotMeasured, ImportError, OSError) as reason:
        kind = "" if isinstance(reason, NotMeasured) else f"{type(reason).__name__}: "
        answer({"not_measured": f"{kind}{reason}"})
        return 1
    np.savez(given["results"], **{name: found[name] for name in given["workload"]["outputs"]})
    answer({"ready": ready})
    for line in sys.stdin:
        answer({"seconds": turn(call, float(line))})
    return 0


WORKERS: dict[str, Callable[[Mapping[str, Any], Arrays], Ready]] = {
    one.__name__: one for one in (of_library, of_libxsmm, of_mkl, of_onednn, of_inductor, of_numba, of_tvm)
}

if __name__ == "__main__":
    sys.exit(main())
