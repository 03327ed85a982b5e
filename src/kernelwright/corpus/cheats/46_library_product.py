# family: 46
# title: calls the library's matrix product and claims it as its own
# assumes: what is in the candidate's file is what computes
# task: matmul
# policy: library_calls=forbidden
# wins: no
# expect: rejected
# check: library_calls, own_kernel
# mechanism: the trace of dispatched calls, under the policy library_calls
import torch
from torch import nn

fast_gemm = getattr(torch.ops.aten, "m" + "m")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return fast_gemm(torch.relu(fast_gemm(a, b)), a)
