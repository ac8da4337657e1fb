"""A record comes back as it was written, and what is none is refused with the reason."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polydl.base.errors import InputError
from polydl.cli.report import Format, report
from polydl.inspect.report import record
from polydl.inspect.report.figures import charts
from polydl.inspect.report.markdown import markdown, variants_csv
from polydl.inspect.report.page import html
from polydl.inspect.report.record import VERSION, Run, dumps, load, loads
from tests.cli.running import refused
from tests.inspect.report.runs import RECORD, golden_run, hostile_run

Document = dict[str, Any]


def test_a_record_comes_back() -> None:
    run = golden_run()
    assert loads(dumps(run).encode(), "x") == run
    assert run.version == VERSION
    assert len(run.scops[0].measured) == 6
    assert all(m.samples for m in run.scops[0].variants())


def test_hostile_text_is_text() -> None:
    assert loads(dumps(hostile_run()).encode(), "x") == hostile_run()


def _changed(change: Callable[[Document], None]) -> bytes:
    document = json.loads(RECORD.read_bytes())
    change(document)
    return json.dumps(document).encode()


def _set(*path: str | int, to: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def _double(document: Document) -> None:
    measured = document["scops"][0]["measured"]
    measured.append(measured[0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("version", to=VERSION + 1), f"version {VERSION + 1}, written by polydl"),
        (_set("version", to="1"), "Expected `int`, got `str` - at `$.version`"),
        (_set("format", to="a run"), "is no record of a run"),
        (_set("scops", to=[]), "`$.scops`"),
        (_set("scops", 0, "threads", to=0), "`$.scops[0].threads`"),
        (_set("scops", 0, "threads", to=True), "`$.scops[0].threads`"),
        (_set("scops", 0, "original", "samples", 0, to=-1.0), "`$.scops[0].original.samples[0]`"),
        (_set("scops", 0, "original", "median", to=float("nan")), "malformed"),
        (_set("scops", 0, "original", "id", to="first"), "the original is called 'first'"),
        (_set("scops", 0, "chosen", to="nobody"), "the chosen variant 'nobody' was not measured"),
        (_set("scops", 0, "compulsory_bytes", to={"at_least": 2, "at_most": 1}), "a lower bound is above the upper"),
        (_set("scops", 0, "compulsory_bytes", to={"at_least": 0, "at_most": 1 << 64}), "compulsory_bytes"),
        (_set("machine", "frequency_ghz", to=0), "its machine: 'frequency_ghz' must be positive"),
        (_set("machine", "caches", to=[]), "its machine"),
        (_double, "two measured variants have one id"),
        (lambda document: document.pop("machine"), "missing required field `machine`"),
        (lambda document: document["scops"][0].pop("ranked"), "missing required field `ranked`"),
    ],
)
def test_another_document_is_refused(change: Callable[[Document], None], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        loads(_changed(change), "run.json")
    assert reason in caught.value.reason
    assert "run.json" in caught.value.reason
    assert caught.value.hint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"[" * 200_000,
        b'{"format": "polydl run", "version": 1, "x": ' + b"[" * 100_000,
        b"\xff\xfe\x00",
        b"int main(void) { return 0; }",
        RECORD.read_bytes()[:-2],
        RECORD.read_bytes()[: len(RECORD.read_bytes()) // 2],
        RECORD.read_bytes().replace(b'"polydl run"', b'"polydl\xffrun"'),
        RECORD.read_bytes().replace(b'"scops":[', b'"scops":[1e999,', 1),
    ],
    ids=lambda data: f"{len(data)}-{data[:4]!r}",
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="no record of a run"):
        loads(data, "run.json")


def test_every_cut_is_refused() -> None:
    """A record that was cut off anywhere is never taken for a whole one."""
    data = RECORD.read_bytes().rstrip()
    for length in range(0, len(data), 997):
        with pytest.raises(InputError):
            loads(data[:length], "run.json")


def test_a_file_beyond_all_sizes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LARGEST", 1000)
    with pytest.raises(InputError, match="larger than any record"):
        load(RECORD)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own with run.json, to work in."""
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_bytes(RECORD.read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run": "kernel.c"}, "optimize FILE.c --save RUN.json"),
        ({"run": "old.json"}, "run `polydl optimize … --save` again"),
        ({"run": "missing.json"}, "No such file"),
        ({"run": "folder"}, "Is a directory"),
        ({"output": "x.svg", "chart": "rofline"}, "did you mean 'roofline'"),
        ({"output": "x.svg", "function": "f"}, "choose one of mlp_layer"),
        ({"output": "x.png", "chart": "nothing"}, "choose one of distribution, samples"),
        ({"output": "report.pdf"}, "choose one of html, svg, png, md, csv"),
        ({"output": "report"}, "choose one of html, svg, png, md, csv"),
        ({"chart": "roofline"}, "--chart and --function are for svg"),
        ({"output": "run.json", "format_": Format.MD}, "would replace the input"),
        ({"output": "nowhere/x.html"}, "there is no folder"),
    ],
)
def test_a_wrong_request_is_refused_with_the_way_out(folder: Path, changes: dict[str, Any], said: str) -> None:
    Path("kernel.c").write_text("int x;\n")
    Path("old.json").write_bytes(_changed(_set("version", to=0)))
    Path("folder").mkdir()
    before = sorted(p.name for p in folder.iterdir())
    with pytest.raises(InputError) as caught:
        report(Path(changes.pop("run", "run.json")), **changes)
    assert said in caught.value.render()
    assert caught.value.hint
    assert sorted(p.name for p in folder.iterdir()) == before


def test_the_command_line_refuses(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(RECORD.read_bytes()[:-9])
    assert "error: run.json is damaged" in refused(tmp_path, "report", "run.json")


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("a.html", "<!DOCTYPE"), ("a.HTM", "<!DOCTYPE"), ("a.svg", "<?xml"), ("a.md", "# "), ("a.csv", "function,")],
)
def test_formats_come_from_names(folder: Path, name: str, beginning: str) -> None:
    report(Path("run.json"), name)
    assert Path(name).read_text(encoding="utf-8").startswith(beginning)


def test_one_chart_of_one_function(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(Path("run.json"), "one.svg", chart="roofline", function="mlp_layer")
    report(Path("run.json"), format_=Format.SVG)
    assert capsys.readouterr().out == "wrote one.svg\nwrote run.svg\n"
    one, every = (Path(name).read_text(encoding="utf-8").count('class="chart"') for name in ("one.svg", "run.svg"))
    assert every > one == 1


def _everywhere(value: Any, numbers: dict[type, Any]) -> Any:
    """A document with all its numbers replaced."""
    if isinstance(value, dict):
        return {key: _everywhere(v, numbers) for key, v in value.items()}
    if isinstance(value, list):
        return [_everywhere(v, numbers) for v in value]
    return numbers.get(type(value), value)


def _page_is_whole(run: Run) -> None:
    """The page, with all its charts as well-formed SVG."""
    page = html(run, "run.json")
    assert "</html>" in page
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawn) == 2 * len(charts(run.scops[0], run.machine))
    for one in drawn:
        ET.fromstring(one)


@pytest.mark.parametrize("small", [5e-324, 1e-30, 1.0, 1e30, 1.7e308])
@pytest.mark.parametrize("whole", [1, (1 << 63) - 1])
def test_absurd_figures_are_shown_all_the_same(small: float, whole: int) -> None:
    """A record may hold any positive numbers; what is computed from them may overflow, and be cut off, but not fail."""
    document = json.loads(RECORD.read_bytes())
    kept = {name: document["scops"][0]["original"][name] for name in ("samples", "median")}
    scop = _everywhere(document["scops"][0], {float: small, int: whole}) | {"threads": 2}
    for original in (scop["original"], scop["original"] | kept):
        run = loads(json.dumps(document | {"scops": [scop | {"original": original}]}).encode(), "run.json")
        _page_is_whole(run)
        assert "## Machine" in markdown(run)
        assert variants_csv(run).count("\n") == len(run.scops[0].ranked) + 2


@pytest.mark.parametrize("figure", [1e-300, 1e300])
def test_absurd_machines_are_shown_all_the_same(figure: float) -> None:
    document = json.loads(RECORD.read_bytes())
    document["machine"] = _everywhere(document["machine"], {float: figure})
    run = loads(json.dumps(document).encode(), "run.json")
    _page_is_whole(run)
