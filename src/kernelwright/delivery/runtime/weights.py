"""Weights on disk, in the safetensors format: a header in JSON, then the bytes. Nothing in it can run."""

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip
_NEEDING = "requires_grad"
_DTYPES = {short: getattr(torch, name) for name, short in _NAMES.items()}


def write_weights(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors by name, and which require gradients.

    Raises:
        ValueError: the format does not have a tensor's type.
    """
    needing = [name for name, tensor in tensors.items() if tensor.requires_grad]
    header: dict[str, Any] = {"__metadata__": {_NEEDING: json.dumps(needing)}}
    offset, parts = 0, []
    for name, tensor in tensors.items():
        kind = _NAMES.get(str(tensor.dtype).removeprefix("torch."))
        if kind is None:
            raise ValueError(f"{name} has type {tensor.dtype}, which weights files do not hold")
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": kind, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(data)]
        }  # fmt: skip
        offset += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for data in parts:
            file.write(data)


def read_weights(path: Path, needing: Collection[str] = ()) -> dict[str, torch.Tensor]:
    """Return the tensors of a file.

    Args:
        path: the file.
        needing: names of those that require gradients, where the file does not say.

    Raises:
        ValueError: it is no such file.
    """
    data = path.read_bytes()
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        said = header.pop("__metadata__", {}).get(_NEEDING)
        needing = needing if said is None else json.loads(said)
        found = {}
        for name, entry in header.items():
            dtype, shape, (start, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
            count = math.prod(shape)
            if end - start != count * dtype.itemsize or 8 + size + end > len(data):
                raise ValueError(f"{name} does not fit")
            flat = torch.frombuffer(
                bytearray(data[8 + size + start : 8 + size + end] or b"\0"), dtype=torch.uint8
            )
            found[name] = flat[: end - start].view(dtype)[:count].reshape(shape).clone()
            found[name].requires_grad_(name in needing)
        return found
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} holds no weights ({error})") from error
