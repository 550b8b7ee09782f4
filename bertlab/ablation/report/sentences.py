"""What stands under a table: what was varied, what the statistics are, what this many seeds can say, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from bertlab.ablation.collect import DONE, CellRun, Collected
from bertlab.ablation.report import model
from bertlab.ablation.report.model import Cell, Difference, Note, Report, ReportColumn
from bertlab.ablation.report.spread import LESS_STEADY, STEADIER
from bertlab.ablation.report.words import difference_text, number, probability, signed
from bertlab.ablation.runs import EXAMPLES
from bertlab.ablation.table import BETTER, UNRESOLVED, WORSE
from bertlab.counting import counted, listed

_ALPHA = 0.05
_ALREADY_HEADED = ("Budget", "Seeds", "Data", "Scale", "Random rows")
_MANY = 4  # things of one kind that are named one by one
_TOLD = 2  # reasons of one cell; runs.csv has all
_LONG = 300  # characters of a reason


def notes_of(report: Report, collected: Collected) -> tuple[Note, ...]:
    """All notes, in the order in which they are shown."""
    return tuple(
        note
        for note in (
            _verdicts(report),
            _spread(report),
            _random(report),
            _agreement(report),
            _not_compared(report),
            _to_be_known(report),
            _degenerate(report),
            Note("Scale", _scale(report)),
            *_of_the_plan(collected),
            _statistics(report),
            Note("Selection", _selection(collected)),
            _seeds(report),
            Note("Remarks", " ".join(collected.remarks)),
        )
        if note.text
    )


def gaps_of(report: Report, collected: Collected) -> tuple[str, ...]:
    """The cells that lack something, each with what it lacks and why."""
    return tuple(_gap(report, cell) for cell in report.cells if cell.failed or cell.running or cell.missing)


def _gap(report: Report, cell: Cell) -> str:
    lacking = [f"{many} {word}" for many, word in ((cell.failed, "failed"), (cell.running, "running"), (cell.missing, "not run")) if many]
    where = f"{report.row(cell.row).label} × {report.column(cell.column).label}"
    reasons = dict.fromkeys(_one_line(run.note) for run in cell.values if run.status in ("failed", "missing") and run.note)
    why = f": {' / '.join(reasons)}" if reasons else "."
    return f"{where}: {listed(lacking)} (of {counted(len(cell.values), 'run')}){why}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONG else f"{line[:_LONG]}…"


def _scale(report: Report) -> str:
    source = report.provenance
    where = f" on {listed(source.devices)}" if source.devices else ""
    return f"{report.scale}: {source.hours:.2f} hours of runs in total{where}."


def _of_the_plan(collected: Collected) -> Iterator[Note]:
    """Its sentences, of which those that open with a heading have that one."""
    others = []
    for text in collected.manifest.notes:
        heading, colon, rest = text.partition(": ")
        if colon and heading in _ALREADY_HEADED:
            yield Note(heading, f"{rest[:1].upper()}{rest[1:]}")
        else:
            others.append(text)
    if others:
        yield Note("Columns", " ".join(others))


def _differences(report: Report, of: Callable[[Cell], Difference | None] = lambda cell: cell.difference) -> list[tuple[Cell, Difference]]:
    return [(cell, found) for cell in report.cells if (found := of(cell)) is not None]


def _judged(report: Report) -> list[tuple[Cell, Difference]]:
    """The comparisons that Holm's correction counts."""
    return [(cell, found) for cell, found in _differences(report) if found.p_holm is not None]


def _statistics(report: Report) -> Note:
    compared = [found for _, found in _differences(report) if found.value is not None]
    parts = [
        f"A cell shows the mean ± the sample standard deviation over runs; n is the number of independent repetitions. {_unit(report)}"
    ]
    if compared:
        paired = sum(found.paired for found in compared)
        single = all(found.units == (1, 1) for found in compared)
        how = "seed by seed" if paired == len(compared) else "seed by seed where seeds match" if paired else "as independent groups"
        how = "one run with one run" if single else how
        parts.append(f"Differences are from {report.row(report.baseline).label}, compared {how}, with 95% intervals{_covered(report)}.")
    if judged := _judged(report):
        parts.append(
            f"Verdicts hold at the {_ALPHA:.0%} level after Holm's correction over {counted(len(judged) + report.coming, 'comparison')}"
            f"{f', of which {report.coming} cannot be made yet' if report.coming else ''}; intervals are not corrected."
        )
    return Note("Statistics", " ".join(parts))


def _selection(collected: Collected) -> str:
    """Which columns are of the split by which the best weights of each run were chosen, and among how many."""
    among: dict[str, set[int]] = {}  # how many evaluations, by column
    for (_, name, _), runs in collected.cells.items():
        for run in runs:
            if (count := _chosen_among(collected, run, collected.manifest.grid.columns[name].split)) is not None:
                among.setdefault(name, set()).add(count)
    chosen = {name: counts for name, counts in among.items() if counts != {1}}  # the best of one is no choice
    if not chosen:
        return ""
    labels = [column.label for name, column in collected.manifest.grid.columns.items() if name in chosen]  # each once, whatever its points
    said = (
        f"For {listed(labels)}, each run's best weights were chosen on the reported examples (tuning.select=best), so values are a little"
        " higher than on other examples"
    )
    unlike = {name: counts for name, counts in chosen.items() if len(counts) > 1}
    if not unlike:
        return f"{said}, in all rows alike."
    least, most = min(map(min, unlike.values())), max(map(max, unlike.values()))
    return (
        f"{said}, but not equally in all rows: the weights are the best of {least} to {most} evaluations, and the best of more evaluations"
        " has a higher value that varies less, without being better. tuning.select=last chooses nothing."
    )


def _chosen_among(collected: Collected, run: CellRun, split: str | None) -> int | None:
    """Among how many evaluations a run's weights were chosen on the ``split`` that is reported; None where they were not."""
    state = collected.nodes[run.key]
    result = state.result if run.status == DONE else None
    if result is None or result.get("recipe", {}).get("select") != "best" or split not in (None, result["split"]):
        return None
    judging = str(result["split"])
    return sum(bool(row["split"] == judging) for row in state.rows)


def _covered(report: Report) -> str:
    """Which luck the intervals cover, with the columns where not all cover the same."""
    columns: dict[tuple[str, ...], dict[str, None]] = {}
    for cell, found in _differences(report):
        if found.value is not None:
            columns.setdefault(found.covers, {})[report.column(cell.column).label] = None
    if list(columns) == [()]:
        return "; they cover no random variation"
    among = {kinds: "" if len(columns) == 1 else f" ({listed(list(labels))})" for kinds, labels in columns.items()}
    text = " that cover random variation of " + "; of ".join(f"{listed(kinds)}{among[kinds]}" for kinds in columns if kinds)
    return text + (f"; none{among[()]}" if () in columns else "")


def _unit(report: Report) -> str:
    smaller = [column.label for column in report.columns if column.smaller_is_better]
    text = "Metrics are in percent" if any(column.unit == "%" for column in report.columns) else ""
    if smaller:
        text += f"{'; ' if text else ''}for {listed(smaller)}, smaller is better"
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _seeds(report: Report) -> Note:
    """What the number of seeds allows to be said, and what not."""
    compared = [found for _, found in _differences(report) if found.value is not None]
    if not compared:
        return Note("What these seeds can say", "")
    fewest = min(min(found.units) for found in compared)
    if fewest < 2:
        text = (
            "Some rows have a single repetition: it shows how good these models are, but says nothing about the method. Such rows get no"
            " verdict."
        )
        return Note("What these seeds can say", text)
    parts = [f"{fewest} repetitions show only roughly how much results vary between seeds."]
    smallest = [
        found.permutation_smallest for found in compared if found.permutation_smallest is not None and EXAMPLES not in found.covers[:1]
    ]
    if smallest and min(smallest) > _ALPHA:
        parts.append(
            f"With so few, a permutation test cannot fall below p = {probability(min(smallest))}, so it can confirm nothing here. Verdicts"
            " rest on intervals that assume the repetitions of a row to be roughly normal; they cannot account for failures too rare to"
            " have been seen."
        )
    parts += [text for text in (_detectable(report),) if text]
    return Note("What these seeds can say", " ".join(parts))


def _detectable(report: Report) -> str:
    """The smallest true differences that would probably be resolved, by column."""
    found = []
    for column in report.columns:
        of_column = [difference for cell, difference in _judged(report) if cell.column == column.key]
        values = [difference.detectable for difference in of_column if difference.detectable is not None]
        if values:
            texts = dict.fromkeys(_size(value, column) for value in (min(values), max(values)))
            found.append(f"{column.label} {' to '.join(texts)}")
    return f"Smallest true differences that these seeds resolve in 80% of tables: {', '.join(found)}." if found else ""


def _size(value: float, column: ReportColumn) -> str:
    """A difference without its sign; a metric in percent knows none above 100."""
    return "none" if column.unit == "%" and value > 100 else number(value, column.decimals)


def _verdicts(report: Report) -> Note:
    judged = _judged(report)
    if not judged:
        some = any(found.value is not None for _, found in _differences(report))
        return Note("Verdicts", "None: a verdict is about the method and needs at least two seeds in both rows." if some else "")
    parts = []
    for verdict in (BETTER, WORSE):
        named = [_named(report, cell, difference) for cell, difference in judged if difference.verdict == verdict]
        if named:
            parts.append(f"Resolved as {verdict} than {report.row(report.baseline).label}: {'; '.join(named)}.")
    unresolved = [(cell, difference) for cell, difference in judged if difference.verdict == UNRESOLVED]
    if unresolved:
        opening = (
            "Unresolved, which does not mean that there is no difference"
            if parts
            else "No difference is resolved, which does not mean that there is none"
        )
        parts.append(f"{opening}: {'; '.join(_seeds_wanted(report, unresolved))}.")
    parts.append(_before_correction(report))
    if any(cell.running or cell.missing for cell in report.cells):
        parts.append(
            "Provisional, because runs are missing: verdicts may change. Whoever looks repeatedly while seeds come in, and stops at a"
            f" result that pleases, is wrong more often than {_ALPHA:.0%} of the time."
        )
    return Note("Verdicts", " ".join(part for part in parts if part))


def _before_correction(report: Report) -> str:
    """The differences that only the correction leaves unresolved, beside how many there would be by chance."""
    judged = _judged(report)
    clear = [(cell, found) for cell, found in judged if found.p_value is not None and found.p_value <= _ALPHA]
    hints = [f"{report.row(cell.row).label} on {report.column(cell.column).label}" for cell, found in clear if found.verdict == UNRESOLVED]
    if not hints:
        return ""
    exclude = f"{len(clear)} of {counted(len(judged), 'interval')} {'excludes' if len(clear) == 1 else 'exclude'} zero"
    by_chance = f"{_ALPHA * len(judged):.1f} would by chance"
    return f"Before the correction, {exclude}, where {by_chance}; the correction leaves unresolved {listed(hints)}."


def _named(report: Report, cell: Cell, difference: Difference) -> str:
    column = report.column(cell.column)
    p_value = "" if difference.p_holm is None else f", p {_equals(difference.p_holm)}"
    return f"{report.row(cell.row).label} on {column.label} ({difference_text(difference, column)}{p_value})"


def _equals(p_value: float) -> str:
    text = probability(p_value)
    return text if text.startswith("<") else f"= {text}"


def _seeds_wanted(report: Report, unresolved: Sequence[tuple[Cell, Difference]]) -> Iterator[str]:
    """The unresolved differences with what it would take to resolve them, those together that would take the same."""
    places: dict[str, list[str]] = {}
    for cell, difference in unresolved:
        assert difference.value is not None
        column = report.column(cell.column)
        value = signed(difference.value, column.decimals)
        places.setdefault(_wanted(difference), []).append(f"{report.row(cell.row).label} on {column.label} ({value})")
    for wanted, where in places.items():
        yield f"{listed(where)}{wanted and ': '}{wanted}"


def _wanted(difference: Difference) -> str:
    """How many seeds a difference of the observed size would take; empty where that is not known."""
    if difference.examples_suffice is False:
        return "too few evaluation examples for a difference of this size, however many seeds"
    if difference.seeds is None:
        return "more than 1,000 seeds would be needed" if difference.examples_suffice else ""
    low = difference.seeds_low or difference.seeds
    high = "1,000+" if difference.seeds_high is None else f"{difference.seeds_high:,}"
    return f"about {difference.seeds:,} seeds would resolve it, perhaps {low:,} to {high}"


def _spread(report: Report) -> Note:
    cells = [cell for cell in report.cells if cell.spread is not None]
    if not cells:
        return Note("Spread", "")
    text = (
        "This table is about how much runs differ. It shows standard deviations with 95% intervals (Bonett's with five runs or more; with"
        " fewer, intervals that assume normal values), compared by permutation Brown-Forsythe tests after Holm's correction. Runs that"
        " stopped or learned nothing are counted as failed."
    )
    resolved = [cell for cell in cells if cell.spread and cell.spread.verdict in (STEADIER, LESS_STEADY)]
    names = [
        f"{report.row(cell.row).label} is {cell.spread.verdict} on {report.column(cell.column).label}" for cell in resolved if cell.spread
    ]
    return Note("Spread", f"{text} {'; '.join(names) if names else 'No difference between deviations is resolved'}.")


def _random(report: Report) -> Note:
    """Whether rows beat the model that was never trained."""
    parts, untold = [], []
    for row in report.rows:
        of_row = [(cell, cell.over_random) for cell in report.cells if cell.row == row.key and cell.over_random is not None]
        found = [(cell, difference) for cell, difference in of_row if difference.value is not None]
        if not found or row.beats is None:
            continue
        if all(difference.p_holm is None for _, difference in found):
            untold.append(row.label)
            continue
        beaten = [report.column(cell.column).label for cell, difference in found if difference.verdict == BETTER]
        lost = [report.column(cell.column).label for cell, difference in found if difference.verdict == WORSE]
        sentence = f"{row.label} beats {report.row(row.beats).label} on {_all_or(beaten, len(found))}"
        if not beaten:
            sentence = f"{row.label} is not shown to beat {report.row(row.beats).label} in any column"
        parts.append(sentence + (f", and is worse on {listed(lost)}" if lost else "") + ".")
    if untold:
        parts.append(f"One seed cannot show whether {listed(untold)} {'beats' if len(untold) == 1 else 'beat'} random weights.")
    if parts:
        parts.append("A row that does not beat a randomly initialised model shows nothing about its pre-training.")
    return Note("Random weights", " ".join(parts))


def _all_or(names: Sequence[str], of: int) -> str:
    return f"all {of} columns" if len(names) == of > 1 else f"{listed(list(names))} ({len(names)} of {counted(of, 'column')})"


def _agreement(report: Report) -> Note:
    signs = [(cell, cell.agrees) for cell in report.cells if cell.agrees is not None]
    if not signs:
        return Note("Agreement with the paper", "")
    agreeing = sum(bool(agrees) for _, agrees in signs)
    resolved = sum(cell.difference is not None and cell.difference.verdict != UNRESOLVED for cell, _ in signs)
    parts = [f"{agreeing} of {counted(len(signs), 'difference')} {'has' if agreeing == 1 else 'have'} the paper's sign."]
    if resolved < len(signs):
        parts.append(
            f"{resolved} of these differences {'is' if resolved == 1 else 'are'} resolved here; the sign of the others may be chance."
        )
    against = [cell for cell, _ in signs if cell.contradicts]
    if against:
        named = [f"{report.row(cell.row).label} on {report.column(cell.column).label}" for cell in against]
        parts.append(f"Resolved, with the opposite sign to the paper's: {'; '.join(named)}.")
    ranks = [_rank(report, rank) for rank in report.ranks if rank.kendall is not None]
    if ranks:
        parts.append(
            f"Rank correlation of the rows with the paper: {'; '.join(ranks)}. With few rows, hardly any order is more than chance."
        )
    stand_ins = [f"{column.label} for {listed(column.stands_for)}" for column in report.columns if column.stands_for]
    if stand_ins:
        parts.append(
            f"Other tasks stand in for the paper's ({'; '.join(dict.fromkeys(stand_ins))}), so only signs and orders can be compared."
        )
    return Note("Agreement with the paper", " ".join(parts))


def _rank(report: Report, rank: model.RankLine) -> str:
    assert rank.kendall is not None
    p_value = "" if rank.kendall_p is None or math.isnan(rank.kendall_p) else f", p {_equals(rank.kendall_p)}"
    return f"{report.column(rank.column).label} τ = {number(rank.kendall, 2)} ({rank.rows} rows{p_value})"


def _not_compared(report: Report) -> Note:
    """Why some cells have no difference, each reason with where it holds."""
    reasons: dict[str, list[str]] = {}
    for cell, difference in _differences(report):
        if difference.reason and cell.mean is not None and difference.p_holm is None:
            where = f"{report.row(cell.row).label} on {report.column(cell.column).label}"
            reasons.setdefault(difference.reason, []).append(where)
    return Note("Without a verdict", _with_places(reasons))


def _to_be_known(report: Report) -> Note:
    """What is to be known of some comparisons, each sentence with where it holds: a difference need not be that of the two means."""
    places: dict[str, list[str]] = {}
    for cell, difference in _differences(report):
        for note in difference.notes:
            places.setdefault(note, []).append(f"{report.row(cell.row).label} on {report.column(cell.column).label}")
    return Note("About some comparisons", _with_places(places))


def _with_places(places: Mapping[str, Sequence[str]]) -> str:
    """Sentences, each with where it holds."""
    return " ".join(f"{text} ({'; '.join(where) if len(where) <= _MANY else f'{len(where)} cells'})" for text, where in places.items())


def _degenerate(report: Report) -> Note:
    named = []
    for cell in report.cells:
        notes = dict.fromkeys(run.note for run in cell.values if run.status == "done" and run.note)
        if cell.degenerate and report.row(cell.row).role != model.RANDOM:
            where = f"{report.row(cell.row).label} on {report.column(cell.column).label}"
            why = [*list(notes)[:_TOLD], *["and others"] * (len(notes) > _TOLD)]
            named.append(f"{where}, {counted(cell.degenerate, 'run')} ({'; '.join(why)})")
    text = "; ".join(named)
    return Note("Learned nothing", f"{text}. Their values are included in the mean." if text else "")
