"""Which files a source may have read: headers by name, nothing by path. A text rule, no sandbox."""

import re

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_READS = re.compile(r"(?:#|%:|\?\?=)[^\S\n]*(?:/\*|(?:include_next|include|import|embed)\b)")
_PLAIN = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*(?:<(?P<angle>[^<>\n]*)>|\"(?P<quote>[^\"\n]*)\")", re.MULTILINE
)
_HEADER = re.compile(r"[\w+.-]+(?:/[\w+.-]+)*")
_ASSEMBLER = re.compile(r"\.\s*(?:incbin|include)\b")


def refused_reads(source: str) -> str | None:
    """Return why the source may not be given to a compiler, None when it may.

    Allowed is ``#include`` at the beginning of a line with a header's name in it: no absolute path, no
    ``..``, no macro. Digraphs, trigraphs and continued lines are seen through; words that the assembler of
    the host reads from a macro are not. What a sandbox forbids it forbids better.
    """
    text = _SPLICE.sub("", source)
    plain = {match.start(): match for match in _PLAIN.finditer(text)}
    for match in plain.values():
        header = match["angle"] if match["angle"] is not None else match["quote"]
        if not _HEADER.fullmatch(header.strip()) or ".." in header.split("/"):
            return f"#include of a path: {header[:80]!r}; a header is included by its name"
    directives = [match.start() for match in _READS.finditer(text)]
    starts = {text.index("#", start) for start in plain}
    for start in directives:
        if start not in starts:
            line = text[start : start + 80].partition("\n")[0]
            return f"not a plain #include <header>: {line!r}"
    found = _ASSEMBLER.search(text)
    return f"assembler directive that reads a file: {found[0]!r}" if found else None
