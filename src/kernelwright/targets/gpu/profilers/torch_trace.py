"""torch's own profiler: times of kernels wherever torch runs, no counters."""

import json
from typing import Any

from kernelwright.targets.gpu.metrics import torch_facts
from kernelwright.targets.gpu.profilers.profile import GpuProfile, KernelProfile, make_profile, unreadable

TOOL = "torch.profiler"
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def parse_torch_trace(text: str) -> GpuProfile:
    """Return the profile from what ``torch.profiler.profile(...).export_chrome_trace`` wrote.

    Copies and fills count as busy time, not as kernels. Times are those of the trace, in us.
    """
    try:
        events = list(json.loads(text)["traceEvents"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return unreadable(TOOL, text)
    there = [event for event in events if isinstance(event, dict) and event.get("cat") in _ON_DEVICE]
    timed = [event for event in there if _is_time(event.get("ts")) and _is_time(event.get("dur"))]
    grouped: dict[str, list[dict[str, Any]]] = {}
    for event in timed:
        if event["cat"] == "kernel":
            grouped.setdefault(str(event.get("name", "")), []).append(event)
    spans = [(float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in timed]
    return make_profile(TOOL, [_kernel(name, found) for name, found in grouped.items()], idle_share(spans))


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and value >= 0


def _kernel(name: str, events: list[dict[str, Any]]) -> KernelProfile:
    first = events[0].get("args") or {}
    metrics = {key: float(value) for key, value in first.items() if type(value) in (int, float)}
    total = sum(float(event["dur"]) for event in events)
    return KernelProfile(
        name=name, launches=len(events), total_us=total, metrics=metrics, facts=torch_facts(first)
    )


def idle_share(spans: list[tuple[float, float]]) -> float | None:
    """Return the share of the time from first to last that no span covers; None without any time."""
    if not spans:
        return None
    begin, end = min(start for start, _ in spans), max(stop for _, stop in spans)
    if end <= begin:
        return None
    busy, reached = 0.0, begin
    for start, stop in sorted(spans):
        busy += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return min(1.0, max(0.0, 1 - busy / (end - begin)))
