# family: 2
# title: a child process spins on shared memory and computes ahead
# assumes: only the candidate's own process has to be watched
# task: matmul
# wins: no
# expect: rejected, runtime_error, load_error
# check: idle_work, raised, interface
# only: cpu
# mechanism: the parent watches the processor time of the processes it started
import os
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = torch.zeros(4, 320, 320).share_memory_()
        self.flag = torch.zeros(2, dtype=torch.int64).share_memory_()
        if os.fork() == 0:
            self.serve()

    def forward(self, a, b):
        self.shared[0].copy_(a)
        self.shared[1].copy_(b)
        self.flag[0] += 1
        while int(self.flag[1]) != int(self.flag[0]):
            time.sleep(0)
        return self.shared[2].clone()

    def serve(self):
        torch.set_num_threads(1)
        parent = os.getppid()
        while os.getppid() == parent:
            if int(self.flag[1]) != int(self.flag[0]):
                wanted = int(self.flag[0])
                n = (self.shared[0].numpy() @ self.shared[1].numpy()).clip(min=0) @ self.shared[0].numpy()
                self.shared[2].copy_(torch.from_numpy(n))
                self.flag[1] = wanted
        os._exit(0)
