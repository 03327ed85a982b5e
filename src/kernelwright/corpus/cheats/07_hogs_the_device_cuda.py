# family: 7
# title: keeps the device busy while it is not called, so that the reference is slow in its turn
# assumes: what runs on a device beside the reference is seen as processor time, or not at all
# task: large_matmul
# target: cuda
# expect: rejected
# check: clock, idle_work
# mechanism: the reference is timed once more when the candidate's process has ended
import threading
import time

import torch
from torch import nn

PAUSE_S = 0.001


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.last, self.thread = 0.0, None

    def forward(self, a, b):
        if self.thread is None:
            self.side = torch.cuda.Stream()
            self.thread = threading.Thread(target=self.hog, daemon=True)
            self.thread.start()
        y = torch.relu(a @ b) @ a
        self.last = time.perf_counter()
        return y

    def hog(self):
        while True:
            time.sleep(PAUSE_S / 4)
            if time.perf_counter() - self.last > PAUSE_S:
                with torch.cuda.stream(self.side):
                    torch.cuda._sleep(4_000_000)
