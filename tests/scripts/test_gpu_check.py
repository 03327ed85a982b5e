"""The GPU check as a program: deadlines, resuming, failures; parts are stubs, machines are made up.

Stubs are labelled: ``stub(...)`` stands in for a command that would need a device.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpucheck import machine as machine_module
from gpucheck import parts as parts_module
from gpucheck.machine import Machine, look
from gpucheck.main import main
from gpucheck.pack import ABOUT, PackError, environment_with, pack, requirements
from gpucheck.parts import PARTS, Part, Place, Skip, find_kernelbench, gpu_tests, problems
from gpucheck.profile_slowest import main as profile_slowest
from gpucheck.profile_slowest import slowest
from gpucheck.results import Result, State, load, save
from gpucheck.running import run
from gpucheck.sources import compile_sources
from gpucheck.start import main as start
from tests.marks import mostly_slow

from kernelwright.core.errors import MachineError
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings
from kernelwright.settings import load_settings
from kernelwright.store.sqlstore import open_store
from kernelwright.targets.gpu.profilers.profile import Profiled

ROOT = Path(__file__).parents[2]
H200: dict[str, Any] = {
    "name": "NVIDIA H200", "capability": "9.0", "architecture": None, "units": 132, "memory_bytes": 141 << 30,
}  # fmt: skip
MACHINE = Machine(vendor="cuda", devices=[H200], driver="570.1", versions={"torch": "9.9", "triton": "8.8"})
CACHE = load_settings().cache_dir
"""This machine's: its peaks need not be measured again."""
ROWS: list[dict[str, Any]] = [
    {
        "task": "27_Softmax", "ending": "faster", "speedup_eager": None, "speedup_compile": None,
        "floor_fraction": None, "eager_ms": 0.2, "delivered_ms": 0.1, "run_id": "r1", "detail": "",
    },
    {"task": "1_BiasReluScale", "ending": "unchanged"},
]  # fmt: skip
JUNIT = (
    '<testsuites><testsuite tests="3" failures="1" errors="0" skipped="1">'
    '<testcase classname="a" name="good"/><testcase classname="a" name="bad"><failure/></testcase>'
    "</testsuite></testsuites>"
)


def stub(name: str, script: str, share: float = 1.0, *, needs_verdicts: bool = False) -> Part:
    """A part whose command is a script, in place of one that needs a device."""

    def make(place: Place, seconds: float) -> list[str]:
        prelude = f"import sys, time, pathlib; out = pathlib.Path({str(place.out / name)!r})\n"
        return [sys.executable, "-c", prelude + script]

    return Part(name, f"Stub of {name}", share, make, needs_verdicts=needs_verdicts)


def check(out: Path, *parts: Part, more: tuple[str, ...] = (), seconds: float = 120.0) -> int:
    return main(
        ["--out", str(out), "--seconds", str(seconds), *more], parts=parts, look=lambda environment: MACHINE
    )


def document(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "gpu-check.json").read_text())
    return found


def states(out: Path) -> dict[str, str]:
    return {part["name"]: part["state"] for part in document(out)["parts"]}


def test_a_part_that_fails_is_recorded_with_its_last_lines_and_the_rest_goes_on(tmp_path: Path) -> None:
    broken = stub("cheats", "print('first'); print('no such option'); sys.exit(2)")
    code = check(tmp_path, broken, stub("suite", "print('fine')"))
    assert code == 1 and states(tmp_path) == {"cheats": "failed", "suite": "done"}
    failed = document(tmp_path)["parts"][0]
    assert failed["exit_code"] == 2 and failed["last_lines"] == ["first", "no such option"]
    text = (tmp_path / "gpu-check.md").read_text()
    assert "exit code 2" in text and "    no such option" in text
    assert "NVIDIA H200 (132 units, 141 GiB); driver 570.1; torch 9.9; triton 8.8" in text


def test_a_fault_of_the_machine_is_named_and_what_it_makes_pointless_is_left_out(tmp_path: Path) -> None:
    steps = [{"name": "device cuda", "ok": False, "detail": "not to be had", "seconds": 2.0}]
    found = json.dumps({"tier": None, "fault": "device cuda: not to be had", "steps": steps})
    start = stub("start", f"(out / 'start.json').write_text({found!r}); sys.exit(3)")
    suite = stub("suite", "(out / 'count').write_text('x')", needs_verdicts=True)
    assert check(tmp_path, start, stub("tests", "pass"), suite) == 1
    assert states(tmp_path) == {"start": "failed", "tests": "done", "suite": "skipped"}
    assert document(tmp_path)["parts"][0]["detail"] == "device cuda: not to be had"
    assert "nothing can be judged here: device cuda" in (tmp_path / "gpu-check.md").read_text()
    assert not (tmp_path / "suite" / "count").exists()


@pytest.mark.slow
def test_the_first_part_names_the_fault_and_tries_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The referee is a stub: one that finds no device."""

    def refuse(settings: RefereeSettings) -> Referee:
        raise MachineError(f"not to be had in {settings.sandbox}")

    monkeypatch.setattr("gpucheck.start.Referee", refuse)
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(CACHE))
    assert start([str(tmp_path), "cuda", "triton"]) == 3
    found = json.loads((tmp_path / "start" / "start.json").read_text())
    assert found["fault"] == "device cuda: not to be had in None"
    assert [step["ok"] for step in found["steps"]] == [False, False, True]
    assert found["steps"][1]["detail"] == "not to be had in none"


ABSENT = (
    "anyio", "genai_prices", "httpx", "httpx2", "mypy", "openai", "playwright", "pydantic_ai", "ruff",
    "starlette", "uvicorn", "xdist",
)  # fmt: skip
"""What a developer has and ``--pack`` does not bring."""
WITHOUT = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""


@pytest.mark.slow
def test_the_tests_for_a_gpu_are_found_with_no_more_than_what_is_packed(tmp_path: Path) -> None:
    (tmp_path / "without.py").write_text(WITHOUT)
    place = Place(ROOT, tmp_path, "cuda/triton", None, {})
    command = [str(word) for word in PARTS[1].make(place, 100.0)]  # type: ignore[union-attr]
    assert gpu_tests(ROOT) and command[1:3] == ["-m", "pytest"]
    environment = environment_with(None, ROOT, tmp_path)
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    collect = [*command[:3], "-p", "without", "--collect-only", *command[3:]]
    ran = run(collect, tmp_path / "log", 300.0, environment)
    assert ran.code == 0, ran.last_lines
    assert "test_placement.py::" in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_the_first_part_judges_what_is_right_with_no_more_than_what_is_packed(tmp_path: Path) -> None:
    """Really, on the stand-in device; the modules of the other commands are loaded, too."""
    (tmp_path / "without.py").write_text(WITHOUT)
    environment = {**environment_with(None, ROOT, tmp_path), "KERNELWRIGHT_CACHE": str(CACHE)}
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    script = (
        "import sys, without, kernelwright.api, kernelwright.cli.main\n"
        "import gpucheck.profile_slowest, gpucheck.start\n"
        "import lab.benchmarks.honest, lab.benchmarks.noise\n"
        f"raise SystemExit(gpucheck.start.main([{str(tmp_path)!r}, 'copied', 'torch']))"
    )
    ran = run([sys.executable, "-c", script], tmp_path / "log", 600.0, environment)
    assert ran.code == 0, ran.last_lines
    found = json.loads((tmp_path / "start" / "start.json").read_text())
    said = {step["name"]: step["detail"] for step in found["steps"]}
    assert found["tier"] in said["sandbox"] and not found["fault"]
    assert said["a right kernel of torch's"].startswith("verified, ")


def test_what_a_command_found_is_in_both_files(tmp_path: Path) -> None:
    code = check(tmp_path, stub("tests", f"(out / 'junit.xml').write_text({JUNIT!r}); sys.exit(1)"))
    assert code == 1 and states(tmp_path) == {"tests": "negative"}
    assert document(tmp_path)["parts"][0]["figures"]["failing"] == ["a::bad"]
    text = (tmp_path / "gpu-check.md").read_text()
    assert "3 tests, 1 failing, 1 skipped" in text and "- a::bad" in text
    assert document(tmp_path)["machine"]["versions"]["torch"] == "9.9"


def test_a_bench_that_was_stopped_is_late_and_its_rows_are_shown(tmp_path: Path) -> None:
    row = {
        "task": "7_RowSum", "ending": "faster", "speedup_eager": {"ratio": 2.0, "low": 1.9, "high": 2.1},
        "speedup_compile": None, "floor_fraction": 0.5, "eager_ms": 0.2, "delivered_ms": 0.1, "run_id": "r1",
        "detail": "",
    }  # fmt: skip
    summary = {
        "n_success": 1,
        "n_tasks": 1,
        "n_faster": 1,
        "eager": {"geomean": 2.0, "low": 2.0, "high": 2.0},
    }
    results = json.dumps({"rows": [row], "summaries": [summary], "left": ["8_ColumnMax"]})
    code = check(tmp_path, stub("suite", f"(out / 'results.json').write_text({results!r})"))
    assert code == 1 and states(tmp_path) == {"suite": "late"}
    text = (tmp_path / "gpu-check.md").read_text()
    assert "| 7_RowSum | faster | 0.2 | 0.1 | 2.00x [1.90, 2.10] |  | 50% |" in text
    assert "1 of 1 right, 1 faster, geomean over eager 2.00x [2.00, 2.00], 1 not begun" in text


def test_something_wrong_does_not_end_what_has_more_to_do(tmp_path: Path) -> None:
    """One failing task, and four that were not begun; then none is left."""
    nothing = ("eager_ms", "delivered_ms", "speedup_eager", "speedup_compile", "floor_fraction")
    row = {"task": "1_BiasReluScale", "ending": "failed", "detail": "it crashed", **dict.fromkeys(nothing)}

    def part(*left: str) -> Part:
        results = json.dumps({"rows": [row], "summaries": [], "left": left})
        return stub("suite", f"(out / 'results.json').write_text({results!r}); sys.exit(1)")

    assert check(tmp_path, part(*"abcd")) == 1 and states(tmp_path) == {"suite": "late"}
    (found,) = document(tmp_path)["parts"]
    assert found["detail"] == "it found something wrong, and 4 were not begun; go on with --resume"
    assert check(tmp_path, part(), more=("--resume",)) == 1 and states(tmp_path) == {"suite": "negative"}


def test_a_fault_while_a_benchmark_is_gone_on_with_is_no_finding(tmp_path: Path) -> None:
    """It ends with 2, what it had found before still lies there."""
    noise = json.dumps({"n_trials": 2, "left": 3, "shares": {}})
    first = stub("noise", f"(out / 'noise.json').write_text({noise!r})")
    check(tmp_path, Part("noise", "Stub", 1.0, first.make, carries_on=True))
    again = stub("noise", "print('noise: no device'); sys.exit(2)")
    check(tmp_path, Part("noise", "Stub", 1.0, again.make, carries_on=True), more=("--resume",))
    (found,) = document(tmp_path)["parts"]
    assert (found["state"], found["figures"]["judged"]) == ("failed", 2)
    assert found["last_lines"] == ["noise: no device"]


def test_geomeans_over_every_baseline_are_in_both_files(tmp_path: Path) -> None:
    over = {"n": 3, "geomean": 1.5, "low": 1.2, "high": 1.9}
    row = {**ROWS[0], "speedups": {"torch_compile_max_autotune": {"ratio": 1.5, "low": 1.4, "high": 1.6}}}
    summary = {
        "n_success": 3, "n_tasks": 3, "n_faster": 3, "eager": {**over, "geomean": 2.5}, "compiled": None,
        "over": {"torch_compile_max_autotune": over},
    }  # fmt: skip
    results = json.dumps({"rows": [row], "summaries": [summary], "left": []})
    check(tmp_path, stub("finals", f"(out / 'results.json').write_text({results!r})"))
    text = (tmp_path / "gpu-check.md").read_text()
    assert "geomean over eager 2.50x [1.20, 1.90], geomean over torch_compile_max_autotune 1.50x" in text
    assert "| over torch_compile_max_autotune |" in text and "| 1.50x [1.40, 1.60] |" in text


def test_a_part_that_carries_on_finds_what_it_had_left(tmp_path: Path) -> None:
    count = "(out / 'audit.json').exists() or (out / 'audit.json').write_text('{}'); sys.exit(2)"
    part = Part("cheats", "Stub", 1.0, stub("cheats", count).make, carries_on=True)
    check(tmp_path, part)
    (tmp_path / "cheats" / "audit.json").write_text("kept")
    check(tmp_path, part, more=("--resume",))
    assert (tmp_path / "cheats" / "audit.json").read_text() == "kept"
    check(tmp_path, part, more=("--resume", "--again"))
    assert (tmp_path / "cheats" / "audit.json").read_text() == "{}"


def test_cheats_that_nobody_judged_are_no_success(tmp_path: Path) -> None:
    finding = {"name": "19_graph_cuda", "outcome": "needs a device", "check": None, "as_expected": True}
    audit = json.dumps({"ok": True, "findings": [finding]})
    assert check(tmp_path, stub("cheats", f"(out / 'audit.json').write_text({audit!r})")) == 1
    assert states(tmp_path) == {"cheats": "skipped"}
    assert "0 of 0 judged ended as they must, of 1" in (tmp_path / "gpu-check.md").read_text()


def test_resuming_repeats_only_what_has_not_ended(tmp_path: Path) -> None:
    count = "(out / 'count').open('a').write('x')\n"
    good, bad = stub("suite", count), stub("cheats", count + "sys.exit(2)")
    check(tmp_path, good, bad)
    assert check(tmp_path, good, bad) == 2, "a folder with results is not overwritten unasked"
    check(tmp_path, good, bad, more=("--resume",))
    assert ((tmp_path / "suite/count").read_text(), (tmp_path / "cheats/count").read_text()) == ("x", "xx")
    check(tmp_path, good, bad, more=("--resume", "--again", "--parts", "suite"))
    assert ((tmp_path / "suite/count").read_text(), (tmp_path / "cheats/count").read_text()) == ("xx", "xx")
    assert states(tmp_path) == {"suite": "done", "cheats": "failed"}


def test_what_an_earlier_command_left_is_not_taken_for_the_next_ones(tmp_path: Path) -> None:
    check(tmp_path, stub("tests", f"(out / 'junit.xml').write_text({JUNIT!r}); sys.exit(2)"))
    check(tmp_path, stub("tests", "sys.exit(1)"), more=("--resume",))
    assert states(tmp_path) == {"tests": "failed"} and document(tmp_path)["parts"][0]["figures"] == {}


def test_a_result_half_written_counts_as_none(tmp_path: Path) -> None:
    check(tmp_path, stub("suite", "pass"))
    (tmp_path / "suite" / "result.json").write_text('{"name": "sui')
    assert load(tmp_path, "suite") is None
    assert check(tmp_path, stub("suite", "pass")) == 0


def test_time_that_is_up_ends_a_part_and_all_that_it_started(tmp_path: Path) -> None:
    script = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', %r]); time.sleep(60)"
    grandchild = f"import time; time.sleep(60)  # {tmp_path}"
    ran = run([sys.executable, "-c", script % grandchild], tmp_path / "log", 1.0, grace_s=0.5)
    assert ran.code is None
    time.sleep(0.2)
    alive = [p for p in Path("/proc").glob("[0-9]*/cmdline") if f"# {tmp_path}" in _read(p)]
    assert not alive


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "inherited", mostly_slow([signal.default_int_handler, signal.SIG_IGN], signal.SIG_IGN)
)
def test_what_is_interrupted_has_a_moment_to_write_what_it_has(tmp_path: Path, inherited: Any) -> None:
    """Also where the check runs in the background of a script, whose jobs inherit that SIGINT is ignored."""
    script = (
        "import pathlib, time\ntry:\n    time.sleep(60)\n"
        f"except KeyboardInterrupt:\n    pathlib.Path({str(tmp_path / 'kept')!r}).write_text('x')"
    )
    before = signal.signal(signal.SIGINT, inherited)
    try:
        ran = run([sys.executable, "-c", script], tmp_path / "log", 4.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ran.code is None and (tmp_path / "kept").read_text() == "x"


def test_without_time_nothing_is_begun(tmp_path: Path) -> None:
    code = check(tmp_path, stub("suite", "(out / 'count').write_text('x')"), seconds=6.0)
    assert code == 1 and states(tmp_path) == {"suite": "late"}
    assert not (tmp_path / "suite" / "count").exists()


def test_a_command_that_is_not_there_has_failed(tmp_path: Path) -> None:
    missing = Part("suite", "Stub", 1.0, lambda place, seconds: [str(tmp_path / "nothing")])
    assert check(tmp_path, missing) == 1 and states(tmp_path) == {"suite": "failed"}
    assert "cannot be started" in document(tmp_path)["parts"][0]["last_lines"][0]


def test_a_part_that_cannot_be_done_says_why(tmp_path: Path) -> None:
    assert check(tmp_path, Part("kernelbench", "Stub", 1.0, lambda place, seconds: Skip("no problems"))) == 1
    assert "| Stub | skipped | 0 | no problems |" in (tmp_path / "gpu-check.md").read_text()


def test_a_part_that_is_unknown_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, stub("suite", "pass"), more=("--parts", "siute")) == 2
    assert "no such part: siute; there are: suite" in capsys.readouterr().err


def test_a_machine_without_a_device_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """Really: the program itself, with the torch that is here."""
    environment = environment_with(None, ROOT, tmp_path)
    if look(environment).devices:
        pytest.skip("there is a device")
    done = subprocess.run(
        [ROOT / "scripts" / "gpu-check", "--out", str(tmp_path / "o")],
        capture_output=True, text=True, timeout=300, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: nothing to check: ") and not (tmp_path / "o").exists()


def test_what_was_installed_without_compiled_sources_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare" / "inner").mkdir(parents=True)
    for file in ("__init__.py", "inner/__init__.py", "inner/wrong.py"):
        (tmp_path / "bare" / file).write_text("1 +" if "wrong" in file else "x = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(2):
        compile_sources(["bare", "there_is_no_such_package", "json"])
    compiled = sorted(file.parent.parent.name for file in (tmp_path / "bare").rglob("*.pyc"))
    assert compiled == ["bare", "inner"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("print('no json')", "ended without an answer"),
        ("raise SystemExit(1)", "ended without an answer"),
        (
            "import json; print('words'); print(json.dumps(dict(versions={}, missing=['yaml'], devices=[{}],"
            " vendor='hip', problem='')))",
            "packages are missing: yaml; see --pack",
        ),
    ],
)
def test_whatever_the_probe_says_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, says: str
) -> None:
    monkeypatch.setattr(machine_module, "__file__", str(tmp_path / "machine.py"))
    (tmp_path / "probe.py").write_text(answer)
    found = look({})
    assert says in found.problem and "\n" not in found.problem


def test_the_real_parts_are_our_commands(tmp_path: Path) -> None:
    levels = tmp_path / "KernelBench" / "level1"
    levels.mkdir(parents=True)
    (levels / "1_A.py").touch()
    place = Place(ROOT, tmp_path / "o", "hip/triton", find_kernelbench(tmp_path, tmp_path), {}, "python")
    save(place.out, Result("suite", "Stub", State.LATE, figures={"rows": ROWS}))
    made = {part.name: [str(word) for word in part.make(place, 100.0)] for part in PARTS}  # type: ignore[union-attr]
    assert list(made) == [
        "start", "tests", "cheats", "honest", "suite", "kernelbench", "finals", "profile", "noise"
    ]  # fmt: skip
    assert sum(part.share for part in PARTS) == 100
    assert made["start"][2:] == ["gpucheck.start", str(tmp_path / "o"), "hip", "triton"]
    assert made["tests"][:5] == ["python", "-m", "pytest", "-m", "gpu"]
    assert made["cheats"][3:6] == ["audit", "--device", "hip"] and "--resume" in made["cheats"]
    for name, stop in (("suite", "70"), ("kernelbench", "70"), ("finals", "25")):
        words = made[name]
        assert words[words.index("--target") + 1] == "hip/triton" and "--name" in words
        assert words[words.index("--stop-after") + 1] == stop
        options = [words.count(option) for option in ("--quick", "--no-profile", "--baseline")]
        assert options == ([1, 0, 0] if stop == "70" else [0, 1, 4])
    assert [Path(word).name for word in made["finals"] if word.endswith(".py")] == ["27_Softmax.py"]
    assert sum(word.endswith(".py") for word in made["suite"]) == 55
    assert made["kernelbench"][4] == str(levels / "1_A.py")
    assert made["profile"][-2:] == ["hip", "90"]
    nothing = Place(ROOT, tmp_path / "p", "cuda/triton", None, {})
    skipped = {part.name: part.make(nothing, 100.0) for part in PARTS[5:]}
    reasons = {name: skip.reason for name, skip in skipped.items() if isinstance(skip, Skip)}
    assert set(reasons) == {"kernelbench", "finals", "profile"} and "--kernelbench" in reasons["kernelbench"]


def test_no_final_is_begun_that_lacks_the_time(tmp_path: Path) -> None:
    finals = next(part for part in PARTS if part.name == "finals")
    row = {"task": "27_Softmax", "ending": "faster"}
    save(tmp_path, Result("suite", "Stub", State.DONE, figures={"rows": [row]}))
    save(tmp_path, Result("finals", "Stub", State.LATE, figures={"summary": None, "rows": [], "left": 9}))
    assert check(tmp_path, finals, more=("--resume",), seconds=99.0) == 1
    (found,) = document(tmp_path)["parts"]
    assert (found["state"], found["command"], found["figures"]["left"]) == ("late", [], 9)
    assert found["detail"].startswith("it needs 90 s and had 8")
    words = [str(w) for w in finals.make(Place(ROOT, tmp_path, "cuda/triton", None, {}), 90.0)]  # type: ignore[union-attr]
    assert words[words.index("--stop-after") + 1] == "15"


@pytest.mark.slow
def test_a_bench_done_again_is_a_new_one_and_that_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first really: with a store, and our own command that lists it."""
    begun = RunSpec(task=Task(name="t", source=TASK), recipe="refine", experiment="gpu-check-suite")
    open_store(str(tmp_path / "runs.db")).create_run(begun)
    environment = environment_with(None, ROOT, tmp_path)
    suite = next(part for part in PARTS if part.name == "suite")

    def asked(*, again: bool) -> list[str]:
        place = Place(ROOT, tmp_path, "cuda/triton", None, environment, again=again)
        words = [str(word) for word in suite.make(place, 100.0)]  # type: ignore[union-attr]
        at = words.index("--target")
        return words[at - 2 : at]

    assert asked(again=True) == ["--name", "gpu-check-suite-2"]
    monkeypatch.setattr(parts_module, "_has_runs", lambda place, title: not title.endswith("-3"))
    assert asked(again=False) == ["--resume", "gpu-check-suite-2"]


def test_a_part_is_told_that_it_is_done_again(tmp_path: Path) -> None:
    told = []

    def make(place: Place, seconds: float) -> Skip:
        told.append(place.again)
        return Skip("a stub")

    check(tmp_path, Part("suite", "Stub", 1.0, make))
    check(tmp_path, Part("suite", "Stub", 1.0, make), more=("--resume", "--again"))
    assert told == [False, True]


def test_our_commands_know_the_options_that_the_parts_use(tmp_path: Path) -> None:
    """A renamed option would show on the GPU machine only."""
    from typer.main import get_command

    from kernelwright.cli.main import make_app

    levels = tmp_path / "level1"
    levels.mkdir()
    (levels / "1_A.py").touch()
    place = Place(ROOT, tmp_path / "o", "cuda/triton", tmp_path, {})
    save(place.out, Result("suite", "Stub", State.LATE, figures={"rows": ROWS}))
    commands = get_command(make_app()).commands  # type: ignore[attr-defined]
    ours = [part for part in PARTS if part.name in ("cheats", "suite", "kernelbench", "finals")]
    for part in ours:
        words = [str(word) for word in part.make(place, 100.0)]  # type: ignore[union-attr]
        known = {option for parameter in commands[words[3]].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, part.name


def test_the_benchmarks_know_the_options_that_the_parts_use(tmp_path: Path) -> None:
    for part in (part for part in PARTS if part.name in ("honest", "noise")):
        words = [str(word) for word in part.make(Place(ROOT, tmp_path, "hip/triton", None, {}), 100.0)]  # type: ignore[union-attr]
        text = (ROOT / "lab" / "benchmarks" / f"{part.name}.py").read_text(encoding="utf-8")
        options = [word for word in words if word.startswith("--")]
        assert options and all(f'parser.add_argument("{option}"' in text for option in options), part.name
        assert words[words.index("--device") + 1] == "hip" and words[words.index("--seconds") + 1] == "85"


def test_what_benchmarks_found_is_in_both_files(tmp_path: Path) -> None:
    why = {"run": 0, "status": "rejected", "stage": "time", "check": "clock", "detail": "events disagree"}
    kernels = [
        {"kernel": "gpu_a", "title": "one", "runs": 1, "verified": 1, "rejections": []},
        {"kernel": "gpu_b", "title": "two", "runs": 1, "verified": 0, "rejections": [why]},
    ]
    honest = json.dumps({"rows": kernels, "left": 0})
    share = {"n_trials": 5, "n_called": 1, "n_unverified": 0, "bias": 1.01, "spread": 0.02}
    noise = json.dumps({"n_trials": 5, "left": 2, "shares": {"Equal kernels, search": [share], "Other": []}})
    check(
        tmp_path,
        stub("honest", f"(out / 'honest.json').write_text({honest!r}); sys.exit(1)"),
        stub("noise", f"(out / 'noise.json').write_text({noise!r})"),
    )
    assert states(tmp_path) == {"honest": "negative", "noise": "late"}
    text = (tmp_path / "gpu-check.md").read_text()
    assert (
        "1 of 2 verified, 0 left" in text and "| gpu_b | two | 0 of 1 | rejected: events disagree |" in text
    )
    assert "1 false calls in 5 trials, 2 left" in text
    assert "| Equal kernels, search | 5 | 1 | 0 | 1.01 | 0.02 |" in text


def test_any_beginning_of_the_problems_has_all_levels_in_it(tmp_path: Path) -> None:
    for level, count in (("level1", 100), ("level2", 100), ("level3", 50)):
        (tmp_path / level).mkdir()
        for number in range(1, count + 1):
            (tmp_path / level / f"{number}_P.py").touch()
    found = problems(tmp_path)
    assert len(found) == len(set(found)) == 250
    first = [file.parent.name for file in found[:10]]
    assert first.count("level1") == first.count("level2") == 4
    numbers = [int(file.name.partition("_")[0]) for file in found[:20] if file.parent.name == "level1"]
    assert min(numbers) < 30 and max(numbers) > 70


def test_the_slowest_are_those_farthest_from_their_floors_then_those_that_take_longest() -> None:
    known = ((0.9, 1.0), (None, 2.0), (0.1, 1.0), (None, 3.0))
    rows: list[dict[str, Any]] = [
        {"task": str(i), "run_id": "r", "floor_fraction": share, "delivered_ms": ms}
        for i, (share, ms) in enumerate(known)
    ]
    rows.append({"task": "no run", "run_id": None, "floor_fraction": 0.01, "delivered_ms": 1.0})
    rows.append({"task": "failed", "run_id": "r", "floor_fraction": None, "delivered_ms": None})
    assert [row["task"] for row in slowest([*rows, *rows], 3)] == ["2", "0", "3"]


def test_without_any_floor_they_are_those_that_take_longest() -> None:
    rows = [{"task": str(i), "run_id": "r", "delivered_ms": ms} for i, ms in enumerate((1.0, None, 9.0, 4.0))]
    assert [row["task"] for row in slowest(rows, 2)] == ["2", "3"]


TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.ones(8)]
def get_init_inputs():
    return []
"""


def test_what_was_delivered_is_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler is a stub; a run that delivered nothing is in the store."""
    asked: list[tuple[str, str]] = []

    def stub_profile(source: str, task_source: str, kind: str, **how: Any) -> Profiled:
        asked.append((source, kind))
        return Profiled(facts={"gpu.launches": 2.0}, hottest="row_kernel", note="profiled by a stub")

    monkeypatch.setattr("gpucheck.profile_slowest.take_profile", stub_profile)
    run_id = open_store(str(tmp_path / "runs.db")).create_run(
        RunSpec(task=Task(name="t", source=TASK), recipe="refine")
    )
    row = {"task": "t", "run_id": run_id, "delivered_ms": 1.0, "floor_fraction": None}
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "results.json").write_text(json.dumps({"rows": [row]}))
    assert profile_slowest([str(tmp_path), "hip", "60"]) == 0
    ((source, kind),) = asked
    assert "class ModelNew(" in source and kind == "hip"
    (found,) = json.loads((tmp_path / "profile" / "profiles.json").read_text())["rows"]
    assert (found["kernel"], found["facts"]) == ("row_kernel", {"gpu.launches": 2.0})
    (tmp_path / "suite" / "results.json").unlink()
    assert profile_slowest([str(tmp_path), "hip", "60"]) == 1


def test_a_tool_has_time_to_start_and_tasks_without_any_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clock and profiler are stubs: every task takes as long as it may."""
    now, given = [0.0], []

    def stub_profile(
        source: str, task_source: str, kind: str, *, mode: str, is_tf32: bool, timeout_s: float
    ) -> Profiled:
        given.append(round(timeout_s))
        now[0] += timeout_s
        return Profiled(note="ncu did not run") if len(given) % 2 else Profiled(hottest="row_kernel", note="")

    monkeypatch.setattr("gpucheck.profile_slowest.take_profile", stub_profile)
    monkeypatch.setattr("gpucheck.profile_slowest.time", SimpleNamespace(monotonic=lambda: now[0]))
    store = open_store(str(tmp_path / "runs.db"))
    run_id = store.create_run(RunSpec(task=Task(name="t", source=TASK), recipe="refine"))
    rows = [{"task": str(i), "run_id": run_id, "delivered_ms": 1.0} for i in range(5)]
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "results.json").write_text(json.dumps({"rows": rows}))
    assert profile_slowest([str(tmp_path), "cuda", "52"]) == 0 and given == [20, 20]
    kept = json.loads((tmp_path / "profile" / "profiles.json").read_text())
    assert ([row["kernel"] for row in kept["rows"]], kept["left"]) == ([None, "row_kernel"], 3)
    check(tmp_path, stub("profile", f"(out / 'profiles.json').write_text({json.dumps(kept)!r})"))
    assert states(tmp_path) == {"profile": "late"}
    assert "1 of 2 profiled" in (tmp_path / "gpu-check.md").read_text()


def test_no_profile_at_all_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler is a stub that finds nothing."""
    nothing = Profiled(note="torch.profiler saw no kernels")
    monkeypatch.setattr("gpucheck.profile_slowest.take_profile", lambda *arguments, **how: nothing)
    run_id = open_store(str(tmp_path / "runs.db")).create_run(
        RunSpec(task=Task(name="t", source=TASK), recipe="refine")
    )
    row = {"task": "t", "run_id": run_id, "delivered_ms": 1.0}
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "results.json").write_text(json.dumps({"rows": [row]}))
    assert profile_slowest([str(tmp_path), "cuda", "60"]) == 2
    kept = (tmp_path / "profile" / "profiles.json").read_text()
    check(tmp_path, stub("profile", f"(out / 'profiles.json').write_text({kept!r}); sys.exit(2)"))
    assert states(tmp_path) == {"profile": "failed"}
    assert "0 of 1 profiled" in (tmp_path / "gpu-check.md").read_text()


def test_why_there_are_no_counters_is_in_the_table(tmp_path: Path) -> None:
    row = {"task": "t", "floor_fraction": None, "kernel": "row_kernel", "detail": "ncu: no permission"}
    rows = json.dumps({"rows": [row]})
    check(tmp_path, stub("profile", f"(out / 'profiles.json').write_text({rows!r})"))
    assert "| t |  | row_kernel |  | ncu: no permission |" in (tmp_path / "gpu-check.md").read_text()


def test_what_is_packed_leaves_torch_to_the_other_machine() -> None:
    names = [one.partition(">")[0] for one in requirements(ROOT, ["numpy"])]
    assert {"pydantic", "pytest", "sqlalchemy", "numpy"} <= set(names)
    assert not {"torch", "triton"} & set(names) and "numpy" not in " ".join(requirements(ROOT))


def test_packing_hands_pip_the_other_machines_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is a stub here: it makes what it would have unpacked."""
    asked: list[list[str]] = []

    def pip(command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        asked.append(command)
        (tmp_path / "p" / "rich-14.0.dist-info").mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("gpucheck.pack.subprocess.run", pip)
    *_, size, there = pack(tmp_path / "p", ROOT, "3.12", "manylinux2014_x86_64")
    assert "1 packages" in size and there.endswith("--packages p --kernelbench KernelBench")
    assert asked[0][asked[0].index("--python-version") + 1] == "3.12"
    with pytest.raises(PackError, match=r"is for Python 3\.12, this is"):
        environment_with(tmp_path / "p", ROOT, tmp_path)
    about = json.loads((tmp_path / "p" / ABOUT).read_text())
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / "p" / ABOUT).write_text(json.dumps({**about, "python": here}))
    assert str(tmp_path / "p") in environment_with(tmp_path / "p", ROOT, tmp_path)["PYTHONPATH"]


def test_a_folder_of_others_is_not_packed_into(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(PackError, match="holds something else"):
        list(pack(tmp_path, ROOT, "3.12", "any"))
    assert main(["--pack", str(tmp_path)]) == 2
    assert main(["--packages", str(tmp_path), "--out", str(tmp_path / "o")]) == 2


def test_every_state_but_the_ended_ones_is_repeated() -> None:
    assert {state for state in State if state.is_ended} == {State.DONE, State.NEGATIVE}
    assert parts_module.PARTS[0].name == parts_module.START


def test_the_shares_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "gpu-check.md").read_text(encoding="utf-8")
    assert sum(part.share for part in PARTS) == 100
    assert [part.name for part in PARTS if f"| `{part.name}` | {part.share:g} % |" not in page] == []
