"""The code of each group runs once beside eager PyTorch before it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from polydl.base.errors import PolyDLError
from polydl.torch_backend import group_check
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.graph_compiler import BackendWarning, Lowerings, compile_graph
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.groups import groups
from polydl.torch_backend.support import lowering
from tests.torch_backend.test_compiled_graphs import LOWERINGS, graph


class _Changed:
    """A group whose C is changed."""

    def __init__(self, group: Any, change: Callable[[str], str]) -> None:
        self._group, self._change = group, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)

    def text(self, name: str) -> str:
        made = self._change(self._group.text(name))
        assert made != self._group.text(name)
        return made


def changed(change: Callable[[str], str]) -> Lowerings:
    def groups_of(nodes: Sequence[fx.Node], wanted: Sequence[fx.Node]) -> list[Any]:
        return [_Changed(one, change) for one in groups(nodes, wanted)]

    return Lowerings(lowering, groups_of)


WRONG: dict[str, tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...], Callable[[str], str]]] = {
    "a constant": (lambda x: (x + 1.0,), (torch.ones(4),), lambda text: text.replace("1.0f", "2.0f")),
    "the last column": (
        lambda x: ((x * x).sum(-1),),
        (torch.ones(3, 257),),
        lambda text: text.replace("< 257", "< 256"),
    ),
    "its input": (
        lambda x: (x.exp(),),
        (torch.ones(4, 3),),
        lambda text: text.replace("#pragma endscop", "#pragma endscop\n((float *)a0)[5] = 9;"),
    ),
    "one rounding": (
        lambda x: (x.to(torch.int32),),
        (torch.ones(200),),
        lambda text: text.replace("#pragma endscop", "#pragma endscop\no0[7] += 1;"),
    ),
}


WRONG |= {
    "a sum that does not wrap": (
        lambda x: ((x + x) > 0,),
        (torch.ones(50, dtype=torch.int8),),
        lambda text: text.replace("(signed char)(a0[i] + a0[i])", "(a0[i] + a0[i])"),
    ),
    "NaN": (
        lambda x, y: (torch.maximum(x, y),),
        (torch.ones(64), torch.ones(64)),
        lambda text: text.replace("((a0[i] != a0[i]) || ", "(0 || "),
    ),
    "beyond its result": (
        lambda x: (x.exp(),),
        (torch.ones(4, 3),),
        lambda text: text.replace("#pragma endscop", "#pragma endscop\n((float *)o0)[12] = 0;"),
    ),
    "in front of its result": (
        lambda x: (x.exp(),),
        (torch.ones(5, 3),),
        lambda text: text.replace("#pragma endscop", "#pragma endscop\n((char *)o0)[-1] = 0;"),
    ),
    "an element that it leaves out": (
        lambda x: (x * 0,),
        (torch.ones(7),),
        lambda text: text.replace("< 7", "< 6"),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_code_is_left_to_eager_pytorch_with_a_warning(what: str) -> None:
    function, inputs, change = WRONG[what]
    gm = graph(function, list(inputs))
    with pytest.warns(BackendWarning, match="computes other values than eager PyTorch: on "):
        run, report, _ = compile_graph(gm, (), BackendOptions(), changed(change))
    assert not report.groups
    for found, expected in zip(run(list(inputs)), function(*inputs), strict=True):
        torch.testing.assert_close(found, expected)
    with pytest.raises(PolyDLError, match="computes other values"):
        compile_graph(graph(function, list(inputs)), (), BackendOptions(strict=True), changed(change))


def test_code_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    once = group_check._difference

    def counted(made: Any, sizes: Sequence[int]) -> str | None:
        runs.append(made.code.name)
        return once(made, sizes)

    monkeypatch.setattr(group_check, "_difference", counted)
    monkeypatch.setattr(group_check, "_checked", set())
    for _ in range(2):
        compile_graph(graph(lambda x: (x.cos() * 7,), [torch.ones(9)]), (), BackendOptions(), LOWERINGS)
    assert len(runs) == 1


@pytest.mark.parametrize("tune", [False, True])
def test_while_torch_compiles(tune: bool) -> None:
    """Tensors that are made there have no memory, but for those of the check and of timing."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(8)).eval()
    x = torch.randn(2, 3, 12, 12)
    reports: list[GraphReport] = []
    mode = {"options": {"tune": True, "report": reports.append}} if tune else {"options": {"report": reports.append}}
    run = torch.compile(model, backend="polydl", **mode)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    assert reports


def test_max_autotune_is_a_mode() -> None:
    run = torch.compile(lambda x: x.softmax(-1) * 2, backend="polydl", mode="max-autotune")
    x = torch.randn(5, 7)
    torch.testing.assert_close(run(x), x.softmax(-1) * 2)


def test_results_that_may_differ() -> None:
    told = group_check._compared
    x = torch.tensor([1.0, -2.0, 3.0])
    assert told(x + 1e-5, x, 1e-3, exact=True) is None
    assert told(x + 0.1, x, 1e-3, exact=True) is not None
    assert told(torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 2.0]), 1e-3, exact=True) is not None
    assert told(torch.tensor([1.0, 3e38]), torch.tensor([1.0, torch.inf]), 1e-3, exact=True) is None
    flipped = torch.arange(300)
    flipped[17] += 1
    assert told(flipped, torch.arange(300), 0.0, exact=True) is not None
    assert told(flipped, torch.arange(300), 0.0, exact=False) is None
    assert told(flipped[:30], torch.arange(30), 0.0, exact=False) is not None


def test_nothing_is_left_behind() -> None:
    """torch's random numbers go on as they would have, and an empty tensor is no matter."""
    state = torch.get_rng_state()
    compile_graph(graph(lambda x: (x.sin() - 5,), [torch.ones(0, 3)]), (), BackendOptions(), LOWERINGS)
    compile_graph(graph(lambda x: (x.sin() - 5,), [torch.ones(2, 3)]), (), BackendOptions(), LOWERINGS)
    assert torch.equal(torch.get_rng_state(), state)
