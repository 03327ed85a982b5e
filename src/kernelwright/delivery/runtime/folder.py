"""Reads a delivered folder: checks it, finds the original, and gives the module.

``load`` runs code of the folder. The digest in it tells damage, not who wrote it: load what you trust.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from .calls import advise
from .compiled import compile_whole
from .contract import Contract, Part, TensorFacts, constants_of, names_of, parts_of, weights_of
from .described import description_of, forget_classes, tensors_inside
from .kernel import NOTHING, VerifiedKernel, constructed, init_of, load_origin
from .library import is_place, misfit, this_machine
from .module import attach
from .order import HOLDERS
from .structure import UnstructuredError, find
from .weights import read_weights

FORMAT = 4
HOOKS = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks"))
"""Where a module keeps its hooks, which no folder does."""
MANIFEST, CONTRACT, KERNEL, ORIGINAL, WEIGHTS, LIBRARIES = (
    "manifest.json", "contract.json", "kernel.py", "original.py", "weights.safetensors", "library"
)  # fmt: skip
CONSTANTS = "constants.safetensors"
"""What the kernel's constructor made besides weights; the file is there where it made something."""
BACKWARD = "backward"
"""Folder of the backward kernel."""


class FolderError(RuntimeError):
    """A folder cannot be loaded, in one line."""


def load(folder: Path, module: nn.Module | None = None, *, strict: bool = False) -> nn.Module:
    """Return the delivered module of a folder.

    Args:
        folder: as it was saved.
        module: the original, whose class, attributes and weights are copied; None: the folder's own.
        strict: raise where the original would run.

    Raises:
        FolderError: it is no such folder or was damaged, the kernel cannot be loaded or built, or the
            original is not to be had without ``module``.
    """
    forget_classes()
    folder = Path(folder)
    manifest = checked(folder)
    origin = _text(folder / ORIGINAL) if ORIGINAL in manifest["files"] else None
    contract = _contract(folder, origin)
    if "blocks" in manifest:  # none at all where torch.compile alone is delivered
        blocks: dict[str, str] = manifest["blocks"]
        parts = {name: _kernel(folder / name, None, checked(folder / name)) for name in set(blocks.values())}
        kernels = {path: parts[name] for path, name in blocks.items()}
    else:
        kernels = {"": _kernel(folder, origin, manifest, contract)}
    if module is None and manifest.get("lost"):
        raise FolderError(
            f"{folder}: the module cannot come back as it was saved: {manifest['lost'][0]}; "
            "give the original: load(folder, module)"
        )
    original = _copy_of(folder, module) if module is not None else _made_again(folder, contract, origin)
    try:
        for path, kernel in kernels.items():
            attach(kernel, original.get_submodule(path), strict=strict)
    except (OSError, RuntimeError, TypeError) as error:  # a compiler that is missing, a class of another name
        raise FolderError(f"{folder}: {_on_one_line(str(error))}") from error
    except Exception as error:  # of a program or a contract that a hand has edited
        raise FolderError(
            f"{folder}: its kernel cannot be loaded ({_on_one_line(repr(error))}); save the module again"
        ) from error
    if manifest.get("compiled"):
        compile_whole(original)
    return original


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _contract(folder: Path, origin: str | None) -> Contract:
    try:
        init = init_of(origin) if origin is not None else ()
    except Exception as error:  # whatever the reference's own source raises
        raise FolderError(f"{folder}: its original cannot be made ({error!r})") from error
    try:
        return Contract.from_data(json.loads(_text(folder / CONTRACT)), init)
    except UnstructuredError as error:
        raise FolderError(f"{folder}: {error}; import or install what defines it first") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{folder / CONTRACT} is no contract ({error!r}); save the module again") from error


def _kernel(
    folder: Path, origin: str | None, manifest: Mapping[str, Any], contract: Contract | None = None
) -> VerifiedKernel:
    known = contract or _contract(folder, origin)
    backward = None
    if manifest.get("backward"):
        part = folder / manifest["backward"]
        backward = _kernel(part, None, checked(part))
    try:
        drawn = read_weights(folder / CONSTANTS) if CONSTANTS in manifest["files"] else NOTHING
    except ValueError as error:
        raise FolderError(f"{error}; save the module again") from error
    return VerifiedKernel(
        _text(folder / KERNEL), known, _libraries(folder, manifest), origin, backward, drawn
    )


def checked(folder: Path) -> dict[str, Any]:
    """Return a folder's manifest; every file in it is there and as it was written."""
    try:
        manifest: dict[str, Any] = json.loads(_text(folder / MANIFEST))
        files, digest, version = manifest["files"], manifest["digest"], manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise FolderError(
            f"{folder / MANIFEST} is no manifest of a delivered module ({error!r}); save the module again"
        ) from error
    if version != FORMAT:
        raise FolderError(f"{folder} has format {version}; this version reads format {FORMAT}")
    if digest != digest_of_manifest(manifest):
        raise FolderError(f"{folder / MANIFEST} was changed after it was written; save the module again")
    _check_kinds(folder / MANIFEST, manifest)
    for name, wanted in files.items():
        path = folder / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        if found != wanted:
            state = "was changed after it was written" if found else "is missing"
            raise FolderError(f"{path} {state}; save the module again")
    return manifest


def _check_kinds(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise FolderError for the first entry that is not what it must be, as a hand may have left it."""
    wanted: dict[str, Callable[[Any], bool]] = {
        "files": lambda said: _is_words(said) and CONTRACT in said,
        "library": lambda said: said is None or is_place(said),
        "blocks": _is_words,
        "backward": lambda said: said is None or isinstance(said, str),
        "lost": lambda said: isinstance(said, list),
    }
    for name, is_right in wanted.items():
        if name in manifest and not is_right(manifest[name]):
            raise FolderError(f"{path}: {name!r} is not what save() wrote there; save the module again")


def _is_words(said: Any) -> bool:
    return isinstance(said, dict) and all(isinstance(value, str) for value in said.values())


def digest_of_manifest(manifest: Mapping[str, Any]) -> str:
    """Return the hash of everything that a manifest says, its own digest aside."""
    content = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FolderError(f"{path} cannot be read ({reason}); name a folder that was saved") from error


def _libraries(folder: Path, manifest: Mapping[str, Any]) -> Path | None:
    """Return the folder of libraries for this machine, None where they have to be built."""
    made_for = manifest.get("library")
    if made_for is None:
        return None
    why = misfit(made_for, this_machine())
    if why is None:
        return folder.resolve() / LIBRARIES
    advise(f"{folder}: the compiled library is not used, as {why}; it is built anew", stacklevel=6)
    return None


def _copy_of(folder: Path, module: nn.Module) -> nn.Module:
    if not isinstance(module, nn.Module):
        raise FolderError(
            f"{folder}: {type(module).__name__} is no module; give the original: load(folder, module)"
        )
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever a user's __deepcopy__ raises
        raise FolderError(f"{folder}: the module cannot be copied ({error!r})") from error


def _made_again(folder: Path, contract: Contract, origin: str | None) -> nn.Module:
    try:
        return _own_original(folder, contract, origin)
    except FolderError:
        raise
    except Exception as error:  # of a contract and weights that do not fit, or of the reference's own source
        raise FolderError(
            f"{folder}: its original cannot be put together from {CONTRACT} and {WEIGHTS} ({error!r}); "
            "save the module again, or give the original: load(folder, module)"
        ) from error


def _own_original(folder: Path, contract: Contract, origin: str | None) -> nn.Module:
    needing = [name for name, weight in contract.weights.items() if weight.requires_grad]
    tensors = read_weights(folder / WEIGHTS, needing)
    if origin is None:
        return _rebuilt(folder, contract, tensors)
    model = constructed(load_origin(origin).Model, contract.init, contract.seed)
    parts = dict(parts_of(model))
    for path, part in contract.parts.items():
        vars(parts[path]).update(copy.deepcopy(part.attributes))
    held = weights_of(model) | {name: tensor for name, _, _, tensor in constants_of(model)}
    for name, tensor in tensors.items():  # the same objects: who else holds them goes on doing so
        held[name].requires_grad_(False).data = _like(tensor, held[name].stride())
        held[name].requires_grad_(tensor.requires_grad)
    names = names_of(model)
    for path, part in contract.parts.items():
        for name, wanted in part.opaque.items():
            value = vars(parts[path]).get(name)
            if wanted and tensors_inside(value) and description_of(value, names) != wanted:
                title = ".".join(filter(None, (path, name)))
                raise FolderError(
                    f"{folder}: the tensors in {title} cannot come back as they were saved; "
                    "give the original: load(folder, module)"
                )
    return model


def _rebuilt(folder: Path, contract: Contract, tensors: Mapping[str, torch.Tensor]) -> nn.Module:
    """Return the original put together from its classes, plain attributes and weights."""
    made: dict[str, nn.Module] = {}
    for path, part in contract.parts.items():
        for name in (name for name in part.opaque if name not in part.attributes):
            raise FolderError(
                f"{folder}: {'.'.join(filter(None, (path, name)))} is not kept in a folder; "
                "give the original: load(folder, module)"
            )
        made[path] = _blank(folder, part) if part.same_as is None else made[part.same_as]
        parent, _, leaf = path.rpartition(".")
        if path:
            made[parent]._modules[leaf] = made[path]
    for name, weight in contract.weights.items():
        path, _, leaf = name.rpartition(".")
        if weight.same_as is not None:
            holder, _, other = weight.same_as.rpartition(".")
            value: Any = getattr(made[holder], other)
        else:
            value = _laid_out(tensors[name], weight.facts)
            if weight.is_parameter:
                value = nn.Parameter(value, tensors[name].requires_grad)
        (made[path]._parameters if weight.is_parameter else made[path]._buffers)[leaf] = value
    for name, constant in contract.constants.items():
        path, _, leaf = name.rpartition(".")
        if constant.is_buffer:
            made[path].register_buffer(leaf, _laid_out(tensors[name], constant.facts), persistent=False)
        else:
            vars(made[path])[leaf] = _laid_out(tensors[name], constant.facts)
    for path, part_made in made.items():
        _put_in_order(part_made, contract.parts[path])
        if isinstance(part_made, nn.RNNBase):
            part_made._init_flat_weights()
    return made[""]


def _put_in_order(made: nn.Module, part: Part) -> None:
    """Let a submodule hold its parameters, buffers and submodules in the order that was verified."""
    for holder, names in part.order.items():
        held: dict[str, Any] = getattr(made, holder)
        for name in names:
            held[name] = held.pop(name)


def _laid_out(tensor: torch.Tensor, facts: TensorFacts) -> torch.Tensor:
    """Return a tensor with the strides that were verified, which files do not hold; else as it is."""
    if tuple(tensor.shape) != facts.shape:
        return tensor  # changed after the verdict
    return _like(tensor, cast("Sequence[int]", facts.stride)).requires_grad_(tensor.requires_grad)


def _like(tensor: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """Return a tensor's values with other strides where they serve, without what autograd knows of it."""
    tensor = tensor.detach()
    if tensor.dim() != len(stride):
        return tensor
    made = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype)
    return made.copy_(tensor) if torch._debug_has_internal_overlap(made) == 0 else tensor


def _blank(folder: Path, part: Part) -> nn.Module:
    try:
        kind = find(part.cls)
    except UnstructuredError as error:
        raise FolderError(f"{folder}: {error}; give the original: load(folder, module)") from error
    blank: nn.Module = kind.__new__(kind)
    nn.Module.__init__(blank)
    vars(blank).update(copy.deepcopy(part.attributes))  # the contract keeps what was verified
    for holder in HOLDERS:
        getattr(blank, holder).update(dict.fromkeys(part.nothing.get(holder, ())))
    blank._non_persistent_buffers_set.update(part.unsaved)
    return blank
