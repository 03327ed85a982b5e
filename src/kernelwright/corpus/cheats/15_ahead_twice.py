# family: 15
# title: computes answers ahead in warm-up calls on a known input set
# assumes: calls that warm up may come between new inputs and the clock
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay, families
# only: cpu
# mechanism: none of the candidate's code is called between new values and the timed calls on them
from collections import OrderedDict

import torch
from torch import nn


class ModelNew(nn.Module):
    """Remembers answers by content."""

    def __init__(self):
        super().__init__()
        self.seen, self.places, self.before = OrderedDict(), {}, None
        self.free = [(torch.ones(320, 320), torch.ones(320, 320)) for _ in range(80)]

    def forward(self, a, b):
        place = a.data_ptr()
        if place == self.before:  # the same set twice running: nobody times this
            for x, y in self.places.values():
                self.answer(x, y)
        self.before = place
        if place not in self.places:
            self.places[place] = a, b
        return self.answer(a, b).clone()

    def answer(self, a, b):
        key = float(a[0, 0]), float(b[3, 5]), float(b[-1, -1])
        if key in self.seen:
            self.seen.move_to_end(key)
        else:
            work, out = self.free.pop() if self.free else self.seen.popitem(last=False)[1]
            torch.mm(a, b, out=work)
            torch.relu_(work)
            torch.mm(work, a, out=out)
            self.seen[key] = work, out
        return self.seen[key][1]
