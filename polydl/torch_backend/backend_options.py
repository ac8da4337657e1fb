"""What `torch.compile(model, backend="polydl", mode=…, options=…)` can be told: `BackendOptions`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from polydl.base.errors import InputError, one_of
from polydl.target.detect import cores_of

_BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")
"""What tells OpenMP to bind threads to cores; the one that asks may use one core alone then."""


def usable_cores() -> int:
    """Cores that this process may use: equal in all processes, however many threads PyTorch has in one."""
    bound = any(os.environ.get(name, "false").lower() != "false" for name in _BINDING)
    return cores_of(set(range(os.cpu_count() or 1)) if bound else set(os.sched_getaffinity(0)))


MODES: dict[str, Mapping[str, object]] = {
    "default": {},
    "reduce-overhead": {},  # nothing to reduce: a graph is a few calls of C whatever the mode
    "max-autotune": {"tune": True},
    "max-autotune-no-cudagraphs": {"tune": True},
}
"""torch's modes, and what each stands for."""
WEIGHTS = ("packed", "live", "frozen")
PARTITIONS = ("min-cut", "default")


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The values of `options=`; each field is a key of it."""

    tune: bool = False
    """Whether the best ranked variants of a group are compiled, checked and timed, instead of taking the first one,
    and groups with little work, too, are left to eager PyTorch where that is measured to run them faster."""
    groups: int = 64
    """How many different groups of a graph are searched, those with most work first; others are compiled as they are
    written. A count and not a time, so that a loaded machine gets the same code."""
    least_work: float = 100_000.0
    """Floating-point operations plus bytes of a group from which it is searched: what takes some microseconds gains
    nothing worth a second of compilation. Groups that take sizes are searched whatever their work is at those of the
    first call."""
    weights: str = "packed"
    """`packed`: what depends on parameters alone is computed once, and again when one of them changes. `live`: in
    every call. `frozen`: once, whatever happens to the parameters."""
    strict: bool = False
    """Whether an operator or a group that would be left to eager PyTorch is an error."""
    threads: int | None = None
    """Threads that variants are ranked for; None: the cores that this process may use (`usable_cores`). How many run a
    call is `torch.set_num_threads`, for which nothing is made anew."""
    reassociate: bool = True
    """Whether sums may be added up in another order."""
    fast_math: bool = False
    """Whether exp, tanh and erf may be approximated (relative error 2^-17)."""
    check: bool = False
    """Whether the first call of each graph is compared with eager PyTorch."""
    report: str | Path | Callable[[Any], object] | None = None
    """A file to which a text about each compiled graph is appended, or a function that is given its `GraphReport`."""
    log: bool = False
    """Whether stderr is told of each group that was searched, as it is done."""
    partition: str = "min-cut"
    """How forward and backward are cut apart when training: `min-cut` recomputes what is cheap, `default` saves all."""
    sizes: int = 8
    """For how many sizes of a graph with symbolic sizes code is made where there is none for all of them: further ones
    run eagerly."""
    cc: str = "gcc"
    """The C compiler. gcc shares the OpenMP runtime of PyTorch's wheels; clang would bring another one."""

    def __post_init__(self) -> None:
        hints = get_type_hints(BackendOptions)
        for one in fields(self):
            _check(one.name, getattr(self, one.name), str(one.type), hints[one.name])
        for name, known in (("weights", WEIGHTS), ("partition", PARTITIONS)):
            if getattr(self, name) not in known:
                raise InputError(f"option '{name}' is {getattr(self, name)!r}", hint=f"it may be {', '.join(known)}")
        for name, least in (("groups", 0), ("least_work", 0), ("sizes", 1), ("threads", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"option '{name}' is {value}, and must not be less than {least}")


def _check(name: str, value: object, declared: str, hint: Any) -> None:
    """Raise InputError for a value of another type than its field's."""
    kinds = tuple(get_origin(one) or one for one in get_args(hint) or (hint,))
    if float in kinds and type(value) is int:
        return
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(f"option '{name}' is {value!r}", hint=f"it is of type {declared}")


def read(mode: str | None, options: Mapping[str, object] | None) -> BackendOptions:
    """The options of a call of the backend. Raises InputError for an unknown mode or key, naming the known ones."""
    if mode is not None and mode not in MODES:
        raise InputError(f"the backend polydl has no mode '{mode}'", hint=f"{one_of(mode, MODES)}")
    known = [one.name for one in fields(BackendOptions)]
    for name in options or {}:
        if name not in known:
            raise InputError(f"the backend polydl has no option '{name}'", hint=one_of(name, known))
    changes: dict[str, Any] = {**MODES[mode or "default"], **(options or {})}
    return replace(BackendOptions(), **changes)
