"""Assignments that data decide about are assignments of a choice, where that computes and stores the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.kernels.scalar_text import scalar_text
from polydl.model.expr import AffineValue, Conditional
from polydl.model.scop import Assignment, BlackBox, Statement
from tests.frontend.reading import region

HEAD = "void f(double A[20][30], double B[20], float F[20], int at[20], int s)"
BEFORE = "double m = 0, n = 1; float t = 0; int best = 0, k = 0; long w = 0;"
AFTER = "at[0] = best + k; B[0] = m + n + t + w;"


def inside(folder: Path, body: str) -> list[Statement]:
    """The statements of the one loop with that body."""
    scop = region(folder, f"{BEFORE}\nfor (int i = 0; i < 20; i++) {{ {body} }}\n{AFTER}", HEAD)
    return [s for s in scop.statements if s.iterators]


def shown(statement: Statement) -> str:
    """`target op value`, of arrays the names."""
    body = statement.body
    assert isinstance(body, Assignment)
    return f"{statement.accesses[body.target].array} {body.op} " + scalar_text(
        body.value, lambda access: statement.accesses[access].array
    )


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        ("if (B[i] > m) m = B[i];", ["m = ((B > m) ? B : m)"]),
        ("if (m < B[i]) { m = B[i]; }", ["m = ((m < B) ? B : m)"]),
        ("if (B[i] > 0) m += B[i];", ["m += ((B > 0) ? B : (-0.0))"]),
        ("if (B[i] > 0) t -= F[i];", ["t -= ((B > 0) ? F : 0.0f)"]),
        ("if (B[i] > 0) m *= 2;", ["m *= ((B > 0) ? 2 : 1.0)"]),
        ("if (B[i] > 0) k++;", ["k += ((B > 0) ? 1 : 0)"]),
        (
            "if (at[i]) { if (B[i] > m) m = B[i]; k++; if (F[i] > 0) t += F[i]; }",
            ["m = ((at && (B > m)) ? B : m)", "k += (at ? 1 : 0)", "t += ((at && (F > 0)) ? F : (-0.0f))"],
        ),
        ("if (B[i] > 0) if (F[i] > 0) k |= 4;", ["k |= (((B > 0) && (F > 0)) ? 4 : 0)"]),
        ("if (B[i] > 0) k &= 4;", ["k &= ((B > 0) ? 4 : (-1))"]),
        ("if (B[i] > 0) F[i] = 1; else F[i] = t;", ["F = ((B > 0) ? 1 : t)"]),
        ("if (B[i] > 0) m += 1.5; else { m += B[i]; }", ["m += ((B > 0) ? 1.5 : B)"]),
        ("if (B[i] > 0) k = m;", ["k = ((B > 0) ? m : k)"]),  # a double holds every int
        (
            "if (B[i] > 0) { m += B[i]; n = B[i]; k++; }",
            ["m += ((B > 0) ? B : (-0.0))", "n = ((B > 0) ? B : n)", "k += ((B > 0) ? 1 : 0)"],
        ),
        (
            "if (B[i] > 0) { double d = 2 * B[i]; m += d; }",
            ["d = ((B > 0) ? (2 * B) : 0.0)", "m += ((B > 0) ? d : (-0.0))"],
        ),
        (
            "if (B[i] > 0) { F[i] = 1; m = 2; } else { const float d = t + 1; m = d; F[i] = d * d; }",
            ["d = ((B > 0) ? 0.0f : (t + 1))", "F = ((B > 0) ? 1 : (d * d))", "m = ((B > 0) ? 2 : d)"],
        ),
        (
            "double d; if (B[i] > 0) { d = 2 * B[i]; m += d; n = d; }",
            ["d = ((B > 0) ? (2 * B) : 0.0)", "m += ((B > 0) ? d : (-0.0))", "n = ((B > 0) ? d : n)"],
        ),
        (
            "if (B[i] > m) { n = m; m = B[i]; } else if (B[i] > n) n = B[i];",
            ["n = ((B > m) ? m : ((B > n) ? B : n))", "m = ((B > m) ? B : m)"],
        ),
        (
            "if (B[i] > m) { m = B[i]; k = 3; } else n = m + k;",
            ["n = ((B > m) ? n : (m + k))", "k = ((B > m) ? 3 : k)", "m = ((B > m) ? B : m)"],
        ),
        ("if (B[i] > 0) m = 1; else m += 1;", ["m = ((B > 0) ? 1 : (m + 1))"]),
        (
            "if (B[i] > m) { n = n * (m - B[i]) + 1; m = B[i]; } else n += B[i] - m;",
            ["n = ((B > m) ? ((n * (m - B)) + 1) : (n + (B - m)))", "m = ((B > m) ? B : m)"],
        ),
        ("if (B[i] > 0) m = 1; else n = 1;", ["m = ((B > 0) ? 1 : m)", "n = ((B > 0) ? n : 1)"]),
        (
            "if (B[i] > 0) m = 1; else if (B[i] < -1) m = 2; else n = 3;",
            ["m = ((B > 0) ? 1 : ((B < (-1)) ? 2 : m))", "n = ((B > 0) ? n : ((B < (-1)) ? n : 3))"],
        ),
        (
            "if (B[i] > m) { m = B[i]; n = 1; } else { m = 2; n = 3; }",
            ["n = ((B > m) ? 1 : 3)", "m = ((B > m) ? B : 2)"],
        ),
        (
            "if (B[i] > 0) { m = n; n = 1; } else { m = 2; n = 3; }",
            ["m = ((B > 0) ? n : 2)", "n = ((B > 0) ? 1 : 3)"],
        ),
    ],
)
def test_what_becomes_of_them(body: str, becomes: list[str], tmp_path: Path) -> None:
    assert [shown(s) for s in inside(tmp_path, body)] == becomes


@pytest.mark.parametrize(
    ("target", "value", "kind"),
    [
        ("unsigned long", "unsigned", BlackBox),  # -1 beside it would have 32 ones
        ("unsigned long", "int", Assignment),
        ("long", "int", Assignment),
        ("unsigned", "unsigned", Assignment),
        ("unsigned char", "unsigned char", Assignment),
        ("unsigned", "unsigned long", Assignment),
    ],
)
def test_no_bit_is_cleared_where_none_would_be(target: str, value: str, kind: type, tmp_path: Path) -> None:
    head = f"void f(const {value} x[20], const int w[20], {target} out[1])"
    body = f"{target} u = 7; for (int i = 0; i < 20; i++) if (w[i] > 3) u &= x[i]; out[0] = u;"
    assert [type(s.body) for s in region(tmp_path, body, head).statements if s.iterators] == [kind]


def test_what_the_condition_reads_is_written_last(tmp_path: Path) -> None:
    place, value = inside(tmp_path, "if (B[i] > m) { m = B[i]; best = i; }")
    assert isinstance(place.body, Assignment) and isinstance(place.body.value, Conditional)
    assert isinstance(place.body.value.then, AffineValue)
    assert shown(value) == "m = ((B > m) ? B : m)"


@pytest.mark.parametrize(
    "body",
    [
        "if (B[i] > 0) B[i] = 0;",  # a store where nothing was stored
        "if (B[i] > m) { m = B[i]; n = m; }",  # the condition reads what the second assignment needs
        "if (B[i] > m + n) { m = B[i]; n = 2; }",
        "if (B[i] > 0) w = m;",  # as a double on the way, a long would not come back as it was
        "if (B[i] > 0) t /= 2;",
        "if (B[i] > 0) at[i] = at[0]; else at[i] = F[i];",  # at[0] would become a float on the way
        "if (B[i] > 0) k += F[i];",  # an int is no float
        "if (B[i] > 0) { double d = B[i]; F[i] = d; }",  # a store where nothing was stored
        "if (B[i] > 0) { B[i] = 1; double d = B[i]; m += d; } else { B[i] = 2; m += 1; }",  # d reads what was stored
        "if (B[i] > 0) { int d = at[i]; m += d; }",  # an integer may be a subscript
        "if (B[i] > 0) { double d = B[i]; while (d > 1) d /= 2; m += d; }",
    ],
)
def test_what_stays_as_it_is(body: str, tmp_path: Path) -> None:
    assert [type(s.body) for s in inside(tmp_path, body)] == [BlackBox]


def bodies(folder: Path, code: str) -> list[type]:
    return [type(s.body) for s in region(folder, code, HEAD).statements]


def test_elements_that_are_stored_to_anyway(tmp_path: Path) -> None:
    """Storing there once more is seen by nobody; elsewhere it may be."""
    cleared = "for (int i = 0; i < 20; i++) F[i] = 1;\n"
    assert bodies(tmp_path, cleared + "for (int i = 0; i < 20; i++) if (B[i] > 0) F[i] += 2;") == [Assignment] * 2
    assert bodies(tmp_path, cleared + "for (int i = 0; i < 19; i++) if (B[i] > F[i]) F[i] = B[i];") == [Assignment] * 2
    most = cleared.replace("i = 0", "i = 1")
    assert bodies(tmp_path, most + "for (int i = 0; i < 20; i++) if (B[i] > 0) F[i] += 2;") == [Assignment, BlackBox]
    perhaps = "for (int i = 0; i < 20; i++) if (B[i] > 1) F[i] = 1;\n"
    assert bodies(tmp_path, perhaps + "for (int i = 0; i < 20; i++) if (B[i] > 0) F[i] += 2;") == [BlackBox] * 2
    beyond = "for (int i = 0; i < 20; i++) { F[i] = 1; if (at[i]) F[i + 1] = 2; }"  # at[19] is 0
    assert bodies(tmp_path, beyond) == [Assignment, BlackBox]


def test_globals_belong_to_others_too(tmp_path: Path) -> None:
    head = "static double total;\n" + HEAD
    (found,) = region(tmp_path, "for (int i = 0; i < 20; i++) if (B[i] > 0) total += B[i];", head).statements
    assert isinstance(found.body, BlackBox)


@pytest.mark.parametrize(("last", "kept"), [("", True), ("else y[i] = x[i];", False)])
def test_a_chain_that_may_store_nothing_stays(last: str, kept: bool) -> None:
    """Others may own the elements that no arm of a chain stores to."""
    text = f"""void f(float y[restrict 9], const float x[restrict 9])
{{
    for (int i = 0; i < 9; i++) {{
        if (x[i] > 1) y[i] = 1; else if (x[i] < 0) y[i] = 0; {last}
    }}
}}
"""
    (statement,) = polydl.load(text).scops[0].statements
    assert isinstance(statement.body, BlackBox) == kept
