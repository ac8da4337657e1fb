"""The functions of a file, as regions are looked for in them."""

from __future__ import annotations

import re

from pycparser import c_ast

from polydl.base.errors import InputError, InputErrors
from polydl.base.records import dataclass
from polydl.frontend.core.deduced_types import deduce
from polydl.frontend.core.reinterpreted import every_function
from polydl.frontend.core.side_effect_sequencing import conditions_apart, stepped_apart
from polydl.frontend.lower.inlined import Calls, expanded
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.symbols import Scope
from polydl.frontend.text.chunks import DEDUCED
from polydl.frontend.text.parse import Unit
from polydl.model.scop import Storage

_THREADPRIVATE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+threadprivate[ \t]*\(([^)]*)\)", re.MULTILINE)
_DEDUCING = re.compile(rf"\btypeof|__typeof|{DEDUCED}")


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of a file."""

    own: tuple[c_ast.FuncDef, ...]
    """Definitions that stand in the file itself, in textual order."""
    calls: Calls
    """What becomes of the calls of one by another."""
    scope: Scope
    """Names visible everywhere."""
    aliased: frozenset[str]
    """The names of those that read scalars through pointers to other types."""


def functions_of(unit: Unit, function: str | None) -> Functions:
    """The functions of a file, with steps that stand alone: the trees are changed. Raises
    InputErrors where there is no `function`."""
    file_scope = Scope()
    functions = []
    private = {name for names in _THREADPRIVATE.findall(unit.source.text) for name in re.findall(r"\w+", names)}
    for external in unit.externals:
        if isinstance(external, c_ast.FuncDef):
            file_scope.declare(external.decl, Storage.GLOBAL, constant)
            if external.coord is not None and str(external.coord.file) == unit.source.path:
                functions.append(external)
        else:
            if isinstance(external, c_ast.Decl) and external.name in private:
                external.storage = [*external.storage, "_Thread_local"]
            file_scope.declare(external, Storage.GLOBAL, constant)
    defined = set(unit.chunks)
    if function is not None and function not in defined:
        raise InputErrors(
            [
                InputError(
                    f"there is no function '{function}'",
                    unit.source.line_span(1),
                    f"functions of the file: {', '.join(sorted(defined)) or 'none'}",
                )
            ]
        )
    definitions = [one for one in unit.externals if isinstance(one, c_ast.FuncDef)]
    if _DEDUCING.search(unit.preprocessed.text):
        deduce(definitions, file_scope)
    aliased = every_function(definitions, file_scope)
    calls = expanded(functions, unit, file_scope)
    for definition in (*functions, *calls.expanded.values()):
        stepped_apart(definition.body)
        conditions_apart(definition.body)
    return Functions(tuple(functions), calls, file_scope, aliased)
