"""Published code as programs, as far as its packages are installed; ``python -m tests.corpus`` runs all of it."""

from __future__ import annotations

import pytest

from tests.corpus import judging, registry

_QUICK = (
    "sparsemax_top_2", "entmax15", "entmax_with_an_alpha_per_row", "finite_scalar_quantization", "metric_pearson", "metric_auroc",
    "pyro_von_mises", "ot_sinkhorn", "zuko_spline_flow", "conjugate_gradients",
)  # fmt: skip
_SLOW = ("odeint_dopri5", "odeint_event")


def _installed(names: tuple[str, ...]) -> list[str]:
    entries = registry.load()
    return [name for name in names if entries[name].installed]


@pytest.mark.parametrize("name", _installed(_QUICK))
def test_a_published_program_does_what_eager_does(name):
    _check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", _installed(_SLOW))
def test_a_published_solver_does_what_eager_does(name):
    _check(name)


def _check(name):
    found = judging.child(registry.load()[name])
    assert found["verdict"] == judging.SAME, found


def test_an_entry_whose_package_is_absent_is_told_so():
    registry.ENTRIES["absent"] = registry.Entry("absent", "no_such_package", lambda: registry.Subject(None, []), False)
    try:
        assert judging.judge("absent", 1)["verdict"] == judging.ABSENT
    finally:
        del registry.ENTRIES["absent"]


def test_an_entry_whose_package_cannot_be_imported_is_told_so():
    def make():
        raise ModuleNotFoundError("No module named 'pkg_resources'")

    registry.ENTRIES["broken"] = registry.Entry("broken", "torch", make, False)
    try:
        found = judging.judge("broken", 60)
        assert found["verdict"] == judging.ABSENT and "pkg_resources" in found["message"], found
    finally:
        del registry.ENTRIES["broken"]
