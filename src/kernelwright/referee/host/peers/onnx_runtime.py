"""ONNX Runtime on the exported reference, with all its optimisations; inputs and outputs are not copied."""

from typing import Any

import onnxruntime
import torch
from onnx import TensorProto
from torch import nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_TYPES = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16,
    torch.int64: TensorProto.INT64,
    torch.int32: TensorProto.INT32,
    torch.int16: TensorProto.INT16,
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
    torch.bool: TensorProto.BOOL,
}


class OnnxRuntimePeer:
    """A session with outputs of its own, which every call writes again: the usual way to call it."""

    def __init__(self, model: nn.Module, args: tuple[Any, ...]) -> None:
        program = torch.onnx.export(model, args, dynamo=True, verbose=False)
        assert program is not None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # threads that wait for work would take processors from the other sides, as those of OpenMP would
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._binding = self._session.io_binding()
        self._inputs = [one.name for one in self._session.get_inputs()]
        outputs, self._form = tree_flatten(model(*args))
        self._outputs = [torch.empty(x.shape, dtype=x.dtype) for x in outputs]
        for one, output in zip(self._session.get_outputs(), self._outputs, strict=True):
            self._binding.bind_output(one.name, "cpu", 0, *_place(output))

    def __call__(self, *args: Any) -> Any:
        tensors = [x.contiguous() for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
        for name, tensor in zip(self._inputs, tensors, strict=True):
            self._binding.bind_input(name, "cpu", 0, *_place(tensor))
        self._session.run_with_iobinding(self._binding)
        return tree_unflatten(self._outputs, self._form)


def _place(tensor: torch.Tensor) -> tuple[int, tuple[int, ...], int]:
    """Return type, shape and address of a dense tensor."""
    return _TYPES[tensor.dtype], tuple(tensor.shape), tensor.data_ptr()
