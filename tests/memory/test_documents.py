"""Documents that a user gives: cut into passages, and only those shown that are about the task."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.errors import UserError
from kernelwright.core.learned import Passage
from kernelwright.memory.documents import MAX_BYTES, PASSAGE, choose, passages, read_documents

NOTES = "intro\n\n# Softmax rows\n\nKeep the row in registers.\n\n## Products ##\n\nBlock for the cache.\n"


def test_a_document_is_cut_at_its_headings() -> None:
    assert passages("isa.md", NOTES) == [
        Passage(source="isa.md", text="intro"),
        Passage(source="isa.md, Softmax rows", text="Keep the row in registers."),
        Passage(source="isa.md, Products", text="Block for the cache."),
    ]


@given(st.lists(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=3000), max_size=6))
def test_nothing_is_lost_and_no_passage_is_too_long(paragraphs: list[str]) -> None:
    text = "\n\n".join(part.lstrip("#") for part in paragraphs)
    parts = passages("a.txt", text)
    assert all(0 < len(part.text) <= PASSAGE for part in parts)
    assert "".join("".join(part.text for part in parts).split()) == "".join(text.split())


def test_passages_about_the_task_come_first_and_others_not_at_all() -> None:
    found = passages("isa.md", NOTES)
    chosen = choose(found, ["torch.softmax(x, dim=-1) over each row"], 2)
    assert [passage.source for passage in chosen] == ["isa.md, Softmax rows"]
    assert choose(found, ["convolution"], 2) == ()


def test_a_folder_is_read_with_what_lies_below_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.txt").write_text("second\x1b[31m")
    (tmp_path / "a.md").write_text("first")
    (tmp_path / "c.png").write_bytes(b"\x89PNG")
    assert [(p.source, p.text) for p in read_documents(tmp_path)] == [
        ("a.md", "first"),
        ("deep/b.txt", "second⟨ESC⟩[31m"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.md", b"\xff\xfe", "is no UTF-8 text"),
        ("a.md", b"x" * (MAX_BYTES + 1), "is larger than"),
        ("a.md", b" \n", "are empty"),
        ("a.pdf", b"%PDF", "holds no .markdown, .md"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said) as raised:
        read_documents(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no folder"):
        read_documents(tmp_path / "nowhere")
