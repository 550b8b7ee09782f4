"""How the page looks: the reader's own fonts, light and dark, wide and narrow."""

STYLE = """
:root { --ink: #1c1e21; --quiet: #5f6670; --paper: #ffffff; --panel: #f6f7f9; --line: #dfe3e8; --better: #14703f; --worse: #b3261e;
  --warn: #8a5a00; --warn-panel: #fff6e0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --quiet: #a0a7b1; --paper: #15181c; --panel: #1d2126; --line: #353b43; --better: #62d394; --worse: #ff8a80;
    --warn: #f2c14e; --warn-panel: #2b2617; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { margin: .4rem 0; max-width: 62rem; overflow-wrap: anywhere; }
.quiet, small { color: var(--quiet); font-size: .85rem; }
small { display: block; font-weight: normal; }
.wide { overflow-x: auto; margin: 1rem 0 .5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
table.cells { min-width: 60%; }
th, td { text-align: left; vertical-align: top; padding: .55rem .9rem; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
tbody th { font-weight: 600; position: sticky; left: 0; background: var(--paper); overflow-wrap: anywhere; min-width: 7rem;
  max-width: 16rem; }
tr.baseline > * { background: var(--panel); }
tr.random, tr.published { color: var(--quiet); }
.cell span { display: block; white-space: nowrap; }
.cell .value { font-weight: 600; }
.cell .difference, .cell .paper { font-size: .85rem; }
.cell .difference, .cell .paper { color: var(--quiet); }
.cell.better .difference { color: var(--better); }
.cell.worse .difference { color: var(--worse); }
.cell.failed .value, .cell.running .value, .cell.missing .value { color: var(--warn); }
.cell.partial { background: var(--warn-panel); }
.cell.contradicts { outline: 2px solid var(--worse); outline-offset: -3px; }
dl { margin: 0; }
dl > div { display: grid; grid-template-columns: 13rem 1fr; gap: 0 1.25rem; padding: .45rem 0; border-bottom: 1px solid var(--line); }
dt { font-weight: 600; }
dd { margin: 0; max-width: 56rem; overflow-wrap: anywhere; }
#missing { background: var(--warn-panel); border-radius: .5rem; padding: .1rem 1.25rem .6rem; margin-top: 2rem; }
#missing h2 { margin-top: .8rem; }
#missing li { overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem; align-items: start; }
figure { margin: 0; padding: .75rem; background: var(--panel); border-radius: .5rem; }
figure svg { display: block; width: 100%; height: auto; }
table.plain { font-size: .88rem; }
table.plain th, table.plain td { padding: .35rem .75rem; }
tr.failed td, tr.running td { color: var(--warn); }
details { margin-top: 1rem; }
summary { cursor: pointer; }
@media (max-width: 46rem) {
  main { padding: 1rem .9rem 3rem; }
  h1 { font-size: 1.35rem; }
  .wide:has(table.cells) { overflow: visible; }
  table.cells, table.cells tbody, table.cells tr, table.cells th, table.cells td { display: block; max-width: none; min-width: 0; }
  table.cells thead { display: none; }
  table.cells tr { border: 1px solid var(--line); border-radius: .5rem; margin-bottom: .9rem; overflow: hidden; }
  table.cells tbody th { position: static; background: var(--panel); padding: .5rem .75rem; }
  table.cells td { display: grid; grid-template-columns: 7.5rem 1fr; column-gap: .75rem; padding: .45rem .75rem; }
  table.cells tr td:last-child { border-bottom: 0; }
  table.cells td::before { content: attr(data-label); color: var(--quiet); font-size: .85rem; grid-row: 1 / span 4;
    overflow-wrap: anywhere; }
  table.cells .cell span { white-space: normal; grid-column: 2; }
  dl > div { grid-template-columns: 1fr; }
}
@media print { figure { break-inside: avoid; } details { display: none; } }
"""
