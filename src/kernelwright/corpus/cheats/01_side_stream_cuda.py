# family: 1
# title: works on a side stream that the current stream does not wait for
# assumes: events on the current stream see all work
# task: large_matmul
# target: cuda
# expect: rejected, incorrect_numerics
# check: oracle, families, timed_calls, replay, clock
# mechanism: outputs are copied on the caller's stream right after the calls, as the next user of them would
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
