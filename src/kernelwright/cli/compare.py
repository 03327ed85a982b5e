"""``kernelwright compare``: recipes, tasks and seeds under one budget, with a table and a picture."""

from kernelwright.cli.experiments import ExperimentOutput
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import tell
from kernelwright.core.request import CompareRequest
from kernelwright.report.comparisontext import conditions_text
from kernelwright.report.results import ComparisonResult


@takes(CompareRequest)
def compare(request: CompareRequest, *, as_json: AsJson = False) -> None:
    """Run recipes on the same tasks under one budget; writes comparison.json, .md, .html and .svg."""
    # lazy: loads torch
    from kernelwright import api

    output = ExperimentOutput(request, api.title_for(request))
    with output.interruptible(as_json=as_json):
        result = api.run_compare(request, title=output.title, progress=True, on_result=output.save)
    output.finish(result, lambda: _show(result), as_json=as_json)


def _show(result: ComparisonResult) -> None:
    tell(conditions_text(result.conditions) + "\n")
    for failure in result.comparison.failures:
        tell(f"failed: {failure.name}, {failure.task}, seed {failure.seed}: {failure.detail}")
