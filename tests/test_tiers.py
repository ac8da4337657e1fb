"""Which tests are in the tiers, which a change reaches, and what is compiled once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import polydl
from polydl.measure import Status, session
from tests import compiling, precompiled, since
from tests.compiling import CompilerFailed, run_compiler, run_program, understood
from tests.tiers import BUDGET, LONG, Taken, affordable, first, grown, merged, record, second, taken

NAMES = [f"tests/test_a.py::test_a[{i}]" for i in range(9)]


@pytest.mark.parametrize(
    ("seconds", "count"), [(0.0, 9), (0.05, 9), (0.2, 2), (0.9, 1), (4.0, 1), (BUDGET + 1, 0)], ids=str
)
def test_as_many_cases_as_take_a_share(seconds: float, count: int) -> None:
    known = {"tests/test_a.py::test_a": Taken(9, seconds, "builds")}
    assert len(first([(name, False) for name in NAMES], known)) == count


@pytest.mark.parametrize(
    ("seconds", "count"), [(0.0, 9), (LONG / 9, 9), (LONG / 7, 7), (LONG, 5), (9 * LONG, 5)], ids=str
)
def test_of_what_takes_long_the_second_tier_has_half(seconds: float, count: int) -> None:
    known = {"tests/test_a.py::test_a": Taken(9, seconds, "builds")}
    chosen = second([(name, False) for name in NAMES], known)
    assert len(chosen) == count
    assert first([(name, False) for name in NAMES], known) <= chosen
    assert NAMES[4] in second([(name, name == NAMES[4]) for name in NAMES], known)
    assert second([(name, False) for name in NAMES], {}) == set(NAMES)


def test_the_quickest_of_each_file_and_then_of_all() -> None:
    seconds = {"a.py::test_quick": 1, "a.py::test_long": 30, "b.py::test": 50, "b.py::test_slower": BUDGET - 60}
    known = {f"tests/test_{name}": Taken(1, one, "") for name, one in seconds.items()}
    assert affordable(known) == set(known) - {"tests/test_b.py::test_slower"}


def test_new_and_marked_tests_are_in_and_the_order_does_not_matter() -> None:
    known = {"tests/test_a.py::test_a": Taken(9, BUDGET + 1, "")}
    assert first([(name, name == NAMES[4]) for name in NAMES], known) == {NAMES[4]}
    assert first([("tests/test_b.py::test_b", False)], known) == {"tests/test_b.py::test_b"}
    cheap = {"tests/test_a.py::test_a": Taken(9, 0.3, "")}
    assert first([(name, False) for name in NAMES], cheap) == first([(name, False) for name in reversed(NAMES)], cheap)


def test_every_function_on_record_exists() -> None:
    root = since.ROOT
    texts = {path: (root / path).read_text() for path in {name.partition("::")[0] for name in record()}}
    assert not [name for name in record() if f"def {name.rpartition('::')[2]}(" not in texts[name.partition("::")[0]]]


def test_what_was_seen_is_summed_up() -> None:
    spent = {
        NAMES[0]: [(1.0, "")],
        NAMES[1]: [(9.0, "process"), (2.0, "builds")],
        "tests/test_b.py::test_b": [(0.5, "")],
    }
    found = taken(spent)
    assert found == {"tests/test_a.py::test_a": Taken(2, 1.5, "builds"), "tests/test_b.py::test_b": Taken(1, 0.5, "")}
    old = {"tests/test_a.py::test_a": Taken(9, 1.0, "")}
    assert merged(old, found)["tests/test_a.py::test_a"] == Taken(9, 1.5, "builds")


def test_a_longer_tier_is_asked_why_whatever_the_machine() -> None:
    known = {f"tests/test_{name}.py::test": Taken(1, 100.0, "") for name in "abc"}
    spent = {f"tests/test_{name}.py::test": 200.0 for name in "abc"}
    assert not grown(spent, known)
    assert not grown(spent | {"tests/test_d.py::test": 15.0}, known)
    told = grown(spent | {"tests/test_d.py::test": 30.0}, known)
    assert "15 s" in told[0]
    assert told[1] == "  tests/test_d.py: +15.0 s"
    assert not grown({"tests/test_a.py::test": 100.0, "tests/test_d.py::test": 30.0}, known)


def test_a_change_reaches_what_imports_it() -> None:
    reached = since.reached(["polydl/learn/train/metrics.py"])
    assert reached is not None
    assert "tests/learn/train/test_metrics.py" in reached
    assert "tests/model/test_isl.py" not in reached
    through_the_package = since.reached(["polydl/search/timing_order.py"])
    assert through_the_package is not None
    assert "tests/api/test_doctests.py" in through_the_package
    assert "tests/locality/test_exact.py" not in through_the_package
    helper = since.reached(["tests/rewrite/executing.py"])
    assert helper is not None
    assert "tests/rewrite/test_pairs.py" in helper
    assert "tests/rewrite/test_detiling.py" not in helper


def test_files_that_are_no_python() -> None:
    preset = since.reached(["polydl/target/presets/epyc-zen5.toml"])
    assert preset is not None
    assert "tests/target/test_files.py" in preset
    refused = since.reached(["tests/reject/call.c"])
    assert refused is not None
    assert "tests/frontend/test_reject.py" in refused
    assert since.reached(["pyproject.toml"]) is None


HELLO = '#include "what.h"\n#include <stdio.h>\nint main(void) { printf("%d", WHAT); return 0; }\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiling, "FOLDER", tmp_path / "kept")
    (tmp_path / "hello.c").write_text(HELLO)
    (tmp_path / "what.h").write_text("#define WHAT 1\n")
    return tmp_path


def compilers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The commands that are run from now on."""
    commands: list[object] = []
    real = subprocess.run

    def noted(words: list[str], **given: object) -> object:
        commands.append(words[0])
        return real(words, **given)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", noted)
    return commands


def test_equal_c_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = compilers(monkeypatch)
    run_compiler(["gcc", "-O1", "hello.c", "-o", "one"], folder)
    (folder / "sub").mkdir()
    for name in ("hello.c", "what.h"):
        (folder / "sub" / name).write_bytes((folder / name).read_bytes())
    run_compiler(["gcc", "-O1", folder / "sub" / "hello.c", "-o", folder / "two"])
    assert ran == ["gcc"]
    assert run_program([folder / "two"]).stdout == "1"
    (folder / "what.h").write_text("#define WHAT 2\n")
    run_compiler(["gcc", "-O1", "hello.c", "-o", "one"], folder)
    assert run_program([folder / "one"]).stdout == "2"
    run_compiler(["gcc", "-O2", "hello.c", "-o", "one"], folder)
    run_compiler(["gcc", "-O1", "-DWHAT=2", "hello.c", "-o", "one"], folder, check=False)
    assert ran.count("gcc") == 4


def test_what_polydl_compiles_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of measurements are understood, and the driver is compiled once for all processes."""
    path = folder / "scale.c"
    path.write_text("void scale(float x[99]) { for (int i = 0; i < 99; i++) x[i] *= 2; }\n")
    commands: list[object] = []
    compiled: list[int] = []
    real = compiling._polydl_runs

    def noted(arguments: list[object], *given: object) -> object:
        commands.append(arguments[0])
        return real(arguments, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "_polydl_runs", noted)
    for _ in range(2):
        monkeypatch.setattr(session, "_drivers", {})
        done = polydl.optimize(path, folder / "out.c", threads=1, top_k=1, budget=None)
        assert {m.status for m in done.scops[0].report.measurements} == {Status.VERIFIED}
        compiled.append(len(commands))
    assert compiled[0] >= 3
    assert compiled[1] == compiled[0]


def test_what_is_refused_is_not_kept(folder: Path) -> None:
    (folder / "wrong.c").write_text("int main(void) { return nothing; }\n")
    for _ in range(2):
        with pytest.raises(CompilerFailed, match="nothing"):
            run_compiler(["gcc", "wrong.c", "-o", "wrong"], folder)
    assert not list((folder / "kept").rglob("*.json"))


@pytest.mark.parametrize(
    "words",
    [
        ["-L.", "hello.c", "-o", "a"], ["-MMD", "hello.c", "-o", "a"], ["-include", "what.h", "hello.c", "-o", "a"],
        ["hello.c", "-Wl,-z,defs", "-o", "a"], ["gone.c", "-o", "a"], ["hello.c"], ["-g", "hello.c", "-o", "a"],
        ["-fdump-tree-all", "hello.c", "-o", "a"], ["hello.c", "-Xlinker", "-Map=m", "-o", "a"],
    ],
)  # fmt: skip
def test_other_commands_are_run_as_they_stand(folder: Path, words: list[str]) -> None:
    assert understood(["gcc", "-O1", "hello.c", "-o", "a"], folder, None)
    assert understood(["gcc", *words], folder, None) is None


@pytest.mark.parametrize("text", ["char *s = __DATE__;", "#include WHAT", '#if __has_include("x.h")\n#endif'])
def test_texts_that_do_not_say_what_is_compiled(folder: Path, text: str) -> None:
    (folder / "hello.c").write_text(f"{text}\n")
    assert understood(["gcc", "-c", "hello.c", "-o", "a.o"], folder, None) is None


def test_scripts_are_no_compilers(folder: Path) -> None:
    (folder / "cc").write_text('#!/bin/sh\nexec gcc "$@"\n')
    (folder / "cc").chmod(0o755)
    assert understood([folder / "cc", "hello.c", "-o", "a"], folder, None) is None


def test_what_was_not_used_for_longest_is_forgotten(folder: Path) -> None:
    for level in "012":
        run_compiler(["gcc", f"-O{level}", "hello.c", "-o", "a"], folder)
    sizes = sum(path.stat().st_size for path in (folder / "kept").rglob("*.*"))
    compiling.trim(sizes)
    assert len(list((folder / "kept").rglob("*.json"))) == 3
    compiling.trim(sizes // 2)
    assert len(list((folder / "kept").rglob("*.out"))) <= 2
    run_compiler(["gcc", "-O0", "hello.c", "-o", "b"], folder)
    assert run_program([folder / "b"]).stdout == "1"


VECTORS = "#include <immintrin.h>\nfloat f(__m128 x) { return _mm_cvtss_f32(x) + WHAT; }\n"


def vectors(folder: Path, text: str, *words: str) -> list[str]:
    """How a text with intrinsics would be compiled."""
    (folder / "vectors.c").write_text(text)
    command = ["gcc", "-O1", "-mavx2", *words, "-c", "vectors.c", "-o", "vectors.o"]
    return [str(word) for word in compiling.quick(command, understood(command, folder, None))]


@pytest.fixture
def headers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None are there; they are made when they are asked for."""
    monkeypatch.setattr(precompiled, "FOLDER", folder / "headers")
    monkeypatch.setattr(precompiled, "ASKED", folder / "asked")
    monkeypatch.setattr(precompiled, "BEFORE", 0)


@pytest.mark.usefixtures("headers")
def test_headers_of_intrinsics_are_read_once(folder: Path) -> None:
    """The compiler takes what it made of the header, for one set of flags; the result is the same."""
    text = f"#define WHAT 1\n{VECTORS}"
    command = vectors(folder, text)
    assert command == vectors(folder, text)
    warned = vectors(folder, text, "-Wall")
    assert [word for word in warned if word != "-Wall"] == command
    subprocess.run([*warned, "-Winvalid-pch", "-Werror"], cwd=folder, check=True)
    (made,) = (folder / "headers").iterdir()
    included = subprocess.run([*command, "-H"], cwd=folder, capture_output=True, text=True, check=True).stderr
    assert included.splitlines()[0] == f"! {made / 'first.h.gch'}"
    assert "xmmintrin.h" not in included
    quickly = (folder / "vectors.o").read_bytes()
    subprocess.run(["gcc", "-O1", "-mavx2", "-c", "vectors.c", "-o", "vectors.o"], cwd=folder, check=True)
    assert (folder / "vectors.o").read_bytes() == quickly
    vectors(folder, text, "-ffast-math")
    assert len(list((folder / "headers").iterdir())) == 2
    precompiled.trim(1)
    assert len(list((folder / "headers").iterdir())) == 1


def test_headers_are_made_for_flags_that_come_often(
    folder: Path, headers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompiled, "BEFORE", 2)
    text = f"#define WHAT 1\n{VECTORS}"
    assert ["-include" in vectors(folder, text, more) for more in ("-Wall", "-O2", "-w", "-Wall")] == [
        False, False, False, True,
    ]  # fmt: skip


@pytest.mark.usefixtures("headers")
def test_a_header_that_a_text_could_change_is_read_anew(folder: Path) -> None:
    assert "-include" in vectors(folder, VECTORS, "-DWHAT=2")
    for text in ("#define abs(x) x\n", "#define _GNU_SOURCE\n", "#undef NULL\n", "#define const\n"):
        assert "-include" not in vectors(folder, text + VECTORS)
    assert "-include" not in vectors(folder, VECTORS, "-Dint=long")
    assert "-include" not in vectors(folder, VECTORS.partition("\n")[2])


@pytest.mark.usefixtures("headers")
def test_what_fails_behind_a_precompiled_header_is_compiled_as_it_stands(folder: Path) -> None:
    """A name of the header that the text takes for itself, where it includes the header under a condition."""
    text = f"double abs(double x);\n#ifdef NOTHING\n{VECTORS}#endif\ndouble g(double x) {{ return abs(x); }}\n"
    assert "-include" in vectors(folder, text)
    run_compiler(["gcc", "-O1", "-w", "-fno-builtin", "-mavx2", "-c", "vectors.c", "-o", "vectors.o"], folder)
    assert (folder / "vectors.o").is_file()
