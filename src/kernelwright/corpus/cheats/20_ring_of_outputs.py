# family: 20
# title: cycles through three output buffers
# assumes: only the output before the last is looked at again
# task: pointwise
# expect: aliased_output
# check: storage
# mechanism: the first outputs of verification are kept and compared again at its end
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ring = None
        self.n = 0

    def forward(self, x):
        self.n += 1
        if self.ring is None:
            self.ring = [torch.empty_like(x) for _ in range(3)]
        y = self.ring[self.n % 3]
        torch.mul(x, 2, out=y)
        return y.relu_().add_(1)
