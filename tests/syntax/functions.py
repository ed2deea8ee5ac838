"""Functions, classes and libraries."""

from __future__ import annotations

from tests.syntax.case import Chapter

CHAPTER = Chapter("Functions, classes and libraries")
