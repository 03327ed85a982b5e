"""Calls a device's driver directly, so that functions of torch that a candidate replaces are not used.

All functions are looked up when the process is placed on its device, before any candidate is imported. Marks
are events on the default stream, on which the candidate is called. Waiting is for the whole device.
"""

import contextlib
import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

PERSISTING_BYTES = 6
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE: how much of the second-level cache may be set aside."""

Mark = Any


class DriverError(Exception):
    """The driver reports an error. After most errors its process cannot use the device any more."""


class Driver(Protocol):
    """The functions of a driver that the worker uses. Times are nanoseconds."""

    def synchronise(self) -> None:
        """Wait until all work on the device is done, on every stream."""

    def settle(self) -> None:
        """Wait, and release parts of the caches that were set aside."""

    def mark(self) -> Mark:
        """Record an event on the default stream."""

    def between(self, first: Mark, second: Mark) -> float:
        """Return the time from one mark to another; both marks cannot be used again."""

    def copy(self, to: int, source: int, size: int) -> None:
        """Have memory of the device copied, after the work that the default stream has; returns at once."""

    def set_aside(self) -> int:
        """Return the most bytes of the second-level cache seen set aside; 0 where the device cannot do so."""

    def watched(self) -> tuple[Any, ...]:
        """Return the objects, besides the driver itself, through which it calls the device."""

    def architecture(self, properties: Any) -> str | None:
        """Return what own kernels are compiled for, given torch's properties of the device; None: nothing."""


class Cuda:
    """NVIDIA's driver, called through ``libcuda`` in the context that torch uses, whichever is current."""

    CALLS = (
        "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxSynchronize", "cuCtxGetLimit", "cuCtxSetLimit",
        "cuCtxResetPersistingL2Cache", "cuEventCreate", "cuEventRecord", "cuEventSynchronize",
        "cuEventElapsedTime", "cuEventDestroy_v2", "cuMemcpyDtoDAsync_v2", "cuGetErrorName",
    )  # fmt: skip

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self._lib = _opened(library, self.CALLS)
        self._most_aside = 0
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def synchronise(self) -> None:
        with self._own_context():
            self._call("cuCtxSynchronize")

    def settle(self) -> None:
        with self._own_context():
            self._call("cuCtxSynchronize")
            self._most_aside = max(self._most_aside, self._aside())
            if self._aside():
                self._call("cuCtxSetLimit", ctypes.c_int(PERSISTING_BYTES), ctypes.c_size_t(0))
                self._call("cuCtxResetPersistingL2Cache")

    def mark(self) -> Mark:
        event = ctypes.c_void_p()
        with self._own_context():
            self._call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
            self._call("cuEventRecord", event, ctypes.c_void_p(None))
        return event

    def between(self, first: Mark, second: Mark) -> float:
        ms = ctypes.c_float()
        with self._own_context():
            self._call("cuEventSynchronize", second)
            self._call("cuEventElapsedTime", ctypes.byref(ms), first, second)
            for event in (first, second):
                self._call("cuEventDestroy_v2", event)
        return ms.value * 1e6

    def copy(self, to: int, source: int, size: int) -> None:
        with self._own_context():
            self._call(
                "cuMemcpyDtoDAsync_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size),
                ctypes.c_void_p(None),
            )  # fmt: skip

    def set_aside(self) -> int:
        with self._own_context():
            return max(self._most_aside, self._aside())

    def watched(self) -> tuple[Any, ...]:
        return (self._lib,)

    def architecture(self, properties: Any) -> str | None:
        return f"sm_{properties.major}{properties.minor}"

    def _aside(self) -> int:
        size = ctypes.c_size_t()
        if self._lib.cuCtxGetLimit(ctypes.byref(size), ctypes.c_int(PERSISTING_BYTES)):
            return 0  # a device without such a limit
        return size.value

    @contextlib.contextmanager
    def _own_context(self) -> Iterator[None]:
        self._call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._lib, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._lib.cuGetErrorName(ctypes.c_int(code), ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'error %d' % code).decode()}")


class Hip:
    """AMD's driver, called through the runtime that torch has loaded."""

    CALLS = (
        "hipDeviceSynchronize", "hipEventCreate", "hipEventRecord", "hipEventSynchronize",
        "hipEventElapsedTime", "hipEventDestroy", "hipMemcpyDtoDAsync", "hipGetErrorName",
    )  # fmt: skip

    def __init__(self, library: str | None = None) -> None:
        self._lib = _opened(library or _loaded("libamdhip64.so"), self.CALLS)
        self._lib.hipGetErrorName.restype = ctypes.c_char_p
        self._call("hipSetDevice", ctypes.c_int(0))

    def synchronise(self) -> None:
        self._call("hipDeviceSynchronize")

    def settle(self) -> None:
        self.synchronise()

    def mark(self) -> Mark:
        event = ctypes.c_void_p()
        self._call("hipEventCreate", ctypes.byref(event))
        self._call("hipEventRecord", event, ctypes.c_void_p(None))
        return event

    def between(self, first: Mark, second: Mark) -> float:
        ms = ctypes.c_float()
        self._call("hipEventSynchronize", second)
        self._call("hipEventElapsedTime", ctypes.byref(ms), first, second)
        for event in (first, second):
            self._call("hipEventDestroy", event)
        return ms.value * 1e6

    def copy(self, to: int, source: int, size: int) -> None:
        self._call(
            "hipMemcpyDtoDAsync", ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size),
            ctypes.c_void_p(None),
        )  # fmt: skip

    def set_aside(self) -> int:
        return 0

    def watched(self) -> tuple[Any, ...]:
        return (self._lib,)

    def architecture(self, properties: Any) -> str | None:
        return None

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._lib, name)(*arguments)
        if code:
            text = self._lib.hipGetErrorName(ctypes.c_int(code)) or b"error %d" % code
            raise DriverError(f"{name}: {text.decode()}")


DRIVERS: dict[str, Callable[[], Driver]] = {"libcuda": Cuda, "libamdhip64": Hip}
"""Name of a driver -> what begins to use its first device; raises where that cannot be. For children only."""


def _opened(path: str, calls: tuple[str, ...]) -> ctypes.CDLL:
    """Return a library with its functions looked up, so that a later replacement can be detected."""
    library = ctypes.CDLL(path)
    for name in calls:
        getattr(library, name)
    return library


def _loaded(name: str) -> str:
    """Return the path of a loaded library, or the bare name if it is not loaded."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"/\S*/{re.escape(name)}\S*", maps)
    return found[0] if found else name
