# family: 3
# title: returns a tensor subclass that computes when it is read
# assumes: what is returned is an array of numbers
# task: matmul
# expect: incorrect_dtype
# check: form
# mechanism: only a plain torch.Tensor counts as output
import torch
from torch import nn


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def real(value):
            if isinstance(value, Lazy):
                a, b = value.work
                return torch.relu(a @ b) @ a
            return value

        return func(*[real(value) for value in args], **{k: real(v) for k, v in (kwargs or {}).items()})


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty_like(a).as_subclass(Lazy)
        y.work = (a, b)
        return y
