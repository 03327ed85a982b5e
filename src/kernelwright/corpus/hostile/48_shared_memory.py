# family: 48
# title: allocates shared memory of every kind and keeps it
# assumes: shared memory is counted
# task: pointwise
# expect: verified, runtime_error, crashed
# check: raised, limits
# mechanism: shared memory lies in the scratch of fixed size; calls that create it elsewhere are refused
# wins: no
import ctypes
import os

import torch
from torch import nn

LIMIT = 2 << 30
CHUNK = 64 << 20


def fill(descriptor, taken):
    while taken <= LIMIT:
        taken += os.write(descriptor, b"x" * CHUNK)
    return taken


def take_all():
    libc = ctypes.CDLL(None, use_errno=True)
    taken = 0
    makers = (
        lambda: os.memfd_create("filler"),
        lambda: os.open("/dev/shm/filler", os.O_CREAT | os.O_WRONLY),
        lambda: os.open("/tmp/filler", os.O_CREAT | os.O_WRONLY),
    )
    for make in makers:
        try:
            taken = fill(make(), taken)
        except OSError:
            continue
    for _ in range(64):
        if libc.shmget(0, ctypes.c_size_t(CHUNK), 0o1600) >= 0:
            taken += CHUNK
    if taken > LIMIT:
        raise RuntimeError(f"HARMED: took {taken >> 20} MiB of shared memory")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        take_all()

    def forward(self, x):
        return torch.relu(x) * 2 + 1
