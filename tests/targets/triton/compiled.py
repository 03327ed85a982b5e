"""Compile printed kernels with Triton for GPUs that are not here; a script for a process of its own.

    python compiled.py MODULE.py KERNELS.json cuda hip

KERNELS.json: a list of {name, dtypes of the tensors in order, constants, num_warps, num_stages}. Writes one
line per kernel and target that does not compile; exit code 1 then. Needs triton alone, no torch.
"""

import importlib.util
import json
import sys
from pathlib import Path

TYPES = {
    "float32": "*fp32", "float64": "*fp64", "int64": "*i64", "int32": "*i32", "int16": "*i16", "int8": "*i8",
    "uint8": "*u8", "bool": "*i1",
}  # fmt: skip
TARGETS = {"cuda": ("cuda", 90, 32), "hip": ("hip", "gfx942", 64)}


def main(module_path: str, kernels_path: str, *devices: str) -> int:
    """Compile every kernel for the target of every kind of device."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    spec = importlib.util.spec_from_file_location("printed", module_path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    n_failed = 0
    for kernel in json.loads(Path(kernels_path).read_text(encoding="utf-8")):
        function = getattr(module, f"{kernel['name']}_kernel")
        n_tensors = len(kernel["dtypes"])
        types = [TYPES[dtype] for dtype in kernel["dtypes"]] + ["constexpr"] * len(kernel["constants"])
        signature = dict(zip(function.arg_names, types, strict=True))
        aligned = {(k,): [["tt.divisibility", 16]] for k in range(n_tensors)}
        source = ASTSource(function, signature, kernel["constants"], aligned)
        options = {"num_warps": kernel["num_warps"], "num_stages": kernel["num_stages"]}
        for target in (TARGETS[device] for device in devices):
            try:
                triton.compile(source, target=GPUTarget(*target), options=options)
            except Exception as error:  # whatever the compiler says
                n_failed += 1
                sys.stdout.write(f"{kernel['name']} for {target[0]}: {str(error)[:500]}\n")
    return int(n_failed > 0)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
