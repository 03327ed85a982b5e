"""What a GPU that is here says of itself and reaches: ``python -m kernelwright.targets.gpu.probe DEVICE``.

A process of its own, so that whoever asks does not begin using the device. One line of JSON on standard
output.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from kernelwright.core.frozen import Frozen
from kernelwright.targets.gpu.facts import PeakFlops

COPY_BYTES = 1 << 30
"""Of each of two tensors; less where memory is short. Far more than any cache."""
PRODUCT = 8192
"""Rows and columns of the matrices."""
ROUNDS, CALLS = 5, 10
MEMORY_SHARE = 8
"""At most one part in so many of the free memory goes into one tensor."""


class GpuSeen(Frozen):
    """A device in its own words, and what simple programs reach on it."""

    name: str
    """As the driver writes it."""
    architecture: str
    """``sm_90``, ``gfx942``; without suffixes."""
    units: int
    memory_bytes: int
    l2_bytes: int | None = None
    boost_clock_hz: float | None = None
    memory_bandwidth: float
    """Bytes read plus bytes written a second, of the best copy."""
    flops: PeakFlops
    """Of matrix products by torch's library; ``fp32`` without TF32."""


def probe(device: str, *, copy_bytes: int = COPY_BYTES, product: int = PRODUCT) -> GpuSeen:
    """Measure a device; ``cpu`` stands in for one where there is none, which says nothing of any GPU."""
    # lazy: the parent needs none of it
    import torch

    free = copy_bytes * MEMORY_SHARE if device == "cpu" else torch.cuda.mem_get_info(device)[0]
    said = _words(device)
    return GpuSeen(
        **said,
        memory_bandwidth=_copy_rate(device, min(copy_bytes, free // MEMORY_SHARE)),
        flops=PeakFlops(
            **{name: _product_rate(device, name, product) for name in ("fp32", "tf32", "bf16", "fp16")}
        ),
    )


def _words(device: str) -> dict[str, Any]:
    # lazy: see probe
    import torch

    if device == "cpu":
        return {"name": "cpu", "architecture": "cpu", "units": 1, "memory_bytes": 1 << 30}
    said = torch.cuda.get_device_properties(device)
    is_amd = torch.version.hip is not None
    clock_khz = getattr(said, "clock_rate", None)  # torch has it since 2.9
    return {
        "name": said.name,
        "architecture": said.gcnArchName.partition(":")[0] if is_amd else f"sm_{said.major}{said.minor}",
        "units": said.multi_processor_count,
        "memory_bytes": said.total_memory,
        "l2_bytes": getattr(said, "L2_cache_size", None) or None,
        "boost_clock_hz": clock_khz * 1e3 if clock_khz else None,
    }


def _copy_rate(device: str, n_bytes: int) -> float:
    # lazy: see probe
    import torch

    source = torch.empty(n_bytes // 4, device=device, dtype=torch.float32).normal_()
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / _best_s(device, lambda: target.copy_(source))


def _product_rate(device: str, precision: str, size: int) -> float | None:
    """Return operations a second, None where the device or its library has no such products."""
    # lazy: see probe
    import torch

    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    is_tf32 = precision == "tf32"
    if is_tf32 and (device == "cpu" or torch.version.hip is not None):
        return None  # the switch for it means nothing there
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = is_tf32
    try:
        left = torch.randn(size, size, device=device).to(kinds.get(precision, torch.float32))
        right = left.t().contiguous()
        return 2.0 * size**3 / _best_s(device, lambda: torch.mm(left, right))
    except RuntimeError:
        return None
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _best_s(device: str, call: Callable[[], object]) -> float:
    """Return the least seconds of a call, over rounds of several: load only ever makes it slower."""
    # lazy: see probe
    import torch

    finish: Callable[[], object] = (lambda: None) if device == "cpu" else torch.cuda.synchronize
    best = float("inf")
    for _ in range(ROUNDS):
        call()
        finish()
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        finish()
        best = min(best, (time.perf_counter() - begin) / CALLS)
    return best


if __name__ == "__main__":
    sys.stdout.write(probe(sys.argv[1]).model_dump_json() + "\n")
