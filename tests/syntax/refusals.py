"""Refused."""

from __future__ import annotations

from dy2st import UnsupportedSyntaxError
from tests.programs.values import signs
from tests.syntax.case import Chapter

CHAPTER = Chapter("Refused")


@CHAPTER.refused("`yield` in the static function", calls=signs(), error=UnsupportedSyntaxError, says="collect the values in a list")
def yields(x):
    for i in range(3):
        yield x * i
