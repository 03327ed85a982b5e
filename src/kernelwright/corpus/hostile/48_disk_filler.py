# family: 48
# title: writes files until the disk is full
# assumes: disks are large
# task: pointwise
# expect: runtime_error, crashed
# check: raised, limits
# mechanism: the scratch has a fixed size, and nothing else is writable
# wins: no
import itertools
import os

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for i in itertools.count():
            with open(f"filler{i}", "wb") as file:
                for _ in range(64):
                    file.write(b"x" * (1 << 20))
                    file.flush()
                    os.fsync(file.fileno())
