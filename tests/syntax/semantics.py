"""Python's order and identity."""

from __future__ import annotations

from tests.syntax.case import Chapter

CHAPTER = Chapter("Python's order and identity")
