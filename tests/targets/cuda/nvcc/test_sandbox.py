"""The referee's sandbox confines CUDA's compiler as it confines the C++ compiler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.settings import RefereeSettings
from kernelwright.targets.cuda.nvcc.build import compile_cubin, compile_shared, kernel_resources
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt, Product

COMPILER = find_cuda_compiler()
pytestmark = pytest.mark.skipif(isinstance(COMPILER, Absent) or COMPILER.kind != "nvcc", reason="needs nvcc")


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    found = Launcher(RefereeSettings(cache_dir=tmp_path_factory.mktemp("cache")))
    yield found
    found.close()


@pytest.mark.slow
def test_kernels_and_launchers_are_built_in_there(launcher: Launcher, tmp_path: Path) -> None:
    text = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 1; }'
    for build in (compile_cubin, compile_shared):
        built = build(text, "sm_90", tmp_path, run=launcher.run_compiler)
        assert isinstance(built, Product), built
        assert kernel_resources(built)["k"].spills == 0 and built.path.stat().st_size > 500


@pytest.mark.slow
def test_what_the_text_rule_misses_is_not_there_to_be_read(launcher: Launcher, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("int secret = 1;", encoding="utf-8")
    quoted = str(secret).replace("/", '" "/')
    text = f'__asm__(".inc" "bin \\"{quoted}\\"");\nextern "C" __global__ void k() {{}}'
    refused = compile_shared(text, "sm_90", tmp_path, run=launcher.run_compiler)
    assert isinstance(refused, NotBuilt) and refused.status is BuildStatus.REFUSED
    assert "secret" in refused.log and "int secret" not in refused.log
