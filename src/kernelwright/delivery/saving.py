"""Writes a delivered module into a folder that needs no Kernelwright and, on a like machine, no compiler."""

import hashlib
import inspect
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.core import structure
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.machine import Machine
from kernelwright.core.structure import UnstructuredError
from kernelwright.core.version import __version__
from kernelwright.delivery import runtime
from kernelwright.delivery.making import Delivery
from kernelwright.delivery.runtime import folder as layout
from kernelwright.delivery.runtime.contract import Contract, parts_of
from kernelwright.delivery.runtime.explain import held_tensors, module_causes
from kernelwright.delivery.runtime.folder import FolderError, digest_of_manifest
from kernelwright.delivery.runtime.kernel import VerifiedKernel
from kernelwright.delivery.runtime.library import this_machine
from kernelwright.delivery.runtime.weights import write_weights
from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import target_of
from kernelwright.tasks import classes, derived, described, randomness

LICENCE = "Generated code is the user's own: use it under any licence. The files in _runtime are Apache-2.0."
BUILD_S = 600.0
_ENTRY = '''"""{title}: a module with a verified kernel.

``load()`` returns it, with the weights that it was saved with; ``load(module)`` takes an original of yours.
``report(module)`` says which ran, kernel or original. {licence}
"""

from pathlib import Path

from ._runtime import NotVerifiedError, report, strict
from ._runtime.folder import load as _load


def load(module=None, *, strict=False):
    """Return the delivered module; ``strict``: raise where the original would run."""
    return _load(Path(__file__).parent, module, strict=strict)
'''


@torch.inference_mode(False)
def save(
    delivery: Delivery,
    folder: str | Path,
    *,
    cache_dir: Path,
    evaluation: Evaluation | None = None,
    machine: Machine | None = None,
    backward: Evaluation | None = None,
) -> Path:
    """Write a folder and return its path. An earlier delivery in it is replaced.

    Args:
        delivery: what is delivered.
        folder: where; made when missing. It can be imported where its name is a Python name.
        cache_dir: where compiled libraries are kept.
        evaluation: the referee's final verdict.
        machine: where the verdict was measured.
        backward: the final verdict on the backward kernel.

    Raises:
        UserError: the folder holds something else or cannot be written, or the module holds what no folder
            keeps.
        MachineError: no compiler.
    """

    def write(place: Path) -> None:
        library = _write(delivery, place, cache_dir)
        head = head_of(delivery.kernel.contract.title, delivery.candidate, evaluation, machine)
        back = delivery.backward
        if back is not None:
            write_part(place / layout.BACKWARD, back.kernel, back.candidate, cache_dir, backward)
        more = {} if back is None else {"backward": layout.BACKWARD}
        lost = lost_in_folder(delivery.kernel.contract, delivery.module)
        write_manifest(place, {**head, "library": library, "lost": lost, **more})

    return write_folder(Path(folder), write)


def write_folder(place: Path, write: Callable[[Path], None]) -> Path:
    """Have a folder written beside its place, then put it there; raises UserError where that cannot be."""
    require_ours(place)
    draft = place.parent / f".{place.name}.draft"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        write(draft)
        shutil.rmtree(place, ignore_errors=True)
        draft.replace(place)
    except OSError as error:
        raise UserError(
            f"cannot write {place} ({error.strerror}); name a folder that can be written"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def require_ours(place: Path) -> Path:
    """Return the path if a delivery may be written there; raises UserError where something else is."""
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        strange = _strange_in(place) if (place / layout.MANIFEST).is_file() else ""
        if strange is not None:
            said = f" ({strange})" if strange else ""
            raise UserError(f"{place} holds something else{said}; name a new folder")
    return place


def _strange_in(folder: Path) -> str | None:
    """Return what of a folder with a manifest no ``save`` wrote and no ``load`` left; None: all is ours."""
    try:
        manifest = json.loads((folder / layout.MANIFEST).read_text(encoding="utf-8"))
        is_ours = (
            manifest["digest"] == digest_of_manifest(manifest)
            and isinstance(manifest["format"], int)
            and isinstance(manifest["kernelwright"], str)
        )
        known = {*manifest["files"], layout.MANIFEST}
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        is_ours = False
    if not is_ours:
        return f"its {layout.MANIFEST} is not of a delivered module"
    names = (
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )
    return next((name for name in sorted(names) if name not in known and not _is_left_by_load(name)), None)


def _is_left_by_load(name: str) -> bool:
    """Tell whether a file is what Python or a kernel's program compiled beside the files of a folder."""
    *above, last = name.split("/")
    return above[-1:] == ["__pycache__"] or (above[-1:] == [layout.LIBRARIES] and last.endswith(".so"))


def _write(delivery: Delivery, place: Path, cache_dir: Path) -> dict[str, Any] | None:
    """Write everything but the manifest; return which machine the library is for, None without one."""
    write_original(place, delivery.kernel.contract, delivery.module, delivery.kernel.origin)
    return write_kernel(place, delivery.kernel, delivery.candidate, cache_dir)


def lost_in_folder(contract: Contract, module: nn.Module) -> list[str]:
    """Return, in words, what of a module no folder keeps, besides opaque attributes: changes and hooks."""
    kept = ("mode", "constant", "dtype", "shape", "layout", "hooks", "effects")
    found = [cause.text for cause in module_causes(contract, module, {}) if cause.kind not in kept]
    hooks = [
        path or "the module" for path, part in parts_of(module) if any(vars(part)[h] for h in layout.HOOKS)
    ]
    return [*found, *(f"{title} has hooks" for title in hooks)]


def write_original(place: Path, contract: Contract, module: nn.Module, origin: str | None) -> None:
    """Write what runs a folder without Kernelwright, the weights and what the module falls back to.

    Raises:
        UserError: the module holds what no folder keeps.
    """
    _write_tensors(place / layout.WEIGHTS, tensors_of(module), contract.title)
    texts = {
        "__init__.py": _ENTRY.format(title=contract.title, licence=LICENCE),
        "LICENCE": LICENCE + "\n",
        layout.CONTRACT: contract_text(contract),
    }
    if origin is not None:
        texts[layout.ORIGINAL] = origin
    write_texts(place, texts | {f"_runtime/{name}": text for name, text in runtime_texts().items()})


def _write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], title: str) -> None:
    try:
        write_weights(path, tensors)
    except ValueError as error:
        raise UserError(f"{title} cannot be saved: {error}") from error


def write_kernel(
    place: Path, kernel: VerifiedKernel, candidate: Candidate, cache_dir: Path
) -> dict[str, Any] | None:
    """Write a kernel's program and library; return which machine the library is for, None without one."""
    write_texts(place, {layout.KERNEL: kernel.program, "source.py": candidate.source})
    if drawn := kernel.drawn:
        _write_tensors(place / layout.CONSTANTS, drawn, kernel.contract.title)
    return _write_library(kernel, candidate, place, cache_dir)


def write_part(
    place: Path,
    kernel: VerifiedKernel,
    candidate: Candidate,
    cache_dir: Path,
    verdict: Evaluation | None = None,
) -> None:
    """Write the folder of one kernel among several; it is made now."""
    place.mkdir(parents=True)
    library = write_kernel(place, kernel, candidate, cache_dir)
    write_texts(place, {layout.CONTRACT: contract_text(kernel.contract)})
    head = head_of(kernel.contract.title, candidate, verdict, None)
    write_manifest(place, {**head, "library": library})


def contract_text(contract: Contract) -> str:
    """Return a contract as JSON; raises UserError where it holds what no folder keeps."""
    try:
        return json.dumps(contract.to_data(), indent=1) + "\n"
    except UnstructuredError as error:
        raise UserError(f"{contract.title} cannot be saved: {error}") from error


def write_texts(place: Path, texts: Mapping[str, str]) -> None:
    """Write files of a folder by name."""
    for name, text in texts.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def runtime_texts() -> dict[str, str]:
    """Return the files of ``runtime/`` as a folder carries them, by name."""
    home = Path(runtime.__file__).parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(home.glob("*.py"))}
    for module in (structure, classes, described, derived, randomness):
        text = re.sub(r"from kernelwright[.\w]*(\.\w+) import", r"from \1 import", inspect.getsource(module))
        texts[f"{module.__name__.rpartition('.')[2]}.py"] = text
    return texts


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return every tensor that a module holds, saved and unsaved ones, each under its first name."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in held_tensors(module).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor
    return found


def _write_library(
    kernel: VerifiedKernel, candidate: Candidate, place: Path, cache_dir: Path
) -> dict[str, Any] | None:
    build = target_of(candidate.target).build
    site = BuildSite(cache_dir / "build", BUILD_S)
    built = None if build is None else build(kernel.program, site)
    if built is None:
        return None
    if built.library is None:
        raise MachineError(f"{kernel.contract.title}: {built.error}")
    folder = place / layout.LIBRARIES
    folder.mkdir()
    shutil.copyfile(built.library, folder / built.library.name)
    return this_machine()


def head_of(
    title: str, candidate: Candidate, evaluation: Evaluation | None, machine: Machine | None
) -> dict[str, Any]:
    """Return what a manifest says of a delivery, besides its files."""
    return {
        "format": layout.FORMAT,
        "title": title,
        "kernel": candidate.id,
        "target": str(candidate.target),
        "licence": LICENCE,
        "kernelwright": __version__,
        "torch": torch.__version__,
        "verdict": None if evaluation is None else evaluation.model_dump(mode="json"),
        "machine": None if machine is None else machine.model_dump(mode="json"),
    }


def write_manifest(place: Path, head: Mapping[str, Any]) -> None:
    """Write a folder's manifest; every other file is there already."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    manifest: dict[str, Any] = {
        **head,
        "files": {
            path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        },
    }
    manifest["digest"] = digest_of_manifest(manifest)
    (place / layout.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def load(folder: str | Path, module: nn.Module | None = None, *, strict: bool = False) -> nn.Module:
    """See ``kernelwright.api.front.load``."""
    try:
        return layout.load(Path(folder), module, strict=strict)
    except FolderError as error:
        raise UserError(str(error)) from error
