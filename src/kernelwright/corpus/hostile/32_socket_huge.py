# family: 32
# title: answers with a message of 60 MB that is expensive to read
# assumes: answers are short
# task: pointwise
# expect: crashed, rejected, timeout
# check: raised, limits
# mechanism: nobody reads an answer that was not asked for; answers have a size limit
# wins: no
import os
import struct

import torch
from torch import nn

CHANNEL = 3
HEADER = struct.Struct("<I")


class ModelNew(nn.Module):
    def forward(self, x):
        os.write(CHANNEL, HEADER.pack(60_000_000))
        for _ in range(60):
            os.write(CHANNEL, b"[]," * 333_333)
        return torch.relu(x) * 2 + 1
