"""The candidate file for Triton: one Python source that needs only torch and triton."""

import dataclasses

from kernelwright.core.task import Task
from kernelwright.ir.arguments import signature
from kernelwright.ir.lowering import Programs
from kernelwright.ir.program import Buffer, Call, CallArg, Program, Region
from kernelwright.targets.module_file.candidate import CandidateWriter, inputs_of
from kernelwright.targets.triton.prelude import prelude_for
from kernelwright.targets.triton.printer import IMPORTS, least_traffic, megabytes, print_kernel

LAID_OUT = '''
def _laid_out(tensor, stride):
    """Return the tensor with exactly these strides, copied only where it has others."""
    if tensor.stride() == stride:
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
'''
ON_DEVICE = '''
_on_device = {}


def _there(name, device):
    """Return a constant of this file on a device, copied to it once."""
    if (name, device) not in _on_device:
        _on_device[name, device] = globals()[name].to(device)
    return _on_device[name, device]
'''
CPU_ATTENTION = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"
ATTENTION = '''
def _attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    """Return torch's attention, and None for the statistics that only a gradient needs."""
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale
    )
    return out, None
'''


def render_triton_candidate(task: Task, programs: Programs, note: str) -> str:
    """Return the source of a candidate that runs these programs with Triton kernels.

    The arguments are those of ``render_candidate``; regions carry their TritonSchedule, or leave the
    choices to the rules of ``schedule.py``. Raises LoweringError where something is not printable.
    """
    ported = {name: (captured, on_any_device(program)) for name, (captured, program) in programs.items()}
    return _TritonWriter(task, ported, note).text()


def on_any_device(program: Program) -> Program:
    """Return the program without calls that name the CPU or exist only there."""

    def moved(value: CallArg) -> CallArg:
        if isinstance(value, tuple):
            return tuple(moved(v) for v in value)
        return "device" if value == "torch.device('cpu')" else value

    steps: list[Call | Region] = []
    for step in program.steps:
        if isinstance(step, Call):
            kwargs = tuple((key, moved(value)) for key, value in step.kwargs)
            step = dataclasses.replace(step, args=tuple(moved(a) for a in step.args), kwargs=kwargs)
            if step.target == CPU_ATTENTION:
                step = dataclasses.replace(step, target="_attention", helper=ATTENTION)
        steps.append(step)
    return dataclasses.replace(program, steps=tuple(steps))


class _TritonWriter(CandidateWriter):
    laid_out = LAID_OUT

    def __init__(self, task: Task, programs: Programs, note: str) -> None:
        super().__init__(task, programs, note)
        tensors = [p for c, _ in self.programs.values() for p in inputs_of(c)]
        first = self.arguments[int(tensors[0].source)] if tensors else ""
        self.device = f"{first}.device" if first else "next(self.parameters()).device"

    def imports(self, has_kernels: bool) -> str:
        """Return the import statements."""
        lines = ["import base64", ""] if self.needs_base64 else []
        lines += ["import torch"]
        lines += IMPORTS.splitlines() if has_kernels else []
        return "\n".join([*lines, "from torch import nn"])

    def generated(self, regions: list[Region]) -> list[str]:
        """Return the shared functions, then each kernel with the function that launches it."""
        buffers = {b.name: b for _, p in self.programs.values() for b in p.buffers}
        kernels = [print_kernel(region, buffers).text.rstrip() for region in regions]
        parts = [prelude_for("\n".join(kernels)).rstrip(), *kernels]
        if self.constants:
            parts.append(ON_DEVICE.strip())
        return [f"\n{part}" for part in parts if part]

    def attribute(self, program: Program, buffer: Buffer) -> str:
        """Return a parameter, buffer or constant, on the device."""
        text = super().attribute(program, buffer)
        return f'_there("{text}", device)' if text.startswith("_CONSTANT_") else text

    def facts_of(self, program: Program) -> list[str]:
        """Return the memory traffic that the generated kernels cannot do without."""
        buffers = {b.name: b for b in program.buffers}
        parts = [least_traffic(signature(s), buffers) for s in program.steps if isinstance(s, Region)]
        known = [part for part in parts if part is not None]
        return (
            [f"Floor of the generated kernels: {megabytes(sum(known))} of memory traffic."] if known else []
        )
