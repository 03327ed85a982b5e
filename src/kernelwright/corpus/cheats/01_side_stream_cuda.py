# family: 1
# title: works on a side stream that the current stream does not wait for
# assumes: events on the current stream see all work
# task: large_matmul
# target: cuda
# expect: rejected, incorrect_numerics
# check: timed_calls, replay, clock
# mechanism: the parent's clock waits for the whole device; outputs of timed calls are compared
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = None

    def forward(self, a, b):
        if self.side is None:
            self.side = torch.cuda.Stream()
        y = torch.empty_like(a)
        with torch.cuda.stream(self.side):
            torch.mm(torch.relu(a @ b), a, out=y)
        y.record_stream(self.side)
        return y
