"""How the backend is found, and what it can be told."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from polydl.base.errors import InputError
from polydl.torch_backend import backend_options, explain
from polydl.torch_backend.backend import polydl
from polydl.torch_backend.backend_options import MODES, BackendOptions, read
from polydl.torch_backend.graph_report import GraphReport

ROOT = Path(__file__).parent.parent.parent


def run(code: str, **environment: str) -> str:
    """What a new Python process prints."""
    path = f"{environment.pop('PYTHONPATH', '')}:{ROOT}"
    command = [sys.executable, "-W", "error", "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"})
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_importing_polydl_loads_no_torch() -> None:
    assert run("import sys, polydl, polydl.torch_backend; print('torch' in sys.modules)") == "False\n"


def test_entry_point_names_the_backend() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["torch_dynamo_backends"]["polydl"].partition(":")
    assert getattr(import_module(module), name) is polydl
    assert "torch" in project["optional-dependencies"]


def test_found_by_its_entry_point_in_a_clean_process(tmp_path: Path) -> None:
    """As an installed package has it; importing the module first does not register the name twice."""
    info = tmp_path / "polydl_entry-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: polydl_entry\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\npolydl = polydl.torch_backend.backend:polydl\n")
    code = (
        "import torch, polydl.torch_backend.backend\n"
        "print('polydl' in torch._dynamo.list_backends())\n"
        "print(torch.compile(lambda x: x + 1, backend='polydl')(torch.ones(2)).tolist())\n"
        "polydl.torch_backend.backend.register()\n"
    )
    assert run(code, PYTHONPATH=str(tmp_path)) == "True\n[2.0, 2.0]\n"


@pytest.mark.parametrize("mode", list(MODES))
def test_modes(mode: str) -> None:
    assert read(mode, None).tune == mode.startswith("max-autotune")


def test_unknown_options_and_modes_are_refused_with_the_known_ones() -> None:
    x = torch.ones(2)
    with pytest.raises(Exception, match=r"no option 'tunes'.*\n?.*did you mean 'tune'") as error:
        torch.compile(lambda x: x + 1, backend="polydl", options={"tunes": True})(x)
    for name in BackendOptions.__dataclass_fields__:
        assert name in str(error.value)
    with pytest.raises(Exception, match="no mode 'fastest'"):
        torch.compile(lambda x: x + 1, backend="polydl", mode="fastest")(x)


@pytest.mark.parametrize(
    "options",
    [
        {"tune": 1}, {"tune": "yes"}, {"groups": -1}, {"groups": True}, {"threads": 0}, {"weights": "cold"},
        {"partition": "half"}, {"report": 3}, {"sizes": 0}, {"cc": None},
    ],
)  # fmt: skip
def test_wrong_values_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        read(None, options)


def test_options_of_two_models_do_not_mix() -> None:
    one: list[GraphReport] = []
    other: list[GraphReport] = []
    x = torch.ones(3)
    first = torch.compile(lambda x: x.sin() + 1, backend="polydl", options={"report": one.append})
    second = torch.compile(lambda x: x.cos() + 2, backend="polydl", options={"report": other.append, "weights": "live"})
    torch.testing.assert_close(first(x), x.sin() + 1)
    torch.testing.assert_close(second(x), x.cos() + 2)
    assert (len(one), len(other)) == (1, 1)


def test_report_goes_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    torch.compile(lambda x: x.sin() + 1, backend="polydl", options={"report": str(file)})(torch.ones(3))
    assert "operators" in file.read_text()


def test_strict_names_what_has_no_loops() -> None:
    compiled = torch.compile(lambda x: torch.sort(x)[0], backend="polydl", options={"strict": True})
    with pytest.raises(Exception, match=r"sort.*because|aten\.sort"):
        compiled(torch.randn(4))


def test_reset_copies_and_pickles() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval()
    x = torch.randn(2, 4)
    with torch.no_grad():
        expected = model(x)
        compiled = torch.compile(model, backend="polydl")
        torch.testing.assert_close(compiled(x), expected)
        torch.compiler.reset()
        torch.testing.assert_close(compiled(x), expected)
        torch.testing.assert_close(copy.deepcopy(compiled)(x), expected)
        again = torch.compile(pickle.loads(pickle.dumps(model)), backend="polydl")
        torch.testing.assert_close(again(x), expected)


def test_two_instances_of_one_class() -> None:
    models = [torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)]
    x = torch.randn(2, 4)
    for model in models:
        torch.testing.assert_close(torch.compile(model, backend="polydl")(x), model(x))


def test_explain_names_graphs_and_reasons() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x + 1)[0] * 2

    found = explain(model, torch.randn(5))
    (graph,) = found.graphs
    reasons = {one.target: one for one in graph.eager}
    assert reasons["aten.sort.default"].place.partition(":")[0].endswith("test_entry.py")
    assert "aten.sort.default" in str(found)


def test_code_is_for_the_cores_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads PyTorch has; with OMP_PROC_BIND a process may use one core as soon as OpenMP has threads."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    monkeypatch.setattr(backend_options, "cores_of", len)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    backend = import_module("polydl.torch_backend.backend")
    seen: list[int | None] = []
    monkeypatch.setattr(backend, "_boxed", lambda o, **_: seen.append(o.threads))
    monkeypatch.setattr(backend, "aot_autograd", lambda **_: lambda gm, _: gm)
    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    polydl(module, [torch.randn(3)])
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    polydl(module, [torch.randn(3)])
    polydl(module, [torch.randn(3)], options={"threads": 3})
    assert seen == [1, 1, 6, 6, 3, 3]
