"""Which write each read sees: of traces written by hand."""

from __future__ import annotations

import pytest

from polydl.oracle.traces import Access, Found, first_difference


def trace(text: str) -> list[Access[object]]:
    """`w a0=1` writes 1 to byte 0 of object a; `r` reads, `o` reads what the same instance writes."""
    found: list[Access[object]] = []
    for number, part in enumerate(filter(None, text.split("; "))):
        kind, rest = part.split()
        place, value = rest.split("=")
        data = bytes((int(value),))
        found.append(Access("ab".index(place[0]), int(place[1:]), data, kind == "w", number, kind == "o"))
    return found


def difference(source: str, scop: str, *, dead: str = "") -> Found | None:
    return first_difference(trace(source), trace(scop), checked=lambda obj: "ab"[obj] not in dead)


@pytest.mark.parametrize(
    ("source", "scop"),
    [
        ("r a0=1; w a0=2; r a0=2; w a1=3", "r a0=1; w a0=2; r a0=2; w a1=3"),
        # reads are left out, or made once more
        ("r a0=1; r a0=1; w a1=3", "w a1=3"),
        ("r a0=1; w a1=3", "r a0=1; r a0=1; w a1=3"),
        # a sum in its element, and in a variable
        ("r b0=1; r b1=2; w a0=3", "w a0=0; r b0=1; o a0=0; w a0=1; r b1=2; o a0=1; w a0=3"),
        ("w a0=0; r b0=1; r a0=0; w a0=1; r a0=1; w a0=3", "r b0=1; w a0=3"),
        # a condition that becomes a value
        ("r b0=0; r a0=7", "r b0=0; o a0=7; w a0=7"),
        ("r b0=0; w a0=5; w a0=6", "r b0=0; w a0=6"),
    ],
)
def test_what_a_front_end_may_change(source: str, scop: str) -> None:
    assert difference(source, scop) is None


@pytest.mark.parametrize(
    ("source", "scop", "kind"),
    [
        ("r a0=1; w a0=1", "w a0=1; r a0=1", "which write"),  # the same value, but of another write
        ("w a0=1; w a0=1; r a0=1", "w a0=1; r a0=1; w a0=1", "which write"),
        ("r b0=1; w a0=3; r a0=3", "r b0=1; w a0=0; r a0=0; w a0=3", "which write"),
        ("w a0=1; w a0=2", "w a0=2; w a0=1", "value"),
        ("w a0=1; w a0=2", "w a0=1", "value"),
        ("w a0=1", "w a1=1", "not touched"),
        ("w a0=1", "", "not written"),
        ("r a0=1; w b0=1", "r a1=1; w b0=1", "not touched"),
        ("r a0=1; w b0=1", "r a0=1; w a0=2; w b0=1", "value"),
    ],
)
def test_what_it_may_not(source: str, scop: str, kind: str) -> None:
    found = difference(source, scop)
    assert found is not None
    assert found.kind == kind


def test_what_nobody_reads_later_may_differ() -> None:
    assert difference("w a0=1; w a0=2; w b0=1", "w a0=9; w b0=1", dead="a") is None
    assert difference("w a0=1; w b0=1", "w b0=1", dead="a") is None


def test_the_first_difference_says_where() -> None:
    found = difference("r a0=1; w a0=4; w a1=5", "r a0=1; w a0=4; w a1=6; w a2=7")
    assert found == Found("value", 0, 1, 1, 2, 2, b"\5", b"\6")
