"""The site builds from the pages and the docstrings, with every link checked."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kernelwright

ROOT = Path(__file__).parents[2]


def rewritten(text: str, page: str = "referee.md") -> str:
    hook: dict[str, object] = {}
    exec((ROOT / "scripts" / "docs_links.py").read_text(encoding="utf-8"), hook)
    place = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    repository = SimpleNamespace(extra={"repository": "https://example.org/r/"})
    return str(hook["on_page_markdown"](text, place, repository, None))  # type: ignore[operator]


def test_a_link_out_of_the_docs_leads_to_the_repository_and_others_stay() -> None:
    assert rewritten("[a](../README.md#x)") == "[a](https://example.org/r/blob/main/README.md#x)"
    assert rewritten("![a](../out/p.svg)") == "![a](https://example.org/r/blob/main/out/p.svg?raw=true)"
    assert (
        rewritten("[a](../../LICENSE)", "recipes/stark.md") == "[a](https://example.org/r/blob/main/LICENSE)"
    )
    for stays in ("[a](skills.md#b)", "[a](https://x.org/../y)", "`../z`"):
        assert rewritten(stays) == stays
    assert rewritten("[a](../models.md)", "recipes/stark.md") == "[a](../models.md)"


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = [line.removeprefix("::: kernelwright.") for line in page.splitlines() if line.startswith(":::")]
    assert sorted(named) == sorted(set(kernelwright.__all__) - {"__version__"})


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for package in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python"):
        pytest.importorskip(package, reason="the site needs the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    assert "kernelwright.optimize" in reference and "kernelwright.Evaluation" in reference
    assert (tmp_path / "site" / "tutorial.html").exists()
