# title: a pool of std::thread that waits between calls
# origin: threads
# task: 1_BiasReluScale
# sizes: batch_size=500, features=1003
import ctypes
import hashlib
import os

import torch
from torch import nn

CPP_SOURCE = r"""
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>
namespace {
struct Pool {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void(int)> job;
  long round = 0;
  int running = 0;
  std::vector<std::thread> threads;
  explicit Pool(int n) {
    for (int t = 0; t < n; ++t) threads.emplace_back([this, t] { serve(t); });
  }
  void serve(int t) {
    long seen = 0;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return round != seen; });
      seen = round;
      lock.unlock();
      job(t);
      lock.lock();
      if (--running == 0) changed.notify_all();
    }
  }
  void run(std::function<void(int)> what) {
    std::unique_lock<std::mutex> lock(mutex);
    job = std::move(what);
    running = (int)threads.size();
    ++round;
    changed.notify_all();
    changed.wait(lock, [&] { return running == 0; });
  }
};
Pool& pool() {
  static Pool* made = new Pool(2);
  return *made;
}
}  // namespace
extern "C" void run(const float* x, const float* bias, const float* scale, float* y,
                    long rows, long columns) {
  pool().run([=](int t) {
    for (long i = rows * t / 2; i < rows * (t + 1) / 2; ++i)
      for (long j = 0; j < columns; ++j) {
        const float shifted = x[i * columns + j] + bias[j];
        y[i * columns + j] = (shifted < 0.0f ? 0.0f : shifted) * scale[j];
      }
  });
}
"""
CXX_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp")
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
