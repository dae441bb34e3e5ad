"""A sweep drawn: bars of plain characters for a terminal, an SVG for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from orchestrator.documents.kinds.tuning import TuneDocument, TuneSetting, TuneSweep

WIDTH = 80
CLASSES = ("static", "orientation", "percepts", "prompt", "history", "cached")
_COLOURS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#bab0ac")
_LEFT, _BARS, _ROW, _RIGHT = 150, 480, 22, 170


def bars(sweep: TuneSweep) -> Iterator[str]:
    """One line of at most 80 columns for each value: what it costs or, where no cost is known, how many tokens are read."""
    settings = sweep["settings"]
    amounts = [_amount(sweep, setting) for setting in settings]
    names = [shown_value(setting["value"]) for setting in settings]
    label = max(map(len, names), default=0)
    figures = [_figure(sweep, amount) for amount in amounts]
    room = WIDTH - label - max(map(len, figures), default=0) - 8
    most = max(amounts, default=0) or 1
    yield f"{sweep['limit']}: {'estimated cost' if sweep['by'] == 'cost' else 'tokens read'}; * set now, < cheapest"
    for setting, name, amount, figure in zip(settings, names, amounts, figures, strict=True):
        marks = ("*" if setting["in_force"] else " ") + ("<" if setting["value"] == sweep["cheapest"] else " ")
        bar = "#" * max(round(room * amount / most), 1 if amount else 0)
        yield f"{name:>{label}} {marks}|{bar:<{room}}| {figure}"


def svg(document: TuneDocument) -> str:
    """All sweeps in one picture: for each value a bar of its tokens by class, and beside it the cost and what would change."""
    parts: list[str] = []
    top = 40
    test = document["self_test"]
    parts.append(_text(10, 24, f"escalera tune: {document['turns']:,} turns of {document['sessions']:,} sessions, {_error(test)}", size=14))
    for place, (name, colour) in enumerate(zip(CLASSES, _COLOURS, strict=True)):
        parts.append(f'<rect x="{10 + 110 * place}" y="{top}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(26 + 110 * place, top + 11, name))
    top += 34
    for sweep in document["sweeps"]:
        parts.append(_text(10, top + 12, sweep["limit"], size=13))
        top += 20
        for line in _svg_rows(sweep, top):
            parts.append(line)
        top += _ROW * len(sweep["settings"]) + 16
    width = _LEFT + _BARS + _RIGHT
    body = "\n".join(parts)
    style = 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}" {style}>'
    return f'{head}\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'


def _svg_rows(sweep: TuneSweep, top: int) -> Iterator[str]:
    most = max((setting["tokens"]["total"] for setting in sweep["settings"]), default=0) or 1
    for row, setting in enumerate(sweep["settings"]):
        y = top + _ROW * row
        marks = (" (now)" if setting["in_force"] else "") + (" (cheapest)" if setting["value"] == sweep["cheapest"] else "")
        yield _text(_LEFT - 8, y + 14, shown_value(setting["value"]) + marks, anchor="end")
        left = float(_LEFT)
        for name, colour in zip(CLASSES, _COLOURS, strict=True):
            width = _BARS * int(setting["tokens"][name]) / most  # type: ignore[literal-required]  # a name of `CLASSES`, which are its keys
            yield f'<rect x="{left:.1f}" y="{y + 2}" width="{width:.1f}" height="16" fill="{colour}"/>'
            left += width
        usd = setting["cost"]["usd"]
        cost = "cost unknown" if usd is None else f"${usd:,.4f}"
        yield _text(_LEFT + _BARS + 8, y + 14, f"{compact(setting['tokens']['total'])} tokens, {cost}")


def _text(x: int, y: int, text: str, *, size: int | None = None, anchor: str | None = None) -> str:
    more = (f' font-size="{size}"' if size else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x}" y="{y}"{more}>{escape(text)}</text>'


def _error(test: object) -> str:
    from typing import cast

    shown = cast("dict[str, float]", test)
    return f"self-test: {shown['decisions_wrong']:,} of {shown['decisions']:,} decisions wrong, tokens off by {shown['tokens_off_percent']:.2f} %"


def _amount(sweep: TuneSweep, setting: TuneSetting) -> float:
    usd = setting["cost"]["usd"]
    return float(setting["tokens"]["total"]) if sweep["by"] == "tokens" or usd is None else usd


def _figure(sweep: TuneSweep, amount: float) -> str:
    return compact(int(amount)) if sweep["by"] == "tokens" else f"${amount:,.4f}"


def compact(number: int) -> str:
    """`1.25M`, `33.1k`, `812`."""
    for unit, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}" if number < 999.5 * unit else f"{number / unit:.0f}{name}"
    return str(number)


def shown_value(value: object) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


__all__ = ["CLASSES", "WIDTH", "bars", "compact", "shown_value", "svg"]
