"""`--depfile`: every file that the output depends on, in a rule that Make reads back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from polydl.base.errors import InputError, ToolchainError
from polydl.cli.depfile import escaped, prerequisites, rule
from polydl.measure import includes
from polydl.measure.includes import included
from polydl.options import Options
from tests.cli.running import polydl, refused

ODD = ["plain.h", "with space.h", "two  spaces.h", "a$b.h", "a#b.h", r"back\slash.h", r"before\ space.h", r"end\\ x.h"]
SOURCE = """#include "sizes.h"
void twice(float x[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        x[i] = 2 * x[i];
#pragma endscop
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.c").write_text(SOURCE)
    (tmp_path / "sizes.h").write_text("#define N 64\n")
    return tmp_path


def test_names_come_back_as_they_were() -> None:
    assert includes.prerequisites(rule(Path("out.c"), map(Path, ODD)).partition("\n\n")[0]) == ODD


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_reads_the_names(tmp_path: Path) -> None:
    """Make knows what each name means: it asks for no rule, and finds the target out of date by the last one."""
    for name in ODD:
        (tmp_path / name).write_text("")
    target = Path("the $ output.c")
    text = rule(target, map(Path, ODD))
    (tmp_path / "Makefile").write_text(f"{text}\n{escaped(target)}:\n\t@echo made from $(words x $^)\n")
    done = subprocess.run(["make", "-d"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    for name in ODD[1:]:
        assert f"Prerequisite '{name}' is newer than target '{target}'" in done.stdout or (
            f"No need to remake target '{name}'" in done.stdout
        ), name


@pytest.mark.parametrize("name", ODD)
def test_headers_are_listed_as_they_are_called(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("#define N 3\n")
    Path("in.c").write_text(f'#include "{name}"\n')
    assert Path(name) in included(Path("in.c"), "cc", ())


def test_all_that_the_result_depends_on_is_listed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in ("mine.toml", "micro.o", "tree.yaml"):
        Path(name).write_text("")
    options = Options(machine="mine.toml", link=("micro.o", "-lm"), schedule="tree.yaml")
    found = prerequisites(Path("in.c"), options, [Path("compile_commands.json"), Path("micro.o")])
    assert len(set(found)) == len(found)
    assert [str(p) for p in found if not p.is_absolute()] == [
        "in.c", "sizes.h", "micro.o", "mine.toml", "tree.yaml", "compile_commands.json",
    ]  # fmt: skip


def test_names_of_presets_and_rankers_are_no_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = prerequisites(Path("in.c"), Options(machine="epyc-zen5", ranker="dnn"))
    assert [str(p) for p in found if not p.is_absolute()] == ["in.c", "sizes.h"]


def test_a_line_break_is_refused() -> None:
    with pytest.raises(InputError, match="line break"):
        escaped(Path("a\nb.h"))


def test_without_a_compiler_there_is_no_list(folder: Path) -> None:
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        included(folder / "in.c", "no-such-compiler", ())


def test_the_command_writes_it(folder: Path) -> None:
    arguments = ("optimize", "in.c", "-o", "out.c", "--no-run", "--depfile", "out.d", "--machine", "epyc-zen5")
    assert polydl(folder, *arguments).code == 0
    assert (folder / "out.d").read_text().startswith("out.c: in.c \\\n")
    assert "sizes.h" in includes.prerequisites((folder / "out.d").read_text().partition("\n\n")[0])


def test_also_for_a_result_of_an_earlier_run(folder: Path) -> None:
    arguments = ("optimize", "in.c", "-o", "out.c", "--threads", "1", "--top-k", "1")
    own = {"POLYDL_CACHE": str(folder / "kept")}
    assert polydl(folder, *arguments, **own).code == 0
    assert polydl(folder, *arguments, "--depfile", "out.d", **own).code == 0
    assert (folder / "out.d").read_text().startswith("out.c: in.c \\\n")


def test_nothing_to_depend_on_is_said(folder: Path) -> None:
    assert "--depfile without an output" in refused(folder, "optimize", "in.c", "--no-run", "--depfile", "out.d")
    text = refused(folder, "optimize", "in.c", "-o", "o.c", "--no-run", "--depfile", "none/out.d")
    assert "there is no folder" in text
