# title: a block for each row, a tree in shared memory
# origin: CUDA C++ by load_inline
# task: 7_RowSum
# target: cuda
from torch import nn
from torch.utils.cpp_extension import load_inline

_DECLARED = "torch::Tensor sum_of_squares(torch::Tensor x);"
_KERNELS = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

constexpr int THREADS = 256;

__global__ void sum_rows(const float* x, float* y, long columns) {
  __shared__ float parts[THREADS];
  const float* row = x + blockIdx.x * columns;
  float sum = 0.0f;
  for (long j = threadIdx.x; j < columns; j += THREADS) sum += row[j] * row[j];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0];
}

torch::Tensor sum_of_squares(torch::Tensor x) {
  auto rows = x.contiguous();
  auto y = torch::empty({rows.size(0), 1}, rows.options());
  sum_rows<<<rows.size(0), THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
      rows.data_ptr<float>(), y.data_ptr<float>(), rows.size(1));
  return y;
}
"""
_extension = load_inline(
    name="honest_rowsum", cpp_sources=_DECLARED, cuda_sources=_KERNELS, functions=["sum_of_squares"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return _extension.sum_of_squares(x)
