"""Signals: how the parts of a capture tell each other to stop, or to start again, past the user's own handlers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

ACTS_FOR_USER = False


class Signal(BaseException):
    """Control flow of the capture itself; user code that catches ``Exception`` does not see it."""


class Unreachable(Signal):
    """The rest of the block never runs: an exception has been recorded in it."""


class Refused(Signal):
    """An error of the capture on its way past the user's ``except`` clauses, which are not meant for it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class NeedsRuntimeList(Signal):
    """Lists have to become lists of the program in the blocks that made them, and the capture of what follows starts again."""

    def __init__(self, *lists: list[Any]) -> None:
        super().__init__("a list changes length inside a captured block")
        self.lists = lists


class Needed:
    """All lists that steps after one another need."""

    def __init__(self) -> None:
        self._lists: list[list[Any]] = []

    @contextlib.contextmanager
    def lists(self) -> Iterator[None]:
        """Note the lists that a step needs; it ends there."""
        try:
            yield
        except NeedsMade:
            raise
        except NeedsRuntimeList as needed:
            self._lists += needed.lists
        except Exception:
            if not self._lists:  # else it may come of what these are not yet
                raise

    def check(self) -> None:
        """Begin again where there are any.

        Raises:
            NeedsRuntimeList: there are.
        """
        if self._lists:
            raise NeedsRuntimeList(*self._lists)


class NeedsMade(NeedsRuntimeList):
    """The program has to make an object in the block that made it, and the capture of what follows starts again.

    Attributes:
        value: the object.
        error: what is wrong where that cannot be.
    """

    def __init__(self, value: Any, error: Exception) -> None:
        super().__init__()
        self.value, self.error = value, error


class Needs(Signal):
    """The capture starts again, with another request."""


class NeedsAbstract(Needs):
    """Something has to stand for a set or deque from outside, and the capture starts again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is changed where a tensor decides")
        self.name = name


class NeedsObject(Needs):
    """An object from outside has to be an input of the program, and the capture starts again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is another object at each call")
        self.name = name


class NeedsTable(Needs):
    """A dict or set from outside has to be one of the program, and the capture starts again.

    Attributes:
        name: of its source.
        kinds: the types of its keys and of what is under them; ``None`` for those that it has.
        error: what is wrong where it cannot be one.
    """

    def __init__(self, name: str, kinds: Any, error: Exception) -> None:
        super().__init__(f"{name} gets a key that only the program knows")
        self.name, self.kinds, self.error = name, kinds, error


class NeedsRanks(Needs):
    """The order of the keys of a dict has to be told by ranks, and the capture starts again."""

    def __init__(self) -> None:
        super().__init__("the keys of a dict may be in more orders than are written out")


class NeedsSteps(Needs):
    """What an iterator gives must not be taken before it is known that the code asks for it, and the capture starts again.

    Attributes:
        steps: what tells the code of the iterator from others.
    """

    def __init__(self, steps: Any) -> None:
        super().__init__("an iterator raises or draws on its way to an item that may not be taken")
        self.steps = steps


class NeedsGiving(Needs):
    """A generator has to give its items to the loop that takes them, and the capture starts again.

    Attributes:
        generator: what tells its code from others.
    """

    def __init__(self, generator: Any) -> None:
        super().__init__("a tensor decides about a statement with a yield inside")
        self.generator = generator


class NeedsPositions(Needs):
    """Iterators have to be of the program, which knows how many items they have given, and the capture starts again.

    Attributes:
        lines: the files and lines that make them.
    """

    def __init__(self, lines: frozenset[Any]) -> None:
        super().__init__("a tensor decides how many items of an iterator have been taken")
        self.lines = lines


class NeedsRecords(Needs):
    """What is written outside has to be recorded before each operation that may fail, and the capture starts again."""

    def __init__(self) -> None:
        super().__init__("an operation may fail after the program has changed a tensor, and written something else, outside")


class NeedsApart(Needs):
    """Tensors that differ in a trait, or objects, have to be told apart, and the capture starts again."""

    def __init__(self, trait: str) -> None:
        super().__init__(f"the ways to a value disagree in its {trait}")
        self.trait = trait
