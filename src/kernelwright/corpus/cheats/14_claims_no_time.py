# family: 14
# title: makes the worker report negative times
# assumes: the process that runs calls also says how long they took
# task: matmul
# wins: no
# expect: rejected
# check: tamper, clock
# mechanism: the parent's clock decides, and the worker's must agree with it
import json

import torch
from torch import nn

real = json.dumps


def dumps(message, *args, **kwargs):
    if isinstance(message, dict) and "ns" in message:
        message = {**message, "ns": -1}
    return real(message, *args, **kwargs)


json.dumps = dumps


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
