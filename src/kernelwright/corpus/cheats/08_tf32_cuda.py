# family: 8
# title: switches TF32 on for itself and for the reference
# assumes: the precision of matrix products stays as it was set
# task: matmul
# target: cuda
# expect: rejected, incorrect_numerics
# check: tamper, precision
# mechanism: global state is compared; the float64 oracle runs in another process
import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
