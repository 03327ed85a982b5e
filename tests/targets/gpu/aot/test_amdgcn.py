"""AMD's assembly. The sample is real: Triton 3.7.1 for gfx942, without directives and debug lines; the
spilling kernel's metadata is written by hand after the same form."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.targets.gpu.aot.amdgcn import parse_amd_metadata, parse_amdgcn
from kernelwright.targets.gpu.aot.mix import mix_facts
from kernelwright.targets.gpu.aot.resources import resource_facts
from kernelwright.targets.gpu.limits import ARCHITECTURES

SAMPLE = (Path(__file__).parent / "samples" / "gfx942.s").read_text(encoding="utf-8")
SPILLING = """
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     256
    .group_segment_fixed_size: 32768
    .name:           big
    .private_segment_fixed_size: 1456
    .sgpr_count:     48
    .vgpr_count:     512
    .vgpr_spill_count: 951
  - .name:           plain
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .vgpr_count:     24
    .vgpr_spill_count: 0
...
	.end_amdgpu_metadata
; Occupancy: 1
"""


def test_metadata_tells_registers_and_agrees_with_our_occupancy() -> None:
    found = parse_amd_metadata(SAMPLE)["mm"]
    assert (found.registers, found.scalar_registers, found.spills, found.local_bytes) == (74, 22, 0, 0)
    assert found.reported_waves == 6
    facts = resource_facts(found, ARCHITECTURES["gfx942"], block_threads=64)
    assert facts["aot.resident_blocks"] == 4 * found.reported_waves


def test_spills_and_scratch_are_found_by_kernel() -> None:
    found = parse_amd_metadata(SPILLING)
    big = found["big"]
    assert (big.spills, big.local_bytes, big.static_shared_bytes) == (951, 1456, 32768)
    assert found["plain"].registers == 24
    assert big.reported_waves is None  # one remark, two kernels


def test_instructions_tell_mfma_and_widths() -> None:
    mix = parse_amdgcn(SAMPLE)["mm"]
    assert mix.count("matrix") > 0
    assert set(mix.load_widths) == {16}
    assert mix.count("special") > 0 and mix.count("shared") > 0
    assert mix_facts(mix)["aot.load_bytes"] == 16.0


def test_kinds_of_single_instructions() -> None:
    lines = {
        "global_load_dwordx4 v[0:3], v[4:5], off": "global_load",
        "buffer_load_dword v0, s[0:3], 0 offen lds": "async_copy",
        "buffer_load_ushort v1, v2, s[0:3], 0 offen": "global_load",
        "global_store_short v[0:1], v2, off": "global_store",
        "ds_read_b128 v[0:3], v4": "shared",
        "ds_bpermute_b32 v0, v1, v2": "shuffle",
        "v_add_f32_dpp v0, v1, v2 row_shr:1": "shuffle",
        "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]": "matrix",
        "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]": "fma",
        "v_exp_f32_e32 v0, v1": "special",
        "global_atomic_add_f32 v0, v1, s[0:1]": "atomic",
        "scratch_store_dwordx4 off, v[0:3], off offset:16": "local",
        "s_barrier": "barrier",
        "s_cbranch_scc1 .LBB0_2": "branch",
        "s_waitcnt vmcnt(0)": "other",
    }
    for line, kind in lines.items():
        mix = parse_amdgcn(f"k:\n\t{line}\n.Lfunc_end0:\n")["k"]
        assert mix.counts == {kind: 1}, line
    narrow = "buffer_load_ushort v1, v2, s[0:3], 0 offen\n\tglobal_store_byte v[0:1], v2, off"
    mix = parse_amdgcn(f"k:\n\t{narrow}\n.Lfunc_end0:\n")["k"]
    assert (mix.load_widths, mix.store_widths) == ({2: 1}, {1: 1})


@given(st.text(alphabet="v_fma s.amdgpu_metadata:-{}[]\n\t;end", max_size=300))
def test_other_text_is_no_error(text: str) -> None:
    parse_amdgcn(text)
    parse_amd_metadata(text)
    parse_amd_metadata(f"\t.amdgpu_metadata\n{text}\n\t.end_amdgpu_metadata\n")
