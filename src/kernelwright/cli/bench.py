"""``kernelwright bench``: one recipe over many tasks, resumable, with tables and a picture."""

from kernelwright.cli.experiments import ExperimentOutput
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import tell
from kernelwright.core.request import BenchRequest
from kernelwright.report.results import BenchResult


@takes(BenchRequest)
def bench(request: BenchRequest, *, as_json: AsJson = False) -> None:
    """Run every task once and write results.json, .md, .html and .svg."""
    # lazy: loads torch
    from kernelwright import api

    output = ExperimentOutput(request, api.title_for(request))
    with output.interruptible(as_json=as_json):
        result = api.run_bench(request, title=output.title, progress=True, on_result=output.save)
    output.finish(result, lambda: _show(result, output), as_json=as_json)


def _show(result: BenchResult, output: ExperimentOutput) -> None:
    for row in result.rows:
        if not row.is_success:
            tell(f"failed: {row.task}: {row.detail}")
    for row in result.rows:
        if row.compiler:
            tell(f"compiler: {row.task}: {row.compiler}")
    if result.left:
        tell(f"{len(result.left)} tasks were not begun; go on with: {output.resume_command}")
