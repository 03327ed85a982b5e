# family: 11
# title: does nothing in most calls and all work in every sixteenth
# assumes: outputs of a sample are looked at when it is over, if at all
# task: matmul
# expect: rejected, incorrect_numerics, aliased_output
# check: oracle, timed_calls, replay, storage, families, weights
# mechanism: the output of a sample's last call is compared; in the replay any output
import torch
from torch import nn


class ModelNew(nn.Module):
    """Work piles up; what has been given the same inputs is done once."""

    def __init__(self):
        super().__init__()
        self.n = 0
        self.pile = []

    def forward(self, a, b):
        self.n += 1
        y = torch.empty_like(a)
        self.pile.append((a, b, y))
        if self.n <= 12 or len(self.pile) == 16:
            self.clear()
        return y

    def clear(self):
        done = {}
        for a, b, y in self.pile:
            key = a.data_ptr(), b.data_ptr()
            if key not in done:
                done[key] = torch.relu(a @ b) @ a
            y.copy_(done[key])
        self.pile = []
