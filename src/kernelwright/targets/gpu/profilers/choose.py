"""Which profilers are here, and how one tool's kernel is found again in another."""

import re
import shutil

ORDER = {"nvidia": ("ncu", "nsys"), "amd": ("rocprofv3", "rocprof")}
"""Vendor -> tools; torch's profiler is always left."""
_ARGUMENTS = re.compile(r"\(.*\)\s*(?:const)?\s*$", re.DOTALL)


def profilers_here(vendor: str) -> tuple[str, ...]:
    """Return the vendor's tools that are on PATH, then torch's profiler."""
    return (*(tool for tool in ORDER.get(vendor, ()) if shutil.which(tool)), "torch.profiler")


def function_name(name: str) -> str:
    """Return a kernel's name without result, templates and arguments: ``--kernel-name-base function``.

    One tool's hottest kernel is found again by this name in another.
    """
    plain = _ARGUMENTS.sub("", name.replace("(anonymous namespace)", "anonymous"))
    depth, kept = 0, ""
    for letter in plain:
        depth += letter == "<"
        kept += letter if depth == 0 else ""
        depth -= letter == ">" and depth > 0
    words = kept.strip().split()
    return words[-1].rpartition("::")[2] if words else name
