"""Whole graphs, compiled and eager: random ones, failures of compilation, what is equal and what is not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from polydl.base.errors import PolyDLError
from polydl.torch_backend import graph_compiler, group_check, group_code, group_search, region_timing, stored_graph
from polydl.torch_backend.backend import compiled
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.checked_call import Checked
from polydl.torch_backend.graph_compiler import BackendWarning, Lowerings, compile_graph
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.groups import groups
from polydl.torch_backend.support import lowering

LOWERINGS = Lowerings(lowering, groups)


def random_function(seed: int) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """A function of three tensors: elementwise operators, views, broadcasts, products, reductions, some eager ones."""
    draw = random.Random(seed)
    n, m = draw.choice([1, 2, 5, 8]), draw.choice([1, 3, 4, 16])
    inputs = [torch.randn(n, m), torch.randn(m), torch.randn(m, n).t()]
    if draw.random() < 0.3:
        inputs[0] = torch.randn(2 * n, 3 * m)[::2, 1::3]
    choices: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda a, b: a + b, lambda a, b: a * 0.5 - b, lambda a, b: torch.maximum(a, b), lambda a, b: a.relu() + b.sin(),
        lambda a, b: torch.where(a > b, a, -b), lambda a, b: a.tanh() * b.sigmoid(), lambda a, b: a.softmax(-1) + b,
        lambda a, b: a.sum(-1, keepdim=True) * b, lambda a, b: a.mean(0, keepdim=True) + b, lambda a, b: a.amax() + b,
        lambda a, b: a.t().contiguous().t() + b, lambda a, b: torch.sort(a, -1)[0] + b, lambda a, b: a.flip(0) * b,
        lambda a, b: (a.t() @ b).sum(0) * 0.1 + a, lambda a, b: torch.cumsum(a, 0) * 0.1 + b,
        lambda a, b: torch.cat([a, b], 0)[: a.shape[0]] * 1.5, lambda a, b: a.expand(2, *a.shape)[1] + b,
        lambda a, b: nn.functional.layer_norm(a, a.shape[-1:]) + b, lambda a, b: nn.functional.gelu(a) * b,
        lambda a, b: (a > 0).float() + b.double().float(), lambda a, b: a[:, :1] * b + a[:1],
        lambda a, b: a.abs().sqrt() - b,
    ]  # fmt: skip
    steps = [(draw.choice(choices), draw.random(), draw.random()) for _ in range(draw.randint(2, 12))]
    ends = [draw.random() for _ in range(draw.randint(1, 4))]
    shapes = [draw.choice([lambda t: t, lambda t: t.t(), lambda t: t.reshape(-1), lambda t: t[0]]) for _ in ends]

    def function(x: Tensor, row: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        values = [x, row.expand(x.shape), z]
        for step, i, j in steps:
            values.append(step(values[int(i * len(values))], values[int(j * len(values))]).clamp(-50, 50))
        return tuple(shape(values[-1 - int(e * (len(values) - 1))]) for e, shape in zip(ends, shapes, strict=True))

    return function, inputs


def graph(function: Callable[..., Any], inputs: Sequence[Tensor]) -> fx.GraphModule:
    return make_fx(torch.func.functionalize(function, remove="mutations"), tracing_mode="fake")(*inputs)


@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("part", range(30))
def test_random_graphs(part: int) -> None:
    """300 of them; results, strides and types are those of the graph run by eager PyTorch."""
    with_groups = 0
    for seed in range(10 * part, 10 * part + 10):
        function, inputs = random_function(seed)
        reports: list[GraphReport] = []
        gm = graph(function, inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = compiled(gm, (), BackendOptions(check=True, report=reports.append))
        assert isinstance(run, Checked)
        run(list(inputs))
        with_groups += bool(reports[0].groups)
    assert with_groups >= 7


def test_equal_groups_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = torch.sort(layer(x).relu(), -1)[0]
            return x

    reports: list[GraphReport] = []
    model = Layers()
    run = torch.compile(model, backend="polydl", options={"report": reports.append})
    with torch.no_grad():
        x = torch.randn(3, 6)
        torch.testing.assert_close(run(x), model(x))
    names = [group.name for group in reports[0].groups]
    assert len(names) >= 5
    assert len(set(names)) == len(names) // 5


def test_rows_with_an_infinite_constant_are_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is a macro in C, which has no suffix."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    group_code.forget()
    function = lambda x, m: (x.masked_fill(m > 1, -torch.inf).softmax(-1),)  # noqa: E731
    inputs = [torch.randn(64, 256), torch.randn(64, 256)]
    reports: list[GraphReport] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = compiled(graph(function, inputs), (), BackendOptions(check=True, report=reports.append, least_work=0))
    run(list(inputs))
    assert [group.how for group in reports[0].groups] == ["ranked"]


def texts(function: Callable[..., Any], *inputs: Tensor) -> list[str]:
    reports: list[GraphReport] = []
    compiled(graph(function, inputs), (), BackendOptions(report=reports.append))
    return [group.name for group in reports[0].groups]


def test_what_differs_in_a_literal_is_not_equal() -> None:
    x = torch.arange(4)
    literals = [1, 1.0, 2, True, 0.1, 0.1000000001, -0.0, 0.0, float("nan"), float("inf")]
    for dtype in (torch.int64, torch.float32, torch.float64):
        found = []
        for literal in literals:
            try:
                found.append((literal, dtype, tuple(texts(lambda x, c=literal: x * c, x.to(dtype)))))
            except RuntimeError:  # eager PyTorch refuses it
                continue
        for i, (literal, _, name) in enumerate(found):
            for other, _, its in found[:i]:
                same_result = _product(x.to(dtype), literal) == _product(x.to(dtype), other)
                assert name != its or same_result, (literal, other, dtype)


def _product(x: Tensor, literal: float) -> str:
    found = x * literal
    return f"{found.dtype} {[repr(one) for one in found.tolist()]}"


class Failing:
    """Lowerings of which a group cannot be compiled."""

    def __init__(self, word: str, how: str) -> None:
        self.word, self.how = word, how

    def groups(self, nodes: Sequence[fx.Node], wanted: Sequence[fx.Node]) -> Any:
        if self.how == "groups":
            raise KeyError("something that polydl did not expect")
        made = groups(nodes, wanted)
        return [_Broken(one) if any(self.word in str(node.target) for node in one.nodes) else one for one in made]


class _Broken:
    def __init__(self, group: Any) -> None:
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)

    def text(self, name: str) -> str:
        return str(self._group.text(name)).replace("#pragma scop", "this is not C")


@pytest.mark.parametrize("how", ["text", "groups"])
def test_what_cannot_be_compiled_is_run_by_eager(how: str) -> None:
    def function(x: Tensor) -> tuple[Tensor]:
        return (torch.sort((torch.sort(x.sin() + 1)[0] @ x).softmax(0))[0].exp(),)

    x = torch.randn(5, 5)
    failing = Lowerings(lowering, Failing("softmax", how).groups)
    with pytest.warns(BackendWarning) as warned:
        run, report, _ = compile_graph(graph(function, [x]), (), BackendOptions(), failing)
    assert len(warned) == (1 if how == "text" else 3)
    torch.testing.assert_close(run([x])[0], function(x)[0])
    assert any("_softmax" in one.target and "cannot be compiled" in one.why for one in report.eager)
    if how == "text":
        assert report.groups
        file = str(warned[0].message).split("(its C is ")[1].split(")")[0]
        assert "this is not C" in Path(file).read_text()
    with pytest.raises(PolyDLError, match="cannot be compiled"):
        compile_graph(graph(lambda x: (x.softmax(0) + 1,), [x]), (), BackendOptions(strict=True), failing)


def test_nothing_is_swallowed_when_a_graph_runs() -> None:
    run, _, _ = compile_graph(
        graph(lambda x: (torch.sort(x + 1)[0],), [torch.randn(4)]), (), BackendOptions(), LOWERINGS
    )
    with pytest.raises(TypeError, match="takes tensors"):
        run([3])


def test_a_wrong_group_is_found_by_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_check, "difference", lambda made: None)

    class Wrong(_Broken):
        def text(self, name: str) -> str:
            return str(self._group.text(name)).replace("1.0f", "2.0f")

    wrong = Lowerings(lowering, lambda nodes, wanted: [Wrong(one) for one in groups(nodes, wanted)])
    run = compiled(graph(lambda x: (x + 1.0,), [torch.randn(4)]), (), BackendOptions(check=True), wrong)
    with pytest.raises(PolyDLError, match="output 0 is not that of eager PyTorch"):
        run([torch.randn(4)])


def test_groups_with_much_work_are_searched_and_others_not() -> None:
    reports: list[GraphReport] = []
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    function = lambda x, w: (torch.sort((x @ w).relu())[0][:2, :2].exp(),)  # noqa: E731
    run = compiled(graph(function, [x, w]), (), BackendOptions(report=reports.append, check=True))
    run([x, w])
    assert [group.how for group in reports[0].groups] == ["ranked", "as written"]
    assert reports[0].groups[0].variants
    reports.clear()
    compiled(graph(function, [x, w]), (), BackendOptions(report=reports.append, groups=0))([x, w])
    assert {group.how for group in reports[0].groups} == {"as written"}


def test_code_is_cached_by_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second process compiles nothing; a damaged entry is made anew."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    x = torch.randn(7, 9)
    gm = graph(lambda x: (x.cos() * 3,), [x])
    made: list[str] = []
    compile_file = group_search.compiled

    def counted(job: group_search.Job, text: str) -> Path:
        made.append(job.key)
        return compile_file(job, text)

    monkeypatch.setattr(group_search, "compiled", counted)
    for expected in (1, 1):
        group_code.forget()
        torch.testing.assert_close(compiled(gm, (), BackendOptions())([x])[0], x.cos() * 3)
        assert len(made) == expected
    group_code.forget()
    (entry,) = (tmp_path / "torch_groups").iterdir()
    copy = tmp_path / "copy.so"
    copy.write_bytes(entry.read_bytes()[:2000])
    entry.unlink()  # the old one stays mapped
    copy.rename(entry)
    with pytest.warns(UserWarning, match="damaged"):
        torch.testing.assert_close(compiled(gm, (), BackendOptions())([x])[0], x.cos() * 3)
    assert len(made) == 2


def test_another_processor_has_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    key = group_code.parts("ranked", (), BackendOptions())
    monkeypatch.setattr(group_code.platform, "machine", lambda: "riscv64")
    assert group_code.parts("ranked", (), BackendOptions()) != key


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("training", [False, True])
def test_modules(batch: int, training: bool) -> None:
    """A convolutional network with whatever usually comes with it."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolutions = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2),
                nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(2, 8), nn.Hardswish(),
            )  # fmt: skip
            self.head = nn.Sequential(nn.Linear(8, 10), nn.Dropout(0.0), nn.LogSoftmax(-1))

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.convolutions(x).mean((2, 3)))

    if training and batch < 2:
        batch += 2  # statistics of one value
    model, other = Network().train(training), Network().train(training)
    other.load_state_dict(model.state_dict())
    run = torch.compile(other, backend="polydl")
    x = torch.randn(batch, 3, 10, 10)
    found, expected = run(x), model(x)
    torch.testing.assert_close(found, expected)
    if training:
        found.pow(2).sum().backward()
        expected.pow(2).sum().backward()
        for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("slower", [False, True])
def test_a_region_that_is_measured_slower_is_left_to_eager(slower: bool) -> None:
    """With a loop that does nothing a thousand times in front of its own; what is random in the model stays so."""

    class Slow(_Broken):
        def text(self, name: str) -> str:
            head, line, tail = str(self._group.text(name)).partition("#pragma scop")
            idle = "for (volatile int polydl_idle = 0; polydl_idle < 1000000; polydl_idle++) { }\n"
            return head + idle + line + tail

    def function(x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        return (torch.sort(x * 2 + 1)[0].exp().sin() + 1, index.t() + 1)

    inputs = [torch.randn(8, 8), torch.zeros(3, 2, dtype=torch.int64)]
    state = torch.get_rng_state()
    made = Lowerings(
        lowering,
        lambda nodes, wanted: [Slow(one) for one in groups(nodes, wanted)] if slower else groups(nodes, wanted),
    )
    run, report, _ = compile_graph(graph(function, inputs), (), BackendOptions(tune=True), made)
    assert torch.equal(torch.get_rng_state(), state)
    for found, expected in zip(run(list(inputs)), function(*inputs), strict=True):
        torch.testing.assert_close(found, expected)
    if slower:
        assert not report.groups
        assert sum("measured" in one.why and "µs in eager PyTorch" in one.why for one in report.eager) == 6


@pytest.mark.parametrize("kernels", [0, 1])
def test_large_attention_without_a_microkernel_is_left_to_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernels: int
) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    group_code.forget()
    searched = group_search.Searched
    monkeypatch.setattr(group_search, "optimized", lambda job: searched(job.written, job.written, (), (), kernels))
    q, k, v = (torch.randn(1, 8, 64, 32) for _ in range(3))
    function = lambda q, k, v: (nn.functional.scaled_dot_product_attention(q, k, v),)  # noqa: E731
    with torch.no_grad():
        run, report, _ = compile_graph(graph(function, [q, k, v]), (), BackendOptions(), LOWERINGS)
        torch.testing.assert_close(run([q, k, v])[0], function(q, k, v)[0], rtol=1e-4, atol=1e-4)
    assert [one.target for one in report.eager if "no microkernel" in one.why] == [
        "aten._scaled_dot_product_flash_attention_for_cpu.default"
    ] * (1 - kernels)
    group_code.forget()


@pytest.mark.parametrize("kernels", [0, 1])
@pytest.mark.parametrize("padding", [(1, 2), (0, 1)])
def test_eager_convolutions_pad_themselves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, padding: tuple[int, int], kernels: int
) -> None:
    """No padded copy is made for a convolution that is left to PyTorch; the model's own padding by a number stays."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    group_code.forget()
    searched = group_search.Searched
    monkeypatch.setattr(group_search, "optimized", lambda job: searched(job.written, job.written, (), (), kernels))
    x, w = torch.randn(2, 8, 40, 41), torch.randn(8, 8, 3, 5)

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        one = nn.functional.conv2d(x, w, padding=padding, stride=2)
        return one, nn.functional.conv2d(nn.functional.pad(x, (1, 1), value=2.0), w)

    with torch.no_grad():
        run, report, _ = compile_graph(graph(function, [x, w]), (), BackendOptions(groups=2), LOWERINGS)
        for found, expected in zip(run([x, w]), function(x, w), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            assert found.stride() == expected.stride()
    assert sum("no microkernel" in one.why for one in report.eager) == 2 * (1 - kernels)
    pads = [one for group in report.groups for one in group.operators if "constant_pad" in one]
    assert len(pads) == 1 + kernels
    group_code.forget()


@pytest.mark.parametrize("shared", [0, 2])
@pytest.mark.parametrize("whole", [True, False])
def test_attention_that_shares_no_loops_is_left_to_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared: int, whole: bool
) -> None:
    """Where its scores fit no cache, and PyTorch has a kernel for it: not where it is written by hand."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    group_code.forget()
    searched = group_search.Searched
    monkeypatch.setattr(group_search, "optimized", lambda job: searched(job.written, job.written, (), (), 2, shared))

    def function(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
        if whole:
            return (nn.functional.scaled_dot_product_attention(q, k, v),)
        return ((q @ k.transpose(-1, -2) * 32**-0.5).softmax(-1) @ v,)

    q, k, v = (torch.randn(1, 2, 400, 32) for _ in range(3))
    with torch.no_grad():
        run, report, _ = compile_graph(graph(function, [q, k, v]), (), BackendOptions(), LOWERINGS)
        torch.testing.assert_close(run([q, k, v])[0], function(q, k, v)[0], rtol=1e-4, atol=1e-4)
    assert [one.target for one in report.eager if "share no loops" in one.why] == [
        "aten._scaled_dot_product_flash_attention_for_cpu.default"
    ] * (whole and not shared)
    group_code.forget()


@pytest.mark.parametrize("kernels", [0, 1])
def test_large_products_without_a_microkernel_are_left_to_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernels: int
) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    group_code.forget()
    searched = group_search.Searched
    monkeypatch.setattr(group_search, "optimized", lambda job: searched(job.written, job.written, (), (), kernels))
    x, w = torch.randn(128, 128), torch.randn(128, 128)
    gm = graph(lambda x, w: ((x @ w).relu() + 1, x.exp()), [x, w])
    run, report, _ = compile_graph(gm, (), BackendOptions(), LOWERINGS)
    torch.testing.assert_close(run([x, w])[0], (x @ w).relu() + 1, rtol=1e-4, atol=1e-4)
    assert any("exp" in one for group in report.groups for one in group.nodes)
    assert [one.target for one in report.eager if "no microkernel" in one.why].count("aten.mm.default") == 1 - kernels
    group_code.forget()


def whole(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], inputs: Sequence[Tensor], **options: Any
) -> tuple[Any, int]:
    """What the graph gives that `compiled` makes, and how many graphs were looked at for it."""
    looked: list[int] = []
    expand = graph_compiler.expand

    def counted(*args: Any) -> None:
        looked.append(1)
        expand(*args)

    monkeypatch.setattr(graph_compiler, "expand", counted)
    group_code.forget()
    run = compiled(graph(function, inputs), (), BackendOptions(**options))
    return run(list(inputs)), len(looked)


def network(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.sort((x @ x).softmax(-1) * 2.5)[0].to(torch.float64)
    return y, torch.full((3,), float("-inf")), x.t(), torch.clamp(y, min=0.25).sum(dtype=torch.float32)


def test_a_graph_that_was_compiled_before_is_not_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    x = torch.randn(5, 5)
    first, looked = whole(monkeypatch, network, [x])
    again, then = whole(monkeypatch, network, [x])
    assert (looked, then) == (1, 0)
    for one, other, wanted in zip(first, again, network(x), strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, wanted)
    for other_graph, options in (
        (lambda x: network(x * 1), {}), (network, {"least_work": 1.0}), (network, {"weights": "live"}),
    ):  # fmt: skip
        assert whole(monkeypatch, other_graph, [x], **options)[1] == 1
    assert whole(monkeypatch, network, [torch.randn(6, 6)])[1] == 1
    assert whole(monkeypatch, network, [torch.randn(5, 5).t()])[1] == 1


@pytest.mark.parametrize("how", ["cut", "foreign", "form", "operator", "code"])
def test_a_stored_graph_that_cannot_be_used_is_made_anew(
    how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    x = torch.randn(5, 5)
    whole(monkeypatch, network, [x])
    (entry,) = (tmp_path / "torch_graphs").iterdir()
    cache, key = stored_graph._GRAPHS, entry.stem
    document = cache.read(key)
    assert document is not None
    if how == "cut":
        entry.write_bytes(entry.read_bytes()[:300])
    elif how == "foreign":
        cache.write(key, b'["something else"]')
    elif how == "form":
        cache.write(key, document.replace(b'"format": 1', b'"format": 0'))
    elif how == "operator":
        cache.write(key, document.replace(b"aten.sort.default", b"aten.sorts.default"))
    else:
        for one in (tmp_path / "torch_groups").iterdir():
            one.unlink()
    if how == "code":
        found, looked = whole(monkeypatch, network, [x])
    else:
        with pytest.warns(UserWarning, match="made anew"):
            found, looked = whole(monkeypatch, network, [x])
    assert looked == 1
    torch.testing.assert_close(found[0], network(x)[0])
    assert whole(monkeypatch, network, [x])[1] == 0


def test_stored_graphs_compute_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Random graphs: those from the cache are those that were compiled."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    for seed in range(300, 312):
        function, inputs = random_function(seed)
        first, _ = whole(monkeypatch, function, inputs, groups=0)
        again, looked = whole(monkeypatch, function, inputs, groups=0)
        assert looked == 0
        for one, other in zip(first, again, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
            assert one.stride() == other.stride()


def test_what_was_measured_slower_stays_eager_without_measuring_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    timed: list[int] = []

    def slower(*_: Any, **__: Any) -> tuple[float, float, bool]:
        timed.append(1)
        return 2.0, 1.0, True

    monkeypatch.setattr(region_timing, "seconds", slower)
    reports: list[GraphReport] = []
    for _ in range(2):
        group_code.forget()
        gm = graph(lambda x: (x.exp() + 1,), [torch.ones(3)])
        run = compiled(gm, (), BackendOptions(tune=True, report=reports.append))
        torch.testing.assert_close(run([torch.ones(3)])[0], torch.ones(3).exp() + 1)
    assert timed == [1]
    assert [str(one) for one in reports[0].eager] == [str(one) for one in reports[1].eager]
    assert "measured" in reports[1].eager[0].why


def test_many_processes_at_once(tmp_path: Path) -> None:
    """Each finds the cache empty or half full, and computes the right thing."""
    code = (
        "import torch, polydl.torch_backend as b; b.register()\n"
        "m = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.LayerNorm(7)).eval()\n"
        "x = torch.randn(3, 5)\n"
        "with torch.no_grad():\n"
        "    torch.testing.assert_close(torch.compile(m, backend='polydl')(x), m(x))\n"
        "print('right')\n"
    )
    root = Path(__file__).parent.parent.parent
    environment = {"PYTHONPATH": str(root), "PATH": os.environ["PATH"], "POLYDL_CACHE": str(tmp_path)}
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for one in started:
        told, wrong = one.communicate(timeout=200)
        assert told == "right\n", wrong
    assert len(list((tmp_path / "torch_graphs").glob("*.json"))) == 1
