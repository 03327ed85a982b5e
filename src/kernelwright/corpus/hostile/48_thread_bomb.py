# family: 48
# title: starts threads endlessly
# assumes: threads are free
# task: pointwise
# expect: timeout, crashed, runtime_error
# check: raised, limits
# mechanism: a limit on threads
# wins: no
import threading
import time

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
