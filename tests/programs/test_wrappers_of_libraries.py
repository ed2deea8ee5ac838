"""Functions of the user's that have the name and module of a library's: ``functools.wraps(torch.relu)``; dicts of threads' own objects."""

import functools
import threading

import numpy as np
import torch

from tests.oracle import agree
from tests.programs.values import signs


def positive_only(function):
    @functools.wraps(function)
    def wrapper(x, *args, **kwargs):
        print(f"called {function.__name__}")
        if x.sum() > 0:
            return function(x, *args, **kwargs)
        return x - 1

    return wrapper


relu, gelu = positive_only(torch.relu), positive_only(torch.nn.functional.gelu)


def test_functions_of_torch_that_the_user_wraps():
    agree(lambda x: (relu(x), gelu(x, approximate="tanh")), signs())


def test_a_function_under_the_name_of_numpys_that_calls_torch():
    def dispatched(*args):
        return torch.einsum(*args)

    functools.update_wrapper(dispatched, np.einsum)
    agree(lambda x: dispatched("i,i->", x, x), signs())


class Settings(threading.local):
    def __init__(self):
        self.factor = 2.0


def test_the_dict_of_a_users_local_of_threads():
    settings = Settings()
    agree(lambda x: (x * settings.__dict__["factor"] + vars(settings).get("bias", 1.0), sorted(settings.__dict__)), signs())
