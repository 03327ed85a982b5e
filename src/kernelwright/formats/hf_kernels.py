"""Hugging Face ``kernels`` out: a repository with sources for its builder and a built variant beside them.

A kernel of ours is one Python file that compiles itself, or calls Triton. That is their "noarch" kind:
nothing is built ahead of time, and one variant serves every torch.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.version import __version__
from kernelwright.formats.package import Converted, Package, identifier

LICENSE = "apache-2.0"
NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
"""Names of kernels that Hugging Face takes; a kernel's module has underscores instead."""
FLAKE = """{
  description = "A kernel packed by Kernelwright";

  inputs.kernel-builder.url = "github:huggingface/kernels";

  outputs = { self, kernel-builder }:
    kernel-builder.lib.genKernelFlakeOutputs {
      inherit self;
      path = ./.;
    };
}
"""
"""What their builder is started with; it lives in the repository of ``kernels``, and reads build.toml."""


def write_hf_kernels(package: Package) -> Converted:
    """Return the files of a repository; exactly one kernel is packed.

    Raises:
        UserError: there is none or several, its verdict is not verified, or its task's name cannot be said.
    """
    if len(package.kernels) != 1:
        raise UserError(
            f"a repository holds one kernel, not {len(package.kernels)}; name one file with ModelNew"
        )
    ((kernel, source),) = package.kernels.items()
    evaluation = package.evaluations.get(kernel)
    if evaluation is not None and not evaluation.is_verified:
        raise UserError(f"{kernel}: its verdict is {evaluation.status}; only a verified kernel is packed")
    name = _name(package.task.name)
    backend = package.device
    own = {
        "__init__.py": f"{_doc(evaluation)}\nfrom .kernel import ModelNew\nfrom . import layers\n\n"
        '__all__ = ["ModelNew", "layers"]\n',
        "kernel.py": source if source.endswith("\n") else f"{source}\n",
        "layers.py": '"""Layers for ``kernelize``."""\n\nfrom .kernel import ModelNew\n\n'
        '__all__ = ["ModelNew"]\n',
    }
    variant = f"build/torch-{backend}"
    compatible = {f"{name}/__init__.py": _compatible(name)}
    built = {**own, **compatible}
    files = {f"torch-ext/{name}/{file}": text for file, text in own.items()}
    files |= {f"{variant}/{file}": text for file, text in built.items()}
    files |= {
        f"{variant}/metadata.json": _metadata(name, backend, built),
        "build.toml": _build(name, backend),
        "flake.nix": FLAKE,
        "README.md": _card(package, name, evaluation),
    }
    return Converted(files, (f"{package.task.name}: the kernel is compiled where it is first used",))


def _name(task: str) -> str:
    """Return the name of the kernel's module; with dashes for underscores it is the kernel's."""
    name = identifier(task).lower()
    if not NAME.fullmatch(name.replace("_", "-")):
        raise UserError(
            f"{task}: Hugging Face takes names of two or more a-z, 0-9 and - only; name the task's file so"
        )
    return name


def _doc(evaluation: Evaluation | None) -> str:
    what = "A verified drop-in" if evaluation else "A kernel that was not judged,"
    return f'"""{what} for a PyTorch module, packed by Kernelwright."""\n'


def _build(name: str, backend: str) -> str:
    dashed = name.replace("_", "-")
    return (
        f'[general]\nname = "{dashed}"\nversion = 1\nedition = 5\nlicense = "{LICENSE}"\n'
        f'backends = ["{backend}"]\n\n[torch-noarch]\n'
    )


def _compatible(name: str) -> str:
    """Return the module that older versions of their library import: the same names."""
    return (
        "import importlib.util\nimport sys\nfrom pathlib import Path\n\n"
        "_file = Path(__file__).parent.parent / '__init__.py'\n"
        f"_spec = importlib.util.spec_from_file_location('_{name}_kernelwright', _file,\n"
        "    submodule_search_locations=[str(_file.parent)])\n"
        "_module = importlib.util.module_from_spec(_spec)\n"
        "sys.modules[_spec.name] = _module\n_spec.loader.exec_module(_module)\n"
        "ModelNew, layers = _module.ModelNew, _module.layers\n"
    )


def _metadata(name: str, backend: str, files: dict[str, str]) -> str:
    digests = {
        file: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for file, text in sorted(files.items())
    }
    key = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:7]
    document = {
        "name": name.replace("_", "-"),
        "id": f"_{name}_{backend}_{key}",
        "version": 1,
        "license": LICENSE,
        "python-depends": [],
        "backend": {"type": backend},
        "digest": {"algorithm": "sha256", "files": digests},
    }
    return json.dumps(document, indent=2) + "\n"


def _card(package: Package, name: str, evaluation: Evaluation | None) -> str:
    task = package.task
    said = "It was not judged when it was packed: nobody has shown that it computes the same."
    measured = "No verdict was given when this was packed."
    if evaluation:
        said = f"The referee verified it within the tolerance `{task.tolerance}`."
        measured = "\n".join(_figures(evaluation)) or "It was not timed beside eager."
    return f"""---
license: {LICENSE}
tags: [kernels]
---

# {name}

Made for the module `{task.name}`, packed by Kernelwright {__version__}. {said}

```python
from pathlib import Path
from kernels import get_local_kernel

ModelNew = get_local_kernel(Path("."), backend="{package.device}").ModelNew
```

## Measured

{measured}
"""


def _figures(evaluation: Evaluation) -> Iterator[str]:
    """Yield a line for each workload that was timed beside eager; most verdicts do not name their machine."""
    where = f"on {evaluation.device}" if evaluation.device else "on a machine that the verdict does not name"
    for result in evaluation.told:
        speedup = result.speedup("eager")
        if speedup is not None:
            interval = f"[{speedup.low:.2f}, {speedup.high:.2f}]"
            yield f"- {result.workload}: {speedup.ratio:.2f}x over eager {interval}, {where}"
