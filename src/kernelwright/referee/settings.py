"""Everything about judging that a user or a test may want to change."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RefereeSettings:
    """Limits and efforts; times in seconds."""

    cache_dir: Path
    """Compiled candidates and inductor's own cache; shared between runs."""
    n_threads: int = len(os.sched_getaffinity(0))
    """OpenMP threads of every measured process."""
    build_timeout_s: float = 60.0
    """Compiler run of one candidate."""
    load_timeout_s: float = 180.0
    """Import and constructor of a candidate; some compile themselves there."""
    call_timeout_s: float = 15.0
    """One call of a candidate; twenty times the reference's latency where that is longer."""
    reference_timeout_s: float = 600.0
    """Anything the reference does, torch.compile included."""
    search_timing_s: float = 0.5
    """Aim for the timing of one workload while searching."""
    final_timing_s: float = 2.5
    """The same for the final measurement."""
    batch_s: float = 0.01
    """Calls are repeated until a sample lasts this long."""
    floor_margin: float = 1.25
    """A candidate that beats the roofline floor by more than this factor is rejected."""
    memory_bytes: int | None = None
    """What a task may take; None: four fifths of what the machine has available."""
    worker_address_space_bytes: int | None = None
    """None: three quarters of the machine's memory on top of the shared arenas."""
    worker_cpu_s: int = 1200
    """Processor seconds of one candidate's process."""
    worker_file_bytes: int = 1 << 30
    """Largest file a candidate may write."""
