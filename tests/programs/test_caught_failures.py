"""Operations that fail on the data in ``try`` statements that catch it: the exception is control flow, as in eager."""

from __future__ import annotations

import contextlib
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import dy2st
import dy2st_runtime
from dy2st import to_static
from tests.devices import ends_the_process
from tests.oracle import agree

LinAlgError = torch.linalg.LinAlgError
GOOD = torch.tensor([[2.0, 0.5, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 2.0]])
NEARLY = torch.diag(torch.tensor([1.0, 1.0, -0.0005]))
SINGULAR = torch.zeros(3, 3)
BOTH = torch.stack([GOOD, NEARLY])


def psd_cholesky(a: Any) -> Any:
    try:
        return torch.linalg.cholesky(a)
    except RuntimeError:
        pass
    for i in range(4):
        try:
            return torch.linalg.cholesky(a + 1e-4 * 10**i * torch.eye(a.shape[-1]))
        except RuntimeError:
            continue
    raise ValueError("not positive definite")


def test_a_factorization_is_tried_again_with_more_jitter() -> None:
    agree(psd_cholesky, [GOOD, NEARLY, -GOOD])
    agree(psd_cholesky, [BOTH, torch.stack([GOOD, GOOD]), -BOTH])


def test_gradients_go_through_the_way_that_succeeds() -> None:
    agree(psd_cholesky, [GOOD.clone().requires_grad_(), NEARLY.clone().requires_grad_()])
    agree(psd_cholesky, [NEARLY.double().requires_grad_(), GOOD.double().requires_grad_()])


def cholesky(a: Any) -> Any:
    return torch.linalg.cholesky(a)


def upper_cholesky(a: Any) -> Any:
    return torch.linalg.cholesky(a, upper=True)


def old_cholesky(a: Any) -> Any:
    return torch.cholesky(a)


def inv(a: Any) -> Any:
    return torch.linalg.inv(a)


def inverse(a: Any) -> Any:
    return a.inverse()


def solve(a: Any) -> Any:
    return torch.linalg.solve(a, torch.ones(3, dtype=a.dtype))


def solve_from_the_right(a: Any) -> Any:
    return torch.linalg.solve(a, torch.ones(3, 3, dtype=a.dtype), left=False)


def lu_factor(a: Any) -> Any:
    return torch.linalg.lu_factor(a)


def ldl_factor(a: Any) -> Any:
    return torch.linalg.ldl_factor(a)


FACTORIZATIONS = [cholesky, upper_cholesky, old_cholesky, inv, inverse, solve, solve_from_the_right, lu_factor, ldl_factor]


@pytest.mark.parametrize("function", FACTORIZATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
def test_an_exception_of_linear_algebra_says_what_eager_says(function: Any, dtype: torch.dtype) -> None:
    def f(a: Any) -> Any:
        try:
            return function(a)
        except RuntimeError as error:
            return type(error).__name__, str(error)

    agree(f, [a.to(dtype) for a in (GOOD, NEARLY, SINGULAR, torch.ones(3, 3))])


def test_operations_that_tell_what_went_wrong_raise_it_if_asked_to() -> None:
    def f(a: Any) -> Any:
        results = []
        for function in (torch.linalg.cholesky_ex, torch.linalg.inv_ex, torch.linalg.lu_factor_ex):
            try:
                results.append(function(a, check_errors=True))
            except RuntimeError as error:
                results.append(str(error))
        return results, torch.linalg.cholesky_ex(a).info

    agree(f, [GOOD, NEARLY, SINGULAR, BOTH], programs=2)


@pytest.mark.parametrize("function", [cholesky, inv, lu_factor])
def test_the_first_matrix_of_a_batch_that_fails_is_named(function: Any) -> None:
    def f(a: Any) -> Any:
        try:
            return function(a)
        except RuntimeError as error:
            return str(error)

    zeros = torch.zeros(3, 3)
    agree(f, [BOTH, torch.stack([GOOD, GOOD]), torch.stack([GOOD, zeros]), torch.stack([zeros, -GOOD])])
    agree(f, [torch.zeros(0, 3, 3)])
    agree(f, [torch.stack([BOTH, BOTH.flip(0), torch.stack([zeros, zeros])])])


def test_a_dtype_without_a_kernel_raises_what_eager_raises() -> None:
    def f(a: Any) -> Any:
        try:
            return torch.linalg.cholesky(a)
        except RuntimeError as error:
            return str(error)

    agree(f, [GOOD.bfloat16()])


def test_what_is_done_before_a_failure_stays_and_finally_runs() -> None:
    class Counting(torch.nn.Module):
        steps: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))
            self.failures = torch.zeros(())

        def forward(self, a: Any) -> Any:
            log = {"tried": 1}
            try:
                self.steps += 1
                log["before"] = 2
                result = torch.linalg.inv(a)
                self.steps += 10
                log["after"] = 3
            except LinAlgError:
                self.failures = self.failures + 1
                result = a
            else:
                print("no failure")
            finally:
                self.steps += 100
            return result, log, self.failures

    agree(Counting(), [GOOD, SINGULAR, GOOD, SINGULAR])


def test_the_handlers_of_nested_statements_are_asked_from_the_inside() -> None:
    def f(a: Any) -> Any:
        log = []
        try:
            try:
                log.append("begin")
                result = torch.linalg.cholesky(a)
                log.append("end")
            except KeyError:
                log.append("key")
            finally:
                log.append("finally")
        except RuntimeError:
            log.append("outside")
            result = a
        return result, log

    agree(f, [GOOD, NEARLY])


def test_a_failure_is_raised_again_or_from_another_exception() -> None:
    def again(a: Any) -> Any:
        try:
            return torch.linalg.cholesky(a)
        except LinAlgError:
            print("failed")
            raise

    def from_it(a: Any) -> Any:
        try:
            try:
                return torch.linalg.cholesky(a)
            except LinAlgError as error:
                raise KeyError("no factor") from error
        except KeyError as error:
            return str(error.__cause__), type(error.__context__).__name__

    def outside(a: Any) -> Any:
        try:
            return again(a)
        except LinAlgError as error:
            raise ValueError(f"wrapped: {error}") from error

    for function in (again, from_it, outside):
        agree(function, [GOOD, NEARLY])


def test_loops_continue_and_break_where_an_operation_fails() -> None:
    def continued(a: Any) -> Any:
        for i in range(3):
            try:
                factor = torch.linalg.cholesky(a)
                print("factor", i)
            except LinAlgError:
                a = a + 1e-3 * torch.eye(3)
                continue
            else:
                print("else")
                break
            finally:
                print("finally", i)
        return factor

    def until(a: Any) -> Any:
        jitter = 1e-6
        while True:
            try:
                factor = torch.linalg.cholesky(a + jitter * torch.eye(3))
                break
            except LinAlgError:
                jitter = jitter * 10
                if jitter > 1:
                    raise
        return factor, jitter

    agree(continued, [GOOD, NEARLY])
    agree(until, [GOOD, NEARLY, -GOOD])


def test_two_operations_in_one_body_fail_by_themselves() -> None:
    def f(a: Any, b: Any) -> Any:
        try:
            first = torch.linalg.cholesky(a)
            second = torch.linalg.inv(b)
        except LinAlgError as error:
            return str(error)
        return first, second

    agree(f, [(GOOD, GOOD.clone()), (NEARLY, GOOD), (GOOD, SINGULAR), (NEARLY, SINGULAR)])


def test_a_failure_in_a_helper_is_suppressed_around_it() -> None:
    def f(a: Any) -> Any:
        result = a
        with contextlib.suppress(LinAlgError):
            result = cholesky(a)
        return result

    agree(f, [GOOD, NEARLY])


def test_a_handler_warns_of_the_failure() -> None:
    def f(a: Any) -> Any:
        try:
            return torch.linalg.cholesky(a)
        except RuntimeError as error:
            warnings.warn(f"failed: {error}", RuntimeWarning, stacklevel=1)
            return a

    static = to_static(f)
    for a, failures in [(GOOD, 0), (NEARLY, 1)]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert torch.equal(static(a), static(a))
        assert len([one for one in caught if "leading minor of order 3" in str(one.message)]) == 2 * failures


def test_a_distribution_that_refuses_its_parameters_is_caught() -> None:
    def normal(covariance: Any) -> Any:
        try:
            given = torch.distributions.MultivariateNormal(torch.zeros(3), covariance, validate_args=False)
            return given.log_prob(torch.ones(3))
        except LinAlgError as error:
            return str(error)

    def checked(scale: Any) -> Any:
        try:
            return torch.distributions.Normal(torch.zeros(2), scale, validate_args=True).log_prob(torch.ones(2))
        except ValueError as error:
            return str(error)

    agree(normal, [GOOD, NEARLY])
    agree(checked, [torch.ones(2), -torch.ones(2)])


def test_an_item_that_is_not_there_is_caught() -> None:
    def number(x: Any, i: Any) -> Any:
        try:
            return x[i.item()] + x[..., i]
        except IndexError as error:
            return str(error)

    def second(x: Any, i: Any) -> Any:
        try:
            return x[0, None, i], x.select(1, i.item())
        except LookupError as error:
            return str(error)

    def method(x: Any, i: Any) -> Any:
        try:
            return x.select(-1, i.item())
        except IndexError as error:
            return str(error)

    def assigned(x: Any, i: Any) -> Any:
        try:
            x[0, i.item()] = 4.0
        except IndexError as error:
            return x, str(error)
        return x

    x = torch.arange(6.0).reshape(2, 3)
    for function in (number, second, method, assigned):
        agree(function, [(x, torch.tensor(i)) for i in (1, 2, 3, -2, -3, -4)])


def test_a_division_by_zero_is_caught() -> None:
    def f(n: Any, x: Any) -> Any:
        n, x, results = n.item(), x.item(), []
        for act in (
            lambda: 10 // n, lambda: 10 % n, lambda: 10 / n, lambda: 10 / x, lambda: 10.0 // x, lambda: n % x, lambda: divmod(n, n),
            lambda: int(x) // int(x), lambda: n / n,
        ):  # fmt: skip
            try:
                results.append(act())
            except ZeroDivisionError as error:
                results.append(str(error))
        return results

    agree(f, [(torch.tensor(n), torch.tensor(x)) for n, x in [(3, 1.0), (0, 1.0), (1, 0.0), (-1, 0.0)]])


@pytest.mark.parametrize(
    "function",
    [math.sqrt, math.log, math.log2, math.log10, math.log1p, math.acos, math.asin, math.acosh, math.atanh],
)
def test_a_function_that_is_not_defined_for_a_number_is_caught(function: Any) -> None:
    def f(x: Any) -> Any:
        try:
            return function(x.item())
        except ValueError as error:
            return str(error)

    agree(f, [torch.tensor(value) for value in (0.5, 0.0, 1.0, -1.0, -2.0, 2.0, math.nan, math.inf, -math.inf)])


NAN = torch.full((3, 3), math.nan)


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.eigh, torch.linalg.eigvalsh, torch.linalg.svd, torch.linalg.svdvals, torch.linalg.pinv,
        torch.linalg.matrix_rank, lambda a: torch.linalg.eig(a)[0], lambda a: torch.linalg.matrix_power(a, -2),
        lambda a: torch.linalg.tensorsolve(a, torch.ones(3)), torch.cholesky_inverse,
    ],
)  # fmt: skip
def test_an_algorithm_that_does_not_converge_is_caught(function: Any) -> None:
    def f(a: Any) -> Any:
        try:
            return function(a)
        except RuntimeError as error:
            return type(error).__name__, str(error)

    agree(f, [GOOD, NAN, SINGULAR])
    agree(f, [NAN, GOOD])


def test_gradients_go_through_an_attempt() -> None:
    def f(a: Any) -> Any:
        try:
            values, vectors = torch.linalg.eigh(a)
            return (vectors * values.exp()) @ vectors.T
        except LinAlgError:
            return a * 0

    agree(f, [GOOD.clone().requires_grad_(), NAN.clone().requires_grad_()])


@ends_the_process
def test_random_numbers_are_drawn_once_by_an_attempt() -> None:
    def f(p: Any) -> Any:
        try:
            drawn = torch.multinomial(p, 5, replacement=True)
        except RuntimeError as error:
            drawn = str(error)
        return drawn, torch.rand(2)

    agree(f, [torch.ones(3), torch.zeros(3), -torch.ones(3), torch.tensor([1.0, 2.0, math.nan])])


def _assigned(x: Any, i: Any) -> Any:
    x[i] = 7.0
    return x


def _assigned_to_a_copy(x: Any, i: Any) -> Any:
    y = x * 2
    y[:, i] = x[0, 0]
    return y


INDEXED = {
    "index": lambda x, i: x[i] * 2,
    "index in the second dimension": lambda x, i: x[:, i],
    "two indices": lambda x, i: x[i, i],
    "assignment": _assigned,
    "assignment with gradients": _assigned_to_a_copy,
    "gather": lambda x, i: x.gather(1, i[None]),
    "index_select": lambda x, i: x.index_select(1, i),
    "scatter": lambda x, i: x.scatter(1, i[None], x[:1, :2]),
    "scatter_": lambda x, i: (x * 1).scatter_(1, i[None], 1.0),
    "scatter_add": lambda x, i: x.scatter_add(1, i[None], x[:1, :2]),
    "index_add_": lambda x, i: (x * 1).index_add_(0, i, x),
    "index_copy": lambda x, i: x.index_copy(0, i, x),
    "index_fill": lambda x, i: x.index_fill(1, i, 0.5),
    "take": lambda x, i: x.take(i),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "cross_entropy": torch.nn.functional.cross_entropy,
    "one_hot": lambda x, i: x * torch.nn.functional.one_hot(i, 3),
    "bincount": lambda x, i: i.bincount(),
    "repeat_interleave": lambda x, i: x.repeat_interleave(i, 0),
    "integer division": lambda x, i: x + (i // i)[:, None],
    "integer remainder": lambda x, i: x + (3 % i)[:, None],
}


@ends_the_process
@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("grad", [False, True])
def test_indices_out_of_range_are_caught(name: str, grad: bool) -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            return INDEXED[name](x, i)
        except (IndexError, RuntimeError) as error:
            return type(error).__name__, str(error)

    x = torch.arange(6.0).reshape(2, 3)
    agree(f, [(x.clone().requires_grad_(grad), torch.tensor(i)) for i in ([0, 1], [0, 5], [1, -9], [0, 0], [1, 1], [-1, 0])])


@ends_the_process
def test_an_index_out_of_range_in_a_loop_leaves_what_was_written_before() -> None:
    def f(x: Any, i: Any) -> Any:
        seen = []
        for k in range(3):
            try:
                x[i + k] += 1
                seen.append(x[i + k].sum())
            except IndexError:
                seen.append(k)
                break
        return x, seen

    agree(f, [(torch.zeros(4, 2), torch.tensor(i)) for i in ([0, 1], [1, 2], [3, 3], [-4, 5])])


def test_an_exception_of_another_kind_leaves_an_attempt() -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            return x[i]
        except KeyError:
            return x

    agree(f, [(torch.zeros(4), torch.tensor([0, 1])), (torch.zeros(4), torch.tensor([0, 9]))])


def test_a_saved_program_attempts_too(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: Any, i: Any) -> Any:
            try:
                values = torch.linalg.eigvalsh(a)
                return values[i], ""
            except LinAlgError as error:
                return a, str(error)
            except IndexError as error:
                return a, str(error)

    specs = [dy2st.InputSpec([3, 3], "float32"), dy2st.InputSpec([2], "int64")]
    dy2st.save(Model(), tmp_path / "model.dy2st", input_spec=specs)
    loaded = dy2st_runtime.load(tmp_path / "model.dy2st")
    for a, i in [(GOOD, [0, 1]), (NAN, [0, 1]), (GOOD, [0, 5])]:
        (values, message), (expected, said) = loaded(a, torch.tensor(i)), Model()(a, torch.tensor(i))
        assert torch.equal(values.nan_to_num(), expected.nan_to_num()) and message == said


def test_an_export_says_that_it_cannot_enter_a_handler(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            try:
                return torch.linalg.eigvalsh(a)
            except LinAlgError:
                return a[0]

    with pytest.raises(dy2st.errors.Dy2stError, match="an except clause for what an operation raises cannot be exported"):
        dy2st.export(Model(), tmp_path / "model.pt2", input_spec=[dy2st.InputSpec([3, 3], "float32")])


def test_a_factorization_with_a_handler_is_exported(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            try:
                return torch.linalg.cholesky(a)
            except LinAlgError:
                return a * 2

    dy2st.export(Model(), tmp_path / "model.pt2", input_spec=[dy2st.InputSpec([3, 3], "float32")])
    exported = torch.export.load(tmp_path / "model.pt2").module()
    for a in (GOOD, NEARLY):
        assert torch.equal(exported(a), Model()(a))


def test_a_saved_program_goes_on_in_the_handler(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            try:
                return torch.linalg.cholesky(a), ""
            except RuntimeError as error:
                message = str(error)
            for i in range(4):
                try:
                    return torch.linalg.cholesky(a + 1e-4 * 10**i * torch.eye(3)), message
                except LinAlgError:
                    continue
            raise LinAlgError(f"in vain: {message}")

    dy2st.save(Model(), tmp_path / "model.dy2st", input_spec=[dy2st.InputSpec([3, 3], "float32")])
    loaded = dy2st_runtime.load(tmp_path / "model.dy2st")
    for a in (GOOD, NEARLY):
        factor, message = loaded(a)
        assert torch.equal(factor, Model()(a)[0]) and message == Model()(a)[1]
    with pytest.raises(LinAlgError, match="in vain: linalg.cholesky"):
        loaded(-GOOD)


def test_finally_runs_where_a_factorization_fails_and_nobody_catches_it() -> None:
    def f(a: Any) -> Any:
        try:
            return torch.linalg.cholesky(a)
        finally:
            print("finally")

    @contextlib.contextmanager
    def told() -> Any:
        try:
            yield
        finally:
            print("left")

    def managed(a: Any) -> Any:
        with told():
            result = torch.linalg.inv(a)
        return result

    agree(f, [GOOD, NEARLY])
    agree(managed, [GOOD, SINGULAR])


def test_a_finally_that_returns_drops_a_failure() -> None:
    def f(a: Any) -> Any:
        try:
            torch.linalg.cholesky(a)
        finally:
            return a * 2  # noqa: B012

    agree(f, [GOOD, NEARLY])


class Suppressing:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __enter__(self) -> Suppressing:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        if kind is not None:
            self.seen.append(str(error))
        return kind is not None and issubclass(kind, RuntimeError)


def test_a_context_manager_of_the_users_ends_a_failure() -> None:
    def f(a: Any) -> Any:
        manager, result = Suppressing(), a
        with manager:
            result = torch.linalg.cholesky(a)
        return result, manager.seen

    agree(f, [GOOD, NEARLY])


def test_a_handler_that_fails_keeps_what_it_handles_behind_its_exception() -> None:
    def f(a: Any) -> Any:
        try:
            try:
                return torch.linalg.cholesky(a)
            except RuntimeError:
                return torch.linalg.inv(a)
        except LinAlgError as error:
            return str(error), str(error.__context__)

    agree(f, [GOOD, NEARLY, -GOOD, SINGULAR])


def test_messages_of_all_failures_are_collected() -> None:
    def f(a: Any) -> Any:
        messages = []
        for i in range(4):
            try:
                result = torch.linalg.cholesky(a + 10 ** (i - 4) * torch.eye(3))
                break
            except (ValueError, RuntimeError) as error:
                messages.append(f"{i}: {error}")
        else:
            result = None
        return result, messages

    agree(f, [GOOD, NEARLY, -GOOD])


def test_the_number_of_attempts_comes_from_a_tensor() -> None:
    def f(a: Any, n: Any) -> Any:
        for i in range(int(n)):
            try:
                return torch.linalg.cholesky(a + 1e-4 * i * torch.eye(3)), i
            except LinAlgError:
                pass
        return None, -1

    agree(f, [(GOOD, torch.tensor(3)), (NEARLY, torch.tensor(3)), (NEARLY, torch.tensor(9)), (-GOOD, torch.tensor(0))])


def test_a_recursive_helper_tries_again() -> None:
    def tried(a: Any, n: int) -> Any:
        if n == 0:
            raise ValueError("in vain")
        try:
            return torch.linalg.cholesky(a)
        except RuntimeError:
            return tried(a + 1e-4 * torch.eye(3), n - 1)

    def f(a: Any) -> Any:
        return tried(a, 7)

    agree(f, [GOOD, NEARLY, -GOOD])


def test_each_matrix_of_a_batch_or_list_fails_by_itself() -> None:
    def f(matrices: Any) -> Any:
        results = []
        for a in matrices:
            try:
                results.append(torch.linalg.cholesky(a))
            except LinAlgError:
                results.append(a * 0)
        return torch.stack(results)

    agree(f, [BOTH, torch.stack([GOOD, GOOD])])
    agree(f, [([GOOD, NEARLY],), ([GOOD, GOOD + 1],)])


def test_the_index_of_a_distribution_is_caught() -> None:
    def f(p: Any, i: Any) -> Any:
        given = torch.distributions.Categorical(p, validate_args=False)
        try:
            return given.log_prob(i)
        except (ValueError, RuntimeError, IndexError) as error:
            return str(error)

    p = torch.tensor([1.0, 2.0])
    agree(f, [(p, torch.tensor(1)), (p, torch.tensor(7))])


def test_many_operations_that_may_fail_stand_in_one_body() -> None:
    def f(x: Any, i: Any) -> Any:
        n = i.item()
        try:
            total = x[n] + x[n + 1] + x[n + 2] + x[n + 3] + x[n + 4] + x[n + 5] + x[n + 6] + x[n + 7] + x[n + 8] + x[n + 9]
            total = total + x[n + 10] / n + x[n + 11] / (n + 1) + x[n + 12] / (n - 1)
        except (IndexError, ZeroDivisionError) as error:
            return str(error)
        return total

    agree(f, [(torch.arange(20.0), torch.tensor(i)) for i in (2, 0, 1, 12)])


def test_matrices_of_any_size_are_tried_again() -> None:
    any_matrix, any_batch = [dy2st.InputSpec([None, None], "float32")], [dy2st.InputSpec([None, None, None], "float32")]
    agree(psd_cholesky, [GOOD, NEARLY, torch.eye(5), -torch.eye(2), torch.eye(0)], spec=any_matrix)
    agree(psd_cholesky, [BOTH, torch.eye(5)[None], -torch.eye(2)[None]], spec=any_batch)


def test_sizes_that_do_not_fit_are_another_program() -> None:
    def f(x: Any, y: Any) -> Any:
        try:
            return x + y
        except RuntimeError as error:
            return str(error)

    calls = [(torch.ones(n), torch.ones(m)) for n, m in [(3, 3), (4, 4), (3, 4), (1, 4), (5, 3)]]
    agree(f, calls, spec=[dy2st.InputSpec([None], "float32"), dy2st.InputSpec([None], "float32")], programs=None)


def test_items_of_a_tensor_of_any_size_are_caught() -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            return x[1], x[i], x[i.item() :].sum()
        except IndexError as error:
            return str(error)

    spec = [dy2st.InputSpec([None], "float32"), dy2st.InputSpec([], "int64")]
    agree(f, [(torch.arange(float(n)), torch.tensor(i)) for n, i in [(4, 2), (3, 3), (1, 0), (0, 0), (5, -5)]], spec=spec)


def test_an_attempt_gives_tensors_whose_size_the_data_tells() -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            rows = x.repeat_interleave(i, 0)
            picked = rows[x[i] > 0] if rows.shape[0] == x.shape[0] else rows
        except (RuntimeError, IndexError) as error:
            return str(error)
        return picked, rows.shape[0]

    agree(
        f, [(torch.arange(4.0), torch.tensor(i)) for i in ([1, 1, 1, 1], [2, 0, 1, 3], [1, -1, 1, 1], [4, 0, 0, 0], [0, 0, 0, 9])]
    )
