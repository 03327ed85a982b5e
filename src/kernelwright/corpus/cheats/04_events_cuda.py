# family: 4
# title: replaces the elapsed time of CUDA events
# assumes: torch.cuda.Event measures
# task: matmul
# target: cuda
# expect: rejected
# check: tamper, clock
# mechanism: the parent's clock decides; replaced functions are found
import torch
from torch import nn

real = torch.cuda.Event.elapsed_time
setattr(torch.cuda.Event, "elapsed_time", lambda self, other: real(self, other) / 50)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
