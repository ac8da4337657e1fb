"""A short run of the fuzzer of graphs, the same ones every time, and what it must find."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.fuzz import graphs  # noqa: E402
from tests.fuzz.graphs import Graph, Input, Step, Tally, drawn, explore, shrunk  # noqa: E402


def test_random_graphs_are_as_in_eager_pytorch() -> None:
    tally = Tally()
    explore(0, 12, tally, whole=1)
    assert tally.faults == []
    assert tally.graphs >= 10 and tally.compiled > 20


def test_a_seed_gives_one_graph() -> None:
    assert [drawn(n) for n in range(5)] == [drawn(n) for n in range(5)]
    assert len({drawn(n).text() for n in range(20)}) > 15


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_integers_that_do_not_wrap_are_found_and_shrunk(dtype: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the pass that makes them wrap left out."""
    monkeypatch.setattr("polydl.torch_backend.groups.wrapped", lambda program: program)
    inputs = (Input(dtype, (4, 33), "plain", 3), Input(torch.int64, (2,), "indices", 0))
    steps = (Step("{0}.transpose(0, 1)", (0,), "view"), Step("{0} + {0}", (0,), ""), Step("{0} * 3", (3,), ""),
             Step("{0} >= {1}", (4, 3), ""), Step("{0} - 1", (2,), ""))  # fmt: skip
    wrong = Graph(inputs, steps)
    assert graphs._fault_as_written(wrong) is not None
    small = shrunk(wrong, graphs._fault_as_written, tries=20)
    assert len(small.steps) < len(steps) and graphs._fault_as_written(small) is not None


def test_what_counts_as_different() -> None:
    right = Graph((Input(torch.float32, (3, 4), "special", 1),), (Step("torch.relu({0})", (0,), ""),))
    assert graphs._fault_as_written(right) is None
    x = torch.tensor([1.0, float("nan"), 2.0])
    told = graphs._difference
    assert told(x, x, x.double(), False) is None
    assert told(torch.tensor([1.0, 5.0, 2.0]), x, x.double(), False) is not None
    assert told(torch.tensor([1.0, float("nan"), 2.1]), x, x.double(), True) is not None
    assert told(x.int(), x, x.double(), True) is not None
