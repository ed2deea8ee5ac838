"""Every operator of PyTorch's own database of operators, with sizes that only the program knows, in a ``try`` statement and without.

    python -m tests.fuzz.operators                  all (half an hour on one core); needs the package expecttest
    python -m tests.fuzz.operators amax conv1d      some

A tensor of each sample is cut where another one tells, so that an operand is empty, has one row, or does not fit; the program is
captured once, with all rows. It has to give what eager gives, or to raise what eager raises; in a ``try`` statement, the clause has
to be entered where eager enters it.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import inspect
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import dy2st
from dy2st.errors import Dy2stError
from tests.fuzz.oracle import OutOfTimeError, limited

_SECONDS = 40
_SAMPLES = 4
_UNINITIALISED = ("empty", "resize_")
_SEEDING = "wrapper_set_seed"
"""In operators of the database that set the seed in code that is not converted."""


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator with operands.

    Attributes:
        function: the operator.
        tensors: its operands that are tensors; those of a list first.
        in_list: how many of these are given in a list, ``None`` if the first is given alone.
        args, places: the other operands, and where tensors stand among them.
        kwargs: named operands.
        cuts: for each tensor the dimension that is cut, ``None`` for one that is given whole.
    """

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    in_list: int | None
    args: tuple[Any, ...]
    places: tuple[int, ...]
    kwargs: dict[str, Any]
    cuts: tuple[int | None, ...]

    def call(self, count: int, tensors: Sequence[torch.Tensor]) -> Any:
        """Call the operator with what is left of the tensors."""
        given = []
        for tensor, dim in zip(tensors, self.cuts):
            given.append(tensor if dim is None else tensor[:count] if dim == 0 else tensor[..., :count])
        first = given[0] if self.in_list is None else given[: self.in_list]
        args = list(self.args)
        for place, tensor in zip(self.places, given[1 if self.in_list is None else self.in_list :]):
            args[place] = tensor
        return self.function(first, *args, **self.kwargs)

    @property
    def counts(self) -> list[int]:
        """How much of the tensors is left in each call, all of them first."""
        whole = next(tensor.shape[dim] for tensor, dim in zip(self.tensors, self.cuts) if dim is not None)
        return [whole, *sorted({0, 1, 2, whole} - {whole} if whole > 2 else {0, 1} - {whole})]


def _plain(case: Case) -> Callable[..., Any]:
    def plain(count: Any, *tensors: Any) -> Any:
        return case.call(int(count), tensors)

    return plain


def _trying(case: Case) -> Callable[..., Any]:
    def trying(count: Any, *tensors: Any) -> Any:
        n = int(count)
        try:
            return case.call(n, tensors)
        except (RuntimeError, IndexError, ValueError) as error:
            return "caught", type(error).__name__

    return trying


FORMS = {"plain": _plain, "try": _trying}


def cases(info: Any) -> Iterator[tuple[str, Case]]:
    """Yield what is tried of an operator, with a name each."""
    samples = list(info.sample_inputs("cpu", torch.float32))
    for number, sample in enumerate(samples[:: max(1, len(samples) // 3)][:_SAMPLES]):
        listed = isinstance(sample.input, (list, tuple))
        leaves = list(sample.input) if listed else [sample.input]
        places = tuple(place for place, arg in enumerate(sample.args) if isinstance(arg, torch.Tensor))
        tensors = tuple(
            leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in (*leaves, *(sample.args[i] for i in places))
        )
        usable = all(isinstance(one, torch.Tensor) and one.layout == torch.strided for one in tensors)
        if not usable or not leaves or tensors[0].dim() == 0:
            continue
        rest: tuple[None, ...] = (None,) * (len(tensors) - 1)
        alike = tuple(0 if one.dim() and one.shape[0] == tensors[0].shape[0] else None for one in tensors)
        plans = {"the first": (0, *rest), "all": alike, "the last dimension": (-1, *rest)}
        for name, cuts in {cuts: name for name, cuts in plans.items()}.items():
            if cuts != (-1, *rest) or tensors[0].dim() > 1:
                yield (
                    f"sample {number}, cut: {cuts}",
                    Case(info.op, tensors, len(leaves) if listed else None, sample.args, places, sample.kwargs, name),
                )


def judge(case: Case, form: str, backend: str) -> tuple[str, str]:
    """Return a verdict (``same``, ``refused``, ``WRONG``, ``no case``), and what differs."""
    function = FORMS[form](case)
    expected = [_observed(function, count, case.tensors) for count in case.counts]
    if all(kind == "raises" for kind, _ in expected) or (form == "try" and all(not _is_caught(one) for one in expected)):
        return "no case", ""
    static = dy2st.to_static(function, backend=backend)
    for count, one in zip(case.counts, expected):
        found = _observed(static, count, case.tensors)
        if found[0] == "refused":
            return "refused", found[1]
        if found[0] != one[0] or not _same(one[1], found[1]):
            return "WRONG", f"of {count}: {one} in eager, but {found}"
    return "same", ""


def _observed(function: Callable[..., Any], count: int, tensors: Sequence[torch.Tensor]) -> tuple[str, Any]:
    torch.manual_seed(0)
    try:
        return "gives", function(torch.tensor(count), *(tensor.clone() for tensor in tensors))
    except Dy2stError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:
        return "raises", type(error).__name__


def _is_caught(observed: tuple[str, Any]) -> bool:
    return isinstance(observed[1], tuple) and observed[1][:1] == ("caught",)


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        alike = isinstance(found, torch.Tensor) and (expected.dtype, expected.shape) == (found.dtype, found.shape)
        strided = alike and expected.layout == torch.strided
        return alike and (not strided or bool(((expected == found) | ((expected != expected) & (found != found))).all()))
    if isinstance(expected, (tuple, list)):
        is_one = isinstance(found, tuple) == isinstance(expected, tuple) and len(found) == len(expected)
        return is_one and all(map(_same, expected, found))
    return bool(expected == found)


def operators(names: Sequence[str] = ()) -> list[Any]:
    """Return the operators of the database that are tried, with numbers of single precision."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415  # it takes seconds, and wants expecttest

    def is_tried(info: Any) -> bool:
        is_other = any(part in info.name for part in _UNINITIALISED) or info.name.startswith("_refs")
        if torch.float32 not in info.dtypes or is_other or (names and info.name.rpartition(".")[2] not in names):
            return False
        try:
            return _SEEDING not in inspect.getsource(info.op)
        except (OSError, TypeError):
            return True

    return [info for info in op_db if is_tried(info)]


def _work(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for place, info in enumerate(operators(options.names)):
        if place < options.first:
            continue
        print(json.dumps({"place": place, "name": info.name}), flush=True)
        for name, case in cases(info):
            for form in FORMS:
                try:
                    with limited(_SECONDS):
                        verdict, detail = judge(case, form, options.backend)
                except OutOfTimeError:
                    verdict, detail = "time-out", ""
                print(json.dumps({"name": f"{info.name}, {name}, {form}", "verdict": verdict, "detail": detail[:400]}), flush=True)


def main() -> None:
    """The command: the work is done by other processes, since kernels end some of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.operators", description=__doc__)
    parser.add_argument("names", nargs="*", help="of operators; all, if there are none")
    parser.add_argument("--backend", default="python")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return _work(options)
    counts: collections.Counter[str] = collections.Counter()
    first: int | None = 0
    while first is not None:
        command = [sys.executable, "-m", "tests.fuzz.operators", *options.names, "--work", "--first", str(first)]
        with subprocess.Popen([*command, "--backend", options.backend], stdout=subprocess.PIPE, text=True) as worker:
            entry: dict[str, Any] = {}
            for line in worker.stdout or ():
                entry = {**entry, **json.loads(line)} if line.startswith("{") else entry
                verdict = entry.pop("verdict", None)
                counts[verdict] += verdict is not None
                if verdict in ("WRONG", "time-out"):
                    print(f"{verdict}: {entry['name']}: {entry['detail']}", flush=True)
        first = None if worker.returncode == 0 else entry["place"] + 1
        if first is not None:
            print(f"the process ended with {worker.returncode}: {entry['name']}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if verdict is not None))


if __name__ == "__main__":
    main()
