"""Training: torch and NumPy agree, what can be learned is, the same seed gives the same weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl.base.errors import InputError
from polydl.learn.train import train_command as command
from polydl.learn.train.metrics import summary
from polydl.learn.train.train_command import evaluation, judged_by, train_command
from polydl.learn.train.training_data import DataSet
from polydl.rank.dnn import load_dnn, log_scores
from polydl.rank.network import ACTIVATIONS, forward, normalised
from polydl.rank.paper_model import load_paper
from polydl.rank.ranker import FloatArray
from polydl.rank.weights import save_weights
from tests.learn.train.groups import WIDTH, made_up

torch = pytest.importorskip("torch")

from polydl.learn.train import fit  # noqa: E402
from polydl.learn.train.nets import Network, correction_network, paper_network  # noqa: E402

QUICK = fit.FitOptions(members=2, hidden=(16,), epochs=40, dropout=0.0, rate=1e-2)


def silent(stage: str, done: int, total: int) -> None:
    pass


@pytest.mark.parametrize("which", ["paper", "dnn", "all activations"])
def test_numpy_gives_what_torch_gives(which: str) -> None:
    torch.manual_seed(3)
    network = {
        "paper": paper_network,
        "dnn": lambda: correction_network(WIDTH, (64, 32), 0.1),
        "all activations": lambda: Network((6, 9, 8, 7, 5), ACTIVATIONS),
    }[which]().eval()
    inputs = np.random.default_rng(4).normal(0, 2, (500, network.linear[0].in_features)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(inputs)).numpy()
    found = forward(network.layers(), inputs.astype(np.float64))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    again = Network.of(network.layers()).eval()
    with torch.no_grad():
        np.testing.assert_array_equal(again(torch.from_numpy(inputs)).numpy(), expected)


def test_scores_from_the_file_are_those_of_training(tmp_path: Path) -> None:
    """Through the file, and with NumPy alone, to 1e-5."""
    data = made_up(12, 20)
    weights, _ = fit.fit_dnn(data, replace(QUICK, epochs=3), silent)
    path = tmp_path / "w.safetensors"
    save_weights(path, weights)
    loaded = load_dnn(path)
    for group in data.groups:
        ready = normalised(group.features, weights.mean, weights.scale, QUICK.clip).astype(np.float32)
        for member, row in zip(weights.members, log_scores(loaded, group.features, group.traffic_seconds), strict=True):
            with torch.no_grad():
                expected = Network.of(member).eval()(torch.from_numpy(ready)).numpy()[:, 0]
            np.testing.assert_allclose(row - np.log(group.traffic_seconds), expected, rtol=1e-5, atol=1e-5)


def test_what_the_features_tell_is_learned_and_better_than_the_start() -> None:
    train, test = made_up(30, 24), made_up(8, 24, seed=1)
    weights, curve = fit.fit_dnn(train, QUICK, silent)
    with_opinion = summary(list(judged_by("dnn", test.groups, {"dnn": weights}).values()))
    weights = replace(weights, header=replace(weights.header, numbers=weights.header.numbers | {"second_opinion": 0.0}))
    judged = {
        name: summary(list(judged_by(name, test.groups, {"dnn": weights}).values())) for name in ("dnn", "traffic")
    }
    assert judged["traffic"]["top1"] < with_opinion["top1"] < judged["dnn"]["top1"]
    assert judged["traffic"]["top1"] < 0.8
    assert judged["dnn"]["top1"] > 0.93
    assert judged["dnn"]["pair_accuracy"] > judged["traffic"]["pair_accuracy"] + 0.2
    assert all(min(held) < 0.7 * held[0] for held in curve.validation)


def test_constant_features_say_nothing() -> None:
    data = made_up(12, 10)
    weights, _ = fit.fit_dnn(data, replace(QUICK, epochs=2), silent)
    assert weights.scale[-1] == 0
    group = data.groups[0]
    other = group.features.copy()
    other[:, -1] = 8.0
    np.testing.assert_array_equal(
        log_scores(weights, group.features, group.traffic_seconds), log_scores(weights, other, group.traffic_seconds)
    )


def test_the_loss_is_antisymmetric() -> None:
    """p(a beats b) = 1 - p(b beats a): with variants and times exchanged the loss is the same."""
    data = made_up(4, 2)
    mean, scale = np.zeros(WIDTH), np.ones(WIDTH)
    network = correction_network(WIDTH, (8,), 0.0).eval()

    def loss(some: DataSet) -> float:
        batch = fit._batch(list(some.groups), mean, scale, 4.0, torch.device("cpu"))
        with torch.no_grad():
            return float(fit._loss(network, batch, 0.03))

    def exchanged(values: FloatArray) -> FloatArray:
        return values[::-1].copy()

    swapped = tuple(
        replace(
            g, features=exchanged(g.features), traffic_seconds=exchanged(g.traffic_seconds),
            log_seconds=exchanged(g.log_seconds), noise=exchanged(g.noise),
        )
        for g in data.groups
    )  # fmt: skip
    assert loss(replace(data, groups=swapped)) == pytest.approx(loss(data), rel=1e-6)


def test_the_same_seed_gives_the_same_weights_and_another_others() -> None:
    data = made_up(10, 12)
    some = replace(QUICK, epochs=4)
    one, two, three = (fit.fit_dnn(data, o, silent)[0] for o in (some, some, replace(some, seed=1)))
    for a, b, c in zip(one.members[0], two.members[0], three.members[0], strict=True):
        np.testing.assert_array_equal(a.weight, b.weight)
        assert not np.array_equal(a.weight, c.weight)


def test_finetuning_starts_from_what_was_learned() -> None:
    weights, _ = fit.fit_dnn(made_up(30, 24), QUICK, silent)
    own = made_up(6, 24, seed=2)
    # This machine differs: one more feature counts.
    own = replace(own, groups=tuple(replace(g, log_seconds=g.log_seconds + 0.3 * g.features[:, 7]) for g in own.groups))
    test = made_up(8, 24, seed=3)
    test = replace(
        test, groups=tuple(replace(g, log_seconds=g.log_seconds + 0.3 * g.features[:, 7]) for g in test.groups)
    )
    tuned, _ = fit.fit_dnn(own, replace(QUICK, rate=5e-3, batch=2), silent, weights)
    assert tuned.header.notes["finetuned_from"] == weights.header.data
    np.testing.assert_array_equal(tuned.mean, weights.mean)
    before, after = (summary(list(judged_by("dnn", test.groups, {"dnn": w}).values())) for w in (weights, tuned))
    assert after["tau"] > before["tau"] + 0.1


def test_the_papers_network_learns_from_working_sets() -> None:
    weights, curve = fit.fit_paper(made_up(12, 20), fit.FitOptions(), silent, epochs=30)
    assert [layer.weight.shape for layer in weights.members[0]] == [(64, 8), (32, 64), (16, 32), (8, 16), (2, 8)]
    assert min(curve.validation[0]) < 0.5
    found = summary(list(judged_by("dnn-paper", made_up(4, 20, seed=5).groups, {"dnn-paper": weights}).values()))
    assert found["pair_accuracy"] > 0.8


def test_too_little_data() -> None:
    with pytest.raises(ValueError, match="four problems"):
        fit.fit_dnn(made_up(3, 10), QUICK, silent)


@pytest.mark.parametrize("kind", ["dnn", "dnn-paper"])
def test_the_command_writes_weights_curve_and_card(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load_data", lambda path, progress=None, rankers=(): made_up(12, 10))
    out = tmp_path / "w.safetensors"
    report = train_command(
        Path("d.parquet"), out, kind=kind, finetune=None, seed=1, epochs=2, members=1, exclude=["net2"], quiet=True
    )
    assert report["problems"] == 8
    loaded = load_dnn(out) if kind == "dnn" else load_paper(out)
    assert loaded.header.kind == kind
    assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")
    assert "without net2" in (tmp_path / "w.md").read_text()
    found = evaluation(made_up(12, 10), ["traffic", kind, "random", "default"], {kind: loaded})
    assert set(found["rankers"]) == {"traffic", kind, "random"}
    assert {"top1", "top5", "top5pct", "worst", "tau", "pair_accuracy"} <= set(found["rankers"][kind])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "svm"}, "no ranker of the kind 'svm'"),
        ({"out": "w.pt"}, "written as .safetensors"),
        ({"out": "nowhere/w.safetensors"}, "no folder"),
        ({"exclude": ["lenet"]}, "lenet"),
        ({"kind": "dnn-paper", "finetune": Path("w.safetensors")}, "only 'dnn' can be finetuned"),
    ],
)
def test_wrong_requests(
    changes: dict[str, object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_data", lambda path, progress=None, rankers=(): made_up(4, 5))
    given: dict[str, object] = {
        "kind": "dnn", "finetune": None, "seed": 0, "epochs": 1, "members": 1, "exclude": [], "quiet": True,
    } | changes  # fmt: skip
    out = tmp_path / str(given.pop("out", "w.safetensors"))
    with pytest.raises(InputError, match=message):
        train_command(Path("d.parquet"), out, **given)  # type: ignore[arg-type]
