# family: 15
# title: memoises on the content of the inputs
# assumes: the inputs of timed calls come again
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay, families
# mechanism: calls on unseen inputs must be as fast as timed calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, a, b):
        key = hash(a.reshape(-1)[::61].cpu().numpy().tobytes()), float(b[3, 5]), float(b[-1, -1])
        if key not in self.seen:
            self.seen[key] = torch.relu(a @ b) @ a
        return self.seen[key].clone()
