"""Does this tree find the same variants and write the same C as a recorded one?

python experiments/unchanged.py                          compare with unchanged.json; exit code 1 if different
python experiments/unchanged.py --only gemver --texts F  the same for some programs, and their C into a folder
python experiments/unchanged.py --update                 record this tree

Every program of tests/programs and tests/everyday is ranked at the sizes called `bench`, on an AVX-512 and on an AVX2
machine; nothing is compiled or run. Recorded per region: the statements that a microkernel is made for, how many
variants there are, a hash of their recipe ids in the order of their scores, and the best five by recipe id with a hash
of the C of each; and, with the sizes as parameters, a hash of what runs at sizes that were not tuned. Where C differs,
it is to be read: let both trees write it with --texts, and compare the folders.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from any_size_programs import with_parameters  # noqa: E402

import polydl  # noqa: E402
from polydl.base.errors import PolyDLError  # noqa: E402
from polydl.options import Options  # noqa: E402
from polydl.pipeline import at_other_sizes, with_fused  # noqa: E402
from polydl.search.sizes.code import EverySize  # noqa: E402
from polydl.target.isa import kernel_contraction  # noqa: E402
from tests.programs.corpus import Entry, catalogue  # noqa: E402

RECORD = Path(__file__).with_suffix(".json")
MACHINES = ("epyc-zen5", "epyc-zen3")
ANY_SIZE = "any size"
THREADS = 2
BEST = 5

Found = Mapping[str, object]
"""What is recorded of a region."""


def entries() -> dict[str, Entry]:
    """The programs that are accepted, by folder and name."""
    folders = ("programs", "everyday")
    return {
        f"{folder}/{name}": entry for folder in folders for name, entry in catalogue(ROOT / "tests" / folder).items()
    }


def digest(text: str) -> str:
    """Sixteen hexadecimal digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _elsewhere(found: EverySize | str) -> str:
    return found if isinstance(found, str) else "\n".join((*found.generated.prologue, found.generated.region))


def of_program(name: str, machine: str, texts: Path | None, folder: Path) -> list[Found]:
    """What is found in each region of a program. A machine called `any size` stands for the first one, with the sizes
    as parameters of the function."""
    any_size = machine == ANY_SIZE
    entry = with_parameters(entries()[name], folder) if any_size else entries()[name]
    options = Options(
        machine=MACHINES[0] if any_size else machine, threads=THREADS, space="small" if any_size else "default",
        defines=entry.defines(entry.bench), sizes=entry.parameters(entry.bench),
    )  # fmt: skip
    found: list[Found] = []
    for scop in polydl.load(entry.path, defines=options.defines, sizes=options.sizes).scops:
        ranking = with_fused(polydl.rank(scop, options=options), options)
        written = {v.id: v.code() for v in ranking.variants[:BEST]}
        if any_size:
            written = {"any size": _elsewhere(at_other_sizes(ranking, options).other_sizes)}
        if texts is not None:
            for key, text in written.items():
                path = texts / machine / name / f"{scop.function}.{key}.c"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        found.append(
            {
                "kernels": sum(kernel_contraction(ranking.scop, s) is not None for s in ranking.scop.statements),
                "variants": len(ranking.variants),
                "ids": digest(" ".join(v.id for v in ranking.variants)),
                "code": {key: digest(text) for key, text in written.items()},
            }
        )
    return found


def _task(task: tuple[str, str, Path | None]) -> tuple[str, list[Found] | str]:
    name, machine, texts = task
    warnings.simplefilter("ignore")  # of programs, for their users
    try:
        with tempfile.TemporaryDirectory(prefix="polydl-unchanged-") as folder:
            return f"{machine} {name}", of_program(name, machine, texts, Path(folder))
    except PolyDLError as error:
        return f"{machine} {name}", str(error).splitlines()[0].replace(str(ROOT), "").split(": ", 1)[-1]


def found_in(
    names: Sequence[str], machines: Sequence[str], texts: Path | None, jobs: int
) -> Iterator[tuple[str, list[Found] | str]]:
    """Each program on each machine with what is found; a text where it is refused."""
    tasks = [(name, machine, texts) for name in names for machine in machines]
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=20) as pool:
        for number, (key, what) in enumerate(pool.imap_unordered(_task, tasks), 1):
            print(f"\r{number} of {len(tasks)} {key:60s}", end="", file=sys.stderr, flush=True)
            yield key, what
    print(file=sys.stderr)


def written(path: Path, rows: Mapping[str, object]) -> None:
    """A line for each program and machine, so that what changes can be read."""
    lines = [f"{json.dumps(key)}: {json.dumps(what)}" for key, what in sorted(rows.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """A line for each program that differs, with what differs."""
    lines = []
    for key, found in now.items():
        old = before.get(key)
        if old == found:
            continue
        if not isinstance(old, list) or not isinstance(found, list) or len(old) != len(found):
            shown = old is None or isinstance(found, str)
            lines.append(f"{key}: {old} -> {found}" if shown else f"{key}: other regions")
            continue
        for place, (a, b) in enumerate(zip(old, found, strict=True)):
            changed = [f"{what} {a[what]} -> {b[what]}" for what in ("kernels", "variants") if a[what] != b[what]]
            changed += ["order of variants"] if a["ids"] != b["ids"] and a["variants"] == b["variants"] else []
            changed += [f"C of {k}" for k, text in b["code"].items() if a["code"].get(k, text) != text]
            changed += [f"{k} among the best" for k in b["code"] if k not in a["code"]]
            if changed:
                lines.append(f"{key}, region {place}: {', '.join(changed)}")
    return lines


def main() -> int:
    """Entry point. Exit code 1 where something differs from the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--update", action="store_true", help="record this tree")
    options.add_argument("--only", action="append", metavar="NAME", help="part of a name; repeatable")
    options.add_argument("--machine", action="append", choices=(*MACHINES, ANY_SIZE), help="only there; repeatable")
    options.add_argument("--texts", type=Path, metavar="FOLDER", help="write the C there, a file each")
    options.add_argument("--record", type=Path, default=RECORD, metavar="FILE")
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    given = options.parse_args()
    names = [name for name in entries() if not given.only or any(word in name for word in given.only)]
    if not names:
        options.error("no such program")
    before = json.loads(given.record.read_text(encoding="utf-8")) if given.record.is_file() else {}
    machines = given.machine or (*MACHINES, ANY_SIZE)
    now = {}
    for key, what in found_in(names, machines, given.texts, given.jobs):
        now[key] = what
        if given.update:  # a record of hours is kept as far as it got
            written(given.record, before | now)
    if given.update:
        return 0
    found = differences(before, now)
    print("\n".join(found))
    print(f"{len(now)} programs and machines, {len(found)} regions differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
