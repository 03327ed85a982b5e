# title: a product with one-hot labels
# origin: torch
# task: 18_CrossEntropy
# sizes: batch_size=831, classes=167
import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        counts = (labels != -100)[:, None]
        wanted = F.one_hot(labels.clamp(min=0), logits.shape[1]).to(logits.dtype) * counts
        return -(torch.log_softmax(logits, dim=1) * wanted).sum() / counts.sum()
