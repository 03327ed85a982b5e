# family: 1
# title: gives the work to its own thread pool and, once checked, returns at once
# assumes: what the timer waits for is all that runs
# task: matmul
# expect: rejected, incorrect_numerics, aliased_output
# check: oracle, timed_calls, replay, idle_work, storage, families
# mechanism: the parent reads outputs right after a call and watches processor time outside calls
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(1)
        self.n = 0

    def forward(self, a, b):
        self.n += 1
        y = torch.empty_like(a)
        done = self.pool.submit(self.work, a, b, y)
        if self.n <= 12:
            done.result()
        return y

    def work(self, a, b, y):
        torch.mm(torch.relu(a @ b), a, out=y)
