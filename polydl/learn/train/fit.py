"""Training: our ensemble on pairs of measured variants of one problem, and the paper's network."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn import functional

from polydl.base.version import __version__
from polydl.learn.train.nets import Network, correction_network, paper_network
from polydl.learn.train.training_data import DataSet, Group
from polydl.rank import paper_model
from polydl.rank.features import FEATURES_VERSION, names
from polydl.rank.ranker import FloatArray
from polydl.rank.weights import Header, Weights


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How to train. The same options and data give the same weights on the same machine and torch."""

    seed: int = 0
    members: int = 5
    """Networks of the ensemble; each has its own validation problems and starting weights."""
    hidden: tuple[int, ...] = (64, 32)
    dropout: float = 0.1
    rate: float = 2e-3
    """Learning rate of AdamW, which falls to nothing along a cosine."""
    decay: float = 1e-2
    """Weight decay."""
    epochs: int = 240
    patience: int = 60
    """Epochs without a better validation loss after which a member stops."""
    batch: int = 24
    """Problems per step of the optimiser."""
    validation: float = 0.15
    """Part of the problems that a member is not trained on but stopped by."""
    temperature: float = 0.03
    """Scale of the pairwise logistic: difference of logarithms of seconds."""
    clip: float = 4.0
    """Standard deviations at which features are cut off."""


@dataclass(slots=True)
class Curve:
    """Losses by epoch: one list per member."""

    train: list[list[float]] = field(default_factory=list)
    validation: list[list[float]] = field(default_factory=list)


FINETUNING = FitOptions(epochs=120, rate=1e-3, patience=40, batch=2)
"""From weights that are nearly right, on a few problems: small steps, many of them."""

Tell = Callable[[str, int, int], None]
"""progress(stage, done, total)."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Problems padded to the same number of variants."""

    values: torch.Tensor
    """(G, V, F) normalised features."""
    base: torch.Tensor
    """(G, V) logarithms of the traffic model's seconds."""
    target: torch.Tensor
    """(G, V) of the measured seconds."""
    noise: torch.Tensor
    """(G, V)."""
    there: torch.Tensor
    """(G, V) bool: not padding."""

    def take(self, which: torch.Tensor) -> _Batch:
        return _Batch(*(getattr(self, name)[which] for name in self.__slots__))


@contextmanager
def one_thread() -> Iterator[None]:
    """The networks are too small to be worth a second thread, and sums then do not depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def device() -> torch.device:
    """CUDA where there is some."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def normalisation(groups: Sequence[Group]) -> tuple[FloatArray, FloatArray]:
    """(mean, scale) of the features, each problem counting the same; scale 0 for what does not vary."""
    mean = np.mean([g.features.mean(axis=0) for g in groups], axis=0)
    variance = np.mean([((g.features - mean) ** 2).mean(axis=0) for g in groups], axis=0)
    deviation = np.sqrt(variance)
    scale = np.where(deviation > 1e-6, 1.0 / np.maximum(deviation, 1e-6), 0.0)
    # As the file keeps them.
    return mean.astype(np.float32).astype(np.float64), scale.astype(np.float32).astype(np.float64)


def _batch(groups: Sequence[Group], mean: FloatArray, scale: FloatArray, clip: float, where: torch.device) -> _Batch:
    most = max(len(g) for g in groups)
    width = len(mean)
    values = np.zeros((len(groups), most, width), dtype=np.float32)
    rows = np.zeros((3, len(groups), most), dtype=np.float32)
    there = np.zeros((len(groups), most), dtype=np.bool_)
    for i, g in enumerate(groups):
        n = len(g)
        values[i, :n] = np.clip((g.features - mean) * scale, -clip, clip)
        # Centred, so that float32 keeps the digits of small differences.
        centre = g.log_seconds.min()
        rows[0, i, :n] = np.log(g.traffic_seconds) - centre
        rows[1, i, :n] = g.log_seconds - centre
        rows[2, i, :n] = g.noise
        there[i, :n] = True
    return _Batch(*(torch.from_numpy(x).to(where) for x in (values, rows[0], rows[1], rows[2], there)))


def _loss(network: Network, batch: _Batch, temperature: float) -> torch.Tensor:
    """Cross entropy of the pairs against the probability that the measured order is the true one, the nearer a pair is
    to the best the more it counts; plus a little of the absolute error, which calibrates the seconds."""
    correction = network(batch.values)[..., 0]
    score = batch.base + correction
    logits = (score[:, None, :] - score[:, :, None]) / temperature
    apart = batch.target[:, None, :] - batch.target[:, :, None]
    deviation = torch.sqrt(batch.noise[:, None, :] ** 2 + batch.noise[:, :, None] ** 2)
    wins = 0.5 * (1 + torch.erf(apart / deviation.clamp_min(1e-4) / math.sqrt(2)))
    gap = batch.target - batch.target.masked_fill(~batch.there, math.inf).amin(dim=1, keepdim=True)
    nearer = torch.minimum(gap[:, None, :], gap[:, :, None])
    weight = torch.exp(-nearer / 0.1) + 0.1
    upper = torch.triu(torch.ones_like(weight[0]), 1)
    weight = weight * upper * (batch.there[:, None, :] & batch.there[:, :, None])
    each = functional.binary_cross_entropy_with_logits(logits, wins, reduction="none")
    pairs = (each * weight).sum(dim=(1, 2)) / weight.sum(dim=(1, 2))
    near = batch.there * (torch.exp(-gap / 0.3) + 0.05)
    error = functional.smooth_l1_loss(score, batch.target, reduction="none", beta=0.1)
    absolute = (error * near).sum(dim=1) / near.sum(dim=1)
    return (pairs + 0.3 * absolute).mean()


@one_thread()
def fit_dnn(data: DataSet, options: FitOptions, tell: Tell, start: Weights | None = None) -> tuple[Weights, Curve]:
    """Train `dnn`, from `start` on where that is given (its normalisation is kept). Raises ValueError for less than
    four problems."""
    groups = list(data.groups)
    if len(groups) < 4:
        raise ValueError("training needs at least four problems")
    where = device()
    mean, scale = (start.mean, start.scale) if start else normalisation(groups)
    whole = _batch(groups, mean, scale, options.clip, where)
    curve = Curve()
    members = []
    count = len(start.members) if start else options.members
    for member in range(count):
        generator = torch.Generator().manual_seed(options.seed * 1000 + member)
        torch.manual_seed(options.seed * 1000 + member)
        if start:
            network = Network.of(start.members[member], options.dropout)
        else:
            network = correction_network(len(mean), options.hidden, options.dropout)
        held = max(1, round(options.validation * len(groups)))
        order = torch.randperm(len(groups), generator=generator)
        best = _fit_member(
            network.to(where), whole.take(order[held:].to(where)), whole.take(order[:held].to(where)), options,
            generator, curve, lambda epoch, m=member: tell("train", m * options.epochs + epoch, count * options.epochs),  # type: ignore[misc]
        )  # fmt: skip
        members.append(best.layers())
    header = Header(
        kind="dnn",
        features_version=FEATURES_VERSION,
        features=names(),
        activations=tuple(layer.activation for layer in members[0]),
        members=len(members),
        data=data.digest,
        polydl=__version__,
        numbers={
            "clip": options.clip,
            "temperature": options.temperature,
            # On the machine and the sizes that it was finetuned for, the ensemble needs no second opinion.
            "second_opinion": 0.0 if start else 1.0,
        },
        notes={
            "machines": ", ".join(data.machines),
            "problems": str(len(groups)),
            "variants": str(data.variants),
            "seed": str(options.seed),
            "torch": torch.__version__,
            "finetuned_from": start.header.data if start else "",
        },
    )
    return Weights(header, mean, scale, tuple(members)), curve


def _fit_member(
    network: Network,
    train: _Batch,
    held: _Batch,
    options: FitOptions,
    generator: torch.Generator,
    curve: Curve,
    tell: Callable[[int], None],
) -> Network:
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.rate, weight_decay=options.decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    best, best_loss, since = copy.deepcopy(network), math.inf, 0
    losses: tuple[list[float], list[float]] = ([], [])
    for epoch in range(options.epochs):
        network.train()
        order = torch.randperm(len(train.values), generator=generator).to(train.values.device)
        total = 0.0
        for at in range(0, len(order), options.batch):
            some = order[at : at + options.batch]
            loss = _loss(network, train.take(some), options.temperature)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            total += float(loss.detach()) * len(some)
        schedule.step()
        network.eval()
        with torch.no_grad():
            now = float(_loss(network, held, options.temperature))
        losses[0].append(total / len(order))
        losses[1].append(now)
        since += 1
        if now < best_loss:
            best, best_loss, since = copy.deepcopy(network), now, 0
        if since >= options.patience:
            break
        tell(epoch + 1)
    tell(options.epochs)
    curve.train.append(losses[0])
    curve.validation.append(losses[1])
    return best.cpu().eval()


@one_thread()
def fit_paper(data: DataSet, options: FitOptions, tell: Tell, epochs: int = 30) -> tuple[Weights, Curve]:
    """Train `dnn-paper` on all pairs of the same problem, in both orders, with cross entropy (Adam, rate 1e-3)."""
    where = device()
    generator = torch.Generator().manual_seed(options.seed)
    torch.manual_seed(options.seed)
    groups = list(data.groups)
    held = max(1, round(options.validation * len(groups)))
    order = torch.randperm(len(groups), generator=generator).tolist()
    train = _pairs([groups[i] for i in order[held:]], where)
    test = _pairs([groups[i] for i in order[:held]], where)
    network = paper_network().to(where)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    best, best_loss = copy.deepcopy(network), math.inf
    losses: tuple[list[float], list[float]] = ([], [])
    for epoch in range(epochs):
        total = 0.0
        shuffled = torch.randperm(len(train[0]), generator=generator).to(where)
        step = min(1024, max(64, len(shuffled) // 32))
        for at in range(0, len(shuffled), step):
            some = shuffled[at : at + step]
            loss = functional.cross_entropy(network(train[0][some]), train[1][some])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach()) * len(some)
        with torch.no_grad():
            now = float(functional.cross_entropy(network(test[0]), test[1]))
        losses[0].append(total / len(shuffled))
        losses[1].append(now)
        if now < best_loss:
            best, best_loss = copy.deepcopy(network), now
        tell("train", epoch + 1, epochs)
    inputs = paper_model.INPUTS
    header = Header(
        kind="dnn-paper",
        features_version=paper_model.FEATURES_VERSION,
        features=inputs,
        activations=paper_model.ACTIVATIONS,
        members=1,
        data=data.digest,
        polydl=__version__,
        numbers={"theta": paper_model.THETA},
        notes={"machines": ", ".join(data.machines), "problems": str(len(groups)), "torch": torch.__version__},
    )
    unused = np.zeros(len(inputs)), np.ones(len(inputs))
    return Weights(header, *unused, (best.cpu().layers(),)), Curve([losses[0]], [losses[1]])


def _pairs(groups: Sequence[Group], where: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (N, 8) and the class, 0: the first is faster. Pairs of equal working sets teach nothing: left out."""
    inputs, labels = [], []
    for g in groups:
        first, second = np.nonzero(~np.eye(len(g), dtype=np.bool_))
        differ = (g.working_sets[first] != g.working_sets[second]).any(axis=1)
        first, second = first[differ], second[differ]
        inputs.append(paper_model.pair_inputs(g.working_sets[first], g.working_sets[second]))
        labels.append((g.log_seconds[first] > g.log_seconds[second]).astype(np.int64))
    values = np.concatenate(inputs).astype(np.float32)
    return torch.from_numpy(values).to(where), torch.from_numpy(np.concatenate(labels)).to(where)
