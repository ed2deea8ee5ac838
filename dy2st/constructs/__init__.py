"""One file per language construct: the rewrite, and the operator it emits.

Adding a construct is adding a file: every module of this package is imported here, and registers itself.
"""

from __future__ import annotations

import importlib
import pkgutil

ACTS_FOR_USER = True

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
