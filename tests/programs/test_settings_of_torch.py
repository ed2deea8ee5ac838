"""Settings of torch that a static function changes are changed when the program gets there, and asked for at each call."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import dy2st
from tests.oracle import same

Q = torch.randn(1, 8, 64, 32, generator=torch.Generator().manual_seed(0))


def settings():
    return (
        torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled(), torch.backends.mkldnn.enabled,
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic, torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(), torch.get_float32_matmul_precision(), torch.get_num_threads(),
        torch.backends.cuda.matmul.allow_tf32, torch.get_default_dtype(), torch.is_anomaly_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction, torch.is_warn_always_enabled(),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def restored():
    threads = torch.get_num_threads()
    yield
    reset()
    torch.set_num_threads(threads)


def reset():
    torch.backends.cuda.enable_flash_sdp(True)
    torch.backends.cuda.enable_math_sdp(True)
    torch.backends.mkldnn.enabled = True
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float32)
    torch.autograd.set_detect_anomaly(False)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
    torch.set_warn_always(False)


def attended(q):
    y = F.scaled_dot_product_attention(q, q, q)
    return y if y.sum() > 0 else y * 2


def by_kernel(q):
    with sdpa_kernel(SDPBackend.MATH):
        return attended(q), torch.backends.cuda.flash_sdp_enabled()


def in_branch(q):
    if q.sum() > 0:
        with sdpa_kernel(SDPBackend.MATH):
            return attended(q)
    return attended(q)


def in_loop(q):
    k, r = q.sum().abs(), q
    while k > 0:
        k = k - 300
        with sdpa_kernel(SDPBackend.MATH):
            r = F.scaled_dot_product_attention(r, q, q)
    return r, attended(q)


def one_way(q):
    torch.backends.cuda.enable_flash_sdp(False)
    return attended(q)


def in_the_middle(q):
    before = attended(q)
    torch.backends.cuda.enable_flash_sdp(False)
    between = attended(q)
    torch.backends.cuda.enable_flash_sdp(True)
    return before, between, attended(q)


def flags(q):
    with torch.backends.mkldnn.flags(enabled=False):
        a = F.conv2d(q, torch.ones(4, 8, 3, 3))
    return a, F.conv2d(q, torch.ones(4, 8, 3, 3))


def attributes(q):
    torch.backends.mkldnn.enabled = False
    a = F.conv2d(q, torch.ones(4, 8, 3, 3)), torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = True
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.utils.deterministic.fill_uninitialized_memory = False
    return a, attended(q)


def deterministic(q):
    torch.use_deterministic_algorithms(True, warn_only=True)
    y = attended(q)
    asked = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    return y, asked


def precision(q):
    torch.set_float32_matmul_precision("medium")
    return attended(q), torch.get_float32_matmul_precision()


def dtype(q):
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    a = torch.ones(2), torch.tensor([0.5]), q + 0.1
    torch.set_default_dtype(old)
    return a, torch.ones(2), attended(q)


def threads(q):
    torch.set_num_threads(1)
    return attended(q), torch.get_num_threads()


def anomaly(q):
    with torch.autograd.detect_anomaly(check_nan=False):
        y = attended(q)
    torch.autograd.set_detect_anomaly(True)
    return y, torch.is_anomaly_enabled()


FUNCTIONS = (
    by_kernel, in_branch, in_loop, one_way, in_the_middle, flags, attributes, deterministic, precision, dtype, threads, anomaly,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_is_as_in_eager_at_each_call(function, backend):
    static = dy2st.to_static(function, backend=backend)
    for q in (Q, -Q, Q * 2, -Q * 2):
        outcomes = []
        for call in (function, static):
            reset()
            outcomes.append((call(q), settings()))
        same(*outcomes)
    assert len(static.program_cache) == 1


@pytest.mark.parametrize("function", [by_kernel, in_loop, in_the_middle, dtype])
def test_saved_programs_change_them(function, tmp_path):
    dy2st.save(function, tmp_path / "f", [Q])
    loaded = dy2st.load(tmp_path / "f")
    for q in (Q, -Q):
        reset()
        expected = function(q), settings()
        reset()
        same(expected, (loaded(q), settings()))


def test_what_is_put_back_is_what_was_there():
    static = dy2st.to_static(by_kernel)
    for is_on in (True, False, True):
        torch.backends.cuda.enable_flash_sdp(is_on)
        assert static(Q)[1] is False
        assert torch.backends.cuda.flash_sdp_enabled() is is_on


def test_an_exception_leaves_them_as_in_eager():
    def f(a):
        with sdpa_kernel(SDPBackend.MATH):
            return torch.linalg.cholesky(a)

    static = dy2st.to_static(f)
    for a in (torch.eye(3), -torch.eye(3), torch.eye(3)):
        try:
            static(a)
        except torch.linalg.LinAlgError:
            assert a[0, 0] < 0
        assert settings()[:2] == (True, True)


def test_a_setting_that_stays_changed_on_one_way_is_refused():
    @dy2st.to_static
    def f(q):
        if q.sum() > 0:
            torch.backends.cuda.enable_flash_sdp(False)
        return q * 2

    with pytest.raises(dy2st.CaptureError, match="a setting of torch is changed where a tensor decides"):
        f(Q)
    assert torch.backends.cuda.flash_sdp_enabled()


def test_a_setting_that_a_tensor_decides_is_refused():
    @dy2st.to_static
    def f(q):
        torch.backends.cuda.enable_flash_sdp(bool(q.sum() > 0))
        return q * 2

    with pytest.raises(dy2st.CaptureError):
        f(Q)
    assert torch.backends.cuda.flash_sdp_enabled()


def test_a_capture_that_fails_leaves_them_as_they_were():
    @dy2st.to_static
    def f(q):
        torch.backends.cuda.enable_flash_sdp(False)
        return open("nowhere") or q

    with pytest.raises(dy2st.CaptureError):
        f(Q)
    assert torch.backends.cuda.flash_sdp_enabled()
