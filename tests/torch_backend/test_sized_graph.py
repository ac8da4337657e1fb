"""Graphs with symbolic sizes: C is made once, whatever sizes come, and results are those of eager PyTorch at each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polydl.torch_backend import group_code
from polydl.torch_backend.graph_report import GraphReport
from tests.torch_backend.test_eager_harness import same

BATCHES = (1, 2, 3, 8, 16, 5)


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The C texts that are asked of the compiler, whether a cache has them or not."""
    texts: set[str] = set()
    before = group_code.asked

    def asked(text: Callable[[str], str], *args: Any, **options: Any) -> Any:
        texts.add(text("group"))
        return before(text, *args, **options)

    monkeypatch.setattr(group_code, "asked", asked)
    return texts


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.GELU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10), nn.LogSoftmax(-1),
    ).eval()  # fmt: skip


class Block(nn.Module):
    """Of a transformer: attention and two layers, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = (
            self.qkv(self.first(x)).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.mix(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.inner(self.second(x))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "images": (images, (3, 10, 10)),
    "layers": (lambda: nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 64), nn.Softmax(-1)).eval(), (20,)),
    "transformer": (lambda: Block(32, 2).eval(), (6, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_another_batch_makes_code_once(name: str, made: set[str]) -> None:
    """Dynamo makes a graph of the first batch, here 1, one of all others, and one of 0, which is a number to it. Of
    convolutions it makes another one from a batch of 16 up; its groups have the same code."""
    make, shape = MODELS[name]
    model = make()
    reports: list[GraphReport] = []
    compiled = torch.compile(model, backend="polydl", options={"report": reports.append, "groups": 0})
    counts: list[int] = []
    with torch.no_grad():
        for batch in (*BATCHES, 0):
            x = torch.randn(batch, *shape)
            same(compiled(x), model(x))
            counts.append(len(made))
    assert counts[0] < counts[1] == counts[2] == counts[5]
    assert len(reports) == 4 if name == "images" else 3
    for sized in reports[1:-1]:
        assert not sized.eager
        assert all("int n0" in one.written for one in sized.groups)


def test_code_is_searched_for_any_size(made: set[str]) -> None:
    """However little work there is at the sizes of the first call."""
    model = MODELS["layers"][0]()
    reports: list[GraphReport] = []
    compiled = torch.compile(model, backend="polydl", dynamic=True, options={"report": reports.append})
    with torch.no_grad():
        for batch in (6, 2, 70, 33):
            x = torch.randn(batch, 20)
            same(compiled(x), model(x))
    assert len(reports) == 1
    assert all(one.how == "ranked" and one.text != one.written for one in reports[0].groups)


def test_gradients(made: set[str]) -> None:
    model = images().train()
    other = images().train()
    other.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend="polydl", options={"groups": 0})
    counts = []
    for batch in (4, 3, 7, 2):
        x = torch.randn(batch, 3, 10, 10)
        for one, own in ((compiled, model), (other, other)):
            own.zero_grad()
            one(x).square().sum().backward()
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-4)
        counts.append(len(made))
    assert counts[1] == counts[3]


def test_gradients_of_attention_at_any_number_of_tokens(caplog: pytest.LogCaptureFixture) -> None:
    """Its scores have more than 2^63 bytes where all sizes are a million; torch would log an error of each operator."""

    attention = nn.MultiheadAttention(12, 3, batch_first=True)

    def function(x: Tensor) -> Tensor:
        found: Tensor = attention(x, x, x, need_weights=False)[0]
        return found

    compiled = torch.compile(function, backend="polydl", dynamic=True, options={"groups": 0})
    for batch, tokens in ((2, 9), (3, 5), (5, 12)):
        x = torch.randn(batch, tokens, 12)
        one, other = (x.clone().requires_grad_() for _ in range(2))
        compiled(one).square().sum().backward()
        function(other).square().sum().backward()
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_two_sizes_change(made: set[str]) -> None:
    model = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.LayerNorm(12)).eval()
    compiled = torch.compile(model, backend="polydl", dynamic=True, options={"groups": 0})
    counts = []
    with torch.no_grad():
        for batch, tokens in ((3, 5), (2, 9), (7, 2), (5, 3)):
            x = torch.randn(batch, tokens, 8)
            same(compiled(x), model(x))
            counts.append(len(made))
    assert len(set(counts)) == 1


def test_sizes_whose_tensors_no_number_counts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, made: set[str]
) -> None:
    """Three sizes that change and are far from the first ones: torch is not asked, for it would log an error."""

    def function(x: Tensor) -> Tensor:
        return (x[:, :, None] - x[:, None]).abs().sum(-1)

    errors = logging.getLogger(torch._subclasses.fake_tensor.__name__)
    monkeypatch.setattr(errors, "handlers", [caplog.handler])
    compiled = torch.compile(function, backend="polydl", dynamic=True)
    counts = []
    for sizes in ((4, 5, 6), (7, 3, 9)):
        x = torch.randn(sizes)
        same(compiled(x), function(x))
        counts.append(len(made))
    assert counts[0] == counts[1] > 0
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_sizes_among_eager_operators_and_results() -> None:
    def function(x: Tensor) -> tuple[int, Tensor, Tensor, Tensor]:
        ordered = torch.sort(x.reshape(-1) + 1)[0].reshape(x.shape[0], -1)
        return 3 * x.shape[0] + 1, ordered * 2, x.sum() / x.shape[0], x.new_ones(x.shape[0] + 2)

    compiled = torch.compile(function, backend="polydl", dynamic=True)
    for batch in (4, 2, 9):
        x = torch.randn(batch, 6)
        same(compiled(x), function(x))


def test_indices_are_checked_at_each_size() -> None:
    model = nn.EmbeddingBag(11, 8, mode="sum").eval()
    compiled = torch.compile(model, backend="polydl", dynamic=True)
    with torch.no_grad():
        for batch in (4, 2, 9):
            x = torch.randint(0, 11, (batch, 3))
            same(compiled(x), model(x))
        with pytest.raises(IndexError):
            compiled(torch.full((5, 3), 11))


def test_parameters_that_changed() -> None:
    """What is computed of parameters is there once for all sizes."""
    model = images()
    compiled = torch.compile(model, backend="polydl", dynamic=True, options={"groups": 0})
    with torch.no_grad():
        for batch in (3, 5, 3):
            x = torch.randn(batch, 3, 10, 10)
            same(compiled(x), model(x))
            model[0].weight.mul_(1.5)


def test_loops_that_are_not_those_of_all_sizes_are_told() -> None:
    """A window that ends where a size is odd."""
    model = nn.AdaptiveAvgPool1d(4)
    reports: list[GraphReport] = []
    compiled = torch.compile(model, backend="polydl", options={"report": reports.append, "sizes": 2})
    for width in (8, 9, 10, 11, 13, 15):
        x = torch.randn(2, 3, width)
        same(compiled(x), model(x))
    assert reports[-1].eager


def test_few_sizes_are_held() -> None:
    compiled = torch.compile(lambda x: x.exp() + 1, backend="polydl", dynamic=True, options={"sizes": 2})
    for batch in (3, 5, 4, 3, 9):
        x = torch.randn(batch)
        same(compiled(x), x.exp() + 1)


def test_check() -> None:
    compiled = torch.compile(lambda x: x.softmax(-1), backend="polydl", dynamic=True, options={"check": True})
    for batch in (3, 5):
        x = torch.randn(batch, 4)
        same(compiled(x), x.softmax(-1))
