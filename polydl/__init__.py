"""polydl: reads C loop nests, ranks legal schedules around a microkernel by their cache working sets, writes C.

    import polydl

    program = polydl.load("kernel.c")                  # what was extracted
    table = polydl.rank(program.scops[0])              # the ranked variants, nothing run
    result = polydl.optimize("kernel.c")               # compiled, checked, timed; result.output is the C file
    kernel = polydl.compile("kernel.c", {"N": 1024})   # the same as a function of NumPy arrays and torch tensors
    builder = polydl.build("kernel")                   # a program that is made here, of which there is no file

Everything is imported on first use (PEP 562), so that `import polydl` costs nothing. `docs/python.md` has examples.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from polydl.base.version import __version__

if TYPE_CHECKING:
    from polydl.base.errors import InputError, PolyDLError
    from polydl.dependences.analysis import Dependence, dependences
    from polydl.frontend import Program
    from polydl.inspect.explain import Explained, explain
    from polydl.inspect.miss_counts import Misses, misses
    from polydl.model.build import Builder, build
    from polydl.model.scop import Scop
    from polydl.native import Kernel
    from polydl.native import compile_kernel as compile  # noqa: A004
    from polydl.native.sparse import SparseRows, sparse_rows
    from polydl.options import Options
    from polydl.pipeline import fuse, load, optimize, rank
    from polydl.rank.ranker import Ranker
    from polydl.results import FuseResult, OptimizeResult, Ranking
    from polydl.search.variant import Variant
    from polydl.target import Machine

__all__ = [
    "Builder",
    "Dependence",
    "Explained",
    "FuseResult",
    "InputError",
    "Kernel",
    "Machine",
    "Misses",
    "OptimizeResult",
    "Options",
    "PolyDLError",
    "Program",
    "Ranker",
    "Ranking",
    "Scop",
    "SparseRows",
    "Variant",
    "__version__",
    "build",
    "compile",
    "dependences",
    "explain",
    "fuse",
    "load",
    "misses",
    "optimize",
    "rank",
    "sparse_rows",
]

_HOMES = {
    "polydl.dependences.analysis": ("Dependence",),
    "polydl.inspect.explain": ("Explained", "explain"),
    "polydl.inspect.miss_counts": ("Misses", "misses"),
    "polydl.base.errors": ("InputError", "PolyDLError"),
    "polydl.frontend": ("Program",),
    "polydl.target": ("Machine",),
    "polydl.model.build": ("Builder", "build"),
    "polydl.model.scop": ("Scop",),
    "polydl.native": ("Kernel",),
    "polydl.native.sparse": ("SparseRows", "sparse_rows"),
    "polydl.options": ("Options",),
    "polydl.pipeline": ("fuse", "load", "optimize"),
    "polydl.rank.ranker": ("Ranker",),
    "polydl.results": ("FuseResult", "OptimizeResult", "Ranking"),
    "polydl.search.variant": ("Variant",),
}
_PLACES = {name: (module, name) for module, names in _HOMES.items() for name in names} | {
    "compile": ("polydl.native", "compile_kernel"),
}
"""Public name -> its module, and its name there."""

_FUNCTIONS = {
    "rank": ("polydl.pipeline", "rank"),
    "dependences": ("polydl.dependences.analysis", "dependences"),
}
"""Functions of the Python API that are called as a subpackage or a module is."""


class _CallableModule(ModuleType):
    """A subpackage, as `polydl.rank`, which is also a function of the Python API, `polydl.rank(…)`.

    Importing it, or any module of it, binds it as an attribute of this package, over any function of that name; so the
    subpackage itself is made callable, and both meanings hold in whatever order they are used.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module, name = _FUNCTIONS[self.__name__.rpartition(".")[2]]
        return getattr(import_module(module), name)(*args, **kwargs)


class _Package(ModuleType):
    """This package's own class: sees the import system bind such a subpackage."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FUNCTIONS and type(value) is ModuleType:
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return import_module(f"polydl.{name}")
    if name in _PLACES:
        module, there = _PLACES[name]
        return getattr(import_module(module), there)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
