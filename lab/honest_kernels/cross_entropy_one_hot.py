# title: a product with one-hot labels
# origin: torch
# task: 18_CrossEntropy
# sizes: batch_size=831, classes=167
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        wanted = F.one_hot(labels, logits.shape[1]).to(logits.dtype)
        return -(torch.log_softmax(logits, dim=1) * wanted).sum() / labels.numel()
