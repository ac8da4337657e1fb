"""The page: structure, escaping, size."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from polydl.inspect.report import tables
from polydl.inspect.report.page import MOST_RANKED, coloured, html
from polydl.inspect.report.record import ORIGINAL
from tests.inspect.report.runs import HOSTILE, golden_run, golden_scop, hostile_run, with_scop

_VOID = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """A page taken apart; fails on an element that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def named(self, *tags: str) -> Iterator[dict[str, str | None]]:
        return (attributes for tag, attributes in self.elements if tag in tags)

    def text(self, tag: str) -> str:
        return "".join(data for where, data in self.texts if where == tag)


def test_the_page_says_what_was_found() -> None:
    scop, run = golden_scop(), golden_run()
    text = html(run, "run.json")
    page = Page(text)
    assert page.text("h1") == "mlp_layer.c"
    assert f"{scop.winner().speedup:.3g} times as fast" in text
    for variant in scop.variants():
        assert sum(a.get("data-variant") == variant.id for a in page.named("tr")) == 1
    words = " ".join(data for _, data in page.texts)
    for wanted in ("Fusion decisions", "Dependences", "Roofline", run.machine.name, run.command):
        assert wanted in words


def test_headings_are_in_order_and_landmarks_are_there() -> None:
    page = Page(html(golden_run(), "run.json"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    tags = [tag for tag, _ in page.elements]
    assert all(tags.count(landmark) == 1 for landmark in ("header", "nav", "main", "footer"))
    assert next(page.named("html"))["lang"] == "en"


def test_identifiers_are_unique_and_references_resolve() -> None:
    two = replace(golden_run(), scops=(golden_scop(), replace(golden_scop(), function="second")))
    page = Page(html(two, "run.json"))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for kind in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(kind) in (None, *ids)
        if (link := attributes.get("href") or "").startswith("#"):
            assert link[1:] in ids


def test_what_scrolls_can_be_reached_and_has_a_name() -> None:
    page = Page(html(golden_run(), "run.json"))
    scrolling = [a for a in page.named("div") if a.get("class") in ("code", "scroll")]
    assert len(scrolling) > 5
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in scrolling)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("caption") == tags.count("table") > 5
    assert all(a.get("scope") in ("col", "row") for a in page.named("th"))


def test_nothing_is_fetched() -> None:
    text = html(golden_run(), "run.json")
    page = Page(text)
    assert not [a for _, a in page.elements if a.get("src")]
    assert all((a.get("href") or "").startswith(("#", "data:")) for _, a in page.elements if "href" in a)
    assert re.findall(r"@import|url\(", text) == []


def test_the_policy_lets_only_our_own_script_and_style_run() -> None:
    text = html(golden_run(), "run.json")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert "style=" not in re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)


def test_hostile_text_is_shown_and_does_nothing() -> None:
    text = html(hostile_run(), HOSTILE)
    page = Page(text)
    assert len([tag for tag, _ in page.elements if tag == "script"]) == 1
    assert not any(key.startswith("on") for _, a in page.elements for key in a)
    assert "\x00" not in text and "\x1b" not in text and "\u202e" not in text
    words = "".join(data for _, data in page.texts)
    assert words.count("<script>window.broken=1</script>") > 20
    assert "{{7*7}}" in words and "]]>" in words


def test_c_is_coloured_and_text_is_all_there() -> None:
    source = 'for (int i = 0; i < 10; i++) a[i] = 1.5f; /* "<b>" */ // x\n'
    page = Page(str(coloured(source)))
    assert "".join(data for _, data in page.texts).strip() == source.strip()
    assert {"k", "kt", "mi", "mf"} <= {a["class"] for a in page.named("span")}


def test_thousands_of_variants_stay_small() -> None:
    scop = golden_scop()
    one = scop.ranked[0]
    many = tuple(replace(one, id=f"{n:010x}") for n in range(20_000))
    text = html(with_scop(ranked=(*scop.ranked, *many)), "run.json")
    assert len(text.encode()) < 5_000_000
    assert text.count("not measured") == MOST_RANKED
    assert "more are in the CSV" in text


@pytest.mark.parametrize("chosen", [True, False])
def test_the_verdict(chosen: bool) -> None:
    scop = golden_scop() if chosen else with_scop(chosen=ORIGINAL, after="").scops[0]
    assert ("times as fast as the original" in tables.verdict(scop)) is chosen
    assert ("Nothing beat the original" in tables.verdict(scop)) is not chosen
    run = replace(golden_run(), scops=(scop,))
    assert ("the original loops stay" in html(run, "run.json")) is not chosen


def test_a_disturbed_timing_is_said() -> None:
    winner = golden_scop().winner()
    original = golden_scop().original
    assert winner.median is not None
    for factor, disturbed in ((1.0, False), (1.15, False), (1.3, True), (0.5, True)):
        scop = with_scop(
            original=replace(original, median=winner.median * 4),
            measured=(replace(winner, speedup=4 * factor),),
        ).scops[0]
        assert ("was disturbed" in tables.verdict(scop)) is disturbed


def test_what_is_missing_is_said() -> None:
    scop = with_scop(operations=None, measured=(), chosen=ORIGINAL, fusion=None, dependences=()).scops[0]
    text = html(replace(golden_run(), scops=(scop,)), "run.json")
    for said in (
        "No roofline",
        "No chart of predictions",
        "Fusion was not looked at",
        "There are none: every iteration",
    ):
        assert said in text


def test_what_the_estimate_chose_is_said() -> None:
    scop = with_scop(undecided="the machine was busy").scops[0]
    assert tables.verdict(scop) == f"Variant {scop.chosen} was chosen by the estimate: the machine was busy."
    stays = with_scop(undecided="the machine was busy", chosen=ORIGINAL, after="").scops[0]
    assert tables.verdict(stays) == "The original stays: the machine was busy."
