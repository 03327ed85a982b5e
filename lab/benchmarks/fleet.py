"""What a fleet costs beside the work of its workers, and how it grows.

The cluster is a real one of Ray on this machine: a head and up to four nodes. The referees are stubs that
sleep, so that many of them fit on few cores. *Overhead* is the wall time of one evaluation on one device with
a stub that does not sleep, less that of the same stub in this process (*local*). *Efficiency* is the sleep of
all evaluations together over wall time and devices; the devices are nothing but numbers. *Rate* is how many
evaluations without work all devices together have a second, and *limit* what keeps it there: the driver, that
asks and reads answers one at a time, or Ray and the workers, which share the cores of this machine with it.
Nothing is planned, written or recorded: the driver of a real run has that to do, too.

Usage: python -m lab.benchmarks.fleet [--devices 1,4,16,64] [--seconds 1.2] [--evaluations 10]
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ray.cluster_utils import Cluster

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.remote.fleet.fleet import Fleet
from kernelwright.remote.fleet.lanes import FleetJob, Lanes
from kernelwright.remote.fleet.ray_cluster import RayCluster
from kernelwright.remote.fleet.session import FleetEvaluator
from lab.fleet import FleetScript, bring, order_for

MAX_NODES = 4
STORE_BYTES = 80_000_000
BUSY = 0.8
"""Share of one core above which the driver has no time left for more."""


@contextmanager
def cluster_of(n_devices: int) -> Iterator[Cluster]:
    """Start a head and nodes that share the devices."""
    small: dict[str, Any] = {"num_cpus": 0, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    try:
        n_nodes = min(MAX_NODES, n_devices)
        for number in range(n_nodes):
            share = n_devices // n_nodes + (number < n_devices % n_nodes)
            cluster.add_node(**small, num_gpus=share)
        yield cluster
    finally:
        cluster.shutdown()


class FleetTimes(NamedTuple):
    """What it took to judge everything."""

    seconds: list[float]
    """Of each evaluation."""
    wall_s: float
    driver_s: float
    """Processor time of this process, which is the driver."""

    @property
    def limit(self) -> str:
        """What kept it from being quicker."""
        busy = self.driver_s / self.wall_s
        who = "the driver" if busy > BUSY else "waiting for Ray and the workers, which share this machine"
        return f"{who}; the driver was busy {100 * busy:.0f} % of the time"


def play(cluster: Cluster, n_devices: int, script: FleetScript, n_evaluations: int) -> FleetTimes:
    """Give every device one task."""
    seconds: list[float] = []
    connected = RayCluster(cluster.address, "cpu", is_apart=True)
    with Fleet(connected, order_for(script), "the Ray cluster") as fleet:
        while sum(seat.is_idle for seat in fleet._seats.values()) < n_devices:
            fleet.look()
            time.sleep(0.1)
        jobs = [FleetJob(f"{n}", _judge(f"task {n}", n_evaluations, seconds)) for n in range(n_devices)]
        begin, used = time.perf_counter(), time.process_time()
        Lanes(fleet).run(jobs)
        return FleetTimes(seconds, time.perf_counter() - begin, time.process_time() - used)


def play_here(script: FleetScript, n_evaluations: int) -> list[float]:
    """Ask the same stub in this process; return seconds of each evaluation."""
    seconds: list[float] = []
    with (
        bring(order_for(script)).start() as referee,
        referee.open(Task(name="here", source="here")) as session,
    ):
        for number in range(n_evaluations):
            begin = time.perf_counter()
            session.evaluate(Candidate(source=f"x = {number}"))
            seconds.append(time.perf_counter() - begin)
    return seconds


def _judge(name: str, n_evaluations: int, seconds: list[float]) -> Callable[[FleetEvaluator], None]:
    def judge(evaluator: FleetEvaluator) -> None:
        session = evaluator.open(Task(name=name, source=name))
        for number in range(n_evaluations):
            begin = time.perf_counter()
            session.evaluate(Candidate(source=f"x = {number}"))
            seconds.append(time.perf_counter() - begin)

    return judge


def main() -> None:
    """Measure and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", default="1,4,16,64", help="numbers of devices; one is among them always")
    parser.add_argument("--seconds", type=float, default=1.2, help="sleep of one evaluation")
    parser.add_argument("--evaluations", type=int, default=10, help="evaluations of a device")
    asked = parser.parse_args()
    local_ms = 1e3 * statistics.median(play_here(FleetScript(), asked.evaluations))
    found: dict[str, object] = {"local_ms": local_ms}
    for n_devices in sorted({1, *map(int, asked.devices.split(","))}):
        with cluster_of(n_devices) as cluster:
            idle = play(cluster, n_devices, FleetScript(), asked.evaluations)
            slept = play(cluster, n_devices, FleetScript(seconds=asked.seconds), asked.evaluations)
        if n_devices == 1:
            found["overhead_ms"] = 1e3 * statistics.median(idle.seconds) - local_ms
        found[str(n_devices)] = {
            "nodes": min(MAX_NODES, n_devices),
            "rate_evaluations_per_s": n_devices * asked.evaluations / idle.wall_s,
            "limit": idle.limit,
            "efficiency": asked.seconds * asked.evaluations / slept.wall_s,
        }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
