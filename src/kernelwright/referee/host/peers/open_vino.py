"""OpenVINO on the exported reference, set for short latency in float32; nothing is copied."""

from typing import Any

import openvino
import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten


class OpenVinoPeer:
    """One request with outputs of its own, which every call writes again: the usual way to call it."""

    def __init__(self, model: nn.Module, args: tuple[Any, ...]) -> None:
        converted = openvino.convert_model(torch.export.export(model, args))
        config = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,  # threads of all sides are pinned alike, or none
        }
        self._request = openvino.Core().compile_model(converted, "CPU", config).create_infer_request()
        _, self._form = tree_flatten(model(*args))

    def __call__(self, *args: Any) -> Any:
        tensors = [x.contiguous().numpy() for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
        found = self._request.infer(tensors, share_inputs=True, share_outputs=True)
        return tree_unflatten([torch.from_numpy(found[i]) for i in range(len(found))], self._form)
