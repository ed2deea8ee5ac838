"""Classes in C whose ``__module__`` is a descriptor, for that of their instances: Cython's class of functions."""

import types

from dy2st.capture.environment.users_code import is_library


def test_a_module_that_is_no_text_is_a_librarys():
    assert is_library(types.FunctionType.__dict__["__globals__"])
    assert is_library("torch.nn") and not is_library("somebody.model")
