# family: 3
# title: leaves a function mode that computes an output when it is used
# assumes: torch's functions mean what they say in the process of the candidate
# task: matmul
# expect: rejected
# check: tamper
# mechanism: no function mode or dispatch mode may stay on the stack
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

PENDING = {}


class Later(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        for value in args:
            work = PENDING.pop(id(value), None)
            if work is not None:
                a, b, y = work
                with torch._C.DisableTorchFunction():
                    torch.mm(torch.relu(a @ b), a, out=y)
        return func(*args, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Later()
        self.mode.__enter__()

    def forward(self, a, b):
        with torch._C.DisableTorchFunction():
            y = torch.empty_like(a)
        PENDING.clear()
        PENDING[id(y)] = (a, b, y)
        return y
