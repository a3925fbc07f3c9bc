"""The report as one HTML page that needs nothing else: no files, no network; a script only where a leaderboard is.

At the top what to take away; then, for every study, figures, claims with a forest plot each, and all tables.
"""

import re
from collections.abc import Sequence
from html import escape

from ..harness.files import visible
from ..harness.study import Figure, Table
from .forest import forest
from .leaderboard import SCRIPT, leaderboard_html
from .markdown import claim_rows
from .sections import Section
from .verdicts import RULE, Block, Verdict, blocks, counted, judge
from .words import counts_in_words

__all__ = ["html"]

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; padding: 1rem;
  max-width: 76rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; border-top: 2px solid #1a1a1a; padding-top: 1rem; }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; } h4 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p, li { max-width: 52rem; }
a { color: #00507d; }
.short { background: #f2f6f9; border-left: 4px solid #0072b2; padding: .75rem 1rem; margin: 1rem 0; }
.short h2 { border: 0; margin: 0 0 .25rem; padding: 0; font-size: 1.15rem; }
.short p { margin: .6rem 0 .2rem; } .short ul { margin: 0; padding-left: 1.2rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: .9rem; color: #333; }
figure svg { width: 100%; height: auto; display: block; }
.claim { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 6fr); gap: 1.5rem; align-items: start; }
.claim figure { max-width: 36rem; }
.scroll { overflow-x: auto; } .scroll:focus { outline: 2px solid #0072b2; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #ddd; }
.numbers td:not(:first-child) { min-width: 5rem; } .numbers td:first-child { white-space: nowrap; }
.claim table { font-size: .85rem; width: 100%; } .claim td { white-space: nowrap; }
.claim td:first-child { white-space: normal; }
.variant th { background: #f5f5f5; padding-left: .4rem; }
.best { font-weight: 700; }
.verdict { font-weight: 600; }
.holds, .holds-in-part { color: #00507d; } .contradicted, .mixed { color: #9c2a00; }
.undecided, .too-few-runs-to-say { color: #555; }
.source { font-weight: 400; color: #555; }
.note, .facts { font-size: .9rem; color: #333; }
@media (max-width: 60rem) { .claim { grid-template-columns: minmax(0, 1fr); gap: .5rem; } }
@media (max-width: 40rem) { body { font-size: 15px; padding: .75rem; } table { font-size: .75rem; }
  .numbers td:first-child { white-space: normal; min-width: 6rem; } .numbers td:not(:first-child) { min-width: 3rem; }
  .numbers tr > :first-child { position: sticky; left: 0; background: #fff; }
  th, td { padding-right: .5rem; }
  [aria-label^="Mean ranks"] { overflow-x: auto; } [aria-label^="Mean ranks"] svg { min-width: 36rem; }
  .claim table { font-size: .78rem; } .claim th, .claim td { padding-right: .4rem; }
  .claim td { white-space: normal; } }
.choices { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin: .5rem 0; }
.choices label { font-size: .85rem; } .choices select { max-width: 16rem; font: inherit; }
.leaderboard .scroll { max-height: 32rem; overflow-y: auto; }
.leaderboard th { position: sticky; top: 0; background: #fff; }
.leaderboard th button { all: unset; cursor: pointer; } .leaderboard th button:focus-visible { outline: 2px solid; }
.leaderboard th[aria-sort=descending] button::after { content: " ▾"; }
.leaderboard th[aria-sort=ascending] button::after { content: " ▴"; }
@media print { .choices { display: none; } .leaderboard .scroll { max-height: none; } }
@media print { body { max-width: none; font-size: 10pt; } .scroll { overflow: visible; } h2 { break-before: page; }
  .short h2 { break-before: auto; } .figures { grid-template-columns: 1fr 1fr; } tr { break-inside: avoid; }
  .claim { grid-template-columns: minmax(0, 1fr); } .numbers td { min-width: 0; } }
"""


def html(sections: Sequence[Section]) -> str:
    """The whole report as one page."""
    return visible(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>directloss: the paper's studies, reproduced</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        "<h1>Direct loss minimization: the paper and what we found</h1>\n"
        f"{_in_short(sections)}"
        "<p>Song, Schwing, Zemel and Urtasun, <cite>Training Deep Neural Networks via Direct Loss Minimization</cite>, "
        f"ICML 2016, beside runs of directloss.</p>\n{''.join(map(_section, sections))}"
        f'<section id="rule">\n<h2>How verdicts are made</h2>\n<p>{escape(RULE)}</p>\n</section>\n'
        f"</main>\n{_script(sections)}</body>\n</html>\n"
    )


def _in_short(sections: Sequence[Section]) -> str:
    parts = ""
    for section in sections:
        sentences = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in section.takeaway)
        parts += f'<p><a href="#{_id(section)}">{escape(section.title)}</a></p>\n<ul>\n{sentences}</ul>\n'
    return f'<div class="short">\n<h2>In short</h2>\n{parts}</div>\n'


def _section(section: Section) -> str:
    name = _id(section)
    figures = "".join(_figure(figure, name) for figure in section.summary.figures())
    claims = "".join(_claim(block, f"{name}-claim-{k}") for k, block in enumerate(blocks(section.summary.claims), 1))
    facts = "".join(f"<li>{escape(fact)}</li>\n" for fact in section.facts)
    return (
        f'<section id="{name}">\n<h2>{escape(section.title)}</h2>\n<p>{escape(section.study.about)}</p>\n'
        + "".join(map(leaderboard_html, section.summary.leaderboards))
        + (f'<div class="figures">\n{figures}</div>\n<p class="note">{BANDS}</p>\n' if figures else "")
        + (f'<h3>What is claimed, and what we found</h3>\n<p class="note">{READING}</p>\n{claims}' if claims else "")
        + (f"<h3>All numbers</h3>\n{''.join(map(_table, section.summary.tables))}" if section.summary.tables else "")
        + f'<h3>How these numbers were made</h3>\n<ul class="facts">\n{facts}</ul>\n</section>\n'
    )


def _script(sections: Sequence[Section]) -> str:
    """What leaderboards need, where there is one."""
    return f"<script>{SCRIPT}</script>\n" if any(section.summary.leaderboards for section in sections) else ""


READING = (
    "Each point is a mean difference, with its 95 % interval. A comparison holds if the interval is above zero, "
    "is contradicted if it is below zero, and is undecided if it contains zero. "
    '<a href="#rule">How verdicts are made</a>'
)
BANDS = "Lines and bars are means over seeds. The bands around lines are one standard error."


def _id(section: Section) -> str:
    return f"{section.study.name}-{section.preset}"


def _figure(figure: Figure, section: str) -> str:
    return (
        f'<figure><div role="img" aria-label="{escape(figure.alt, quote=True)}">{_inline(figure, section)}</div>'
        f"<figcaption>{escape(figure.title)}</figcaption></figure>\n"
    )


def _inline(figure: Figure, section: str) -> str:
    """The figure's SVG with ids that are its own in the page."""
    svg = re.sub(r'\bid="', f'id="{section}-{figure.name}-', figure.svg)
    return re.sub(r'(url\(|href=")#', rf"\g<1>#{section}-{figure.name}-", svg)


def _claim(block: Block, name: str) -> str:
    """A forest plot, and its numbers beside it."""
    figure = forest("forest", block)
    rows = ""
    for claim in block.claims:
        heading = f"{escape(claim.variant)}: {_verdict(judge(claim))}"
        rows += f'<tr class="variant"><th colspan="5" scope="rowgroup">{heading}</th></tr>\n'
        for *cells, found in claim_rows(claim):
            plain = "".join(f"<td>{escape(text)}</td>" for text in cells)
            rows += f"<tr>{plain}<td>{_verdict(Verdict(found))}</td></tr>\n"
    head = "".join(f'<th scope="col">{text}</th>' for text in CLAIM_HEADER)
    return (
        f'<h4 id="{name}">{escape(block.says)} <span class="source">({escape(block.source)})</span>: '
        f"{_verdict(judge(block.claims))} "
        f'<span class="source">({escape(counts_in_words(counted(block.claims)))})</span></h4>\n'
        f'<div class="claim">\n<figure class="forest"><div role="img" aria-label="{escape(figure.alt, quote=True)}">'
        f"{_inline(figure, name)}</div><figcaption>{FOREST}</figcaption></figure>\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(block.says, quote=True)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n</div>\n"
    )


FOREST = "Mean differences, with 95 % intervals"
CLAIM_HEADER = ("comparison", "difference", "95 % interval", "pairs", "verdict")


def _verdict(verdict: Verdict) -> str:
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    body = ""
    for row, cells in enumerate(table.rows):
        marked = [(' class="best"' if (row, column) in table.best else "", text) for column, text in enumerate(cells)]
        body += "<tr>" + "".join(f"<td{mark}>{escape(text)}</td>" for mark, text in marked) + "</tr>\n"
    note = f'<p class="note">{escape(table.note)}</p>\n' if table.note else ""
    return (
        f'<h4>{escape(table.title)}</h4>\n<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(table.title, quote=True)}"><table class="numbers"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n{note}"
    )
