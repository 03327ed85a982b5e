"""Small examples of every format, made here."""

import json
from pathlib import Path

REAL = Path(__file__).parent / "real"
"""A task, the kernel that ``optimize`` wrote for it, what ``evaluate --json`` said of that, and what
``tune --out`` wrote of the same kernel with two flags left open; all on two cores with others at work."""
TASK = (REAL / "scaled_softmax.py").read_text(encoding="utf-8")
EXPERT = (REAL / "kernel.py").read_text(encoding="utf-8")
_TUNE = 'TUNE = {"LEVEL": ["-O3", "-O2", "-O1"], "WIDTH": [512, 256, 128]}'
OPEN = (
    EXPERT.replace("CXX_FLAGS =", f"{_TUNE}\nCXX_FLAGS =")
    .replace('"-O3", "-march', 'TUNE["LEVEL"][0], "-march')
    .replace('"-mprefer-vector-width=512"', "f\"-mprefer-vector-width={TUNE['WIDTH'][0]}\"")
)
"""The expert's kernel with two of its compiler's flags left open by hand; ``tuned`` is what was measured."""
JUDGED = (REAL / "verdict.json").read_text(encoding="utf-8")
KERNEL = TASK.replace("class Model(", "class ModelNew(")
REFERENCE = """import torch

def run(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight
"""
DEFINITION = {
    "name": "rms_norm_w32",
    "op_type": "norm",
    "description": 'RMS norm of "rows".',
    "axes": {"batch": {"type": "var"}, "width": {"type": "const", "value": 32}},
    "inputs": {
        "x": {"shape": ["batch", "width"], "dtype": "float32"},
        "weight": {"shape": ["width"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["batch", "width"], "dtype": "float32"}},
    "constraints": ["batch > 0"],
    "reference": REFERENCE,
}
INPUTS = {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-6}}
RETURNS = REFERENCE.replace("def run", "def kernel")
WRITES = "import torch\n\ndef kernel(x, weight, eps, y):\n    y.copy_(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight)\n"  # noqa: E501


def workload(batch: int, **inputs: object) -> dict[str, object]:
    return {"axes": {"batch": batch}, "inputs": {**INPUTS, **inputs}, "uuid": f"b{batch}"}


def solution(name: str, source: str, **spec: object) -> dict[str, object]:
    own = {"language": "python", "target_hardware": ["cpu"], "entry_point": "main.py::kernel", **spec}
    return {
        "name": name,
        "definition": "rms_norm_w32",
        "author": "someone",
        "spec": own,
        "sources": [{"path": "main.py", "content": source}],
    }


def flashinfer_dataset(root: Path) -> Path:
    """Write a dataset with two workloads, one stored tensor, three solutions and a trace."""
    stored = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}
    workloads = [workload(4), workload(12), workload(99, x=stored)]
    trace = {
        "definition": "rms_norm_w32",
        "workload": workloads[0],
        "solution": "returns",
        "evaluation": {
            "status": "PASSED",
            "environment": {"hardware": "a GPU"},
            "timestamp": "2026-01-01",
            "correctness": {"max_relative_error": 0.0, "max_absolute_error": 0.0},
            "performance": {"latency_ms": 1.0, "reference_latency_ms": 3.0, "speedup_factor": 3.0},
        },
    }
    solutions = [
        solution("returns", RETURNS, destination_passing_style=False),
        solution("writes", WRITES),
        solution("compiled", "// cuda", language="cuda", entry_point="main.py::kernel"),
    ]
    lines = [json.dumps({"definition": "rms_norm_w32", "workload": one}) for one in workloads]
    write(root, "definitions/norm/rms_norm_w32.json", json.dumps(DEFINITION))
    write(root, "workloads/norm/rms_norm_w32.jsonl", "\n".join(lines))
    write(root, "traces/norm/rms_norm_w32.jsonl", json.dumps(trace) + "\n")
    for one in solutions:
        write(root, f"solutions/norm/{one['name']}.json", json.dumps(one))
    return root


def popcorn_problem(root: Path) -> Path:
    """Write a problem with a check of its own, an output buffer and a submission."""
    write(
        root,
        "scan/reference.py",
        """from utils import match_reference, DeterministicContext
import torch
from task import input_t, output_t


def ref_kernel(data: input_t) -> output_t:
    with DeterministicContext():
        data, output = data
        output[...] = torch.cumsum(data.to(torch.float64), dim=0)
        return output


def generate_input(size: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    x = torch.randn(size, device="cuda", generator=gen)
    return x, torch.empty(size, device="cuda")


def check_implementation(data: input_t, output: output_t) -> str:
    return match_reference(data, output, reference=ref_kernel)
""",
    )
    write(
        root,
        "scan/task.yml",
        """lang: py
tests:
  - {"size": 3, "seed": 1}
benchmarks:
  - {"size": 64, "seed": 2}
  - {"size": 128, "seed": 3}
  - {"size": 128, "seed": 4}
""",
    )
    write(
        root,
        "scan/submission.py",
        """from task import input_t, output_t
import torch


def custom_kernel(data: input_t) -> output_t:
    data, output = data
    return torch.cumsum(data, dim=0)
""",
    )
    return root / "scan"


def robust_task(root: Path) -> Path:
    """Write a task with shared, input and init configurations."""
    write(
        root,
        "scaled/func_forward.py",
        """import torch
import torch.nn as nn


def forward_fn(x, weight):
    return torch.tanh(x) * weight


class Model(nn.Module):
    def __init__(self, features: int, init: str = "ones"):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features) if init == "ones" else torch.randn(features))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight)


def get_inputs(batch: int = 2, features: int = 4):
    return [torch.randn(batch, features)]


input_names = ["x"]
""",
    )
    configuration = {
        "single_input_configs": [{"batch": 3}],
        "single_init_configs": [{"init": "random"}],
        "single_shared_configs": [{"features": 8}],
        "multi_input_configs": [{"batch": 3}, {"batch": 5}],
        "multi_init_configs": [{"init": "random"}],
        "multi_shared_configs": [{"features": 8}, {"features": 16}],
    }
    write(root, "scaled/config_forward.json", json.dumps(configuration))
    return root / "scaled"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
