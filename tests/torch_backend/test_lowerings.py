"""What has loops and what has not, attention, precision, and groups of several operators."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch.nn import functional as F  # noqa: N812 (its usual name)

import polydl
from polydl.torch_backend.groups import MOST_MEMBERS
from polydl.torch_backend.operator_call import LOWERINGS
from polydl.torch_backend.support import lowering
from tests.torch_backend.executed import Executed, compiled, traced

EAGER = {
    "it is no computation": "sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride _local_scalar_dense "
    "resize_ empty empty_strided",
    "it is random": "native_dropout rand randn randperm",
    "its result's size depends on data": "nonzero masked_scatter",
    "it sorts": "sort topk",
    "it is a Fourier transform": "_fft_c2r _fft_r2c",
    "it is decomposed": "as_strided adaptive_avg_pool1d _pdist_forward _cdist_forward grid_sampler_2d col2im "
    "_embedding_bag",
    "it changes running statistics in place": "_native_batch_norm_legit.default",
    "it has no loops yet": "scatter_reduce",
}
"""Operators of the core that PyTorch runs, all overloads or one, by reason."""


def core() -> list[str]:
    """Overloads that PyTorch tags as its core, without those that write to an argument."""
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        packet, _, overload = name[6:].partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is not None and torch.Tag.core in op.tags and overload != "out":
            found.append(str(op))
    return sorted(found)


def test_each_operator_of_the_core_is_lowered_or_known_to_be_eager() -> None:
    eager = {name for names in EAGER.values() for name in names.split()}

    def known(name: str) -> bool:
        _, packet, overload = name.split(".")
        return packet in eager or f"{packet}.{overload}" in eager

    assert [name for name in core() if name not in LOWERINGS and not known(name)] == []
    assert [name for name in LOWERINGS if known(name)] == []


def run(function: Callable[..., Any], tensors: Sequence[torch.Tensor], folder: Path) -> tuple[Executed, Any]:
    made = Executed(traced(function, tensors))
    compiled([made], folder)
    return made, made(*tensors)


def node_of(function: Callable[..., Any], *tensors: torch.Tensor) -> fx.Node:
    """The last operator of a graph."""
    return [node for node in traced(function, tensors).graph.nodes if node.op == "call_function"][-1]


@pytest.mark.parametrize(
    ("function", "tensors", "why"),
    [
        (lambda x: x.sort().values, (torch.ones(3),), "there is no lowering of it"),
        (lambda x: x + 1, (torch.ones(3, dtype=torch.complex64),), "complex64 has no loops"),
        (lambda x: x * 2, (torch.ones(0, 3),), "a tensor of it has no elements"),
        (lambda x, y: x // y, (torch.ones(3, dtype=torch.int64),) * 2, "a division of integers stops at 0"),
        (lambda x, i: x[i[1:]], (torch.ones(3), torch.tensor([0, 1, 2])),
         "its indices are a part of a tensor, all of which would be checked"),
    ],
)  # fmt: skip
def test_reasons(function: Callable[..., Any], tensors: tuple[torch.Tensor, ...], why: str) -> None:
    node = node_of(function, *tensors)
    node = node if lowering(node) is not None else node.all_input_nodes[0]
    reason = lowering(node)
    assert reason is not None
    assert reason.why == why
    assert (reason.node, reason.target) != ("", "")


ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("heads", "rows", "columns", "causal", "mask"),
    [
        ((4, 4), 9, 9, False, None), ((4, 4), 9, 9, True, None), ((4, 2), 1, 17, False, None),
        ((2, 2), 5, 7, False, (5, 7)), ((2, 2), 5, 7, False, (2, 1, 5, 7)), ((2, 2), 6, 6, False, "gone"),
    ],
)  # fmt: skip
def test_attention(
    heads: tuple[int, int], rows: int, columns: int, causal: bool, mask: Any, dtype: torch.dtype, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    query = torch.randn(2, heads[0], rows, 8).to(dtype)
    key, value = (torch.randn(2, heads[1], columns, 8).to(dtype) for _ in range(2))
    given = [query, key, value]
    if mask is not None:
        added = torch.randn(mask if mask != "gone" else (rows, columns)).to(dtype)
        if mask == "gone":  # whole rows, and a part of one
            added[2] = added[3, :4] = -torch.inf
        given.append(added)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *m: torch.Tensor) -> Any:
        return ATTENTION(q, k, v, 0.0, causal, attn_mask=m[0] if m else None)

    function: Callable[..., Any] = attention
    if mask is None:
        function = lambda q, k, v: attention(q, k, v)  # noqa: E731
    else:
        function = lambda q, k, v, m: attention(q, k, v, m)  # noqa: E731
    made, got = run(function, given, tmp_path)
    assert made.reasons() == []
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2}[dtype]
    for one, wanted in zip(got, ATTENTION(*given[:3], 0.0, causal, attn_mask=given[3] if mask else None), strict=True):
        torch.testing.assert_close(one, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.layer_norm(x, x.shape[1:]),
        lambda x: F.group_norm(x.reshape(4, 8, -1), 2),
        lambda x: torch.var(x, -1),
        lambda x: torch.ops.aten._native_batch_norm_legit.no_stats(x.reshape(4, 8, -1), None, None, True, 0.1, 1e-5)[0],
    ],
    ids=["layer norm", "group norm", "variance", "batch norm"],
)
def test_norms_of_large_means(function: Callable[..., Any], tmp_path: Path) -> None:
    """Means of 10^4 with variances of 1: nearer to the result in float64 than a pass with sums of squares can be."""
    torch.manual_seed(0)
    x = torch.randn(4, 4096) + 1e4
    made, got = run(function, [x], tmp_path)
    assert made.reasons() == []
    torch.testing.assert_close(got.double(), function(x.double()), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax_of_extremes(function: Callable[..., Any], tmp_path: Path) -> None:
    x = torch.tensor([[1e4, -1e4, 0.0], [-torch.inf] * 3, [-torch.inf, 1.0, 2.0], [torch.nan, 0.0, 1.0], [1e30] * 3])
    made, got = run(lambda t: function(t, -1), [x], tmp_path)
    assert made.reasons() == []
    torch.testing.assert_close(got, function(x, -1), equal_nan=True)


GROUPS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], int]] = {
    "a product and what follows": (lambda x, w, b: F.gelu(F.linear(x, w, b)) * 2, [(6, 8), (5, 8), (5,)], 1),
    "what a row is computed of": (lambda x, y: F.softmax(x * 2 + y, -1), [(6, 8), (8,)], 1),
    "a norm and what follows": (lambda x, r: F.silu(F.layer_norm(x + r, (8,))), [(6, 8), (6, 8)], 1),
    "two branches": (lambda x, y: F.silu(x * 2) * (y + 1), [(6, 8), (6, 8)], 1),
    "a diamond around a product": (lambda x, w: (y := F.relu(x)) + (y @ w), [(8, 8), (8, 8)], 2),
    "a transpose between": (lambda x: F.relu(x).transpose(0, 1).contiguous() * 3, [(6, 8)], 1),
    "by hand": (lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1), [(6, 8)], 1),
    "heads": (lambda x: (x.view(2, 3, 4, 8).transpose(1, 2) * 2).reshape(2, 4, 24), [(2, 3, 32)], 2),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str, tmp_path: Path) -> None:
    function, sizes, most = GROUPS[name]
    torch.manual_seed(0)
    tensors = [torch.randn(one) for one in sizes]
    made, got = run(function, tensors, tmp_path)
    assert made.reasons() == []
    assert len(made.groups) <= most
    torch.testing.assert_close(got, function(*tensors))


def test_equal_groups_have_equal_texts() -> None:
    def twice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(0) + 1, y.sum(0) + 1

    one, other = Executed(traced(twice, [torch.ones(3, 4), torch.ones(3, 4)])).groups
    assert one.text("f") == other.text("f")


def test_long_chains_are_cut(tmp_path: Path) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for number in range(3 * MOST_MEMBERS):
            x = torch.tanh(x + number)
        return x

    x = torch.randn(5, 7)
    made, got = run(chain, [x], tmp_path)
    assert max(len(group.nodes) for group in made.groups) <= MOST_MEMBERS
    torch.testing.assert_close(got, chain(x))


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    """Elementwise operators, views, reductions and products in random order, with several results."""
    torch.manual_seed(seed)
    x = [torch.randn(6, 8), torch.randn(6, 8)]
    made, got = run(random_function(seed), x, tmp_path)
    assert made.reasons() == []
    for one, wanted in zip(got, random_function(seed)(*x), strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=1e-4)


def random_function(seed: int) -> Callable[..., list[torch.Tensor]]:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        pick = random.Random(seed).randrange
        have = [x, y]
        for _ in range(14):
            one, other = have[pick(len(have))], have[pick(len(have))]
            steps: list[Callable[[], torch.Tensor]] = [
                lambda one=one: torch.tanh(one),
                lambda one=one, other=other: one + other,
                lambda one=one, other=other: torch.where(one > 0, other, one * 0.5),
                lambda one=one: one - one.mean(-1, keepdim=True),
                lambda one=one: one * torch.sigmoid(one.sum(0)),
                lambda one=one: F.softmax(one, -1),
                lambda one=one: one.t().reshape(6, 8),
                lambda one=one: torch.cat([one[:, 4:], one[:, :4]], 1),
                lambda one=one, other=other: torch.tanh(one @ other.t()) @ other,
                lambda one=one: F.layer_norm(one, (8,)),
                lambda one=one: one.flip(0) + 1,
                lambda one=one: F.pad(one[1:], (0, 0, 1, 0)),
            ]
            have.append(steps[pick(len(steps))]())
        return have[-3:]

    return function


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "max", "min"])
def test_extremes_of_rows_with_nan(name: str, tmp_path: Path) -> None:
    """NaN is the extreme of its row, the first of several; of equal elements the first one counts."""
    nan, inf = torch.nan, torch.inf
    x = torch.tensor(
        [[1, nan, 3, nan], [nan, inf, 1, 0], [2, 5, 5, -1], [-inf] * 4, [inf, -1, -1, inf], [1, 2, 3, nan]]
    )

    def function(t: torch.Tensor) -> list[torch.Tensor]:
        found = getattr(t, name)(dim=1)
        return [found] if isinstance(found, torch.Tensor) else list(found)

    made, got = run(function, [x], tmp_path)
    assert made.reasons() == []
    for one, wanted in zip(got, function(x), strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=0, equal_nan=True)


BASE = torch.arange(240, dtype=torch.float32).view(12, 20)
STRIDED = {
    "every second": BASE[:, ::2],
    "every third row": BASE[::3],
    "transposed": BASE.t(),
    "a part": BASE[2:7, 3:9],
    "a part, transposed": BASE[2:7, 3:9].t(),
    "a row again and again": BASE[3].expand(5, 20),
    "a column again and again": BASE[:, 3:4].expand(12, 6),
    "windows that overlap": BASE.view(-1).unfold(0, 6, 2),
    "one element": BASE[3, 4],
    "a diagonal": BASE.diagonal(),
    "channels last": torch.arange(120.0).view(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "three dimensions in another order": torch.arange(60.0).view(3, 4, 5).permute(2, 0, 1),
}


@pytest.mark.parametrize("name", STRIDED)
def test_any_strides(name: str, tmp_path: Path) -> None:
    """Inputs lie in memory as they are, results as eager's do."""
    x = STRIDED[name]

    def function(t: torch.Tensor) -> list[torch.Tensor]:
        return [t / 100 + 1, t.sum(-1), torch.cat([t.reshape(-1), t.reshape(-1)]), t.softmax(-1) * t]

    made, got = run(function, [x], tmp_path)
    assert made.reasons() == []
    for one, wanted in zip(got, function(x), strict=True):
        torch.testing.assert_close(one, wanted, check_stride=True)


@pytest.mark.parametrize("name", GROUPS)
def test_texts_are_regions_that_polydl_reads(name: str) -> None:
    function, sizes, _ = GROUPS[name]
    for group in Executed(traced(function, [torch.randn(one) for one in sizes])).groups:
        assert len(polydl.load(group.text("f")).scops) == 1


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) * 0.3
    return (scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(-1) @ v


@pytest.mark.parametrize("masked", [False, True])
def test_attention_by_hand_is_one_function(masked: bool, tmp_path: Path) -> None:
    """Its scores and weights are scratch memory; a result that others read as well is none."""
    q, k, v = torch.randn(2, 5, 8), torch.randn(2, 7, 8), torch.randn(2, 7, 3)
    mask = torch.ones(5, 7).tril() == 0
    function = by_hand if masked else lambda q, k, v, _: by_hand(q, k, v, None)
    made, found = run(function, [q, k, v, mask], tmp_path)
    torch.testing.assert_close(found, function(q, k, v, mask))
    (group,) = made.groups
    assert (len(group.outputs), group.scratch) == (1, (280, 280))
    assert "#pragma polydl dead(s0, s1)" in group.text("f")


def test_a_product_that_others_read_is_not_chained(tmp_path: Path) -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = q @ k
        weights = scores.softmax(-1)
        return weights @ v, weights, (scores.sum(0) @ v).softmax(-1)

    q, k, v = torch.randn(2, 5, 8), torch.randn(2, 8, 7), torch.randn(2, 7, 3)
    made, found = run(function, [q, k, v], tmp_path)
    for one, wanted in zip(found, function(q, k, v), strict=True):
        torch.testing.assert_close(one, wanted)
    assert len(made.groups) > 2
    assert not any(group.scratch for group in made.groups)
