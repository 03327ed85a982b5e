"""The few SVG primitives the charts are made of; colours come from CSS classes."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from kernelwright.core.visible import visible_line


def element(tag: str, /, *children: str, **attributes: object) -> str:
    """Return one element; ``class_`` and ``stroke_width`` become ``class`` and ``stroke-width``.

    Children are markup and go in as they are; attribute values are escaped, None ones left out.
    """
    parts = [tag]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            parts.append(f"{key.rstrip('_').replace('_', '-')}={quoteattr(shown)}")
    head = " ".join(parts)
    return f"<{head}>{''.join(children)}</{tag}>" if children else f"<{head}/>"


def label(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> str:
    """Return a text element with its content escaped, hidden characters named."""
    return element("text", escape(visible_line(content)), x=x, y=y, class_=class_ or None, text_anchor=anchor)


def title(content: str) -> str:
    """Return the tooltip of the enclosing element."""
    return element("title", escape(visible_line(content)))


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: list[tuple[float, float]], class_: str) -> str:
    """Return an open path through the points; empty for fewer than two."""
    if len(points) < 2:
        return ""
    steps = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("path", d=f"M{steps}", class_=class_, fill="none")


def picture(width: float, height: float, *children: str, name: str, description: str) -> str:
    """Return a whole SVG that scales with its container and says what it shows."""
    return element(
        "svg",
        title(description),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        class_=f"chart {name}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
        width="100%",
        style=f"max-width:{width * 1.4:g}px",
    )


def standalone(picture: str, style: str) -> str:
    """Return the picture as a file of its own, with the style sheet that a page would give it."""
    head, rest = picture.split(">", 1)
    frame = "svg { background: var(--card); font-family: system-ui, sans-serif; }"
    return f"{head}>{element('style', escape(style + frame))}{rest}\n"


@dataclass(frozen=True)
class Scale:
    """Maps a domain to pixels, linearly or by logarithm; values outside are clamped."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, at = (self._position(v) for v in (self.low, self.high, value))
        share = 0.5 if high == low else min(max((at - low) / (high - low), 0.0), 1.0)
        return self.start + share * (self.end - self.start)

    def _position(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self, count: int = 5) -> list[float]:
        """Return round values within the domain, about ``count`` of them."""
        return self._log_ticks(count) if self.log else self._linear_ticks(count)

    def _linear_ticks(self, count: int) -> list[float]:
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        magnitude = 10 ** math.floor(math.log10(span / count))
        step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude * count >= span * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]

    def _log_ticks(self, count: int) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for mantissas in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            ticks = [m * 10.0**e for e in range(first, last + 1) for m in mantissas]
            inside = [t for t in ticks if self.low * 0.999 <= t <= self.high * 1.001]
            if len(inside) <= count + 1:
                return inside
        stride = math.ceil(len(inside) / count)
        return inside[::stride]


def short_number(value: float) -> str:
    """Spell an axis value: ``0.5``, ``12``, ``3k``, ``2M``."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:.3g}"
