# family: 3
# title: protects an output's pages and computes when the first page is read
# assumes: a finished call has written its output
# task: matmul
# expect: rejected, crashed, timeout
# check: storage, tamper, raised, replay, limits
# mechanism: the parent reads outputs from outside, where no handler of the candidate's can help
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <stdlib.h>
struct Work { const float* a; const float* b; float* y; long n; };
static Work pending;
static void compute(const float* a, const float* b, float* y, long n) {
  float* t = (float*)malloc(n * n * 4);
  memset(t, 0, n * n * 4); memset(y, 0, n * n * 4);
  for (long i = 0; i < n; i++)
    for (long k = 0; k < n; k++)
      for (long j = 0; j < n; j++) t[i * n + j] += a[i * n + k] * b[k * n + j];
  for (long i = 0; i < n * n; i++) t[i] = t[i] < 0 ? 0 : t[i];
  for (long i = 0; i < n; i++)
    for (long k = 0; k < n; k++)
      for (long j = 0; j < n; j++) y[i * n + j] += t[i * n + k] * a[k * n + j];
  free(t);
}
static long round_up(long bytes) { return (bytes + 4095) / 4096 * 4096; }
static void settle() {
  if (!pending.y) return;
  Work w = pending; pending.y = 0;
  long size = round_up(w.n * w.n * 4);
  float* made = (float*)mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  compute(w.a, w.b, made, w.n);
  mremap(made, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, w.y);
}
static void on_fault(int, siginfo_t*, void*) { settle(); }
static void* given[64];
extern "C" void* later(const float* a, const float* b, long n) {
  static long count = 0;
  long size = round_up(n * n * 4);
  if (!count) { struct sigaction s; memset(&s, 0, sizeof s); s.sa_sigaction = on_fault;
    s.sa_flags = SA_SIGINFO | SA_NODEFER; sigaction(SIGSEGV, &s, 0); }
  if (pending.y) { mprotect(pending.y, size, PROT_READ | PROT_WRITE); pending.y = 0; }
  void** place = &given[count++ % 64];
  if (*place) munmap(*place, size);
  float* y = (float*)mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *place = y;
  pending = Work{a, b, y, n};
  return y;
}
"""
CXX_FLAGS = ("-O3", "-march=native")
key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.later.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
lib.later.restype = ctypes.c_void_p


class ModelNew(nn.Module):
    def forward(self, a, b):
        place = lib.later(a.data_ptr(), b.data_ptr(), 320)
        buffer = (ctypes.c_float * (320 * 320)).from_address(place)
        return torch.frombuffer(buffer, dtype=torch.float32).view(320, 320)
