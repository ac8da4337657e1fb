"""Which values of a scalar are scalars of their own."""

from __future__ import annotations

import re
from pathlib import Path

from polydl import load
from polydl.equations.step import applied
from polydl.model.scop import BlackBox, Scop
from polydl.rewrite.storage import RENAMED, split_live_ranges

HEAD = "void f(const float in[restrict 20][30], float out[restrict 20][30])\n{\n  float w, v;\n#pragma scop\n"


def apart(tmp_path: Path, body: str) -> Scop:
    path = tmp_path / "k.c"
    path.write_text(f"{HEAD}{body}\n#pragma endscop\n}}\n")
    (scop,) = load(path).scops
    steps = list(split_live_ranges(scop))
    assert all(step.broken() is None for step in steps)
    return applied(scop, steps)


def renamed(made: Scop) -> list[tuple[str, str]]:
    """(statement, own scalar) of the statements that touch one."""
    return sorted({(s.name, a.array) for s in made.statements for a in s.accesses if a.array.startswith(RENAMED)})


def test_one_nest_after_the_other(tmp_path: Path) -> None:
    nest = "for (int i = 0; i < 20; i++) { w = in[i][0]; out[i][0] += w * w; }\n"
    assert renamed(apart(tmp_path, nest + nest)) == [("S2", f"{RENAMED}w_2"), ("S3", f"{RENAMED}w_2")]


def test_a_value_that_comes_round_is_the_same_scalar(tmp_path: Path) -> None:
    """A recursive filter: `w = v` is a plain write whose value the next iteration reads before it."""
    filters = (
        "for (int i = 0; i < 20; i++) {\n  w = 0; v = 0;\n"
        "  for (int j = 0; j < 30; j++) { out[i][j] = in[i][j] + 0.5f * w; w = v; v = out[i][j]; }\n}\n"
    )
    assert renamed(apart(tmp_path, filters)) == []
    twice = apart(tmp_path, filters + filters)
    own = {name for name, _ in renamed(twice)}
    assert own == {"S5", "S6", "S7", "S8", "S9"}, "the second filter as a whole, and nothing of the first"


def test_what_is_private_already_stays(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 20; i++) { w = in[i][0]; out[i][0] = w; w = in[i][1]; out[i][1] = w; }\n"
    assert renamed(apart(tmp_path, body)) == []


def test_code_that_is_kept_as_text_names_the_own_scalar(tmp_path: Path) -> None:
    nest = "for (int i = 0; i < 20; i++) { w = in[i][0]; if (out[i][0] > w) out[i][0] = w + in[i][1]; }\n"
    made = apart(tmp_path, nest + nest)
    assert renamed(made) == [("S2", f"{RENAMED}w_2"), ("S3", f"{RENAMED}w_2")]
    first, second = (s.body for s in made.statements if isinstance(s.body, BlackBox))
    assert "w" in first.text
    assert RENAMED not in first.text
    assert second.text == re.sub(r"\bw\b", f"{RENAMED}w_2", first.text)
