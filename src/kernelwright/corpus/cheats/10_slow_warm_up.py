# family: 10
# title: sleeps during warm-up, so that few calls are measured
# assumes: warm-up calls tell how many calls a sample needs
# task: pointwise
# wins: no
# expect: not_faster
# mechanism: samples much shorter than the warm-up promised are taken again, with more calls
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        if self.n < 60:
            time.sleep(0.02)
        return torch.relu(x) * 2 + 1
