"""Importing polydl and asking for help is quick, and never loads torch."""

from __future__ import annotations

import ast
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


def help_modules() -> set[str]:
    """Every module that `polydl --help` loads, with its dotted name."""
    program = (
        "import sys, polydl.cli\ntry:\n    sys.argv = ['polydl', '--help']; polydl.cli.main()\nexcept SystemExit: pass"
    )
    return all_modules_after(program)


def all_modules_after(code: str) -> set[str]:
    """Dotted names of all modules loaded by a fresh interpreter that runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(sorted(sys.modules), file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ast.literal_eval(done.stderr.strip().splitlines()[-1]))


def test_start_is_quick() -> None:
    """Counted in modules, which are what a start costs: seconds would tell how busy the machine is."""
    bare = all_modules_after("pass")
    assert len(all_modules_after("import polydl") - bare) < 50
    loaded = help_modules() - bare
    assert not {name.split(".")[0] for name in loaded} & (set(HEAVY) - {"typer", "rich"})
    assert len(loaded) < 350


UNUSED = ("polydl.prove", "polydl.exchange", "polydl.learn", "polydl.torch_backend", "scipy", "torch", "pandas")
"""What no usual run of `polydl optimize` needs."""
OF_A_SEARCH = ("polydl.pipeline", "polydl.frontend", "polydl.lower", "polydl.measure", "polydl.rewrite", "jinja2")
"""What a cached result is shown without."""


def test_a_run_imports_what_it_needs(tmp_path: Path) -> None:
    """Counted in modules and classes, as above; the second run of a command imports no search."""
    (tmp_path / "f.c").write_text("void f(float x[100])\n{\n    for (int i = 0; i < 100; i++)\n        x[i] *= 2;\n}\n")
    given = ["polydl", "optimize", "f.c", "--no-run", "-o", "o.c", "--machine", "epyc-zen5", "--threads", "1"]
    code = (
        f"import os, sys; os.chdir({str(tmp_path)!r}); os.environ['POLYDL_CACHE'] = 'cache'\n"
        f"sys.argv = {given!r}\nfrom polydl.cli import main\ntry: main()\nexcept SystemExit as end: assert not end.code"
    )
    first, second = all_modules_after(code), all_modules_after(code)
    assert "polydl.pipeline" in first
    assert not [name for name in first if name.startswith(UNUSED)]
    assert not [name for name in second if name.startswith(OF_A_SEARCH)]
