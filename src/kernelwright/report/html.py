"""Renders one run as one self-contained HTML file: no network, no scripts from elsewhere."""

from collections.abc import Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.report import sections
from kernelwright.report.asked import model_rows, with_models
from kernelwright.report.blocks import block_table
from kernelwright.report.diff import changes
from kernelwright.report.highlight import highlight
from kernelwright.report.page import render
from kernelwright.report.passed import passed_checks
from kernelwright.report.prompt_sections import PromptTables, prompt_tables
from kernelwright.report.reproduce import command_line
from kernelwright.report.story import Story, tell
from kernelwright.report.verdict import run_verdict
from kernelwright.store.base import RunRecord, Store


def render_report(store: Store, run_id: str, *, is_live: bool = False) -> str:
    """Return the report of a run, finished or not; raises StoreError for an unknown run.

    ``is_live``: the dashboard serves it; the page links to its other pages and takes itself anew.
    """
    record = store.get_run(run_id)
    story = tell(stored.event for stored in store.iter_events(run_id))
    prompts = prompt_tables(store.iter_model_calls(run_id)) if record.spec.models is not None else None
    candidates = list(store.iter_candidates(run_id))
    return render_page(record, story, candidates, prompts=prompts, is_live=is_live)


def render_page(
    record: RunRecord,
    story: Story,
    candidates: Sequence[Candidate],
    *,
    prompts: PromptTables | None = None,
    is_live: bool = False,
) -> str:
    """Return the page for records that were read before; ``prompts`` None: no model was asked."""
    spec = record.spec
    evaluation = sections.deciding_evaluation(story)
    shown = _shown_candidate(story, evaluation, candidates)
    roofline, roofline_note = sections.roofline_chart(spec, story)
    return render(
        "report.html.j2",
        spec=spec,
        run_id=record.run_id,
        is_live=is_live,
        date=f"{record.created_at:%Y-%m-%d %H:%M}",
        verdict=with_models(run_verdict(story, record.failure), spec.models, story),
        tiles=[*sections.tiles(story), *sections.model_tiles(spec, story)],
        models=model_rows(spec.models) if spec.models is not None else (),
        prompts=prompts,
        apart=story.apart,
        blocks=block_table(story.apart, story.finished.winner if story.finished else None)
        if story.apart and story.apart.blocks
        else None,
        curve=sections.curve_chart(story),
        bars=sections.latency_chart(story),
        roofline=roofline,
        roofline_note=roofline_note,
        lineage=sections.lineage_chart(story, candidates),
        steps=story.steps,
        moved=story.moved,
        numbers=sections.step_numbers(story),
        passed=passed_checks(evaluation),
        evaluation=evaluation,
        errors=sections.error_rows(evaluation.errors) if evaluation else [],
        allowed=sections.allowed_words(spec.task.tolerance),
        skipped_families=evaluation.families_skipped if evaluation else {},
        timings=sections.timing_rows(evaluation) if evaluation else [],
        kernel_facts=sections.kernel_facts(evaluation) if evaluation else [],
        plans={c.id: [move.key for move in c.plan.moves] for c in candidates},
        candidate=shown,
        changes=changes(shown, {c.id: c for c in candidates}, spec.task.source) if shown else [],
        source=highlight(shown.source) if shown else "",
        reference=highlight(spec.task.source),
        environment=sections.fact_rows(spec.environment),
        command=command_line(spec),
    )


def _shown_candidate(
    story: Story, evaluation: Evaluation | None, candidates: Sequence[Candidate]
) -> Candidate | None:
    winner = story.finished.winner if story.finished else None
    wanted = winner or (evaluation.candidate_id if evaluation else None)
    return next((candidate for candidate in candidates if candidate.id == wanted), None)
