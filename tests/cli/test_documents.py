"""The documents of --json, the Python API, the tables, the help."""

from __future__ import annotations

import fcntl
import inspect
import json
import math
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

import polydl as package
from polydl.base.errors import InputError, InputErrors
from tests.cli.running import EXAMPLES, PRESET, REJECT, environment, polydl

SMALL = {"M": 30, "N": 10, "K": 20}
DEFINES = [part for name, value in SMALL.items() for part in ("-D", f"{name}={value}")]
MATMUL = EXAMPLES / "matmul.c"


def document(folder: Path, *arguments: str | Path) -> Any:
    """The document of a command; all of its numbers are finite."""
    outcome = polydl(folder, *arguments, "--json")
    assert outcome.code == 0, outcome.stderr
    return json.loads(outcome.stdout, parse_constant=lambda word: pytest.fail(f"not JSON: {word}"))


def test_rank(tmp_path: Path) -> None:
    found = document(tmp_path, "rank", MATMUL, *DEFINES, *PRESET)
    assert {"sizes", "machine", "ranker", "space_size", "pruned", "variants", "seconds"} <= set(found)
    assert found["sizes"] == SMALL
    assert found["ranker"] == "traffic"
    scores = [v["score"] for v in found["variants"]]
    assert len(scores) == found["space_size"] > 5
    assert scores == sorted(scores)
    assert len({v["id"] for v in found["variants"]}) == len(scores)
    for variant in found["variants"]:
        assert {"id", "recipe", "loops", "score", "features"} <= set(variant)
        assert all(isinstance(v, (int, float)) and math.isfinite(v) for v in variant["features"].values())


def test_analyze(tmp_path: Path) -> None:
    """The figures of the paper for M=300 N=100 K=200."""
    (scop,) = document(tmp_path, "analyze", MATMUL, "--machine", "xeon-8280")["scops"]
    keys = {"function", "file", "line", "parameters", "arrays", "statements", "dependences", "parallel_loops"}
    assert keys | {"working_sets"} <= set(scop)
    assert (scop["function"], scop["line"], scop["parallel_loops"]) == ("matmul", 14, ["i", "j"])
    (statement,) = scop["statements"]
    assert {"name", "domain", "schedule", "reads", "writes"} <= set(statement)
    assert all({"kind", "array", "map", "carried_by"} <= set(d) for d in scop["dependences"])
    sets = {(w["array"], w["carried_by"]): (w["min"], w["max"]) for w in scop["working_sets"]}
    assert sets == {("C", "k"): (5, 401), ("A", "j"): (403, 20101), ("B", "i"): (20302, 109702)}
    assert [(n["name"], n["statements"], n["loops"]) for n in scop["nests"]] == [("S0", ["S0"], ["i", "j", "k"])]
    assert [(e["producer"], e["consumer"], e["array"], e["bytes"]) for e in scop["flow"]] == [
        (None, "S0", "A", 4 * 300 * 200), (None, "S0", "B", 4 * 200 * 100)
    ]  # fmt: skip
    levels = {"L1", "L2", "L3", "memory"}
    assert all({w["level_min"], w["level_max"]} <= levels for w in scop["working_sets"])


def test_analyze_without_sizes(tmp_path: Path) -> None:
    (scop,) = document(tmp_path, "analyze", EXAMPLES / "matmul_vla.c")["scops"]
    assert set(scop["parameters"]) == {"M", "N", "K"}
    assert all(isinstance(w["max"], str) for w in scop["working_sets"])


def test_machine(tmp_path: Path) -> None:
    found = document(tmp_path, "machine", "--machine", "epyc-zen4")
    assert found["caches"][0]["bytes"] == 32768
    assert polydl(tmp_path, "machine").code == 0


def test_optimize_without_running(tmp_path: Path) -> None:
    found = document(tmp_path, "optimize", MATMUL, "-o", "out.c", "--no-run", *DEFINES, *PRESET)
    assert found["output"] == "out.c"
    assert (found["speedup"], found["variants"]) == (None, [])
    nothing = document(tmp_path, "optimize", MATMUL, "--no-run", *DEFINES, *PRESET)
    assert nothing["output"] is None
    assert [p.name for p in tmp_path.iterdir()] == ["out.c"]


# ---------------------------------------------------------------- Python


def test_api_load() -> None:
    program = package.load(MATMUL, defines={"M": 30})
    assert [s.function for s in program.scops] == ["matmul"]
    assert program.scops[0].sizes["M"] == 30
    with pytest.raises(InputErrors) as caught:
        package.load(REJECT / "jumps.c")
    assert all(e.span is not None and e.hint for e in caught.value.errors)


def test_api_rank() -> None:
    ranking = package.rank(MATMUL, defines=SMALL, machine="epyc-zen5", threads=2)
    assert len(ranking) == ranking.space_size
    best, *_ = ranking
    assert best.score == min(v.score for v in ranking)
    (scop,) = package.load(MATMUL, defines=SMALL).scops
    again = package.rank(scop, machine="epyc-zen5", threads=2)
    assert [v.id for v in again] == [v.id for v in ranking]


def test_api_optimize_without_running(tmp_path: Path) -> None:
    result = package.optimize(MATMUL, defines=SMALL, machine="epyc-zen5", run=False)
    assert result.output is None
    assert "void matmul(" in result.text
    assert math.isnan(result.speedup)
    with pytest.raises(InputError, match="no folder"):
        package.optimize(MATMUL, tmp_path / "nosuch" / "out.c", defines=SMALL, run=False)


@pytest.mark.parametrize("function", ["load", "rank", "optimize"])
def test_api_unknown_keyword(function: str) -> None:
    with pytest.raises(TypeError, match=r"there is no option 'treads'; did you mean 'threads'\?"):
        getattr(package, function)(MATMUL, treads=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"top_k": 0}, InputError, "top_k is 0"),
        ({"threads": 0}, InputError, "threads is 0"),
        ({"seed": -1}, InputError, "seed is -1"),
        ({"timeout": math.nan}, InputError, "timeout is nan"),
        ({"cflags": "-O2 -g"}, TypeError, "cflags is a sequence of strings"),
        ({"include_dirs": "include"}, TypeError, "include_dirs is a sequence"),
        ({"machine": "epyc"}, InputError, "no preset called 'epyc'"),
        ({"ranker": "trafic"}, InputError, "did you mean 'traffic'?"),
    ],
)
def test_api_bad_values(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        package.rank(MATMUL, **options)


def test_api_is_documented_and_typed() -> None:
    from polydl.pipeline import load, optimize, rank

    for function in (load, rank, optimize):
        assert "Raises" in (function.__doc__ or "")
        assert all(p.annotation is not p.empty for p in inspect.signature(function).parameters.values())


# ---------------------------------------------------------------- people


def terminal(folder: Path, columns: int, *arguments: str | Path) -> str:
    """What a command shows on a terminal."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    variables = environment(TERM="xterm-256color")
    del variables["COLUMNS"]
    process = subprocess.Popen(
        [sys.executable, "-m", "polydl", *arguments],
        cwd=folder, env=variables, stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    assert process.wait() == 0, shown
    return shown.decode()


@pytest.mark.few_sizes
@pytest.mark.parametrize("columns", [80, 160])
def test_tables_fit(tmp_path: Path, columns: int) -> None:
    """Every line fits, every loop is whole, and what the progress bar drew is gone."""
    shown = terminal(tmp_path, columns, "rank", MATMUL, "-D", "M=1024", "-D", "N=1024", "-D", "K=1024", *PRESET)
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h"), "the cursor is back"
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.split("\x1b[2K")[-1]).replace("\r\n", "\n")
    table = [line for line in text.split("\n") if "variants ranked" not in line and "not tried:" not in line]
    assert max(map(len, table)) <= columns
    assert "…" not in text
    best = package.rank(MATMUL, defines=dict.fromkeys("MNK", 1024), machine="epyc-zen5", threads=2).variants[0]
    assert best.id in text


def test_no_colours_in_a_pipe(tmp_path: Path) -> None:
    for arguments in (["rank", MATMUL, *PRESET], ["analyze", MATMUL], ["machine"], ["--help"]):
        outcome = polydl(tmp_path, *arguments)
        assert outcome.code == 0
        assert "\x1b" not in outcome.stdout + outcome.stderr
        assert outcome.stderr == ""


def test_closed_pipe(tmp_path: Path) -> None:
    """`polydl rank … | head -1` ends without a word."""
    command = [sys.executable, "-m", "polydl", "rank", str(MATMUL), "--top", "1000", "--json"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == b"{\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


def test_help_is_quick() -> None:
    """What takes long to import is not imported to print the help."""
    program = (
        "import sys; from polydl.cli import main; sys.argv = ['polydl', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment())
    assert "optimize" in ran.stdout
    imported = set(ran.stderr.split())
    assert "polydl.cli.app" in imported
    assert not imported & {"numpy", "islpy", "torch", "pycparser", "jinja2", "sqlite3", "sympy", "networkx"}
    assert not {name for name in imported if name.startswith(("polydl.frontend", "polydl.model", "polydl.search"))}
