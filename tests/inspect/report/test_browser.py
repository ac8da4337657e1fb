"""The page in a real browser: what it looks like, and what it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from polydl.inspect.report.figures import charts as figures
from polydl.inspect.report.page import html
from tests.inspect.report.browser import Browser, chromium
from tests.inspect.report.runs import golden_run, golden_scop, hostile_run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(golden_run(), "run.json"), encoding="utf-8")
    return path


_LOOKS = """
const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour.slice(0, 3);
  }
  return [255, 255, 255];
};
const faint = [], tiny = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
  if (!text || !shown(element) || element.closest(".skip, title, desc, script")) continue;
  const style = getComputedStyle(element);
  const ink = parse(element.closest("svg") ? style.fill : style.color).slice(0, 3);
  const [a, b] = [luminance(ink), luminance(behind(element))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(`${text.slice(0, 40)}: ${ink} on ${behind(element)}`);
  const box = element.closest("svg");
  const scale = box ? box.getBoundingClientRect().width / box.viewBox.baseVal.width : 1;
  if (parseFloat(style.fontSize) * scale < 11) tiny.push(`${text.slice(0, 40)}: ${style.fontSize} x ${scale}`);
}
const crowded = [];
for (const svg of document.querySelectorAll("svg")) {
  if (!shown(svg)) continue;
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
  texts.forEach(([text, r], i) => {
    if (r.left < frame.left - 1 || r.right > frame.right + 1) crowded.push(`${text} leaves the chart`);
    for (const [other, q] of texts.slice(i + 1)) {
      const across = Math.min(r.right, q.right) - Math.max(r.left, q.left);
      const down = Math.min(r.bottom, q.bottom) - Math.max(r.top, q.top);
      if (across > 1 && down > 4) crowded.push(`${text} | ${other}`);
    }
  });
}
const root = document.documentElement;
const small = [...document.querySelectorAll("a, button, summary")].filter((e) => {
  const r = e.getBoundingClientRect();
  return shown(e) && !e.closest(".skip, p") && r.height < 24;
}).map((e) => e.textContent);
return {faint, tiny, crowded, small, wide: root.scrollWidth - root.clientWidth,
        charts: [...document.querySelectorAll("svg.chart")].filter(shown).length};
"""


@pytest.mark.parametrize("width", [390, 768, 1100, 1440])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_is_readable(browser: Browser, page: Path, width: int, dark: bool) -> None:
    """No horizontal scrolling, text of 11 px and more at a contrast of 4.5, nothing over anything, targets of 24 px."""
    browser.open(page, width=width, dark=dark)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true;")
    found = browser.run(_LOOKS)
    charts = found.pop("charts")
    assert found == {"faint": [], "tiny": [], "crowded": [], "small": [], "wide": 0}
    assert charts >= 6
    assert browser.errors() == []
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(13, 17, 23)") is dark


def test_the_check_sees_what_is_unreadable(browser: Browser, page: Path) -> None:
    browser.open(page, width=390)
    browser.run("""
        document.querySelector('.verdict').style.color = '#999999';
        document.querySelector('h2').style.fontSize = '8px';
        document.querySelector('footer p').style.width = '800px';
        const rows = document.querySelectorAll('.narrow .row text');
        rows[1].setAttribute('y', rows[0].getAttribute('y'));
        rows[2].setAttribute('x', '300');
        document.querySelector('summary').style.cssText = 'padding: 0; line-height: 1; font-size: 12px';
    """)
    found = browser.run(_LOOKS)
    assert [len(found[name]) for name in ("faint", "tiny", "small")] == [1, 1, 1]
    assert len(found["crowded"]) >= 2
    assert found["wide"] > 0


def test_a_picture_is_not_blank(browser: Browser, page: Path) -> None:
    browser.open(page, width=390)
    assert len(browser.picture()) > 100_000


def test_a_variant_is_chosen_with_the_mouse(browser: Browser, page: Path) -> None:
    browser.open(page, width=1440)
    wanted = golden_scop().measured[0].id
    browser.run(
        "const mark = document.querySelector(`.wide .point[data-variant='${arguments[0]}']`);"
        "mark.dispatchEvent(new MouseEvent('click'));",
        wanted,
    )
    state = """return {on: [...new Set([...document.querySelectorAll('.on')].map((e) => e.dataset.variant))],
        charts: [...document.querySelectorAll('.wide svg')].filter((s) => s.querySelector('.on')).length,
        row: document.querySelector('tr.on')?.dataset.variant,
        said: document.querySelector('.selected').textContent,
        faint: getComputedStyle(document.querySelector('.wide svg [data-variant]:not(.on)')).opacity}"""
    found = browser.run(state)
    assert found["on"] == [wanted]
    assert found["row"] == wanted
    assert found["charts"] >= 3
    assert found["said"].startswith(wanted)
    assert float(found["faint"]) < 0.5
    browser.run("document.querySelector('tr.on button.pick').click()")
    assert browser.run(state)["on"] == []
    assert browser.errors() == []


def test_the_keyboard_reaches_everything(browser: Browser, page: Path) -> None:
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    chains = pytest.importorskip("selenium.webdriver.common.action_chains").ActionChains
    browser.open(page, width=1440)
    focused = """const e = document.activeElement;
        return {kind: e.getAttribute('class') || e.tagName, text: e.getAttribute('aria-label') || e.textContent,
                outline: getComputedStyle(e).outlineStyle, variant: e.dataset.variant || ''}"""

    def press(*what: str) -> dict[str, str]:
        for key in what:
            chains(browser.driver).send_keys(key).perform()
        found: dict[str, str] = browser.run(focused)
        return found

    first = press(keys.TAB)
    assert first["text"] == "Skip to the results"
    press(keys.ENTER)
    assert browser.run("return document.activeElement.id") == "main"
    seen = []
    for _ in range(40):
        at = press(keys.TAB)
        assert at["outline"] != "none", at
        seen.append(at)
        if at["kind"].startswith("point"):
            break
    assert any(at["kind"] == "code" for at in seen)
    assert seen[-1]["kind"].startswith("point")
    second = press(keys.ARROW_RIGHT)
    assert second["kind"].startswith("point") and second["variant"] != seen[-1]["variant"]
    assert press(keys.ENTER)["variant"] == second["variant"]
    assert browser.run("return document.activeElement.getAttribute('aria-pressed')") == "true"
    assert browser.run("return document.querySelector('tr.on').dataset.variant") == second["variant"]
    press(keys.ESCAPE)
    assert browser.run("return document.querySelectorAll('.on').length") == 0
    # One tab stop a chart: the next one is outside of it.
    assert press(keys.TAB)["kind"] == "SUMMARY"


def test_columns_sort(browser: Browser, page: Path) -> None:
    browser.open(page, width=1440)
    read = (
        """return [...document.querySelectorAll('table.sortable tbody tr')].map((row) => row.cells[1].dataset.value)"""
    )
    click = """const head = document.querySelectorAll('table.sortable thead th')[1];
        head.querySelector('button').click(); return head.getAttribute('aria-sort')"""
    times = [m.median for m in golden_scop().variants() if m.median is not None]
    assert browser.run(click) == "ascending"
    assert [float(t) for t in browser.run(read) if t] == sorted(times)
    assert browser.run(click) == "descending"
    after = browser.run(read)
    assert [float(t) for t in after if t] == sorted(times, reverse=True)
    assert after[: len(times)] == [t for t in after if t], "variants without a time come last"
    assert browser.errors() == []


@pytest.mark.parametrize("width", [390, 1440])
def test_a_screen_reader_finds_names_for_everything(browser: Browser, page: Path, width: int) -> None:
    """What the browser hands to assistive technology: nothing that can be reached or looked for is without a name."""
    browser.open(page, width=width)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true;")
    nodes = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named: dict[str, list[str]] = {}
    for node in nodes:
        if not node["ignored"]:
            named.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", "").strip())
    kinds = ("button", "link", "region", "heading", "table", "columnheader", "rowheader", "navigation")
    assert {kind for kind in kinds if not all(named.get(kind, [""]))} == set()
    assert {"main", "banner", "contentinfo", "status"} <= set(named)
    charts = {c.title for c in figures(golden_scop(), golden_run().machine)}
    assert charts <= set(named["group"])
    assert {m.id for m in golden_scop().measured} <= {text.split(" ")[0].rstrip(":") for text in named["button"]}


def test_without_script_everything_is_there(browser: Browser, page: Path) -> None:
    """Charts and tables need no script, and nothing that does is offered."""
    browser.open(page, width=1440, script=False)
    tree = browser.driver.execute_cdp_cmd("DOMSnapshot.captureSnapshot", {"computedStyles": ["display"]})
    strings = tree["strings"]
    assert any("Choose a mark" in text for text in strings)
    shown = {strings[i] for i in tree["documents"][0]["layout"]["text"] if i >= 0}
    assert any("Roofline" in text for text in shown)
    assert not any("Choose a mark" in text for text in shown)
    browser.open(page, width=1440)


def test_hostile_text_does_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(html(hostile_run(), "run.json"), encoding="utf-8")
    browser.open(path, width=390)
    assert browser.run("return typeof window.broken") == "undefined"
    assert browser.run("return [document.images.length, document.scripts.length]") == [0, 1]
    assert browser.run("return document.documentElement.scrollWidth <= 390")
    assert browser.errors() == []
