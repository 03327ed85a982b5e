"""Where the tensors of a measured process live: in the shared memory itself, or copied from it to a device.

``upload`` updates a device's argument sets after the parent has written to the shared memory; ``download``
writes them back when the parent wants to read them. The process waits for the whole device before and after
every measured call, so the parent's clock includes work on every stream.
"""

import ctypes
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from kernelwright.referee.worker.driver import DRIVERS, Driver, DriverError, Mark
from kernelwright.referee.worker.layouts import Json, Slot, slots_in
from kernelwright.referee.worker.snapshots import Snapshots
from kernelwright.referee.worker.tensors import Arena, decode, dtype_of

POISON = 0xFF
"""Byte that fills free memory of a device: NaN in every float type."""
POISONED_BLOCKS = 4
"""Blocks of every output's size that are poisoned: for outputs, and for what lies between operations."""

_now = time.perf_counter_ns  # taken before any candidate is imported


class Placement:
    """Tensors in the shared memory itself: an argument set is made of views of its arena, without copies."""

    device = "cpu"
    """Torch's name of it."""
    is_on_gpu = False
    """True where tensors are not in the processor's memory."""
    snapshots: Snapshots | None = None
    """Copies of outputs, where tensors have memory of their own."""

    def bind(
        self, name: str, value: Json, arena: Arena | None, begin: int = 0, end: int | None = None
    ) -> Any:
        """Return the value whose tensors lie between ``begin`` and ``end`` of an arena."""
        return decode(value, arena)

    def module(self, module: nn.Module) -> nn.Module:
        """Return the module with its parameters where they belong."""
        return module

    def forget(self, name: str) -> None:
        """Release an argument set."""

    def upload(self, names: Sequence[str]) -> None:
        """Copy the arena's content, which the parent has written, to the argument sets of one arena."""

    def download(self, name: str) -> None:
        """Write the present values of an argument set to its arena."""

    def reserve(self, size: int) -> None:
        """Have ``size`` bytes ready for tensors."""

    def release(self) -> None:
        """Return unused memory, which another process may need."""

    def poison(self, sizes: Sequence[int]) -> None:
        """Fill free memory in blocks of these sizes; fill fewer or none where memory is short."""

    def synchronise(self) -> None:
        """Wait until all work is done."""

    def settle(self) -> None:
        """Wait, and undo cache settings that would outlast a sample."""

    def mark(self) -> Mark:
        """Record a point in the order of the device's work."""
        return None

    def between(self, first: Mark, second: Mark) -> dict[str, float]:
        """Return the time between two marks by the device's own clock, empty where it has none."""
        return {}

    def watched(self) -> tuple[Any, ...]:
        """Return the objects that do all this, whose methods must not be replaced."""
        return (self,)

    def switches(self) -> dict[str, Callable[[], Any]]:
        """Return global state that matters on this device only: name in messages -> its reader."""
        return {}


class DevicePlacement(Placement):
    """Tensors in memory of their own, on the device that torch calls ``device``."""

    def __init__(self, device: str, driver: Driver) -> None:
        self.device, self._driver = device, driver
        self.is_on_gpu = not isinstance(driver, Bystander)
        self._mirrors: dict[str, Mirror] = {}
        self.snapshots: Snapshots = Snapshots(device, driver.copy)

    def bind(
        self, name: str, value: Json, arena: Arena | None, begin: int = 0, end: int | None = None
    ) -> Any:
        if arena is None:
            return decode(value, None)
        mirror = Mirror(value, arena, begin, arena.size if end is None else end, self.device)
        self._mirrors[name] = mirror
        return decode(value, mirror)

    def module(self, module: nn.Module) -> nn.Module:
        return module.to(self.device)

    def forget(self, name: str) -> None:
        self._mirrors.pop(name, None)

    def upload(self, names: Sequence[str]) -> None:
        self._driver.synchronise()
        done: dict[tuple[int, int], Mirror] = {}
        for mirror in (self._mirrors[name] for name in names):
            same = done.setdefault(mirror.part, mirror)
            if same is mirror:
                mirror.upload()
            else:
                mirror.copy_from(same)
        self._driver.synchronise()

    def download(self, name: str) -> None:
        self._driver.synchronise()
        self._mirrors[name].download()

    def reserve(self, size: int) -> None:
        torch.empty(size, dtype=torch.uint8, device=self.device)

    def release(self) -> None:
        torch.cuda.empty_cache()  # does nothing in a process that has used no GPU

    def poison(self, sizes: Sequence[int]) -> None:
        for n_blocks in (POISONED_BLOCKS, 1):
            if self._fits([size for size in sizes for _ in range(n_blocks)]):
                return
            self.release()

    def _fits(self, sizes: Sequence[int]) -> bool:
        """Poison blocks of these sizes; False where memory is short, which is not the candidate's fault."""
        try:
            blocks = [self._block(size).fill_(POISON) for size in sizes]
        except torch.OutOfMemoryError:
            return False
        self._driver.synchronise()
        del blocks
        return True

    def _block(self, size: int) -> torch.Tensor:
        return torch.empty(max(size, 1), dtype=torch.uint8, device=self.device)

    def synchronise(self) -> None:
        self._driver.synchronise()

    def settle(self) -> None:
        self._driver.settle()

    def mark(self) -> Mark:
        return self._driver.mark()

    def between(self, first: Mark, second: Mark) -> dict[str, float]:
        return {"device_ns": self._driver.between(first, second)}

    def watched(self) -> tuple[Any, ...]:
        return (self, self.snapshots, self._driver, *self._driver.watched())

    def switches(self) -> dict[str, Callable[[], Any]]:
        own: dict[str, Callable[[], Any]] = {"lines kept in the second-level cache": self._driver.set_aside}
        if self.is_on_gpu:
            own["the current stream"] = lambda: torch.cuda.current_stream().cuda_stream
            own["the current device"] = torch.cuda.current_device
        return {name: _told(read) for name, read in {**PRECISION, **own}.items()}


class Mirror:
    """Copies of one argument set's tensors, each in a block with the bytes that follow it in the arena.

    These bytes are NaN for code that reads beyond a tensor, and show when code has written beyond it.
    """

    def __init__(self, value: Json, arena: Arena, begin: int, end: int, device: str) -> None:
        self._device = device
        self.part = begin, end
        """Begin and end in the arena. Lanes of one set have the same part."""
        self._pairs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        offsets = sorted({begin, *(slot["offset"] for slot in slots_in(value))})
        for offset, following in zip(offsets, [*offsets[1:], end], strict=True):
            shared = torch.frombuffer(
                arena.memory, dtype=torch.uint8, count=following - offset, offset=offset
            )
            self._pairs[offset] = shared, torch.empty(following - offset, dtype=torch.uint8, device=device)
        self.upload()

    def tensor(self, slot: Slot) -> torch.Tensor:
        """Return the tensor of a slot; its storage is the whole block."""
        empty = torch.empty(0, dtype=dtype_of(slot["dtype"]), device=self._device)
        if math.prod(slot["shape"]) == 0:
            return empty.new_empty(slot["shape"])
        storage = self._pairs[slot["offset"]][1].untyped_storage()
        return empty.set_(storage, 0, slot["shape"], slot["stride"])

    def upload(self) -> None:
        """Copy from the arena."""
        for shared, own in self._pairs.values():
            own.copy_(shared)

    def copy_from(self, other: "Mirror") -> None:
        """Copy from another mirror of the same part, without going through the arena."""
        for (_, own), (_, there) in zip(self._pairs.values(), other._pairs.values(), strict=True):
            own.copy_(there)

    def download(self) -> None:
        """Copy to the arena."""
        for shared, own in self._pairs.values():
            shared.copy_(own)


class Bystander:
    """Stands in for a driver where the device is the processor itself: work is done when a call returns."""

    def synchronise(self) -> None:
        """See Driver."""

    def settle(self) -> None:
        """See Driver."""

    def mark(self) -> Mark:
        """See Driver."""
        return _now()

    def between(self, first: Mark, second: Mark) -> float:
        """See Driver."""
        return float(second - first)

    def copy(self, to: int, source: int, size: int) -> None:
        """See Driver."""
        ctypes.memmove(to, source, size)

    def set_aside(self) -> int:
        """See Driver."""
        return 0

    def watched(self) -> tuple[Any, ...]:
        """See Driver."""
        return ()

    def architecture(self, properties: Any) -> str | None:
        """See Driver."""
        return None


def place(device: Mapping[str, str]) -> tuple[DevicePlacement, dict[str, Any]]:
    """Return a placement on the one device of a kind that this process sees, and what is to be known of it.

    Args:
        device: ``kind`` and torch's name of it, ``torch_device``; for one that has a driver the driver's name
            and the ``torch_field`` of ``torch.version`` that says whether torch is built for it.

    Raises:
        Exception: whatever torch or the driver raises where there is no such device.
    """
    if not device["driver"]:
        return DevicePlacement(device["torch_device"], Bystander()), dict(
            name=device["kind"], cache_bytes=0, free_bytes=None, architecture=None
        )
    if not getattr(torch.version, device["torch_field"], None):
        raise DriverError(f"torch {torch.__version__} is not built for {device['kind']}")
    first = torch.device(device["torch_device"])
    torch.zeros(1, device=first)  # raises where there is none, or where a parent has used it before the fork
    driver = DRIVERS[device["driver"]]()
    found = torch.cuda.get_device_properties(0)
    free_bytes, _ = torch.cuda.mem_get_info(0)
    facts = {
        "name": found.name,
        "cache_bytes": int(getattr(found, "L2_cache_size", 0)),
        "free_bytes": int(free_bytes),
        "architecture": driver.architecture(found),
    }
    return DevicePlacement(device["torch_device"], driver), facts


def use_tf32(is_on: bool) -> None:
    """Allow or forbid TF32: products of float32 whose factors are rounded to 10 bits."""
    torch.backends.cuda.matmul.allow_tf32 = is_on
    torch.backends.cudnn.allow_tf32 = is_on


def _told(read: Callable[[], Any]) -> Callable[[], Any]:
    """Return a reader that returns an error's first line instead of raising it.

    Torch raises where old and new switches disagree, and versions of torch lack some switches.
    """

    def tell() -> Any:
        try:
            return read()
        except (RuntimeError, AttributeError, TypeError, DriverError) as error:
            return str(error).partition("\n")[0][:80]

    return tell


def _precision_of(*path: str) -> Callable[[], Any]:
    """Return a reader of one of torch's newer switches, which gives None where torch lacks it."""

    def read() -> Any:
        place: Any = torch.backends
        for name in path:
            place = getattr(place, name, None)
        return getattr(place, "fp32_precision", None)

    return read


PRECISION: dict[str, Callable[[], Any]] = {
    "TF32 in products": lambda: torch._C._get_cublas_allow_tf32(),
    "TF32 in cuDNN": lambda: torch._C._get_cudnn_allow_tf32(),
    "the precision of float32": _precision_of(),
    "the precision of products": _precision_of("cuda", "matmul"),
    "the precision of cuDNN": _precision_of("cudnn"),
    "the precision of convolutions": _precision_of("cudnn", "conv"),
    "sums in half precision": lambda: (
        torch._C._get_cublas_allow_fp16_reduced_precision_reduction(),
        torch._C._get_cublas_allow_bf16_reduced_precision_reduction(),
    ),
    "cuDNN": lambda: torch._C._get_cudnn_enabled(),
    "the choice of cuDNN's algorithms": lambda: torch._C._get_cudnn_benchmark(),
    "autocast on the device": lambda: torch.is_autocast_enabled("cuda"),
}
"""Switches of the whole process that decide with which precision and which algorithms a device computes."""
