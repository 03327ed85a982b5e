"""Stands in for a GPU while a candidate is looked at: tensors have shapes and no values, launches are noted.

Tensors live on torch's ``meta`` device and say ``cuda:0`` when asked; what asks for a device gets facts from
the table. Only ever used in the process that runs the candidate.
"""

import contextlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.inspect.recorder import Recorder

_SHOWN = torch.device("cuda", 0)
_REAL = torch.device("meta")
_UNITS_MEMORY = 10**9


class OnDevice(TorchFunctionMode):
    """Makes tensors without values pass for tensors of a GPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Answer questions about the device, and send what would go there to ``meta``."""
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "__get__" and args and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            return _shown(func, args)
        if name in _KEPT and args and isinstance(args[0], torch.Tensor):
            return _KEPT[name](args[0])
        if "device" in kwargs:
            kwargs["device"] = _real(kwargs["device"])
        values = [_real(value) if isinstance(value, torch.device) else value for value in args]
        if name == "to" and values and isinstance(values[0], torch.Tensor):
            values[1:] = [_real(value) if isinstance(value, str) else value for value in values[1:]]
            if values[0].is_meta:
                values[1:] = [_REAL if _is_host(value) else value for value in values[1:]]
                if _is_host(kwargs.get("device")):
                    kwargs["device"] = _REAL
        return func(*values, **kwargs)


def _shown(func: Any, args: tuple[Any, ...]) -> Any:
    if func == torch.Tensor.device.__get__:
        return _SHOWN
    if func == torch.Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
        return True
    if func in (torch.Tensor.is_meta.__get__, torch.Tensor.is_cpu.__get__):  # type: ignore[attr-defined]
        return False
    return func(*args)


_KEPT: dict[str, Callable[[Any], Any]] = {
    "cuda": lambda tensor: tensor.to(_REAL),
    "cpu": lambda tensor: tensor,
    "pin_memory": lambda tensor: tensor,
    "get_device": lambda tensor: 0 if tensor.is_meta else -1,
    "record_stream": lambda tensor: None,
}
"""Methods of tensors that move them or ask where they are."""


def _real(device: Any) -> Any:
    """Return where a tensor goes that is sent to a device; anything that is none comes back as it is."""
    if isinstance(device, int) and not isinstance(device, bool):
        return _REAL
    kind = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
    return _REAL if kind in ("cuda", "hip") else device


def _is_host(value: Any) -> bool:
    return value == "cpu" or (isinstance(value, torch.device) and value.type == "cpu")


def install(gpu: GpuFacts, recorder: Recorder) -> None:
    """Make torch and Triton of this process believe that the device is here."""
    # lazy: Triton must find no TRITON_INTERPRET when it is imported
    import triton.testing
    from triton.runtime.driver import driver

    for name, answer in _cuda(gpu).items():
        setattr(torch.cuda, name, answer)
    if gpu.limits.vendor == "amd":
        torch.version.hip = "stand-in"
    bench = _benchmark(recorder)
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = bench
    driver.set_active(_Driver(gpu, bench))
    _hide_modes()
    recorder.install()


def _hide_modes() -> None:
    """Leave this stand-in out when a candidate asks whether a mode watches what operators do."""
    modes = torch.overrides._get_current_function_mode_stack

    def others() -> list[TorchFunctionMode]:
        return [mode for mode in modes() if not isinstance(mode, OnDevice)]  # type: ignore[no-untyped-call]

    torch.overrides._get_current_function_mode_stack = others


class _Driver:
    """What Triton asks of the device that it compiles for."""

    def __init__(self, gpu: GpuFacts, bench: Callable[..., Any]) -> None:
        self._gpu, self._bench = gpu, bench
        self.utils = SimpleNamespace(get_device_properties=lambda device: _triton_properties(gpu))

    def get_current_target(self) -> Any:
        # lazy: as above
        from triton.backends.compiler import GPUTarget

        limits = self._gpu.limits
        if limits.vendor == "amd":
            return GPUTarget("hip", limits.name, limits.warp_lanes)
        return GPUTarget("cuda", int(limits.name.removeprefix("sm_")), limits.warp_lanes)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return _SHOWN

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return _capability(self._gpu)

    def get_benchmarker(self) -> Callable[..., Any]:
        return self._bench


def _benchmark(recorder: Recorder) -> Callable[..., Any]:
    """Return what tells every configuration to be equally fast, and those that cannot run to be endless."""

    def bench(
        call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **options: Any
    ) -> float | list[float]:
        with recorder.trial() as has_failed:
            call()
        time = float("inf") if has_failed() else 1.0
        return time if quantiles is None else [time] * len(quantiles)

    return bench


def _capability(gpu: GpuFacts) -> tuple[int, int]:
    if gpu.limits.vendor == "amd":
        return int(gpu.architecture[3]), int(gpu.architecture[4])
    return divmod(int(gpu.architecture.removeprefix("sm_")), 10)


def _triton_properties(gpu: GpuFacts) -> dict[str, int]:
    limits = gpu.limits
    return {
        "max_shared_mem": limits.shared_block_bytes,
        "max_num_regs": limits.registers,
        "multiprocessor_count": gpu.units,
        "warpSize": limits.warp_lanes,
    }


def _cuda(gpu: GpuFacts) -> dict[str, Any]:
    """Return the functions of ``torch.cuda`` that candidates ask, answered from the table."""
    limits = gpu.limits
    major, minor = _capability(gpu)
    properties = SimpleNamespace(
        name=gpu.label,
        major=major,
        minor=minor,
        multi_processor_count=gpu.units,
        warp_size=limits.warp_lanes,
        total_memory=int(gpu.memory_gb * _UNITS_MEMORY),
        regs_per_multiprocessor=limits.registers,
        max_threads_per_multi_processor=limits.max_warps * limits.warp_lanes,
        shared_memory_per_multiprocessor=limits.shared_bytes,
        shared_memory_per_block_optin=limits.shared_block_bytes,
        L2_cache_size=gpu.l2_bytes or 0,
        gcnArchName=limits.name,
    )
    stream = SimpleNamespace(
        cuda_stream=0, synchronize=_nothing(), wait_stream=_nothing(), wait_event=_nothing(), device=_SHOWN
    )
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing(),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _nothing(),
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_name": lambda device=None: gpu.label,
        "is_bf16_supported": lambda *asked, **how: True,
        "synchronize": _nothing(),
        "empty_cache": _nothing(),
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "Stream": lambda *asked, **how: stream,
        "stream": _no_context(),
        "device": _no_context(),
        "device_of": _no_context(),
    }


def _nothing() -> Callable[..., None]:
    """Return a function that does nothing, a new one each time: torch refuses one under several names."""
    return lambda *args, **kwargs: None


def _no_context() -> Callable[..., contextlib.AbstractContextManager[None]]:
    return lambda *args, **kwargs: contextlib.nullcontext()
