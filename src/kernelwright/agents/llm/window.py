"""Context windows: which sections a prompt has, in which order, and how they fit a budget of tokens."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.core.errors import UserError

BYTES_PER_TOKEN = 2.5
"""Ours, on the safe side: tokenisers make a token of three to four bytes of code or English."""
LEAST_KEPT = 200
"""Characters below which an optional section is dropped rather than shortened; our choice."""

KEPT_SHARE = 20
"""What keeps some may keep one part in so many of the budget; our choice."""


@dataclass(frozen=True)
class Section:
    """A titled piece of a prompt."""

    title: str
    text: str
    priority: int
    """Higher is kept longer."""
    is_required: bool = False
    """Never dropped; shortened only when nothing else is left."""
    keeps_tail: bool = False
    """True where the end says most, as in a log."""
    keeps_some: bool = False
    """Shortened rather than dropped, before required ones are: what a change is grounded in."""


@dataclass(frozen=True)
class Slot:
    """A place in a window: the name of a section in ``guidance.SECTIONS`` and what it is worth."""

    section: str
    priority: int
    is_required: bool = False
    keeps_tail: bool = False
    keeps_some: bool = False


@dataclass(frozen=True)
class PromptWindow:
    """What one prompt shows, in this order."""

    budget_tokens: int
    """Of everything that is sent: system part, the schema of a structured answer, corrections."""
    slots: tuple[Slot, ...]


CORRECTION_SHARE, MAX_CORRECTION_TOKENS = 8, 2_000
"""Of what a model has room for, one part in so many, and never more than this, is kept free for an answer
that is not the JSON that was asked for and the complaint about it; our choice."""


def correction_tokens(prompt_tokens: int | None) -> int:
    """Return what is kept free for corrections; ``prompt_tokens`` as in ``prompts.render``."""
    if prompt_tokens is None:
        return MAX_CORRECTION_TOKENS
    return min(MAX_CORRECTION_TOKENS, prompt_tokens // CORRECTION_SHARE)


def estimate_tokens(text: str) -> int:
    """Return a number of tokens that no common tokeniser exceeds on code and English."""
    return math.ceil(_bytes(text) / BYTES_PER_TOKEN)


def fit(sections: Sequence[Section], budget_tokens: int) -> str:
    """Return the sections as Markdown within the budget by ``estimate_tokens``.

    Of what is too much, the lowest priority goes first, of equals the later one: shortened if a useful part
    fits, else dropped. Both are marked. Empty sections are left out. Those that keep some are shortened after
    all other optional ones are gone, required ones last.

    Raises:
        UserError: not even the titles of the required sections fit.
    """
    page = _Page([section for section in sections if section.text.strip()], budget_tokens)
    order = sorted(range(len(page.sections)), key=lambda n: (page.sections[n].priority, -n))
    for n in order:
        section = page.sections[n]
        if not (page.fits() or section.is_required or section.keeps_some):
            page.shorten_or_drop(n)
    for n in order:
        if not page.fits() and page.sections[n].keeps_some:
            page.shorten(n, at_least=max(LEAST_KEPT, page.room // KEPT_SHARE))
    for n in order:
        if not page.fits() and page.sections[n].is_required:
            page.shorten(n, at_least=0)
    if not page.fits() and any(section.keeps_some for section in page.sections):
        return fit([replace(section, keeps_some=False) for section in page.sections], budget_tokens)
    if not page.fits():
        raise UserError(f"a prompt of {budget_tokens} tokens has no room for its required sections")
    return page.text()


def cut_to(text: str, tokens: int) -> str:
    """Return the beginning of a text that is at most so many tokens long, with a mark where it was cut."""
    if estimate_tokens(text) <= tokens:
        return text
    length = _largest(lambda n: estimate_tokens(_cut(text, n, keeps_tail=False)) <= tokens, 0, len(text) - 1)
    return _cut(text, length, keeps_tail=False) if length >= 0 else ""


class _Page:
    """Sections while they are being fitted; sizes are kept in bytes, so that trying a length is cheap."""

    def __init__(self, sections: list[Section], budget_tokens: int) -> None:
        self.sections = sections
        self.room = math.floor(budget_tokens * BYTES_PER_TOKEN)
        self._shown: list[str | None] = [section.text.strip() for section in sections]
        self._sizes = [_bytes(self._part(n)) for n in range(len(sections))]

    def text(self) -> str:
        parts = [self._part(n) for n, shown in enumerate(self._shown) if shown is not None]
        return "\n\n".join([*parts, *self._mark()])

    def fits(self) -> bool:
        sizes = [*self._sizes, *map(_bytes, self._mark())]
        shown = [size for size in sizes if size]
        return sum(shown) + 2 * max(len(shown) - 1, 0) <= self.room

    def shorten_or_drop(self, n: int) -> None:
        if not self.shorten(n, at_least=LEAST_KEPT):
            self._show(n, None)

    def shorten(self, n: int, at_least: int) -> bool:
        """Keep as much of a section as fits, at least so many characters; True when it fits now."""
        whole, section = self.sections[n].text.strip(), self.sections[n]

        def fits_with(length: int) -> bool:
            self._show(n, _cut(whole, length, keeps_tail=section.keeps_tail))
            return self.fits()

        length = _largest(fits_with, at_least, len(whole))
        return fits_with(max(length, at_least))

    def _show(self, n: int, text: str | None) -> None:
        self._shown[n] = text
        self._sizes[n] = 0 if text is None else _bytes(self._part(n))

    def _part(self, n: int) -> str:
        return f"## {self.sections[n].title}\n{self._shown[n]}"

    def _mark(self) -> list[str]:
        """Return the line that names what was dropped, if anything was."""
        pairs = zip(self.sections, self._shown, strict=True)
        dropped = [section.title for section, shown in pairs if shown is None]
        return [f"(left out for length: {'; '.join(dropped)})"] if dropped else []


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))


def _largest(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest number in the range for which the test holds, low - 1 when none does."""
    best = low - 1
    while low <= high:
        middle = (low + high) // 2
        if holds(middle):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


def _cut(text: str, length: int, *, keeps_tail: bool) -> str:
    """Return whole lines of one end of the text, at most so many characters, with a mark for the rest."""
    if length >= len(text):
        return text
    if keeps_tail:
        kept = text[len(text) - length :]
        kept = kept[kept.find("\n") + 1 :] if "\n" in kept else kept
        return f"[... {len(text) - len(kept)} characters cut ...]\n{kept}"
    kept = text[:length]
    kept = kept[: kept.rfind("\n")] if "\n" in kept else kept
    return f"{kept}\n[... {len(text) - len(kept)} characters cut ...]"


_TASK = (Slot("contract", 90, is_required=True), Slot("reference", 85, is_required=True))
_FLOOR, _DIAGNOSIS = Slot("floor", 80, keeps_some=True), Slot("diagnosis", 80, keeps_some=True)
_KNOWN = (Slot("findings", 45), Slot("documents", 42, keeps_some=True), Slot("archive", 35))
"""What earlier runs and documents say: the same for the whole run."""
_RANKED = Slot("ranked", 75, keeps_some=True)
_LEARNED = (Slot("timings", 76, keeps_some=True), Slot("tuned", 62))
_TRIED = Slot("tried", 70, keeps_some=True)
_BASE = Slot("base", 95, is_required=True)
_OF_BASE = (_BASE, _DIAGNOSIS, Slot("evidence", 60))
_MENU = Slot("menu", 92, is_required=True)
_FAILURE = Slot("failure", 92, is_required=True, keeps_tail=True)
_REFUSED = Slot("refused", 100, is_required=True)


def _task(operators: int | None = None) -> tuple[Slot, ...]:
    """Return what stays the same for the whole run; a server may keep this beginning of a prompt."""
    listed = () if operators is None else (Slot("operators", operators),)
    return (*_TASK, *listed, _FLOOR, *_KNOWN)


def _improving(guidance: int, others: int | None, *, operators: int | None = 30) -> tuple[Slot, ...]:
    """Return what a role is told that makes a kernel faster: what changes most stands last."""
    shown = () if others is None else (Slot("others", others),)
    return (*_task(operators), *_OF_BASE, *_LEARNED, _RANKED, Slot("guidance", guidance), _TRIED, *shown)


def _carrying_out(others: int) -> tuple[Slot, ...]:
    """Return what a Coder is told who is given a plan: which skills apply is decided."""
    kept = tuple(slot for slot in _improving(65, others) if slot is not _RANKED)
    return (*kept, Slot("steps", 98, is_required=True), _REFUSED)


_BLIND = (
    Slot("contract", 90, is_required=True),
    Slot("operators", 80),
    _FLOOR,
    *_KNOWN,
    _DIAGNOSIS,
    Slot("evidence", 60),
    Slot("plans", 70),
    _RANKED,
    _MENU,
)
"""For the Breeder, which sees plans in place of kernels."""

WINDOWS: Mapping[str, PromptWindow] = {
    "generator": PromptWindow(24_000, (*_task(50), *_LEARNED, Slot("earlier", 60), _REFUSED)),
    "analyst": PromptWindow(16_000, (Slot("contract", 50), Slot("operators", 40), _BASE)),
    "planner": PromptWindow(32_000, (*_improving(50, 40, operators=None), _MENU, _REFUSED)),
    "planner_writes": PromptWindow(32_000, (*_improving(50, 40), _REFUSED)),
    "planner_anchors": PromptWindow(40_000, (*_improving(50, 65, operators=None), _REFUSED)),
    "coder_write": PromptWindow(32_000, _carrying_out(40)),
    "coder_translate": PromptWindow(32_000, _carrying_out(40)),
    "coder_rewrite": PromptWindow(
        32_000, (*_improving(40, 30), replace(_FAILURE, priority=88, is_required=False), _REFUSED)
    ),
    "debugger_diagnose": PromptWindow(
        32_000,
        (*_TASK, Slot("others", 40), _BASE, Slot("chain", 70), replace(_FAILURE, priority=97), _REFUSED),
    ),
    "debugger_repair": PromptWindow(
        32_000,
        (
            *_TASK,
            Slot("operators", 20),
            Slot("floor", 30, keeps_some=True),
            Slot("timings", 28, keeps_some=True),
            Slot("others", 40),
            _BASE,
            Slot("diagnosis", 30, keeps_some=True),
            Slot("tried", 25, keeps_some=True),
            Slot("chain", 70),
            _FAILURE,
            Slot("cause", 98),
            _REFUSED,
        ),
    ),
    "selector": PromptWindow(12_000, (Slot("contract", 60), Slot("choices", 90, is_required=True), _REFUSED)),
    "designer": PromptWindow(
        40_000, (*_improving(50, 65, operators=None), Slot("literature", 44), _MENU, _REFUSED)
    ),
    "breeder_populate": PromptWindow(16_000, (*_BLIND, Slot("guidance_in_words", 40), _TRIED, _REFUSED)),
    "breeder_cross": PromptWindow(
        16_000,
        (*(replace(s, priority=60) if s.section == "operators" else s for s in _BLIND), _TRIED, _REFUSED),
    ),
    "aligner": PromptWindow(
        24_000, (Slot("plan", 98, is_required=True), Slot("source", 95, is_required=True), _REFUSED)
    ),
}
"""Prompt -> its window. Budgets and priorities are ours: the papers give neither. The windows of STARK's
roles differ in which nodes the recipe puts into ``Situation.window``; they are the section ``others``."""
