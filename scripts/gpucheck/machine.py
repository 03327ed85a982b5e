"""What the machine is: asked of torch in a process of its own, and of the driver's tool."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PROBE_S = 120.0


@dataclass(frozen=True)
class Machine:
    """The devices, the driver and the versions; ``problem`` says in a line why nothing can be checked."""

    vendor: str | None = None
    """``cuda`` or ``hip``."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    driver: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def target(self) -> str:
        """What candidates are written for."""
        return f"{self.vendor}/triton"

    def record(self) -> dict[str, Any]:
        """Return what goes into the results."""
        return asdict(self)


def look(environment: Mapping[str, str], python: str = sys.executable) -> Machine:
    """Ask for device, versions and packages; whatever goes wrong is the ``problem``."""
    probe = Path(__file__).with_name("probe.py")
    try:
        done = subprocess.run(
            [python, str(probe)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_S,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        return Machine(problem=f"asking torch for a device took more than {PROBE_S:g} s")
    except (OSError, ValueError):
        return Machine(problem="asking torch for a device ended without an answer")
    machine = Machine(**said, driver=_driver())
    if machine.missing and not machine.problem:
        names = ", ".join(machine.missing)
        return Machine(**{**machine.record(), "problem": f"packages are missing: {names}; see --pack"})
    return machine


def _driver() -> str | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().partition("\n")[0] or None
