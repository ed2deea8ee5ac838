"""Values that branches and loops change."""

from __future__ import annotations

from tests.syntax.case import Chapter

CHAPTER = Chapter("Values that branches and loops change")
