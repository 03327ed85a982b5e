"""Give every KernelBench problem of levels 1 to 3 a size that a two-core machine can run, before any result.

The rule, in full:

1. Every problem of levels 1 to 3 is in; nothing is picked by what we are good at.
2. Its module-level sizes are scaled by ``kernelwright.tasks.scaling.scaled_to_fit``: batch sizes by a power
   of two, then all extents, then the widths that a file lists for its layers, until the estimated eager time
   is at most 60 ms and the estimated peak memory at most 300 MB. A problem that fits at no step gets limits
   five times as large. One that still fits at no step is a comment that says why.
3. Problems whose output is constant, blind to the input or irreproducible at KernelBench's own tolerance
   of 1e-4 form the group ``known-bad``.
4. Problems whose number is divisible by five form the group ``held-out``. Their files are not
   opened here: the manifest names them by number, and rule 2 is applied when they are loaded.
5. The rest is the group ``main``. ``--only`` and ``--limit`` of ``kernelwright bench`` take a part of it.

Usage: python -m lab.benchmarks.kernelbench_manifest FOLDER [LEVEL ...] > benchmarks/kernelbench.yaml
"""

import sys
from pathlib import Path

import yaml

from kernelwright.tasks.kernelbench import iter_paths
from kernelwright.tasks.scaling import Scaled, scaled_to_fit

LEVELS = {1: 100, 2: 100, 3: 50}
"""Level -> number of problems at KernelBench 423217d."""
KNOWN_BAD = {
    1: {23, 37, 95},
    2: {9, 23, 36, 38, 42, 65, 66, 80, 83},
    3: {3, 7, 11, 12, 18, 24, 28, 35},
}
"""Constant, input-blind or unsolvable at 1e-4 with KernelBench's own inputs, sizes and seeds.

``level3/24``: its batch norms see two values a channel, so that inputs moved in their last place move the
output by as much as it is.
"""


def is_held_out(number: int) -> bool:
    """Numbers divisible by five are kept out of all development."""
    return number % 5 == 0


def group_of(level: int, number: int) -> str:
    """Return the group by rules 3 to 5."""
    prefix = "held-out" if is_held_out(number) else ""
    if number in KNOWN_BAD[level]:
        return "-".join(filter(None, (prefix, "known-bad")))
    return prefix or "main"


def main(folder: Path, levels: list[int]) -> None:
    """Write the manifest to standard output, one line a problem."""
    sys.stdout.write("# Written by lab/benchmarks/kernelbench_manifest.py, whose docstring is the rule.\n")
    for level in levels:
        for path in iter_paths(folder, level):
            number = int(path.name.split("_")[0])
            if is_held_out(number):
                continue
            scaled = scaled_to_fit(path)
            if scaled.overrides is None:
                sys.stdout.write(f"# level{level}/{path.name}: {why_not(scaled)}\n")
                continue
            group = group_of(level, number)
            _write({"path": f"level{level}/{path.name}", "overrides": scaled.overrides, "group": group})
        for number in range(5, LEVELS[level] + 1, 5):
            _write(
                {"path": f"level{level}/{number}_*.py", "overrides": None, "group": group_of(level, number)}
            )


def why_not(scaled: Scaled) -> str:
    """Say why a problem fits at no step."""
    if scaled.least is None:
        return "cannot be captured at any step, so its size is unknown"
    size = scaled.least
    return f"{size.eager_ms:.0f} ms and {size.peak_bytes / 1e6:.0f} MB at its smallest step"


def _write(entry: dict[str, object]) -> None:
    overrides = entry["overrides"]
    if isinstance(overrides, dict):
        entry["overrides"] = {k: list(v) if isinstance(v, tuple) else v for k, v in overrides.items()}
    line = yaml.safe_dump([entry], default_flow_style=None, sort_keys=False, width=1000)
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(level) for level in sys.argv[2:]] or list(LEVELS))
