"""Span anchors: where a plan says that a source is to be changed.

Source: STARK's grounded instruction (arXiv 2510.16996), whose markers these are.
"""

import re

BEGINS = "<<<IMPROVE BEGINS>>>"
ENDS = "<<<IMPROVE ENDS>>>"
_PIECE_OF_MARKER = "<<<IMPROVE"
_MARKER = re.compile(f"{BEGINS}|{ENDS}")
_MARKER_LINE = re.compile(rf"^[ \t]*(?:#|//)?[ \t]*(?:{BEGINS}|{ENDS})[ \t]*$")


def has_marker(source: str) -> bool:
    """Tell whether any marker, or a piece of one, is left."""
    return _PIECE_OF_MARKER in source


def without_markers(anchored: str) -> str:
    """Return the source without markers; lines that hold nothing but one, as a comment or bare, go whole."""
    lines = (line for line in anchored.split("\n") if not _MARKER_LINE.match(line))
    return "\n".join(_MARKER.sub("", line) for line in lines)


def find_anchor_problem(anchored: str, base: str) -> str | None:
    """Return what is wrong with the anchors in one line, None when they mark spans of exactly this base.

    Empty lines, spaces at the ends of lines and spaces around a marker inside a line do not count.
    """
    markers = _MARKER.findall(anchored)
    if not markers:
        return f"no span is marked: {BEGINS} ... {ENDS} is missing"
    if markers != [BEGINS, ENDS] * (len(markers) // 2):
        return "the markers do not come in pairs of BEGINS and ENDS"
    ours, theirs = _comparable(base), _comparable(without_markers(anchored))
    if ours == theirs:
        return None
    pairs = zip([*ours, ""], [*theirs, ""], strict=False)
    line = next((mine or other for mine, other in pairs if mine != other), "")
    return f"without its markers the anchored source is not the base's source; it differs at {line.strip()!r}"


def outside_pieces(anchored: str) -> tuple[str, ...]:
    """Return the whole lines outside all spans, in order, one text for each piece between two spans."""
    pieces: list[list[str]] = [[]]
    is_inside = False
    for line in anchored.split("\n"):
        if _MARKER.search(line):
            is_inside = line.rfind(BEGINS) > line.rfind(ENDS)
            pieces.append([])
        elif not is_inside and line.strip():
            pieces[-1].append(line.rstrip())
    return tuple("\n".join(piece) for piece in pieces if piece)


def changes_outside(anchored: str, answer: str) -> tuple[str, ...]:
    """Return the first line of each outside piece that the answer does not hold unchanged and in order."""
    rest = "\n".join(["", *(line.rstrip() for line in answer.split("\n") if line.strip()), ""])
    changed = []
    for piece in outside_pieces(anchored):
        position = rest.find(f"\n{piece}\n")
        if position < 0:
            changed.append(piece.split("\n")[0].strip())
        else:
            rest = rest[position + len(piece) + 1 :]
    return tuple(changed)


def _comparable(source: str) -> list[str]:
    """Return lines as indentation and text without spaces."""
    lines = (line.rstrip() for line in source.split("\n"))
    return [line[: len(line) - len(line.lstrip())] + "".join(line.split()) for line in lines if line.strip()]
