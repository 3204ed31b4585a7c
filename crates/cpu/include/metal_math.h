// Functions of the Metal dialect: math, common, integer, relational, geometric, limits, and the
// utility names of MLX. Compiler builtins only: no name of <math.h> becomes visible.

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_huge_valf()
#define MAXFLOAT 3.402823466e+38f
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define HALF_MAX half(65504.0f)
#define HALF_MIN half(6.103515625e-05f)
#define HALF_EPSILON half(9.765625e-04f)
#define MAXHALF HALF_MAX
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_PI_H half(M_PI_F)
#define M_E_H half(M_E_F)

namespace isopace {
// Elementary functions on float, written without branches so that a loop over threads becomes
// SIMD; every lane gives the same result, whatever its place. Polynomials after Cephes.
namespace fn {
ISOPACE_INLINE float pow2i(int k) { return bits<float>((k + 127) << 23); }
ISOPACE_INLINE float expm1_of(float r) {  // e^r - 1, |r| <= ln(2)/2
  float p = 1.9875691500e-4f;
  p = ISOPACE_MADD(p, r, 1.3981999507e-3f);
  p = ISOPACE_MADD(p, r, 8.3334519073e-3f);
  p = ISOPACE_MADD(p, r, 4.1665795894e-2f);
  p = ISOPACE_MADD(p, r, 1.6666665459e-1f);
  p = ISOPACE_MADD(p, r, 5.0000001201e-1f);
  return ISOPACE_MADD(p, r * r, r);
}
ISOPACE_INLINE float exp_of(float r, float n) {  // e^r * 2^n
  int k = int(n), h = k >> 1;
  return (expm1_of(r) + 1.0f) * pow2i(h) * pow2i(k - h);
}
ISOPACE_INLINE float reduce_ln2(float x, float n) {
  return ISOPACE_MADD(n, 2.12194440e-4f, ISOPACE_MADD(n, -0.693359375f, x));
}
ISOPACE_INLINE float exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  float n = __builtin_rintf(x * 1.44269504088896341f);
  return exp_of(reduce_ln2(x, n), n);
}
ISOPACE_INLINE float exp2(float x) {
  x = x > 129.0f ? 129.0f : x;
  x = x < -151.0f ? -151.0f : x;
  float n = __builtin_rintf(x);
  return exp_of((x - n) * 0.69314718055994531f, n);
}
// x = (1 + f) * 2^e with sqrt(1/2) <= 1 + f < sqrt(2); returns log(1 + f) - f + f^2/2.
ISOPACE_INLINE float log_parts(float x, float& f, float& e) {
  bool small = x < 1.17549435e-38f;
  float y = small ? x * 8388608.0f : x;
  int u = bits<int>(y), k = (u - 0x3f3504f3) >> 23;
  f = bits<float>(u - (k << 23)) - 1.0f;
  e = float(k) - (small ? 23.0f : 0.0f);
  float p = 7.0376836292e-2f;
  p = ISOPACE_MADD(p, f, -1.1514610310e-1f);
  p = ISOPACE_MADD(p, f, 1.1676998740e-1f);
  p = ISOPACE_MADD(p, f, -1.2420140846e-1f);
  p = ISOPACE_MADD(p, f, 1.4249322787e-1f);
  p = ISOPACE_MADD(p, f, -1.6668057665e-1f);
  p = ISOPACE_MADD(p, f, 2.0000714765e-1f);
  p = ISOPACE_MADD(p, f, -2.4999993993e-1f);
  p = ISOPACE_MADD(p, f, 3.3333331174e-1f);
  return p * f * (f * f);
}
ISOPACE_INLINE float log_edges(float x, float r) {
  r = x == INFINITY ? x : r;
  r = x == 0.0f ? -INFINITY : r;
  return x >= 0.0f ? r : NAN;
}
ISOPACE_INLINE float log(float x) {
  float f, e, p = log_parts(x, f, e);
  p = ISOPACE_MADD(e, -2.12194440e-4f, p);
  p = ISOPACE_MADD(f * f, -0.5f, p);
  return log_edges(x, ISOPACE_MADD(e, 0.693359375f, f + p));
}
ISOPACE_INLINE float log2(float x) {
  float f, e, p = log_parts(x, f, e);
  p = ISOPACE_MADD(f * f, -0.5f, p);
  // log2(e) - 1 apart, so that the leading f loses nothing.
  float r = ISOPACE_MADD(p, 0.44269504088896341f, f * 0.44269504088896341f);
  return log_edges(x, ((r + p) + f) + e);
}
ISOPACE_INLINE float log10(float x) {
  float f, e, p = log_parts(x, f, e);
  p = ISOPACE_MADD(f * f, -0.5f, p);
  float r = ISOPACE_MADD(e, 2.48745663981195e-4f, (f + p) * 0.434294481903251828f);
  return log_edges(x, ISOPACE_MADD(e, 0.30078125f, r));
}
ISOPACE_INLINE float tanh(float x) {  // q / (q + 2) with q = e^2|x| - 1, exact for small x too
  float a = __builtin_fabsf(x);
  a = a > 9.1f ? 9.1f : a;
  float t = a + a, n = __builtin_rintf(t * 1.44269504088896341f), s = pow2i(int(n));
  float q = ISOPACE_MADD(s, expm1_of(reduce_ln2(t, n)), s - 1.0f);
  return __builtin_copysignf(q / (q + 2.0f), x);
}
ISOPACE_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
ISOPACE_INLINE float reduce2(float x) { return x - 2.0f * __builtin_rintf(x * 0.5f); }
ISOPACE_INLINE float sinpi(float x) {
  float r = reduce2(x);
  r = r > 0.5f ? 1.0f - r : r;
  r = r < -0.5f ? -1.0f - r : r;
  return __builtin_fabsf(x) == INFINITY ? NAN : float(__builtin_sin(3.14159265358979323846 * r));
}
ISOPACE_INLINE float cospi(float x) {
  float r = __builtin_fabsf(reduce2(x));
  return __builtin_fabsf(x) == INFINITY ? NAN : float(__builtin_sin(3.14159265358979323846 * (0.5f - r)));
}
ISOPACE_INLINE float tanpi(float x) { return sinpi(x) / cospi(x); }
ISOPACE_INLINE float exp10(float x) { return float(__builtin_exp2(3.32192809488736234787 * double(x))); }
ISOPACE_INLINE float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? x : 0.0f; }
ISOPACE_INLINE float fract(float x) {
  float r = x - __builtin_floorf(x);
  return r >= 1.0f ? 0x1.fffffep-1f : r;
}
ISOPACE_INLINE float rint(float x) { return __builtin_rintf(x); }
ISOPACE_INLINE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
ISOPACE_INLINE float powr(float x, float y) { return x < 0 ? NAN : __builtin_powf(x, y); }

#define ISOPACE_LIBM1(name) \
  ISOPACE_INLINE float name(float x) { return __builtin_##name##f(x); } \
  ISOPACE_INLINE double name(double x) { return __builtin_##name(x); }
ISOPACE_LIBM1(acos) ISOPACE_LIBM1(acosh) ISOPACE_LIBM1(asin) ISOPACE_LIBM1(asinh) ISOPACE_LIBM1(atan) ISOPACE_LIBM1(atanh)
ISOPACE_LIBM1(ceil) ISOPACE_LIBM1(cos) ISOPACE_LIBM1(cosh) ISOPACE_LIBM1(fabs) ISOPACE_LIBM1(floor) ISOPACE_LIBM1(round)
ISOPACE_LIBM1(sin) ISOPACE_LIBM1(sinh) ISOPACE_LIBM1(sqrt) ISOPACE_LIBM1(tan) ISOPACE_LIBM1(trunc) ISOPACE_LIBM1(expm1)
ISOPACE_LIBM1(log1p) ISOPACE_LIBM1(erf) ISOPACE_LIBM1(erfc)
#define ISOPACE_LIBM2(name) \
  ISOPACE_INLINE float name(float x, float y) { return __builtin_##name##f(x, y); } \
  ISOPACE_INLINE double name(double x, double y) { return __builtin_##name(x, y); }
ISOPACE_LIBM2(atan2) ISOPACE_LIBM2(copysign) ISOPACE_LIBM2(fdim) ISOPACE_LIBM2(nextafter) ISOPACE_LIBM2(pow)
ISOPACE_INLINE double exp(double x) { return __builtin_exp(x); }
ISOPACE_INLINE double exp2(double x) { return __builtin_exp2(x); }
ISOPACE_INLINE double exp10(double x) { return __builtin_pow(10.0, x); }
ISOPACE_INLINE double log(double x) { return __builtin_log(x); }
ISOPACE_INLINE double log2(double x) { return __builtin_log2(x); }
ISOPACE_INLINE double log10(double x) { return __builtin_log10(x); }
ISOPACE_INLINE double tanh(double x) { return __builtin_tanh(x); }
ISOPACE_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
ISOPACE_INLINE double rint(double x) { return __builtin_rint(x); }
ISOPACE_INLINE double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? x : 0.0; }
ISOPACE_INLINE double fract(double x) { double r = x - __builtin_floor(x); return r >= 1.0 ? 0x1.fffffffffffffp-1 : r; }
ISOPACE_INLINE double fmod(double x, double y) { return __builtin_fmod(x, y); }
ISOPACE_INLINE double powr(double x, double y) { return x < 0 ? NAN : __builtin_pow(x, y); }
ISOPACE_INLINE double sinpi(double x) { return __builtin_sin(3.14159265358979323846 * (x - 2 * __builtin_rint(x / 2))); }
ISOPACE_INLINE double cospi(double x) { return __builtin_cos(3.14159265358979323846 * (x - 2 * __builtin_rint(x / 2))); }
ISOPACE_INLINE double tanpi(double x) { return sinpi(x) / cospi(x); }
}  // namespace fn

// The type that a math function of a T returns, and the one it computes in.
template <class T> using math_t = std::conditional_t<real_v<T>, T, float>;
template <class T> using wide_t = std::conditional_t<std::is_same<T, double>::value, double, float>;
// The common type of two scalars: float wins over the small floats, those win over integers.
template <class A, class B> struct common {
  using small = std::conditional_t<small_v<A>, A, B>;
  using both = std::conditional_t<(std::is_same<A, double>::value || std::is_same<B, double>::value), double,
      std::conditional_t<(std::is_same<A, float>::value || std::is_same<B, float>::value || (small_v<A> && small_v<B>)), float, small>>;
  using ints = decltype(std::conditional_t<std::is_arithmetic<A>::value, A, int>() +
                        std::conditional_t<std::is_arithmetic<B>::value, B, int>());
  using type = std::conditional_t<(real_v<A> || real_v<B>), both, ints>;
};
template <class A> struct common<A, A> { using type = A; };
template <class A, class B> using common_t = typename common<A, B>::type;
template <class A, class B> inline constexpr bool scalars_v = scalar_v<A> && scalar_v<B>;
template <class A, class F> ISOPACE_INLINE auto map(const A& a, F f) {
  vec<decltype(f(a[0])), shape<A>::n> r;
  for (int i = 0; i < shape<A>::n; i++) r.d[i] = f(a[i]);
  return r;
}
template <class A, class B, class F> ISOPACE_INLINE auto map2(const A& a, const B& b, F f) {
  using T = joint_t<A, B>;
  vec<decltype(f(T(), T())), joint_n<A, B>> r;
  for (int i = 0; i < joint_n<A, B>; i++) r.d[i] = f(T(get(a, i)), T(get(b, i)));
  return r;
}
template <class A, class B, class C> inline constexpr bool any_vector_v = vector_v<A> || vector_v<B> || vector_v<C>;
template <class A, class B, class C, class F> ISOPACE_INLINE auto map3(const A& a, const B& b, const C& c, F f) {
  using P = std::conditional_t<vector_v<A>, A, std::conditional_t<vector_v<B>, B, C>>;
  vec<decltype(f(get(a, 0), get(b, 0), get(c, 0))), shape<P>::n> r;
  for (int i = 0; i < shape<P>::n; i++) r.d[i] = f(get(a, i), get(b, i), get(c, i));
  return r;
}
}  // namespace isopace

namespace metal {
using isopace::when;
#define ISOPACE_FN1(name)                                                                         \
  template <class T, when<isopace::scalar_v<T>> = 0> ISOPACE_INLINE isopace::math_t<T> name(T x) { \
    return isopace::math_t<T>(isopace::fn::name(isopace::wide_t<T>(x)));                          \
  }                                                                                               \
  template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE isopace::vec_of<A> name(const A& a) { \
    return isopace::map(a, [](auto x) { return name(x); });                                       \
  }
#define ISOPACE_VEC2(name)                                                                        \
  template <class A, class B, when<isopace::joint_v<A, B>> = 0> ISOPACE_INLINE auto name(const A& a, const B& b) { \
    return isopace::map2(a, b, [](auto x, auto y) { return name(x, y); });                        \
  }
#define ISOPACE_FN2(name)                                                                         \
  template <class A, class B, when<isopace::scalars_v<A, B>> = 0>                                 \
  ISOPACE_INLINE isopace::math_t<isopace::common_t<A, B>> name(A x, B y) {                        \
    using T = isopace::math_t<isopace::common_t<A, B>>;                                           \
    using W = isopace::wide_t<T>;                                                                 \
    return T(isopace::fn::name(W(x), W(y)));                                                      \
  }                                                                                               \
  ISOPACE_VEC2(name)
#define ISOPACE_VEC3(name)                                                                        \
  template <class A, class B, class C, when<isopace::any_vector_v<A, B, C>> = 0>                  \
  ISOPACE_INLINE auto name(const A& a, const B& b, const C& c) {                                  \
    return isopace::map3(a, b, c, [](auto x, auto y, auto z) { return name(x, y, z); });          \
  }
ISOPACE_FN1(acos) ISOPACE_FN1(acosh) ISOPACE_FN1(asin) ISOPACE_FN1(asinh) ISOPACE_FN1(atan) ISOPACE_FN1(atanh)
ISOPACE_FN1(ceil) ISOPACE_FN1(cos) ISOPACE_FN1(cosh) ISOPACE_FN1(cospi) ISOPACE_FN1(exp) ISOPACE_FN1(exp2) ISOPACE_FN1(exp10)
ISOPACE_FN1(fabs) ISOPACE_FN1(floor) ISOPACE_FN1(fract) ISOPACE_FN1(log) ISOPACE_FN1(log2) ISOPACE_FN1(log10)
ISOPACE_FN1(rint) ISOPACE_FN1(round) ISOPACE_FN1(rsqrt) ISOPACE_FN1(sign) ISOPACE_FN1(sin) ISOPACE_FN1(sinh)
ISOPACE_FN1(sinpi) ISOPACE_FN1(sqrt) ISOPACE_FN1(tan) ISOPACE_FN1(tanh) ISOPACE_FN1(tanpi) ISOPACE_FN1(trunc)
ISOPACE_FN1(expm1) ISOPACE_FN1(log1p) ISOPACE_FN1(erf) ISOPACE_FN1(erfc)
ISOPACE_FN2(atan2) ISOPACE_FN2(copysign) ISOPACE_FN2(fdim) ISOPACE_FN2(fmod) ISOPACE_FN2(pow) ISOPACE_FN2(powr)
ISOPACE_VEC2(nextafter)
template <class T, when<isopace::real_v<T>> = 0> ISOPACE_INLINE T nextafter(T x, T y) {
  if constexpr (isopace::small_v<T>) {
    if (x != x) return x;
    if (y != y) return y;
    if (x == y) return y;
    uint16_t b = isopace::bits<uint16_t>(x);
    if (x == T(0)) b = y < x ? 0x8001u : 1u;
    else b += ((y > x) == !(b & 0x8000u)) ? 1 : -1;
    return isopace::bits<T>(b);
  } else return isopace::fn::nextafter(x, y);
}

#define ISOPACE_TEST(name, expr)                                                                  \
  template <class T, when<isopace::scalar_v<T>> = 0> ISOPACE_INLINE bool name(T v) {              \
    auto x = isopace::wide_t<T>(v);                                                               \
    return expr;                                                                                  \
  }                                                                                               \
  template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE auto name(const A& a) {       \
    return isopace::map(a, [](auto x) { return name(x); });                                       \
  }
ISOPACE_TEST(isnan, x != x)
ISOPACE_TEST(isinf, __builtin_fabs(x) == __builtin_inf())
ISOPACE_TEST(isfinite, __builtin_fabs(x) < __builtin_inf())
ISOPACE_TEST(signbit, __builtin_signbit(x))
template <class T, when<isopace::real_v<T>> = 0> ISOPACE_INLINE bool isnormal(T x) {
  if constexpr (isopace::is_native_half<T>::value) {
    uint16_t e = isopace::bits<uint16_t>(x) & 0x7c00u;
    return e != 0 && e != 0x7c00u;
  } else return __builtin_isnormal(isopace::wide_t<T>(x));
}
template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE auto isnormal(const A& a) {
  return isopace::map(a, [](auto x) { return isnormal(x); });
}
template <class A, class B, when<isopace::scalars_v<A, B>> = 0> ISOPACE_INLINE bool isordered(A x, B y) { return x == x && y == y; }
template <class A, class B, when<isopace::scalars_v<A, B>> = 0> ISOPACE_INLINE bool isunordered(A x, B y) { return x != x || y != y; }
ISOPACE_VEC2(isordered) ISOPACE_VEC2(isunordered)

// A NaN beside a number gives the number.
template <class A, class B, when<isopace::scalars_v<A, B>> = 0> ISOPACE_INLINE isopace::common_t<A, B> max(A a, B b) {
  using T = isopace::common_t<A, B>;
  T x = T(a), y = T(b);
  if constexpr (isopace::real_v<T>) return x > y || y != y ? x : y; else return x > y ? x : y;
}
template <class A, class B, when<isopace::scalars_v<A, B>> = 0> ISOPACE_INLINE isopace::common_t<A, B> min(A a, B b) {
  using T = isopace::common_t<A, B>;
  T x = T(a), y = T(b);
  if constexpr (isopace::real_v<T>) return x < y || y != y ? x : y; else return x < y ? x : y;
}
ISOPACE_VEC2(max) ISOPACE_VEC2(min)
template <class A, class B> ISOPACE_INLINE auto fmax(const A& a, const B& b) { return max(a, b); }
template <class A, class B> ISOPACE_INLINE auto fmin(const A& a, const B& b) { return min(a, b); }
template <class A, class B, class C> ISOPACE_INLINE auto max3(const A& a, const B& b, const C& c) { return max(max(a, b), c); }
template <class A, class B, class C> ISOPACE_INLINE auto min3(const A& a, const B& b, const C& c) { return min(min(a, b), c); }
template <class A, class B, class C> ISOPACE_INLINE auto fmax3(const A& a, const B& b, const C& c) { return max(max(a, b), c); }
template <class A, class B, class C> ISOPACE_INLINE auto fmin3(const A& a, const B& b, const C& c) { return min(min(a, b), c); }
template <class A, class B, class C> ISOPACE_INLINE auto median3(const A& a, const B& b, const C& c) {
  return max(min(a, b), min(max(a, b), c));
}
template <class A, class B, class C> ISOPACE_INLINE auto fmedian3(const A& a, const B& b, const C& c) { return median3(a, b, c); }
template <class A, class B, class C> ISOPACE_INLINE auto clamp(const A& x, const B& low, const C& high) { return min(max(x, low), high); }
template <class A> ISOPACE_INLINE auto saturate(const A& x) { return clamp(x, isopace::element_t<A>(0), isopace::element_t<A>(1)); }

template <class A, class B, class C, when<isopace::scalar_v<A> && isopace::scalars_v<B, C>> = 0>
ISOPACE_INLINE isopace::math_t<isopace::common_t<isopace::common_t<A, B>, C>> fma(A a, B b, C c) {
  using T = isopace::math_t<isopace::common_t<isopace::common_t<A, B>, C>>;
  if constexpr (std::is_same<T, float>::value) return __builtin_fmaf(a, b, c);
  // The product of two 16-bit floats is exact in double, and so is its sum here but for one rounding.
  else return T(__builtin_fma(double(a), double(b), double(c)));
}
ISOPACE_VEC3(fma)
template <class A, class B, class C, when<isopace::scalar_v<A> && isopace::scalars_v<B, C>> = 0>
ISOPACE_INLINE auto mix(A x, B y, C a) {
  using T = isopace::common_t<isopace::common_t<A, B>, C>;
  return T(T(x) + T(T(y) - T(x)) * T(a));
}
ISOPACE_VEC3(mix)
template <class A, class B, when<isopace::scalars_v<A, B>> = 0> ISOPACE_INLINE auto step(A edge, B x) {
  using T = isopace::math_t<isopace::common_t<A, B>>;
  return T(T(x) < T(edge) ? 0 : 1);
}
ISOPACE_VEC2(step)
template <class A, class B, class C, when<isopace::scalar_v<A> && isopace::scalars_v<B, C>> = 0>
ISOPACE_INLINE auto smoothstep(A low, B high, C x) {
  using T = isopace::math_t<isopace::common_t<isopace::common_t<A, B>, C>>;
  T t = saturate(T(T(T(x) - T(low)) / T(T(high) - T(low))));
  return T(t * t * (T(3) - T(2) * t));
}
ISOPACE_VEC3(smoothstep)
template <class A, class B, class C, when<!isopace::vector_v<C>> = 0> ISOPACE_INLINE A select(const A& a, const B& b, C c) {
  if (c) return A(b);
  return a;
}
template <class A, class B, class C, when<isopace::vector_v<C>> = 0> ISOPACE_INLINE auto select(const A& a, const B& b, const C& c) {
  using T = isopace::joint_t<A, B>;
  isopace::vec<T, isopace::shape<C>::n> r;
  for (int i = 0; i < isopace::shape<C>::n; i++) r.d[i] = c[i] ? T(isopace::get(b, i)) : T(isopace::get(a, i));
  return r;
}
ISOPACE_INLINE bool any(bool b) { return b; }
ISOPACE_INLINE bool all(bool b) { return b; }
template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE bool any(const A& a) {
  bool r = false;
  for (int i = 0; i < isopace::shape<A>::n; i++) r |= bool(a[i]);
  return r;
}
template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE bool all(const A& a) {
  bool r = true;
  for (int i = 0; i < isopace::shape<A>::n; i++) r &= bool(a[i]);
  return r;
}

template <class T, when<isopace::real_v<T>> = 0> ISOPACE_INLINE T ldexp(T x, int k) {
  return T(__builtin_ldexp(double(x), k));
}
template <class T, when<isopace::real_v<T>> = 0> ISOPACE_INLINE T frexp(T x, int& e) { return T(__builtin_frexp(double(x), &e)); }
template <class T, when<isopace::real_v<T>> = 0> ISOPACE_INLINE int ilogb(T x) { return __builtin_ilogb(double(x)); }
template <class T, when<isopace::real_v<T>> = 0> ISOPACE_INLINE T modf(T x, T& whole) {
  whole = trunc(x);
  return isinf(x) ? copysign(T(0), x) : copysign(T(x - whole), x);
}
template <class A> ISOPACE_INLINE A sincos(const A& x, A& c) { c = cos(x); return sin(x); }
template <class A, class B> ISOPACE_INLINE auto divide(const A& a, const B& b) { return a / b; }

template <class T, when<isopace::scalar_v<T>> = 0> ISOPACE_INLINE T abs(T x) {
  if constexpr (isopace::real_v<T>) return T(isopace::fn::fabs(isopace::wide_t<T>(x)));
  else if constexpr (std::is_same<T, bool>::value || std::is_unsigned<T>::value) return x;
  else return T(x < 0 ? std::make_unsigned_t<T>(0) - std::make_unsigned_t<T>(x) : x);
}
template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE isopace::vec_of<A> abs(const A& a) {
  return isopace::map(a, [](auto x) { return abs(x); });
}

// Integers. W is wide enough for any result of two T.
template <class T> using isopace_unsigned = std::make_unsigned_t<T>;
#define ISOPACE_INT1(name, R, ...)                                                                \
  template <class T, when<std::is_integral<T>::value> = 0> ISOPACE_INLINE R name(T x) {           \
    using U = isopace_unsigned<T>; constexpr int n = 8 * sizeof(T); (void)n; __VA_ARGS__          \
  }                                                                                               \
  template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE auto name(const A& a) {       \
    return isopace::map(a, [](auto x) { return name(x); });                                       \
  }
#define ISOPACE_INT2(name, R, ...)                                                                \
  template <class T, class B, when<std::is_integral<T>::value && std::is_integral<B>::value> = 0> ISOPACE_INLINE R name(T x, B second) { \
    using W = __int128; using U = isopace_unsigned<T>; constexpr int n = 8 * sizeof(T); (void)n;  \
    T y = T(second); __VA_ARGS__                                                                  \
  }                                                                                               \
  ISOPACE_VEC2(name)
ISOPACE_INT1(popcount, T, return T(__builtin_popcountll((unsigned long long)U(x)));)
ISOPACE_INT1(clz, T, return T(U(x) == 0 ? n : __builtin_clzll((unsigned long long)U(x)) - (64 - n));)
ISOPACE_INT1(ctz, T, return T(U(x) == 0 ? n : __builtin_ctzll((unsigned long long)U(x)));)
ISOPACE_INT1(reverse_bits, T, U u = U(x), r = 0; for (int i = 0; i < n; i++) r = U(r | U(U(u >> i & 1) << (n - 1 - i))); return T(r);)
ISOPACE_INT2(absdiff, isopace_unsigned<T>, return U(x > y ? U(x) - U(y) : U(y) - U(x));)
ISOPACE_INT2(addsat, T, W r = W(x) + W(y), lo = std::is_signed<T>::value ? -(W(1) << (n - 1)) : 0,
  hi = (W(1) << (std::is_signed<T>::value ? n - 1 : n)) - 1; return T(r < lo ? lo : r > hi ? hi : r);)
ISOPACE_INT2(subsat, T, W r = W(x) - W(y), lo = std::is_signed<T>::value ? -(W(1) << (n - 1)) : 0,
  hi = (W(1) << (std::is_signed<T>::value ? n - 1 : n)) - 1; return T(r < lo ? lo : r > hi ? hi : r);)
ISOPACE_INT2(hadd, T, return T((W(x) + W(y)) >> 1);)
ISOPACE_INT2(rhadd, T, return T((W(x) + W(y) + 1) >> 1);)
ISOPACE_INT2(mulhi, T, return T(std::is_signed<T>::value ? (W(x) * W(y)) >> n : W(((unsigned __int128)U(x) * U(y)) >> n));)
ISOPACE_INT2(mul24, T, return T((std::is_signed<T>::value ? long(int(uint(x) << 8) >> 8) : long(uint(x) & 0xffffffu)) *
  (std::is_signed<T>::value ? long(int(uint(y) << 8) >> 8) : long(uint(y) & 0xffffffu)));)
ISOPACE_INT2(rotate, T, int k = int(U(y) & U(n - 1)); return T(k == 0 ? U(x) : U(U(x) << k) | U(U(x) >> (n - k)));)
template <class A, class B, class C> ISOPACE_INLINE auto madhi(const A& a, const B& b, const C& c) { return mulhi(a, b) + c; }
template <class A, class B, class C> ISOPACE_INLINE auto mad24(const A& a, const B& b, const C& c) { return mul24(a, b) + c; }
template <class A, class B, class C> ISOPACE_INLINE auto madsat(A a, B second, C third) {
  using W = __int128; using T = A; constexpr int n = 8 * sizeof(T);
  W r = W(a) * W(T(second)) + W(T(third)), lo = std::is_signed<T>::value ? -(W(1) << (n - 1)) : 0;
  W hi = (W(1) << (std::is_signed<T>::value ? n - 1 : n)) - 1;
  return T(r < lo ? lo : r > hi ? hi : r);
}
template <class T, when<std::is_integral<T>::value> = 0> ISOPACE_INLINE T extract_bits(T x, uint offset, uint count) {
  using U = isopace_unsigned<T>;
  constexpr uint n = 8 * sizeof(T);
  if (count == 0 || offset >= n) return 0;
  if (offset + count > n) count = n - offset;
  U u = U(U(x) << (n - offset - count));
  return T(std::is_signed<T>::value ? T(u) >> (n - count) : T(u >> (n - count)));
}
template <class A, when<isopace::vector_v<A>> = 0> ISOPACE_INLINE auto extract_bits(const A& a, uint offset, uint count) {
  return isopace::map(a, [=](auto x) { return extract_bits(x, offset, count); });
}
template <class T, when<std::is_integral<T>::value> = 0> ISOPACE_INLINE T insert_bits(T base, T insert, uint offset, uint count) {
  using U = isopace_unsigned<T>;
  constexpr uint n = 8 * sizeof(T);
  if (count == 0 || offset >= n) return base;
  if (offset + count > n) count = n - offset;
  U mask = U((count == n ? U(~U(0)) : U((U(1) << count) - 1)) << offset);
  return T((U(base) & U(~mask)) | (U(U(insert) << offset) & mask));
}

// Geometry.
template <class A, class B> ISOPACE_INLINE auto dot(const A& a, const B& b) {
  using T = isopace::joint_t<A, B>;
  T r = T(a[0] * b[0]);
  for (int i = 1; i < isopace::shape<A>::n; i++) r = T(r + T(a[i] * b[i]));
  return r;
}
template <class A> ISOPACE_INLINE auto length_squared(const A& a) { return dot(a, a); }
template <class A> ISOPACE_INLINE auto length(const A& a) { return sqrt(dot(a, a)); }
template <class A, class B> ISOPACE_INLINE auto distance_squared(const A& a, const B& b) { return length_squared(a - b); }
template <class A, class B> ISOPACE_INLINE auto distance(const A& a, const B& b) { return length(a - b); }
template <class A> ISOPACE_INLINE auto normalize(const A& a) { return a * rsqrt(dot(a, a)); }
template <class A, class B> ISOPACE_INLINE auto cross(const A& a, const B& b) {
  using T = isopace::joint_t<A, B>;
  return vec<T, 3>(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]);
}
template <class N, class I, class R> ISOPACE_INLINE isopace::vec_of<N> faceforward(const N& n, const I& i, const R& nref) {
  return dot(nref, i) < 0 ? isopace::vec_of<N>(n) : isopace::vec_of<N>(-n);
}
template <class I, class N> ISOPACE_INLINE auto reflect(const I& i, const N& n) {
  using T = isopace::joint_t<I, N>;
  return i - n * T(T(2) * dot(n, i));
}
template <class I, class N, class E> ISOPACE_INLINE isopace::vec_of<I> refract(const I& i, const N& n, E eta) {
  using T = isopace::joint_t<I, N>;
  T d = dot(n, i), e = T(eta), k = T(T(1) - e * e * (T(1) - d * d));
  if (k < T(0)) return isopace::vec_of<I>(T(0));
  return i * e - n * T(e * d + sqrt(k));
}

// Limits.
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define ISOPACE_INT_LIMITS(T, low, high)                                                          \
  template <> struct numeric_limits<T> {                                                          \
    static constexpr bool is_specialized = true, is_integer = true, is_exact = true, has_infinity = false, has_quiet_NaN = false; \
    static constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0);                                               \
    static constexpr int digits = 8 * sizeof(T) - is_signed, radix = 2;                           \
    static constexpr T min() { return low; }                                                      \
    static constexpr T lowest() { return low; }                                                   \
    static constexpr T max() { return high; }                                                     \
    static constexpr T epsilon() { return 0; }                                                    \
    static constexpr T infinity() { return 0; }                                                   \
    static constexpr T quiet_NaN() { return 0; }                                                  \
  };
ISOPACE_INT_LIMITS(bool, false, true)
ISOPACE_INT_LIMITS(char, -128, 127)
ISOPACE_INT_LIMITS(int8_t, -128, 127)
ISOPACE_INT_LIMITS(uint8_t, 0, 255)
ISOPACE_INT_LIMITS(short, -32768, 32767)
ISOPACE_INT_LIMITS(ushort, 0, 65535)
ISOPACE_INT_LIMITS(int, -2147483647 - 1, 2147483647)
ISOPACE_INT_LIMITS(uint, 0, 4294967295u)
ISOPACE_INT_LIMITS(long, -9223372036854775807L - 1, 9223372036854775807L)
ISOPACE_INT_LIMITS(ulong, 0, 18446744073709551615ul)
ISOPACE_INT_LIMITS(long long, -9223372036854775807LL - 1, 9223372036854775807LL)
ISOPACE_INT_LIMITS(unsigned long long, 0, 18446744073709551615ull)
#define ISOPACE_FLOAT_LIMITS(T, bits_t, man, low, high, eps, inf, nan, denorm)                    \
  template <> struct numeric_limits<T> {                                                          \
    static constexpr bool is_specialized = true, is_integer = false, is_exact = false, is_signed = true; \
    static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_iec559 = true; \
    static constexpr int digits = man, radix = 2;                                                 \
    static ISOPACE_INLINE T min() { return isopace::bits<T>(bits_t(low)); }                       \
    static ISOPACE_INLINE T max() { return isopace::bits<T>(bits_t(high)); }                      \
    static ISOPACE_INLINE T lowest() { return -isopace::bits<T>(bits_t(high)); }                  \
    static ISOPACE_INLINE T epsilon() { return isopace::bits<T>(bits_t(eps)); }                   \
    static ISOPACE_INLINE T infinity() { return isopace::bits<T>(bits_t(inf)); }                  \
    static ISOPACE_INLINE T quiet_NaN() { return isopace::bits<T>(bits_t(nan)); }                 \
    static ISOPACE_INLINE T denorm_min() { return isopace::bits<T>(bits_t(denorm)); }             \
  };
ISOPACE_FLOAT_LIMITS(half, uint16_t, 11, 0x0400, 0x7bff, 0x1400, 0x7c00, 0x7e00, 1)
ISOPACE_FLOAT_LIMITS(bfloat, uint16_t, 8, 0x0080, 0x7f7f, 0x3c00, 0x7f80, 0x7fc0, 1)
template <> struct numeric_limits<float> {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, is_signed = true;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_iec559 = true;
  static constexpr int digits = 24, radix = 2, digits10 = 6, max_exponent = 128, min_exponent = -125;
  static constexpr float min() { return FLT_MIN; }
  static constexpr float max() { return FLT_MAX; }
  static constexpr float lowest() { return -FLT_MAX; }
  static constexpr float epsilon() { return FLT_EPSILON; }
  static constexpr float infinity() { return INFINITY; }
  static constexpr float quiet_NaN() { return NAN; }
  static constexpr float denorm_min() { return 0x1p-149f; }
};
template <> struct numeric_limits<double> {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, is_signed = true;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_iec559 = true;
  static constexpr int digits = 53, radix = 2;
  static constexpr double min() { return 0x1p-1022; }
  static constexpr double max() { return 0x1.fffffffffffffp+1023; }
  static constexpr double lowest() { return -0x1.fffffffffffffp+1023; }
  static constexpr double epsilon() { return 0x1p-52; }
  static constexpr double infinity() { return __builtin_inf(); }
  static constexpr double quiet_NaN() { return __builtin_nan(""); }
};

using std::bool_constant; using std::conditional; using std::conditional_t; using std::decay; using std::decay_t;
using std::enable_if; using std::enable_if_t; using std::false_type; using std::integral_constant; using std::is_arithmetic;
using std::is_arithmetic_v; using std::is_const; using std::is_convertible; using std::is_convertible_v; using std::is_enum;
using std::is_integral; using std::is_integral_v; using std::is_same; using std::is_same_v; using std::is_signed;
using std::is_signed_v; using std::is_unsigned; using std::is_unsigned_v; using std::make_signed; using std::make_signed_t;
using std::make_unsigned; using std::make_unsigned_t; using std::remove_const; using std::remove_const_t;
using std::remove_cv; using std::remove_cv_t; using std::remove_reference; using std::remove_reference_t;
using std::true_type; using std::void_t;
template <class T> struct is_floating_point : std::bool_constant<isopace::real_v<std::remove_cv_t<T>>> {};
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;

namespace fast { using namespace ::metal; }
namespace precise { using namespace ::metal; }
}  // namespace metal
using namespace metal;

// MLX's utility names. A program may define its own of the same name and other parameters.
template <class T, class U> inline constexpr T ceildiv(T n, U m) { return (n + m - 1) / m; }
template <class U> struct Limits {
  static ISOPACE_INLINE U finite_max_() { return metal::numeric_limits<U>::max(); }
  static inline const U max = metal::numeric_limits<U>::has_infinity ? metal::numeric_limits<U>::infinity() : metal::numeric_limits<U>::max();
  static inline const U min = metal::numeric_limits<U>::has_infinity ? U(-metal::numeric_limits<U>::infinity()) : metal::numeric_limits<U>::lowest();
  static inline const U finite_max = metal::numeric_limits<U>::max();
  static inline const U finite_min = metal::numeric_limits<U>::lowest();
};
// The place, in elements, of element number `elem` of a view.
template <class I = int64_t, class E, when<std::is_integral<E>::value> = 0>
ISOPACE_INLINE I elem_to_loc(E elem, const int* shape, const int64_t* strides, int ndim) {
  I at = 0;
  for (int i = ndim - 1; i >= 0 && elem > 0; --i) {
    at += I(elem % shape[i]) * I(strides[i]);
    elem /= shape[i];
  }
  return at;
}
template <class I = int64_t>
ISOPACE_INLINE I elem_to_loc(uint3 elem, const int* shape, const int64_t* strides, int ndim) {
  I at = I(elem.x) * I(strides[ndim - 1]) + I(elem.y) * I(strides[ndim - 2]);
  uint rest = elem.z;
  for (int d = ndim - 3; d >= 0; --d) {
    at += I(rest % shape[d]) * I(strides[d]);
    rest /= shape[d];
  }
  return at;
}
template <class I = int64_t> ISOPACE_INLINE I elem_to_loc_1(uint elem, const int64_t& stride) { return I(elem) * I(stride); }
template <class I = int64_t> ISOPACE_INLINE I elem_to_loc_2(uint2 elem, const int64_t* strides) {
  return I(elem.x) * I(strides[1]) + I(elem.y) * I(strides[0]);
}
template <class I = int64_t> ISOPACE_INLINE I elem_to_loc_3(uint3 elem, const int64_t* strides) {
  return I(elem.x) * I(strides[2]) + I(elem.y) * I(strides[1]) + I(elem.z) * I(strides[0]);
}
