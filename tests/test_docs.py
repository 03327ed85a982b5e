"""What the pages point at is there: links between pages, and the files that the pages name."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "kernelwright"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|md|j2|cpp|h))`")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> list[str]:
    found = []
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        there = (page.parent / target).resolve() if target else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            found.append(f"{page.name}: {target}#{anchor}")
    return found


def missing_files(page: Path) -> list[str]:
    """Return the paths in backquotes, of the package or of the repository, that lead nowhere."""
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    places = (PACKAGE, ROOT, page.parent)
    return [f"{page.name}: {n}" for n in named if not any((p / n).exists() for p in places)]


def test_every_link_leads_somewhere() -> None:
    assert [broken for page in PAGES for broken in broken_links(page)] == []


def test_every_file_that_a_page_names_is_there() -> None:
    assert [missing for page in PAGES for missing in missing_files(page)] == []


def test_a_broken_link_and_a_missing_file_are_found(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    assert "first-success" in anchors(page) and "no-such-heading" not in anchors(page)
    page = tmp_path / "page.md"
    page.write_text("See [a page](nowhere.md) and `runs/no_such_file.py`, not `runs/loop.py`.")
    assert len(broken_links(page)) == len(missing_files(page)) == 1
    assert NAMED.findall("see `runs/loop.py` and `ir/`") == ["runs/loop.py"]
