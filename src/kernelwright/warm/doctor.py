"""The warm referee as ``kernelwright doctor`` shows it."""

import time
from pathlib import Path

from kernelwright.machine.check import MachineCheck
from kernelwright.targets.device import PROCESSOR
from kernelwright.warm.client import find_warm

NAME = "warm referee"


def check_warm(cache_dir: Path) -> MachineCheck:
    """Say whether one runs for this cache folder, and what it holds."""
    found = find_warm(cache_dir, PROCESSOR.name)
    if found is None:
        return MachineCheck(NAME, True, "none runs; `kernelwright evaluate` starts one")
    minutes = (time.time() - found.started) / 60
    tasks = ", ".join(found.tasks) or "none"
    text = f"process {found.pid} for {minutes:.0f} min, {found.judged} kernels judged, tasks open: {tasks}"
    advice = (
        f"ends after {found.idle_s / 60:g} min without a question, or by `kernelwright doctor --end-referee`"
    )
    return MachineCheck(NAME, True, text, advice)
