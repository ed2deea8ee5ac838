"""docs/syntax.md, written from the cases: ``python -m tests.syntax.page`` writes it."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

import dy2st
from tests.syntax.case import Case, Chapter, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "syntax.md"
CHAPTERS = ("control", "checks", "expressions", "values", "functions", "semantics", "refusals")
INTRODUCTION = """\
# What becomes of each construct

This page is written from the tests (`python -m tests.syntax.page`): each line is a case in `tests/syntax/`, run against eager
Python on inputs that take every path.

- **captured**: part of the program; one program serves every input of the signature.
- **unrolled**: a Python loop whose iterations stand in the program one after another.
- **plain Python**: runs once, while the program is recorded; what it read is checked at each call.
- **refused**: an error that names the line and what to write instead; `@dy2st.not_to_static` on a helper or
  `to_static(full_graph=False)` keep the code as it is.
"""


def chapters() -> list[Chapter]:
    """The chapters, in the order of the page."""
    return [importlib.import_module(f"tests.syntax.{name}").CHAPTER for name in CHAPTERS]


def page() -> str:
    """The text of the page."""
    return INTRODUCTION + "".join(f"\n## {chapter.title}\n\n" + "\n".join(_chapter(chapter)) + "\n" for chapter in chapters())


def _chapter(chapter: Chapter) -> Iterator[str]:
    kept = [case for case in chapter.cases if case.outcome is not Outcome.REFUSED]
    if kept:
        yield "| Construct | | |"
        yield "|---|---|---|"
        for case in kept:
            yield f"| {_cell(case.title)} | {case.outcome.value} | {_cell(case.note)} |"
    for case in chapter.cases:
        if case.outcome is Outcome.REFUSED:
            yield from _refusal(case)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _refusal(case: Case) -> Iterator[str]:
    yield f"\n**{case.title}** – refused. {case.note}".rstrip()
    yield f"\n```python\n{_source(case)}\n```"
    yield f"\n```text\n{message(case)}\n```"


def _source(case: Case) -> str:
    """The code of a case without its decorators."""
    lines = textwrap.dedent(inspect.getsource(case.program)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(("def ", "class ", "async def ")))
    return "\n".join(lines[start:])


def message(case: Case) -> str:
    """The error of a refusal, with the file named `model.py` and lines counted in the case."""
    error = raised(case)
    assert error is not None, f"{case.title} is not refused"
    lines, first = inspect.getsourcelines(case.program)
    skipped = len(lines) - len(_source(case).splitlines())
    text = str(error)
    if isinstance(error, SyntaxError) and error.lineno is not None:
        text = f'{error.msg}\n  File "{error.filename}", line {error.lineno}\n    {(error.text or "").strip()}'
    text = text.replace(inspect.getfile(case.program), "model.py")
    for line in range(first + len(lines), first, -1):
        text = text.replace(f'"model.py", line {line}', f'"model.py", line {line - first - skipped + 1}')
    return f"{type(error).__name__}: {text}"


def raised(case: Case) -> BaseException | None:
    """The error of the first call, or of the decorator."""
    program = case.program() if inspect.isclass(case.program) else case.program
    try:
        static = dy2st.to_static(program, input_spec=case.spec)
        for call in case.calls:
            static(*(call if isinstance(call, tuple) else (call,)))
    except Exception as error:
        return error
    return None


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
