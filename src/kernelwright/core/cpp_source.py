"""Comments in C++ and CUDA texts, found by their tokens."""

import re

_COMMENT = r"//(?:\\[ \t\r]*\n|[^\n])*|/\*.*?\*/"
_TOKEN = re.compile(
    rf"""
    (?P<kept>
        (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{{0,16}})\(.*?\)(?P=delimiter)"   # a raw string
      | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+'                                # a string, a character
      | [A-Za-z_$]\w* | \.?\d(?:[eEpP][+-]|'?[\w.])*                             # a name, a number
      | \\[ \t\r]*\n                                                             # a line that goes on
    )
  | (?P<blank>(?:\s|{_COMMENT})+)
  | (?P<doubt>["']|/\*)
  | (?P<other>.)
    """,
    re.X | re.S,
)
_DOUBTS = re.compile(r"__LINE__|\?\?/|[/*]\\[ \t\r]*\n|#[ \t]*include[ \t]*<[^>\n]*/[/*]")
"""Lines that are counted, trigraphs, comment marks that a line break splits, headers named like comments."""


def without_comments(text: str) -> str:
    """Return a C++ text without comments, blank lines and blanks at the ends of lines.

    What stands in strings stays. A text with anything that leaves a doubt is returned as it is.
    """
    if _DOUBTS.search(text):
        return text
    parts = []
    for token in _TOKEN.finditer(text):
        if token["doubt"]:
            return text
        parts.append(_blank(token["blank"]) if token["blank"] else token[0])
    return "".join(parts).strip() + "\n"


def _blank(run: str) -> str:
    """Return one space for blanks and comments on a line, one line break and the indentation for more."""
    spaces = re.sub(_COMMENT, "", run, flags=re.S)
    _, line_break, indentation = spaces.rpartition("\n")
    return line_break + indentation if line_break else " "
