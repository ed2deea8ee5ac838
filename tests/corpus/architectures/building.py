"""A model of an architecture with its calls, as far as eager can run it."""

from __future__ import annotations

import copy
from typing import Any

import torch

from tests.corpus import judging
from tests.corpus.architectures import catalogue
from tests.corpus.architectures.inputs import SIZES, Arguments
from tests.corpus.architectures.shrinking import LEVELS, Shrinking, shrunk
from tests.corpus.registry import Subject

MOST_PARAMETERS = 90_000_000


class NotBuiltError(Exception):
    """Eager cannot run what was built."""


class AbsentError(Exception):
    """The architecture needs a library that is not installed."""


class Wrapper(torch.nn.Module):
    """A module of the user's around a model: what it computes from the model's first result.

    Args:
        model: the model.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.scale = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, **inputs: Any) -> Any:
        """Return the model's last hidden states, scaled, with their mean."""
        outputs = self.model(**inputs)
        hidden = outputs.last_hidden_state if "last_hidden_state" in outputs else outputs[0]
        if not isinstance(hidden, torch.Tensor):
            return hidden
        scaled = hidden.float() * self.scale
        return scaled, scaled.mean()


def built(name: str, kind: str, sizes: int = len(SIZES), *, images: bool = False) -> Subject:
    """Build a model and find arguments that it takes.

    Args:
        name: of the architecture.
        kind: ``direct``, ``wrapped`` or ``training``.
        sizes: of how many sizes the arguments are.
        images: see :class:`Arguments`.

    Returns:
        The model and its calls.

    Raises:
        NotBuiltError: there are none.
    """
    reasons: list[str] = []
    for how in LEVELS:
        try:
            model = _model(name, how)
        except ImportError as error:
            raise AbsentError(" ".join(str(error).split())) from error
        except Exception as error:
            reasons.append(_told(error))
            continue
        subject = _subject(name, model, kind, sizes, images, reasons)
        if subject is not None:
            return subject
    raise NotBuiltError("\n".join(dict.fromkeys(reasons)))


def _told(error: Exception) -> str:
    return " ".join(f"{'' if isinstance(error, NotBuiltError) else type(error).__name__}: {error}".split())[:220]


def _model(name: str, how: Shrinking) -> Any:
    config_class, model_class = catalogue.classes(name)
    torch.manual_seed(0)
    config = shrunk(config_class, how, name)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in model_class(copy.deepcopy(config)).parameters())
    if size > MOST_PARAMETERS:
        raise NotBuiltError(f"{size:,} parameters")
    return model_class(config).eval()


def _subject(name: str, model: Any, kind: str, sizes: int, images: bool, reasons: list[str]) -> Subject | None:
    makers = [Arguments(name, model, number, images) for number in range(sizes)]
    for keys, variant in makers[0].candidates():
        for _ in range(2):
            try:
                calls = [maker.arguments(keys, variant) for maker in makers]
                subject = Subject(_function(model, kind), calls)
                _run(subject, sizes)
            except LookupError:
                break
            except Exception as error:
                reasons.append(_told(error))
                if not all([maker.learns(str(error)) for maker in makers]):
                    break
            else:
                return subject
    return None


def _run(subject: Subject, sizes: int) -> None:
    """Call in eager, on two copies: what differs between these cannot be judged."""
    first, second = copy.deepcopy(subject), copy.deepcopy(subject)
    for number in range(sizes):
        seen = judging.observe(first.function, first, number)[0]
        if seen["error"] is not None:
            raise NotBuiltError(f"{type(seen['error']).__name__}: {seen['error']}") from seen["error"]
        again = judging.observe(second.function, second, number)[0]
        if judging.compare(seen, again)[0] != judging.SAME:
            raise NotBuiltError(f"eager differs from eager: {judging.compare(seen, again)[1]}")


def _function(model: Any, kind: str) -> Any:
    if kind == "direct":
        return model
    wrapper = Wrapper(model)
    return wrapper.train() if kind == "training" else wrapper.eval()
