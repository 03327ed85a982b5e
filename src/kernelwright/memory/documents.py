"""Documents that a user gives to a run: read as passages, of which a task is shown those that are about it.

GPU Kernel Scientist (arXiv:2506.20807) digests literature for its Designer; here no model is asked for that:
documents are cut at their headings, and passages are ranked by BM25 (Robertson and Zaragoza, 2009).
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kernelwright.core.errors import UserError
from kernelwright.core.learned import Passage
from kernelwright.core.visible import visible_lines

SUFFIXES = frozenset({".md", ".markdown", ".txt", ".rst"})
MAX_BYTES = 1_000_000
"""Of one document; ours."""
MAX_DOCUMENTS = 200
"""Ours."""
PASSAGE = 1200
"""Characters of a passage at most; ours."""
SATURATION, LENGTH = 1.2, 0.75
"""BM25's k1 and b at their usual values."""
_WORD = re.compile(r"[a-z][a-z0-9_]{2,}")
_HEADING = re.compile(r"^#{1,6}\s+(?P<title>.+?)\s*#*$", re.M)


def read_documents(folder: Path) -> tuple[Passage, ...]:
    """Return the passages of all Markdown and text files below a folder, in order of their names.

    Raises:
        UserError: no such folder, nothing to read in it, or a document that is too large or no text.
    """
    if not folder.is_dir():
        raise UserError(f"--findings: {folder} is no folder; name one with Markdown or text files")
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not files:
        raise UserError(f"--findings: {folder} holds no {', '.join(sorted(SUFFIXES))} files")
    if len(files) > MAX_DOCUMENTS:
        raise UserError(
            f"--findings: {folder} holds {len(files)} documents; at most {MAX_DOCUMENTS} are read"
        )
    found = tuple(p for path in files for p in passages(str(path.relative_to(folder)), _text(path)))
    if not found:
        raise UserError(f"--findings: the documents in {folder} are empty")
    return found


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"--findings: {path} is larger than {MAX_BYTES} bytes; cut it into parts")
        return visible_lines(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise UserError(f"--findings: {path} is no UTF-8 text") from None
    except OSError as error:
        raise UserError(f"--findings: {path} cannot be read: {error.strerror}") from error


def passages(name: str, text: str) -> list[Passage]:
    """Return a document cut at its headings, and long sections at their paragraphs.

    Each passage says where it stands: the document's name, and the title of its section where there is one.
    """
    return [
        Passage(source=f"{name}, {title}" if title else name, text=part)
        for title, section in _sections(text)
        for part in _parts(section)
    ]


def _sections(text: str) -> Iterator[tuple[str, str]]:
    title, begin = "", 0
    for heading in _HEADING.finditer(text):
        yield title, text[begin : heading.start()]
        title, begin = heading["title"], heading.end()
    yield title, text[begin:]


def _parts(section: str) -> Iterator[str]:
    """Yield whole paragraphs, as many as fit into a passage; a longer paragraph is cut."""
    held = ""
    for paragraph in re.split(r"\n\s*\n", section.strip()):
        if held and len(held) + len(paragraph) + 2 > PASSAGE:
            yield held
            held = ""
        held = f"{held}\n\n{paragraph}".strip()
        while len(held) > PASSAGE:
            yield held[:PASSAGE]
            held = held[PASSAGE:].strip()
    if held:
        yield held


def choose(found: Sequence[Passage], about: Iterable[str], count: int) -> tuple[Passage, ...]:
    """Return the passages that are most about these texts, best first; none that shares no word with them."""
    wanted = set(_words("\n".join(about)))
    texts = [Counter(_words(f"{passage.source}\n{passage.text}")) for passage in found]
    scored = [(_score(words, wanted, texts), -place) for place, words in enumerate(texts)]
    best = sorted((pair for pair in scored if pair[0] > 0), reverse=True)[:count]
    return tuple(found[-place] for _, place in best)


def _score(words: Counter[str], wanted: set[str], texts: Sequence[Counter[str]]) -> float:
    mean = sum(text.total() for text in texts) / len(texts)
    return sum(_weight(word, texts) * _frequency(words, word, mean) for word in sorted(wanted & words.keys()))


def _frequency(words: Counter[str], word: str, mean: float) -> float:
    n = words[word]
    return n * (SATURATION + 1) / (n + SATURATION * (1 - LENGTH + LENGTH * words.total() / mean))


def _weight(word: str, texts: Sequence[Counter[str]]) -> float:
    n = sum(word in text for text in texts)
    return math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
