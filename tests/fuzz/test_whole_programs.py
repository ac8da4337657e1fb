"""The generator of C programs, what calls them, and what makes them small; `make fuzz` looks for new programs."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from polydl.frontend.meaning import values
from polydl.model.expr import Binary
from tests.fuzz.bounds import Poly
from tests.fuzz.calls import SECONDS, Case, verdicts
from tests.fuzz.campaign import Tally, batch, smallest
from tests.fuzz.choices import Choices, shrunk
from tests.fuzz.features import STATEMENTS
from tests.fuzz.interpreted import interpreted
from tests.fuzz.nests import NESTS
from tests.fuzz.parts import Array, Program
from tests.fuzz.reduction import reduced
from tests.fuzz.values import INT
from tests.fuzz.whole_programs import program
from tests.fuzz.written import REFERENCE, WRITTEN, Text, cases_of, compiled

ANY = Text("the original", "", {})


def made(seed: int) -> Program:
    return program(random.Random(seed))[0]


def test_a_seed_determines_a_program_and_so_do_its_choices() -> None:
    for seed in range(60):
        one, choices = program(random.Random(seed))
        assert one == made(seed)
        assert program(choices)[0] == one


def test_every_feature_is_made() -> None:
    found = {feature for seed in range(400) for feature in made(seed).features}
    assert found == STATEMENTS.keys() | NESTS.keys()


def test_any_numbers_are_a_program() -> None:
    rng = random.Random(1)
    for _ in range(100):
        assert program([rng.randrange(50) for _ in range(rng.randrange(60))])[0].text.count("f@(") == 1


def test_programs_are_free_of_undefined_behaviour(tmp_path: Path) -> None:
    """What the sanitizer sees: 30 programs in one file, each beside itself with other flags."""
    seeds = range(30)
    library = tmp_path / "original.so"
    assert compiled([made(seed).called(f"_{seed}") for seed in seeds], REFERENCE, library) == ""
    plain = tmp_path / "plain.so"
    assert compiled([made(seed).called(f"_{seed}") for seed in seeds], WRITTEN, plain) == ""
    for seed in seeds:
        cases = cases_of(made(seed), ANY, seed, 6)
        found = verdicts(made(seed), library, plain, (f"f_{seed}", f"f_{seed}"), cases)
        assert [one.kind for one in found] == ["equal"] * 6, (seed, found[-1], made(seed).text)


def test_programs_are_defined_to_the_interpreter_of_c() -> None:
    """It sees what the sanitizer doesn't: values that were never set, rows that end inside of an array."""
    for seed in range(25):
        for case in cases_of(made(seed), ANY, seed, 3):
            if all(value < 6 for value in case.sizes.values()):
                interpreted(made(seed), case)


def _of_text(text: str, arrays: Sequence[Any] = ()) -> Program:
    return Program(text, (), tuple(arrays), None, False, ("store", "store"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("", "equal"),
        ("a[3] = a[3] + 1;", "different"),
        ("a[8] = 1;", "crash"),
        ("for (;;) a[0] = a[1];", "hang"),
    ],
)
def test_what_becomes_of_a_call(body: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.calls.SECONDS", 1)
    assert SECONDS > 1
    array = Array("a", INT, [Poly.of(8)], (-9, 9), (-9, 9))
    one = _of_text("void f@(int *a) { }\n", [array])
    reference, written = tmp_path / "r.so", tmp_path / "w.so"
    assert compiled([one.called("_1")], REFERENCE, reference) == ""
    text = f"void f_1(int *b) {{ volatile int *a = b; {body} (void)a; }}\n"
    assert compiled([text], WRITTEN, written) == ""
    cases = [Case({}, "plain", 1, 3), Case({}, "extreme", 2, 1)]
    assert verdicts(one, reference, written, ("f_1", "f_1"), cases)[-1].kind == kind


def test_undefined_behaviour_is_no_difference(tmp_path: Path) -> None:
    text = "int f@(void) { volatile int x = 2147483647; return x + 1; }\n"
    one = _of_text(text)
    library = tmp_path / "r.so"
    assert compiled([one.called("_1")], REFERENCE, library) == ""
    assert verdicts(one, library, library, ("f_1", "f_1"), [Case({}, "plain", 1, 1)])[0].kind == "undefined"


def test_shrinking_finds_the_shortest_list() -> None:
    rng = random.Random(3)
    start = [rng.randrange(100) for _ in range(60)]
    start[40] = 77
    assert (
        shrunk(start, lambda one: any(x >= 50 for x in one), 10) == [50]
        or len(shrunk(start, lambda one: any(x >= 50 for x in one), 10)) == 1
    )
    assert Choices([5, 1]).below(3) == 2


def test_texts_lose_what_is_not_needed() -> None:
    text = "void f(int *a)\n{\n    a[0] = 1;\n    if (a[1]) {\n        a[2] = 2;\n        a[3] = 3;\n    }\n}\n"
    done = reduced(text, lambda one: "a[3]" in one and one.count("{") == one.count("}") > 0, 5).splitlines()
    assert len(done) == 3 and done[1].strip() == "a[3] = 3;"


def test_a_planted_fault_is_found_and_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`>` read as `>=`."""
    if shutil.which("gcc") is None:
        pytest.skip("the originals are compiled by gcc, with its sanitizer")

    def changed(op: str, left: Any, right: Any) -> Binary:
        return Binary(">=" if op == ">" else op, left, right)

    monkeypatch.setattr(values, "Binary", changed)
    without = ("alias", "counter", "hashed", "changing_helper")
    for seed in range(304, 340):  # the first of them shows it today
        wrong = [fault for _, fault in batch([seed], tmp_path, Tally(), without) if fault.kind == "different"]
        if wrong:
            break
    found = smallest(seed, wrong[0], tmp_path, 25, without)
    assert found.fault.kind == "different"
    assert found.lines < 30, found.text
    assert ">" in found.text
    words = ["gcc", "-fsyntax-only", "-w", "-xc", "-"]
    assert subprocess.run(words, input=found.text, text=True, check=False).returncode == 0
