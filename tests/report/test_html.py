import re

import pytest
from lab.sample_run import StubStore, make_store

from kernelwright.core.events import CandidateEvaluated, Diagnosed, TaskPrepared
from kernelwright.report.html import render_report


def visible_text(page: str) -> str:
    body = re.sub(r"<(style|script|title)[\s\S]*?</\1>", " ", page)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_report_says_what_was_found_and_how() -> None:
    text = visible_text(render_report(make_store(), "r0001"))
    for words in (
        "Verified, 6.00x faster than eager",
        "1.94x [1.86, 2.03] over torch.compile.",
        "The fastest this machine could do is 1.2 ms",
        "1.6 ms (6.00x [5.76, 6.30])",
        "3 intermediates (64.8 MB) travel through memory.",
        "It runs at 31 % of the rate the floor allows, so most of the time can go.",
        "streaming-stores[k0]() was not applicable",
        "the reference itself is not finite there",
        "kernelwright optimize tasks/softplus_scale.py ",
        " --recipe kernelskill ",
    ):
        assert words in text.replace("&#39;", "'"), words


def test_report_needs_nothing_from_outside_and_runs_no_foreign_script() -> None:
    page = render_report(make_store(), "r0001")
    links = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    assert all(link.startswith(("#", "data:,")) for link in links)
    assert "<script>alert" not in page
    assert "@import" not in page and "url(" not in page


@pytest.mark.parametrize("is_finished", [True, False])
def test_report_of_a_run_without_a_winner_renders(is_finished: bool) -> None:
    text = visible_text(render_report(make_store(is_finished=is_finished, has_winner=False), "r0001"))
    headline = "Nothing faster found: the module stays as it is" if is_finished else "The run has not ended"
    assert headline in text


def test_report_of_a_run_that_only_began_renders() -> None:
    store = make_store(is_finished=False)
    text = visible_text(render_report(StubStore(store.record, store.events[:1]), "r0001"))
    assert "No step was taken." in text
    assert "There is no kernel to show." in text


def test_report_of_a_failed_run_says_why() -> None:
    store = make_store(is_finished=False)
    record = store.record.model_copy(update={"failure": "no compiler found; install g++"})
    text = visible_text(render_report(StubStore(record, store.events[:1]), "r0001"))
    assert "The run failed no compiler found; install g++" in text


def test_missing_ceilings_and_floors_are_said_not_drawn() -> None:
    store = make_store()
    events = [e for e in store.events if not isinstance(e, Diagnosed)]
    bare = store.record.model_copy(
        update={"spec": store.record.spec.model_copy(update={"environment": {"torch": "2.13.0"}})}
    )
    text = visible_text(render_report(StubStore(bare, events, store.candidates), "r0001"))
    assert "The machine's peaks are not in the record of this run." in text.replace("&#39;", "'")
    unknown = TaskPrepared(floors=(None,), capture_error="data-dependent control flow")
    events = [unknown if isinstance(e, TaskPrepared) else e for e in store.events]
    text = visible_text(render_report(StubStore(store.record, events, store.candidates), "r0001"))
    assert "No floor is known: data-dependent control flow." in text


def test_every_candidate_names_the_device_of_a_fleet_that_judged_it() -> None:
    store = make_store()
    on_devices = [
        e.model_copy(update={"evaluation": e.evaluation.model_copy(update={"device": f"host-{e.step}/cpu"})})
        if isinstance(e, CandidateEvaluated)
        else e
        for e in store.events
    ]
    page = render_report(StubStore(store.record, on_devices, store.candidates), "r0001")
    assert re.findall(r"judged on <code>([^<]+)", page) == [f"host-{n}/cpu" for n in range(1, 6)]
    assert "told eager&#39;s latency on host-1/cpu;" in page
    assert "judged on" not in (plain := render_report(store, "r0001")) and "told eager" not in plain
