"""Plots of a report as SVG: cells and their differences, curves over pretraining, learning curves.

Each picture has one panel and is as wide as a telephone, so that a page can set as many side by side as it has room for. Inside a page the
pictures take its colors; as files they stand on white.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

from bertlab.ablation.report.model import PUBLISHED, RANDOM, Cell, Curve, LearningCurve, Report, ReportColumn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#010203"  # replaced by the page's own color of text
_COLORS = ("#3b82c4", "#e0771b", "#2a9d6f", "#c4509f", "#8a6fd1", "#b08a1e", "#d1495b", "#4f8fa3", "#7a8b3c", "#9a6b4f")
_MARKERS = "osD^vPX<>*"
_WIDTH = 4.6  # inches
_LABEL = 18  # characters of a row's label in a line
_FEW, _MANY_POWERS = 4.0, 1e4  # ratios of the ends of a logarithmic axis

CELLS, DIFFERENCES, CURVES, LEARNING = "cells", "differences", "curves", "learning"


@dataclass(frozen=True)
class Plot:
    """A picture."""

    name: str  # of its file, and of its parts
    kind: str  # CELLS | DIFFERENCES | CURVES | LEARNING
    title: str
    told: str  # what is to be seen, for whoever does not see it
    svg: str  # with ``_INK`` for the color of text


def plots_of(report: Report) -> list[Plot]:
    """Every plot that there is something to show in."""
    import matplotlib

    settings: Any = {
        "svg.fonttype": "none",  # text stays text
        "font.family": ["sans-serif"], "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "legend.fontsize": 8,
        "text.color": _INK, "axes.edgecolor": _INK, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK, "grid.color": _INK,
        "grid.alpha": 0.18, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    }  # fmt: skip
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the browser has its own fonts
        return [*_of_columns(report), *_of_curves(report), *_of_learning(report)]


def inline(plot: Plot) -> str:
    """The picture as a part of a page, in the page's colors."""
    return plot.svg.replace(_INK, "currentColor")


def alone(plot: Plot) -> str:
    """The picture as a file."""
    begin = plot.svg.index(">") + 1
    svg = f'{plot.svg[:begin]}<rect width="100%" height="100%" fill="#ffffff"/>{plot.svg[begin:]}'
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(_INK, "#222222")


# What is drawn


def _of_columns(report: Report) -> Iterator[Plot]:
    for column in report.columns:
        if column.point is not None:
            continue  # a curve shows it
        cells = [cell for cell in report.cells if cell.column == column.key]
        if any(cell.mean is not None for cell in cells):
            yield _cells_plot(report, column, cells)
        compared = [cell for cell in cells if cell.difference is not None and cell.difference.value is not None]
        if compared:
            yield _differences_plot(report, column, compared)


def _cells_plot(report: Report, column: ReportColumn, cells: Sequence[Cell]) -> Plot:
    """Means with their deviations and single runs; the paper's numbers in a panel of their own, which has another scale."""
    shown = [cell for cell in cells if cell.mean is not None or cell.published is not None]
    published = any(cell.published is not None for cell in shown)
    figure = _figure(0.9 + 0.38 * len(shown))
    panels = figure.subplots(1, 2 if published else 1, sharey=True, squeeze=False, width_ratios=[3, 1.4] if published else [1])[0]
    here = panels[0]
    for place, cell in enumerate(shown):
        color = _color(report, cell.row)
        values = [run.value for run in cell.values if run.value is not None]
        here.plot(values, [place + 0.22] * len(values), ".", color=color, alpha=0.6, markersize=5)
        if cell.mean is not None:
            here.errorbar([cell.mean], [place], xerr=None if cell.std is None else [cell.std], fmt="o", color=color, capsize=3)
        if published and cell.published is not None:
            panels[1].plot([cell.published], [place], "D", color=color, fillstyle="none")
    _name_rows(report, here, [cell.row for cell in shown])
    here.set_xlabel(f"here, {_unit(column)}")
    _title(figure, column.label)
    if published:
        panels[1].set_xlabel("the paper")
        panels[1].margins(x=0.25)
        panels[1].grid(axis="x")
    told = f"{column.heading} of each row, with the standard deviation over runs."
    return _plot(figure, f"cells-{column.key}", CELLS, column.label, told)


def _differences_plot(report: Report, column: ReportColumn, cells: Sequence[Cell]) -> Plot:
    figure = _figure(0.95 + 0.38 * len(cells))
    axes = figure.subplots()
    axes.axvline(0, color=_INK, linewidth=0.8)
    for place, cell in enumerate(cells):
        color, found = _color(report, cell.row), cell.difference
        assert found is not None
        assert found.value is not None
        bounds = found.low is not None and found.high is not None
        errors = [[found.value - (found.low or 0.0)], [(found.high or 0.0) - found.value]] if bounds else None
        axes.errorbar([found.value], [place], xerr=errors, fmt="o", color=color, capsize=3)
        if cell.published_difference is not None:
            axes.plot([cell.published_difference], [place], "D", color=color, fillstyle="none")
    _name_rows(report, axes, [cell.row for cell in cells])
    mark = " (◇ in the paper)" if any(cell.published_difference is not None for cell in cells) else ""
    axes.set_xlabel(_plain(f"difference from {report.row(report.baseline).label}{mark}"))
    _title(figure, f"{column.label}: differences")
    told = f"Differences of each row from the baseline in {column.heading}, with 95% intervals."
    return _plot(figure, f"differences-{column.key}", DIFFERENCES, f"{column.label}: differences", told)


def _of_curves(report: Report) -> Iterator[Plot]:
    """A row's course against what it read, what it predicted, and what it computed: whoever is ahead depends on what is counted."""
    for column in dict.fromkeys(curve.column for curve in report.curves):
        curves = [curve for curve in report.curves if curve.column == column]
        for name, what in (("positions", "positions read"), ("targets", "words predicted"), ("flops", "FLOPs")):
            if any(getattr(point, name) is not None and point.mean is not None for curve in curves for point in curve.points):
                yield _curve_plot(report, curves, column, name, what)
        if any(point.published is not None for curve in curves for point in curve.points):
            yield _published_curve_plot(report, curves, column)


def _curve_plot(report: Report, curves: Sequence[Curve], column: str, amount: str, what: str) -> Plot:
    figure = _figure(3.2)
    axes = figure.subplots()
    for curve in curves:
        points = [(x, point) for point in curve.points if (x := getattr(point, amount)) is not None and point.mean is not None]
        errors = [point.std or 0.0 for _, point in points]
        style: dict[str, Any] = {"color": _color(report, curve.row), "marker": _marker(report, curve.row), "markersize": 4, "capsize": 2}
        axes.errorbar([x for x, _ in points], [point.mean or 0.0 for _, point in points], yerr=errors, label=_plain(curve.label), **style)
    for row in report.rows:
        if row.role == RANDOM:
            _random_line(report, axes, row.key, column)
    axes.set_xscale("log")
    _short_numbers(axes)
    axes.set_xlabel(what)
    axes.set_ylabel(_plain(f"{curves[0].heading}{', %' if curves[0].unit == '%' else ''}"))
    title = f"{curves[0].heading} over {what}"
    _finish(figure, axes, title)
    return _plot(figure, f"curve-{column}-{amount}", CURVES, title, f"{title}, with standard deviations over runs.")


def _random_line(report: Report, axes: Axes, row: str, column: str) -> None:
    """What weights that were never trained come to: the same at any point."""
    cell = next((cell for cell in report.cells if cell.row == row and report.column(cell.column).column == column), None)
    if cell is not None and cell.mean is not None:
        axes.axhline(cell.mean, color=_color(report, row), linestyle=":", label=_plain(report.row(row).label))


def _published_curve_plot(report: Report, curves: Sequence[Curve], column: str) -> Plot:
    figure = _figure(3.2)
    axes = figure.subplots()
    for curve in curves:
        points = [point for point in curve.points if point.published is not None]
        shares, values = [100 * point.share for point in points], [point.published or 0.0 for point in points]
        style: dict[str, Any] = {"color": _color(report, curve.row), "marker": "D", "markersize": 4, "fillstyle": "none", "linestyle": "--"}
        axes.plot(shares, values, label=_plain(curve.label), **style)
    axes.set_xscale("log")
    _short_numbers(axes)
    axes.set_xlabel("% of the pre-training")
    _finish(figure, axes, f"{curves[0].heading}: the paper")
    return _plot(figure, f"curve-{column}-paper", CURVES, f"{curves[0].heading}: the paper", "The same curves in the paper.")


def _of_learning(report: Report) -> Iterator[Plot]:
    for number, measure in enumerate(dict.fromkeys(curve.measure for curve in report.learning)):
        curves = [curve for curve in report.learning if curve.measure == measure]
        figure = _figure(3.0)
        axes = figure.subplots()
        seen: set[str] = set()
        for curve in curves:
            _learning_line(report, axes, curve, first=curve.row not in seen)
            seen.add(curve.row)
        _short_numbers(axes)
        axes.set_xlabel("positions read")
        what, _, of = measure.partition(", ")
        axes.set_ylabel(what)
        if "perplexity" in what:
            axes.set_yscale("log")
            _plain_ticks(axes)
        title = f"{what[0].upper()}{what[1:]}: {of}"
        _finish(figure, axes, title)
        yield _plot(figure, f"learning-{number + 1}", LEARNING, title, f"{title}, a line for each pre-training.")


def _learning_line(report: Report, axes: Axes, curve: LearningCurve, *, first: bool) -> None:
    x, y = zip(*curve.points, strict=True)
    label = _plain(curve.label) if first else "_"
    axes.plot(x, y, color=_color(report, curve.row), linewidth=1.2, alpha=0.85, label=label)


# How it is drawn


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), layout="constrained")


def _color(report: Report, row: str) -> str:
    return _COLORS[_place(report, row) % len(_COLORS)]


def _marker(report: Report, row: str) -> str:
    return _MARKERS[_place(report, row) % len(_MARKERS)]


def _place(report: Report, row: str) -> int:
    keys = [each.key for each in report.rows if each.role != PUBLISHED]
    return keys.index(row) if row in keys else len(keys)


def _name_rows(report: Report, axes: Axes, rows: Sequence[str]) -> None:
    labels = [textwrap.fill(_plain(report.row(row).label), _LABEL) for row in rows]
    axes.set_yticks(range(len(rows)), labels=labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.grid(axis="x")


def _title(figure: Figure, title: str) -> None:
    figure.suptitle("\n".join(textwrap.wrap(_plain(title), 52)), fontsize=10, fontweight="bold")


def _finish(figure: Figure, axes: Axes, title: str) -> None:
    axes.grid()
    _title(figure, title)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels)


def _plain_ticks(axes: Axes) -> None:
    """Numbers as they are on a logarithmic axis, also where it spans less than a power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=_steps(low, high)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}" if low >= 10 else "{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _short_numbers(axes: Axes) -> None:
    """200k, 1M, 3G: on either kind of axis, with marks inside a power of ten where there are few of them."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if axes.get_xscale() == "log":
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=_steps(low, high)))
        axes.xaxis.set_minor_formatter(NullFormatter())


def _steps(low: float, high: float) -> tuple[float, ...]:
    """Which multiples of powers of ten are marked on a logarithmic axis."""
    if high / low > _MANY_POWERS:
        return (1.0,)
    return (1.0, 2.0, 5.0) if high / low > _FEW else (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)


def _unit(column: ReportColumn) -> str:
    return f"{column.metric}{', %' if column.unit == '%' else ''}"


def _plain(text: str) -> str:
    """Text that matplotlib takes for nothing else: no formula, and no name that it hides from legends."""
    text = text.replace("$", "\\$")
    return f"\u200b{text}" if text.startswith("_") else text


def _plot(figure: Figure, name: str, kind: str, title: str, told: str) -> Plot:
    import matplotlib

    name = re.sub(r"[^A-Za-z0-9.-]+", "_", name)
    with matplotlib.rc_context({"svg.hashsalt": name}):
        file = StringIO()
        nothing: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return Plot(name, kind, title, told, _as_part(file.getvalue(), name))


def _as_part(svg: str, name: str) -> str:
    """An ``svg`` element without anything that points outside, its names its own among those of other pictures."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = _without_attributes(svg).replace("xlink:href=", "href=")
    return re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{name}-", svg)


def _without_attributes(svg: str) -> str:
    """The outermost element with its view box alone: the page decides on its width."""
    end = svg.index(">")
    box = re.search(r'viewBox="[^"]*"', svg[:end])
    assert box is not None
    return f"<svg {box[0]}{svg[end:]}"
