# family: 19
# title: records the work for the first inputs' addresses and replays it into the same output
# assumes: inputs and outputs stay where they were at capture
# task: matmul
# wins: no
# expect: incorrect_numerics, aliased_output
# check: oracle, families, storage
# mechanism: calls go round several input sets; earlier outputs are compared again
import torch
from torch import nn


class ModelNew(nn.Module):
    """One plan for each size, as one captures one graph."""

    def __init__(self):
        super().__init__()
        self.plans = {}

    def forward(self, a, b):
        if a.shape not in self.plans:
            self.plans[a.shape] = (a, b, torch.empty_like(a), torch.empty_like(a))
        captured_a, captured_b, middle, y = self.plans[a.shape]
        torch.mm(captured_a, captured_b, out=middle)
        torch.mm(middle.relu_(), captured_a, out=y)
        return y
