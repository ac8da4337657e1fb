"""Runs jobs on the machines of a Dask cluster: one at a time on each machine, each job once on each kind of machine.

This module chooses the machine for a job, not Dask's scheduler, because Dask has no way to express "any machine of this
kind, including those that join later", nor "one job per machine" where several workers run on one machine.
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
"""The Dask resource that each job takes. A worker has one of it (`dask worker --resources timing=1`), so that jobs of
other users of the cluster who take it too never run at the same time."""
_CONNECT = 5.0
"""Seconds that the scheduler has to answer."""
_FIRST_WORKER = 5.0
"""Seconds to wait for a first worker."""
_POLL = 0.5
"""Seconds between two checks which workers there are."""
_FETCH = 60.0
"""Seconds that the transfer of a result may take."""
_ATTEMPTS = 3
"""Workers that may die while they do a job before the job counts as failed."""

Kind = tuple[str, int]
"""Fingerprint of a machine and its processors: machines of one kind give comparable results."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as its worker describes it."""

    address: str
    """Of the worker, as `tcp://host:port`."""
    version: str
    """Of polydl on the worker (polydl.cluster.remote.version)."""
    name: str
    fingerprint: str
    description: str
    """The machine file, TOML."""
    processors: int
    """Logical processors that the worker may use."""
    compiler: str
    """First line of `cc --version`."""
    host: str
    """Boot id of the operating system: equal for two workers on one machine."""

    @property
    def kind(self) -> Kind:
        return (self.fingerprint, self.processors)

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint}, {self.processors} processors)"


@dataclass(frozen=True, slots=True)
class Job:
    """Work for a machine of a given kind."""

    name: str
    """For people."""
    document: str
    """JSON (polydl.cluster.job)."""
    subject: object = None
    """What the job is about, for the caller; it is not sent to the worker."""


@dataclass(slots=True)
class _Waiting:
    """A job that is to be done."""

    job: Job
    deaths: int = 0
    """Workers that died while they did it."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A job that a machine does."""

    waiting: _Waiting
    machine: Machine
    future: Future[dict[str, Any]]
    started: float
    """Clock of time.monotonic, seconds."""


@dataclass(frozen=True, slots=True)
class Done:
    """A job that has ended."""

    job: Job
    machine: Machine
    result: Mapping[str, Any]
    """The answer of polydl.cluster.job. Of a job that failed, it has `error` (a message for people) and `exit_code`."""
    seconds: float
    """From its start on the machine to its end."""


class Pool:
    """The workers of a Dask cluster. Use it in a `with` statement, which ends the jobs that still run.

    Opening it raises PolyDLError when Dask is not installed, the scheduler does not answer, or no worker can be used.
    """

    def __init__(
        self,
        address: str,
        only: str = "",
        report: Callable[[str], None] = lambda line: None,
        worker_timeout: float = 60.0,
    ) -> None:
        """Connect to the scheduler at `address` and use machines whose fingerprint starts with `only`. `report` is
        called with lines for people; after `worker_timeout` seconds with jobs and no machine for them, `run` fails."""
        self._only = only
        self._report = report
        self._worker_timeout = worker_timeout
        self._version = version()
        self._machines: dict[str, Machine] = {}
        """By address: the workers that can be used."""
        self._refused: dict[str, str] = {}
        """By address: why a worker is not used."""
        self._used: dict[str, float] = {}
        """By address: when the worker last got a job."""
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Keys of the futures that have ended."""
        self._address = address
        self._client = _connected(address)
        try:
            self._wait_for_machines(min(worker_timeout, _FIRST_WORKER))
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

    def _wait_for_machines(self, seconds: float) -> None:
        """Wait for the first machine that can be used. Raises PolyDLError when there is none."""
        deadline = time.monotonic() + seconds
        self._update_machines()
        while not self._machines and not self._refused and time.monotonic() < deadline:
            time.sleep(_POLL)
            self._update_machines()
        if self._machines:
            return
        reasons = "".join(f"\n  {address}: {reason}" for address, reason in self._refused.items())
        raise PolyDLError(
            f"no worker of the scheduler at {self._address} can be used{reasons}"
            if reasons
            else f"the scheduler at {self._address} has no workers",
            hint=f'start one on each machine: dask worker {self._address} --resources "{RESOURCE}=1"',
        )

    def _update_machines(self) -> None:
        """Find out which workers have come and gone. Raises PolyDLError when the scheduler is gone."""
        try:
            # `workers` is missing where the scheduler did not answer.
            found = (
                self._client.scheduler_info(n_workers=-1).get("workers") if self._client.status == "running" else None
            )
            answers = self._descriptions(found or {})
        except OSError as error:
            raise self._scheduler_gone() from error
        if found is None:
            raise self._scheduler_gone()
        for address in self._machines.keys() - found.keys():
            self._report(f"{address} left: {self._machines.pop(address)}")
        self._refused = {address: reason for address, reason in self._refused.items() if address in found}
        for address, answer in answers.items():
            self._admit(address, answer)

    def _scheduler_gone(self) -> PolyDLError:
        return PolyDLError(
            f"the scheduler at {self._address} went away", hint="results that had come before are not lost"
        )

    def _descriptions(self, found: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
        """How new workers describe their machines, by address: `describe`'s result, an error, or why they cannot be
        used."""
        new = [address for address in found if address not in self._machines and address not in self._refused]
        able = [address for address in new if found[address]["resources"].get(RESOURCE, 0) >= 1]
        answers: dict[str, object] = {
            address: f'it has no resource "{RESOURCE}"' for address in new if address not in able
        }
        if able:
            # `run` and no task: a worker ends when it cannot load a task.
            answers |= self._client.run(describe, workers=able, on_error="return")
        return answers

    def _admit(self, address: str, answer: object) -> None:
        """Add the machine of a worker to those that are used, or refuse the worker, as its description requires."""
        if isinstance(answer, OSError):
            return  # the worker has just left
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
            self._report(f"{address} joined: {machine}")
            if same:
                warnings.warn(
                    f"machines of one kind have different compilers: {same[0].address} {same[0].compiler}, "
                    f"{address} {machine.compiler}",
                    stacklevel=2,
                )

    def _refuse(self, address: str, reason: str) -> None:
        self._refused[address] = reason
        self._report(f"{address} is not used: {reason}")

    def run(self, jobs_for: Callable[[Machine], Iterable[Job]], done: Callable[[Done], None]) -> None:
        """Do all jobs. `jobs_for` is called once for each kind of machine, with the first machine of that kind.

        `done` is called, in this thread, with each job that has ended. When a worker dies, another machine of the same
        kind does its job; a job has failed when three workers died. Raises PolyDLError when the scheduler is gone, or
        when jobs are left and no machine for them comes; `done` has then been called for those that ended before.
        """
        state = _State()
        try:
            while True:
                self._update_machines()
                for machine in self.machines:
                    if machine.kind not in state.queues:
                        state.queues[machine.kind] = deque(_Waiting(job) for job in jobs_for(machine))
                self._requeue_lost(state, done)
                self._start_jobs(state)
                if not state.running and not any(state.queues.values()):
                    return
                self._check_idle_time(state)
                with contextlib.suppress(queue.Empty):
                    self._finish(state, state.running.pop(self._ended.get(timeout=_POLL), None), done)
        finally:
            futures = [one.future for one in state.running.values()]
            if futures and self._client.status == "running":
                with contextlib.suppress(OSError):  # the scheduler has just gone
                    self._client.cancel(futures, force=True)

    def _start_jobs(self, state: _State) -> None:
        """Start a job on every machine that has none; workers that share a machine take turns."""
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

    def _requeue_lost(self, state: _State, done: Callable[[Done], None]) -> None:
        """Put the jobs of workers that are gone back into the queues."""
        for key, one in list(state.running.items()):
            if one.machine.address not in self._machines:
                del state.running[key]
                self._requeue(state, one, done)

    def _requeue(self, state: _State, one: _Running, done: Callable[[Done], None]) -> None:
        """Put a job whose worker died back into its queue, or let it fail when that happened too often."""
        one.future.cancel(force=True)
        one.waiting.deaths += 1
        if one.waiting.deaths < _ATTEMPTS:
            state.queues[one.machine.kind].appendleft(one.waiting)
            self._report(f"{one.waiting.job.name}: lost with its worker {one.machine.address}, to be done again")
            return
        failure = {"error": f"error: {_ATTEMPTS} workers died while they measured it", "exit_code": 1}
        done(Done(one.waiting.job, one.machine, failure, time.monotonic() - one.started))

    def _finish(self, state: _State, one: _Running | None, done: Callable[[Done], None]) -> None:
        """Report the result of a job that has ended, or requeue the job if its worker died. None: it was requeued
        before."""
        if one is None:
            return
        from distributed.scheduler import KilledWorker

        result: Mapping[str, Any] | None = None
        if one.future.status == "finished":
            # If the worker dies after the job and before this, Dask waits for the result for ever.
            with contextlib.suppress(TimeoutError):
                result = one.future.result(timeout=_FETCH)
        elif one.future.status == "error":
            reason = one.future.exception(timeout=_FETCH)
            if not isinstance(reason, KilledWorker):
                result = {"error": f"error: {type(reason).__name__}: {reason}".rstrip(), "exit_code": 1}
        if result is None:
            self._requeue(state, one, done)
        else:
            done(Done(one.waiting.job, one.machine, result, time.monotonic() - one.started))

    def _check_idle_time(self, state: _State) -> None:
        """Raise PolyDLError when no job has run for too long because there is no machine for any."""
        now = time.monotonic()
        if state.running:
            state.active = now
        elif now - state.active > self._worker_timeout:
            left = sum(len(jobs) for jobs in state.queues.values())
            raise PolyDLError(
                f"{left} jobs are left, and no worker for them came within {self._worker_timeout:.0f} s",
                hint="start workers and run the same command again; results that had come before are not lost",
            )


@dataclass(slots=True)
class _State:
    """The jobs of one `Pool.run`."""

    queues: dict[Kind, deque[_Waiting]] = field(default_factory=dict)
    running: dict[str, _Running] = field(default_factory=dict)
    """By the key of the future."""
    active: float = field(default_factory=time.monotonic)
    """When a job was last running, on the clock of time.monotonic."""


def _connected(address: str) -> Client:
    """A client of the scheduler. Raises PolyDLError."""
    try:
        from distributed import Client
    except ImportError as error:
        raise PolyDLError(
            f"--cluster needs Dask, which is not installed here ({error})", hint="pip install 'polydl[cluster]'"
        ) from error
    # What their log messages say is reported here, in words for people.
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with ThreadPoolExecutor(1) as thread:  # this one may run an event loop of its own, as notebooks do
            thread.submit(asyncio.run, asyncio.wait_for(_greet(address), 2 * _CONNECT)).result()
        return Client(address, timeout=_CONNECT, set_as_default=False)
    except Exception as error:
        # Another program at that address can cause any error: Dask takes its answer for lengths of messages.
        reason = (
            "another program answers there" if isinstance(error, MemoryError) else str(error) or "it does not answer"
        )
        raise PolyDLError(
            f"cannot reach a Dask scheduler at {address}: {reason}",
            hint="start one with `dask scheduler` and give the address that it prints, as in --cluster tcp://head:8786",
        ) from error


async def _greet(address: str) -> None:
    """Check that a Dask scheduler answers at an address. Raises any kind of error where there is none.

    A `Client` of Dask does not do: it waits for ever for some servers that are no schedulers, and stays after an error.
    """
    from distributed.comm import connect
    from distributed.security import Security

    peer = await connect(address, timeout=_CONNECT, **Security().get_connection_args("client"))
    try:
        await peer.write({"op": "identity", "n_workers": 0})
        answer = await peer.read()
    finally:
        peer.abort()
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        raise ValueError("another program answers there")
