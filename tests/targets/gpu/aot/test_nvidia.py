"""NVIDIA's reports. The samples are real: nvcc 13.0 and cuobjdump for sm_80, without encodings and times."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.evidence import METRICS
from kernelwright.targets.gpu.aot.mix import mix_facts
from kernelwright.targets.gpu.aot.ptxas import parse_ptxas, parse_resource_usage
from kernelwright.targets.gpu.aot.resources import KernelResources, resource_facts
from kernelwright.targets.gpu.aot.sass import parse_sass
from kernelwright.targets.gpu.limits import ARCHITECTURES

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def test_ptxas_tells_registers_spills_and_shared_memory() -> None:
    found = parse_ptxas(sample("ptxas.txt"))
    assert set(found) == {"wmma_tile", "spills", "row_sum"}
    assert found["spills"] == KernelResources(
        kernel="spills", registers=32, spills=75, local_bytes=160, static_shared_bytes=0, barriers=0
    )
    assert (found["row_sum"].static_shared_bytes, found["row_sum"].barriers) == (16, 1)


def test_cuobjdump_agrees_with_ptxas_and_knows_no_spills() -> None:
    from_ptxas = parse_ptxas(sample("ptxas.txt"))
    from_dump = parse_resource_usage(sample("resource_usage.txt"))
    assert from_dump.keys() == from_ptxas.keys()
    for name, resources in from_dump.items():
        assert resources.registers == from_ptxas[name].registers
        assert resources.local_bytes == from_ptxas[name].local_bytes
        assert resources.static_shared_bytes == from_ptxas[name].static_shared_bytes
        assert resources.spills is None


def test_sass_tells_tensor_cores_widths_and_shuffles() -> None:
    found = parse_sass(sample("sm_80.sass"))
    tile, rows = found["wmma_tile"], found["row_sum"]
    assert (tile.count("matrix"), tile.load_widths, tile.store_widths) == (2, {4: 8}, {8: 4})
    assert tile.total == 28  # the jump to itself and the NOPs behind EXIT are padding
    assert set(rows.load_widths) == {16}
    assert (rows.count("shuffle"), rows.count("barrier"), rows.count("matrix")) == (5, 1, 0)
    assert rows.count("shared") > 0


def test_nvdisasm_s_form_is_read_too() -> None:
    text = (
        ".text.k:\n"
        "        /*0000*/                   LDG.E.128.CONSTANT R4, [R2.64] ;\n"
        "        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R5], [R2.64] ;\n"
        "        /*0020*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24 ;\n"
        "        /*0030*/                   UTCHMMA gdesc[UR4], tmem[UR6], idesc[UR8] ;\n"
        "        /*0040*/              @P1  BRA `(.L_x_1) ;\n"
        "        /*0050*/                   HFMA2.MMA R3, -RZ, RZ, 0, 2.384185791015625e-07 ;\n"
        "        /*0060*/                   MUFU.EX2 R0, R1 ;\n"
        "        /*0070*/                   EXIT ;\n"
    )
    mix = parse_sass(text)["k"]
    assert mix.counts == {
        "async_copy": 1, "branch": 1, "global_load": 1, "matrix": 2, "other": 2, "special": 1,
    }  # fmt: skip
    assert mix.load_widths == {16: 1}


def test_facts_speak_the_vocabulary_of_the_evidence() -> None:
    mix = mix_facts(parse_sass(sample("sm_80.sass"))["row_sum"])
    resources = parse_ptxas(sample("ptxas.txt"))["row_sum"]
    facts = resource_facts(resources, ARCHITECTURES["sm_80"], block_threads=128, dynamic_shared_bytes=1024)
    assert set(mix) | set(facts) <= set(METRICS)
    assert mix["aot.load_bytes"] == 16.0
    assert facts["aot.shared_bytes"] == 1040
    assert facts["aot.occupancy"] == 1.0


@given(st.text(alphabet="LDG.E R4,[]/*0123abc@!P;\n FunctionREG:=", max_size=300))
def test_other_text_is_no_error(text: str) -> None:
    parse_ptxas(text)
    parse_resource_usage(text)
    parse_sass(text)
