"""What a compiled graph does beyond its arithmetic: aliasing, strides, mutation, random numbers, gradients, sizes.

All of it must hold whether operators are compiled or left to eager PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polydl.base.errors import PolyDLError
from polydl.torch_backend.graph_report import GraphReport


def both(function: Callable[..., Any], *inputs: Any, **options: Any) -> None:
    """Eager and compiled agree: values, dtypes, sizes, strides, and what inputs are afterwards."""
    theirs = [_alike(one) if isinstance(one, Tensor) else one for one in inputs]
    mine = [_alike(one) if isinstance(one, Tensor) else one for one in inputs]
    expected = function(*theirs)
    found = torch.compile(function, backend="polydl", fullgraph=True, options=options)(*mine)
    same(found, expected)
    for one, other in zip(mine, theirs, strict=True):
        if isinstance(one, Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def _alike(tensor: Tensor) -> Tensor:
    """A tensor of the same values, strides and offset in other memory."""
    storage = torch.empty(tensor.untyped_storage().nbytes() // tensor.element_size(), dtype=tensor.dtype)
    storage.copy_(torch.as_strided(tensor, storage.shape, (1,), 0))
    return torch.as_strided(storage, tensor.shape, tensor.stride(), tensor.storage_offset())


def _steps(tensor: Tensor) -> list[int]:
    """Strides of dimensions with more than one element; of others fake tensors themselves say something else."""
    return [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1] if tensor.numel() else []


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, Tensor):
        assert isinstance(found, Tensor)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert _steps(found) == _steps(expected)
        torch.testing.assert_close(found, expected, equal_nan=True)
    elif isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("literal", [1, 1.0, 2, True, math.nan, math.inf, -math.inf, -0.0, 1e-45, 0.1, 2**40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_literals_keep_value_and_type(literal: float, dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 3]).to(dtype)
    both(lambda x: (x * literal, x + literal), x)
    assert torch.equal(
        torch.compile(lambda x: torch.copysign(x.float(), torch.full([], literal)), backend="polydl")(x),
        torch.copysign(x.float(), torch.full([], literal)),
    )


def views() -> dict[str, Tensor]:
    base = torch.arange(48.0).reshape(6, 8)
    return {
        "plain": base,
        "transposed": base.t(),
        "strided": base[::2, 1::3],
        "offset": base[2:, 3:],
        "expanded": base[:, :1].expand(6, 8),
        "empty": base[:0],
        "scalar": base[2, 3],
        "one": base[:1, :1],
        "unaligned": base.flatten()[1:13].reshape(3, 4),
        "overlapping": base.flatten().as_strided((5, 4), (2, 1)),
    }


@pytest.mark.parametrize("name", list(views()))
def test_inputs_of_any_strides(name: str) -> None:
    both(lambda x: (x * 2 + 1, x.sum(), (x > 3).float() - x), views()[name])


def test_the_same_tensor_twice_and_overlapping_ones() -> None:
    x = torch.arange(12.0)
    compiled = torch.compile(lambda a, b: (a * 2 + b, b - a), backend="polydl")
    same(compiled(x, x), (x * 3, x - x))
    same(compiled(x[:8], x[2:10]), (x[:8] * 2 + x[2:10], x[2:10] - x[:8]))


def _two_views(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    return y[0], y.t()


def _used_twice(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x + 1
    return y, y, y.view(-1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: (x, x + 1),
        lambda x: x.t(),
        lambda x: x[1:, ::2],
        lambda x: (x + 1).t(),
        lambda x: x.t().mul_(3),
        lambda x: x.relu_() + 1,
        lambda x: (x * 2).permute(1, 0).contiguous(),
        lambda x: x.reshape(-1) + 1,
        lambda x: [x.sum(0), (x * 1.5).reshape(2, 12)],
        _two_views,
        _used_twice,
        lambda x: (x.shape[0] + 1, x + x.shape[1]),
        lambda x: x.unsqueeze(0).expand(3, 4, 6),
        lambda x: (x + 1).expand(2, 4, 6),
        lambda x: x.split(2)[1] * 2,
        lambda x: torch.stack(x.unbind(1), 0),
    ],
)
def test_outputs_alias_as_eager(function: Callable[[Tensor], Any]) -> None:
    x = torch.arange(24.0).reshape(4, 6) - 5
    both(function, x)
    mine, theirs = x.clone(), x.clone()
    found, expected = torch.compile(function, backend="polydl")(mine), function(theirs)
    assert _sharing(found, mine) == _sharing(expected, theirs)


def _sharing(outputs: Any, x: Tensor) -> list[tuple[int, ...]]:
    """Which of the input and the outputs lie in the same memory."""
    tensors = [
        x,
        *(one for one in (outputs if isinstance(outputs, Sequence) else [outputs]) if isinstance(one, Tensor)),
    ]
    where = [one.untyped_storage().data_ptr() for one in tensors]
    return [tuple(i for i, other in enumerate(where) if other == one) for one in where]


def test_an_input_is_returned_as_the_same_object() -> None:
    x = torch.ones(3)
    found = torch.compile(lambda x: (x, x + 1), backend="polydl")(x)
    assert found[0] is x


def test_changes_of_inputs_and_later_reads() -> None:
    def step(cache: Tensor, new: Tensor, at: Tensor) -> Tensor:
        before = cache.sum()
        cache.index_copy_(0, at, new)
        return cache.sum() - before

    both(step, torch.zeros(6, 3), torch.randn(2, 3), torch.tensor([4, 1]))
    both(lambda x: (x.add_(1), x * 2)[1], torch.ones(4))


def test_batch_norm_statistics_are_updated() -> None:
    models = [nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    compiled = torch.compile(models[1], backend="polydl")
    for mode in (True, False, True, False):
        x = torch.randn(4, 2, 6, 6)
        for model in models:
            model.train(mode)
        torch.testing.assert_close(compiled(x), models[0](x))
        for mine, theirs in zip(models[1].buffers(), models[0].buffers(), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_random_numbers_are_those_of_eager() -> None:
    def noisy(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = torch.nn.functional.dropout(x, 0.4)
        b = torch.rand_like(x) + x.relu()
        return a * 2, b, torch.bernoulli(torch.full_like(x, 0.5)) + a

    x = torch.randn(50)
    torch.manual_seed(3)
    expected = noisy(x)
    torch.manual_seed(3)
    same(torch.compile(noisy, backend="polydl")(x), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.sort(x * 2)[0] + 1,
        lambda x: torch.nonzero(x > 0) * 2,
        lambda x: torch.fft.fft(x + 1).abs() * 2,
        lambda x: x[x > 0] + 1,
        lambda x: torch.linalg.inv(x.reshape(3, 3) + 10 * torch.eye(3)) * 2,
        lambda x: torch.unique((x * 2).round()) + 1,
        lambda x: torch.view_as_complex(x[:8].reshape(4, 2)).conj() * 2,
        lambda x: torch.view_as_complex(x[:8].reshape(4, 2)).conj().imag + 1,
        lambda x: x.to_sparse().to_dense() + 1,
        lambda x: x.double().to(torch.float16).sin(),
        lambda x: torch.einsum("i,j->ij", x, x + 1).softmax(0),
    ],
)
def test_islands(function: Callable[[Tensor], Any]) -> None:
    x = torch.randn(9)
    same(torch.compile(function, backend="polydl")(x), function(x))


def test_print_breaks_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    def loud(x: Tensor) -> Tensor:
        y = x * 2
        print("between")
        return y + 1

    x = torch.randn(3)
    same(torch.compile(loud, backend="polydl")(x), x * 2 + 1)
    assert capsys.readouterr().out == "between\n"


def block() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.LayerNorm(12), nn.GELU(), nn.Linear(12, 4), nn.Softmax(-1))


@pytest.mark.parametrize("partition", ["min-cut", "default"])
def test_training_steps_are_those_of_eager(partition: str) -> None:
    models = [block(), block()]
    models[1].load_state_dict(models[0].state_dict())
    compiled = torch.compile(models[1], backend="polydl", options={"partition": partition})
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
    for _ in range(5):
        x, y = torch.randn(7, 6), torch.randn(7, 4)
        losses = []
        for run, optimizer in zip((models[0], compiled), optimizers, strict=True):
            optimizer.zero_grad()
            loss = ((run(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        torch.testing.assert_close(losses[1], losses[0])
    for mine, theirs in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_double_backward_is_refused_as_by_aot() -> None:
    x = torch.randn(3, requires_grad=True)
    found = torch.compile(lambda x: (x * x * x).sum(), backend="polydl")(x)
    (first,) = torch.autograd.grad(found, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


def test_eval_without_no_grad_and_inference_mode() -> None:
    model = block().eval()
    compiled = torch.compile(model, backend="polydl")
    x = torch.randn(5, 6)
    torch.testing.assert_close(compiled(x), model(x))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x), model(x))
        torch.testing.assert_close(compiled(torch.ones(5, 6)), model(torch.ones(5, 6)))


def test_parameters_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model = block().eval()
        compiled = torch.compile(model, backend="polydl")
        x = torch.randn(5, 6)
        torch.testing.assert_close(compiled(x), model(x))
        model[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))


def test_new_sizes_recompile_once() -> None:
    model = block().eval()
    frames: list[int] = []
    reports: list[GraphReport] = []
    compiled = torch.compile(model, backend="polydl", options={"report": reports.append})
    with torch.no_grad():
        for batch in (4, 9, *range(10, 30), 4):
            x = torch.randn(batch, 6)
            torch.testing.assert_close(compiled(x), model(x))
            frames.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert frames[1] - frames[0] == 1
    assert len(set(frames[1:])) == 1
    assert len(reports) == 2
    assert all(one.groups and not one.eager for one in reports)


@pytest.mark.parametrize("way", ["dynamic", "mark"])
def test_sizes_that_are_said_to_change_compile_once(way: str) -> None:
    """`dynamic=True` and `mark_dynamic`: Dynamo makes one graph, polydl code for all sizes."""
    model = block().eval()
    reports: list[GraphReport] = []
    compiled = torch.compile(
        model, backend="polydl", dynamic=way == "dynamic" or None, options={"report": reports.append}
    )
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for batch in (4, 9, 5, 4, 9):
            x = torch.randn(batch, 6)
            if way == "mark":
                torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(compiled(x), model(x))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before == 1
    assert len(reports) == 1
    assert reports[0].groups


def test_more_sizes_than_there_may_be_code_for_are_an_error_if_strict() -> None:
    pool = nn.AdaptiveAvgPool1d(4)  # its windows end where sizes have remainders
    compiled = torch.compile(pool, backend="polydl", dynamic=True, options={"sizes": 1, "strict": True})
    compiled(torch.ones(2, 3, 9))
    with pytest.raises(PolyDLError, match="code for 1 other sizes already, and none for all"):
        compiled(torch.ones(2, 3, 11))


def test_sizes_as_results() -> None:
    compiled = torch.compile(
        lambda x: (x.shape[0] * 2, x.new_zeros(x.shape[0] + 1) + x.sum()), backend="polydl", dynamic=True
    )
    for n in (3, 5, 8):
        x = torch.randn(n, 2)
        found = compiled(x)
        assert found[0] == 2 * n
        torch.testing.assert_close(found[1], x.new_zeros(n + 1) + x.sum())


def test_check_compares_the_first_call() -> None:
    both(lambda x: (x.sin() @ x.t()).softmax(1), torch.randn(4, 4), check=True)


def test_autocast() -> None:
    model = block().eval()
    compiled = torch.compile(model, backend="polydl")
    x = torch.randn(5, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(x), model(x), rtol=0.05, atol=0.05)


def test_memory_does_not_grow() -> None:
    model = block().eval()
    compiled = torch.compile(model, backend="polydl")
    import gc

    with torch.no_grad():
        x = torch.randn(5, 6)
        for _ in range(3):
            compiled(x)
        gc.collect()
        before = sum(issubclass(type(one), Tensor) for one in gc.get_objects())
        for _ in range(100):
            compiled(x)
        gc.collect()
        assert sum(issubclass(type(one), Tensor) for one in gc.get_objects()) <= before


def test_inputs_are_freed_early() -> None:
    """A graph's function empties the list of its inputs, and drops each after the line that reads it last."""
    import weakref

    from torch.fx.experimental.proxy_tensor import make_fx

    from polydl.torch_backend.backend import compiled
    from polydl.torch_backend.backend_options import BackendOptions

    dead: list[bool] = []

    def probe(x: Tensor) -> Tensor:
        dead.append(weak() is None)
        return x.clone()

    library = torch.library.Library("polydl_tests", "FRAGMENT")
    library.define("probe(Tensor x) -> Tensor")
    library.impl("probe", probe, "CPU")
    library.impl("probe", lambda x: torch.empty_like(x), "Meta")
    gm = make_fx(lambda a: (torch.ops.polydl_tests.probe(torch.sort(a)[0]),), tracing_mode="fake")(torch.randn(4))
    function = compiled(gm, (), BackendOptions())
    x = torch.randn(4)
    weak = weakref.ref(x)
    inputs = [x]
    del x
    function(inputs)
    assert inputs == [] and dead == [True]
