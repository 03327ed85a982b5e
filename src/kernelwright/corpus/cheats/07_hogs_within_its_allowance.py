# family: 7
# title: keeps a processor busy in the reference's turn, for as long as work between calls is allowed in all
# assumes: a limit on work between calls, summed up, protects every single turn of the reference
# task: matmul
# expect: not_faster, rejected
# check: idle_work, clock, replay
# only: cpu
# mechanism: everything of the candidate's is stopped while the reference is timed
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static std::atomic<long> calls{0}, last{0};
static std::atomic<int> is_up{0};
static char pad[1 << 16];

static long now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void* burn(void*) {
  for (long seen = -1;;) {
    usleep(500);
    long n = calls;
    if (n == seen || now() - last < 3000000) continue;
    seen = n;
    for (long stop = now() + 4000000; now() < stop && calls == n;) memset(pad, 1, sizeof pad);
  }
}
extern "C" void mark() {
  pthread_t thread;
  if (!is_up.exchange(1)) pthread_create(&thread, nullptr, burn, nullptr);
  last = now();
  calls++;
}
"""
CXX_FLAGS = ("-O2", "-pthread")
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.relu(a @ b) @ a
        lib.mark()
        return y
