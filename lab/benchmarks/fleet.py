"""What a fleet costs beside the work of its workers, and how it grows.

The cluster is a real one of Ray on this machine: a head and up to four nodes. The referees are stubs that
sleep, so that many of them fit on few cores. *Overhead* is the wall time of one evaluation on one device with
a stub that does not sleep, less that of the same stub in this process (*local*). *Efficiency* is the sleep of
all evaluations together over wall time and devices; the devices are nothing but numbers. *Rate* is how many
evaluations without work all devices together have a second, and *limit* what keeps it there: the driver, that
asks and reads answers one at a time, or Ray and the workers, which share the cores of this machine with it.
Nothing is planned, written or recorded: the driver of a real run has that to do, too.

Usage: python -m lab.benchmarks.fleet [--devices 1,4,16,64] [--seconds 1.2] [--evaluations 10] [--out FOLDER]
"""

import argparse
import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.cluster_utils import Cluster

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.machine.probe import probe_machine
from kernelwright.remote.fleet.fleet import Fleet
from kernelwright.remote.fleet.lanes import FleetJob, Lanes
from kernelwright.remote.fleet.ray_cluster import RayCluster
from kernelwright.remote.fleet.session import FleetEvaluator
from lab.benchmarks import RESULTS
from lab.fleet import FleetScript, bring, order_for

OVERHEAD_MS, EFFICIENCY = 20.0, 0.9
"""What an evaluation may cost beyond local, and what every number of devices has to reach."""
MAX_NODES = 4
START_S = 900.0
"""Until all workers have started; on few cores many of them take minutes."""
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
    def busy(self) -> float:
        """Share of one core that the driver used."""
        return self.driver_s / self.wall_s

    @property
    def limit(self) -> str:
        """What kept it from being quicker."""
        return (
            "the driver" if self.busy > BUSY else "waiting for Ray and the workers, which share this machine"
        )


def play(cluster: Cluster, n_devices: int, script: FleetScript, n_evaluations: int) -> FleetTimes:
    """Give every device one task."""
    seconds: list[float] = []
    connected = RayCluster(cluster.address, "cpu", is_apart=True)
    with Fleet(connected, order_for(script), "the Ray cluster") as fleet:
        _wait_for_all(fleet, n_devices)
        jobs = [FleetJob(f"{n}", _judge(f"task {n}", n_evaluations, seconds)) for n in range(n_devices)]
        begin, used = time.perf_counter(), time.process_time()
        Lanes(fleet).run(jobs)
        return FleetTimes(seconds, time.perf_counter() - begin, time.process_time() - used)


def _wait_for_all(fleet: Fleet, n_devices: int) -> None:
    """Wait until every worker is ready; says so as they come."""
    until, told = time.monotonic() + START_S, -1
    while told < n_devices:
        fleet.look()
        n_ready = sum(seat.is_idle for seat in fleet._seats.values())
        if n_ready != told:
            say(f"\r{n_ready} of {n_devices} workers are ready", end="")
            told = n_ready
        if time.monotonic() > until:
            raise SystemExit(f"\n{n_ready} of {n_devices} workers have started in {START_S:.0f} s")
        time.sleep(0.1)
    say("")


def say(text: str, end: str = "\n") -> None:
    """Tell whoever waits."""
    sys.stderr.write(text + end)
    sys.stderr.flush()


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


def measure(numbers: list[int], sleep_s: float, n_evaluations: int) -> dict[str, Any]:
    """Return milliseconds of one evaluation here and beyond that, and a row for every number of devices."""
    local_ms = 1e3 * statistics.median(play_here(FleetScript(), n_evaluations))
    rows, overhead_ms = [], 0.0
    for n_devices in numbers:
        say(f"{n_devices} devices, without work and with a sleep of {sleep_s:g} s")
        with cluster_of(n_devices) as cluster:
            idle = play(cluster, n_devices, FleetScript(), n_evaluations)
            slept = play(cluster, n_devices, FleetScript(seconds=sleep_s), n_evaluations)
        if n_devices == 1:
            overhead_ms = 1e3 * statistics.median(idle.seconds) - local_ms
        rows.append(
            {
                "devices": n_devices,
                "nodes": min(MAX_NODES, n_devices),
                "rate_evaluations_per_s": n_devices * n_evaluations / idle.wall_s,
                "driver_busy": idle.busy,
                "limit": idle.limit,
                "efficiency": sleep_s * n_evaluations / slept.wall_s,
            }
        )
    return {"local_ms": local_ms, "overhead_ms": overhead_ms, "rows": rows}


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    where, sleep_s = result["environment"], result["seconds"]
    lines = [
        "# What a fleet costs",
        "",
        f"One evaluation without work on one device takes {result['overhead_ms']:.1f} ms more than the same "
        f"call in one process ({result['local_ms']:.2f} ms); {OVERHEAD_MS:.0f} ms are allowed.",
        "",
        f"| devices | nodes | efficiency with {sleep_s:g} s of sleep | evaluations a second without work "
        "| limit of that | driver busy |",
        "|---:|---:|---:|---:|---|---:|",
    ]
    for row in result["rows"]:
        lines.append(
            f"| {row['devices']} | {row['nodes']} | {row['efficiency']:.3f} "
            f"| {row['rate_evaluations_per_s']:.0f} | {row['limit']} | {100 * row['driver_busy']:.0f} % |"
        )
    lines += [
        "",
        f"*Efficiency*: the sleep of all evaluations over wall time and devices; {EFFICIENCY:g} is needed. "
        "*Driver busy*: of one core. All nodes are on one machine, and the devices are numbers.",
        "",
        f"{result['date']}; {where['processor']}, {where['cores']} cores; Ray {result['ray']}, "
        f"Python {where['python']}, {where['kernel']}.",
        "",
        f"Command: `{result['command']}`",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print, write; exit code 1 where something is not what it has to be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", default="1,4,16,64", help="numbers of devices; one is among them always")
    parser.add_argument("--seconds", type=float, default=1.2, help="sleep of one evaluation")
    parser.add_argument("--evaluations", type=int, default=10, help="evaluations of a device")
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet")
    asked = parser.parse_args()
    numbers = sorted({1, *map(int, asked.devices.split(","))})
    result = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m lab.benchmarks.fleet --devices {','.join(map(str, numbers))} "
        f"--seconds {asked.seconds:g} --evaluations {asked.evaluations}",
        "environment": probe_machine().environment(),
        "ray": ray.__version__,
        "seconds": asked.seconds,
        "evaluations": asked.evaluations,
        **measure(numbers, asked.seconds, asked.evaluations),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "fleet.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    text = render(result)
    (asked.out / "fleet.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    is_quick = result["overhead_ms"] <= OVERHEAD_MS
    return 0 if is_quick and all(row["efficiency"] >= EFFICIENCY for row in result["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
