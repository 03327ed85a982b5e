"""Choose the KernelBench problems of levels 1 and 2 that a two-core machine can run, before any result.

The rule, in full:

1. Every problem of levels 1 and 2 is a candidate; nothing is picked by what we are good at.
2. Its module-level sizes are scaled by ``kernelwright.tasks.scaling.scaled_overrides``: batch sizes by a
   power of two, then all extents, until the estimated eager time is at most 60 ms and the estimated peak
   memory at most 300 MB. A problem that fits at no step is left out.
3. Problems whose output is constant, blind to the input or irreproducible at KernelBench's own tolerance
   of 1e-4 form the group ``known-bad``.
4. Problems whose number is divisible by five form the group ``held-out``. Their files are not
   opened here: the manifest names them by number, and rule 2 is applied when they are loaded.
5. The rest is the group ``main``.
6. To keep a table at an hour, problems of ``main`` and ``held-out`` whose number modulo 7 is not 1, 2 or 3
   go to the groups ``spare`` and ``held-out-spare``, which the committed tables leave out.

Usage: python -m lab.benchmarks.kernelbench_manifest KERNELBENCH_FOLDER > benchmarks/kernelbench.yaml
"""

import sys
from pathlib import Path

import yaml

from kernelwright.tasks.kernelbench import iter_paths
from kernelwright.tasks.scaling import scaled_overrides

LEVELS = {1: 100, 2: 100}
"""Level -> number of problems at KernelBench 423217d."""
KNOWN_BAD = {1: {23, 37, 95}, 2: {9, 23, 36, 38, 42, 65, 66, 80, 83}}
"""Constant, input-blind or unsolvable at 1e-4 with KernelBench's own inputs, sizes and seeds."""

MEASURED = (1, 2, 3)
"""Residues modulo 7 of the numbers in the committed tables."""


def is_held_out(number: int) -> bool:
    """Numbers divisible by five are kept out of all development."""
    return number % 5 == 0


def group_of(level: int, number: int) -> str:
    """Return the group by rules 3 to 6."""
    prefix = "held-out" if is_held_out(number) else ""
    if number in KNOWN_BAD[level]:
        return "-".join(filter(None, (prefix, "known-bad")))
    if number % 7 not in MEASURED:
        return "-".join(filter(None, (prefix, "spare")))
    return prefix or "main"


def main(folder: Path) -> None:
    """Write the manifest to standard output, one line a problem."""
    for level, n_problems in LEVELS.items():
        for path in iter_paths(folder, level):
            number = int(path.name.split("_")[0])
            if is_held_out(number):
                continue
            overrides = scaled_overrides(path)
            if overrides is None:
                sys.stdout.write(f"# level{level}/{path.name}: fits at no step\n")
                continue
            group = group_of(level, number)
            _write({"path": f"level{level}/{path.name}", "overrides": overrides, "group": group})
        for number in range(5, n_problems + 1, 5):
            _write(
                {"path": f"level{level}/{number}_*.py", "overrides": None, "group": group_of(level, number)}
            )


def _write(entry: dict[str, object]) -> None:
    line = yaml.safe_dump([entry], default_flow_style=None, sort_keys=False, width=1000)
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
