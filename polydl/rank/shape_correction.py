"""What times on this machine say of the estimates of other programs: a factor for each kernel shape and each resource.

Bayesian linear regression (Bishop, "Pattern recognition and machine learning", 2006, equations 3.53 and 3.54) of what
the logarithms of times exceed those of estimates by, within each problem, on the shapes that a recipe has (blocks of
microkernels, what is packed, how many loops are tiled) and on the parts that the resources have in the estimate. What
was never timed has the factor 1. A search adds the correction and one standard deviation of it to the estimates of
all variants but the best one: replays showed that what comes first is not found out from other programs, and that
what comes next is (experiments/learning.py --across).
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from polydl.base.records import dataclass
from polydl.rank.ranker import FloatArray
from polydl.schedule.recipe import Recipe

_NAMES = frozenset(
    {"loop", "loops", "order", "rows", "columns", "reduce", "after", "statement", "barriers", "first", "into", "summed"}
)
"""Fields of transforms that hold names of the program (or numbers, which count): another program has others."""
_SHAPE, _RESOURCE = 0.02, 0.03
"""Standard deviations of a shape's and of a resource's logarithm of a factor before anything was timed."""
_NOISE = 0.06
"""Of what shapes and resources don't explain of a time."""
_FARTHEST = 0.3
"""How far a variant's miss may lie from its problem's median: what lies farther, a stall or a miscompiled loop, counts
as this far."""


def shapes_of(recipe: Recipe) -> Counter[str]:
    """What a recipe has that other programs may have, too, and how often: `Microkernel m=6 n=16`, `Pack operand=B`."""
    found: Counter[str] = Counter()
    for nest in recipe.nests:
        for transform in nest.transforms:
            fields = msgspec.to_builtins(transform)
            kind = fields.pop("transform")
            told = [
                f"{name}={value}"
                for name, value in fields.items()
                if isinstance(value, int) or (isinstance(value, str) and value and name not in _NAMES)
            ]
            found[" ".join([kind, *told])] += 1
            for name in ("reduce", "loops"):
                if isinstance(value := fields.get(name), list | tuple):
                    found[f"{kind} of {len(value)} {name}"] += 1
    return found


@dataclass(frozen=True, slots=True)
class Timings:
    """V variants of one problem that were timed together."""

    recipes: Sequence[Recipe]
    log_estimates: FloatArray
    """(V,) natural logarithms of seconds."""
    resources: Mapping[str, FloatArray]
    """(V,) each: the parts of the estimates, in seconds."""
    log_seconds: FloatArray
    """(V,) of the times."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What the correction says of one shape or resource."""

    name: str
    factor: float
    """By how much times exceed estimates, other things equal."""
    error: float
    """Standard deviation of its logarithm."""
    variants: int
    """That have the shape, or use the resource for a tenth of their time or more."""


@dataclass(frozen=True)
class Correction:
    """What was learned from some problems on one machine."""

    names: tuple[str, ...]
    """Shapes, then `resource …`; F of them."""
    mean: FloatArray
    """(F,) logarithms of factors."""
    covariance: FloatArray
    """(F, F)."""
    seen: tuple[int, ...]
    """(F,) see `Factor.variants`."""
    problems: int
    variants: int

    @cached_property
    def id(self) -> str:
        """Ten digits of a digest: equal corrections have equal ones."""
        told = repr((self.names, [f"{value:.9e}" for value in self.mean], self.problems, self.variants))
        return hashlib.sha256(told.encode()).hexdigest()[:10]

    @property
    def factors(self) -> list[Factor]:
        """What it says, the largest effects first."""
        errors = np.sqrt(np.diag(self.covariance))
        found = [
            Factor(name, math.exp(mean), float(error), seen)
            for name, mean, error, seen in zip(self.names, self.mean, errors, self.seen, strict=True)
        ]
        return sorted(found, key=lambda one: (-abs(math.log(one.factor)), one.name))

    def added(self, recipes: Sequence[Recipe], resources: Mapping[str, FloatArray], best: int) -> FloatArray:
        """(V,) what is added to the logarithms of the estimates of V variants of one problem: what its shapes and
        resources differ in from those of the `best` estimate, plus one standard deviation. 0 for that one."""
        rows = _rows(self.names, recipes, resources)
        apart = rows - rows[best]
        spread = np.einsum("vf,fg,vg->v", apart, self.covariance, apart)
        return np.asarray(apart @ self.mean + np.sqrt(np.maximum(spread, 0.0)))


def fitted(problems: Sequence[Timings]) -> Correction | None:
    """The correction that problems bear out; None where none has two variants that were timed."""
    usable = [one for one in problems if len(one.log_seconds) >= 2]
    if not usable:
        return None
    shapes = sorted({shape for one in usable for recipe in one.recipes for shape in shapes_of(recipe)})
    resources = sorted({name for one in usable for name in one.resources})
    names = (*shapes, *(f"resource {name}" for name in resources))
    prior = np.array([_SHAPE] * len(shapes) + [_RESOURCE] * len(resources))
    rows, misses, seen = [], [], np.zeros(len(names), dtype=np.int64)
    for one in usable:
        some = _rows(names, one.recipes, one.resources)
        seen += (some > np.where(np.arange(len(names)) < len(shapes), 0.0, 0.1)).sum(axis=0)
        miss = one.log_seconds - one.log_estimates
        miss = np.clip(miss - np.median(miss), -_FARTHEST, _FARTHEST)
        rows.append(some - some.mean(axis=0))
        misses.append(miss - miss.mean())
    table, miss = np.concatenate(rows), np.concatenate(misses)
    covariance = np.linalg.inv(table.T @ table / _NOISE**2 + np.diag(1 / prior**2))
    mean = covariance @ (table.T @ miss) / _NOISE**2
    return Correction(names, mean, covariance, tuple(int(n) for n in seen), len(usable), len(miss))


def _rows(names: Sequence[str], recipes: Sequence[Recipe], resources: Mapping[str, FloatArray]) -> FloatArray:
    """(V, F) how often each variant has each shape, and each resource's part of its estimate."""
    place = {name: i for i, name in enumerate(names)}
    rows = np.zeros((len(recipes), len(names)))
    for row, recipe in zip(rows, recipes, strict=True):
        for shape, count in shapes_of(recipe).items():
            if shape in place:
                row[place[shape]] = count
    whole = np.maximum(sum(np.maximum(part, 0.0) for part in resources.values()), 1e-30)
    for name, part in resources.items():
        if (column := place.get(f"resource {name}")) is not None:
            rows[:, column] = np.maximum(part, 0.0) / whole
    return rows
