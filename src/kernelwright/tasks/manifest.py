"""Manifests: problems of a KernelBench folder with sizes that fit the machine, by group."""

from collections.abc import Collection
from pathlib import Path

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from kernelwright.core.errors import TaskError
from kernelwright.core.frozen import Frozen
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.tasks.kernelbench import load_task, one_line
from kernelwright.tasks.scaling import scaled_to_fit


class ManifestEntry(Frozen):
    """One line of a manifest: a problem of a KernelBench folder at a size that fits the machine."""

    path: str
    """Relative to the KernelBench folder, e.g. ``level1/19_ReLU.py``; ``level1/5_*.py`` names by number."""
    overrides: dict[str, Literal_] | None = Field(default_factory=dict)
    """Size globals that replace those in the file; None: ``tasks.scaling.scaled_to_fit`` decides."""
    group: str = "main"
    """Row of the result table: ``main``, ``known-bad``, ``held-out`` ..."""


def load_manifest(
    manifest: Path, folder: Path, *, groups: Collection[str] | None = None
) -> tuple[tuple[str, Task], ...]:
    """Read the problems that a manifest names from a KernelBench folder, as (group, task) pairs.

    Args:
        manifest: YAML list of ``ManifestEntry``.
        folder: Holds ``level1``, ``level2`` ...
        groups: Only these; None takes all. A problem whose size the rule cannot fit is left out.
    """
    try:
        listed = yaml.safe_load(manifest.read_text(encoding="utf-8"))
        entries = TypeAdapter(tuple[ManifestEntry, ...]).validate_python(listed)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise TaskError(f"{manifest}: not a manifest ({one_line(error)})") from error
    wanted = [entry for entry in entries if groups is None or entry.group in groups]
    loaded = ((entry.group, _load_entry(folder, entry)) for entry in wanted)
    return tuple((group, task) for group, task in loaded if task is not None)


def _load_entry(folder: Path, entry: ManifestEntry) -> Task | None:
    path = next(iter(sorted(folder.glob(entry.path))), folder / entry.path)
    overrides = scaled_to_fit(path).overrides if entry.overrides is None else entry.overrides
    return None if overrides is None else load_task(path, workloads=(Workload(overrides=overrides),))
