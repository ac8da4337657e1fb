"""Which tests are in the first tier (`pytest --first`, `make test`) and in the second (`pytest --second`, `make
test-all`), and what each takes. Everything is in the third (`pytest`, `make test-every`).

`durations.json` says of each test function how many cases it has, the processor seconds of one, and what it starts: a
compiler (`builds`), another process (`process`) or nothing. That gives the marks, and the first tier: of a function as
many cases as take SHARE seconds together, at least one, in an order that only their names decide; of functions the
quickest one of each file, then the quickest of all, until BUDGET is spent. In the second tier is every function; of one
whose cases take more than LONG seconds together half of them, or as many as take so long. What the file does not know
yet is in, and so is what is marked `first`.

`pytest --record-durations` writes the file, after a run of everything anew, else what was run. Other runs of the first
tier, or of everything, say where the tier takes longer than the file says, on a machine as fast as this one turns out
to be.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate
from pathlib import Path

import pytest

from tests import compiling
from tests.cli import forked

RECORD = Path(__file__).with_name("durations.json")
SHARE = 0.5
"""Processor seconds of a function's cases in the first tier."""
BUDGET = 400.0
"""Processor seconds of the first tier. To find all tests and start the processes that share them takes 50 more; two
processors have 600 in five minutes."""
LONG = 10.0
"""Processor seconds of a function's cases in the second tier, unless half of them take longer."""
ASKED = 10.0
"""Processor seconds by which the first tier may grow before it is asked why."""
COMPILERS = ("cc", "gcc", "g++", "c++", "clang")


@dataclass(frozen=True, slots=True)
class Taken:
    """What a test function takes."""

    cases: int
    seconds: float
    """Processor seconds of one case, in the test's process and in those that it starts; the mean."""
    starts: str
    """`builds`: a compiler; `process`: another process, or a fork; or nothing."""


def function(nodeid: str) -> str:
    """The test function of a case."""
    return nodeid.partition("[")[0]


def record() -> dict[str, Taken]:
    """By function, what is written down."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    return {name: Taken(*fields) for name, fields in found.items()}


def cases_of(one: Taken) -> int:
    """How many cases of a function would be in the first tier."""
    return min(one.cases, max(1, int(SHARE / one.seconds))) if one.seconds else one.cases


def affordable(known: Mapping[str, Taken]) -> set[str]:
    """The functions that are in the first tier."""
    price = {name: cases_of(one) * one.seconds for name, one in known.items()}
    quickest: dict[str, str] = {}
    for name in sorted(price, key=lambda name: (price[name], name), reverse=True):
        quickest[name.partition("::")[0]] = name
    order = sorted(price, key=lambda name: (quickest[name.partition("::")[0]] != name, price[name], name))
    spent = accumulate(price[name] for name in order)
    return {name for name, until in zip(order, spent, strict=True) if until <= BUDGET}


def first(items: Sequence[tuple[str, bool]], known: Mapping[str, Taken]) -> set[str]:
    """Those of the cases that are in the first tier: (id, whether it is marked `first`)."""
    functions = affordable(known)

    def most(name: str, cases: int) -> int:
        return cases_of(known[name]) if name in functions else 0 if name in known else cases

    return some(items, most)


def second(items: Sequence[tuple[str, bool]], known: Mapping[str, Taken]) -> set[str]:
    """Those of the cases that are in the second tier: (id, whether it is marked `first`)."""

    def most(name: str, cases: int) -> int:
        seconds = known[name].seconds if name in known else 0.0
        return max(int(LONG / seconds), (cases + 1) // 2) if seconds else cases

    return some(items, most)


def some(items: Sequence[tuple[str, bool]], most: Callable[[str, int], int]) -> set[str]:
    """Of each function as many cases as `most` says of its name and their number, and all that are marked."""
    by_function = defaultdict(list)
    for nodeid, marked in items:
        by_function[function(nodeid)].append((not marked, hashlib.sha256(nodeid.encode()).hexdigest(), nodeid))
    chosen: set[str] = set()
    for name, cases in by_function.items():
        number = max(most(name, len(cases)), sum(not unmarked for unmarked, _, _ in cases))
        chosen |= {nodeid for _, _, nodeid in sorted(cases)[:number]}
    return chosen


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--first", action="store_true", help="the first tier of tests alone (tests/tiers.py)")
    parser.addoption("--second", action="store_true", help="the second tier: of what takes long half of the cases")
    parser.addoption("--record-durations", action="store_true", help="write down what tests take")


class Tiers:
    """The plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._first: bool = config.getoption("--first")
        self._second: bool = config.getoption("--second")
        self._recording: bool = config.getoption("--record-durations")
        self._known = record()
        self._spent: dict[str, list[tuple[float, str]]] = defaultdict(list)
        self._begin = self._forked = 0.0
        self._started: set[str] = set()
        if self._recording:
            sys.addaudithook(self._listen)
            if "PYTEST_XDIST_WORKER" not in os.environ:
                compiling.trim(0)  # as on a machine that has compiled nothing yet

    def _listen(self, event: str, arguments: tuple[object, ...]) -> None:
        """What the running test starts: told by Python's audit events."""
        if event == "subprocess.Popen":
            words = [os.fsdecode(word) for word in _words(arguments[1])]
            reads = {"-E", "--version", "-dumpmachine", "-dM"} & set(words)  # the front end's preprocessor
            compiles = Path(words[0]).name.rpartition("-")[2] in COMPILERS and not reads
            self._started.add("builds" if compiles else "" if reads else "process")
        elif event in ("os.fork", "os.posix_spawn"):
            self._started.add("process")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            starts = self._known[name].starts if (name := function(item.nodeid)) in self._known else ""
            if starts:
                item.add_marker(starts)
        if self._first or self._second:
            timed = {i.nodeid for i in items if any(i.iter_markers("timing"))}
            cases = [(i.nodeid, any(i.iter_markers("first"))) for i in items if i.nodeid not in timed]
            keep(config, items, first(cases, self._known) if self._first else second(cases, self._known) | timed)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._begin, self._forked = _processor_seconds(), forked.processor_seconds()
        self._started.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.when == "teardown":
            if forked.processor_seconds() > self._forked:
                self._started.add("process")
            starts = next((mark for mark in ("builds", "process") if mark in self._started), "")
            item.user_properties.append(("taken", (_processor_seconds() - self._begin, starts)))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == "taken":
                    self._spent[report.nodeid].append(tuple(value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if "PYTEST_XDIST_WORKER" in os.environ or not self._spent:
            return
        if self._recording:
            part = any(config.getoption(name) for name in ("first", "second", "since", "keyword", "file_or_dir"))
            write(merged(self._known if part else {}, taken(self._spent)))
            seconds = sum(map(_seconds, self._spent.values()))
            terminalreporter.write_line(f"{RECORD.name} is written: {seconds:.0f} s of processor time in all")
        elif self._first or config.getoption("markexpr") == "not timing":
            tier = first([(nodeid, False) for nodeid in self._spent], self._known)
            for line in grown({nodeid: _seconds(self._spent[nodeid]) for nodeid in tier}, self._known):
                terminalreporter.write_line(line, yellow=True)


def keep(config: pytest.Config, items: list[pytest.Item], wanted: set[str]) -> None:
    """Leave only these cases in the list."""
    left_out = [item for item in items if item.nodeid not in wanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid in wanted]


def taken(spent: Mapping[str, Sequence[tuple[float, str]]]) -> dict[str, Taken]:
    """By function, from what its cases took."""
    runs = defaultdict(list)
    for nodeid, found in spent.items():
        runs[function(nodeid)].append(found[-1])
    return {
        name: Taken(
            len(found),
            round(statistics.fmean(seconds for seconds, _ in found), 3),
            next((mark for mark in ("builds", "process") if any(starts == mark for _, starts in found)), ""),
        )
        for name, found in runs.items()
    }


def merged(old: Mapping[str, Taken], new: Mapping[str, Taken]) -> dict[str, Taken]:
    """What is known of all, with the number of cases of a run that had the most."""
    found = dict(old)
    for name, one in new.items():
        known = old.get(name)
        found[name] = one if known is None else Taken(max(known.cases, one.cases), one.seconds, one.starts)
    return found


def write(known: Mapping[str, Taken]) -> None:
    """One function a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(list(astuple(one)))}" for name, one in sorted(known.items())]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def grown(spent: Mapping[str, float], known: Mapping[str, Taken]) -> list[str]:
    """Lines for people, where the cases that ran took longer than is written down by more than ASKED seconds together.

    This machine's speed is the median over files of what they take, over what is written down of them. None of a run
    of less than half of the tier.
    """
    took: dict[str, float] = defaultdict(float)
    wrote: dict[str, float] = defaultdict(float)
    for nodeid, seconds in spent.items():
        took[nodeid.partition("::")[0]] += seconds
        name = function(nodeid)
        wrote[nodeid.partition("::")[0]] += known[name].seconds if name in known else 0.0
    if sum(wrote.values()) < BUDGET / 2:
        return []
    speed = statistics.median([took[file] / wrote[file] for file in took if wrote[file] > 1] or [1.0])
    more = sorted(((took[file] / speed - wrote[file], file) for file in took), reverse=True)
    if (total := sum(took.values()) / speed - sum(wrote.values())) <= ASKED:
        return []
    lines = [f"  {file}: {seconds:+.1f} s" for seconds, file in more[:8] if seconds > 1]
    opening = f"the first tier takes {total:.0f} s of processor time longer than tests/durations.json says: why?"
    return [opening, *lines, "if it is worth that: pytest --first --record-durations"]


def _words(command: object) -> Iterable[str | bytes | os.PathLike[str]]:
    return [command] if isinstance(command, str | bytes | os.PathLike) else command  # type: ignore[return-value]


def _seconds(runs: Sequence[tuple[float, str]]) -> float:
    return runs[-1][0]


def _processor_seconds() -> float:
    """Of this process, of those that it waited for, and of runs of the command line (tests/cli/forked.py)."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + forked.processor_seconds()
