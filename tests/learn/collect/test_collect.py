"""Collecting: what to measure, the run from lists of sizes to a store, and going on where it was interrupted."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.base.errors import InputError
from polydl.learn.collect import CollectOptions, collect, read_problems
from polydl.learn.collect.prepare import options_for, scop_of
from polydl.learn.collect.problems import DTYPES
from polydl.learn.collect.run import Tally
from polydl.learn.collect.sample import chosen_sample, is_default
from polydl.learn.train import parquet
from polydl.learn.train.training_data import load_data
from polydl.measure.bulk import interval, outliers
from polydl.measure.store import Store
from polydl.rank import rankers
from polydl.target.isa import kernel_contraction
from polydl.target.products import inner_product
from tests.cli.running import polydl

LAYERS = "network,layer,ifw,ifh,C,K,kw,kh,pad_w,pad_h,stride\n"


def listed(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sizes.csv"
    path.write_text(text)
    return path


def test_layers_and_matrix_sizes_are_read(tmp_path: Path) -> None:
    path = listed(
        tmp_path, LAYERS + "net,a,56,28,64,96,3,3,1,1,2\nnet,b,56,28,64,96,3,3,1,1,2\nnet,c,7,7,3,6,1,1,0,0,1\n"
    )
    first, second = read_problems(path, 2)
    assert (first.name, first.workload, first.source.name) == ("a", "net", "conv.c")
    assert dict(first.macros) == {
        "NIMG": 2, "NOFM": 96, "NIFM": 64, "OFH": 14, "OFW": 28, "KH": 3, "KW": 3, "STRIDE_H": 2, "STRIDE_W": 2,
        "OFM_BLOCK": 48, "IFM_BLOCK": 64,
    }  # fmt: skip
    assert first.operations == 2 * 2 * 96 * 64 * 9 * 14 * 28
    assert (second.macros["OFM_BLOCK"], second.macros["IFM_BLOCK"]) == (6, 3)
    (gemm,) = read_problems(listed(tmp_path, "workload,M,N,K\nmine,3,4,5\n"), 2)
    assert (gemm.name, gemm.workload, dict(gemm.macros)) == ("3x4x5", "mine", {"M": 3, "N": 4, "K": 5})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "has the columns a, b"),
        ("", "has the columns none"),
        ("workload,M,N,K\nx,1,2\n", "sizes.csv:2: M, N, K must be whole numbers"),
        ("workload,M,N,K\nx,1,2,3\nx,1,2,0\n", "sizes.csv:3: sizes must be positive"),
        (LAYERS + "n,a,3,3,4,4,5,5,0,0,1\n", "larger than the padded input"),
    ],
)
def test_wrong_lists_are_named_by_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_problems(listed(tmp_path, text), 1)


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_the_same_sizes_in_other_types(dtype: str, tmp_path: Path) -> None:
    (conv,) = read_problems(listed(tmp_path, LAYERS + "net,a,9,9,64,96,3,3,1,1,2\n"), 1, dtype)
    (gemm,) = read_problems(listed(tmp_path, "workload,M,N,K\nmine,16,32,64\n"), 1, dtype)
    assert (conv.name, gemm.name) == (f"a_{dtype}", f"16x32x64_{dtype}")
    for problem in (conv, gemm):
        scop = scop_of(problem, options_for(problem, 2, "default", 0, None).changed(machine="epyc-zen4"))
        found = kernel_contraction(scop, scop.statements[-1])
        assert found is not None
        product = inner_product(found)
        assert product is not None
        assert product.in_words == (dtype != "half")


def test_an_unknown_type(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no --dtype 'bf61'") as caught:
        read_problems(listed(tmp_path, "workload,M,N,K\nmine,16,32,64\n"), 1, "bf61")
    assert caught.value.hint is not None and "bf16" in caught.value.hint


def test_a_missing_list(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_problems(tmp_path / "none.csv", 1)


def test_the_sample_has_favourites_defaults_and_breadth(tmp_path: Path) -> None:
    (problem,) = read_problems(listed(tmp_path, "workload,M,N,K\nmine,96,128,64\n"), 1)
    options = options_for(problem, 2, "default", 0, None).changed(machine="epyc-zen5")
    ranking = pipeline.rank(scop_of(problem, options), options=options)
    others = {"trace": rankers.named("trace")}

    def drawn(seed: int) -> list[tuple[str, str]]:
        return [(v.id, why) for v, why in chosen_sample(ranking, others, 40, np.random.default_rng(seed))]

    sample = drawn(1)
    assert sample == drawn(1)
    assert sample != drawn(2)
    assert len({name for name, _ in sample}) == len(sample) == 40
    reasons = Counter(reason for _, why in sample for reason in why.split(","))
    assert reasons["traffic"] == reasons["trace"] == 6
    assert reasons["stratified"] > 10
    assert reasons["random"] > 2
    order = [v.id for v in ranking.variants]
    places = [order.index(name) for name, _ in sample]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] > len(order) // 2
    defaults = [v for v in ranking.variants if is_default(v)]
    assert defaults
    assert defaults[0].id in {name for name, why in sample if "default" in why.split(",")}


def test_the_interval_of_a_median() -> None:
    """6 samples: least to greatest holds the median with 1 - 2/64; 9: the second of each end with 1 - 20/512."""
    assert interval([1.0] * 5) == np.inf
    assert interval([1, 2, 3, 4, 5, 6]) == pytest.approx(2.5 / 3.5)
    assert interval([9, 2, 3, 4, 5, 6, 7, 8, 1]) == pytest.approx(3 / 5)
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        some = rng.lognormal(0, 0.3, 15)
        middle = float(np.median(some))
        inside += abs(middle - 1) <= 2 * interval(some.tolist()) * middle
    assert inside / 400 > 0.95


def test_outliers_are_marked() -> None:
    assert outliers([1.0, 1.01, 0.99, 1.0, 1.02, 3.0]) == (5,)
    assert outliers([1.0, 1.0, 1.0]) == ()
    assert outliers([]) == ()


def test_from_sizes_to_a_store_to_training_data(tmp_path: Path) -> None:
    path = listed(tmp_path, "workload,M,N,K\nmine,64,96,48\nmine,100,70,33\nmine,4000,4000,4000\n")
    problems = read_problems(path, 1)
    options = CollectOptions(count=14, threads=2, space="small", most_operations=1e9, budget=2e-3)
    lines: list[str] = []

    def tell(now: Tally, line: str) -> None:
        lines.append(line)

    target = tmp_path / "store.sqlite"
    with Store(target) as store:
        tally = collect(problems, store, options, tell)
        assert (tally.new, tally.skipped, tally.failed) == (2, 1, [])
        rows = list(store.rows())
        again = collect(problems, store, options, tell)
        assert (again.new, again.done, len(store)) == (0, 2, len(rows))
        parquet.write(store, tmp_path / "store.parquet")
    assert {r.status for r in rows} == {"verified"}
    assert Counter(r.variant for r in rows)["original"] == 2
    for r in rows:
        assert r.samples
        assert r.median == pytest.approx(float(np.median(r.samples)))
        assert ("slow" in r.marks) == (len(r.samples) == 1)
        assert r.variant == "original" or {"cost.served_by_L1_bytes", "traffic.core_alone_seconds"} <= set(r.features)
        assert r.variant == "original" or set(r.scores) == {"traffic", "trace", "cost"}
    data, exported = load_data(target), load_data(tmp_path / "store.parquet")
    assert [g.problem for g in data.groups] == [p.name for p in sorted(problems[:2], key=lambda p: p.operations)]
    for one, other in zip(data.groups, exported.groups, strict=True):
        assert one.ids == other.ids
        # Exported samples have five digits; medians of medians may settle on another of two that near each other.
        np.testing.assert_allclose(one.log_seconds, other.log_seconds, atol=2e-3)
        np.testing.assert_allclose(one.features, other.features, rtol=1e-9)


KILLED = """
import sys
from pathlib import Path
from polydl.learn.collect import CollectOptions, collect, read_problems
from polydl.measure.store import Store
if __name__ == "__main__":
    options = CollectOptions(count=5, threads=1, space="small", budget=1e-3, scratch=Path(sys.argv[3]))
    with Store(sys.argv[2]) as store:
        collect(read_problems(Path(sys.argv[1]), 1), store, options, lambda now, line: print(line, flush=True))
"""


def test_killed_and_run_again_it_goes_on(tmp_path: Path) -> None:
    sizes = "".join(f"mine,{16 * n},32,32\n" for n in range(1, 7))
    path, target = listed(tmp_path, "workload,M,N,K\n" + sizes), tmp_path / "store.sqlite"
    script = tmp_path / "run.py"
    script.write_text(KILLED)
    words = [sys.executable, script, path, target, tmp_path / "scratch"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(4)]
    family = descendants(process.pid)
    process.kill()
    process.wait()
    process.stdout.close()
    assert "mine" not in told[0]
    assert len(family) >= 2
    with Store(target) as store:
        before = {r.problem for r in store.rows()}
        rows = list(store.rows())
        assert len(before) >= 3
    deadline = time.monotonic() + 20
    while alive(family) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(family), "what it had started outlived the process that was killed"
    assert subprocess.run(words, stdout=subprocess.DEVNULL, timeout=600, check=False).returncode == 0
    with Store(target) as store:
        after = list(store.rows())
    assert after[: len(rows)] == rows
    assert Counter(r.variant for r in after)["original"] == 6
    assert not list((tmp_path / "scratch").iterdir())


def test_the_command_builds_in_a_folder_and_measures_from_it(tmp_path: Path) -> None:
    """`--scratch` of `collect` is a folder, that of `optimize` a number of bytes."""
    listed(tmp_path, "workload,M,N,K\nmine,32,32,32\nother,32,32,32\n")
    words = ("collect", "--layers", "sizes.csv", "--store", "s.sqlite", "--samples", "2", "--space", "small")
    built = polydl(tmp_path, *words, "--scratch", "built", "--prepare-only")
    assert built.code == 0, built.stderr
    assert len(list((tmp_path / "built").iterdir())) == 1
    assert polydl(tmp_path, *words, "--scratch", "built").code == 0
    assert not list((tmp_path / "built").iterdir())
    with Store(tmp_path / "s.sqlite") as store:
        assert {r.variant for r in store.rows()} > {"original"}


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found |= {int(child), *descendants(int(child))}
    return found


def alive(processes: set[int]) -> set[int]:
    return {pid for pid in processes if Path(f"/proc/{pid}").exists()}
