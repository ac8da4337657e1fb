"""Each lowered operator against eager PyTorch, on samples of PyTorch's own tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from polydl.torch_backend import block_sparse_linears
from polydl.torch_backend.operator_call import LOWERINGS
from tests.torch_backend.executed import Executed, compiled, traced
from tests.torch_backend.operator_samples import op_infos, samples

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
TOLERANCES = {
    torch.float32: (2e-5, 1e-5),
    torch.float64: (1e-9, 1e-9),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float16: (4e-3, 4e-3),
}
"""Relative and absolute, by the type of the result."""
FAMILIES = {
    "functions": "exp log1p sin tanh erf sqrt rsqrt sigmoid reciprocal round floor trunc frac sign abs neg",
    "arithmetic": "add sub rsub mul div pow remainder fmod floor_divide maximum minimum fmax fmin lerp addcmul addcdiv",
    "comparisons": "eq lt ge logical_and logical_not logical_xor bitwise_and bitwise_not isnan isinf isfinite where "
    "clamp masked_fill copysign atan2 hypot",
    "activations": "nn.functional.relu nn.functional.gelu nn.functional.silu nn.functional.leaky_relu "
    "nn.functional.elu nn.functional.softplus nn.functional.mish nn.functional.hardswish nn.functional.hardtanh "
    "nn.functional.threshold nn.functional.hardsigmoid nn.functional.selu nn.functional.relu6",
    "movement": "cat permute flip roll repeat tril triu unbind nn.functional.pad slice_scatter select_scatter stack "
    "diagonal expand narrow split transpose reshape nn.functional.pixel_shuffle nn.functional.pixel_unshuffle",
    "products": "mm bmm addmm baddbmm matmul nn.functional.linear mv dot einsum",
    "reductions": "sum mean prod amax amin argmax argmin any all var var_mean std cumsum max min logsumexp",
    "norms": "nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm nn.functional.batch_norm "
    "native_layer_norm native_batch_norm nn.functional.instance_norm",
    "convolutions": "nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d "
    "nn.functional.conv_transpose2d nn.functional.conv_transpose3d",
    "windows": "nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.avg_pool1d "
    "nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.adaptive_avg_pool2d "
    "nn.functional.adaptive_avg_pool3d nn.functional.interpolate",
    "indexing": "nn.functional.embedding index_select gather scatter scatter_add index_put index_add take_along_dim "
    "__getitem__",
    "softmax": "softmax log_softmax nn.functional.softmin nn.functional.cross_entropy",
}
CASES = [(family, name) for family, names in FAMILIES.items() for name in names.split()]
NARROW = {"add", "div", "where", "clamp", "softmax", "mm", "sum", "nn.functional.gelu", "cat", "amax", "cumsum", "var"}
"""Those that are tried with every type; the others with one of each kind."""


@cache
def by_name() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for info in op_infos():
        found.setdefault(info.name, []).append(info)
    return found


def dtypes_of(name: str, info: Any) -> list[torch.dtype]:
    every = (*FLOATS, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)
    tried = every if name in NARROW else (torch.float32, torch.int64, torch.bool)
    return [one for one in tried if one in info.supported_dtypes("cpu")]


def function_of(info: Any, flat: list[Any], spec: Any) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A sample as a function of its tensors, and these."""
    places = [number for number, one in enumerate(flat) if isinstance(one, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> list[Any]:
        given = list(flat)
        for number, tensor in zip(places, tensors, strict=True):
            given[number] = tensor
        first, others, keywords = pytree.tree_unflatten(given, spec)
        return list(pytree.tree_leaves(info.op(first, *others, **keywords)))

    return function, [flat[number] for number in places]


@pytest.mark.filterwarnings("ignore")  # of PyTorch's samples: degrees of freedom, deprecated arguments
@pytest.mark.parametrize(("family", "name"), CASES, ids=[name for _, name in CASES])
def test_as_eager(family: str, name: str, tmp_path: Path) -> None:
    cases = []
    for info in by_name()[name]:
        for dtype in dtypes_of(name, info):
            for sample in samples(info, dtype, 4):
                function, tensors = function_of(info, *pytree.tree_flatten(sample))
                cases.append((info, dtype, function, tensors, Executed(traced(function, tensors))))
    compiled([one[-1] for one in cases], tmp_path)
    assert family == "movement" or any(one[-1].groups for one in cases)
    for info, dtype, function, tensors, made in cases:
        for got, wanted in zip(made(*tensors), function(*tensors), strict=True):
            relative, absolute = TOLERANCES.get(dtype, (1e-5, 1e-5))
            torch.testing.assert_close(
                got, wanted, rtol=relative, atol=absolute, equal_nan=True, check_stride=True,
                msg=lambda text, one=(info.full_name, dtype, made): f"{one[0]} {one[1]}\n{text}\n{texts(one[2])}",
            )  # fmt: skip


DIFFERENTIABLE = (
    "nn.functional.gelu nn.functional.silu nn.functional.hardswish nn.functional.mish nn.functional.softplus "
    "nn.functional.elu nn.functional.hardsigmoid nn.functional.leaky_relu nn.functional.relu tanh sigmoid softmax "
    "log_softmax nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm nn.functional.batch_norm "
    "nn.functional.linear matmul nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d "
    "nn.functional.conv_transpose2d nn.functional.max_pool2d nn.functional.avg_pool2d "
    "nn.functional.adaptive_avg_pool2d cat sum mean amax var nn.functional.cross_entropy masked_fill"
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DIFFERENTIABLE.split())
def test_gradients_as_eager(name: str, tmp_path: Path) -> None:
    cases = []
    for info in by_name()[name]:
        for sample in samples(info, torch.float64, 4, gradients=True):
            function, tensors = function_of(info, *pytree.tree_flatten(sample))
            gradient = gradient_of(function, [one.requires_grad for one in tensors])
            tensors = [one.detach() for one in tensors]
            cases.append((info, gradient, tensors, Executed(traced(gradient, tensors, mutates=False))))
    compiled([one[-1] for one in cases], tmp_path)
    assert any(one[-1].groups for one in cases)
    for info, gradient, tensors, made in cases:
        for got, wanted in zip(made(*tensors), gradient(*tensors), strict=True):
            torch.testing.assert_close(
                got, wanted, rtol=1e-8, atol=1e-8, equal_nan=True,
                msg=lambda text, one=(info.full_name, made): f"{one[0]}\n{text}\n{texts(one[1])}",
            )  # fmt: skip


def gradient_of(function: Callable[..., Any], by: list[bool]) -> Callable[..., Any]:
    """Of a function of tensors, its results' gradients along some direction by those of them that `by` says."""

    def gradient(*tensors: torch.Tensor) -> list[torch.Tensor]:
        own = [one.detach().requires_grad_(needed) for one, needed in zip(tensors, by, strict=True)]
        results = [one for one in function(*own) if isinstance(one, torch.Tensor) and one.requires_grad]
        inputs = [one for one in own if one.requires_grad]
        directions = [torch.cos(torch.arange(one.numel(), dtype=one.dtype)).view(one.shape) for one in results]
        found = torch.autograd.grad(results, inputs, directions, allow_unused=True)
        return [one for one in found if one is not None]

    return gradient


def texts(made: Executed) -> str:
    return "\n".join(group.text("f") for group in made.groups)


def test_every_name_of_a_lowering_is_an_operator() -> None:
    assert block_sparse_linears  # its module makes its operator
    for name in LOWERINGS:
        library, packet, overload = name.split(".")
        assert str(getattr(getattr(getattr(torch.ops, library), packet), overload)) == name
