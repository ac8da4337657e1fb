"""The machines of a Dask cluster, and how jobs get to them: one at a time on each machine, each job once on each kind.

Which machine does a job is decided here and not by Dask's scheduler, because Dask cannot say "any machine of this kind,
those that join later included", nor "one job a machine" where several workers are on one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from polydl.base.errors import PolyDLError
from polydl.cluster.remote import describe, run_job, version

if TYPE_CHECKING:
    from distributed import Client, Future

RESOURCE = "timing"
"""What a worker has one of (`dask worker --resources timing=1`), and each job takes: other users of the cluster who
ask for it too are kept apart."""
_CONNECT = 5.0
"""Seconds that the scheduler has for answering."""
_FIRST = 5.0
"""Seconds to wait for a first worker."""
_LOOK = 0.5
"""Seconds between two looks at which workers there are."""
_FETCH = 60.0
"""Seconds that a result has for coming over."""
_ATTEMPTS = 3
"""Workers that may die of a job before it is given up."""

Kind = tuple[str, int]
"""Fingerprint of a machine and its processors: machines of one kind give comparable results."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as its worker describes it."""

    address: str
    """Of the worker."""
    version: str
    """polydl's (polydl.cluster.remote.version)."""
    name: str
    fingerprint: str
    description: str
    """TOML."""
    processors: int
    """Logical ones that the worker may use."""
    compiler: str
    """First line of `cc --version`."""
    host: str
    """Id of the running system: equal for two workers on one machine."""

    @property
    def kind(self) -> Kind:
        return (self.fingerprint, self.processors)

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint}, {self.processors} processors)"


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be done on a machine of a given kind."""

    name: str
    """For people."""
    document: str
    """JSON (polydl.cluster.job)."""
    about: object = None
    """What it is to whoever asks for it; stays here."""


@dataclass(slots=True)
class _Waiting:
    job: Job
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class _Running:
    waiting: _Waiting
    machine: Machine
    future: Future[dict[str, Any]]
    started: float


@dataclass(frozen=True, slots=True)
class Done:
    """A job's end."""

    job: Job
    machine: Machine
    result: Mapping[str, Any]
    """What polydl.cluster.job answered; with `error` (for people, whole lines) and `exit_code` when it was not done."""
    seconds: float
    """From handing it out to its end."""


class Pool:
    """The workers of a Dask cluster. Use it in a `with` statement: it ends what still runs.

    Opening it raises PolyDLError when Dask is not installed, the scheduler does not answer, or no worker can be used.
    """

    def __init__(
        self, address: str, only: str = "", tell: Callable[[str], None] = lambda line: None, patience: float = 60.0
    ) -> None:
        """`only`: use machines whose fingerprint starts like this; `tell`: called with a line for people; `patience`:
        seconds to wait for a worker when there are jobs and none for them."""
        self._only = only
        self._tell = tell
        self._patience = patience
        self._version = version()
        self._machines: dict[str, Machine] = {}
        """By address: the workers that can be used."""
        self._refused: dict[str, str] = {}
        """By address: why a worker is not used."""
        self._used: dict[str, float] = {}
        """By address: when it last got a job."""
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Keys of futures."""
        self._address = address
        self._client = _connected(address)
        try:
            self._first_machines(min(patience, _FIRST))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; jobs that still run there are ended by their workers."""
        self._client.close(timeout=2)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Those that can be used at the moment."""
        return tuple(self._machines.values())

    def _first_machines(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        self._look()
        while not self._machines and not self._refused and time.monotonic() < deadline:
            time.sleep(_LOOK)
            self._look()
        if self._machines:
            return
        reasons = "".join(f"\n  {address}: {reason}" for address, reason in self._refused.items())
        raise PolyDLError(
            f"no worker of the scheduler at {self._address} can be used{reasons}"
            if reasons
            else f"the scheduler at {self._address} has no workers",
            hint=f'start one on each machine: dask worker {self._address} --resources "{RESOURCE}=1"',
        )

    def _look(self) -> None:
        """Find out which workers have come and gone. Raises PolyDLError when the scheduler is gone."""
        try:
            # `workers` is missing where the scheduler did not answer.
            found = (
                self._client.scheduler_info(n_workers=-1).get("workers") if self._client.status == "running" else None
            )
            answers = self._answers(found or {})
        except OSError as error:
            raise self._gone() from error
        if found is None:
            raise self._gone()
        for address in self._machines.keys() - found.keys():
            self._tell(f"{address} left: {self._machines.pop(address)}")
        self._refused = {address: reason for address, reason in self._refused.items() if address in found}
        for address, answer in answers.items():
            self._welcome(address, answer)

    def _gone(self) -> PolyDLError:
        return PolyDLError(f"the scheduler at {self._address} went away", hint="what was done before is kept")

    def _answers(self, found: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
        """What new workers say about themselves, by address: a description, an error, or why they cannot be asked."""
        new = [address for address in found if address not in self._machines and address not in self._refused]
        able = [address for address in new if found[address]["resources"].get(RESOURCE, 0) >= 1]
        answers: dict[str, object] = {
            address: f'it offers no resource "{RESOURCE}"' for address in new if address not in able
        }
        if able:
            # Not as a task: one that a worker cannot load ends the worker.
            answers |= self._client.run(describe, workers=able, on_error="return")
        return answers

    def _welcome(self, address: str, answer: object) -> None:
        """Take a worker that has said who it is, or refuse it."""
        if isinstance(answer, OSError):
            return  # it has just gone
        if isinstance(answer, str):
            self._refuse(address, answer)
        elif not isinstance(answer, dict):
            self._refuse(address, f"it cannot run polydl[cluster]: {answer}")
        elif answer.get("version") != self._version:
            self._refuse(address, f"it has polydl {answer.get('version')}, here is {self._version}: install the same")
        elif not answer["fingerprint"].startswith(self._only):
            self._refuse(address, f"it is {answer['name']} ({answer['fingerprint']}), and --for asks for {self._only}")
        else:
            machine = Machine(address=address, **answer)
            same = [m for m in self._machines.values() if m.kind == machine.kind and m.compiler != machine.compiler]
            self._machines[address] = machine
            self._tell(f"{address} joined: {machine}")
            if same:
                warnings.warn(
                    f"machines of one kind have different compilers: {same[0].address} {same[0].compiler}, "
                    f"{address} {machine.compiler}",
                    stacklevel=2,
                )

    def _refuse(self, address: str, reason: str) -> None:
        self._refused[address] = reason
        self._tell(f"{address} is not used: {reason}")

    def run(self, jobs_for: Callable[[Machine], Iterable[Job]], done: Callable[[Done], None]) -> None:
        """Do all jobs; `jobs_for` is asked for them once for each kind of machine, with the first machine of that kind.

        `done` is called with each end, in this thread. A job whose worker dies is given to another machine of the same
        kind; when three have died it has failed. Raises PolyDLError when the scheduler is gone, or when there are jobs
        left and no machine for them; what was done before has been passed on.
        """
        state = _State()
        try:
            while True:
                self._look()
                for machine in self.machines:
                    if machine.kind not in state.queues:
                        state.queues[machine.kind] = deque(_Waiting(job) for job in jobs_for(machine))
                self._take_back(state, done)
                self._hand_out(state)
                if not state.running and not any(state.queues.values()):
                    return
                self._check_patience(state)
                with contextlib.suppress(queue.Empty):
                    self._finish(state, state.running.pop(self._ended.get(timeout=_LOOK), None), done)
        finally:
            futures = [one.future for one in state.running.values()]
            if futures and self._client.status == "running":
                with contextlib.suppress(OSError):  # the scheduler has just gone
                    self._client.cancel(futures, force=True)

    def _hand_out(self, state: _State) -> None:
        """Give a job to every machine that has none; workers that share a machine take turns."""
        busy = {one.machine.host for one in state.running.values()}
        for machine in sorted(self._machines.values(), key=lambda m: self._used.get(m.address, 0.0)):
            if machine.host in busy or not state.queues[machine.kind]:
                continue
            waiting = state.queues[machine.kind].popleft()
            future = self._client.submit(
                run_job, waiting.job.document, workers=[machine.address], resources={RESOURCE: 1}, pure=False, retries=0
            )
            state.running[future.key] = _Running(waiting, machine, future, time.monotonic())
            future.add_done_callback(lambda ended: self._ended.put(ended.key))
            self._used[machine.address] = time.monotonic()
            busy.add(machine.host)

    def _take_back(self, state: _State, done: Callable[[Done], None]) -> None:
        """Put the jobs of workers that are gone back."""
        for key, one in list(state.running.items()):
            if one.machine.address not in self._machines:
                del state.running[key]
                self._give_back(state, one, done)

    def _give_back(self, state: _State, one: _Running, done: Callable[[Done], None]) -> None:
        one.future.cancel(force=True)
        one.waiting.deaths += 1
        if one.waiting.deaths < _ATTEMPTS:
            state.queues[one.machine.kind].appendleft(one.waiting)
            self._tell(f"{one.waiting.job.name}: lost with its worker {one.machine.address}, to be done again")
            return
        said = {"error": f"error: {_ATTEMPTS} workers died while they measured it", "exit_code": 1}
        done(Done(one.waiting.job, one.machine, said, time.monotonic() - one.started))

    def _finish(self, state: _State, one: _Running | None, done: Callable[[Done], None]) -> None:
        """Pass a result on, unless it is lost. `None`: it was taken back before."""
        if one is None:
            return
        from distributed.scheduler import KilledWorker

        result: Mapping[str, Any] | None = None
        if one.future.status == "finished":
            # The worker may die between the end of the job and here; Dask then waits for it for ever.
            with contextlib.suppress(TimeoutError):
                result = one.future.result(timeout=_FETCH)
        elif one.future.status == "error":
            reason = one.future.exception(timeout=_FETCH)
            if not isinstance(reason, KilledWorker):
                result = {"error": f"error: {type(reason).__name__}: {reason}".rstrip(), "exit_code": 1}
        if result is None:
            self._give_back(state, one, done)
        else:
            done(Done(one.waiting.job, one.machine, result, time.monotonic() - one.started))

    def _check_patience(self, state: _State) -> None:
        """Raise PolyDLError when nothing has been running for too long, for want of a machine."""
        now = time.monotonic()
        if state.running:
            state.active = now
        elif now - state.active > self._patience:
            left = sum(len(jobs) for jobs in state.queues.values())
            raise PolyDLError(
                f"{left} jobs are left, and no worker for them came within {self._patience:.0f} s",
                hint="what was done before is kept; start workers and run the same command again",
            )


@dataclass(slots=True)
class _State:
    """How far a `Pool.run` is."""

    queues: dict[Kind, deque[_Waiting]] = field(default_factory=dict)
    running: dict[str, _Running] = field(default_factory=dict)
    """By the key of the future."""
    active: float = field(default_factory=time.monotonic)
    """When something was running."""


def _connected(address: str) -> Client:
    """A client of the scheduler. Raises PolyDLError."""
    try:
        from distributed import Client
    except ImportError as error:
        raise PolyDLError(
            f"--cluster needs Dask, which is not installed here ({error})", hint="pip install 'polydl[cluster]'"
        ) from error
    # What these say is said here, in words.
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with ThreadPoolExecutor(1) as thread:  # this one may run an event loop of its own, as notebooks do
            thread.submit(asyncio.run, asyncio.wait_for(_greet(address), 2 * _CONNECT)).result()
        return Client(address, timeout=_CONNECT, set_as_default=False)
    except Exception as error:
        # Another program at that address can make it any error: what it says is read as lengths of messages.
        reason = "what answers there is none" if isinstance(error, MemoryError) else str(error) or "it does not answer"
        raise PolyDLError(
            f"cannot reach a Dask scheduler at {address}: {reason}",
            hint="start one with `dask scheduler` and give the address that it prints, as in --cluster tcp://head:8786",
        ) from error


async def _greet(address: str) -> None:
    """Ask the scheduler who it is. Raises all kinds of errors where none answers: a `Client` of Dask would wait without
    end for some servers that are no schedulers, and not go away after an error."""
    from distributed.comm import connect
    from distributed.security import Security

    peer = await connect(address, timeout=_CONNECT, **Security().get_connection_args("client"))
    try:
        await peer.write({"op": "identity", "n_workers": 0})
        answer = await peer.read()
    finally:
        peer.abort()
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        raise ValueError("what answers there is no scheduler")
