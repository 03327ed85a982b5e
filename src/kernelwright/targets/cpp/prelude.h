// Building blocks of generated kernels. A line `//: NAME needs A B` starts a block; the printer
// writes out only the blocks that a kernel uses. Everything is branch-free, so that loops over it
// vectorise, and keeps NaN and infinities as IEEE 754 and torch have them.
// Polynomials were fitted to minimise the relative error of the whole function (errors in tests).

//: base
#include <stdint.h>
static const float INF = __builtin_inff();

//: bits
static inline int32_t bits_of(float x) { return __builtin_bit_cast(int32_t, x); }
static inline float float_of(int32_t bits) { return __builtin_bit_cast(float, bits); }

//: nanmax
// NaN propagates; of equal values the first is kept.
template <class T> static inline T nanmax(T a, T b) { return ((b > a) | (b != b)) ? b : a; }
#pragma omp declare reduction(nanmax : float : omp_out = nanmax(omp_out, omp_in)) \
    initializer(omp_priv = -INF)

//: nanmin
template <class T> static inline T nanmin(T a, T b) { return ((b < a) | (b != b)) ? b : a; }

//: exp_parts needs bits
// exp(x) = m * 2^n with m in [0.7, 1.42]; x must lie within [-104, 130] or be NaN.
static inline float exp_parts(float x, int32_t* n) {
  const float shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
  const float k = shifted - 12582912.0f;
  float r = x - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  *n = bits_of(shifted) - 0x4b400000;
  float p = 0.0013951717f;
  p = p * r + 0.0083695985f;
  p = p * r + 0.041666187f;
  p = p * r + 0.16666512f;
  p = p * r + 0.5f;
  return p * (r * r) + r + 1.0f;
}
// m * 2^n in two steps, since 2^n itself may overflow or be subnormal.
static inline float scale_by_power(float m, int32_t n) {
  const int32_t half = n >> 1;
  return m * float_of((half + 127) << 23) * float_of((n - half + 127) << 23);
}

//: vexp needs bits
// 126 is added to the exponent n on its way to an integer, so that the bits of `shifted` are those of
// 2^(n-1) once moved into place; the polynomial is of 2 exp(r). Subnormal results become zero.
// Range checks come last: the compiler would make special cases of clamped arguments.
static inline float vexp(float x) {
  const float shifted = x * 1.44269504f + 12583038.0f;  // 1.5 * 2^23 + 126
  const float k = shifted - 12583038.0f;
  float r = x - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  float p = 0.0027903434f;
  p = p * r + 0.0167391970f;
  p = p * r + 0.083332374f;
  p = p * r + 0.33333024f;
  p = p * r + 1.0f;
  p = p * (r * r) + (r + r + 2.0f);
  p = p * float_of((int32_t)((uint32_t)bits_of(shifted) << 23));
  p = x < -87.4f ? 0.0f : p;
  return x > 88.8f ? INF : p;
}
static inline double vexp(double x) { return __builtin_exp(x); }

//: vexp_5 needs bits
// As vexp with a polynomial of one degree less: off by 2 units in the last place.
static inline float vexp_5(float x) {
  const float shifted = x * 1.44269504f + 12583038.0f;
  const float k = shifted - 12583038.0f;
  float r = x - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  float p = 0.016625000f;
  p = p * r + 0.083780660f;
  p = p * r + 0.33334230f;
  p = p * r + 0.99998460f;
  p = p * (r * r) + (r + r + 2.0f);
  p = p * float_of((int32_t)((uint32_t)bits_of(shifted) << 23));
  p = x < -87.4f ? 0.0f : p;
  return x > 88.8f ? INF : p;
}

//: vexp2 needs exp_parts
static inline float vexp2(float x) {
  x = x > 129.0f ? 129.0f : x;
  x = x < -151.0f ? -151.0f : x;
  const float whole = __builtin_rintf(x);
  int32_t unused;
  const float m = exp_parts((x - whole) * 0.693147181f, &unused);
  return scale_by_power(unused == 0 ? m : m * float_of((unused + 127) << 23), (int32_t)whole);
}
static inline double vexp2(double x) { return __builtin_exp2(x); }

//: expm1_between needs bits
// exp(x) - 1 for x in [-80, 89]; garbage elsewhere.
static inline float expm1_between(float x) {
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float k = shifted - 12582912.0f;
  float r = x - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  float p = 0.00019919380f;
  p = p * r + 0.0013947225f;
  p = p * r + 0.0083332630f;
  p = p * r + 0.041666254f;
  p = p * r + 0.16666667f;
  p = p * r + 0.5f;
  p = p * (r * r) + r;  // exp(r) - 1
  const float half_scale = float_of((bits_of(shifted) - 0x4b400000 + 126) << 23);  // 2^(n-1)
  const float result = half_scale * p + (half_scale - 0.5f);
  return k == 0.0f ? p : result + result;
}

//: vexpm1 needs expm1_between
static inline float vexpm1(float x) {
  float result = expm1_between(x);
  result = x < -30.0f ? -1.0f : result;
  return __builtin_copysignf(x > 89.0f ? INF : result, x);  // zeros keep their sign
}
static inline double vexpm1(double x) { return __builtin_expm1(x); }

//: log_parts needs bits
// x = 2^e * (1 + f) with 1 + f in [0.7, 1.42]; x must be positive and finite.
static inline float log_parts(float x, float* e) {
  const bool tiny = x < 1.17549435e-38f;
  x = tiny ? x * 8388608.0f : x;
  const int32_t shifted = bits_of(x) - 0x3f3504f3;
  *e = (float)(shifted >> 23) - (tiny ? 23.0f : 0.0f);
  return float_of((shifted & 0x007fffff) + 0x3f3504f3) - 1.0f;
}
// (log(1 + f) - f + f^2 / 2) / f^2
static inline float log_tail(float f) {
  float p = 0.067466013f;
  p = p * f - 0.11675641f;
  p = p * f + 0.11888175f;
  p = p * f - 0.12405591f;
  p = p * f + 0.14219551f;
  p = p * f - 0.16667996f;
  p = p * f + 0.20002119f;
  p = p * f - 0.25000009f;
  p = p * f + 0.33333313f;
  return p * f;
}
// Puts the values of zero, infinity, negative numbers and NaN in place of a logarithm's result.
static inline float log_special(float x, float result) {
  result = x == INF ? INF : result;
  result = x == 0.0f ? -INF : result;
  return x >= 0.0f ? result : __builtin_nanf("");
}

//: vlog needs log_parts
static inline float vlog(float x) {
  float e;
  const float f = log_parts(x, &e);
  const float f2 = f * f;
  const float low = f2 * log_tail(f) + (e * -2.12194440e-4f - 0.5f * f2);
  return log_special(x, e * 0.693359375f + (f + low));
}
static inline double vlog(double x) { return __builtin_log(x); }

//: vlog2 needs log_parts
static inline float vlog2(float x) {
  float e;
  const float f = log_parts(x, &e);
  const float f2 = f * f;
  const float low = f2 * log_tail(f) - 0.5f * f2;
  return log_special(x, e + (f * 1.44238281f + (low * 1.44269504f + f * 3.12232150e-4f)));
}
static inline double vlog2(double x) { return __builtin_log2(x); }

//: vlog10 needs log_parts
static inline float vlog10(float x) {
  float e;
  const float f = log_parts(x, &e);
  const float f2 = f * f;
  const float low = f2 * log_tail(f) - 0.5f * f2;
  const float tail = low * 0.434294482f + (f * 7.00731903e-4f + e * 4.60503898e-6f);
  return log_special(x, e * 0.301025391f + (f * 0.43359375f + tail));
}
static inline double vlog10(double x) { return __builtin_log10(x); }

//: vlog1p needs vlog
static inline float vlog1p(float x) {
  const float u = 1.0f + x;
  const float d = u - 1.0f;  // u = 1 + d exactly, and log(1 + x) = log(u) * x / d closely
  const float corrected = vlog(u) * (x / d);
  return d == 0.0f ? x : (d == INF ? INF : corrected);
}
static inline double vlog1p(double x) { return __builtin_log1p(x); }

//: vtanh needs expm1_between
static inline float vtanh(float x) {
  const float a = __builtin_fabsf(x);
  const float t = expm1_between(a + a);
  return __builtin_copysignf(a > 10.0f ? 1.0f : t / (t + 2.0f), x);
}
static inline double vtanh(double x) { return __builtin_tanh(x); }

//: vtanh_softplus needs vexp
// tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2) with e = exp(x); 1 from x = 20 on.
static inline float vtanh_softplus(float x) {
  const float e = vexp(x > 20.0f ? 20.0f : x);
  const float n = e * (e + 2.0f);
  return n / (n + 2.0f);
}

//: vsigmoid needs vexp
static inline float vsigmoid(float x) { return 1.0f / (1.0f + vexp(-x)); }
static inline double vsigmoid(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }

//: vsoftplus needs vexp log_parts
// log(1 + e) for e in [0, 1]: of 1 + e itself or of half of it, as it lies nearer to 1.
static inline float vsoftplus(float x) {
  const float e = vexp(-__builtin_fabsf(x));
  const bool half = e > 0.41421354f;
  const float f = half ? 0.5f * e - 0.5f : e;
  const float f2 = f * f;
  const float low = f2 * log_tail(f) + ((half ? -2.12194440e-4f : 0.0f) - 0.5f * f2);
  return (x > 0.0f ? x : 0.0f) + ((half ? 0.693359375f : 0.0f) + (f + low));
}
static inline double vsoftplus(double x) {
  return (x > 0.0 ? x : 0.0) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
}

//: verf needs vexp
static inline float verf(float x) {
  float t = __builtin_fabsf(x);
  const float s = t * t;
  float near = -0.00059768936f;
  near = near * s + 0.0049909800f;
  near = near * s - 0.026765566f;
  near = near * s + 0.11281803f;
  near = near * s - 0.37612495f;
  near = near * s + 0.12837915f;
  t = t > 4.0f ? 4.0f : t;
  float far = -1.0433115e-05f;  // log(erfc(t)) / t + 1
  far = far * t + 0.00031485810f;
  far = far * t - 0.0036103420f;
  far = far * t + 0.023694566f;
  far = far * t - 0.10615905f;
  far = far * t - 0.63519806f;
  far = far * t - 0.12863708f;
  const float outer = 1.0f - vexp(far * t - t);
  return t < 0.93f ? near * x + x : __builtin_copysignf(outer, x);
}
static inline double verf(double x) { return __builtin_erf(x); }

//: vone_plus_erf needs vexp
// 1 + erf(x) for GELU, to 1.6e-7 absolutely: with t = |x|, erfc(t) = exp(t f(t)) for a polynomial f.
static inline float vone_plus_erf(float x) {
  const float t = __builtin_fabsf(x);
  float f = -7.1949910e-07f;
  f = f * t + 1.4323781e-05f;
  f = f * t - 1.2411468e-04f;
  f = f * t + 5.9534609e-04f;
  f = f * t - 1.5097954e-03f;
  f = f * t - 9.8515804e-05f;
  f = f * t + 1.9373337e-02f;
  f = f * t - 1.0287575e-01f;
  f = f * t - 6.3659900e-01f;
  f = f * t - 1.1283805f;
  const float tail = vexp(f * t);
  return x < 0.0f ? tail : 2.0f - tail;
}

//: sine_parts
// x = k * pi/2 + r, by float64 arithmetic: exact enough for any |x| below 2^40.
static inline float sine_parts(float x, int32_t* quadrant) {
  const double k = __builtin_rint((double)x * 0.63661977236758134);
  *quadrant = (int32_t)(k - 4.0 * __builtin_floor(k * 0.25));
  return (float)(((double)x - k * 1.5707963267948966) - k * 6.123233995736766e-17);
}
static inline float quarter_sine(float r) {
  const float s = r * r;
  return ((-0.00019510838f * s + 0.0083321314f) * s - 0.16666654f) * s * r + r;
}
static inline float quarter_cosine(float r) {
  const float s = r * r;
  return ((2.4431203e-05f * s - 0.0013887306f) * s + 0.041666646f) * (s * s) + (1.0f - 0.5f * s);
}

//: vsin needs sine_parts
static inline float vsin(float x) {
  int32_t q;
  const float r = sine_parts(x, &q);
  const float value = (q & 1) ? quarter_cosine(r) : quarter_sine(r);
  return x == 0.0f ? x : ((q & 2) ? -value : value);
}
static inline double vsin(double x) { return __builtin_sin(x); }

//: vcos needs sine_parts
static inline float vcos(float x) {
  int32_t q;
  const float r = sine_parts(x, &q);
  const float value = (q & 1) ? quarter_sine(r) : quarter_cosine(r);
  return ((q + 1) & 2) ? -value : value;
}
static inline double vcos(double x) { return __builtin_cos(x); }

//: vsinh needs vexpm1 exp_parts
static inline float vsinh(float x) {
  float a = __builtin_fabsf(x);
  a = a > 90.0f ? 90.0f : a;
  const float t = vexpm1(a);
  int32_t n;
  const float m = exp_parts(a, &n);
  const float large = scale_by_power(m, n - 1);  // exp(a) / 2 without overflow
  return __builtin_copysignf(a > 20.0f ? large : 0.5f * (t + t / (t + 1.0f)), x);
}
static inline double vsinh(double x) { return __builtin_sinh(x); }

//: vcosh needs exp_parts
static inline float vcosh(float x) {
  float a = __builtin_fabsf(x);
  a = a > 90.0f ? 90.0f : a;
  int32_t n;
  const float m = exp_parts(a, &n);
  const float half = scale_by_power(m, n - 1);
  return half + 0.25f / half;
}
static inline double vcosh(double x) { return __builtin_cosh(x); }

//: libm
// Rare functions: the C library's, one element at a time.
static inline float vtan(float x) { return __builtin_tanf(x); }
static inline double vtan(double x) { return __builtin_tan(x); }
static inline float vatan(float x) { return __builtin_atanf(x); }
static inline double vatan(double x) { return __builtin_atan(x); }
static inline float vasin(float x) { return __builtin_asinf(x); }
static inline double vasin(double x) { return __builtin_asin(x); }
static inline float vacos(float x) { return __builtin_acosf(x); }
static inline double vacos(double x) { return __builtin_acos(x); }
static inline float vpow(float x, float y) { return __builtin_powf(x, y); }
static inline double vpow(double x, double y) { return __builtin_pow(x, y); }
static inline float vfmod(float x, float y) { return __builtin_fmodf(x, y); }
static inline double vfmod(double x, double y) { return __builtin_fmod(x, y); }

//: rounding
static inline float vfloor(float x) { return __builtin_floorf(x); }
static inline double vfloor(double x) { return __builtin_floor(x); }
static inline float vceil(float x) { return __builtin_ceilf(x); }
static inline double vceil(double x) { return __builtin_ceil(x); }
static inline float vtrunc(float x) { return __builtin_truncf(x); }
static inline double vtrunc(double x) { return __builtin_trunc(x); }
static inline float vround(float x) { return __builtin_rintf(x); }  // halves to even
static inline double vround(double x) { return __builtin_rint(x); }

//: vsqrt
static inline float vsqrt(float x) { return __builtin_sqrtf(x); }
static inline double vsqrt(double x) { return __builtin_sqrt(x); }

//: vabs
static inline float vabs(float x) { return __builtin_fabsf(x); }
static inline double vabs(double x) { return __builtin_fabs(x); }
template <class T> static inline T vabs(T x) { return x < 0 ? -x : x; }

//: vsign
template <class T> static inline T vsign(T x) { return (T)(x > 0) - (T)(x < 0); }

//: wrap
// Integers wrap around, as torch's do: signed overflow has no meaning in C++, and narrow types widen to int.
template <class T> static inline T wrap_add(T a, T b) { return (T)((uint64_t)a + (uint64_t)b); }
template <class T> static inline T wrap_sub(T a, T b) { return (T)((uint64_t)a - (uint64_t)b); }
template <class T> static inline T wrap_mul(T a, T b) { return (T)((uint64_t)a * (uint64_t)b); }
template <class T> static inline T wrap_neg(T a) { return (T)(0 - (uint64_t)a); }

//: floor_divide
template <class T> static inline T floor_divide(T a, T b) {
  const T q = a / b;
  return q - (T)((a % b != 0) & ((a < 0) != (b < 0)));
}

//: floor_remainder needs floor_divide
template <class T> static inline T floor_remainder(T a, T b) { return a - floor_divide(a, b) * b; }
static inline float floor_remainder(float a, float b) {
  const float r = __builtin_fmodf(a, b);
  return (r != 0.0f && ((r < 0.0f) != (b < 0.0f))) ? r + b : r;
}
static inline double floor_remainder(double a, double b) {
  const double r = __builtin_fmod(a, b);
  return (r != 0.0 && ((r < 0.0) != (b < 0.0))) ? r + b : r;
}

//: lanes_sum
template <class T, int N> static inline double lanes_sum(const T (&lane)[N]) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (int l = 0; l < N; ++l) total += lane[l];
  return total;
}
template <int N> static inline int64_t lanes_sum(const int64_t (&lane)[N]) {
  int64_t total = 0;
  for (int l = 0; l < N; ++l) total += lane[l];
  return total;
}

//: lanes_prod
template <class T, int N> static inline T lanes_prod(const T (&lane)[N]) {
  T total = 1;
  for (int l = 0; l < N; ++l) total *= lane[l];
  return total;
}

//: lanes_max needs nanmax
template <class T, int N> static inline T lanes_max(const T (&lane)[N]) {
  T best[N];
  for (int l = 0; l < N; ++l) best[l] = lane[l];
  for (int n = N; n > 1; n = (n + 1) / 2)
#pragma omp simd
    for (int l = 0; l < n / 2; ++l) best[l] = nanmax(best[l], best[l + (n + 1) / 2]);
  return best[0];
}

//: lanes_min needs nanmin
template <class T, int N> static inline T lanes_min(const T (&lane)[N]) {
  T best[N];
  for (int l = 0; l < N; ++l) best[l] = lane[l];
  for (int n = N; n > 1; n = (n + 1) / 2)
#pragma omp simd
    for (int l = 0; l < n / 2; ++l) best[l] = nanmin(best[l], best[l + (n + 1) / 2]);
  return best[0];
}

//: lanes_any
template <int N> static inline bool lanes_any(const bool (&lane)[N]) {
  bool any = false;
  for (int l = 0; l < N; ++l) any |= lane[l];
  return any;
}

//: lanes_all
template <int N> static inline bool lanes_all(const bool (&lane)[N]) {
  bool all = true;
  for (int l = 0; l < N; ++l) all &= lane[l];
  return all;
}

//: double8
typedef double double8 __attribute__((vector_size(64)));
typedef long long lanes8 __attribute__((vector_size(64)));

//: prefix_sum needs double8
// Running sums of a block, in place, going on from `carry`.
template <int N> static inline void prefix_sum(double (&block)[N], double& carry) {
  static_assert(N % 8 == 0, "whole vectors");
  const double8 zero = {};
  for (int v = 0; v < N; v += 8) {
    double8 x = *(const double8*)(block + v);
    x += __builtin_shuffle(x, zero, (lanes8){8, 0, 1, 2, 3, 4, 5, 6});
    x += __builtin_shuffle(x, zero, (lanes8){8, 8, 0, 1, 2, 3, 4, 5});
    x += __builtin_shuffle(x, zero, (lanes8){8, 8, 8, 8, 0, 1, 2, 3});
    x += carry;
    carry = x[7];
    *(double8*)(block + v) = x;
  }
}
template <class T, int N> static inline void prefix_sum(T (&block)[N], T& carry) {
  for (int l = 0; l < N; ++l) block[l] = carry += block[l];
}

//: prefix_prod needs double8
template <int N> static inline void prefix_prod(double (&block)[N], double& carry) {
  static_assert(N % 8 == 0, "whole vectors");
  const double8 one = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int v = 0; v < N; v += 8) {
    double8 x = *(const double8*)(block + v);
    x *= __builtin_shuffle(x, one, (lanes8){8, 0, 1, 2, 3, 4, 5, 6});
    x *= __builtin_shuffle(x, one, (lanes8){8, 8, 0, 1, 2, 3, 4, 5});
    x *= __builtin_shuffle(x, one, (lanes8){8, 8, 8, 8, 0, 1, 2, 3});
    x *= carry;
    carry = x[7];
    *(double8*)(block + v) = x;
  }
}
template <class T, int N> static inline void prefix_prod(T (&block)[N], T& carry) {
  for (int l = 0; l < N; ++l) block[l] = carry *= block[l];
}

//: prefix_max needs nanmax
template <class T, int N> static inline void prefix_max(T (&block)[N], T& carry) {
  for (int l = 0; l < N; ++l) block[l] = carry = nanmax(carry, block[l]);
}

//: prefix_min needs nanmin
template <class T, int N> static inline void prefix_min(T (&block)[N], T& carry) {
  for (int l = 0; l < N; ++l) block[l] = carry = nanmin(carry, block[l]);
}

//: stream_out
// Copies a block past the caches: the destination will not be read soon. The barrier that ends a
// parallel loop orders these stores before whatever other threads do next.
static inline void stream_out(float* out, const float* block, int n) {
#if defined(__AVX512F__)
  typedef float float16 __attribute__((vector_size(64)));
  typedef float loose16 __attribute__((vector_size(64), aligned(4), may_alias));
  int l = 0;
  for (; l < n && ((uintptr_t)(out + l) & 63); ++l) out[l] = block[l];
  for (; l + 16 <= n; l += 16)
    __builtin_ia32_movntps512(out + l, (float16) * (const loose16*)(block + l));
  for (; l < n; ++l) out[l] = block[l];
#else
  for (int l = 0; l < n; ++l) out[l] = block[l];
#endif
}

//: transpose_lanes
// Reads LANES rows of `count` neighbours, `step` apart, and writes them as `count` rows of LANES. Blocks of
// 8 x 8 are transposed in registers, what is left at the edges one by one.
typedef float row8 __attribute__((vector_size(32)));
typedef float loose_row8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int order8 __attribute__((vector_size(32)));
#ifdef __clang__
#define MIXED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIXED(a, b, ...) __builtin_shuffle(a, b, (order8){__VA_ARGS__})
#endif
static inline void transpose_square(const float* from, int64_t step, float* to, int64_t to_step) {
  row8 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = *(const loose_row8*)(from + i * step);
  for (int i = 0; i < 8; i += 2) {
    t[i] = MIXED(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    t[i + 1] = MIXED(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += i % 4 == 1 ? 3 : 1) {
    r[i] = MIXED(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 2] = MIXED(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = MIXED(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    t[i + 4] = MIXED(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) *(loose_row8*)(to + i * to_step) = t[i];
}
template <int LANES> static inline void transpose_lanes(const float* from, int64_t step, int count, float* to) {
  const int squares = LANES / 8 * 8, wide = count / 8 * 8;
  for (int l = 0; l < squares; l += 8)
    for (int c = 0; c < wide; c += 8) transpose_square(from + l * step + c, step, to + c * LANES + l, LANES);
  for (int l = 0; l < LANES; ++l)
    for (int c = l < squares ? wide : 0; c < count; ++c) to[c * LANES + l] = from[l * step + c];
}

//: squared
template <class T> static inline T squared(T x) { return x * x; }

//: rounded
// Products that are rounded before anything is added: the compiler fuses no sum into a fused product.
static inline float rounded_product(float a, float b) {
#ifdef __FP_FAST_FMAF
  return __builtin_fmaf(a, b, -0.0f);
#else
  return a * b;
#endif
}
static inline double rounded_product(double a, double b) {
#ifdef __FP_FAST_FMA
  return __builtin_fma(a, b, -0.0);
#else
  return a * b;
#endif
}
template <class T> static inline T rounded_square(T x) { return rounded_product(x, x); }

//: three_quarters needs vsqrt
// x to the power 0.75: a root of minus infinity is NaN, its power is infinite.
template <class T> static inline T three_quarters(T x) {
  const T root = vsqrt(x);
  return x == -(T)INF ? (T)INF : root * vsqrt(root);
}

//: least
static inline int least(int a, int b) { return a < b ? a : b; }

//: merge_moments
// Takes the moments of `n` more values into those of the values so far (Chan, Golub, LeVeque 1983).
static inline void merge_moments(double& count, double& mean, double& squares, double n,
                                 double part_mean, double part_squares) {
  const double delta = part_mean - mean;
  const double share = n / (count + n);
  squares += part_squares + delta * delta * count * share;
  mean += delta * share;
  count += n;
}

//: scratch_floats
// A thread's own memory, kept from call to call; nothing in it is read before it is written.
struct ScratchMemory {
  float* floats = nullptr;
  int64_t size = 0;
  ~ScratchMemory() { __builtin_free(floats); }
};
typedef float* Floats;
static inline Floats scratch_floats(int64_t size) {
  static thread_local ScratchMemory own;
  if (own.size < size) {
    __builtin_free(own.floats);
    own.floats = (float*)__builtin_aligned_alloc(64, size * 4);
    own.size = size;
  }
  return own.floats;
}
