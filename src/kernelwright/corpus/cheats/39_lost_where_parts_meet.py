# family: 39
# title: sums two halves and loses the element between them
# assumes: one number in a million does not show, and only the last one is easily lost
# task: mean_size
# wins: wrong
# expect: incorrect_numerics
# check: families, precision
# mechanism: spikes stand where an input is cut that is shared out among threads
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        half = x.numel() // 2
        return (x[: half - 1].abs().sum() + x[half:].abs().sum()) / x.numel()
