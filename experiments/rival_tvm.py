"""TVM's MetaSchedule for rivals.py: workloads as tensor expressions in the layouts of the C functions."""

# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms


def _matmul(sizes: Mapping[str, Any]) -> list[Any]:
    a, b = (te.placeholder(sizes[name], name=name) for name in ("A", "B"))
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return [a, b, te.compute(sizes["C"], lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def _conv2d(sizes: Mapping[str, Any]) -> list[Any]:
    image, filters = (te.placeholder(sizes[name], name=name) for name in ("input", "filter"))
    tiles, kh, kw, block = (filters.shape[place] for place in (1, 2, 3, 4))
    axes = [te.reduce_axis((0, extent), name=name) for name, extent in zip("txyc", (tiles, kh, kw, block), strict=True)]
    t, y, x, c = axes

    def element(n: Any, o: Any, h: Any, w: Any, f: Any) -> Any:
        return te.sum(image[n, t, h + y, w + x, c] * filters[o, t, y, x, c, f], axis=axes)

    return [image, filters, te.compute(sizes["output"], element, name="output")]


def _mlp_layer(sizes: Mapping[str, Any]) -> list[Any]:
    x, w, bias, residual = (te.placeholder(sizes[name], name=name) for name in ("x", "w", "bias", "residual"))
    k = te.reduce_axis((0, x.shape[1]), name="k")
    product = te.compute(sizes["y"], lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="product")
    zero = tvm.tirx.const(0.0, "float32")
    y = te.compute(sizes["y"], lambda i, j: te.max(product[i, j] + bias[j] + residual[i, j], zero), name="y")
    return [x, w, bias, residual, y]


EXPRESSIONS: dict[str, tuple[Callable[[Mapping[str, Any]], list[Any]], tuple[str, ...]]] = {
    "matmul": (_matmul, ("A", "B", "C")),
    "conv2d": (_conv2d, ("input", "filter", "output")),
    "mlp_layer": (_mlp_layer, ("x", "w", "bias", "residual", "y")),
}


def ready(given: Mapping[str, Any], data: dict[str, Any]) -> tuple[Callable[[], object], Callable[[], dict[str, Any]]]:
    """Tunes with so many trials and builds what is best."""
    workload = given["workload"]
    expression, order = EXPRESSIONS[workload["function"]]
    module = te.create_prim_func(expression(dict(workload["arguments"])))
    # The processor's own instruction set, and as many threads as everybody has.
    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(),
                                "num-cores": given["threads"]})  # fmt: skip
    folder = Path(given["folder"], "tvm")
    database = ms.tune_tir(
        mod=module, target=target, work_dir=str(folder), max_trials_global=given["trials"],
        num_trials_per_iter=min(64, given["trials"]), num_tuning_cores=given["threads"], seed=1,
    )  # fmt: skip
    schedule = ms.tir_integration.compile_tir(database, module, target)
    if schedule is None:
        raise RuntimeError("MetaSchedule found no schedule that runs")
    built = tvm.compile(schedule.mod, target=target)
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(data[name])) for name in order]
    output = arguments[-1]
    function = built["main"]
    return (lambda: function(*arguments)), lambda: {workload["outputs"][0]: output.numpy()}
