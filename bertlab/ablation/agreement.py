"""What the table says beside what the paper says: signs of differences, order of rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class SignAgreement:
    """A row's difference from the baseline, here and in the paper; both as improvements (larger is better)."""

    here: float
    published: float
    agrees: bool | None  # None where one of them is zero
    resolved: bool  # whether the difference here is more than noise

    @property
    def contradicts(self) -> bool:
        """Resolved, and opposite to the paper: what a report has to discuss."""
        return self.resolved and self.agrees is False


@dataclass(frozen=True)
class RankAgreement:
    """How alike the rows are ordered here and in the paper; None with fewer than three rows, or where all are alike."""

    rows: int
    kendall: float | None  # tau-b
    spearman: float | None
    kendall_p: float | None  # two-sided; with few rows hardly any order is significant: 5 rows in the same order have .017, 4 have .083


def sign_agreement(here: float, published: float, resolved: bool) -> SignAgreement:
    """Whether two differences have the same sign."""
    agrees = None if here == 0 or published == 0 else (here > 0) == (published > 0)
    return SignAgreement(here, published, agrees, resolved)


def rank_agreement(here: Mapping[str, float], published: Mapping[str, float]) -> RankAgreement:
    """Correlation of the rows' order here and in the paper, over the rows that have a value in both."""
    rows = [row for row in here if row in published]
    ours, theirs = np.array([here[row] for row in rows]), np.array([published[row] for row in rows])
    if len(rows) < 3 or not np.ptp(ours) or not np.ptp(theirs):
        return RankAgreement(len(rows), None, None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # spearmanr's remark on the precision of a p value that is not used
        kendall, spearman = stats.kendalltau(ours, theirs), stats.spearmanr(ours, theirs)
    return RankAgreement(len(rows), float(kendall.statistic), float(spearman.statistic), float(kendall.pvalue))
