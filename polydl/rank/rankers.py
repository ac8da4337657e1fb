"""The rankers by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from polydl.base.errors import InputError, ModelError, one_of
from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.rank.cost import CostRanker
from polydl.rank.dnn import DnnRanker
from polydl.rank.exact_misses import MissesRanker
from polydl.rank.paper_model import PaperRanker
from polydl.rank.plugged import installed, plugged
from polydl.rank.ranker import Ranker
from polydl.rank.trace import TraceRanker
from polydl.rank.traffic import TrafficRanker
from polydl.schedule.loops import NestLoops


@dataclass(frozen=True, slots=True)
class Known:
    """A ranker of polydl's."""

    name: str
    kind: type[Ranker]
    learned: bool = False
    """It needs weights."""
    of_contractions: bool = True
    """What it knows is microkernels and tensors: it is asked about nests with a contraction only."""
    counts_each: Callable[[Scop, Nest], bool] = lambda scop, nest: False
    """Whether isl counts each structure of a nest, which takes a part of a second or seconds."""
    counts_all: bool = False
    """It does so for every nest: only who asks for it by name waits for it."""


TABLE = (
    Known("traffic", TrafficRanker, of_contractions=False),
    Known("cost", CostRanker, counts_each=CostRanker.counts_each),
    Known("trace", TraceRanker),
    Known("misses", MissesRanker, of_contractions=False, counts_each=lambda scop, nest: True, counts_all=True),
    Known("dnn", DnnRanker, learned=True),
    Known("dnn-paper", PaperRanker, learned=True),
)

NAMES = tuple(known.name for known in TABLE)
"""Those of polydl. `named` also knows the path of a file of weights (`*.safetensors`) of a `dnn`, and the rankers that
other packages register (polydl.rank.plugged)."""

QUICK = tuple(known.name for known in TABLE if not known.counts_all)
"""Those that may be asked where nobody chose them."""

ANALYTIC = tuple(known.name for known in TABLE if not (known.learned or known.counts_all))
"""Those of them that need no weights."""


def of_contractions(ranker: Ranker) -> bool:
    """Whether a ranker is asked about nests with a contraction only; those of other packages are asked about all."""
    return any(isinstance(ranker, known.kind) and known.of_contractions for known in TABLE)


class RankerWarning(UserWarning):
    """A learned ranker cannot be used; another one took its place."""


def available() -> dict[str, Ranker]:
    """Those of ANALYTIC by name."""
    return {known.name: known.kind() for known in TABLE if known.name in ANALYTIC}


def named(name: str) -> Ranker:
    """The ranker called `name`, or the one of a file of weights. Raises InputError for an unknown name, ModelError
    for weights that cannot be used, PolyDLError for another package's ranker that cannot be loaded."""
    if name.endswith(".safetensors"):
        return DnnRanker(Path(name))
    for known in TABLE:
        if known.name == name:
            return known.kind()
    others = installed()
    if name in others:
        return plugged(others[name])
    hint = f"{one_of(name, (*NAMES, *others))}; or a file of weights, FILE.safetensors"
    raise InputError(f"no ranker called '{name}'", hint=hint)


MOST_COUNTED = 100
"""Structures that isl counts where nobody asked for just that: half a minute."""


def takes_long(ranker: Ranker, scop: Scop, nests: Sequence[Nest], structures: Mapping[str, Sequence[NestLoops]]) -> str:
    """Why a ranker takes minutes for these structures, by the name of their nest; empty where it does not."""
    counts_each = next((known.counts_each for known in TABLE if isinstance(ranker, known.kind)), None)
    for nest in nests:
        many = len(structures[nest.name])
        if counts_each is not None and many > MOST_COUNTED and counts_each(scop, nest):
            return f"it would count what is touched by {many} structures of {nest.name}, one by one"
    return ""


def usable(name: str) -> Ranker:
    """As `named`; where the weights cannot be used, `traffic`, with a RankerWarning that says why."""
    try:
        return named(name)
    except ModelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        warnings.warn(f"{error.reason}; ranked by traffic instead{hint}", RankerWarning, stacklevel=2)
        return TrafficRanker()
