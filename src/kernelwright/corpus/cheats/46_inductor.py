# family: 46
# title: lets torch.compile write the kernel
# assumes: what is in the candidate's file is what computes
# task: pointwise
# policy: library_calls=forbidden
# wins: no
# expect: rejected
# check: library_calls, own_kernel
# mechanism: the trace of dispatched calls, under the policy library_calls
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.run = torch.compile(lambda x: torch.relu(x) * 2 + 1)

    def forward(self, x):
        return self.run(x)
