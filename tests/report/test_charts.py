import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.sample_run import KERNEL, make_store

from kernelwright.core.evaluation import Speedup
from kernelwright.core.roofline import Work
from kernelwright.report import svg
from kernelwright.report.charts import BOTTOM, TOP, Bar, latency_bars, speedup_curve
from kernelwright.report.highlight import highlight
from kernelwright.report.lineage import LineageNode, lineage
from kernelwright.report.roofline import Ceilings, RooflinePoint, roofline
from kernelwright.report.story import tell

SVG = "{http://www.w3.org/2000/svg}"


def with_class(markup: str, name: str) -> list[ElementTree.Element]:
    tree = ElementTree.fromstring(markup)
    return [e for e in tree.iter() if name in e.get("class", "").split()]


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e6), st.booleans())
def test_ticks_lie_within_the_domain_and_are_few(low: float, factor: float, log: bool) -> None:
    scale = svg.Scale(low, low * factor, 0.0, 100.0, log)
    ticks = scale.ticks(5)
    assert len(ticks) <= 8
    assert all(low * 0.99 <= tick <= low * factor * 1.01 for tick in ticks)
    assert all(0.0 <= scale(tick) <= 100.0 for tick in ticks)


def test_text_and_attributes_are_escaped() -> None:
    markup = svg.element("g", svg.title("a < b & c"), svg.label(0, 0, "<script>"), name='"x"')
    assert ElementTree.fromstring(markup).get("name") == '"x"'
    assert "<script>" not in markup


def test_curve_marks_every_evaluation_by_how_it_ended() -> None:
    markup = speedup_curve(tell(make_store().events).evaluated, 3.1)
    assert len(with_class(markup, "mark")) == 4
    assert len(with_class(markup, "failed")) == 1
    assert len(with_class(markup, "improved")) == 2
    assert len(with_class(markup, "reference")) == 2


def test_the_final_measurement_is_on_the_curve_after_the_search() -> None:
    story = tell(make_store().events)
    finals = [step for step in story.steps if step.mode == "final"]
    markup = speedup_curve(story.evaluated, 3.1, finals)
    (final,) = with_class(markup, "final")
    circles = [float(e.get("cx", "0")) for e in ElementTree.fromstring(markup).iter(f"{SVG}circle")]
    (own,) = [float(e.get("cx", "0")) for e in final.iter(f"{SVG}circle")]
    assert own == max(circles) and circles.count(own) == 1


@given(st.floats(1e-3, 1e3), st.floats(1.0, 100.0), st.floats(1.0, 100.0))
def test_an_interval_is_never_cut(ratio: float, below: float, above: float) -> None:
    step = next(step for step in tell(make_store().events).evaluated if step.speedup is not None)
    assert step.evaluation is not None
    speedup = Speedup(baseline="eager", ratio=ratio, low=ratio / below, high=ratio * above)
    results = [one.model_copy(update={"speedups": (speedup,)}) for one in step.evaluation.results]
    evaluation = step.evaluation.model_copy(update={"results": tuple(results)})
    (whisker,) = with_class(speedup_curve([replace(step, evaluation=evaluation)], None), "whisker")
    low, high = float(whisker.get("y1", "0")), float(whisker.get("y2", "0"))
    assert high > TOP and low <= 280.0 - BOTTOM - 26.0


def test_best_line_never_falls() -> None:
    markup = speedup_curve(tell(make_store().events).evaluated, None)
    (path,) = with_class(markup, "best-line")
    heights = [float(y) for y in re.findall(r",([\d.]+)", path.get("d", ""))]
    assert heights == sorted(heights, reverse=True)


def test_bars_are_proportional_to_latency() -> None:
    markup = latency_bars([Bar("eager", 8.0, "eager"), Bar("kernelwright", 2.0, "winner")])
    widths = [float(e.get("width", "0")) for e in with_class(markup, "bar")]
    assert widths[0] == pytest.approx(4 * widths[1], rel=1e-2)


def test_roofline_puts_faster_dots_higher_and_none_above_the_roof() -> None:
    work = Work(flops=30_000_000, min_bytes=21_600_000)
    dots = [RooflinePoint("eager", 9.6, "eager"), RooflinePoint("winner", 1.6, "winner")]
    markup = roofline(Ceilings(18.0, 150.0), work, 1.2, dots)
    circles = {e.get("class"): e.find(f"{SVG}circle") for e in with_class(markup, "mark")}
    heights = {name: float(c.get("cy", "0")) for name, c in circles.items() if c is not None}
    (floor,) = with_class(markup, "floor-mark")
    assert float(floor.get("y1", "0")) < heights["mark winner"] < heights["mark eager"]


def test_lineage_highlights_the_winners_line_only() -> None:
    nodes = [
        LineageNode("a", "", "1", "", "verified"),
        LineageNode("b", "a", "2", "", "failed"),
        LineageNode("c", "a", "3", "", "verified"),
    ]
    markup = lineage(nodes, "c")
    assert len(with_class(markup, "node")) == 4
    assert len([e for e in with_class(markup, "on-line") if "node" in e.get("class", "")]) == 3
    assert len([e for e in with_class(markup, "on-line") if "edge" in e.get("class", "")]) == 2


def test_lineage_of_a_long_chain_needs_no_recursion() -> None:
    nodes = [LineageNode(str(i), str(i - 1), str(i), "", "verified") for i in range(1, 1500)]
    assert len(with_class(lineage(nodes, None), "node")) == 1500


def test_highlighting_changes_no_text_and_lets_no_markup_through() -> None:
    markup = highlight(KERNEL)
    assert "<script>" not in markup
    text = re.sub(r"<[^>]+>", "", markup)
    assert text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == KERNEL


def test_text_that_is_no_program_is_shown_as_it_is() -> None:
    hostile = 'x = r"""#include <a>\n' + "int" + " " * 90_000 + 'R"(' * 900
    for source in ("", "\n\n x", "def (", "'''", "'\\", hostile, hostile + '"""', "(" * 200_000):
        assert re.sub("<[^>]+>", "", highlight(source)).replace("&lt;", "<").replace("&gt;", ">") == source


def test_cpp_inside_the_python_string_is_coloured_as_cpp() -> None:
    markup = highlight(KERNEL)
    assert '<span class="tok-keyword">const</span>' in markup
    assert '<span class="tok-keyword">class</span>' in markup


@given(
    st.integers(1, 10**13),
    st.integers(1, 10**11),
    st.floats(1.0, 2000.0),
    st.floats(10.0, 1e5),
    st.lists(st.floats(1e-4, 1e5), min_size=1, max_size=4),
)
def test_roofline_keeps_every_mark_inside_the_picture(
    flops: int, min_bytes: int, gbps: float, gflops: float, latencies: list[float]
) -> None:
    work = Work(flops=flops, min_bytes=min_bytes)
    floor_ms = max(min_bytes / gbps / 1e6, flops / gflops / 1e6, 1e-9)
    dots = [RooflinePoint("dot", ms, "winner") for ms in latencies]
    markup = roofline(Ceilings(gbps, gflops), work, floor_ms, dots)
    for circle in ElementTree.fromstring(markup).iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx", "-1")) <= 520
        assert 0 <= float(circle.get("cy", "-1")) <= 300


def test_the_quotes_around_a_kernel_are_no_part_of_it() -> None:
    markup = highlight('SOURCE = r"""\n#include <cmath>\nint x = 1;\n"""\n')
    assert '<span class="tok-string">r&quot;&quot;&quot;</span>' in markup.replace('"""', "&quot;" * 3)
    assert '<span class="tok-meta">#include</span> <span class="tok-meta">&lt;cmath&gt;' in markup
    assert re.sub("<[^>]+>", "", markup).replace("&lt;", "<").replace("&gt;", ">") == (
        'SOURCE = r"""\n#include <cmath>\nint x = 1;\n"""\n'
    )
