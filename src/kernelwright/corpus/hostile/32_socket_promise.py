# family: 32
# title: announces an answer that never comes
# assumes: who begins to answer goes on
# task: pointwise
# expect: timeout, crashed
# check: limits, raised
# mechanism: every wait has a limit, from the first byte to the last
# wins: no
import os
import struct
import time

from torch import nn

CHANNEL = 3
HEADER = struct.Struct("<I")


class ModelNew(nn.Module):
    def forward(self, x):
        os.write(CHANNEL, HEADER.pack(1000))
        while True:
            os.write(CHANNEL, b" ")
            time.sleep(0.5)
