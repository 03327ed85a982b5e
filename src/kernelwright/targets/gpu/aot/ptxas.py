"""Resources of NVIDIA kernels, from ``ptxas -v`` and ``cuobjdump --dump-resource-usage``."""

import re

from kernelwright.targets.gpu.aot.resources import KernelResources

_ENTRY = re.compile(r"Compiling entry function '(?P<kernel>[^']+)' for '(?P<target>[^']+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_DUMPED = re.compile(
    r"^\s*Function (?P<kernel>\S+):\s*\n\s*REG:(?P<registers>\d+) STACK:(?P<stack>\d+) "
    r"SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)",
    re.MULTILINE,
)
_WORD = 4


def parse_ptxas(log: str) -> dict[str, KernelResources]:
    """Return the resources by kernel from what ``ptxas -v`` (or ``nvcc -Xptxas -v``) wrote.

    Functions that are no entries are left out; a log without any entry gives an empty dict. A kernel compiled
    for several architectures in one log keeps the last.
    """
    starts = list(_ENTRY.finditer(log))
    found = {}
    for number, match in enumerate(starts, start=1):
        end = starts[number].start() if number < len(starts) else len(log)
        resources = _of_entry(match["kernel"], log[match.end() : end])
        if resources is not None:
            found[match["kernel"]] = resources
    return found


def _of_entry(kernel: str, text: str) -> KernelResources | None:
    used = _USED.search(text)
    if used is None:
        return None
    frame, shared, barriers = _FRAME.search(text), _SHARED.search(text), _BARRIERS.search(text)
    return KernelResources(
        kernel=kernel,
        registers=int(used[1]),
        spills=None if frame is None else -(-int(frame[2]) // _WORD),
        local_bytes=None if frame is None else int(frame[1]),
        static_shared_bytes=0 if shared is None else int(shared[1]),
        barriers=None if barriers is None else int(barriers[1]),
    )


def parse_resource_usage(dump: str) -> dict[str, KernelResources]:
    """Return the resources by kernel from ``cuobjdump --dump-resource-usage``; it tells nothing of spills."""
    return {
        match["kernel"]: KernelResources(
            kernel=match["kernel"],
            registers=int(match["registers"]),
            local_bytes=int(match["stack"]) + int(match["local"]),
            static_shared_bytes=int(match["shared"]),
        )
        for match in _DUMPED.finditer(dump)
    }
