"""What notebooks show: escaped, small, without colours of its own."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import polydl
from polydl.base import html

MATMUL = Path(__file__).parent.parent.parent / "examples" / "matmul.c"
ALLOWED = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary"}


class Checker(HTMLParser):
    """Every tag closed in order, and none that runs or loads anything."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED and {name for name, _ in attrs} <= {"style", "class"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words(value: object) -> str:
    """The text of an object's HTML, checked."""
    text = value._repr_html_()  # type: ignore[attr-defined]
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert not re.search(r"background:(?!none)|(?<![-\w])color:(?!inherit)", text), "a theme's colours are kept"
    return " ".join(checker.words)


@pytest.fixture(scope="module")
def program() -> polydl.Program:
    return polydl.load(MATMUL, defines={"M": 32, "N": 32, "K": 32})


def test_program_scop_and_dependence(program: polydl.Program) -> None:
    assert "matmul" in words(program)
    shown = words(program.scops[0])
    assert "float" in shown and "[32][32]" in shown and "S0[i, j, k]" in shown
    dependence = polydl.dependences(program.scops[0])[0]
    assert f"{dependence.kind.value} {dependence.array}" in words(dependence)


def test_parametric_extents_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text("void f(int n, float x[2 * n]) {\n for (int i = 0; i < n; i++) x[i] = 1;\n}\n")
    assert "[(2n)]" in words(polydl.load(path, require_sizes=False).scops[0])


def test_ranking_variant_and_machine(program: polydl.Program) -> None:
    table = polydl.rank(program.scops[0], "default", "epyc-zen5", threads=2)
    shown = words(table)
    assert table[0].id in shown and f"… {len(table) - html.ROWS} more" in shown and table[html.ROWS].id not in shown
    assert "memory_seconds" in words(table[0]) and table[0].loops in words(table[0])
    assert table.machine.name in words(table.machine) and "L2" in words(table.machine)


def test_what_a_terminal_shows_is_short(program: polydl.Program, tmp_path: Path) -> None:
    table = polydl.rank(program.scops[0], "default", "epyc-zen5", threads=2)
    lines = repr(table).splitlines()
    assert len(lines) == 12 and table[0].id in lines[1] and lines[-1] == f"… {len(table) - 10} more"
    assert repr(table[:2]).count("\n") == 2
    assert re.match(rf"<variant {table[0].id}, [\d.]+ (ms|µs) predicted: ", repr(table[0]))
    assert repr(program) == f"<program {MATMUL}: matmul (line 14)>"
    assert repr(program.scops[0]) == f"<scop matmul ({MATMUL}:14:1): S0>"
    result = polydl.optimize(MATMUL, tmp_path / "out.c", run=False, machine="epyc-zen5", space="small")
    assert repr(result) == f"<optimized: {tmp_path / 'out.c'}: matmul not measured>"


def test_an_optimized_file(tmp_path: Path) -> None:
    result = polydl.optimize(MATMUL, tmp_path / "out.c", run=False, machine="epyc-zen5", space="small")
    assert "ranked, nothing was run" in words(result) and "void matmul(" in words(result)


def test_a_kernel(tmp_path: Path) -> None:
    text = "void f(float y[8])\n{\n    for (int i = 0; i < 8; i++)\n        y[i] = i < 4 ? 1 : 2;\n}\n"
    shown = words(polydl.compile(text, optimize=False))
    assert "f(y: float[8])" in shown and "i < 4" in shown


def test_everything_is_escaped() -> None:
    nasty = '<script>alert("&")</script>'

    class Thing:
        def _repr_html_(self) -> str:
            return html.block(
                nasty, html.line(nasty), html.code(nasty), html.code(nasty, nasty), html.facts({nasty: nasty}),
                html.table((nasty,), [(nasty,), (None,), (0.123456789,), (7,)], total=9),
            )  # fmt: skip

    shown = words(Thing())
    assert shown.count(nasty) == 9 and "0.1235" in shown and "… 5 more" in shown
