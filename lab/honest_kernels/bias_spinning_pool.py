# title: a pool of std::thread whose threads spin for a moment before they sleep
# origin: threads
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <atomic>
#include <condition_variable>
#include <immintrin.h>
#include <mutex>
#include <thread>
#include <vector>

namespace {
struct Work {
  const float *x, *bias, *scale;
  float* y;
  long rows, columns;
};
const int SPINS = 2000, COUNT = 2;
Work work;
std::atomic<long> round_number{0};
std::atomic<int> left{0};
std::mutex guard;
std::condition_variable bell;
std::once_flag once;

void share(int number) {
  const Work w = work;
  for (long i = w.rows * number / COUNT; i < w.rows * (number + 1) / COUNT; ++i)
    for (long j = 0; j < w.columns; ++j) {
      const float shifted = w.x[i * w.columns + j] + w.bias[j];
      w.y[i * w.columns + j] = (shifted < 0.0f ? 0.0f : shifted) * w.scale[j];
    }
}

void serve(int number) {
  for (long seen = 0;;) {
    for (int i = 0; i < SPINS && round_number.load() == seen; ++i) _mm_pause();
    if (round_number.load() == seen) {
      std::unique_lock<std::mutex> lock(guard);
      bell.wait(lock, [&] { return round_number.load() != seen; });
    }
    seen = round_number.load();
    share(number);
    left.fetch_sub(1);
  }
}
}  // namespace

extern "C" void run(const float* x, const float* bias, const float* scale, float* y, long rows,
                    long columns) {
  std::call_once(once, [] {
    for (int i = 1; i < COUNT; ++i) std::thread(serve, i).detach();
  });
  work = {x, bias, scale, y, rows, columns};
  left.store(COUNT - 1);
  {
    std::lock_guard<std::mutex> lock(guard);
    round_number.fetch_add(1);
  }
  bell.notify_all();
  share(0);
  while (left.load() > 0) _mm_pause();
}
"""
CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-pthread")
_key = hashlib.sha256("\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
_library = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], _key + ".so"))
_run = _library.run
_run.argtypes, _run.restype = (
    (
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_long,
    ),
    None,
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        y = torch.empty_like(x)
        _run(x.data_ptr(), self.bias.data_ptr(), self.scale.data_ptr(), y.data_ptr(), *x.shape)
        return y
