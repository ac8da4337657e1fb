"""Runs of nests that may share loops: which save the most together is what trying all of them says."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from polydl.options import Options
from polydl.pipeline import load, rank
from polydl.rank import rankers
from polydl.rank.estimator import Estimator
from polydl.schedule.limits import SPACES
from polydl.search import merged_variants
from polydl.search.merged_variants import TILES, Within, _Sharing
from polydl.search.stretches import Neighbours, Places, most_saved

OPTIONS = Options(machine="epyc-zen5", threads=2, space="small")


def tried(saved: Mapping[Places, float]) -> float:
    """The most that stretches without a common part save together, all sets of them being tried."""
    sets = itertools.chain.from_iterable(itertools.combinations(saved, n) for n in range(len(saved) + 1))
    apart = (some for some in sets if len({p for places in some for p in places}) == sum(map(len, some)))
    return max(sum(saved[places] for places in some) for some in apart)


@pytest.mark.parametrize("seed", range(60))
def test_most_saved_is_what_trying_all_says(seed: int) -> None:
    rng = random.Random(seed)
    places = sorted(rng.sample(range(12), 7))  # parts in between run inside of others
    stretches = [tuple(places[a:b]) for a in range(7) for b in range(a + 2, 8)]
    saved = {one: float(rng.randint(-3, 9)) for one in rng.sample(stretches, 10)}
    chosen = most_saved(saved)
    assert sum(saved[one] for one in chosen) == tried(saved)
    assert all(saved[one] > 0 for one in chosen)
    assert len({p for one in chosen for p in one}) == sum(map(len, chosen))


def test_nothing_saves_nothing() -> None:
    assert most_saved({}) == []
    assert most_saved({(0, 1): 0.0, (1, 2): -1.0}) == []


CHAIN = """
#define relu(x) ((x) > 0 ? (x) : 0)
void chain(float X[512][96], float V[96][640], float W[640][96], float U[96][32], float R[512][32])
{
    static float P[512][640], Q[512][96];
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 640; j++) {
            P[i][j] = 0;
            for (int k = 0; k < 96; k++)
                P[i][j] += X[i][k] * V[k][j];
        }
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 96; j++) {
            Q[i][j] = 0;
            for (int k = 0; k < 640; k++)
                Q[i][j] += P[i][k] * W[k][j];
        }
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 32; j++) {
            R[i][j] = 0;
            for (int k = 0; k < 96; k++)
                R[i][j] += Q[i][k] * U[k][j];
        }
}
"""


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> _Sharing:
    file: Path = tmp_path_factory.mktemp("chain") / "chain.c"
    file.write_text(CHAIN, encoding="utf-8")
    (scop,) = load(file, OPTIONS).scops
    ranking = rank(scop, options=OPTIONS)
    estimator = Estimator(ranking.scop, ranking.nests, ranking.machine, ranking.threads, rankers.usable("traffic"))
    nests = {nest.name: nest for nest in ranking.nests}
    return _Sharing(ranking.variants[0], estimator, Within(SPACES["small"], ()), nests, {})


def test_every_stretch_of_a_chain(sharing: _Sharing) -> None:
    found = Neighbours.of(sharing.base, sharing.nests, 2, {})
    own = [place for run in found.runs for place in run]
    assert len(own) == 3
    assert [one.places for one in found.longest({})] == [tuple(own)]
    assert [one.places for one in found.every()] == [tuple(own[:2]), tuple(own), tuple(own[1:])]


def test_the_chain_is_as_good_as_all_ways(sharing: _Sharing) -> None:
    """Each set of stretches, each with each of the sizes: what each saves alone adds up."""
    every = list(Neighbours.of(sharing.base, sharing.nests, 2, {}).every())
    sized = [(one, size) for one in every for size in (0, *TILES)]
    scores = []
    for number in (1, 2):
        for some in itertools.combinations(sized, number):
            places = [place for one, _ in some for place in one.places]
            parts = [sharing.shared(one, size, {}) for one, size in some]
            if len(set(places)) == len(places) and all(parts):
                made = sharing.variant({k: v for part in parts for k, v in part.items()}, {})
                scores += [] if made is None else [made.score]
    chosen = sharing.chained(every, (0, *TILES))
    assert chosen is not None
    assert chosen.score == pytest.approx(min(scores))
    assert chosen.refused is None


def test_a_chain_is_among_the_variants(sharing: _Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [variant.id for variant in sharing.variants()]
    chosen = sharing.chained([*Neighbours.of(sharing.base, sharing.nests, 2, {}).every()], (0, *TILES))
    assert chosen is not None and chosen.id in found
    monkeypatch.setattr(merged_variants, "STRETCHES", 2)
    assert len(list(sharing.variants())) == len(found) - 1
