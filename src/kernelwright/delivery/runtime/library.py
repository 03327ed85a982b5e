"""Which machine a compiled library is for: one that was made for other processors is never loaded."""

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ISA = re.compile(
    r"(sse|ssse|avx|amx|bmi|sve|asimd)\w*|fma4?|f16c|pni|cx16|abm|lzcnt|movbe|popcnt|adx|aes|pclmulqdq|sha_ni|"
    r"vaes|vpclmulqdq|gfni|xop|tbm|clwb|clflushopt|rdrnd|rdseed|fsgsbase|xsave\w*|neon|fp|fphp|bf16|i8mm|atomics"
)
"""Instruction sets that a compiler uses, by the names that Linux gives them."""


def this_machine() -> dict[str, Any]:
    """Return what a library needs to know of the machine that runs this."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    words = line[1].split() if line else []
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "libc": "-".join(platform.libc_ver()),
        "features": sorted({word for word in words if ISA.fullmatch(word)}),
    }


def is_place(said: Any) -> bool:
    """Tell whether a value says of a machine what ``this_machine`` says."""
    if not isinstance(said, dict) or not isinstance(said.get("features"), list):
        return False
    words = [said.get(name) for name in ("system", "architecture", "libc")]
    return all(isinstance(word, str) for word in (*words, *said["features"]))


def misfit(made_for: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Return why a library that was made for one machine cannot run on another; None where it can."""
    for name in ("system", "architecture"):
        if made_for[name] != here[name]:
            return f"it was compiled for {made_for[name]}, and this is {here[name]}"
    missing = sorted(set(made_for["features"]) - set(here["features"]))
    if missing or not here["features"]:
        return f"this processor lacks {', '.join(missing[:4]) or 'a list of its features'}"
    family, _, version = str(made_for["libc"]).partition("-")
    family_here, _, version_here = str(here["libc"]).partition("-")
    if family != family_here or _numbers(version) > _numbers(version_here):
        return f"it needs {made_for['libc']}, and this is {here['libc']}"
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
