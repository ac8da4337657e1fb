"""polydl: reads C loop nests, ranks legal schedules around a microkernel by their cache working sets, writes C.

    import polydl

    scops = polydl.load("kernel.c")            # what was extracted
    ranking = polydl.rank("kernel.c")          # the ranked variants, nothing run
    result = polydl.optimize("kernel.c")       # compiled, checked, timed; result.output is the C file

Everything is imported on first use (PEP 562), so that `import polydl` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from polydl._version import __version__

if TYPE_CHECKING:
    from polydl.pipeline import load, optimize, rank

__all__ = ["__version__", "load", "optimize", "rank"]


class _CallablePackage(ModuleType):
    """The subpackage `polydl.rank`, which is also the function `polydl.rank(…)` of the Python API.

    Importing any module of the subpackage binds it as the attribute `rank` of this package, over any function
    of that name; so the subpackage itself is made callable, and both meanings hold in whatever order they are used.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("polydl.pipeline").rank(*args, **kwargs)


class _Package(ModuleType):
    """This package's own class: sees the import system bind the subpackage `rank`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "rank" and type(value) is ModuleType:
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in ("load", "optimize"):
        return getattr(import_module("polydl.pipeline"), name)
    if name == "rank":
        return import_module("polydl.rank")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
