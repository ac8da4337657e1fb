"""The corpus of affine programs: what `catalogue.toml` says of them, and C texts that run and compare their functions.

A program is one C file with a function of its own name. Its sizes are macros, or integer parameters of the function.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path

from tests.oracle.native import apart

FOLDER = Path(__file__).parent
DEFAULT_KIND = "int"
SCALAR_VALUES = (2, 3, 1, 4)
"""Values of floating-point parameters, in their order."""
_FUNCTION = re.compile(r"^(?:static )?(?:inline )?[a-z]\w*(?: [a-z]\w*)*[ *]+(\w+)\(([^;{]*?)\)\s*\{", re.MULTILINE)
_GLOBAL = re.compile(r"^(?:static )?(unsigned char|float|double|int)((?: \w+(?:\[[^\];]+\])+,?)+);", re.MULTILINE)
_TYPEDEF = re.compile(r"^typedef ((?:unsigned |signed )?\w+) (\w+);", re.MULTILINE)
_INTEGERS = ("int", "unsigned", "size_t", "long")


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a program's function, or a global array."""

    name: str
    ctype: str
    """Element type."""
    extents: tuple[str, ...] | None
    """C expressions of the array's extents; () for a scalar, None for a pointer, also to rows."""
    is_global: bool = False

    @property
    def is_array(self) -> bool:
        return self.extents != ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A program and what the catalogue says of it."""

    name: str
    kind: str
    """`reuse` or `other`."""
    sizes: tuple[Mapping[str, int], ...]
    """Values of macros and integer parameters to test, the quick ones first."""
    bench: Mapping[str, int]
    """Values to time."""
    data: str
    arrays: Mapping[str, str]
    bound: float
    dead: tuple[str, ...]
    elements: Mapping[str, str]
    """C expressions: how many there are in an array that a pointer stands for, or whose extents the file defines; of a
    matrix, rows * columns."""
    folder: Path = FOLDER
    contraction: int | None = None
    """Statements that a microkernel is made for, however they are spelled; None: the catalogue does not say."""
    below: Mapping[str, str] = field(default_factory=dict)
    """C expressions: arrays whose elements are subscripts (or, in floating point, places between two), and what all of
    them are below. Only for programs that are timed."""
    apart: Mapping[str, int] = field(default_factory=dict)
    """Arrays that say where rows start, and how many elements each has. Only for programs that are timed."""

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.c"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The parameters of the function, then the global arrays."""
        text = self.text
        parameters = next(m.group(2) for m in _FUNCTION.finditer(text) if m.group(1) == self.name)
        named = {name: meaning for meaning, name in _TYPEDEF.findall(text)}
        found = [_parameter(p, named) for p in re.split(r",(?![^\[]*\])", parameters) if p.strip() != "void"]
        for ctype, names in _GLOBAL.findall(text):
            for name, extents in re.findall(r"(\w+)((?:\[[^\]]+\])+)", names):
                found.append(Argument(name, ctype, tuple(re.findall(r"\[([^\]]+)\]", extents)), True))
        return tuple(found)

    @property
    def runtime(self) -> frozenset[str]:
        """Sizes that are parameters of the function, or members of structures, as `c_rows`; the others are macros."""
        members = {name for name in self.sizes[0] if "_" in name}
        return frozenset(a.name for a in self.arguments if not a.is_array and a.ctype in _INTEGERS) | members

    def defines(self, values: Mapping[str, int]) -> dict[str, str | int]:
        """Those of the values that are macros."""
        return {name: value for name, value in values.items() if name not in self.runtime}

    def parameters(self, values: Mapping[str, int]) -> dict[str, int]:
        """Those of the values that are parameters of the function."""
        return {name: value for name, value in values.items() if name in self.runtime}

    def data_of(self, array: str) -> str:
        """Kind of an array's input data."""
        return self.arrays.get(array, self.data)


def _parameter(text: str, named: Mapping[str, str]) -> Argument:
    plain = re.sub(r"\b(const|restrict)\b", "", text).strip()
    match = re.fullmatch(
        r"((?:struct )?[a-z_]\w*(?: char| long| complex)?)"
        r"(?:\s*\(\*\s*(\w+)\)|\s*(\*)\s*(\w+)|\s+(\w+))((?:\[[^\]]*\])*)",
        plain,
    )
    assert match is not None, text
    ctype, rows, pointer, pointed, name, extents = match.groups()
    shape = None if rows or pointer else tuple(e.strip() for e in re.findall(r"\[([^\]]*)\]", extents))
    return Argument(rows or pointed or name, named.get(ctype, ctype), shape)


@cache
def catalogue(folder: Path = FOLDER) -> Mapping[str, Entry]:
    """Every program of a folder by name."""
    with (folder / "catalogue.toml").open("rb") as file:
        tables = tomllib.load(file)
    return {
        name: Entry(
            name,
            table["class"],
            tuple(table["sizes"]),
            table["bench"],
            table.get("data", DEFAULT_KIND),
            table.get("arrays", {}),
            table.get("bound", 0.0),
            tuple(table.get("dead", ())),
            table.get("elements", {}),
            folder,
            table.get("contraction"),
            table.get("below", {}),
            table.get("apart", {}),
        )
        for name, table in tables.items()
    }


def renamed(entry: Entry, text: str, suffix: str, global_suffix: str) -> str:
    """A text of the program with functions of other names: `suffix` behind the names of the program's functions and
    in those of the helpers that polydl adds, `global_suffix` behind the names of global arrays."""
    for name in {m.group(1) for m in _FUNCTION.finditer(entry.text)}:
        text = re.sub(rf"\b{name}\b(?=\s*\()", name + suffix, text)
    for argument in entry.arguments:
        if argument.is_global:
            text = re.sub(rf"\b{argument.name}\b", argument.name + global_suffix, text)
    return apart(text, suffix)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Texts of a program to compare at one choice of sizes: the original first."""

    values: Mapping[str, int]
    texts: Sequence[str]
    runs: Sequence[Mapping[str, int]] = ()
    """Other values of the function's integer parameters to run the same texts with."""


_SUPPORT = (FOLDER / "support.h").read_text(encoding="utf-8")


def comparison_program(entry: Entry, comparisons: Sequence[Comparison]) -> str:
    """One C text: a program that says on standard output which texts left other values than the original.

    Its exit code is the number of differences (at most 99).
    """
    parts = [_SUPPORT]
    calls: list[str] = []
    for number, comparison in enumerate(comparisons):
        where = f"_z{number}"
        for name, value in entry.defines(comparison.values).items():
            parts.append(f"#undef {name}\n#define {name} {value}")
        for which, text in enumerate(comparison.texts):
            parts.append(renamed(entry, text, f"{where}v{which}", where))
        for run, values in enumerate((comparison.values, *comparison.runs)):
            parts.append(_runner(entry, values, where, f"{where}r{run}", len(comparison.texts)))
            calls.append(f"    differences += run{where}r{run}();")
    body = "\n".join(calls)
    parts.append(
        f"int main(void)\n{{\n    int differences = 0;\n{body}\n    return differences > 99 ? 99 : differences;\n}}\n"
    )
    return "\n".join(parts)


def argument_texts(entry: Entry, values: Mapping[str, int]) -> list[tuple[Argument, str]]:
    """Each parameter of the function with the C expression to call it with; arrays by their own name."""
    scalars = cycle(SCALAR_VALUES)
    texts = []
    for argument in entry.arguments:
        if argument.is_global:
            continue
        if argument.is_array:
            texts.append((argument, f"(void *){argument.name}"))
        else:
            texts.append((argument, str(values[argument.name] if argument.name in values else next(scalars))))
    return texts


def records(entry: Entry, addresses: Mapping[str, str], bounds: Mapping[str, float]) -> list[str]:
    """Initialisers of `struct corpus_array`, an array each: `addresses` are those of global arrays, `bounds` replace
    the entry's."""
    lines = []
    for argument in entry.arguments:
        if not argument.is_array:
            continue
        if argument.extents is None or argument.name in entry.elements:
            elements = entry.elements[argument.name]
            columns = elements.rpartition(" * ")[2]
        else:
            elements = " * ".join(f"(size_t)({e})" for e in argument.extents)
            columns = argument.extents[-1]
        base = argument.ctype.removesuffix(" complex")  # complex numbers are pairs of real ones
        if base != argument.ctype:
            elements, columns = f"2 * ({elements})", f"2 * ({columns})"
        kind = f"CORPUS_{entry.data_of(argument.name).upper()}"
        bound = bounds.get(argument.name, entry.bound)
        lines.append(
            f'        {{ "{argument.name}", {addresses.get(argument.name, "0")}, {elements}, {columns}, '
            f"sizeof({base}), CORPUS_TYPE({base}), {kind}, {bound!r}, "
            f"{int(argument.name in entry.dead)}, 0 }},"
        )
    return lines


def _runner(entry: Entry, values: Mapping[str, int], where: str, name: str, texts: int) -> str:
    lines = [f"static int run{name}(void)", "{", "    int differences = 0;"]
    lines += [f"    long {n} = {v};" for n, v in entry.parameters(values).items()]
    arrays = [a for a in entry.arguments if a.is_array]
    addresses = {a.name: f"(char *){a.name}{where}" for a in arrays if a.is_global}
    lines += ["    struct corpus_array arrays[] = {", *records(entry, addresses, {}), "    };"]
    lines += [f"    int count = {len(arrays)};", "    corpus_allocate(arrays, count);"]
    lines += [f"    void *{a.name} = arrays[{i}].data;" for i, a in enumerate(arrays) if not a.is_global]
    call = ", ".join(text for _, text in argument_texts(entry, values))
    shown = " ".join(f"{n}={v}" for n, v in values.items())
    for which in range(texts):
        lines.append("    corpus_fill(arrays, count);")
        lines.append(f"    {entry.name}{where}v{which}({call});")
        if which == 0:
            lines.append("    corpus_keep(arrays, count);")
        else:
            lines.append(f'    differences += corpus_compare(arrays, count, "{entry.name} {shown} text {which}");')
    lines += ["    corpus_free(arrays, count);", "    return differences;", "}"]
    return "\n".join(lines)
