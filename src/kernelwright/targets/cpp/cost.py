"""How long a program takes by an analytic model: bytes moved, instructions, vectors, tails, threads.

Only ratios between programs of one task matter: they order the points of a space. What is not known of the
machine is assumed.
"""

import math
from dataclasses import dataclass

from kernelwright.core.machine import Machine
from kernelwright.ir.dag import StageGroup
from kernelwright.ir.lanes import points
from kernelwright.ir.normalise import axis_sizes
from kernelwright.ir.program import Call, Program, Region
from kernelwright.targets.cpp.choices import cores_of
from kernelwright.targets.cpp.schedules.dimensions import START_NS
from kernelwright.targets.cpp.schedules.region_facts import CppRegionFacts
from kernelwright.targets.cpp.strided_loads import lane_quality

INSTRUCTION_NS = 0.4
"""One instruction of one vector on one core; ours, as are all figures here."""
ADDITION_NS = 1.2
"""From one addition to the next that needs its result."""
ASSUMED_GBPS, ASSUMED_CACHE_GBPS = 15.0, 60.0
"""Memory and caches, all cores together, where they were not measured."""
BLOCK_NS = 150.0
"""To take one block on demand."""
STRIDED = 4.0
"""An access that is not contiguous along the lanes costs so many that are."""
CALL_NS = 4_000.0
"""To call an operator of torch."""


@dataclass(frozen=True)
class RegionCost:
    """Nanoseconds of one region, by what they are for."""

    memory: float
    """To move what does not stay in a core's caches."""
    cache: float
    compute: float
    """Instructions, with lanes that are empty and values that are computed again."""
    latency: float
    """Additions that wait for one another."""
    overhead: float
    """Threads that are woken, and blocks that are taken."""

    @property
    def total(self) -> float:
        """What goes on at the same time counts by its longest part."""
        return max(self.memory, self.cache, self.compute, self.latency) + self.overhead


def program_ns(program: Program, machine: Machine) -> float:
    """Return the time of all steps, in nanoseconds."""
    sizes = {buffer.name: CppRegionFacts.n_bytes(buffer) for buffer in program.buffers}
    total = 0.0
    for step in program.steps:
        if isinstance(step, Region):
            facts = CppRegionFacts.of(step, program, machine)
            if facts.choices.in_tiles is None:
                total += region_cost(facts).total
            else:  # sums in tiles are taken to be as fast as the library's; what was timed corrects it
                moved = 2 * sum(map(facts.n_bytes, facts.written))
                total += CALL_NS + moved / _rate(machine, moved)
        elif isinstance(step, Call) and not step.is_view:
            moved = 2 * sum(sizes.get(name or "", 0) for name in step.results)
            total += CALL_NS + moved / _rate(machine, moved)
    return total


def region_cost(facts: CppRegionFacts) -> RegionCost:
    """Return what a region costs as it is scheduled."""
    cores = _used(facts)
    width = _width(facts)
    speed = cores * width * _filled(facts)
    compute = cache = latency = 0.0
    for group in facts.dag.groups:
        count = points(facts.choices.region, group.actions[0].stage)
        compute += INSTRUCTION_NS * count * _work(facts, group) / speed
        cache += 4 * count * _accesses(facts, group) / ASSUMED_CACHE_GBPS / cores * cores_of(facts.machine)
        if group.reduces and not facts.choices.is_column:
            chains = max(1.0, facts.choices.lanes / max(width, 1.0))
            latency += ADDITION_NS * count / (cores * width * chains)
    compute *= _again(facts)
    moved = _moved(facts)
    is_parallel = facts.choices.parallel != "none"
    starts = facts.kept_points * facts.n_passes if facts.choices.parallel == "inner" else 1
    overhead = START_NS * starts * is_parallel + BLOCK_NS * facts.choices.grain * is_parallel
    share = min(1.0, (0.5 + 0.5 * cores / cores_of(facts.machine)) if is_parallel else 0.6)
    return RegionCost(moved / _rate(facts.machine, moved) / share, cache, compute, latency, overhead)


def _used(facts: CppRegionFacts) -> float:
    """Return how many cores are busy on average: the last blocks leave some without work."""
    if facts.choices.parallel == "none":
        return 1.0
    cores = min(facts.choices.threads or cores_of(facts.machine), cores_of(facts.machine))
    if facts.choices.parallel == "inner":
        return float(cores)
    blocks = max(facts.blocks, 1)
    return blocks / math.ceil(blocks / cores)


def _width(facts: CppRegionFacts) -> float:
    """Return the float32 values that one instruction takes."""
    if facts.choices.lane_axis is None:
        return 1.0
    widest = (facts.machine.vector_bytes or 32) // 4
    return float(min(facts.choices.simdlen or widest, widest))


def _filled(facts: CppRegionFacts) -> float:
    """Return the share of lanes that have work: the end of a row, or of a block, leaves some empty."""
    width, size = _width(facts), facts.lane_size
    block = min(facts.choices.lanes, size)
    if facts.choices.lane_axis is None or size < 1:
        return 1.0
    rest = size % block
    vectors = (size // block) * math.ceil(block / width) + math.ceil(rest / width)
    return size / max(vectors * width, 1.0)


def _work(facts: CppRegionFacts, group: StageGroup) -> float:
    """Return the instructions of one point of a pass."""
    needed = facts.dag.needed([action.node for action in group.actions])
    own = float(sum(facts.dag.own_cost(node) for node in needed))
    if facts.choices.exp_degree < 6 and own >= 8:
        own -= 1.0
    return own + _accesses(facts, group)


def _accesses(facts: CppRegionFacts, group: StageGroup) -> float:
    """Return the loads and stores of one point of a pass; strided ones count more."""
    needed = facts.dag.needed([action.node for action in group.actions])
    count = sum(facts.dag.nodes[node].kind == "load" for node in needed) + len(group.stores)
    axis = facts.choices.lane_axis
    is_strided = (
        axis is not None
        and axis in axis_sizes(facts.choices.region)
        and lane_quality(facts.choices.region, axis) <= 0
    )
    return count * (STRIDED if is_strided else 1.0)


def _again(facts: CppRegionFacts) -> float:
    """Return how many times as much is computed because costly values are not kept between passes."""
    if facts.choices.cache_rows or not facts.shared:
        return 1.0
    passes = [group for group in facts.dag.groups if group.axes]
    return 1.0 + 0.5 * (len(passes) - 1) / max(len(passes), 1)


def _moved(facts: CppRegionFacts) -> float:
    """Return the bytes that go to memory and back."""
    region = facts.choices.region
    passes = max(facts.n_passes, 1)
    if facts.choices.online or facts.choices.one_pass:
        passes = max(passes - 1, 1)
    read = 0.0
    for group in facts.dag.groups:
        needed = facts.dag.needed([action.node for action in group.actions])
        loads = sum(facts.dag.nodes[node].kind == "load" for node in needed)
        read += 4 * points(region, group.actions[0].stage) * loads
    if facts.slice_bytes <= facts.l2_bytes:  # later passes find the slice in the cache
        read /= passes
    written = float(sum(map(facts.n_bytes, facts.written)))
    is_large = written > facts.l2_bytes * _used(facts)
    if facts.choices.stream:
        return read + written * (1.0 if is_large else 3.0)  # past a cache that would have kept it
    return read + written * (2.0 if is_large else 1.0)  # lines are read before they are written


def _rate(machine: Machine, moved: float) -> float:
    """Return bytes a nanosecond for so large a working set."""
    if machine.peaks is None:
        return ASSUMED_GBPS
    return max(machine.peaks.bandwidth_at(int(moved)), 1e-3)
