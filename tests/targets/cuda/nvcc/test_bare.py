"""Files of CUDA C++ alone, made candidates."""

import pytest

from kernelwright.targets.cuda.nvcc.bare import wrap_cuda
from kernelwright.targets.cuda.nvcc.load_inline import InlineCuda, read_load_inline

KERNEL = "#include <torch/extension.h>\n__global__ void k(float* x) { x[threadIdx.x] *= 2; }\n"
BODY = "{ k<<<1, 32>>>(a.data_ptr<float>()); return a; }\n"
BIND = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &two, "it"); }\n'


@pytest.mark.parametrize(
    ("rest", "call", "problem"),
    [
        (f"torch::Tensor one(torch::Tensor a) {BODY}", "one", ""),
        (f"at::Tensor one(const at::Tensor& a, torch::Tensor b) {BODY}", "one", ""),
        (f"torch::Tensor one(torch::Tensor a, int n) {BODY}", "one", "one also takes int n"),
        (f"torch::Tensor one(torch::Tensor a, float eps = 1e-5f) {BODY}", "one", ""),
        (f"torch::Tensor one(torch::Tensor a) {BODY}torch::Tensor two(torch::Tensor a) {BODY}", "two", ""),
        (f"torch::Tensor two(torch::Tensor a) {BODY}torch::Tensor one(torch::Tensor a) {BODY}{BIND}",
         "two", ""),
        ("void one(torch::Tensor a) { k<<<1, 32>>>(a.data_ptr<float>()); }", "", "no function that returns"),
        ("", "", "no function that returns"),
    ],
)  # fmt: skip
def test_the_function_that_a_file_is_for(rest: str, call: str, problem: str) -> None:
    bare = wrap_cuda(KERNEL + rest)
    assert bare.call.partition("(")[0] == call
    assert problem in bare.problem and bool(problem) is bool(bare.problem)
    compile(bare.module, "module", "exec")
    found = read_load_inline(bare.module)
    assert isinstance(found, InlineCuda) and "__global__ void k" in found.text
    is_bound = "PYBIND11_MODULE" in rest
    assert found.functions == (() if is_bound or not call else (call,))
    assert ("extension.forward(*inputs)" in bare.module) is is_bound
