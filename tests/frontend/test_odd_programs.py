"""odd_programs.c: each of its functions is read, or one message says why not, and outputs compute what it computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.frontend import load
from polydl.frontend.program import Program
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import rank
from tests.compiling import run_compiler, run_program

FILE = Path(__file__).parent / "odd_programs.c"
READ = (
    "heads", "old", "attributes", "unions", "vla", "longs", "complexes", "fields", "helpers", "openmp", "wraps",
    "sizes", "strides", "lookups", "early", "asserts", "volatiles", "jumps", "scopes",
)  # fmt: skip
SAID = {
    "plus": "a macro makes this loop",
    "times": "a macro makes this loop",
    "(unsigned)n": "the value may be negative where 'unsigned int' is expected",
    "return i": "'return' leaves the scop early",
    "seen += i": "'seen' is volatile",
}
"""What stands where a message points to, and how this begins; nothing else is said."""


@pytest.fixture(scope="module")
def program() -> Program:
    return load(FILE, require_sizes=False)


def test_each_function_is_read(program: Program) -> None:
    assert {one.function for one in program.scops} >= set(READ)
    assert all(one.statements[0].depth for one in program.scops)


def test_what_is_not_read_is_said_once(program: Program) -> None:
    lines = FILE.read_text().splitlines()
    assert len(program.unread) == len(SAID)
    for one, (place, said) in zip(program.unread, SAID.items(), strict=True):
        assert one.span is not None and one.hint
        assert place in lines[one.span.line - 1] and said in one.reason, one


def test_ends_of_lines_make_no_difference(tmp_path: Path, program: Program) -> None:
    (tmp_path / "crlf.c").write_bytes(FILE.read_bytes().replace(b"\n", b"\r\n"))
    other = load(tmp_path / "crlf.c", require_sizes=False)
    assert [str(s.domain) for one in other.scops for s in one.statements] == [
        str(s.domain) for one in program.scops for s in one.statements
    ]


def test_outputs_compute_the_same(tmp_path: Path) -> None:
    found = load(FILE, sizes={"n": 64, "m": 64, "a": 1, "b": 4})
    made = [rank(one, options=Options(space="small"))[0].generated for one in found.scops]
    texts = (FILE.read_text(), splice(found.source, [*zip(found.scops, made, strict=True)], ""))
    printed = set()
    for text in texts:
        (tmp_path / "run.c").write_text(text)
        names = (str(tmp_path / "run"), str(tmp_path / "run.c"))
        run_compiler(["cc", "-O1", "-march=native", "-fopenmp", "-w", "-o", *names, "-lm"])
        printed.add(run_program([tmp_path / "run"]).stdout)
    assert len(printed) == 1, printed
