"""Random programs through polydl in processes that stay alive, with what was found shrunk to small programs."""

from __future__ import annotations

import json
import multiprocessing
import queue
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from pathlib import Path

from tests.fuzz.choices import shrunk
from tests.fuzz.parts import Program
from tests.fuzz.read import MISREAD, misread
from tests.fuzz.reduction import reduced
from tests.fuzz.whole_programs import program
from tests.fuzz.written import BESIDE, REFERENCE, Differs, Fault, Member, Refused, cases_of, checked, compiled, texts_of

BATCH = 16
"""Programs that are compiled as one file."""
READ = 8
"""Of so many programs one is also interpreted beside its Scops, which takes as long as two or three others."""
STUCK = 240.0
"""Seconds after which a process that says nothing is replaced."""
SHRINKING = 90.0
"""Seconds for a fault."""


@dataclass(frozen=True, slots=True)
class Found:
    """A fault with the program that shows it."""

    seed: int
    fault: Fault
    text: str
    choices: Sequence[int]
    features: tuple[str, ...]
    lines: int


@dataclass
class Tally:
    """What was done."""

    programs: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    undefined: list[int] = field(default_factory=list)
    """Seeds of programs that are not free of undefined behaviour: faults of the generator."""
    texts: int = 0
    """Functions that polydl wrote."""
    calls: int = 0
    pairs: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    """Seeds that did not end."""

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.texts} functions, {self.calls} calls, {self.refused.total()} refused, "
            f"{len(self.undefined)} undefined, {len(self.found)} faults:"
        )


def batch(
    seeds: Iterable[int],
    folder: Path,
    tally: Tally,
    without: Collection[str] = (),
    tell: Callable[[int], None] = lambda seed: None,
) -> list[tuple[int, Fault]]:
    """Put the programs of some seeds through polydl; what went wrong with which. `tell` hears of each seed."""
    members, faults = [], []
    for seed in seeds:
        tell(seed)
        made, _ = program(random.Random(seed), without)
        tally.programs += 1
        tally.pairs[" ".join(sorted(made.features))] += 1
        mark = f"_{seed}"
        try:
            members.append(Member(made, seed, mark, texts_of(made, mark, folder / f"p{mark}.c", seed)))
            if seed % READ == 0 and (fault := misread(made, mark, folder / f"p{mark}.c", seed)) is not None:
                faults.append((seed, fault))
        except Refused as error:
            tally.refused[_reason(str(error))] += 1
        except Differs as error:
            faults.append((seed, Fault(BESIDE, "first choice", str(error))))
        except Exception:  # noqa: BLE001  (finding these is the purpose; each is reported)
            faults.append((seed, Fault("traceback", "reading or writing", traceback.format_exc(limit=-3))))
    if not members:
        return faults
    tell(members[0].number)
    for member, text, verdict in checked(members, folder):
        tally.texts += 1
        tally.calls += len(cases_of(member.program, text, member.number))
        if isinstance(verdict, Fault):
            faults.append((member.number, verdict))
        elif verdict.kind == "undefined":
            tally.undefined.append(member.number)
    return faults


def _reason(message: str) -> str:
    """Of a refusal, without places and names."""
    first = message.partition("error: ")[2] or message
    return first.splitlines()[0].split("'")[0].split(":")[0].strip()


def again(made: Program, seed: int, folder: Path, fault: Fault) -> Fault | None:
    """The fault of this kind that a program still shows, with the texts and cases of the seed."""
    whole = compiled([made.called("_0")], REFERENCE, folder / "whole.so")
    if whole:
        return None
    try:
        if fault.kind == MISREAD:
            return misread(made, "_0", folder / "shrunk.c", seed)
        texts = texts_of(made, "_0", folder / "shrunk.c", seed, fault.how)
    except Refused:
        return None
    except Differs as error:
        return Fault(BESIDE, fault.how, str(error)) if fault.kind == BESIDE else None
    except Exception:  # noqa: BLE001
        there = Fault("traceback", fault.how, traceback.format_exc(limit=-3))
        return there if fault.kind == "traceback" else None
    if fault.kind in ("traceback", BESIDE) or not texts:
        return None
    for _, _, verdict in checked([Member(made, seed, "_0", texts)], folder):
        if isinstance(verdict, Fault) and verdict.kind == fault.kind:
            return verdict
    return None


def smallest(seed: int, fault: Fault, folder: Path, seconds: float, without: Collection[str] = ()) -> Found:
    """The fault with the smallest program found for it: of the choices that make it first, then of its text."""
    made, choices = program(random.Random(seed), without)
    best, features = fault, made.features

    def fails(candidate: Program) -> bool:
        nonlocal best, made
        there = again(candidate, seed, folder, fault)
        if there is not None:
            best, made = there, candidate
        return there is not None

    if seconds:
        choices = shrunk(choices, lambda candidate: fails(program(candidate, without)[0]), seconds / 2)
        made = program(choices, without)[0]
        reduced(made.text, lambda text: fails(replace(made, text=text)), seconds / 2)
    text = made.called("")
    return Found(seed, best, text, choices, features, len(text.splitlines()))


def write(found: Found, folder: Path) -> Path:
    """Keep a fault: the program, and beside it what repeats it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found.seed}.c"
    case = found.fault.case
    path.write_text(found.text)
    data = {**asdict(found), "case": None if case is None else asdict(case), "text": str(path)}
    path.with_suffix(".json").write_text(json.dumps(data, indent=1, default=str) + "\n")
    return path


@dataclass(frozen=True, slots=True)
class Asked:
    """What a worker is to do."""

    step: int
    """From the first seed of one batch to that of the next."""
    end: float
    """On the monotonic clock."""
    shrinking: float
    """Seconds for a fault."""
    without: Collection[str]


def work(first: int, asked: Asked, said: multiprocessing.Queue[tuple[str, object]]) -> None:
    """A worker: batches of seeds until the time is over. It says what it begins and what became of it."""
    import polydl.pipeline  # noqa: F401  (imports are nobody's time)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(prefix="polydl-fuzz-") as name:
        folder = Path(name)
        while time.monotonic() < asked.end:
            tally = Tally()
            seeds = takewhile(lambda _: time.monotonic() < asked.end, range(first, first + BATCH))
            faults = batch(seeds, folder, tally, asked.without, lambda seed: said.put(("at", seed)))
            for number, (seed, fault) in enumerate(faults):
                left = min(asked.shrinking, max(0.0, asked.end + asked.shrinking / 3 - time.monotonic()))
                said.put(("at", seed))
                # Of several in a batch, the first two: the others are of the same kind more often than not.
                tally.found.append(smallest(seed, fault, folder, left if number < 2 else 0.0, asked.without))
            said.put(("done", tally))
            for path in folder.iterdir():
                path.unlink()
            first += asked.step


class Worker:
    """A process that fuzzes, and what was heard of it."""

    def __init__(self, first: int, asked: Asked) -> None:
        self.asked, self.at = asked, first
        self._begin(first)

    def _begin(self, first: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.said: multiprocessing.Queue[tuple[str, object]] = spawn.Queue()
        self.process = spawn.Process(target=work, args=(first, self.asked, self.said))
        self.process.start()
        self.heard = time.monotonic()

    def listen(self, total: Tally) -> Tally | None:
        """What it did since; None where it is still at it. One that is stuck or died is replaced by one that begins
        with the next batch."""
        try:
            word, what = self.said.get(timeout=0.5)
        except queue.Empty:
            alive = self.process.is_alive()
            if (not alive and not self.process.exitcode) or (alive and time.monotonic() - self.heard < STUCK):
                return None
            total.stuck.append(self.at)
            print(f"seed {self.at} did not end", flush=True)
            self.close()
            if time.monotonic() < self.asked.end:
                self._begin(self.at + self.asked.step)
            return None
        self.heard = time.monotonic()
        if isinstance(what, Tally):
            return what
        assert word == "at" and isinstance(what, int)
        self.at = what
        return None

    @property
    def over(self) -> bool:
        return not self.process.is_alive() and self.said.empty()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()


def run(
    seconds: float, seed: int, jobs: int, out: Path | None, shrinking: float = SHRINKING, without: Collection[str] = ()
) -> Tally:
    """Fuzz for so many seconds with `jobs` processes; what was found is written to `out`."""
    begun, total = time.monotonic(), Tally()
    asked = Asked(jobs * BATCH, begun + seconds, shrinking, without)
    workers = [Worker(seed + job * BATCH, asked) for job in range(jobs)]
    try:
        while not all(worker.over for worker in workers):
            for worker in workers:
                done = None if worker.over else worker.listen(total)
                if done is not None:
                    _add(total, done, out)
                    hours = (time.monotonic() - begun) / 3600
                    print(f"{total} {total.programs / hours:.0f} programs an hour", flush=True)
    finally:
        for worker in workers:
            worker.close()
    return total


def _add(total: Tally, more: Tally, out: Path | None) -> None:
    total.programs += more.programs
    total.texts += more.texts
    total.calls += more.calls
    total.refused += more.refused
    total.pairs += more.pairs
    total.undefined += more.undefined
    for found in more.found:
        total.found.append(found)
        print(report(found), flush=True)
        if out is not None:
            write(found, out)


def report(found: Found) -> str:
    """One line."""
    case, fault = found.fault.case, found.fault
    where = f" at {dict(case.sizes)}, {case.filling}, {case.threads} threads" if case is not None else ""
    said = fault.detail.strip().splitlines()[-1] if fault.detail else ""
    return (
        f"seed {found.seed} ({' '.join(found.features)}, {found.lines} lines): {fault.kind}, {fault.how}{where}: {said}"
    )
