"""Programs of the repository and random ones, changed without changing their meaning (`mutations.py`): the output must
be right, the program that is read should be the same, and what was accepted should stay accepted.

python -m tests.fuzz.mutated [--minutes 5] [--seed 0] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import polydl
from polydl.base.errors import InputError, PolyDLError
from polydl.model.scop import Assignment, Scop
from polydl.options import Options
from polydl.pipeline import optimize
from tests.fuzz.mutations import mutants
from tests.fuzz.whole_programs import program
from tests.fuzz.written import OPTIONS

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "programs", ROOT / "everyday", ROOT.parent / "examples")
RANDOM_SHARE = 0.5
"""Of the seeds: those that are random programs."""


@dataclass
class Counted:
    """What became of mutants."""

    seeds: int = 0
    same: Counter[str] = field(default_factory=Counter)
    """By change: how often the program that was read is the same."""
    other: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """Where the seed was accepted."""
    calls: int = 0
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    """Where it comes from and what was changed; what is wrong; the text."""


def read(text: str, name: str, folder: Path) -> list[object] | None:
    """The programs that polydl reads, without the names of variables; None where it refuses. Raises what is no error of
    its own."""
    path = folder / f"{name}.c"
    path.write_text(text)
    try:
        return [_form(scop) for scop in polydl.load(path, options=OPTIONS, require_sizes=False).scops]
    except PolyDLError:
        return None


def _form(scop: Scop) -> list[object]:
    names = {name: f"#{number}" for number, name in enumerate(scop.arrays)}
    names |= {one: f"?{number}" for number, one in enumerate(scop.parameters)}
    found: list[object] = []
    for s in scop.statements:
        here = names | {one: f"i{depth}" for depth, one in enumerate(s.iterators)}
        parts = (s.domain, *(a.relation for a in s.accesses), s.body if isinstance(s.body, Assignment) else "kept")
        found.append([_without_names(str(part), here) for part in parts])
    return found


def _without_names(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda one: names.get(one[0], one[0]), text)


def judged(original: list[object], origin: str, what: str, text: str, folder: Path, done: Counted) -> None:
    """Read one mutant; where that gives another program than the original, look at what is written for it."""
    words = ["gcc", "-fsyntax-only", "-w", "-xc", "-I", str(ROOT.parent / "examples"), "-"]
    if subprocess.run(words, input=text, text=True, capture_output=True, check=False).returncode:
        return
    try:
        again = read(text, "mutant", folder)
        if again == original:
            done.same[what] += 1
            return
        if again is None:
            done.refused[what] += 1
            return
        done.other[what] += 1
        options: Options = OPTIONS.changed(oracle=True)
        result = optimize(folder / "mutant.c", options=options, run=False)
        done.calls += result.checked.calls
        done.faults += [(f"{origin}: {what}", str(fault), text) for fault in result.checked.faults]
    except InputError:
        done.refused[what] += 1
    except PolyDLError:
        return  # too much to analyse, as the seed may be
    except Exception:  # noqa: BLE001  (finding these is the purpose; each is reported)
        done.faults.append((f"{origin}: {what}", traceback.format_exc(limit=-3), text))


def run(seconds: float, seed: int) -> Counted:
    """Mutants of seeds that a number determines, for so many seconds."""
    end, done, files = time.monotonic() + seconds, Counted(), sorted(f for d in FOLDERS for f in d.glob("*.c"))
    with tempfile.TemporaryDirectory(prefix="polydl-mutants-") as name:
        folder = Path(name)
        while time.monotonic() < end:
            rng = Random(seed)
            if rng.random() < RANDOM_SHARE:
                origin, text = f"seed {seed}", program(Random(seed))[0].called("")
            else:
                path = rng.choice(files)
                origin, text = path.name, path.read_text()
            seed += 1
            original = read(text, "seed", folder)
            if original is None:
                continue
            done.seeds += 1
            for what, changed in mutants(text, rng, 6):
                before = len(done.faults)
                judged(original, origin, what, changed, folder, done)
                for fault in done.faults[before:]:
                    print(fault[0], fault[1].strip().splitlines()[-1], flush=True)
    return done


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    done = run(60 * asked.minutes, asked.seed)
    for number, (_, what, text) in enumerate(done.faults):
        if asked.out is not None:
            asked.out.mkdir(parents=True, exist_ok=True)
            (asked.out / f"mutant{number}.c").write_text(f"/* {what.strip()} */\n{text}")
    print(
        f"{done.seeds} seeds: {done.same.total()} mutants are read as the same program, {done.other.total()} as "
        f"another, {done.refused.total()} are refused; {done.calls} calls, {len(done.faults)} faults"
    )
    print(f"another program: {dict(done.other.most_common())}\nrefused: {dict(done.refused.most_common())}")
    return int(bool(done.faults))


if __name__ == "__main__":
    sys.exit(main())
