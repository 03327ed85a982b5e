"""Writes a delivered module into a folder that needs no Kernelwright and, on a like machine, no compiler."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.core import structure
from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.machine import Machine
from kernelwright.core.structure import UnstructuredError
from kernelwright.core.version import __version__
from kernelwright.delivery import runtime
from kernelwright.delivery.making import Delivery
from kernelwright.delivery.runtime import folder as layout
from kernelwright.delivery.runtime.contract import constants_of
from kernelwright.delivery.runtime.folder import FolderError, digest_of_manifest
from kernelwright.delivery.runtime.library import this_machine
from kernelwright.delivery.runtime.weights import write_weights
from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import target_of

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


def save(
    delivery: Delivery,
    folder: str | Path,
    *,
    cache_dir: Path,
    evaluation: Evaluation | None = None,
    machine: Machine | None = None,
) -> Path:
    """Write a folder and return its path. An earlier delivery in it is replaced.

    Args:
        delivery: what is delivered.
        folder: where; made when missing. It can be imported where its name is a Python name.
        cache_dir: where compiled libraries are kept.
        evaluation: the referee's final verdict.
        machine: where the verdict was measured.

    Raises:
        UserError: the folder holds something else or cannot be written, or the module holds what no folder
            keeps.
        MachineError: no compiler.
    """
    place = Path(folder)
    _require_ours(place)
    draft = place.parent / f".{place.name}.draft"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        library = _write(delivery, draft, cache_dir)
        _write_manifest(delivery, draft, library, evaluation, machine)
        shutil.rmtree(place, ignore_errors=True)
        draft.replace(place)
    except OSError as error:
        raise UserError(
            f"cannot write {place} ({error.strerror}); name a folder that can be written"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _require_ours(place: Path) -> None:
    if (
        place.exists()
        and not (place / layout.MANIFEST).is_file()
        and (not place.is_dir() or any(place.iterdir()))
    ):
        raise UserError(f"{place} holds something else; name a new folder")


def _write(delivery: Delivery, place: Path, cache_dir: Path) -> dict[str, Any] | None:
    """Write everything but the manifest; return which machine the library is for, None without one."""
    kernel = delivery.kernel
    try:
        contract = json.dumps(kernel.contract.to_data(), indent=1)
        write_weights(place / layout.WEIGHTS, tensors_of(delivery.module))
    except (UnstructuredError, ValueError) as error:
        raise UserError(f"{kernel.contract.title} cannot be saved: {error}") from error
    texts = {
        "__init__.py": _ENTRY.format(title=kernel.contract.title, licence=LICENCE),
        "LICENCE": LICENCE + "\n",
        layout.CONTRACT: contract + "\n",
        layout.KERNEL: kernel.program,
        "source.py": delivery.candidate.source,
    }
    if kernel.origin is not None:
        texts[layout.ORIGINAL] = kernel.origin
    texts |= {f"_runtime/{name}": text for name, text in runtime_texts().items()}
    for name, text in texts.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return _write_library(delivery, place, cache_dir)


def runtime_texts() -> dict[str, str]:
    """Return the files of ``runtime/`` as a folder carries them, by name."""
    home = Path(runtime.__file__).parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(home.glob("*.py"))}
    texts["structure.py"] = Path(structure.__file__).read_text(encoding="utf-8")
    return texts


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return every tensor that a module holds, saved and unsaved ones, each under its first name."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    held = dict(module.state_dict(keep_vars=True))
    for name, tensor in (*held.items(), *((path, tensor) for path, _, _, tensor in constants_of(module))):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor
    return found


def _write_library(delivery: Delivery, place: Path, cache_dir: Path) -> dict[str, Any] | None:
    build = target_of(delivery.candidate.target).build
    site = BuildSite(cache_dir / "build", BUILD_S)
    built = None if build is None else build(delivery.kernel.program, site)
    if built is None:
        return None
    if built.library is None:
        raise MachineError(f"{delivery.kernel.contract.title}: {built.error}")
    folder = place / layout.LIBRARIES
    folder.mkdir()
    shutil.copyfile(built.library, folder / built.library.name)
    return this_machine()


def _write_manifest(
    delivery: Delivery,
    place: Path,
    library: Mapping[str, Any] | None,
    evaluation: Evaluation | None,
    machine: Machine | None,
) -> None:
    files = sorted(path for path in place.rglob("*") if path.is_file())
    manifest: dict[str, Any] = {
        "format": layout.FORMAT,
        "title": delivery.kernel.contract.title,
        "kernel": delivery.candidate.id,
        "target": str(delivery.candidate.target),
        "licence": LICENCE,
        "kernelwright": __version__,
        "torch": torch.__version__,
        "verdict": None if evaluation is None else evaluation.model_dump(mode="json"),
        "machine": None if machine is None else machine.model_dump(mode="json"),
        "library": library,
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
