"""Expressions."""

from __future__ import annotations

from tests.syntax.case import Chapter

CHAPTER = Chapter("Expressions")
