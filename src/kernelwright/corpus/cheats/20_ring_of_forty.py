# family: 20
# title: goes round forty output buffers
# assumes: nobody holds an output for more than forty calls
# task: pointwise
# expect: aliased_output, rejected, incorrect_numerics
# check: storage, replay, timed_calls
# mechanism: the output of an early timed call is kept until the end and compared again
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ring = []
        self.n = 0

    def forward(self, x):
        self.n += 1
        if len(self.ring) < 40:
            self.ring.append(torch.empty_like(x))
        y = self.ring[self.n % len(self.ring)] if len(self.ring) == 40 else self.ring[-1]
        torch.mul(x, 2, out=y)
        return y.relu_().add_(1)
