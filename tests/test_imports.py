"""Importing polydl and asking for help is quick, and never loads torch."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import polydl

HEAVY = ("torch", "islpy", "numpy", "jinja2", "typer", "rich", "pycparser")


def modules_after(code: str) -> set[str]:
    """Top-level modules loaded by a fresh interpreter that runs `code`."""
    program = f"import sys\n{code}\nprint(sorted({{m.split('.')[0] for m in sys.modules}}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stderr.strip().splitlines()[-1]))


def test_importing_polydl_loads_nothing_heavy() -> None:
    assert not modules_after("import polydl; polydl.__version__; dir(polydl)") & set(HEAVY)


def test_the_pipeline_does_not_load_torch() -> None:
    assert "torch" not in modules_after("import polydl; polydl.load, polydl.rank, polydl.optimize")


def test_help_does_not_load_torch() -> None:
    program = "import polydl.cli\ntry:\n    sys.argv = ['polydl', '--help']; polydl.cli.main()\nexcept SystemExit: pass"
    assert "torch" not in modules_after(program)


@pytest.mark.parametrize(
    "code",
    [
        "import polydl; assert callable(polydl.rank)",
        "import polydl, polydl.rank; assert callable(polydl.rank)",
        "import polydl.rank as r; assert callable(r)",
        "from polydl import rank; import polydl.rank; assert callable(rank) and rank is polydl.rank",
        "from polydl import load, optimize, rank",
    ],
)
def test_rank_is_a_function_and_a_package(code: str) -> None:
    modules_after(code)


def test_rank_calls_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    from polydl import pipeline

    monkeypatch.setattr(pipeline, "rank", lambda *args, **kwargs: (args, kwargs))
    assert polydl.rank("kernel.c", top_k=3) == (("kernel.c",), {"top_k": 3})


def test_unknown_attributes_are_errors() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = polydl.nosuch


@pytest.mark.timing
@pytest.mark.parametrize(
    "arguments", [["-c", "import polydl"], [str(Path(sys.executable).parent / "polydl"), "--help"]]
)
def test_start_is_quick(arguments: list[str]) -> None:
    """< 0.3 s of processor time (not wall time: the machine may be busy), best of five."""
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.3
