"""Stubs for a fleet: a referee that looks verdicts up, and a cluster without machines.

The referee stands where the real one would be on a worker; ``lab.fleet:bring`` names it in an order. It
measures nothing, notes what it was asked in a folder, takes as long as it is told, and can die.
"""

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pydantic import Field

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.errors import TaskError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.frozen import Frozen
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.machine.built_elsewhere import put_into_cache
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.remote.fleet.cluster import FleetDevice, Sendable, WorkerLost
from kernelwright.remote.fleet.fleet import Fleet, FleetPatience
from kernelwright.remote.fleet.records import WorkerOrder
from kernelwright.remote.fleet.worker import RefereeActor, WorkerSetup
from kernelwright.runs.evaluator import Session
from kernelwright.testing.fake_verdicts import PEAKS, fake_evaluation

BRING = f"{__name__}:bring"
PROCESSOR = "FLEET_STUB_PROCESSOR"
"""Environment variable: what the machine of a worker is called."""
WAITS_HERE = "FLEET_STUB_WAITS"
"""Environment variable: ``waits`` of the workers of one node, which is slow then."""
BUILD_S = 25.0
Recorded: TypeAlias = dict[tuple[str, str, bool], Evaluation]
"""By task, candidate, and whether it is final."""
PATIENCE = FleetPatience(lost_s=60.0, busy_s=60.0, answer_s=120.0)
"""A test that waits this long has failed."""


class FleetScript(Frozen):
    """How stub referees behave."""

    verdicts: dict[str, float] = Field(default_factory=dict)
    """Candidate's source -> speedup; 1.0 for the others."""
    seconds: float = 0.0
    """What an evaluation takes."""
    notes: str = ""
    """Folder in which every evaluation leaves a file."""
    dies_once: tuple[str, ...] = ()
    """Sources of candidates that take their worker with them the first time; needs ``notes``."""
    dies: tuple[str, ...] = ()
    """... every time."""
    waits: str = ""
    """An evaluation does not end while this file exists."""
    modules: str = ""
    """Folder for live modules."""
    builds: str = ""
    """Cache folder for what the real build nodes of a real cluster have built; empty: nobody asks them."""
    recording: str = ""
    """File of a recording, whose verdicts are given in the place of ``verdicts``; no others are."""
    chosen: dict[str, int] = Field(default_factory=dict)
    """What open parameters are closed to; empty: nobody closes them."""


def order_for(script: FleetScript, device: str = "cpu") -> WorkerOrder:
    """Return the order for stub referees."""
    return WorkerOrder(bring=BRING, device=device, argument=script.model_dump_json())


def bring(order: WorkerOrder) -> WorkerSetup:
    """Return a stub in the place of the referee."""
    script = FleetScript.model_validate_json(order.argument)
    if WAITS_HERE in os.environ:
        script = script.model_copy(update={"waits": os.environ[WAITS_HERE]})
    machine = Machine(processor=os.environ.get(PROCESSOR, "stub"), cores=1, peaks=PEAKS)

    recorded = _recorded(Path(script.recording)) if script.recording else {}

    def start() -> AbstractContextManager["_StubReferee"]:
        return nullcontext(_StubReferee(script, recorded))

    def close(task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
        return ClosedParameters(written=candidate.id, values=dict(script.chosen), seconds=seconds)

    def build(programs: Sequence[str]) -> None:
        # lazy: needs Ray, and what builds
        from kernelwright.api.building import BUILD
        from kernelwright.remote.fleet.ray_cluster import RayFarm

        put_into_cache(Path(script.builds), RayFarm(BUILD)(programs, BUILD_S, False))

    return WorkerSetup(
        start=start,
        machine=machine,
        build=build if script.builds else None,
        modules=Path(script.modules) if script.modules else None,
        close=close if script.chosen else None,
    )


def _recorded(file: Path) -> Recorded:
    """Read the verdicts of a recording; without its own reader, which loads torch."""
    entries = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    found = [Evaluation.model_validate(one["evaluation"]) for one in entries if "evaluation" in one]
    return {(one.task_id, one.candidate_id, one.is_final): one for one in found}


def notes_in(folder: Path) -> list[dict[str, object]]:
    """Return what stub referees were asked and answered, in the order of their ends."""
    files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


@dataclass
class _StubReferee:
    script: FleetScript
    recorded: Recorded

    def open(self, task: Task) -> Session:
        if "refuse me" in task.source:
            raise TaskError(f"{task.name}: not deterministic")
        return _StubSession(self.script, task, self.recorded)


@dataclass
class _StubSession:
    script: FleetScript
    task: Task
    recorded: Recorded

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        return {workload.name: 10.0 for workload in self.task.workloads}

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        script, source = self.script, candidate.source
        self._note("begun", candidate, final)
        while script.waits and Path(script.waits).exists():
            time.sleep(0.01)
        if source in script.dies or (source in script.dies_once and self._is_first(candidate)):
            os._exit(1)
        time.sleep(script.seconds)
        self._note("ended", candidate, final)
        if self.recorded:
            return self.recorded[self.task.id, candidate.id, final]
        found = fake_evaluation(candidate, self.task, script.verdicts.get(source, 1.0), final=final)
        return found.model_copy(update={"referee": REFEREE_VERSION})

    def _is_first(self, candidate: Candidate) -> bool:
        mark = Path(self.script.notes) / f"dead-{candidate.id}"
        if mark.exists():
            return False
        mark.touch()
        return True

    def _note(self, what: str, candidate: Candidate, final: bool) -> None:
        if not self.script.notes:
            return
        note = {"what": what, "task": self.task.name, "source": candidate.source, "final": final}
        note["card"] = os.environ.get("CUDA_VISIBLE_DEVICES")
        path = Path(self.script.notes) / f"{uuid.uuid4().hex}"
        path.write_text(json.dumps({**note, "pid": os.getpid()}), encoding="utf-8")
        path.rename(path.with_suffix(".json"))

    def __enter__(self) -> "_StubSession":
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@dataclass
class FakeCluster:
    """A cluster of this process: workers answer at once, nodes and workers die when a test says so."""

    nodes: list[str]
    cards: tuple[str, ...] = ()
    """Which GPU workers say that they have, in the order of their beginnings; empty: nodes have none."""
    processors: dict[str, str] = field(default_factory=dict)
    """Node -> what its machine is called, where that is not ``stub``."""
    version: str | None = None
    """What workers say that they run; None: what runs here."""
    dies: dict[str, list[str]] = field(default_factory=dict)
    """Method -> what dies before it answers, one after the other: ``worker``, ``node`` or nothing (empty)."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Node and method of every question."""
    sent: list[Sendable] = field(default_factory=list)
    is_closed: bool = False

    def devices(self) -> tuple[FleetDevice, ...]:
        """One processor a node, or two GPUs."""
        places = (0, 1) if self.cards else (None,)
        return tuple(
            FleetDevice(node, "host", "cpu", n, cpus=1) for node in sorted(self.nodes) for n in places
        )

    def put(self, value: Sendable) -> object:
        """Remember it."""
        self.sent.append(value)
        return value

    def start(self, device: FleetDevice) -> "FakeWorker":
        """Start an actor in this process."""
        return FakeWorker(self, device)

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


class FakeWorker:
    """See WorkerHandle."""

    def __init__(self, cluster: FakeCluster, device: FleetDevice) -> None:
        self.cluster, self.device = cluster, device
        self.actor = RefereeActor()
        self.is_dead = False

    def ask(self, method: str, *values: object) -> "FakeAnswer":
        """Answer at once."""
        cluster, node = self.cluster, self.device.node
        cluster.asked.append((node, method))
        script = cluster.dies.get(method, [])
        fate = script.pop(0) if script else ""
        if fate == "node":
            cluster.nodes.remove(node)
        self.is_dead = self.is_dead or bool(fate) or node not in cluster.nodes
        if self.is_dead:
            return FakeAnswer(None)
        if method == "hello" and cluster.version is not None:
            return FakeAnswer(json.dumps({"version": cluster.version, "digest": "other"}))
        text = getattr(self.actor, method)(*values)
        return FakeAnswer(self._described(text) if method == "begin" else text)

    def kill(self) -> None:
        """Answer nothing any more."""
        self.is_dead = True

    def _described(self, text: str) -> str:
        """Return a beginning with what the test wants the machine to be."""
        cluster, said = self.cluster, json.loads(text)
        if self.device.node in cluster.processors:
            said["machine"]["processor"] = cluster.processors[self.device.node]
        if cluster.cards:
            n_begun = sum(method == "begin" for _, method in cluster.asked)
            said["card"] = cluster.cards[n_begun - 1]
        return json.dumps(said)


@dataclass(frozen=True)
class FakeAnswer:
    """See PendingAnswer."""

    text: str | None

    def wait(self, seconds: float) -> bool:
        """It is there."""
        return True

    def get(self) -> str:
        """Return it."""
        if self.text is None:
            raise WorkerLost("the stub has died")
        return self.text


def fake_fleet(cluster: FakeCluster, script: FleetScript, patience: FleetPatience = PATIENCE) -> Fleet:
    """Return a fleet over a cluster of this process."""
    return Fleet(cluster, order_for(script), "the fake cluster", patience)
