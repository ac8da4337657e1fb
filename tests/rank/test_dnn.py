"""The learned rankers without torch: files of weights, the forward pass, scores, and what happens to bad files."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.base.errors import InputError, ModelError
from polydl.rank import paper_model, rankers
from polydl.rank.dnn import DnnRanker, agreed, load_dnn, log_scores
from polydl.rank.features import FEATURES_VERSION, features, names
from polydl.rank.network import Layer, activated, forward, normalised, softmax
from polydl.rank.paper_model import PaperRanker, load_paper, pair_inputs, tournament
from polydl.rank.rankers import RankerWarning
from polydl.rank.weights import Header, Weights, load_weights, save_weights

WIDTH = len(names())


def a_layer(rng: np.random.Generator, inputs: int, outputs: int, activation: str) -> Layer:
    def draw(*shape: int) -> np.ndarray:
        return np.asarray(rng.normal(0, 0.3, shape).astype(np.float32), dtype=np.float64)

    return Layer(draw(outputs, inputs), draw(outputs), activation)


def some_weights(members: int = 2, **changes: object) -> Weights:
    rng = np.random.default_rng(5)
    header = Header(
        "dnn", FEATURES_VERSION, names(), ("silu", "none"), members, "d" * 64, "0", {"clip": 4.0, "temperature": 0.03}
    )
    layers = tuple((a_layer(rng, WIDTH, 7, "silu"), a_layer(rng, 7, 1, "none")) for _ in range(members))
    return replace(Weights(header, np.zeros(WIDTH), np.full(WIDTH, 0.125), layers), **changes)  # type: ignore[arg-type]


def paper_weights() -> Weights:
    rng = np.random.default_rng(6)
    sizes = (8, *paper_model.HIDDEN, 2)
    layers = tuple(
        a_layer(rng, a, b, name) for a, b, name in zip(sizes, sizes[1:], paper_model.ACTIVATIONS, strict=False)
    )
    header = Header("dnn-paper", 1, paper_model.INPUTS, paper_model.ACTIVATIONS, 1, "d" * 64, "0", {"theta": 0.6})
    return Weights(header, np.zeros(4), np.ones(4), (layers,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "some.safetensors"
    save_weights(target, some_weights())
    return target


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> pipeline.Ranking:
    source = tmp_path_factory.mktemp("gemm") / "gemm.c"
    source.write_text(
        "void f(const float A[restrict 300][200], const float B[restrict 200][160], float C[restrict 300][160])\n"
        "{\n#pragma scop\n  for (int i = 0; i < 300; i++)\n    for (int j = 0; j < 160; j++)\n"
        "      for (int k = 0; k < 200; k++)\n        C[i][j] += A[i][k] * B[k][j];\n#pragma endscop\n}\n"
    )
    return pipeline.rank(source, threads=2, machine="epyc-zen5", space="small")


def test_weights_come_back_as_they_were_saved(path: Path) -> None:
    saved, loaded = some_weights(), load_dnn(path)
    assert loaded.header == saved.header
    np.testing.assert_array_equal(loaded.scale, saved.scale)
    for one, other in zip(loaded.members, saved.members, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.weight, b.weight)
            np.testing.assert_array_equal(a.bias, b.bias)
            assert a.activation == b.activation


def test_a_file_is_plain_safetensors(path: Path) -> None:
    """8 bytes of length, JSON, numbers: nothing that could run."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert header["__metadata__"]["format"] == "polydl-ranker"
    tensors = {k: v for k, v in header.items() if k != "__metadata__"}
    assert len(content) == 8 + length + sum(v["data_offsets"][1] - v["data_offsets"][0] for v in tensors.values())
    assert {v["dtype"] for v in tensors.values()} == {"F32"}


def rewritten(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    """The same file with another JSON header."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    document = json.loads(content[8 : 8 + length])
    change(document)
    text = json.dumps(document).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def inner(document: dict[str, object], change: Callable[[dict[str, object]], None]) -> None:
    metadata = document["__metadata__"]
    assert isinstance(metadata, dict)
    header = json.loads(metadata["header"])
    change(header)
    metadata["header"] = json.dumps(header)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda p: p.unlink(), "there is no file"),
    "empty": (lambda p: p.write_bytes(b""), "damaged"),
    "text": (lambda p: p.write_text("weights " * 50), "damaged"),
    "pickle": (lambda p: p.write_bytes(b"\x80\x04\x95cposix\nsystem\n(S'true'\ntR." * 9), "damaged"),
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:-5]), "damaged"),
    "half": (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), "damaged"),
    "more": (lambda p: p.write_bytes(p.read_bytes() + b"\0" * 64), "damaged"),
    "huge header": (lambda p: p.write_bytes(struct.pack("<Q", 1 << 60) + b"{}"), "damaged"),
    "folder": (lambda p: (p.unlink(), p.mkdir()), "cannot be read"),
    "not ours": (lambda p: rewritten(p, lambda d: d.update(__metadata__={"format": "pt"})), "no ranker of polydl"),
    "no metadata": (lambda p: rewritten(p, lambda d: d.pop("__metadata__")), "no ranker of polydl"),
    "header": (lambda p: rewritten(p, lambda d: d["__metadata__"].update(header="[1")), "header .* damaged"),  # type: ignore[attr-defined]
    "deep header": (
        lambda p: rewritten(p, lambda d: d["__metadata__"].update(header="[" * 100_000)),  # type: ignore[attr-defined]
        "header .* damaged",
    ),
    "more entries": (lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(x=1))), "header .* damaged"),
    "kind": (lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(kind="dnn-paper"))), "kind 'dnn-paper'"),
    "layout": (lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(weights_version=9))), "layout 9"),
    "version": (
        lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(features_version=FEATURES_VERSION + 1))),
        "version .* of the features",
    ),
    "features": (
        lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(features=[*names()[1:], names()[0]]))),
        "of the features",
    ),
    "activation": (
        lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(activations=["exec", "none"]))), "activation exec",
    ),
    "layers": (
        lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(activations=["silu"] * 3))), "lacks '0.2.bias'",
    ),
    "fewer members": (lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(members=1))), "tensors where"),
    "many members": (lambda p: rewritten(p, lambda d: inner(d, lambda h: h.update(members=10**9))), "10+ members"),
    "integers": (
        lambda p: rewritten(p, lambda d: d["mean"].update(dtype="I32")), "'mean' in .* is int32",  # type: ignore[attr-defined]
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_refused_and_ranking_goes_on(path: Path, what: str, gemm: pipeline.Ranking) -> None:
    damage, message = BAD[what]
    damage(path)
    with pytest.raises(ModelError, match=message):
        load_weights(path, "dnn", names(), FEATURES_VERSION)
    with pytest.warns(RankerWarning, match="ranked by traffic instead"):
        ranking = pipeline.rank(gemm.scop, threads=2, machine="epyc-zen5", space="small", ranker=str(path))
    assert ranking.ranker == "traffic"
    assert [v.id for v in ranking.variants] == [v.id for v in gemm.variants]


def test_numbers_that_are_none_are_refused(path: Path) -> None:
    save_weights(path, some_weights(mean=np.full(WIDTH, np.nan)))
    with pytest.raises(ModelError, match="no numbers"):
        load_dnn(path)


def test_unknown_rankers_are_named() -> None:
    with pytest.raises(InputError, match="dnn-paper"):
        rankers.named("dnn-papre")


def test_forward_is_what_it_says() -> None:
    layers = [
        Layer(np.array([[1.0, -2.0], [0.5, 0.0]]), np.array([0.0, 1.0]), "relu"),
        Layer(np.array([[1.0, 3.0]]), np.array([-1.0]), "softsign"),
    ]
    # relu(1 - 4, 0.5 + 1) = (0, 1.5); 4.5 - 1 = 3.5; 3.5 / 4.5
    np.testing.assert_allclose(forward(layers, np.array([[1.0, 2.0]])), [[3.5 / 4.5]])
    silu = activated(np.array([0.0, 2.0, -1e9]), "silu")
    np.testing.assert_allclose(silu, [0.0, 2 / (1 + np.exp(-2.0)), 0.0], atol=1e-12)
    np.testing.assert_allclose(softmax(np.array([[1000.0, 1000.0]])), [[0.5, 0.5]])
    np.testing.assert_allclose(
        normalised(np.array([[3.0, 7.0]]), np.array([1.0, 2.0]), np.array([1e9, 0.0]), 4.0), [[4.0, 0.0]]
    )
    with pytest.raises(ValueError, match="tanh"):
        activated(np.zeros(1), "tanh")


def test_dnn_ranks_by_the_corrected_prediction(path: Path, gemm: pipeline.Ranking) -> None:
    nest = gemm.nests[-1]
    structures = [v.structures[-1] for v in gemm.variants]
    found = features(gemm.scop, nest, structures, gemm.machine, 2)
    assert found is not None
    assert found.names == names()
    assert found.values.shape == (len(structures), WIDTH)
    assert np.isfinite(found.values).all()
    scored = DnnRanker(path).rank(gemm.scop, nest, structures, gemm.machine, 2)
    each = log_scores(some_weights(), found.values, found.traffic_seconds)
    np.testing.assert_allclose(np.log(scored.columns["predicted_seconds"]), each.mean(axis=0))
    np.testing.assert_allclose(
        np.log(scored.scores), agreed(some_weights(), each.mean(axis=0), np.log(found.traffic_seconds))
    )
    np.testing.assert_allclose(scored.columns["uncertainty"], each.std(axis=0))
    assert scored.columns["uncertainty"].max() > 0
    ranking = pipeline.rank(gemm.scop, threads=2, machine="epyc-zen5", space="small", ranker=str(path))
    assert ranking.ranker == "dnn"
    assert sorted(v.id for v in ranking.variants) == sorted(v.id for v in gemm.variants)
    assert [v.score for v in ranking.variants] == sorted(v.score for v in ranking.variants)


def test_the_order_is_that_of_both_opinions() -> None:
    weights = some_weights()
    networks = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    traffic = np.array([9.0, 2.0, 1.0, 3.0, 4.0])
    # Places 0 1 2 3 4 and 4 1 0 2 3: sums 4 2 2 5 7.
    np.testing.assert_array_equal(agreed(weights, networks, traffic), [0.2, 0.0, 0.1, 0.3, 0.4])
    np.testing.assert_array_equal(agreed(weights, networks, networks * 7), networks)
    alone = replace(weights, header=replace(weights.header, numbers={**weights.header.numbers, "second_opinion": 0.0}))
    np.testing.assert_array_equal(agreed(alone, networks, traffic), networks)


def test_features_do_not_depend_on_the_company(gemm: pipeline.Ranking) -> None:
    nest = gemm.nests[-1]
    structures = [v.structures[-1] for v in gemm.variants]
    whole = features(gemm.scop, nest, structures, gemm.machine, 2)
    assert whole is not None
    for i in (0, 7, len(structures) - 1):
        alone = features(gemm.scop, nest, [structures[i]], gemm.machine, 2)
        assert alone is not None
        np.testing.assert_allclose(alone.values[0], whole.values[i], rtol=1e-12)


def test_a_zero_correction_is_the_traffic_ranker(tmp_path: Path, gemm: pipeline.Ranking) -> None:
    plain = some_weights(1)
    last = plain.members[0][1]
    quiet = replace(last, weight=np.zeros_like(last.weight), bias=np.zeros_like(last.bias))
    target = tmp_path / "zero.safetensors"
    save_weights(target, replace(plain, members=((plain.members[0][0], quiet),)))
    ranking = pipeline.rank(gemm.scop, threads=2, machine="epyc-zen5", space="small", ranker=str(target))
    assert [v.id for v in ranking.variants] == [v.id for v in gemm.variants]


def test_the_papers_inputs_are_shares_of_the_common_sum() -> None:
    first, second = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[0.0, 0.0, 0.0, 10.0]])
    np.testing.assert_allclose(pair_inputs(first, second), [[0.05, 0.1, 0.15, 0.2, 0, 0, 0, 0.5]])
    assert np.isfinite(pair_inputs(first * 0, second * 0)).all()


def test_the_tournament_is_that_of_all_pairs() -> None:
    """Against playing each game by itself, in the plainest way."""
    layers = paper_weights().members[0]
    rng = np.random.default_rng(1)
    sets = rng.integers(1, 4, (23, 4)).astype(np.float64) ** 8
    theta = 0.52
    won = [0] * len(sets)
    for i in range(len(sets)):
        for j in range(len(sets)):
            if (sets[i] == sets[j]).all():
                continue
            first, second = softmax(forward(layers, pair_inputs(sets[i : i + 1], sets[j : j + 1])))[0]
            won[i] += bool(first > theta)
            won[j] += bool(second > theta)
    assert len(set(won)) > 3
    scores = tournament(layers, sets, sets.sum(axis=1), theta)
    np.testing.assert_allclose(scores, 1 - np.array(won) / (2 * (len(sets) - 1)))


def test_only_so_many_play(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_model, "PLAYERS", 5)
    sets = np.arange(1, 13, dtype=np.float64)[:, None] * np.array([1.0, 2, 3, 4])
    scores = tournament(paper_weights().members[0], sets, sets.sum(axis=1))
    assert (scores[:5] <= 1).all()
    assert (np.diff(scores[5:]) > 0).all()
    assert scores[5] > 1


def test_dnn_paper_ranks(tmp_path: Path, gemm: pipeline.Ranking, monkeypatch: pytest.MonkeyPatch) -> None:
    save_weights(tmp_path / "dnn-paper.safetensors", paper_weights())
    monkeypatch.setattr("polydl.base.resources.trained_models", lambda: tmp_path)
    load_paper.cache_clear()
    ranking = pipeline.rank(gemm.scop, threads=2, machine="epyc-zen5", space="small", ranker="dnn-paper")
    assert ranking.ranker == "dnn-paper"
    nest, structures = gemm.nests[-1], [v.structures[-1] for v in ranking.variants]
    scored = PaperRanker().rank(gemm.scop, nest, structures, gemm.machine, 2)
    np.testing.assert_allclose(ranking["dnn-paper_score"], scored.scores, rtol=1e-9)
    assert (np.diff(ranking["dnn-paper_score"]) >= 0).all()
    assert [v.score for v in ranking] == [v.score for v in gemm]  # the model's seconds, in the order of the paper's
    load_paper.cache_clear()
