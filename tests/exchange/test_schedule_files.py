"""Schedules of other tools: what `polydl export` writes comes back, legal ones run and compute the same, and others are
refused with the place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import islpy as isl
import pytest
import yaml

from polydl import pipeline
from polydl.base.errors import IllegalVariant, InputError
from polydl.dependences.analysis import dependences
from polydl.exchange.isl_document import documents
from polydl.exchange.schedule_file import schedule_from_file
from polydl.exchange.yaml import dumps
from polydl.lower.emit import generate
from polydl.model.isl import context
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.tree import Run, bands
from tests.cli.running import PRESET, polydl, refused

STENCIL = """void jacobi(double A[restrict 66], double B[restrict 66])
{
#pragma scop
    for (int t = 0; t < 20; t++) {
        for (int i = 1; i < 65; i++)
            B[i] = (A[i - 1] + A[i] + A[i + 1]) / 3;
        for (int i = 1; i < 65; i++)
            A[i] = B[i];
    }
#pragma endscop
}
"""
DOMAIN = "{ S0[t, i] : 0 <= t <= 19 and 1 <= i <= 64; S1[t, i] : 0 <= t <= 19 and 1 <= i <= 64 }"
SKEWED = f"""# one band for both loops, S1 one iteration later, in tiles
domain: "{DOMAIN}"
child:
  schedule: "[{{ S0[t, i] -> [floor((t)/8)]; S1[t, i] -> [floor((t)/8)] }},
              {{ S0[t, i] -> [floor((2t + i)/16)]; S1[t, i] -> [floor((2t + i + 1)/16)] }}]"
  permutable: 1
  child:
    mark: "a note of the other tool"
    child:
      schedule: "[{{ S0[t, i] -> [(t)]; S1[t, i] -> [(t)] }}, {{ S0[t, i] -> [(2t + i)]; S1[a, b] -> [(2a + b + 1)] }}]"
      permutable: 1
      coincident: [ 0, 1 ]
      child:
        sequence:
        - filter: "{{ S0[t, i] }}"
        - filter: "{{ S1[t, i] }}"
"""
KEYWORDS = """void f(int mod, int max, double min[restrict mod][max])
{
#pragma scop
    for (int exists = 0; exists < mod; exists++)
        for (int div = 1; div < max; div++)
            min[exists][div] += min[exists][div - 1];
#pragma endscop
}
"""


def scop_of(folder: Path, text: str) -> Scop:
    path = folder / "in.c"
    path.write_text(text)
    (scop,) = pipeline.load(path, require_sizes=False).scops
    return canonical(scop).scop


def read(scop: Scop, folder: Path, text: str, *, reassociate: bool = True) -> Ordered:
    path = folder / "tree.yaml"
    path.write_text(text)
    return schedule_from_file(scop, path, dependences(scop), reassociate=reassociate)


def tree(child: str, domain: str = DOMAIN) -> str:
    return f'domain: "{domain}"\nchild: {child}\n'


@pytest.mark.parametrize("text", [STENCIL, KEYWORDS])
def test_isl_reads_what_is_exported(tmp_path: Path, text: str) -> None:
    (document,) = documents([scop_of(tmp_path, text)])
    schedule = isl.Schedule.read_from_str(context(), dumps([document["schedule"]]))
    domain = isl.UnionSet.read_from_str(context(), document["domain"])
    assert schedule.get_domain().is_equal(domain)
    every = [document["reads"], document["writes"], *document["dependences"].values(), *document["sums"].values()]
    maps = [isl.UnionMap.read_from_str(context(), one) for one in every]
    assert all(m.domain().is_subset(domain) for m in maps)
    time = schedule.get_map()
    for ordering in maps[2:5]:
        apart = ordering.apply_domain(time).apply_range(time)
        assert apart.is_subset(apart.intersect(_before(apart))), "the exported order respects what is exported"


def _before(pairs: isl.UnionMap) -> isl.UnionMap:
    maps = pairs.get_map_list()
    found = isl.UnionMap.read_from_str(context(), "{ }")
    for k in range(maps.n_map()):
        found = found.union(isl.UnionMap.from_map(isl.Map.lex_lt(maps.get_at(k).get_space().domain())))
    return found


@pytest.mark.parametrize("text", [STENCIL, KEYWORDS])
def test_what_is_exported_comes_back(tmp_path: Path, text: str) -> None:
    scop = scop_of(tmp_path, text)
    whole = dumps(documents([scop]))
    made = read(scop, tmp_path, whole)
    again = read(scop, tmp_path, yaml.safe_dump(yaml.safe_load(whole)["schedule"]))
    as_text = read(scop, tmp_path, yaml.safe_dump({"schedule": json.dumps(yaml.safe_load(whole)["schedule"])}))
    assert made.how == again.how == as_text.how
    assert "for (" in generate(scop, program_tree([made])).region
    runs = [m.run for b in bands(made.tree) for m in b.members]
    assert runs == ([Run.SERIAL, Run.PARALLEL, Run.PARALLEL] if text == STENCIL else [Run.PARALLEL, Run.SERIAL])


def test_a_legal_schedule_is_verified_and_timed(tmp_path: Path) -> None:
    (tmp_path / "in.c").write_text(STENCIL)
    (tmp_path / "tree.yaml").write_text(SKEWED)
    result = pipeline.optimize(tmp_path / "in.c", schedule=tmp_path / "tree.yaml", threads=2)
    (scop,) = result.scops
    assert scop.report is not None
    (measured,) = scop.report.measurements
    assert measured.verified, measured.message
    (region,) = scop.ranking.variants[0].scheduled
    assert [m.run for b in bands(region.tree) for m in b.members].count(Run.PARALLEL) <= 1
    assert region.how.base.startswith("file-")


def test_another_scheduler_works_from_what_is_exported(tmp_path: Path) -> None:
    """isl's own scheduler and printer, given nothing but the exported text."""
    scop = scop_of(tmp_path, STENCIL)
    (document,) = documents([scop])
    domain = isl.UnionSet.read_from_str(context(), document["domain"])
    order = isl.UnionMap.read_from_str(context(), "{ }")
    for text in (*document["dependences"].values(), *document["sums"].values()):
        order = order.union(isl.UnionMap.read_from_str(context(), text))
    constraints = isl.ScheduleConstraints.on_domain(domain).set_validity(order).set_proximity(order)
    computed = constraints.set_coincidence(order).compute_schedule()
    band = computed.get_root().child(0)
    tiled = band.band_tile(isl.MultiVal.read_from_str(context(), "{ [8, 16] }")).get_schedule()
    for schedule in (computed, tiled):
        printer = isl.Printer.to_str(context()).set_yaml_style(isl.yaml_style.BLOCK)
        made = read(scop, tmp_path, printer.print_schedule(schedule).get_str())
        assert sum(len(b.members) for b in bands(made.tree)) >= 2
    assert len(list(bands(made.tree))) >= 2


def test_the_output_has_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "in.c").write_text(STENCIL)
    (tmp_path / "tree.yaml").write_text(SKEWED)
    arguments = ("optimize", "in.c", "--schedule", "tree.yaml", "--no-run", "-o", "out.c", *PRESET)
    assert polydl(tmp_path, *arguments).code == 0
    text = (tmp_path / "out.c").read_text()
    assert re.search(r"variant \w{10} = S0: Schedule\(base=file-\w{10}", text)
    assert polydl(tmp_path, *arguments).code == 0
    assert (tmp_path / "out.c").read_text() == text
    ranked = polydl(tmp_path, "rank", "in.c", "--schedule", "tree.yaml", "--json", *PRESET)
    assert ranked.stdout.count('"id"') == 1


def test_an_illegal_schedule_is_refused_with_the_instances(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, STENCIL)
    reversed_ = SKEWED.replace("-> [(t)]", "-> [(-t)]").replace("floor((t)/8)", "0")
    with pytest.raises(IllegalVariant, match=r"dependence on [AB]: S\d\[\d+, \d+\] would run no later than") as caught:
        read(scop, tmp_path, reversed_)
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.file) == (2, str(tmp_path / "tree.yaml"))
    (tmp_path / "tree.yaml").write_text(reversed_)
    assert "would run no later than" in refused(tmp_path, "optimize", "in.c", "--schedule", "tree.yaml", *PRESET)


def test_instances_that_a_schedule_does_not_order_run_in_their_loops(tmp_path: Path) -> None:
    scop = scop_of(tmp_path, STENCIL.replace("t < 20", "t < 1").replace("A[i] = B[i]", "A[i] = 2"))
    domain = "{ S0[t, i] : t = 0 and 1 <= i <= 64; S1[t, i] : t = 0 and 1 <= i <= 64 }"
    parts = '\n  sequence:\n  - filter: "{ S0[t, i] }"\n  - filter: "{ S1[t, i] }"'
    made = read(scop, tmp_path, tree(parts, domain))
    assert [len(b.members) for b in bands(made.tree)] == [2, 2]


def test_sums_are_reordered_only_when_allowed(tmp_path: Path) -> None:
    scop = scop_of(
        tmp_path, "void f(double s[1], double x[9])\n{\n#pragma scop\n"
        "    for (int i = 0; i < 9; i++) s[0] += x[i];\n#pragma endscop\n}\n"
    )  # fmt: skip
    backwards = tree('{ schedule: "[{ S0[i] -> [(-i)] }]" }', "{ S0[i] : 0 <= i <= 8 }")
    assert read(scop, tmp_path, backwards).statements == scop.statements
    with pytest.raises(IllegalVariant, match="dependence on s"):
        read(scop, tmp_path, backwards, reassociate=False)


def test_only_the_tree(tmp_path: Path) -> None:
    (tmp_path / "in.c").write_text(STENCIL)
    outcome = polydl(tmp_path, "export", "in.c", "--tree")
    schedule = isl.Schedule.read_from_str(context(), outcome.stdout)
    assert schedule.get_domain().is_equal(isl.UnionSet.read_from_str(context(), DOMAIN))
    document = json.loads(polydl(tmp_path, "export", "in.c", "--json").stdout)
    assert document["scops"][0]["schedule"] == yaml.safe_load(outcome.stdout)


def test_functions_find_their_documents(tmp_path: Path) -> None:
    both = STENCIL + STENCIL.replace("jacobi", "other").replace("/ 3", "/ 4")
    (tmp_path / "in.c").write_text(both)
    assert polydl(tmp_path, "export", "in.c", "-o", "both.yaml").code == 0
    found = list(yaml.safe_load_all((tmp_path / "both.yaml").read_text()))
    assert [d["function"] for d in found] == ["jacobi", "other"]
    outcome = polydl(tmp_path, "optimize", "in.c", "--schedule", "both.yaml", "--no-run", "-o", "out.c", *PRESET)
    assert outcome.code == 0, outcome.stderr
    assert (tmp_path / "out.c").read_text().count("Schedule(base=file-") == 2
    wrong = (tmp_path / "both.yaml").read_text().replace("function: other", "function: another")
    (tmp_path / "wrong.yaml").write_text(wrong)
    assert "none of the 2 documents is of the function other" in refused(
        tmp_path, "rank", "in.c", "--schedule", "wrong.yaml", *PRESET
    )


_PART = '{ filter: "{ S0[t, i] }" }'


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", None, "has no schedule"),
        ("a: [", 1, "not YAML"),
        ("a: b", 1, "begins with its domain"),
        ("- a", 1, "a mapping is expected"),
        ("domain: []", 1, "a text is expected"),
        ('domain: "{ S0["', 1, "not a set"),
        (tree("{}", "{ S0[t, i] : 0 <= t <= 19 and 1 <= i <= 64 }"), 1, "leaves out S1"),
        (tree("{}", DOMAIN.replace("64;", "63;")), 1, r"leaves out an instance that the program has: .*S0\["),
        (tree("{}", DOMAIN.replace("64;", "65;")), 1, r"has an instance that the program has not: .*S0\["),
        (tree("{}", DOMAIN.replace(" }", "; S2[t] : t = 0 }")), 1, "no statement S2"),
        (tree("{}", DOMAIN.replace("S0[t, i]", "S0[t, i, j]")), 1, "2 iterators"),
        (tree("{}", f"[n] -> {DOMAIN.replace('64;', 'n;')}"), 1, "no parameter n"),
        (tree("{ sequences: [] }"), 2, "unknown key 'sequences'"),
        (tree("{ extension: x }"), 2, "not supported"),
        (tree('{ schedule: "[{" }'), 2, "not a schedule"),
        (tree('{ schedule: "[{ S0[t, i] -> [(t)] }]" }'), 2, "leaves out S1"),
        (tree('{ schedule: "[{ S0[t] -> [(t)]; S1[t, i] -> [(t)] }]" }'), 2, "2 iterators"),
        (tree('{ schedule: "[{ S0[t, i] -> [(t/2)]; S1[t, i] -> [(t)] }]" }'), 2, "not an integer"),
        (tree('{ schedule: "[{ S0[t, i] -> [(t)] : t > 3; S1[t, i] -> [(t)] }]" }'), 2, "not an integer everywhere"),
        (
            tree('{ schedule: "[{ S0[t, i] -> [(t)] : t > 3; S0[t, i] -> [(2t)] : t <= 3; S1[t, i] -> [(t)] }]" }'),
            2, "not one affine expression",
        ),
        (tree(f"{{ sequence: [ {_PART} ] }}"), 2, "no part of this sequence has S1"),
        (tree(f"{{ sequence: [ {_PART}, {_PART} ] }}"), 2, "S0 is in two parts"),
        (tree('{ sequence: [ { filter: "{ S0[t, i] : t > 3 }" } ] }'), 2, "some instances of S0"),
        (tree("{ sequence: [ { mark: x } ] }"), 2, "no filter"),
        (tree("&a { mark: x, child: *a }"), 1, "nested too deeply"),
        (tree("{ mark: x, mark: y }"), 2, "the key 'mark' occurs twice"),
    ],
)  # fmt: skip
def test_a_faulty_file_is_refused_with_its_place(tmp_path: Path, text: str, line: int | None, reason: str) -> None:
    scop = scop_of(tmp_path, STENCIL)
    with pytest.raises(InputError, match=reason) as caught:
        read(scop, tmp_path, text)
    span = caught.value.span
    assert (None if span is None else span.line) == line


def test_options_that_contradict_are_refused() -> None:
    for other in ({"loops": "abc"}, {"prepack": ("A",)}):
        changes: dict[str, Any] = {"schedule": "x.yaml", **other}
        with pytest.raises(InputError, match="a schedule beside"):
            Options(**changes)
