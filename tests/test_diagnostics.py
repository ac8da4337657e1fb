"""`--format`: the diagnostics of a run as editors and other tools read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from polydl.base.errors import Span
from polydl.cli.diagnostics import Diagnostic, Level, gcc, of_document, sarif
from tests.cli.running import PRESET, polydl

TWO_ERRORS = """void f(int n, const int *restrict p, double A[restrict 10][10])
{ int k = 0;
#pragma scop
    for (int i = 0; i < 10; i++) {
        A[i][k] = 1; k += p[i];
        A[i][i * i] = 2;
    }
#pragma endscop
}
"""
GOOD = """void f(float x[64], float y[64])
{
#pragma scop
    for (int i = 0; i < 64; i++)
        x[i] += y[i];
#pragma endscop
}
"""
_GCC = re.compile(r"(?:polydl|[^:\n]+:\d+:\d+): (?:error|warning|note): \S.*\Z")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "two.c").write_text(TWO_ERRORS)
    (tmp_path / "good.c").write_text(GOOD)
    return tmp_path


def checked(text: str) -> dict[str, Any]:
    """A SARIF log: what the standard requires of the parts that are used (sections 3.13 to 3.30)."""
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    assert set(run) <= {"tool", "invocations", "columnKind", "results"}
    driver = run["tool"]["driver"]
    assert driver["name"] == "polydl"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        assert all(isinstance(a, str) for a in invocation["arguments"])
    for result in run["results"]:
        assert set(result) <= {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in result.get("locations", []):
            place = location["physicalLocation"]
            assert re.fullmatch(r"[\w./~%:@!$&'()*+,;=-]+", place["artifactLocation"]["uri"])
            region = place["region"]
            assert region["startLine"] >= 1
            assert region.get("endColumn", region["startColumn"] + 1) > region["startColumn"] >= 1
    return dict(run)


def test_every_error_is_a_line_as_gcc_writes_it(folder: Path) -> None:
    for command in ("analyze", "optimize"):
        outcome = polydl(folder, command, "two.c", "--format", "gcc")
        assert outcome.code == 2
        assert outcome.stdout == ""
        lines = outcome.stderr.splitlines()
        assert all(_GCC.match(line) for line in lines), lines
        errors = [line.partition(": error: ")[0] for line in lines if ": error: " in line]
        assert errors == ["two.c:5:14", "two.c:6:9"]


def test_every_error_is_a_result_of_the_sarif_log(folder: Path) -> None:
    outcome = polydl(folder, "optimize", "two.c", "--format", "sarif")
    assert outcome.code == 2
    assert outcome.stderr == ""
    run = checked(outcome.stdout)
    assert run["invocations"][0]["exitCode"] == 2
    assert not run["invocations"][0]["executionSuccessful"]
    places = [r["locations"][0]["physicalLocation"]["region"] for r in run["results"]]
    assert [(p["startLine"], p["startColumn"], p["endColumn"]) for p in places] == [(5, 14, 15), (6, 9, 20)]
    assert all(r["level"] == "error" for r in run["results"])
    assert "depends on data" in run["results"][0]["message"]["text"]
    rules = {rule["id"]: rule["help"]["markdown"] for rule in run["tool"]["driver"]["rules"]}
    assert list(rules) == ["depends-on-data", "not-affine"]
    assert all("```c" in text for text in rules.values())


def test_what_was_decided_is_a_note(folder: Path) -> None:
    outcome = polydl(folder, "optimize", "good.c", "--no-run", "-o", "out.c", "--format", "sarif", *PRESET)
    assert outcome.code == 0
    assert "wrote out.c" in outcome.stderr, "people's output is elsewhere"
    run = checked(outcome.stdout)
    assert run["invocations"][0]["executionSuccessful"]
    rules = {r["ruleId"]: r for r in run["results"]}
    assert rules["optimized"]["locations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert "do not overlap" in rules["asked"]["message"]["text"]
    assert {r["level"] for r in run["results"]} == {"note"}
    text = polydl(folder, "analyze", "good.c", "--format", "gcc", *PRESET[:2])
    assert "good.c:3:1: note: f: parallel loops: i\n" in text.stderr
    assert "dependences" in text.stdout


def test_a_measured_run_says_what_became_of_it_also_when_kept(folder: Path) -> None:
    own = {"POLYDL_CACHE": str(folder / "kept")}
    for _ in range(2):
        outcome = polydl(
            folder, "optimize", "good.c", "--threads", "1", "--top-k", "1", "--format", "gcc", timeout=600, **own
        )
        assert outcome.code == 0, outcome.stderr
        assert re.search(
            r"good\.c:3:1: note: f: (variant \w+ (is|was) .* (faster|estimate)|not optimized: )", outcome.stderr
        )


def test_warnings_are_diagnostics_too(folder: Path) -> None:
    entries = [{"directory": ".", "file": "good.c", "command": f"cc -D{name}"} for name in "AB"]
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    arguments = ("analyze", "good.c", "--compile-commands", ".", "--machine", "epyc-zen5")
    own = {"PYTHONWARNINGS": "default"}
    run = checked(polydl(folder, *arguments, "--format", "sarif", **own).stdout)
    assert [r["ruleId"] for r in run["results"] if r["level"] == "warning"] == ["UserWarning"]
    assert (
        "polydl: warning: compile_commands.json compiles" in polydl(folder, *arguments, "--format", "gcc", **own).stderr
    )


def test_one_document_only(folder: Path) -> None:
    outcome = polydl(folder, "rank", "good.c", "--format", "sarif", "--json")
    assert (outcome.code, outcome.stdout) == (2, "")
    assert "both want standard output" in outcome.stderr


def test_names_of_files_are_uris() -> None:
    names = ["a b/ü#.c", "/abs/x%.c", "./x.c", os_name := b"\xff.c".decode("utf-8", "surrogateescape")]
    log = sarif([Diagnostic(Level.ERROR, "x", "y", Span(name, 1, 1)) for name in names], 2, [])
    results = checked(json.dumps(log))["results"]
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results]
    assert uris == ["a%20b/%C3%BC%23.c", "file:///abs/x%25.c", "x.c", "%FF.c"]
    assert os_name not in uris


def test_a_message_of_several_lines_is_one_line_for_gcc() -> None:
    text = gcc([Diagnostic(Level.ERROR, "x", "one\n  two", None, "three\nfour")])
    assert text == "polydl: error: one two\npolydl: note: three four\n"


def test_variants_that_failed_are_warnings() -> None:
    scop = {
        "function": "f", "line": 3, "chosen": "original", "speedup": 1.0, "illegal": ["v2: RAW dependence on A"],
        "variants": [{"id": "v1", "verified": False, "status": "wrong", "message": "A[1]\nis 2"}],
    }  # fmt: skip
    found = of_document(scop, Path("x.c"))
    assert [(d.level, d.rule) for d in found] == [
        (Level.NOTE, "not-optimized"), (Level.WARNING, "dropped"), (Level.NOTE, "illegal"),
    ]  # fmt: skip
    assert found[1].reason == "f: variant v1 wrong: A[1] is 2"
    assert {str(d.span) for d in found} == {"x.c:3:1"}
