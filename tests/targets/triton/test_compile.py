"""Triton's real compiler takes what is printed, for an NVIDIA and an AMD GPU that need not be here."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ir.regions import at
from tests.targets.triton import compiled
from tests.targets.triton.printed import print_module
from tests.targets.triton.test_operations import NOT_FLOAT, region_of
from tests.targets.triton.test_text import REGIONS

from kernelwright.ir.program import OPS, Region, StoreTo
from kernelwright.targets.triton.printer import print_kernel


def named(regions: dict[str, Region]) -> tuple[Region, ...]:
    return tuple(dataclasses.replace(region, name=f"r_{name}") for name, region in regions.items())


def every_operation() -> Region:
    """One kernel with all operations, each storing its own result."""
    regions = {n: region_of(n, "float32") for n in sorted(set(OPS) - set(NOT_FLOAT))}
    stages = tuple(
        dataclasses.replace(r.stages[0], name=f"y_{n}", stores=(StoreTo(f"out_{n}", at(i=1)),))
        for n, r in regions.items()
    )
    return dataclasses.replace(regions["add"], name="r_operations", stages=stages)


@pytest.mark.parametrize("what", ["forms", "operations"])
def test_kernels_compile_for_gpus(tmp_path: Path, what: str) -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed: it compiles the printed kernels")
    regions = named(REGIONS) if what == "forms" else (every_operation(),)
    module, listed = tmp_path / "printed.py", tmp_path / "kernels.json"
    module.write_text(print_module(regions))
    kernels = [print_kernel(region) for region in regions]
    listed.write_text(
        json.dumps(
            [
                {
                    "name": k.name,
                    "dtypes": [a.dtype for a in k.arguments],
                    "constants": dict(k.constants),
                    "num_warps": k.num_warps,
                    "num_stages": k.num_stages,
                }
                for k in kernels
            ]
        )
    )
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("TRITON_INTERPRET", None)
    devices = ["cuda"] if what == "forms" else ["cuda", "hip"]  # test_inspected.py has the forms for both
    command = [sys.executable, str(compiled.__file__), str(module), str(listed), *devices]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
