# family: 9
# title: declares its inputs persisting in the second-level cache
# assumes: writing to a large buffer empties the cache
# task: pointwise
# target: cuda
# expect: rejected, load_error
# check: tamper, replay, interface
# mechanism: persisting lines and limits are reset before every sample; unseen inputs must be as fast
# only: cuda
import ctypes

import torch
from torch import nn

LIMIT_PERSISTING_L2, MOST_PERSISTING_L2 = 6, 108


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        driver, most = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        torch.zeros(1, device="cuda")
        if driver.cuDeviceGetAttribute(ctypes.byref(most), MOST_PERSISTING_L2, 0) or not most.value:
            raise LookupError("this device sets no lines aside")
        code = driver.cuCtxSetLimit(LIMIT_PERSISTING_L2, ctypes.c_size_t(most.value))
        if code:
            raise LookupError(f"no lines can be set aside: error {code}")

    def forward(self, x):
        return torch.relu(x) * 2 + 1
