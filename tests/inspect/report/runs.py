"""Records for the tests: one of `optimize examples/mlp_layer.c --space small --top-k 6 --save`, and changed ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from polydl.inspect.report.record import Run, ScopRun, loads
from tests.conftest import GOLDEN

RECORD = GOLDEN / "run.json"

HOSTILE = (
    '</script><script>window.broken=1</script><img src=x onerror="window.broken=1">]]>&"\'\x00\x1b[31m\u202e{{7*7}}'
)
"""What a name could do: end an element, carry markup, entities, control characters, templates; turn the writing."""


@cache
def golden_run() -> Run:
    return loads(RECORD.read_bytes(), "run.json")


def golden_scop() -> ScopRun:
    return golden_run().scops[0]


def with_scop(**changes: Any) -> Run:
    """The golden run with fields of its scop replaced."""
    run = golden_run()
    return replace(run, scops=(replace(run.scops[0], **changes),))


def hostile_run() -> Run:
    """The golden run with a hostile text in every place that a text can stand in."""
    run, scop = golden_run(), golden_scop()
    names = {m.id: f"{m.id}{HOSTILE}" for m in scop.measured}
    measured = tuple(
        replace(
            m,
            id=names[m.id],
            loops=HOSTILE,
            message=HOSTILE,
            scores={HOSTILE if name == "cost" else name: score for name, score in m.scores.items()},
            working_sets=tuple(replace(w, array=HOSTILE, carried_by=HOSTILE, nest=HOSTILE) for w in m.working_sets),
        )
        for m in scop.measured
    )
    assert scop.fusion is not None
    decisions = tuple(replace(d, into=HOSTILE, nest=HOSTILE, reason=HOSTILE) for d in scop.fusion.decisions)
    bad = replace(
        scop,
        function=HOSTILE,
        before=f"/* {HOSTILE} */ int x;",
        after=f'char *s = "{HOSTILE}";',
        ranker=HOSTILE,
        chosen=names.get(scop.chosen, scop.chosen),
        measured=measured,
        ranked=tuple(replace(v, id=names.get(v.id, v.id), loops=HOSTILE, recipe=HOSTILE) for v in scop.ranked),
        sizes={HOSTILE: 1},
        pruned={HOSTILE: 1},
        dependences=tuple(replace(d, array=HOSTILE, source=HOSTILE) for d in scop.dependences),
        fusion=replace(scop.fusion, decisions=decisions, contracted=(HOSTILE,)),
        assumptions=(HOSTILE,),
        notes=(HOSTILE,),
        warnings=(HOSTILE,),
        illegal=(HOSTILE,),
        given_up=(HOSTILE,),
    )
    return replace(
        run,
        polydl=HOSTILE,
        created=HOSTILE,
        source=HOSTILE,
        source_text=HOSTILE,
        output=HOSTILE,
        output_text=HOSTILE,
        command=HOSTILE,
        options={HOSTILE: HOSTILE},
        machine=replace(run.machine, name=HOSTILE),
        scops=(bad,),
    )
