"""What depends on the data of a tensor, asked where only the run knows it."""

from __future__ import annotations

import os
import sys

import torch

import dy2st_runtime
from dy2st import errors
from dy2st.capture.session.session import Session
from dy2st.errors import DataDependentError

_TORCH = os.path.dirname(torch.__file__) + os.sep


_OWN_FOLDERS = tuple(os.path.dirname(module.__file__ or "") + os.sep for module in (errors, dy2st_runtime))


_FIXES = {
    "_detect_is_causal_mask": "say whether the mask is a causal one: src_is_causal and tgt_is_causal (of nn.Transformer), "
    "is_causal (of nn.TransformerEncoder), tgt_is_causal (of nn.TransformerDecoder)",
}
"""What to write instead, by the name of the function of a library that asks."""


def data_dependent(session: Session, what: str) -> DataDependentError:
    """Return the error for code that asks for a value which only exists at run time."""
    frame = sys._getframe(1)
    while frame is not None and internal(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    asker = f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})" if frame is not None else "C code"
    return DataDependentError(
        f"{asker} asks for the value of a tensor that is known only when the program runs",
        session.here(),
        seen=f"{what} in code that was not converted",
        fix=_FIXES.get(
            asker.split(" ")[0],
            "use a tensor operation there, give the function source that can be converted, or call it outside of the program",
        ),
    )


def internal(file: str) -> bool:
    """Tell whether a file is part of the machinery that runs captures, not one that asks questions itself."""
    if file.startswith(_TORCH):
        return file[len(_TORCH) :].startswith(("_", "overrides.py", "fx/", "utils/_", "autograd/"))
    return file.startswith(_OWN_FOLDERS)
