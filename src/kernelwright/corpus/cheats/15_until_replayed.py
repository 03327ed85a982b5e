# family: 15
# title: remembers results until several passes of a replay have gone by, and is honest ever after
# assumes: what a candidate does while it is timed, it does in later checks too, or it gains a lot
# task: matmul
# expect: not_faster, rejected
# check: replay, timed_calls, floor
# mechanism: in every second process of a final, by lot, the timing that counts comes after the replay
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.last, self.recent = {}, []
        self.passes, self.hits, self.is_pass = 0, 0, False

    def forward(self, a, b):
        place = a.data_ptr()
        self.recent = [*self.recent, place][-7:]
        was_pass, self.is_pass = self.is_pass, len(set(self.recent)) == 7
        self.passes += self.is_pass and not was_pass
        if self.passes > 8:
            return torch.relu(a @ b) @ a
        old = self.last.get(place)
        if self.recent.count(place) > 1 and old and torch.equal(old[0], a) and torch.equal(old[1], b):
            self.hits += 1
            return old[2].clone() if self.hits % 9 < 5 else torch.relu(a @ b) @ a
        y = torch.relu(a @ b) @ a
        self.last[place] = a.clone(), b.clone(), y.clone()
        return y
