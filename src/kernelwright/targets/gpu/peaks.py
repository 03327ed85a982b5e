"""The GPU of a run: its facts, with what a probe reached on it in the place of published peaks."""

import datetime
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.frozen import content_hash
from kernelwright.machine.probe import version_of
from kernelwright.targets.gpu.driver_files import find_gpus
from kernelwright.targets.gpu.facts import GpuFacts, MeasuredPeaks, find_gpu, with_measured
from kernelwright.targets.gpu.inspect.run import find_device
from kernelwright.targets.gpu.limits import find_architecture
from kernelwright.targets.gpu.probe import GpuSeen
from kernelwright.targets.gpu.torch_devices import NODES, has_gpu

PROBE_S = 180.0
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")

Ask = Callable[[], GpuSeen]


def run_gpu(kind: str, cache_dir: Path, named: str | None = None) -> GpuFacts | None:
    """Return the facts of the GPU that candidates of a kind (``cuda``, ``hip``) run on; None: not known.

    The one that is here, measured, where none is named or it is the one that is; else the named one, a model
    or an architecture, as published. A GPU that cannot be measured is one of its published figures.
    """
    here = _here(kind, cache_dir)
    if not named or _is_named(here, named):
        return here
    return published_gpu(named)


def is_gpu_here(kind: str, cache_dir: Path, named: str | None = None) -> bool:
    """Tell whether a GPU of a kind is here and is the one that is named, where one is."""
    return has_gpu(kind) and (not named or _is_named(_here(kind, cache_dir), named))


def published_gpu(named: str | None) -> GpuFacts | None:
    """Return the published facts of a model or an architecture, whatever is here; None: not known."""
    try:
        return find_device(named) if named else None
    except UserError:
        return None


def refresh_here(cache_dir: Path) -> None:
    """Measure the GPUs that torch sees anew; none is no error. Raises as ``gpu_here``."""
    for kind in NODES:
        if has_gpu(kind):
            gpu_here(kind, cache_dir, refresh=True)


def gpu_here(kind: str, cache_dir: Path, *, refresh: bool = False, ask: Ask | None = None) -> GpuFacts | None:
    """Return the first GPU that torch sees, measured once and cached (some seconds).

    None where neither its model nor its architecture is in our tables. ``refresh`` measures again and keeps
    the better of old and new. ``ask`` stands in for the probe.

    Raises:
        MachineError: the probe failed, or the cache folder cannot be written.
    """
    path = cache_dir / f"gpu-{_key(kind)}.json"
    known = _load(path)
    if known is None or refresh:
        seen = (ask or _ask)()
        known = seen if known is None else _better(seen, known)
        _save(path, known)
    return facts_of(known, measured_on=datetime.date.fromtimestamp(path.stat().st_mtime))


def facts_of(seen: GpuSeen, *, measured_on: datetime.date) -> GpuFacts | None:
    """Return what is published of a device, with what was measured on it; its own words for other models.

    None where its architecture is unknown too.
    """
    source = f"measured {measured_on.isoformat()}"
    measured = MeasuredPeaks(memory_bandwidth=seen.memory_bandwidth, flops=seen.flops, source=source)
    try:
        return with_measured(find_gpu(seen.name), measured)
    except UserError:
        pass
    try:
        architecture = find_architecture(seen.architecture).name
    except UserError:
        return None
    figures = {
        "units": seen.units,
        "boost_clock_hz": seen.boost_clock_hz,
        "memory_gb": seen.memory_bytes / 1e9,
        "l2_bytes": seen.l2_bytes,
    }
    known = {name: value for name, value in figures.items() if value is not None}
    peaks = [f"flops.{name}" for name, peak in seen.flops if peak is not None]
    return GpuFacts.model_validate(
        {
            **known,
            "name": seen.name,
            "label": seen.name,
            "architecture": architecture,
            "memory_bandwidth": seen.memory_bandwidth,
            "flops": seen.flops.model_dump(),
            "sources": {
                **dict.fromkeys(known, "the driver, by torch's device properties"),
                **dict.fromkeys(("memory_bandwidth", *peaks), source),
            },
        }
    )


def probe_environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Return the probe's environment: devices in the order in which the referee counts them."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **outer}


def _here(kind: str, cache_dir: Path) -> GpuFacts | None:
    """Return the GPU that is here: measured, as published where that fails."""
    if not has_gpu(kind):
        return None
    try:
        return gpu_here(kind, cache_dir)
    except MachineError:
        return published_gpu(next((gpu.name for gpu in find_gpus()), None))


def _is_named(gpu: GpuFacts | None, named: str) -> bool:
    if gpu is None:
        return False
    published = published_gpu(named)
    return gpu.name == (named if published is None else published.name)


def _ask() -> GpuSeen:
    command = [sys.executable, "-m", "kernelwright.targets.gpu.probe", "cuda:0"]  # torch's name for AMD's too
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_S, check=True, stdin=subprocess.DEVNULL,
            env=probe_environment(os.environ),
        )  # fmt: skip
        return GpuSeen.model_validate_json(done.stdout)
    except subprocess.CalledProcessError as error:
        words = " ".join(error.stderr.split())[-200:]
        raise MachineError(f"the GPU's probe failed: {words}") from error
    except (OSError, subprocess.SubprocessError, ValidationError) as error:
        raise MachineError(f"the GPU's probe did not run: {error}") from error


def _key(kind: str) -> str:
    devices = [f"{gpu.name} {gpu.driver}" for gpu in find_gpus()]
    visible = [os.environ.get(name, "") for name in _VISIBLE]
    return content_hash(kind, *devices, *visible, version_of("torch") or "", _probe_source())


@cache
def _probe_source() -> str:
    return Path(__file__).with_name("probe.py").read_text(encoding="utf-8")


def _load(path: Path) -> GpuSeen | None:
    """Return what was measured before, None when nothing was or the file is damaged."""
    try:
        return GpuSeen.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _save(path: Path, seen: GpuSeen) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(seen.model_dump_json(indent=1), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise MachineError(f"cannot keep the measured peaks in {path.parent}: {error}") from error


def _better(new: GpuSeen, old: GpuSeen) -> GpuSeen:
    """Return the higher figure of each pair: load only ever lowers what a device seems to reach."""
    pairs = {name: (peak, getattr(old.flops, name)) for name, peak in new.flops}
    flops = {name: max((p for p in pair if p is not None), default=None) for name, pair in pairs.items()}
    bandwidth = max(new.memory_bandwidth, old.memory_bandwidth)
    return GpuSeen.model_validate({**new.model_dump(), "memory_bandwidth": bandwidth, "flops": flops})
