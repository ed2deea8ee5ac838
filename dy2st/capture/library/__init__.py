"""Builtins and library functions that mean something for values known only at run time, by subject.

A module of this package registers its handlers when it is imported, and all of them are imported here.
"""

from __future__ import annotations

import importlib
import pkgutil

from dy2st.capture.library.at_once import at_once
from dy2st.capture.library.attention import FAST_PATHS
from dy2st.capture.library.effects import LOG_METHODS, CachedFunction, log
from dy2st.capture.library.operator_functions import call_getter, call_method_caller
from dy2st.capture.library.registry import handler_of, takes_unions
from dy2st.capture.library.settings import SETTINGS
from dy2st.capture.library.surroundings import check_manager, check_surroundings, note_setting, surroundings_method

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True

__all__ = [
    "FAST_PATHS", "LOG_METHODS", "SETTINGS", "CachedFunction", "at_once", "call_getter", "call_method_caller", "check_manager",
    "check_surroundings", "handler_of", "log", "note_setting", "surroundings_method", "takes_unions",
]  # fmt: skip

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
