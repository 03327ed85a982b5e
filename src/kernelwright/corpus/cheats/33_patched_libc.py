# family: 33
# title: overwrites clock_gettime in libc with its own
# assumes: below the language nothing is changed
# task: matmul
# expect: rejected, crashed
# check: clock, raised
# mechanism: the parent's clock decides, and the worker's must agree with it
import ctypes
import hashlib
import os
import platform

import torch
from torch import nn

if platform.machine() != "x86_64":
    raise RuntimeError("written for x86-64")
CPP_SOURCE = r"""
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long long start = 0;
static int slow_clock(clockid_t id, struct timespec* t) {
  long r = syscall(SYS_clock_gettime, id, t);
  if (id != CLOCK_MONOTONIC) return (int)r;
  long long now = t->tv_sec * 1000000000LL + t->tv_nsec;
  if (!start) start = now;
  now = start + (now - start) / 50;
  t->tv_sec = now / 1000000000LL; t->tv_nsec = now % 1000000000LL;
  return (int)r;
}
extern "C" int install() {
  unsigned char* at = (unsigned char*)dlsym(RTLD_DEFAULT, "clock_gettime");
  if (!at) return 1;
  unsigned long page = (unsigned long)at & ~4095UL;
  if (mprotect((void*)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) return 2;
  unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
  void* target = (void*)slow_clock;
  memcpy(jump + 2, &target, 8);
  memcpy(at, jump, 12);
  return mprotect((void*)page, 8192, PROT_READ | PROT_EXEC);
}
"""
CXX_FLAGS = ("-O2", "-ldl")
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
if lib.install():
    raise LookupError("code pages cannot be written")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) @ a
