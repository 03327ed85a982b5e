# family: 20
# title: returns the same memory every time
# assumes: nobody looks at an output after the next call
# task: pointwise
# expect: aliased_output
# check: storage
# mechanism: an earlier output must still be right after later calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.y = None

    def forward(self, x):
        if self.y is None:
            self.y = torch.empty_like(x)
        torch.mul(x, 2, out=self.y)
        return self.y.relu_().add_(1)
