"""What a fleet costs beside the work of its workers, and how it grows.

The cluster is a real one of Ray on this machine: a head and up to four nodes. The referees are stubs that
sleep, so that many of them fit on few cores. *Overhead* is the wall time of one evaluation with a stub that
does not sleep, less that of the same stub in this process (*local*). *Efficiency* is the sleep of all
evaluations together over wall time and devices; the devices are nothing but numbers. *Limit* is how many
evaluations without work all devices together have a second. Where efficiency falls, the one process that
plans is the limit: it writes, reads and records every evaluation, one at a time.

Usage: python -m lab.benchmarks.fleet [--devices 1,4,16,64] [--seconds 1.2] [--evaluations 10]
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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


def play(cluster: Cluster, n_devices: int, script: FleetScript, n_evaluations: int) -> list[float]:
    """Give every device one task; return seconds of each evaluation, and at the end those of everything."""
    seconds: list[float] = []
    connected = RayCluster(cluster.address, "cpu", is_apart=True)
    with Fleet(connected, order_for(script), "the Ray cluster") as fleet:
        while sum(seat.is_idle for seat in fleet._seats.values()) < n_devices:
            fleet.look()
            time.sleep(0.1)
        jobs = [FleetJob(f"{n}", _judge(f"task {n}", n_evaluations, seconds)) for n in range(n_devices)]
        begin = time.perf_counter()
        Lanes(fleet).run(jobs)
        return [*seconds, time.perf_counter() - begin]


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
    parser.add_argument("--devices", default="1,4,16,64", help="numbers of devices")
    parser.add_argument("--seconds", type=float, default=1.2, help="sleep of one evaluation")
    parser.add_argument("--evaluations", type=int, default=10, help="evaluations of a device")
    asked = parser.parse_args()
    local_ms = 1e3 * statistics.median(play_here(FleetScript(), asked.evaluations))
    found: dict[str, object] = {"local_ms": local_ms}
    for n_devices in map(int, asked.devices.split(",")):
        with cluster_of(n_devices) as cluster:
            *idle, idle_s = play(cluster, n_devices, FleetScript(), asked.evaluations)
            *_, wall_s = play(cluster, n_devices, FleetScript(seconds=asked.seconds), asked.evaluations)
        found[str(n_devices)] = {
            "nodes": min(MAX_NODES, n_devices),
            "overhead_ms": 1e3 * statistics.median(idle) - local_ms,
            "limit_evaluations_per_s": n_devices * asked.evaluations / idle_s,
            "efficiency": asked.seconds * asked.evaluations / wall_s,
        }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
