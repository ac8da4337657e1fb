"""A variant keeps its C: nobody makes it twice, whoever asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl import pipeline
from polydl.inspect.recording import recorded
from polydl.lower import emit
from polydl.options import Options
from polydl.schedule.tree import bands
from polydl.search import variant
from tests.rewrite.programs import KERNELS

CHAIN = next(p for p in KERNELS if p.name == "chain")
"""A product with element-wise nests around it: variants with fused nests compete with others."""


def test_one_generation_per_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen, measured, run at other sizes, written, recorded and shown: all of one text."""
    texts: list[str] = []
    finished = emit.finished

    def counted(*given: object, hints: bool = False) -> emit.Generated:
        made = finished(*given, hints=hints)
        texts.append("\n".join([*made.prologue, made.region]))
        return made

    monkeypatch.setattr(emit, "finished", counted)
    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    options = Options(threads=2, space="small", machine="xeon-8480plus", top_k=4)
    result = pipeline.optimize(path, tmp_path / "out.c", options)
    (done,) = result.scops
    assert done.report is not None and 2 <= len(done.report.measurements) <= 4, "a search ends where nothing is to gain"
    made = [v for v in done.ranking if "generated" in vars(v)]
    assert len(texts) >= len(made) >= len(done.report.measurements)
    before = list(texts)
    recorded(result, options)
    measured = {m.id for m in done.report.measurements}
    for one in made:
        assert one.region() in one.code()
        assert one.id not in measured or sum(one.generated.region in text for text in before) == 1
    assert texts == before, "what was made is kept"


def test_a_changed_variant_has_a_text_of_its_own(tmp_path: Path) -> None:
    from dataclasses import replace

    path = tmp_path / "chain.c"
    path.write_text(CHAIN.text())
    ranking = pipeline.rank(path, "small", "xeon-8480plus", threads=2)
    first, second = ranking[0], ranking[1]
    assert first.region() != second.region()
    assert replace(first, parts=second.parts).region() == second.region()


def test_code_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """isl may need minutes for the tiles of a region on few counted operations."""

    def hangs(*_: object) -> emit.Generated:
        while True:
            pass

    path = tmp_path / "s.c"
    path.write_text(
        "void f(double u[restrict 400])\n{\nfor (int t = 0; t < 90; t++)\nfor (int i = 1; i < 399; i++)\n"
        "u[i] = u[i - 1] + u[i + 1];\n}\n"
    )
    made = next(
        v
        for v in pipeline.rank(path, "small", "xeon-8480plus", threads=2)
        if any(member.diagonal for band in bands(v.tree) for member in band.members)
    )
    monkeypatch.setattr(variant, "generate", hangs)
    monkeypatch.setattr(variant, "HANG_SECONDS", 1)
    made.__dict__.pop("generated", None)
    made.__dict__.pop("unusable", None)
    assert made.unusable is not None and "stopped after 1 s" in made.unusable
