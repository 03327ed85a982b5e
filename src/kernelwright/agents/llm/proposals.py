"""From a proposed change to a Move, or to the reason why it is refused."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kernelwright.agents.llm.outputs import ProposedMove
from kernelwright.agents.roles import Analysis, Situation
from kernelwright.core.frozen import content_hash
from kernelwright.core.plan import Move, Plan

FREE = "free"
"""Skill of a move that none of the skills covers."""
REPAIR = "repair"
"""Skill of every repair by a model."""
MAX_STEPS = 12
"""Steps of one move that are kept; our choice."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])")
_CLOSE = 0.5
"""A quoted figure may be a shown one rounded: it is off by at most half its last digit."""


@dataclass(frozen=True)
class Offer:
    """What a proposal may choose among."""

    menu: Mapping[str, Move] = field(default_factory=dict)
    """Label -> move that is taken as it is."""
    skills: tuple[str, ...] = ()
    """Names that a move in words may carry; empty where the Coder can only carry out the menu."""

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that ``skill`` may be, moves in words first."""
        return (*self.skills, *self.menu)

    @property
    def only_menu(self) -> bool:
        """True where nothing but the menu can be carried out."""
        return not self.skills


def skills_offered(analysis: Analysis | None) -> tuple[str, ...]:
    """Return the ranked skills, best first, and FREE."""
    return (*(ranked.skill for ranked in analysis.ranked), FREE) if analysis is not None else (FREE,)


def menu_of(moves: Iterable[Move], letter: str = "m") -> dict[str, Move]:
    """Return the moves under short labels."""
    return {f"{letter}{n}": move for n, move in enumerate(moves, start=1)}


def without_repairs(plan: Plan) -> Plan:
    """Return what the plan is about: a model's repair mends one source and tells nothing to another."""
    return Plan(moves=tuple(move for move in plan.moves if move.skill != REPAIR))


def to_move(proposed: ProposedMove, offer: Offer) -> Move | str:
    """Return the move, or one line that says why there is none."""
    name = _bare(proposed.skill)
    why, expects = _one_line(proposed.why), _one_line(proposed.expects)
    if name in offer.menu:
        taken = offer.menu[name]
        return taken.model_copy(update={"why": why or taken.why, "expects": expects or taken.expects})
    if name not in offer.skills:
        return f"skill {name!r} is none of those offered: {', '.join(offer.names) or 'nothing is'}"
    steps = [_without_number(" ".join(step.split())) for step in proposed.steps if step.strip()][:MAX_STEPS]
    if not steps:
        return f"skill {name!r} needs steps that say what to change"
    text = "\n".join(f"{n}. {step}" for n, step in enumerate(steps, start=1))
    return Move(skill=name, why=why, expects=expects, text=text)


def mended(
    proposed: ProposedMove,
    offer: Offer,
    situation: Situation,
    evidence: str | None,
    source: str,
    chosen: Collection[str] = (),
) -> tuple[Move, ProposedMove]:
    """Return the move of a kernel that was written, and its proposal without figures of unknown origin.

    A skill that was not offered counts as FREE. A move without steps, or with those of one that the base has,
    that was tried on it or that is among the ``chosen`` keys, is told apart by its kernel's hash.
    """
    told = evidence or ""
    quotes = [quote for quote in proposed.evidence if find_unfounded([quote], told) is None]
    founded = proposed.model_copy(update={"evidence": quotes})
    move = to_move(founded, offer)
    if isinstance(move, str):
        named = _bare(founded.skill)
        name = named if named in offer.skills else FREE
        steps = founded.steps or [founded.why or "as the source shows"]
        move = to_move(founded.model_copy(update={"skill": name, "steps": steps}), offer)
    assert isinstance(move, Move)
    differing = founded.model_copy(update={"differs": "its kernel"})
    if not founded.steps or move.key in chosen or find_repetition(move, differing, situation):
        move = move.model_copy(update={"text": f"{move.text} (kernel {content_hash(source)[:8]})"})
    return move, founded


def find_repetition(move: Move, proposed: ProposedMove, situation: Situation) -> str | None:
    """Return why the move repeats what is known of the base; None when it does not."""
    if situation.base is None:
        return None
    base = situation.base.candidate
    tried = situation.memory.attempt(base.id, move)
    if tried is not None:
        return f"this very move was tried on this base: {tried.ended}"
    if any(move.key == done.key for done in base.plan.moves):
        return "the base carries out this very move already"
    same = [a for a in situation.memory.tried(base.id) if a.move.skill == move.skill]
    if same and move.text and not proposed.differs.strip():
        return (
            f"skill {move.skill!r} was tried on this base ({same[-1].ended}): say in `differs` what is new, "
            "or take another"
        )
    return None


def find_unfounded(quotes: Iterable[str], evidence: str) -> str | None:
    """Return why the quoted figures cannot be trusted; None when each occurs in the evidence.

    A figure may be rounded, a fraction given in per cent, or the quotient of two others that are quoted.
    """
    figures = [figure for quote in quotes for figure in _NUMBER.findall(quote)]
    if not figures:
        return "no figure of the evidence is quoted"
    shown = [float(text) for text in _NUMBER.findall(evidence)]
    known = [figure for figure in figures if any(_is_rounded(figure, value) for value in shown)]
    quotients = [float(a) / float(b) for a, b in itertools.permutations(known, 2) if float(b)]
    missing = [
        figure
        for figure in figures
        if figure not in known and not any(_is_rounded(figure, value) for value in quotients)
    ]
    return f"figures that do not occur in the evidence: {', '.join(missing)}" if missing else None


def _is_rounded(figure: str, value: float) -> bool:
    quoted = float(figure)
    mantissa, _, exponent = figure.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits)
    return any(abs(quoted - shown) <= _CLOSE * unit * (1 + 1e-9) for shown in (value, 100 * value))


def _without_number(step: str) -> str:
    return re.sub(r"^\d+[.)]\s+", "", step)


def _bare(name: str) -> str:
    return name.strip().strip("`'\"")


def _one_line(text: str) -> str:
    return " ".join(text.split())
