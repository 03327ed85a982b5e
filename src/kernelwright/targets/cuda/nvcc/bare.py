"""A file of CUDA C++ on its own, as kernels are published: put into the form of ``load_inline``."""

import re

from kernelwright.targets.cuda.nvcc.device_part import top_level_items
from kernelwright.targets.cuda.nvcc.load_inline import LONGEST_SOURCE
from kernelwright.targets.gpu.inspect.form import BareSource

_TAKES_TENSORS = re.compile(
    r"^\s*(?:torch|at)::Tensor\s+(?P<name>\w+)\s*\((?P<parameters>.*)\)\s*$", re.DOTALL
)
_TENSOR = re.compile(r"^\s*(?:const\s+)?(?:torch|at)::Tensor\s*(?:const\s*)?&?\s*\w*\s*$")
_BOUND = re.compile(r"\bm\s*\.\s*def\s*\(\s*\"(?P<name>\w+)\"\s*,\s*&\s*(?P<function>\w+)")


def wrap_cuda(source: str) -> BareSource:
    """Return a module that compiles the source and calls its function with the inputs of a task.

    The function is the one that the source binds, else the last that takes tensors and returns one.
    """
    functions = _host_functions(source) if len(source) <= LONGEST_SOURCE else {}
    bound = {found["function"]: found["name"] for found in _BOUND.finditer(source)}
    named = [name for name in bound if name in functions] if bound else list(functions)
    name = next((one for one in named if bound.get(one) == "forward"), named[-1] if named else None)
    if name is None:
        return BareSource(_module(source, "", None), "", "it has no function that returns a torch::Tensor")
    declared = "" if bound else f"torch::Tensor {name}({functions[name]});"
    module = _module(source, declared, bound.get(name, name))
    others = [part for part in _parameters(functions[name]) if not _TENSOR.match(part) and "=" not in part]
    problem = f"{name} also takes {', '.join(others)}, and no claim says with what" if others else ""
    return BareSource(module, f"{name}(inputs of the task)", problem)


def _host_functions(source: str) -> dict[str, str]:
    """Return the parameters of each function that returns a tensor, by name."""
    heads = [head for _, head, has_body in top_level_items(source) if has_body]
    found = [_TAKES_TENSORS.match(head) for head in heads]
    return {match["name"]: match["parameters"] for match in found if match is not None}


def _parameters(text: str) -> list[str]:
    """Return what stands between the commas, without those of templates."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<({") - (letter in ">)}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [" ".join(part.split()) for part in parts if part.strip()]


def _module(source: str, declared: str, function: str | None) -> str:
    functions = [function] if function and declared else None
    call = "extension." + function + "(*inputs)" if function else "NotImplemented"
    return f"""from torch import nn
from torch.utils.cpp_extension import load_inline

DECLARED = {declared!r}
PUBLISHED = {source!r}
extension = load_inline("published", [DECLARED], cuda_sources=[PUBLISHED], functions={functions})


class ModelNew(nn.Module):
    def forward(self, *inputs):
        return {call}
"""
