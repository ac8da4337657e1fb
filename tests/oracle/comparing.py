"""Compares Scops with the C that they were read from, for tests, and for all programs that the repository has:

python -m tests.oracle.comparing [--fillings 10] [NAME …]
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polydl.base.errors import InputError
from polydl.frontend import load
from polydl.model.scop import Scop
from polydl.oracle.fillings import Filling, fillings
from polydl.oracle.given_arguments import Setting
from polydl.oracle.region_marks import has_lanes, marked
from polydl.oracle.scop_compared import Compared, Prepared, Verdict, compare_all, prepare
from tests.compiling import run_compiler

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS / "programs", TESTS / "everyday")
BEST = (Verdict.DIFFERENT, Verdict.EQUAL, Verdict.UNSUPPORTED, Verdict.OUTSIDE, Verdict.UNDEFINED, Verdict.NOT_REACHED)
"""Of several comparisons the first of these is what is said of all."""


@dataclass(frozen=True, slots=True)
class Case:
    """A file, with sizes."""

    path: Path
    sizes: Mapping[str, int]
    """Of macros and of parameters: members of structures as `c_rows`."""

    @property
    def name(self) -> str:
        return self.path.stem


def cases() -> list[Case]:
    """Every program of the catalogues that is accepted, with its first sizes."""
    found = []
    for folder in FOLDERS:
        catalogue = tomllib.loads((folder / "catalogue.toml").read_text(encoding="utf-8"))
        for name, entry in catalogue.items():
            if not entry.get("refused"):
                found.append(Case(folder / f"{name}.c", entry["sizes"][0]))
    return found


def preprocessed(text: str, folder: Path, defines: Mapping[str, int]) -> str:
    """What `gcc -E` makes of a text in a folder."""
    flags = [f"-D{name}={value}" for name, value in defines.items()]
    return run_compiler(["gcc", "-E", f"-I{folder}", *flags, "-xc", "-"], text=text).stdout


def prepared(scop: Scop, defines: Mapping[str, int] | None = None, *, lanes: bool = False) -> Prepared:
    """A Scop beside its source."""
    return prepare(scop, preprocessed(marked(scop).text, scop.source.path.parent, defines or {}), lanes=lanes)


def _is_parameter(name: str, text: str) -> bool:
    types = r"int|long|size_t|unsigned|ptrdiff_t|int64_t|uint32_t|int32_t"
    return ("_" in name and name.islower()) or re.search(rf"\b(?:{types})\s+{name}\b", text) is not None


def _read(case: Case) -> Iterator[tuple[Scop, Mapping[str, int], dict[str, int]]]:
    """The Scops of a file at tiny sizes, or at the catalogue's, with macros and other sizes. Raises InputError."""
    text = case.path.read_text(encoding="utf-8")
    small = {name: min(value, 3 + place % 3) for place, (name, value) in enumerate(case.sizes.items())}
    for values in (small, case.sizes):
        defines = {name: value for name, value in values.items() if not _is_parameter(name, text)}
        given = {name: str(value) for name, value in defines.items()}
        try:
            scops = load(case.path, require_sizes=False, rows_fit=True, defines=given).scops
        except InputError:
            if values is case.sizes:
                raise
            continue
        others = {name.rpartition("_")[2]: value for name, value in values.items() if name not in defines}
        yield from ((scop, defines, others) for scop in scops)
        return


def compared(case: Case, data: Sequence[Filling]) -> list[tuple[str, Compared]]:
    """What became of each region of a file, with its function's name. Raises InputError."""
    found = []
    for scop, defines, sizes in _read(case):
        pair = prepared(scop, defines)
        for filling in data:
            found.append((scop.function, best(pair, filling, sizes)))
        if has_lanes(scop):
            exact = Filling("whole", "extremes", bound=3)
            found.append((scop.function, best(prepared(scop, defines, lanes=True), exact, sizes)))
    return found


def best(pair: Prepared, filling: Filling, sizes: Mapping[str, int]) -> Compared:
    """With these sizes; where they are outside of what the Scop is for, or of memory, with others."""
    last = []
    larger = {name: 3 * size for name, size in sizes.items()}
    others = (
        Setting(filling, larger, size=1),
        Setting(filling, size=4),
        Setting(replace(filling, floats="equal"), sizes),
    )
    for setting in (Setting(filling, sizes), *others, Setting(filling, sizes, elements=1 << 14)):
        last += compare_all(pair, setting)
        if any(one.verdict in (Verdict.EQUAL, Verdict.DIFFERENT, Verdict.UNSUPPORTED) for one in last):
            break
    return min(last, key=lambda one: BEST.index(one.verdict))


def paired(text: str, read: str, tmp_path: Path) -> Scop:
    """The Scop of one program as if it had been read from another one; both have one region between pragmas."""
    path = tmp_path / "read.c"
    path.write_text(read, encoding="utf-8")
    (scop,) = load(path, require_sizes=False).scops
    start = text.index("#pragma scop\n") + len("#pragma scop\n")
    region = replace(
        scop.region,
        start=start,
        end=text.index("#pragma endscop"),
        helpers=text.rfind("\n", 0, text.rindex(f" {scop.function}(", 0, start)) + 1,
    )
    return replace(scop, source=replace(scop.source, text=text), region=region)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files, without .c; all where there are none")
    parser.add_argument("--fillings", type=int, default=2)
    given = parser.parse_args()
    table: Counter[str] = Counter()
    accesses = 0
    for case in cases():
        if given.names and case.name not in given.names:
            continue
        try:
            found = compared(case, fillings(bound=3)[: given.fillings])
        except InputError as error:
            table[f"not read: {error.reason[:60]}" if hasattr(error, "reason") else "not read"] += 1
            continue
        for function, one in found:
            why = re.sub(r"\d+", "N", one.reason.rpartition(": ")[2])
            table[f"{one.verdict.value}{': ' if why else ''}{why}"] += 1
            accesses += one.accesses
            if one.verdict is not Verdict.EQUAL:
                print(f"{case.name}: {function}: {one.verdict.value}: {one.difference or one.reason}", flush=True)
    for what, count in table.most_common():
        print(f"{count:6} {what}")
    print(f"{accesses:6} reads and writes")


if __name__ == "__main__":
    main()
