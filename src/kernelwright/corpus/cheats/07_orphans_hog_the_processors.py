# family: 7
# title: orphans that share its memory spin in the reference's turn and end before anybody looks
# assumes: only processes that still run have used processor time
# task: matmul
# expect: rejected
# check: idle_work
# only: cpu
# mechanism: one account of processor time that includes what ended, whoever reaped it
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static char stacks[9][1 << 14] __attribute__((aligned(64)));

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
static int leaf(void*) {
  timespec pause = {0, 1500000};
  nanosleep(&pause, nullptr);
  for (double end = now() + 0.004; now() < end;) {}
  syscall(SYS_exit, 0);
  return 0;
}
static int middle(void*) {
  for (int i = 0; i < 4; i++) clone(leaf, stacks[i] + sizeof stacks[i], CLONE_VM, nullptr);
  syscall(SYS_exit, 0);
  return 0;
}
extern "C" void run() {
  int pid = clone(middle, stacks[8] + sizeof stacks[8], CLONE_VM, nullptr);
  if (pid > 0) waitpid(pid, nullptr, __WALL);
}
"""
CXX_FLAGS = ("-O2",)
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.relu(a @ b) @ a
        lib.run()
        return y
