# family: 32
# title: sends answers endlessly, before it is asked
# assumes: one question, one answer
# task: pointwise
# expect: crashed, rejected, timeout, incorrect_shape
# check: raised, limits, form, timed_calls
# mechanism: each command reads one answer; its content is checked, not believed
# wins: no
import os
import struct

from torch import nn

CHANNEL = 3
HEADER = struct.Struct("<I")


class ModelNew(nn.Module):
    def forward(self, x):
        answer = b'{"outputs": [], "is_tuple": false}'
        while True:
            os.write(CHANNEL, HEADER.pack(len(answer)) + answer)
