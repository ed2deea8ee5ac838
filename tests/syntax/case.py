"""What dy2st does with each construct of Python, as cases: each is a test, and a line of docs/syntax.md.

A chapter is a module of this folder with a ``CHAPTER``; a case is a function (or an ``nn.Module`` class) decorated with one of its
methods, which say what becomes of the construct:

- ``captured``: one program, recorded with the first call, does what eager Python does for all of them;
- ``unrolled``: one program too, in which the iterations of a Python loop stand one after another;
- ``plain``: the construct runs in Python while the program is recorded, and leaves no control flow in it;
- ``refused``: an error, whose type and words are given.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


class Outcome(enum.Enum):
    """What becomes of a construct."""

    CAPTURED = "captured"
    UNROLLED = "unrolled"
    PLAIN = "plain Python"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class Case:
    """One construct.

    Attributes:
        title: the construct as the page names it, in Markdown.
        outcome: what becomes of it.
        program: the function, or the class of a module.
        calls: the arguments of each call, a tuple (or one argument); the first is captured.
        spec: the ``input_spec``.
        note: what a reader should know, one sentence.
        error: the type that is raised, for a refusal.
        says: words of its message.
    """

    title: str
    outcome: Outcome
    program: Callable[..., Any]
    calls: Sequence[Any]
    spec: Sequence[Any] | None = None
    note: str = ""
    error: type[BaseException] | None = None
    says: str = ""


@dataclasses.dataclass
class Chapter:
    """The cases of one chapter of the page, in order."""

    title: str
    cases: list[Case] = dataclasses.field(default_factory=list)

    def captured(self, title: str, calls: Sequence[Any], **rest: Any) -> Callable[[_F], _F]:
        """One program does it for all inputs."""
        return self._add(title, Outcome.CAPTURED, calls, rest)

    def unrolled(self, title: str, calls: Sequence[Any], **rest: Any) -> Callable[[_F], _F]:
        """One program does it, iteration after iteration."""
        return self._add(title, Outcome.UNROLLED, calls, rest)

    def plain(self, title: str, calls: Sequence[Any], **rest: Any) -> Callable[[_F], _F]:
        """It runs while the program is recorded."""
        return self._add(title, Outcome.PLAIN, calls, rest)

    def refused(
        self, title: str, calls: Sequence[Any], *, error: type[BaseException], says: str, **rest: Any
    ) -> Callable[[_F], _F]:
        """It raises an error, at decoration or at the first call."""
        return self._add(title, Outcome.REFUSED, calls, {"error": error, "says": says, **rest})

    def _add(self, title: str, outcome: Outcome, calls: Sequence[Any], rest: dict[str, Any]) -> Callable[[_F], _F]:
        def register(program: _F) -> _F:
            assert all(case.title != title for case in self.cases), f"two cases named {title}"
            self.cases.append(Case(title, outcome, program, calls, **rest))
            return program

        return register
