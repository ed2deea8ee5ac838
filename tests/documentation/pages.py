"""The code blocks of a page, run one after another in one module, and what they print compared with the page.

What a reader sees is what runs:

- a block of ``python`` runs; a block of ``text`` right after it is what it prints, an exception that it raises last. ``...`` in it
  stands for anything;
- a comment ``<!-- setup`` runs as well, and is not shown: what a reader of a fragment has already;
- a comment ``<!-- not run: reason -->`` keeps the next block from running;
- a comment ``<!-- needs: package, package -->`` does so where one of these is not installed;
- blocks with a title stand side by side and define the same name; ``agree(name, *calls)`` in a setup compares what they define.
"""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import importlib.util
import io
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"""^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?\n(?P<code>.*?)^(?P=indent)```$""",
    re.MULTILINE | re.DOTALL,
)
_HIDDEN = re.compile(r"<!-- (?:setup\n(?P<setup>.*?)|not run: (?P<reason>.*?) ?|needs: (?P<needs>.*?) ?)-->", re.DOTALL)


@dataclasses.dataclass
class Block:
    """A piece of Python of a page.

    Attributes:
        line: where it begins.
        code: what runs.
        shown: what it prints by the page; ``None`` where the page does not say.
        title: what the page calls it, where it stands beside another one; empty elsewhere.
    """

    line: int
    code: str
    shown: str | None = None
    title: str = ""


def blocks(page: Path) -> list[Block]:
    """The Python of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    skipped, left_out, end = False, False, 0
    for match in sorted([*_FENCE.finditer(text), *_HIDDEN.finditer(text)], key=lambda match: match.start()):
        line = text.count("\n", 0, match.start()) + 2
        parts = match.groupdict()
        follows = not text[end : match.start()].strip()
        end = match.end()
        if "language" not in parts:
            needed = (parts["needs"] or "").replace(",", " ").split()
            skipped = parts["reason"] is not None or any(importlib.util.find_spec(name) is None for name in needed)
            if parts["setup"] is not None:
                found.append(Block(line, parts["setup"]))
        elif parts["language"] == "python":
            if not skipped:
                found.append(Block(line, _dedent(parts["code"], parts["indent"]), title=parts["title"] or ""))
            skipped, left_out = False, skipped
        elif parts["language"] == "text" and follows and found and not left_out:
            found[-1].shown = _dedent(parts["code"], parts["indent"])
    return found


def _dedent(code: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))


class Session:
    """Runs the blocks of one page; each is a file of its own named ``model.py``, so that places in it count its own lines.

    Args:
        folder: for those files; relative paths in the blocks are the caller's business.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = types.ModuleType("model")
        self.module.__dict__["agree"] = self._agree
        self._count = 0
        self._beside: dict[str, dict[str, Any]] = {}
        self.compared: list[str] = []
        """What was compared, by ``agree``."""

    def run(self, block: Block) -> str:
        """Run a block.

        Returns:
            What it printed; an exception, where the page shows one, as ``Type: message`` and its notes at the end.
        """
        self._count += 1
        path = self.folder / f"block_{self._count}" / "model.py"
        path.parent.mkdir()
        path.write_text(block.code, encoding="utf-8")
        self._start(block.title)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(block.code, str(path), "exec", dont_inherit=True), self.module.__dict__)
        except Exception as error:
            if block.shown is None:
                raise
            printed.write("\n".join([f"{type(error).__name__}: {said(error)}", *getattr(error, "__notes__", ())]) + "\n")
        if block.title:
            self._beside[block.title] = dict(self.module.__dict__)
        return re.sub(rf"{re.escape(str(self.folder))}/block_\d+/", "", printed.getvalue())

    def _start(self, title: str) -> None:
        """What stood on the same side above is what a block beside another one goes on from."""
        self.module.__dict__.update({name: value for name, value in self._beside.get(title, {}).items() if name in self.compared})

    def _agree(self, name: str, *calls: tuple[Any, ...]) -> None:
        """Compare the results of what all sides define under a name."""
        first, *others = [[plain(side[name](*copied(call))) for call in calls] for side in self._beside.values()]
        assert others, f"{name} stands alone"
        for other in others:
            assert same(other, first), f"{name}: {other} and {first}"
        self.compared.append(name)


def copied(call: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of one side's own."""
    return tuple(argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in call)


def plain(result: Any) -> Any:
    """A result in which tensors with one number, and sizes, are numbers: an operator has them where Python has numbers."""
    if isinstance(result, (tuple, list)):
        return [plain(part) for part in result]
    return result.item() if isinstance(result, torch.Tensor) and result.dim() == 0 else result


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, bit for bit."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and bool(a == b)


def said(error: Exception) -> str:
    """The text of an error, with its place where it is one of syntax."""
    if not isinstance(error, SyntaxError):
        return str(error)
    place = f'{error.msg}\n  File "{error.filename}", line {error.lineno}'
    return f"{place}\n    {error.text.strip()}" if error.text else place


def agrees(block: Block, printed: str) -> bool:
    """Whether a block printed what the page shows."""
    if block.shown is None:
        return True
    tidy = ["\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n" for text in (block.shown, printed)]
    return doctest.OutputChecker().check_output(*tidy, doctest.ELLIPSIS)


def with_code() -> Iterator[Path]:
    """The pages that have Python to run. Those on syntax are written from tests of their own."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if "syntax" not in str(page.relative_to(ROOT)) and blocks(page):
            yield page
