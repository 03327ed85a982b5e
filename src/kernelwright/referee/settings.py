"""Everything about judging that a user or a test may want to change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.policy import Policy
from kernelwright.core.task import Task, Workload
from kernelwright.machine.topology import n_threads
from kernelwright.referee.checks.replay_statistics import PassSize
from kernelwright.settings import Settings


@dataclass(frozen=True)
class DeliveredForm:
    """How a candidate becomes the module that is delivered, inside its confined process."""

    write: Callable[[Candidate, Task, Workload, Policy], str]
    """Returns a program whose ``ModelNew`` is that module."""
    needs: str
    """What such a program imports: ordinary processes are forked with it loaded."""


@dataclass(frozen=True)
class RefereeSettings:
    """Limits and efforts; times in seconds."""

    cache_dir: Path
    """Compiled candidates and inductor's own cache; shared between runs."""
    device: str = "cpu"
    """Where tensors live and candidates run: ``cpu``, ``cuda``, ``cuda:N``, ``hip`` or ``hip:N``. For tests
    also ``copied``: the processor, used as a device with memory of its own but without a driver."""
    device_cache_bytes: int | None = None
    """Size of the cache in which timed calls must not find their inputs; None: the device's largest cache.
    Not used on ``cpu``."""
    device_architecture: str | None = None
    """What CUDA C++ is built for, ``sm_90a``; None: what the device says. For tests."""
    n_threads: int = field(default_factory=n_threads)
    """OpenMP threads of every measured process."""
    build_timeout_s: float = 60.0
    """Limit for one compiler run of a candidate."""
    load_timeout_s: float = 180.0
    """Limit for import, constructor and first call of a candidate; some candidates compile there."""
    call_timeout_s: float = 15.0
    """Limit for one call of a candidate; twenty times the reference's latency where that is longer."""
    reference_timeout_s: float = 600.0
    """Limit for one command to the reference, torch.compile included."""
    search_timing_s: float = 0.5
    """Time that the timing of one workload should take during a search."""
    final_timing_s: float = 1.6
    """Time that one timing in the fewest pairs of a final should take, all these pairs together."""
    final_seconds: float = 120.0
    """A final stops at the fewest pairs of a workload where the most would take longer. Finalists are
    timed in turn for no longer, either."""
    process_spread: float = 0.1
    """Standard deviation of the log ratio between pairs of processes that run the same code, in cache."""
    large_process_spread: float = 0.1
    """The same where inputs and outputs do not fit into the caches, so that physical pages matter.
    lab/benchmarks/noise.py measures both on a machine."""
    batch_s: float = 0.01
    """Calls are repeated until a sample lasts this long."""
    floor_margin: float = 1.25
    """A candidate that beats the roofline floor by more than this factor is rejected."""
    memory_bytes: int | None = None
    """Memory that a task may take; None: four fifths of what the machine has available."""
    worker_address_space_bytes: int | None = None
    """Address space of one candidate process; None: three quarters of the machine's memory, plus the shared
    arenas."""
    worker_cpu_s: int = 1200
    """Processor seconds of one candidate's process."""
    worker_file_bytes: int = 1 << 30
    """Largest file a candidate may write."""
    replay_size: PassSize | None = None
    """Largest size of one pass of the replay; None: the default of the device. For tests."""
    replays_leaders_only: bool = False
    """For searches: replay only candidates that are faster than every one that the session has replayed
    before. A final replays in any case."""
    policy: Policy = field(default_factory=Policy)
    """What counts as a candidate's own work."""
    worker_scratch_bytes: int = 1 << 30
    """Bytes that a candidate, or a compiler run, may keep in files and in shared memory."""
    worker_total_bytes: int | None = None
    """Memory of a candidate's processes together; None: as much as the address space of one process."""
    build_memory_bytes: int = 8 << 30
    """Memory of one compiler run."""
    sandbox: str | None = None
    """Strongest tier to use, or ``none`` for limits only; None: the strongest tier that works here. For tests
    and measurements."""
    confine_references: bool = False
    """Run references in the sandbox too: their tasks come from elsewhere. A live module stays trusted."""
    delivered: DeliveredForm | None = None
    """What is timed in an ordinary process; None: the candidate's own ``ModelNew``."""
    require_sandbox: str | None = None
    """Refuse to judge under a weaker tier than this one: ``namespaces``, ``bubblewrap``, ``landlock`` or
    ``limits``."""

    @property
    def build_cache(self) -> Path:
        """Folder of the compiled libraries, named by content hash."""
        return self.cache_dir / "build"


def make_referee_settings(
    where: Settings, policy: Policy | None = None, *, device: str = "cpu"
) -> RefereeSettings:
    """Return the settings of a referee that keeps to what the user requires; the only place that does.

    Args:
        where: caches, the sandbox that is required, whether tasks are trusted, and how long finals may take.
        policy: what it judges by; None: the default one.
        device: where candidates run.
    """
    final_seconds = where.final_seconds
    return RefereeSettings(
        cache_dir=where.cache_dir,
        policy=policy or Policy(),
        require_sandbox=where.require_sandbox,
        confine_references=where.confine_tasks,
        device=device,
        final_seconds=RefereeSettings.final_seconds if final_seconds is None else final_seconds,
    )
