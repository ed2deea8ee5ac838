"""``dy2st build``."""

from __future__ import annotations

import importlib
import time

from dy2st.cli.output import console, duration
from dy2st.errors import Dy2stError

_MODULE = "dy2st_runtime.executors.native.build"


def build(runner: bool) -> None:
    """Build the native executor where its first use would look for it, or the program that runs models without Python."""
    try:
        native = importlib.import_module(_MODULE)
    except ModuleNotFoundError as error:
        if error.name != _MODULE:
            raise
        raise Dy2stError("this version of dy2st has no native executor") from None
    start = time.perf_counter()
    built = native.build_runner() if runner else native.build()
    told = f"built in {duration(time.perf_counter() - start)}"
    console().print(f"{told}: {built}" if built else told, markup=False, soft_wrap=True)
