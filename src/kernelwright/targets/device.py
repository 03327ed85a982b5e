"""A kind of device, described as data: what the referee needs to run candidates on it and to confine them.

Several targets may share one: every language for the processor runs on ``PROCESSOR``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DriverFacts:
    """What a device's driver needs that a confined process does not have of itself."""

    name: str
    """Which driver of ``referee/worker/driver.py`` waits for the device and reads its clock."""
    torch_field: str
    """Attribute of ``torch.version`` that is set where torch is built for the device."""
    nodes: tuple[str, ...]
    """Device files that processes may open, as glob patterns."""
    reads: tuple[str, ...] = ()
    """Further files that it reads, as glob patterns."""
    made_late: tuple[str, ...] = ()
    """Device files that it makes on first use."""
    wake: str = ""
    """Python code that has it make them; run in a process of its own."""
    visible: str = ""
    """Environment variable that lists the devices that a process may see."""
    passed_on: tuple[tuple[str, str], ...] = ()
    """Environment variable that processes inherit -> its value where ours has none."""
    compiler_homes: tuple[str, ...] = ()
    """Environment variables that say where its compilers are; processes inherit those that are set."""
    vendor: str = ""
    """Whose profilers and limits apply, as ``targets/gpu`` spells it."""


def _always() -> bool:
    return True


@dataclass(frozen=True)
class DeviceKind:
    """Where candidates of one or several targets run."""

    name: str
    """As in a target's name, e.g. ``cpu``."""
    title: str = ""
    """In sentences, e.g. ``a GPU of NVIDIA``; empty: the name."""
    torch_device: str = "cpu"
    """Torch's name of the first one."""
    is_apart: bool = False
    """Tensors live in memory of their own: the referee copies them there and back."""
    driver: DriverFacts | None = None
    """None where processes need nothing beyond what every process has."""
    baselines: tuple[str, ...] = ()
    """What candidates can be compared with there beyond ``eager`` and ``torch_compile``."""
    is_here: Callable[[], bool] = field(default=_always, compare=False)
    """Tells whether this machine has one that torch can use; may take seconds."""
    label: str = "Machine"
    """What prompts call it where they name its peaks."""
    threads: str = "threads"
    """What its peak numbers of threads and of operations a second count, in the same place."""
    arithmetic: str = "GFLOP/s"
    hub_name: str = ""
    """What Hugging Face's kernels call it; empty: the name."""
    rounds_products: bool = False
    """Products may be less exact than float32 there where the task's tolerance says so."""


PEERS = ("torch_compile_frozen", "onnxruntime", "openvino")
"""What else a careful user of the processor picks."""
PROCESSOR = DeviceKind("cpu", title="the processor", baselines=PEERS)
"""The machine's own processor; tensors lie in memory that the referee shares with the candidate."""
