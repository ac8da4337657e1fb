"""What eager PyTorch was measured to run faster stays there: the operators of the model, not what replaced them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polydl.torch_backend import region_timing
from polydl.torch_backend.decompositions import ORIGIN
from polydl.torch_backend.graph_report import GraphReport


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> dict[str, Any]:
    """Calls of the clock, and what it says of groups with these operators: they lose."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    found: dict[str, Any] = {"calls": [], "loses": (), "whole": []}

    def seconds(function: Any, read: Any, made: Any, nodes: Any, whole: Any = (), **_: Any) -> tuple[Any, ...]:
        names = [str(node.target) for node in nodes]
        found["calls"].append(names)
        found["whole"] += [str(one.target) for one in whole]
        mine = 2.0 if any(one in name for name in names for one in found["loses"]) else 0.5
        return mine, 1.0, True

    monkeypatch.setattr(region_timing, "seconds", seconds)
    return found


def compiled(function: Any, **options: Any) -> tuple[Any, list[GraphReport]]:
    reports: list[GraphReport] = []
    dynamic = options.pop("dynamic", False)
    options |= {"tune": True, "groups": 0, "report": reports.append}
    return torch.compile(function, backend="polydl", dynamic=dynamic, options=options), reports


def test_a_convolution_keeps_its_padding(told: dict[str, Any]) -> None:
    told["loses"] = ("convolution",)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()).eval()
    run, reports = compiled(model)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
    (report,) = reports
    assert "aten.convolution.default" in {one.target for one in report.eager}
    assert not any("pad" in name for group in report.groups for name in group.operators)
    assert any("measured" in one.why for one in report.eager)


def test_parts_of_an_operator_lose_and_win_together(told: dict[str, Any]) -> None:
    """logaddexp has no loops of its own: it is taken apart, beside an operator that stays loops."""
    told["loses"] = ("aten.logical_not",)
    function = lambda x, y: (torch.logaddexp(x, x * 2), torch.sort(y.sin())[0])  # noqa: E731
    run, reports = compiled(function)
    x, y = torch.randn(40, 30), torch.randn(7, 5)
    for found, expected in zip(run(x, y), function(x, y), strict=True):
        torch.testing.assert_close(found, expected)
    (report,) = reports
    assert {one.target for one in report.eager if "measured" in one.why} <= {
        "aten.logaddexp.default",
        "aten.mul.Tensor",
    }
    assert "aten.logaddexp.default" in {one.target for one in report.eager}
    assert "aten.logaddexp.default" in told["whole"]
    assert [name for group in report.groups for name in group.operators] == ["aten.sin.default"]


def test_groups_of_any_size_are_measured_at_two(told: dict[str, Any]) -> None:
    told["loses"] = ("softmax",)
    function = lambda x: torch.sort(x.softmax(-1))[0]  # noqa: E731
    run, reports = compiled(function, dynamic=True)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 7)
        torch.testing.assert_close(run(x), function(x))
    (report,) = reports
    assert "aten._softmax.default" in {one.target for one in report.eager}
    assert len(told["calls"]) == 2 and not report.groups


def test_what_was_measured_is_in_the_cache(told: dict[str, Any]) -> None:
    for more in (0, 1):
        torch.compiler.reset()
        run, _ = compiled(lambda x, more=more: torch.sort(x.exp() * 2)[0] - more)
        run(torch.randn(5, 6))
    assert sum("aten.exp.default" in names for names in told["calls"]) == 1


def test_the_clock_runs_operators_whole() -> None:
    """Beside a function that does nothing; generators of random numbers stay as they are."""
    from polydl.torch_backend.decompositions import expand
    from polydl.torch_backend.support import lowering
    from tests.torch_backend.test_compiled_graphs import graph

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (torch.logaddexp(x, x) + 1,)

    gm = graph(function, [torch.randn(300, 200)])
    expand(gm, lowering)
    nodes = [node for node in gm.graph.nodes if node.op == "call_function"]
    (origin,) = region_timing.parts_of(gm.graph)
    assert str(origin.target) == "aten.logaddexp.default"
    assert sum(ORIGIN in node.meta for node in nodes) > 1
    state = torch.get_rng_state()
    inputs = gm.graph.find_nodes(op="placeholder")
    mine, eager, _ = region_timing.seconds(lambda x: x, inputs, nodes[-1:], nodes, [origin])
    assert 0 < mine < eager
    assert torch.equal(torch.get_rng_state(), state)
