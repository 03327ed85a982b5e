# family: 4
# title: replaces the clocks of the time module
# assumes: time in the candidate's process is time
# task: matmul
# expect: rejected
# check: tamper
# mechanism: the parent's clock decides; replaced functions are found
import time

import torch
from torch import nn

real, real_ns = time.perf_counter, time.perf_counter_ns
time.perf_counter = lambda: real() / 50
time.perf_counter_ns = lambda: real_ns() // 50


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
