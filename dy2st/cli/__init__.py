"""The ``dy2st`` command. It needs the packages of the extra ``cli``; nothing else of dy2st imports it."""

from __future__ import annotations

import sys


def main() -> None:
    """Do what the ``dy2st`` command runs."""
    try:
        from dy2st.cli.app import app  # typer and rich are optional
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"the dy2st command needs {error.name}: pip install 'dy2st[cli]'")
    app()
