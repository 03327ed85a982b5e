"""Text of others made harmless to show: no character in it acts on a terminal, Markdown or HTML unseen."""

import unicodedata
from functools import cache

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that act without being seen: controls, formats such as changes of direction,
halves of surrogate pairs, separators of lines and paragraphs."""
_NAMES = {0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x09: "TAB", 0x0A: "LF", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL"}


def visible(text: str, keep: str = "") -> str:
    """Return the text with every hidden character replaced by its name in angle brackets, such as ⟨ESC⟩.

    Characters in ``keep`` stay. Line ends of other systems become plain ones first.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep else _shown(c) for c in text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return the same on one line: line ends and tabs become blanks."""
    return visible(text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def visible_lines(text: str) -> str:
    """Return the same with line ends and tabs kept."""
    return visible(text, keep="\n\t")


@cache
def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    return f"⟨{_NAMES.get(code, f'U+{code:04X}')}⟩"
