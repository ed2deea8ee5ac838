"""What became of each control-flow statement."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from dy2st.capture.capture import Captured
from dy2st.capture.regions import Site


@dataclasses.dataclass(frozen=True)
class Report:
    """The control-flow sites of a static function.

    Attributes:
        name: the function.
        programs: how many programs it has.
        sites: one for each statement and outcome.
    """

    name: str
    programs: int
    sites: tuple[Site, ...]

    @classmethod
    def of(cls, name: str, programs: Sequence[Captured]) -> Report:
        """The report on some programs."""
        sites = dict.fromkeys(site for captured in programs for site in captured.sites)
        return cls(name, len(programs), tuple(sites))

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.programs} programs, {len(self.sites)} control-flow sites"]
        for site in self.sites:
            where = f"{os.path.basename(site.location.file)}:{site.location.line}"
            lines.append(f"  {where:<24} {site.construct:<8} {site.outcome:<13} {site.reason}")
        return "\n".join(lines)
