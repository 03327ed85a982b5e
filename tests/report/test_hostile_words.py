"""Words of tasks and candidates, however meant, on a terminal and in Markdown."""

import io
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st
from rich.table import Table as RichTable
from rich.text import Text

from kernelwright.core.checkup import Checkup, Flag, Severity
from kernelwright.report.checkups import checkups_markdown
from kernelwright.report.console import PlainConsole
from kernelwright.report.markdown import bullets, code, plain, table

ACTING = st.sampled_from(
    [
        *("\x1b[2J", "\x1b]0;t\x07", "\u202e", "\u2066", "\u200b", "\x9b31m", "\r", "\n", "\n# ", "\n```\n"),
        *("\ud800", "\x00", "\u2028", "|", "\\", "\\|", "`", "<b>", "<script>", "<!--", "[a](http://b)"),
        *("![a](b)", "](", "&lt;", "[bold]"),
    ]
)
WORDS = st.lists(st.one_of(ACTING, st.text(max_size=4)), max_size=6).map("".join)
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def hidden(text: str) -> set[str]:
    """Return the characters that act without being seen; ends of lines are meant."""
    return {c for c in text if unicodedata.category(c) in HIDDEN and c != "\n"}


def columns(row: str) -> int:
    """Count the cells of a row as a reader of Markdown does: a backslash takes the next character with it."""
    bars, at = 0, 0
    while at < len(row):
        bars += row[at] == "|"
        at += 2 if row[at] == "\\" else 1
    return bars - 1


@given(WORDS, WORDS)
@example("\\", "|")
@example("a\\", "\\|b")
def test_words_stay_in_their_cell(one: str, other: str) -> None:
    text = table((one, other), [(other, one)])
    lines = text.split("\n")
    assert len(lines) == 3 and {columns(line) for line in lines} == {2}
    assert not hidden(text) and "<" not in text and "](" not in text


@given(WORDS)
@example("````")
def test_words_are_one_line_without_markup(words: str) -> None:
    for text in (plain(words), bullets([words])):
        assert "\n" not in text and not hidden(text) and "<" not in text and "](" not in text
    assert code(words).count("\n") == 2 and code(words).count("```") == 2 and not hidden(code(words))


@given(WORDS)
def test_a_check_of_a_hostile_task_keeps_its_form(words: str) -> None:
    flag = Flag(check="unstable", severity=Severity.DOUBTFUL, says=words, advice=words)
    checkup = Checkup(task=words, task_id="0", path=words, sizes={}, flags=(flag, flag))
    written = checkups_markdown(words, [checkup], date="", command="", environment={words: words})
    tame = checkup.model_copy(update={"task": "", "flags": (flag.model_copy(update={"says": ""}),)})
    lines = checkups_markdown("", [tame], date="", command="", environment={"": ""}).count("\n")
    assert written.count("\n") == lines and not hidden(written)
    assert "<" not in written.replace("<br>", "") and "](" not in written


@given(WORDS)
def test_nothing_hidden_reaches_a_terminal(words: str) -> None:
    shown = RichTable(words)
    shown.add_row(words)
    for what in (words, Text(words), shown):
        file = io.StringIO()
        PlainConsole(file=file, width=200, color_system=None).print(what)
        assert not hidden(file.getvalue()), what
