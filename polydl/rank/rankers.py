"""The rankers by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from polydl.base.errors import InputError, ModelError, one_of
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.rank.cost import CostRanker
from polydl.rank.dnn import DnnRanker
from polydl.rank.paper_model import PaperRanker
from polydl.rank.plugged import installed, plugged
from polydl.rank.ranker import Ranker
from polydl.rank.trace import TraceRanker
from polydl.rank.traffic import TrafficRanker
from polydl.schedule.loops import NestLoops

NAMES = ("traffic", "cost", "trace", "dnn", "dnn-paper")
"""Those of polydl. `named` also knows the path of a file of weights (`*.safetensors`) of a `dnn`, and the rankers that
other packages register (polydl.rank.plugged)."""

ANALYTIC = ("traffic", "trace", "cost")
"""Those that need no weights."""


OF_CONTRACTIONS = (TraceRanker, CostRanker, DnnRanker, PaperRanker)
"""Those that are asked about nests with a contraction only: what they know is microkernels and tensors."""


class RankerWarning(UserWarning):
    """A learned ranker cannot be used; another one took its place."""


def available() -> dict[str, Ranker]:
    """The analytic rankers by name, which need no weights."""
    return {ranker.name: ranker for ranker in (TrafficRanker(), CostRanker(), TraceRanker())}


def named(name: str) -> Ranker:
    """The ranker called `name`, or the one of a file of weights. Raises InputError for an unknown name, ModelError
    for weights that cannot be used, PolyDLError for another package's ranker that cannot be loaded."""
    if name.endswith(".safetensors"):
        return DnnRanker(Path(name))
    if name == "dnn":
        return DnnRanker()
    if name == "dnn-paper":
        return PaperRanker()
    found = available()
    if name in found:
        return found[name]
    others = installed()
    if name in others:
        return plugged(others[name])
    hint = f"{one_of(name, (*NAMES, *others))}; or a file of weights, FILE.safetensors"
    raise InputError(f"no ranker called '{name}'", hint=hint)


MOST_COUNTED = 100
"""Structures whose working sets isl counts where nobody asked for just that: half a minute."""


def takes_long(ranker: Ranker, scop: Scop, nests: Sequence[Nest], structures: Mapping[str, Sequence[NestLoops]]) -> str:
    """Why a ranker takes minutes for these structures, by the name of their nest; empty where it does not."""
    for nest in nests:
        many = len(structures[nest.name])
        if isinstance(ranker, CostRanker) and many > MOST_COUNTED and ranker.counts_each(scop, nest):
            return f"it would count the working sets of {many} structures of {nest.name}, one by one"
    return ""


def usable(name: str) -> Ranker:
    """As `named`; where the weights cannot be used, `traffic`, with a RankerWarning that says why."""
    try:
        return named(name)
    except ModelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        warnings.warn(f"{error.reason}; ranked by traffic instead{hint}", RankerWarning, stacklevel=2)
        return TrafficRanker()
