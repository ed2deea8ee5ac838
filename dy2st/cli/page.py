"""A page that shows source, transformed code and program side by side, in one file that needs no other."""

from __future__ import annotations

import dataclasses
import html as escaping
import os
from collections.abc import Iterator, Sequence

_CSS = """
:root { color-scheme: light dark; --line: #8884; --hot: #fd05; --captured: #2a95; --unrolled: #c735; --plain: #8883; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 0; padding: 1rem 1.5rem; }
h1 { font-size: 1.15rem; margin: 0 0 .6rem; }
h2 { font-size: .95rem; margin: 0 0 .4rem; }
h3 { font-size: .8rem; margin: 1rem 0 .2rem; opacity: .7; }
main { display: grid; grid-template-columns: minmax(0, 4fr) minmax(0, 4fr) minmax(0, 5fr); gap: 1rem; }
section { border: 1px solid var(--line); border-radius: 8px; padding: .8rem; overflow: auto; max-height: 84vh; }
.line { display: block; white-space: pre; font: 12.5px/1.5 ui-monospace, Menlo, Consolas, monospace; }
.line { padding: 0 .3rem; border-radius: 3px; }
.line[data-at] { cursor: pointer; }
.number { display: inline-block; width: 3.2em; margin-left: -.3em; padding-right: .8em; text-align: right; }
.number { opacity: .45; user-select: none; }
.block { --edge: #2a9; margin: 1px 0 1px .9em; padding: 1px .2em; border-radius: 6px; border: 1px solid; }
.block { border-color: color-mix(in srgb, var(--edge) 45%, transparent); border-left: 3px solid var(--edge); }
.block { background: color-mix(in srgb, var(--edge) 5%, transparent); }
.block .block { --edge: #57d; }
.block .block .block { --edge: #b5c; }
.block .block .block .block { --edge: #c73; }
.root { margin-left: 1.1em; }
details { margin: .1rem 0 .3rem .3rem; }
summary { cursor: pointer; font-size: .8rem; opacity: .7; }
.captured { background: var(--captured); }
.unrolled { background: var(--unrolled); }
.plain { background: var(--plain); }
.line.hot { background: var(--hot); outline: 1px solid #fa08; }
.legend span { padding: .1rem .5rem; border-radius: 4px; margin-right: .5rem; font-size: .8rem; }
.problem { white-space: pre-wrap; font: 12.5px ui-monospace, monospace; }
table { border-collapse: collapse; font-size: .85rem; margin-top: .8rem; }
td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
@media (max-width: 900px) { main { grid-template-columns: 1fr; } }
"""

_SCRIPT = """
const lines = [...document.querySelectorAll("[data-at]")];
const mark = at => lines.forEach(line => line.classList.toggle("hot", at !== undefined && line.dataset.at === at));
document.addEventListener("mouseover", event => mark(event.target.closest("[data-at]")?.dataset.at));
document.addEventListener("click", event => {
  const hit = event.target.closest("[data-at]");
  if (!hit) return;
  const own = hit.closest("section");
  for (const section of document.querySelectorAll("section"))
    if (section !== own) section.querySelector(`[data-at="${CSS.escape(hit.dataset.at)}"]`)?.scrollIntoView({block: "center"});
});
"""

_CLASSES = {"captured": "captured", "unrolled": "unrolled", "plain Python": "plain"}


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a text, with the user's line it belongs to, if any, and its number."""

    text: str
    at: str | None
    number: int | None = None


@dataclasses.dataclass(frozen=True)
class Source:
    """A function of the user's."""

    name: str
    where: str
    lines: tuple[Line, ...]


@dataclasses.dataclass(frozen=True)
class Site:
    """A control-flow statement and what became of it."""

    at: str
    construct: str
    outcome: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Page:
    """What is on a page; ``problem`` says why there is no program."""

    name: str
    sources: tuple[Source, ...]
    transformed: tuple[Line, ...]
    program: tuple[Line, ...]
    problem: str
    sites: tuple[Site, ...]


def place(file: str, line: int) -> str:
    """Return what a line of the user's is called on a page."""
    return f"{os.path.basename(file)}:{line}"


def html(page: Page) -> str:
    """Return the page as one file."""
    outcomes = _outcomes(page)
    title = _text(page.name)
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{title}</title><style>{_CSS}</style></head><body>",
            f"<h1>{title}</h1>",
            '<p class="legend"><span class="captured">captured</span><span class="unrolled">unrolled</span>'
            '<span class="plain">plain Python</span></p><main>',
            '<section id="source"><h2>Source</h2>',
            *(_source(source, outcomes) for source in page.sources),
            '</section><section id="transformed"><h2>Transformed</h2>',
            *(_line(line, outcomes) for line in page.transformed),
            '</section><section id="program"><h2>Program</h2>',
            *(_nested(page.program, outcomes) if page.program else [f'<p class="problem">{_text(page.problem)}</p>']),
            "</section></main>",
            _table(page.sites),
            f"<script>{_SCRIPT}</script></body></html>",
        ]
    )


def _outcomes(page: Page) -> dict[str, str]:
    """Return the colour of each line; what became of a loop inside of a library is no business of the line that calls it."""
    texts = {line.at: line.text for source in page.sources for line in source.lines}
    own = [site for site in page.sites if site.outcome == "captured" or site.construct.split()[0] in texts.get(site.at, "")]
    outcomes = {site.at: _CLASSES.get(site.outcome, "plain") for site in own}
    return outcomes | {site.at: "captured" for site in own if site.outcome == "captured"}


def _text(text: str) -> str:
    return escaping.escape(text, quote=True)


def _source(source: Source, outcomes: dict[str, str]) -> str:
    lines = "".join(_line(line, outcomes) for line in source.lines)
    return f"<h3>{_text(source.name)} ({_text(source.where)})</h3>{lines}"


def _line(line: Line, outcomes: dict[str, str], text: str | None = None) -> str:
    number = "" if line.number is None else f'<span class="number">{line.number}</span>'
    at = "" if line.at is None else f' data-at="{_text(line.at)}"'
    kind = "" if line.at is None else outcomes.get(line.at, "")
    return f'<span class="line {kind}"{at}>{number}{_text(line.text if text is None else text) or " "}</span>'


def _nested(lines: Sequence[Line], outcomes: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a program; each block of it is a box, and its state is folded up."""
    head = [line for line in lines if not _indent(line)][:1]
    state = [line for line in lines if _indent(line) == 1 and line.text.lstrip().startswith("state ")]
    yield from (_line(line, outcomes) for line in head)
    if state:
        yield f"<details><summary>{len(state)} state inputs</summary>"
        yield from (_line(line, outcomes, line.text.strip()) for line in state)
        yield "</details>"
    yield '<div class="root">'
    depth = 1
    for line in lines[len(head) :]:
        if line in state:
            continue
        indent = max(_indent(line), 1)
        for _ in range(depth, indent):
            yield '<div class="block">'
        for _ in range(indent, depth):
            yield "</div>"
        depth = indent
        yield _line(line, outcomes, line.text.strip())
    yield "</div>" * depth


def _indent(line: Line) -> int:
    return (len(line.text) - len(line.text.lstrip())) // 2


def _table(sites: Sequence[Site]) -> str:
    rows = "".join(
        f"<tr><td>{_text(site.at)}</td><td>{_text(site.construct)}</td><td>{_text(site.outcome)}</td><td>{_text(site.reason)}</td></tr>"
        for site in sites
    )
    return f'<table id="sites">{rows}</table>'
