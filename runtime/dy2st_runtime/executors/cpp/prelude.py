"""What every generated file begins with: the types, and the functions that the operations on elements call.

No header is included: parsing them would take longer than compiling a unit. Nothing is allowed to change bits beyond what the
text says (no fast-math, no contraction); where a product and a sum are fused, ``fma`` says so. The functions of ``float`` are
polynomials without branches, so that loops over them become vector code; those of ``double`` are the C library's.
"""

from __future__ import annotations

TEXT = r"""
typedef __INT64_TYPE__ int64_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __SIZE_TYPE__ size_t;
extern "C" void* aligned_alloc(size_t, size_t);
extern "C" void free(void*);
#define LIBM(name) extern "C" double name(double) noexcept; extern "C" float name##f(float) noexcept; \
  static inline double f_##name(double x) { return name(x); }
#define LIBM_BOTH(name) LIBM(name) static inline float f_##name(float x) { return name##f(x); }
LIBM(exp) LIBM(log) LIBM(tanh) LIBM(sqrt) LIBM(expm1) LIBM(floor) LIBM(ceil) LIBM(trunc)
LIBM_BOTH(exp2) LIBM_BOTH(log2) LIBM_BOTH(log10) LIBM_BOTH(log1p) LIBM_BOTH(sin) LIBM_BOTH(cos) LIBM_BOTH(tan) LIBM_BOTH(asin)
LIBM_BOTH(acos) LIBM_BOTH(atan) LIBM_BOTH(sinh) LIBM_BOTH(cosh) LIBM_BOTH(erf) LIBM_BOTH(erfc)
extern "C" double pow(double, double) noexcept; extern "C" float powf(float, float) noexcept;
extern "C" double fmod(double, double) noexcept; extern "C" float fmodf(float, float) noexcept;
extern "C" double atan2(double, double) noexcept; extern "C" float atan2f(float, float) noexcept;
static inline double f_atan2(double x, double y) { return atan2(x, y); }
static inline float f_atan2(float x, float y) { return atan2f(x, y); }
static inline double f_pow(double x, double y) { return pow(x, y); }
static inline float f_pow(float x, float y) { return powf(x, y); }
static inline double f_fmod(double x, double y) { return fmod(x, y); }
static inline float f_fmod(float x, float y) { return fmodf(x, y); }
static inline int64_t f_fmod(int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }
static inline int32_t f_fmod(int32_t x, int32_t y) { return y == -1 ? 0 : x % y; }
static inline float f_sqrt(float x) { return __builtin_sqrtf(x); }
static inline float f_floor(float x) { return __builtin_floorf(x); }
static inline float f_ceil(float x) { return __builtin_ceilf(x); }
static inline float f_trunc(float x) { return __builtin_truncf(x); }
static inline float f_round(float x) { return __builtin_nearbyintf(x); }
static inline double f_round(double x) { return __builtin_nearbyint(x); }
static inline int64_t f_floor(int64_t x) { return x; }
static inline int64_t f_ceil(int64_t x) { return x; }
static inline int64_t f_trunc(int64_t x) { return x; }
static inline int32_t f_floor(int32_t x) { return x; }
static inline int32_t f_ceil(int32_t x) { return x; }
static inline int32_t f_trunc(int32_t x) { return x; }
#ifdef __FMA__
static inline float fma_(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma_(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
static inline float fma_(float a, float b, float c) { return a * b + c; }
static inline double fma_(double a, double b, double c) { return a * b + c; }
#endif
static inline int64_t fma_(int64_t a, int64_t b, int64_t c) { return a * b + c; }
static inline int32_t fma_(int32_t a, int32_t b, int32_t c) { return a * b + c; }
static inline float bits(int32_t x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
static inline int32_t bits(float x) { int32_t y; __builtin_memcpy(&y, &x, 4); return y; }
template <typename T> static inline T f_abs(T x) { return x < 0 ? -x : x; }
static inline float f_abs(float x) { return __builtin_fabsf(x); }
static inline double f_abs(double x) { return __builtin_fabs(x); }
template <typename T> static inline T f_sign(T x) { return T(x > 0) - T(x < 0); }
template <typename T> static inline T f_relu(T x) { return x < 0 ? T(0) : x; }
template <typename T> static inline T f_max(T a, T b) { return a != a ? a : (a < b || b != b) ? b : a; }
template <typename T> static inline T f_min(T a, T b) { return a != a ? a : (b < a || b != b) ? b : a; }
template <typename T> static inline T f_clamp(T x, T low, T high) { return f_min(f_max(x, low), high); }
template <typename T> static inline T f_not(T x) { return ~x; }
static inline uint8_t f_not(uint8_t x) { return !x; }
template <typename T> static inline bool f_isinf(T x) { return x == x && x - x != 0; }
template <typename T> static inline bool f_isfinite(T x) { return x - x == 0; }
static inline float f_exp(float x) {
  float c = x < -104.f ? -104.f : x;
  c = c > 89.f ? 89.f : c;
  float n = (c * 1.44269504088896341f + 12582912.f) - 12582912.f;
  float r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = fma_(fma_(fma_(fma_(fma_(1.9875691500e-4f, r, 1.3981999507e-3f), r, 8.3334519073e-3f), r, 4.1665795894e-2f), r,
    1.6666665459e-1f), r, 5.0000001201e-1f);
  float y = fma_(p, r * r, r) + 1.f;
  int32_t k = (int32_t)n, a = k >> 1, b = k - a;
  return y * bits((a + 127) << 23) * bits((b + 127) << 23);
}
static inline float f_tanh(float x) {
  float z = f_abs(x), s = x * x;
  float p = fma_(fma_(fma_(fma_(-5.70498872745e-3f, s, 2.06390887954e-2f), s, -5.37397155531e-2f), s, 1.33314422036e-1f), s,
    -3.33332819422e-1f);
  float small = fma_(p * s, x, x);
  float big = 1.f - 2.f / (f_exp(z + z) + 1.f);
  big = __builtin_copysignf(big, x);
  return z < 0.625f ? small : big;
}
static inline float f_log(float x) {
  bool tiny = x < 1.17549435e-38f;
  float y = tiny ? x * 8388608.f : x;
  int32_t i = bits(y);
  float e = (float)((i >> 23) - 126) - (tiny ? 23.f : 0.f);
  float m = bits((i & 0x007fffff) | 0x3f000000);
  bool low = m < 0.707106781186547524f;
  e = low ? e - 1.f : e;
  m = low ? m + m - 1.f : m - 1.f;
  float z = m * m;
  float p = fma_(fma_(fma_(fma_(fma_(fma_(fma_(fma_(7.0376836292e-2f, m, -1.1514610310e-1f), m, 1.1676998740e-1f), m,
    -1.2420140846e-1f), m, 1.4249322787e-1f), m, -1.6668057665e-1f), m, 2.0000714765e-1f), m, -2.4999993993e-1f), m,
    3.3333331174e-1f);
  float r = m * z * p;
  r = fma_(e, -2.12194440e-4f, r);
  r = fma_(-0.5f, z, r);
  r = m + r;
  r = fma_(e, 0.693359375f, r);
  r = x == __builtin_inff() ? x : r;
  r = x == 0 ? -__builtin_inff() : r;
  return x < 0 || x != x ? __builtin_nanf("") : r;
}
static inline float f_expm1(float x) {
  float s = x * fma_(x, fma_(x, fma_(x, fma_(x, fma_(x, 1.f / 720, 1.f / 120), 1.f / 24), 1.f / 6), 0.5f), 1.f);
  return f_abs(x) < 0.3f ? s : f_exp(x) - 1.f;
}
template <typename T> static inline T floor_div(T a, T b) {
  T mod = f_fmod(a, b), div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return b != b || a != a ? a + b : (((a < 0) != (b < 0)) ? -T(0) : T(0));
  T floored = f_floor(div);
  return div - floored > T(0.5) ? floored + 1 : floored;
}
static inline int64_t floor_div(int64_t a, int64_t b) { int64_t q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
static inline int32_t floor_div(int32_t a, int32_t b) { int32_t q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
template <typename T> static inline T f_mod(T a, T b) { T m = f_fmod(a, b); return m != 0 && (m < 0) != (b < 0) ? m + b : m; }
template <typename T> static inline T int_pow(T x, int64_t n) { T r = 1; for (; n; n >>= 1, x *= x) if (n & 1) r *= x; return r; }

struct Arena { char* at; ~Arena() { free(at); } };
struct Host {
  void* (*save)(); void (*restore)(void*); int (*signals)();
  void* state; bool held;
  bool interrupted() { restore(state); held = signals() != 0; if (!held) state = save(); return held; }
};
enum { DONE = 0, GIVE_UP = 1, INTERRUPTED = 2 };
"""

GEMM = r"""
template <typename T, int64_t M, int64_t N, int64_t K, int64_t AM, int64_t AK, int64_t BK, int64_t BN, int64_t DM, int64_t DN,
  bool ADD>
static inline void gemm(const T* __restrict a, const T* __restrict b, const T* __restrict d, T* __restrict c) {
  if constexpr (BN == 1 || BK != 1) {
    constexpr int64_t W = N < 64 ? N : 64;
    for (int64_t i = 0; i < M; i++) {
      for (int64_t j = 0; j + W <= N; j += W) {
        T s[W];
        for (int64_t l = 0; l < W; l++) s[l] = 0;
        for (int64_t k = 0; k < K; k++) {
          const T x = a[i * AM + k * AK];
          for (int64_t l = 0; l < W; l++) s[l] = fma_(x, b[k * BK + (j + l) * BN], s[l]);
        }
        for (int64_t l = 0; l < W; l++) c[i * N + j + l] = ADD ? s[l] + d[i * DM + (j + l) * DN] : s[l];
      }
      constexpr int64_t R = N % W, J = N - R;
      if constexpr (R > 0) {
        T s[R];
        for (int64_t l = 0; l < R; l++) s[l] = 0;
        for (int64_t k = 0; k < K; k++) {
          const T x = a[i * AM + k * AK];
          for (int64_t l = 0; l < R; l++) s[l] = fma_(x, b[k * BK + (J + l) * BN], s[l]);
        }
        for (int64_t l = 0; l < R; l++) c[i * N + J + l] = ADD ? s[l] + d[i * DM + (J + l) * DN] : s[l];
      }
    }
  } else {
    constexpr int64_t W = 64 / sizeof(T), L = K - K % W;
    for (int64_t i = 0; i < M; i++)
      for (int64_t j = 0; j < N; j++) {
        T s[W], r = 0;
        for (int64_t l = 0; l < W; l++) s[l] = 0;
        for (int64_t k = 0; k < L; k += W)
          for (int64_t l = 0; l < W; l++) s[l] = fma_(a[i * AM + (k + l) * AK], b[k + l + j * BN], s[l]);
        for (int64_t k = L; k < K; k++) r = fma_(a[i * AM + k * AK], b[k + j * BN], r);
        for (int64_t h = W / 2; h > 0; h /= 2)
          for (int64_t l = 0; l < h; l++) s[l] += s[l + h];
        r += s[0];
        c[i * N + j] = ADD ? r + d[i * DM + j * DN] : r;
      }
  }
}
"""
"""A product of two matrices, with what is added to it; the strides of its operands are constants."""

REDUCTIONS = r"""
#define REDUCTION(NAME, FIRST, STEP, JOIN) struct NAME { \
  template <typename A> static inline A first() { return FIRST; } \
  template <typename A> static inline A step(A a, A x) { return STEP; } \
  template <typename A> static inline A join(A a, A x) { return JOIN; } };
template <typename A> struct Limits;
template <> struct Limits<float> { static constexpr float high = __builtin_inff(), low = -__builtin_inff(); };
template <> struct Limits<double> { static constexpr double high = __builtin_inf(), low = -__builtin_inf(); };
template <> struct Limits<int64_t> { static constexpr int64_t high = __INT64_MAX__, low = -__INT64_MAX__ - 1; };
template <> struct Limits<int32_t> { static constexpr int32_t high = __INT32_MAX__, low = -__INT32_MAX__ - 1; };
template <> struct Limits<uint8_t> { static constexpr uint8_t high = 1, low = 0; };
REDUCTION(Sum, 0, a + x, a + x)
REDUCTION(Product, 1, a * x, a * x)
REDUCTION(Squares, 0, a + x * x, a + x)
REDUCTION(Sizes, 0, a + f_abs(x), a + x)
REDUCTION(LargestSize, 0, f_max(a, f_abs(x)), f_max(a, x))
REDUCTION(Largest, Limits<A>::low, f_max(a, x), f_max(a, x))
REDUCTION(Smallest, Limits<A>::high, f_min(a, x), f_min(a, x))
REDUCTION(Any, false, a || x, a || x)
REDUCTION(All, true, a && x, a && x)
template <typename OP, typename A, typename E, typename T, int64_t N, int64_t S> static inline A reduce(const T* __restrict p) {
  if constexpr (N < 16) {
    A r = OP::template first<A>();
    for (int64_t k = 0; k < N; k++) r = OP::template step<A>(r, (A)(E)p[k * S]);
    return r;
  } else {
    A s[16];
    constexpr int64_t L = N - N % 16;
    for (int64_t l = 0; l < 16; l++) s[l] = OP::template first<A>();
    for (int64_t k = 0; k < L; k += 16)
      for (int64_t l = 0; l < 16; l++) s[l] = OP::template step<A>(s[l], (A)(E)p[(k + l) * S]);
    for (int64_t k = L; k < N; k++) s[k - L] = OP::template step<A>(s[k - L], (A)(E)p[k * S]);
    for (int64_t h = 8; h > 0; h /= 2)
      for (int64_t l = 0; l < h; l++) s[l] = OP::template join<A>(s[l], s[l + h]);
    return s[0];
  }
}
"""

ROWS = r"""
template <typename T, int64_t N, int64_t S, int64_t O> static inline void softmax_row(const T* __restrict p, T* __restrict q) {
  T top = p[0];
  double sum = 0;
  for (int64_t k = 1; k < N; k++) top = f_max(top, p[k * S]);
  for (int64_t k = 0; k < N; k++) q[k * O] = f_exp(p[k * S] - top);
  for (int64_t k = 0; k < N; k++) sum += q[k * O];
  const T total = (T)sum;
  for (int64_t k = 0; k < N; k++) q[k * O] = q[k * O] / total;
}
template <typename T, int64_t N, int64_t S, int64_t O> static inline void log_softmax_row(const T* __restrict p, T* __restrict q) {
  T top = p[0];
  double sum = 0;
  for (int64_t k = 1; k < N; k++) top = f_max(top, p[k * S]);
  for (int64_t k = 0; k < N; k++) q[k * O] = f_exp(p[k * S] - top);
  for (int64_t k = 0; k < N; k++) sum += q[k * O];
  const T total = (T)log(sum);
  for (int64_t k = 0; k < N; k++) q[k * O] = p[k * S] - top - total;
}
template <typename T, int64_t N, bool W, bool B>
static inline void layer_norm_row(const T* __restrict p, T* __restrict q, const T* __restrict w, const T* __restrict b,
  double eps) {
  const double mean = reduce<Sum, double, T, T, N, 1>(p) / N;
  double s[16], sum = 0;
  for (int64_t l = 0; l < 16; l++) s[l] = 0;
  for (int64_t k = 0; k + 16 <= N; k += 16) for (int64_t l = 0; l < 16; l++) s[l] += (p[k + l] - mean) * (p[k + l] - mean);
  for (int64_t k = N - N % 16; k < N; k++) sum += (p[k] - mean) * (p[k] - mean);
  for (int64_t l = 0; l < 16; l++) sum += s[l];
  const T rstd = (T)(1 / sqrt(sum / N + eps)), shift = (T)mean;
  for (int64_t k = 0; k < N; k++) q[k] = (p[k] - shift) * rstd * (W ? w[k] : 1) + (B ? b[k] : 0);
}
template <typename T, int64_t N, bool W, bool B>
static inline void rms_norm_row(const T* __restrict p, T* __restrict q, const T* __restrict w, const T* __restrict b, double eps) {
  const T r = (T)(1 / sqrt(reduce<Squares, double, T, T, N, 1>(p) / N + eps));
  for (int64_t k = 0; k < N; k++) q[k] = p[k] * r * (W ? w[k] : 1);
}
"""
"""Operations on whole rows."""
