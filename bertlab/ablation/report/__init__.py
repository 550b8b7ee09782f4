"""Reports of tables: one value object, and a renderer for each form in which people want to see it."""

from bertlab.ablation.report.build import report_table
from bertlab.ablation.report.render import render_all
from bertlab.ablation.report.terminal import print_report

__all__ = ["print_report", "render_all", "report_table"]
