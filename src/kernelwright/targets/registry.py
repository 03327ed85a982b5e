"""The targets by name: ours, which are always there, and those of installed packages."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from kernelwright.core.errors import UserError
from kernelwright.core.target import TargetName
from kernelwright.targets.base import BuildResult, BuildSite, Target
from kernelwright.targets.device import DeviceKind

GROUP = "kernelwright.targets"
"""Entry points whose names are targets and whose objects are instances of ``Target``."""
BUILT_IN = {
    "cpu/cpp": "kernelwright.targets.cpp.target:CPU_CPP",
    "cuda/triton": "kernelwright.targets.triton.target:CUDA_TRITON",
    "hip/triton": "kernelwright.targets.triton.target:HIP_TRITON",
    "cuda/cuda": "kernelwright.targets.cuda.target:CUDA_CUDA",
    "hip/hip": "kernelwright.targets.hip.target:HIP_HIP",
}
"""Ours, in the order in which users see them; a source tree without metadata has them too."""
HasDevice = Callable[[DeviceKind], bool]


def known_names() -> tuple[str, ...]:
    """Return the names of all targets, ours first; nothing is loaded."""
    return (*BUILT_IN, *_plug_ins())


def target_of(name: TargetName) -> Target:
    """Return a target.

    Raises:
        UserError: there is none of that name, or its package cannot be loaded.
    """
    return _loaded(str(name))


def find_target(text: str, *, to_run: bool = True, has_device: HasDevice | None = None) -> Target:
    """Return the target that a user named.

    Args:
        text: ``device/language``.
        to_run: False where candidates are only to be printed: their device need not be here.
        has_device: Tells whether a device is to be had; by default whether it is here.

    Raises:
        UserError: unknown, only for ``kernelwright inspect``, or its device is not to be had.
    """
    if text not in known_names():
        raise UserError(f"unknown target {text!r}; known: {', '.join(_run_names())}")
    target = _loaded(text)
    if not target.is_run:
        raise UserError(
            f"target {text!r} is one that `kernelwright inspect` builds kernels of; this version neither "
            f"writes nor runs them; targets to run: {', '.join(_run_anywhere())}"
        )
    can_be_printed = not to_run and target.writer is not None
    if not can_be_printed and not (has_device or (lambda kind: kind.is_here()))(target.device):
        raise UserError(
            f"target {text!r} needs {target.device.title or target.device.name} that torch can use, and none "
            f"is here; to run without one: {', '.join(_run_anywhere())}"
        )
    return target


@cache
def all_targets() -> tuple[Target, ...]:
    """Return every target that loads, ours first; a package of others that does not load is left out."""
    found = []
    for name in known_names():
        try:
            found.append(_loaded(name))
        except UserError:
            continue
    return tuple(found)


@cache
def device_kinds() -> tuple[DeviceKind, ...]:
    """Return the kinds of devices that targets run on, each once."""
    return tuple(dict.fromkeys(target.device for target in all_targets()))


def find_device_kind(name: str) -> DeviceKind:
    """Return a kind of device; raises UserError where no target has it."""
    for kind in device_kinds():
        if kind.name == name:
            return kind
    raise UserError(f"unknown device {name!r}; known: {', '.join(kind.name for kind in device_kinds())}")


def forget() -> None:
    """Look for installed packages anew; for tests that install one."""
    for known in (_plug_ins, _loaded, all_targets, device_kinds):
        known.cache_clear()


def build_candidate(source: str, site: BuildSite) -> BuildResult:
    """Build what a candidate holds for any target; an empty result where it asks for nothing.

    Its sources decide which target builds it, in the order of ``all_targets``: what somebody hands in to be
    judged need not be of the target that it is called.

    Raises:
        MachineError: the compiler is missing.
    """
    for target in all_targets():
        built = target.build(source, site) if target.build is not None else None
        if built is not None:
            return built
    return BuildResult()


def _run_names() -> tuple[str, ...]:
    return tuple(str(target) for target in all_targets() if target.is_run)


def _run_anywhere() -> tuple[str, ...]:
    return tuple(str(target) for target in all_targets() if target.is_run and target.device.driver is None)


@cache
def _plug_ins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in BUILT_IN}


@cache
def _loaded(name: str) -> Target:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found = getattr(import_module(module), attribute)
    elif name in _plug_ins():
        found = _from_package(_plug_ins()[name])
    else:
        raise UserError(f"unknown target {name!r}; known: {', '.join(known_names())}")
    return _checked(name, found)


def _from_package(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except Exception as error:  # whatever another package's import raises is that package's fault
        words = " ".join(f"{entry.value}: {type(error).__name__}: {error}".split())[:250]
        raise UserError(f"target {entry.name!r}: its package does not load: {words}") from error


def _checked(name: str, found: object) -> Target:
    if not isinstance(found, Target):
        raise UserError(f"target {name!r}: its entry point gives {type(found).__name__}, not a Target")
    if str(found.name) != name:
        raise UserError(f"target {name!r}: its entry point gives the target {str(found.name)!r}")
    return found
