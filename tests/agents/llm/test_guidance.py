"""What prompts are grounded in, and what is kept from them."""

from dataclasses import replace

import pytest
import torch
from tests.agents.llm.conftest import BASE, BROKEN, TASK, failing_evaluation

from kernelwright.agents.llm.guidance import SECTIONS, evidence_text, sections
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.sources import with_approach
from kernelwright.agents.llm.window import WINDOWS
from kernelwright.agents.roles import Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters, ParameterResponse, ValueResponse
from kernelwright.core.evaluation import NumericalError, Speedup, Status
from kernelwright.core.evidence import FactValue
from kernelwright.core.learned import Passage
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import Skill
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.tasks.capture import capture_module
from kernelwright.testing.fake_run import fake_evaluation


def shown(name: str, told: PromptInput) -> str:
    return "\n".join(f"{section.title}\n{section.text}" for section in sections(WINDOWS[name], told))


def test_a_plan_is_grounded_in_figures_reasons_and_experience(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    text = shown("planner", PromptInput(situation, skills))
    for words in (
        "no kernel can be faster than 0.21 ms; bound by memory",
        "run.floor_fraction = 0.0525: far from the floor",
        "`unroll-accumulators` (score 0.31)",
        "Ledger on reduction/compute: 4 tries, 3 wins, mean speedup 1.17x",
        "Number of accumulators = latency x operations per cycle",
        "Rows under 4 KB want two rows a thread.",
        "Task row_sum, 3.40x over eager",
        "=> incorrect_numerics (out0 on as_is: error 2.1",
        "takes [512, 1024] float32; returns [512] float32",
        "2.50x [2.45, 2.55] over eager",
    ):
        assert words in text, words
    assert "Not proven yet" not in text
    assert "counters.ipc" not in text


@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_on_timings_alone_nothing_measured_but_latencies_is_told(
    name: str, situation: Situation, skills: dict[str, Skill]
) -> None:
    nodes = (*situation.window, Node(BROKEN, failing_evaluation(), "member"))
    blind = replace(situation, timings_only=True, window=nodes)
    failing = replace(blind, base=Node(BROKEN, failing_evaluation(), "base"))
    for told in (PromptInput(blind, skills), PromptInput(failing, skills)):
        text = shown(name, told)
        for secret in (
            "0.21 ms",
            "floor",
            "0.0525",
            "Bottleneck",
            "score",
            "Ledger",
            "speedup",
            "over eager",
        ):
            assert secret not in text, secret
        assert "error 2.1" not in text and "GFLOP" not in text and "-400.2" not in text
    if any(slot.section == "floor" for slot in WINDOWS[name].slots):
        assert "The machine\n" in shown(name, PromptInput(blind, skills)), "no candidate's"
    if any(slot.section in ("timings", "base") for slot in WINDOWS[name].slots):
        assert "4 ms" in shown(name, PromptInput(blind, skills)) or "| 4 |" in shown(
            name, PromptInput(blind, skills)
        )


@pytest.mark.parametrize("name", ["designer", "planner", "planner_writes", "generator", "coder_write"])
def test_documents_are_shown_with_their_source_even_on_timings_alone(
    name: str, situation: Situation, skills: dict[str, Skill]
) -> None:
    passages = (Passage(source="isa.md, Stores", text="Store past the caches.\n\n# Loud\n"),)
    told = PromptInput(replace(situation, timings_only=True, passages=passages), skills)
    assert "[isa.md, Stores]\nStore past the caches." in shown(name, told)
    assert "Store past" not in evidence_text(told)


def test_experiments_on_timings_alone_are_still_remembered(situation: Situation) -> None:
    (_, text), _ = SECTIONS["tried"](PromptInput(replace(situation, timings_only=True)))
    assert "streaming-stores" in text and text.endswith("=> incorrect_numerics")


def test_an_experiment_on_timings_alone_is_told_with_its_latency(situation: Situation) -> None:
    memory = ShortTermMemory()
    memory.record_seed(fake_evaluation(BASE, TASK, 2.0))
    memory.record(BASE.id, Move(skill="tile"), fake_evaluation(BROKEN, TASK, 2.5))
    told = PromptInput(replace(situation, memory=memory, timings_only=True))
    (_, text), _ = SECTIONS["tried"](told)
    assert text == "- tile => verified, 0.80 times the base's latency"


def test_every_kernel_of_the_run_is_listed_with_its_interval_and_the_error_it_used(
    situation: Situation,
) -> None:
    used = NumericalError(
        workload="default", family="scaled", output="out0", error=2.4e-7, reference_error=1e-7, allowed=7.2e-6
    )
    other = Candidate(
        source="other = 1\n",
        plan=Plan(moves=(Move(skill="tile", why="long rows", text="1. rows | of 4 KB\n2. unroll"),)),
    )
    judged = fake_evaluation(other, TASK, 3.0).model_copy(update={"errors": (used,)})
    run = (*situation.window, Node(other, judged, "member"), Node(BROKEN, failing_evaluation(), "member"))
    ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=run)))
    rows = text.splitlines()[-3:]
    assert "1.60x [1.57, 1.63]" in rows[0]
    assert "| incorrect_numerics: out0 on as_is: error 2.1, allowed 3.4e-06 |" in rows[2]
    assert "3.00x" in rows[1] and "| 3 % of 7.2e-06 (scaled) | rows / of 4 KB; unroll |" in rows[1]
    ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=run, timings_only=True)))
    assert "x [" not in text and "7.2e-06" not in text and other.id in text
    assert "error 2.1" not in text


def test_the_machine_code_of_every_kernel_but_the_analysed_base_is_listed(situation: Situation) -> None:
    facts: dict[str, FactValue] = {
        "compiler.vector_bytes": 64, "compiler.vector_fma": 701, "compiler.gathers": 0,
        "compiler.spills": None, "run.thread_scaling": 1.95,
    }  # fmt: skip
    known = [
        replace(node, evaluation=node.evaluation.model_copy(update={"facts": facts}))
        for node in (situation.base, situation.window[0])
        if node is not None
    ]
    told = replace(situation, base=known[0], run=tuple(known))
    ((_, text),) = SECTIONS["timings"](PromptInput(told))
    head, _, base, other = text.splitlines()[-4:]
    assert "| machine code | last change |" in head
    assert "| vectors of 64 B, 701 FMA, 0 gathers, threads 1.95x |" in other and "| its evidence |" in base
    ((_, blind),) = SECTIONS["timings"](PromptInput(replace(told, timings_only=True)))
    assert "FMA" not in blind


def test_what_a_move_without_steps_did_is_listed_by_its_name_and_values(situation: Situation) -> None:
    moves = (Move(skill="tile", region="r_sum", params={"tile": 8}, why="rows are long"), Move(skill="fuse"))
    for move, said in zip(moves, ("tile on r_sum (tile=8)", "fuse"), strict=True):
        candidate = Candidate(source=f"{move.skill} = 1\n", plan=Plan(moves=(move,)))
        run = (Node(candidate, fake_evaluation(candidate, TASK, 3.0), "member"),)
        ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=run)))
        assert text.endswith(f"| {said} |")


def test_the_base_tells_its_error_for_every_kind_of_inputs(situation: Situation) -> None:
    assert situation.base is not None
    errors = tuple(
        NumericalError(
            workload="default", family=family, output="out0", error=error, reference_error=1e-7, allowed=1e-5
        )
        for family, error in (("as_is", 2e-6), ("scaled", 5e-6), ("scaled", 6e-6))
    )
    judged = situation.base.evaluation.model_copy(update={"errors": errors})
    told = replace(situation, base=replace(situation.base, evaluation=judged))
    ((_, text),) = SECTIONS["base"](PromptInput(told))
    assert "nearer its bound: as_is 20 %, scaled 60 %." in text
    ((_, blind),) = SECTIONS["base"](PromptInput(replace(told, timings_only=True)))
    assert "60 %" not in blind


def test_where_only_the_menu_can_be_carried_out_no_other_skill_is_shown(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    menu = {"m1": Move(skill="streaming-stores", region="r_sum")}
    text = shown("planner", PromptInput(situation, skills, menu=menu, only_menu=True))
    assert "`streaming-stores` (score" in text and "## Skill" not in text
    assert "`unroll-accumulators`" not in text and "Skill `unroll-accumulators`" not in text
    assert "`unroll-accumulators`" in shown("planner", PromptInput(situation, skills, menu=menu))


def test_a_repair_sees_all_kernels_of_the_run(broken: Situation, skills: dict[str, Skill]) -> None:
    text = shown("debugger_repair", PromptInput(broken, skills))
    assert "All kernels of this run so far" in text and "| incorrect_numerics | -" in text


def test_a_kernel_that_was_timed_in_turn_with_another_is_listed_with_that(situation: Situation) -> None:
    near = Speedup(baseline=BASE.id, ratio=1.01, low=0.98, high=1.04)
    other = Candidate(source="other = 1\n", parents=(BASE.id,))
    node = Node(other, fake_evaluation(other, TASK, 2.5), "member")
    told = PromptInput(replace(situation, run=(*situation.window, replace(node, over_base=near))))
    ((_, text),) = SECTIONS["timings"](told)
    assert f"| not distinguishable from {BASE.id} (1.01x [0.98, 1.04]) |" in text.splitlines()[-1]
    assert "timed in turn" not in SECTIONS["timings"](PromptInput(replace(situation, run=(node,))))[0][1]


def test_who_wrote_a_kernel_is_told_where_it_was_not_the_model(situation: Situation) -> None:
    others = [Candidate(source=f"{role} = 1\n", role=role) for role in ("generator", "user", "reference")]
    run = (*situation.window, *(Node(one, fake_evaluation(one, TASK, 2.0), "leader") for one in others))
    ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=run)))
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("|")]
    column = rows[0].index("written by")
    assert [row[column] for row in rows[2:]] == ["you", "the expert", "the user", "the reference"]
    titles = [title for title, _ in SECTIONS["others"](PromptInput(replace(situation, window=run)))]
    assert [title.endswith(f"{others[0].id}, written by the expert") for title in titles] == [
        False,
        True,
        False,
        False,
    ]
    ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=situation.window)))
    assert "written by" not in text, "where the model wrote all"


def test_a_kernel_whose_minute_later_ones_show_to_be_disturbed_is_marked(situation: Situation) -> None:
    """The first of a run has nothing before it that eager's time could be held against."""
    quiet = fake_evaluation(BASE, TASK, 2.5)
    (result,) = quiet.results
    slow = result.baselines["eager"].model_copy(update={"median_ms": 16.0})
    first = quiet.model_copy(update={"results": (result.model_copy(update={"baselines": {"eager": slow}}),)})
    run = (Node(BASE, first, "base"), *situation.window)
    ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=run)))
    marked, other = text.splitlines()[-2:]
    assert "| verified, disturbed |" in marked and "| verified |" in other
    assert "disturbed" not in SECTIONS["timings"](PromptInput(replace(situation, run=run[:1])))[0][1]
    assert (
        "disturbed"
        not in SECTIONS["timings"](PromptInput(replace(situation, run=run, timings_only=True)))[0][1]
    )


def test_a_seed_is_listed_with_what_its_author_said_of_it(situation: Situation) -> None:
    seed = Candidate(source=with_approach("seed = 1\n", "two rows a step"))
    assert seed.id == Candidate(source="seed = 1\n").id, "what is judged does not change"
    run = (Node(seed, fake_evaluation(seed, TASK, 3.0), "member"),)
    ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=run)))
    assert text.endswith("| two rows a step |")


def test_a_fact_is_told_once(situation: Situation) -> None:
    assert situation.analysis is not None
    facts: dict[str, FactValue] = {
        "machine.n_threads": 2, "task.floor_ms": 0.21, "graph.n_matmuls": 0, "graph.n_reductions": 1
    }  # fmt: skip
    analysis = replace(situation.analysis, evidence=situation.analysis.evidence.with_facts(facts))
    told = PromptInput(replace(situation, analysis=analysis))
    ((_, text),) = SECTIONS["evidence"](told)
    assert "graph.n_reductions = 1" in text
    assert not any(name in text for name in ("machine.", "task.floor_ms", "graph.n_matmuls"))
    unknown = replace(told, situation=replace(told.situation, problem=replace(situation.problem, floors={})))
    ((_, text),) = SECTIONS["evidence"](unknown)
    assert "machine.n_threads = 2" in text, "no other section has it"


def test_a_failure_is_told_once(broken: Situation, skills: dict[str, Skill]) -> None:
    assert shown("debugger_repair", PromptInput(broken, skills)).count("error 2.1, allowed 3.4e-06") == 1


def test_the_table_of_timings_alone_has_a_column_for_each_workload(situation: Situation) -> None:
    """What the scientist sees: small and large inputs side by side, and a kernel that was not timed."""
    fast = fake_evaluation(BASE, TASK, 2.0)
    (only,) = fast.results
    large = only.candidate.model_copy(update={"median_ms": 40.0})
    results = (only, only.model_copy(update={"workload": "large", "candidate": large}))
    both = Node(BASE, fast.model_copy(update={"results": results}), "base")
    told = replace(situation, timings_only=True, run=(both, Node(BROKEN, failing_evaluation(), "run")))
    ((_, text),) = SECTIONS["timings"](PromptInput(told))
    head, _, row, failing = [line for line in text.splitlines() if line.startswith("|")]
    assert "| default (ms) | large (ms) |" in head
    assert row.split(" | ")[4] == "40" and failing.split(" | ")[3:5] == ["-", "-"]


def test_the_floor_says_which_arithmetic_it_assumes(situation: Situation) -> None:
    ((_, of_memory),) = SECTIONS["floor"](PromptInput(situation))
    floors = {
        name: floor.model_copy(update={"bound_by": "compute"})
        for name, floor in situation.problem.floors.items()
    }
    told = PromptInput(replace(situation, problem=replace(situation.problem, floors=floors)))
    ((_, of_products),) = SECTIONS["floor"](told)
    assert "Winograd" in of_products and "Winograd" not in of_memory
    assert "- default: no kernel can be faster" not in of_products


def test_functions_that_the_floor_cannot_count_have_a_price(situation: Situation) -> None:
    """Softplus is a choice between two branches, so its functions are no bound."""
    captured = capture_module(torch.nn.Softplus(), [torch.randn(10, 100)])
    peaks = situation.problem.peaks.model_copy(update={"functions": (("exp", 0.001), ("log", 0.002))})
    problem = replace(situation.problem, captured={"default": captured}, peaks=peaks)
    ((_, text),) = SECTIONS["floor"](PromptInput(replace(situation, problem=problem)))
    assert "evaluates 1000 exp, 1000 log: 1.5 ms at these rates. No bound" in text
    ((_, bare),) = SECTIONS["floor"](PromptInput(situation))
    assert "No bound" not in bare


def test_of_many_kernels_the_fastest_and_the_latest_are_listed(situation: Situation) -> None:
    kernels = [Candidate(source=f"n = {n}\n") for n in range(100)]
    run = tuple(Node(k, fake_evaluation(k, TASK, 9.0 - 0.05 * n), "member") for n, k in enumerate(kernels))
    ((_, text),) = SECTIONS["timings"](PromptInput(replace(situation, run=run)))
    assert kernels[0].id in text and kernels[99].id in text and kernels[50].id not in text
    assert "60 slower or older kernels are left out" in text


def test_what_was_tried_on_the_kernels_behind_the_base_is_told(situation: Situation) -> None:
    memory = ShortTermMemory()
    memory.record_seed(fake_evaluation(BASE, TASK, 2.0))
    memory.record(BASE.id, Move(skill="tile"), fake_evaluation(BROKEN, TASK, 1.5))
    kept = Move(skill="unroll")
    child = Candidate(source="child = 1\n", parents=(BASE.id,), plan=Plan(moves=(kept,)))
    memory.record(BASE.id, kept, fake_evaluation(child, TASK, 3.0))
    base = Node(child, fake_evaluation(child, TASK, 3.0), "base")
    told = PromptInput(replace(situation, memory=memory, base=base))
    (_, own), (title, earlier) = SECTIONS["tried"](told)
    assert own == "" and title == "Tried on the kernels that the base was made from"
    assert "tile" in earlier and "unroll" not in earlier, "what the base carries out was not in vain"


def test_the_processor_is_told_with_its_vectors_and_compiler(situation: Situation) -> None:
    machine = Machine(vector_bytes=64, isa=("avx2", "avx512f"), compiler="g++ 12.2.0")
    told = PromptInput(replace(situation, problem=replace(situation.problem, machine=machine)))
    ((_, text),) = SECTIONS["floor"](told)
    for words in ("Vectors of 64 bytes (16 float32)", "avx512f", "g++ 12.2.0"):
        assert words in text, words


def test_the_breeder_is_never_shown_a_source(situation: Situation, skills: dict[str, Skill]) -> None:
    told = PromptInput(situation, skills, menu={"a1": Move(skill="free", text="1. fuse")})
    sources = [TASK.source, BASE.source, situation.window[0].candidate.source]
    lines = {line.strip() for source in sources for line in source.splitlines() if len(line.strip()) > 12}
    for name in ("breeder_populate", "breeder_cross"):
        text = shown(name, told)
        assert "```" not in text
        assert [line for line in lines if line in text] == []
        assert "bound by memory" in text


@pytest.mark.parametrize("name", ["breeder_populate", "breeder_cross"])
def test_the_breeder_is_told_every_plan_so_far_and_how_its_kernel_ended(
    name: str, situation: Situation
) -> None:
    def planned(skill: str, verdict: float | Status) -> Node:
        kernel = Candidate(source="", plan=Plan(moves=(Move(skill=skill),)))
        return Node(kernel, fake_evaluation(kernel, TASK, verdict), "member")

    nodes = (planned("first", 1.2), planned("second", Status.CRASHED), planned("third", 3.0))
    text = shown(name, PromptInput(replace(situation, base=None, window=nodes)))
    assert "1.20x [1.18, 1.22] over eager:\n1. first" in text and "crashed (scripted):\n1. second" in text
    assert text.index("1. third") < text.index("1. first") < text.index("1. second"), "fastest first"
    assert "The reference, as PyTorch runs it: default 10 ms." in text


@pytest.mark.parametrize("name", ["debugger_repair", "coder_rewrite"])
def test_a_repair_is_grounded_in_the_kernel_that_the_failing_one_was_made_from(
    name: str, broken: Situation, skills: dict[str, Skill]
) -> None:
    text = shown(name, PromptInput(broken, skills))
    assert "Diagnosis of the kernel that the failing one was made from" in text
    assert "no kernel can be faster than" in text
    assert ("Ledger on reduction/compute: 4 tries" in text) == (name != "debugger_repair"), "the idea is kept"


def test_a_repair_chain_is_told_with_its_verdicts(broken: Situation) -> None:
    memory = ShortTermMemory()
    memory.record_seed(fake_evaluation(BASE, TASK, 2.5))
    idea = Move(skill="streaming-stores", text="1. store `out` around the caches", why="out is large")
    memory.record(BASE.id, idea, failing_evaluation())
    plan = BROKEN.plan.then(Move(skill="repair", text="flip the sign"))
    again = Candidate(source=BROKEN.source + "AGAIN = 1\n", parents=(BROKEN.id,), plan=plan)
    failing = failing_evaluation().model_copy(update={"candidate_id": again.id})
    memory.record(BASE.id, idea, failing)
    told = PromptInput(replace(broken, memory=memory, base=Node(again, failing, "base")))
    ((_, text),) = SECTIONS["chain"](told)
    assert text.count("incorrect_numerics") == 2 and "Repairs made so far:\n- repair" in text
    assert "flip the sign" in text


def test_figures_may_be_quoted_from_evidence_but_not_from_sources(situation: Situation) -> None:
    text = evidence_text(PromptInput(situation))
    assert "0.0525" in text and "WIDTH" not in text


def test_a_live_module_is_shown_as_its_graph(situation: Situation) -> None:
    task = TASK.model_copy(update={"artifact": "/secret/place/module.pkl"})
    live = replace(situation, problem=replace(situation.problem, task=task))
    ((_, text),) = SECTIONS["reference"](PromptInput(live))
    assert "relu.default -> [512, 1024] float32" in text and "class Model" not in text
    readable = task.model_copy(update={"class_source": "class Net(nn.Module):\n    width = 3"})
    live = replace(situation, problem=replace(situation.problem, task=readable))
    ((_, text),) = SECTIONS["reference"](PromptInput(live))
    assert "relu.default -> [512, 1024] float32" in text and "class Net" in text
    assert "/secret/place" not in text


def test_the_graph_of_a_live_module_is_told_once(situation: Situation, skills: dict[str, Skill]) -> None:
    task = TASK.model_copy(update={"artifact": "module.pkl"})
    live = replace(situation, problem=replace(situation.problem, task=task))
    for name, window in WINDOWS.items():
        shown = "".join(section.text for section in sections(window, PromptInput(live, skills)))
        listed = {slot.section for slot in window.slots} & {"reference", "operators"}
        assert shown.count("relu.default -> [512, 1024] float32") == bool(listed), name


def test_what_tuning_found_is_told_in_a_few_lines(situation: Situation, skills: dict[str, Skill]) -> None:
    values = tuple(ValueResponse(value=v, low=v / 100, high=v / 100 + 0.02, n_points=1) for v in (70, 90))
    closing = ClosedParameters(
        written="open",
        values={"TILE": 70, "UNROLL": 4},
        low=0.70,
        high=0.72,
        n_points=14,
        n_failed=1,
        n_possible=40,
        seconds=18.0,
        responses=(ParameterResponse(name="TILE", values=values),),
    )
    assert situation.base is not None
    told = PromptInput(replace(situation, base=replace(situation.base, closing=closing)), skills)
    for name in ("generator", "planner_writes", "planner", "coder_write", "coder_rewrite"):
        text = shown(name, told)
        assert "14 of 40 points in 18 s, 1 of them failed; chosen: TILE=70, UNROLL=4" in text
        assert "TILE: 70 [0.70, 0.72], 90 [0.90, 0.92]" in text
        assert "tuning" not in shown(name, PromptInput(situation, skills)).lower()
    assert "[0.70, 0.72]" in evidence_text(told), "a plan may quote it"
