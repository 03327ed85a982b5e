"""Writes a model with kernels in its blocks into one folder; ``kernelwright.load`` reads it."""

from pathlib import Path

import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.machine import Machine
from kernelwright.delivery.saving import (
    head_of,
    lost_in_folder,
    write_folder,
    write_manifest,
    write_original,
    write_part,
    write_texts,
)
from kernelwright.whole.patching import PatchedModel

BLOCKS = "blocks"
"""Folder of the kernels, one folder each."""


@torch.inference_mode(False)
def save_patched(
    model: PatchedModel,
    folder: str | Path,
    whole: Candidate,
    *,
    cache_dir: Path,
    evaluation: Evaluation | None = None,
    machine: Machine | None = None,
) -> Path:
    """Write a folder and return its path. An earlier delivery in it is replaced.

    Args:
        model: what is delivered.
        folder: where; made when missing.
        whole: what the referee judged.
        cache_dir: where compiled libraries are kept.
        evaluation: the referee's final verdict on the whole model.
        machine: where it was measured.

    Raises:
        UserError: the folder holds something else or cannot be written, or the model holds what no folder
            keeps.
        MachineError: no compiler.
    """

    def write(place: Path) -> None:
        write_original(place, model.contract, model.module, model.origin)
        write_texts(place, {"judged.py": whole.source})
        names: dict[str, str] = {}
        for kernel in model.kernels.by_path.values():
            if kernel.digest not in names:
                name = names[kernel.digest] = f"{BLOCKS}/{len(names)}"
                write_part(place / name, kernel, model.kernels.candidates[kernel.digest], cache_dir)
        blocks = {path: names[kernel.digest] for path, kernel in model.kernels.by_path.items()}
        head = head_of(model.contract.title, whole, evaluation, machine)
        lost = lost_in_folder(model.contract, model.module)
        head = {**head, "blocks": blocks, "compiled": model.is_compiled, "library": None, "lost": lost}
        write_manifest(place, head)

    return write_folder(Path(folder), write)
