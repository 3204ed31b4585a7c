// Types of the Metal dialect in C++17: address spaces, small floats, vectors, complex numbers.
// Built by g++ (11 or newer) or clang++; needs no C++ library but <type_traits>.
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <type_traits>
#if !defined(__x86_64__) || defined(ISOPACE_UCONTEXT)
#include <ucontext.h>
#endif

#define ISOPACE_INLINE inline __attribute__((always_inline))
#define ISOPACE_RESTRICT __restrict
#define ISOPACE_BODY static ISOPACE_INLINE
#define ISOPACE_INIT ISOPACE_INLINE
#define ISOPACE_SHARED static thread_local

// Address spaces and function kinds. `constant` is rewritten to `const` where that is missing, and
// declarations of threadgroup variables to ISOPACE_SHARED, before the compiler sees them.
#define device
#define constant
#define threadgroup
#define thread
#define kernel

#define MLX_MTL_CONST static constexpr const
#define MLX_MTL_LOOP_UNROLL
#define MLX_MTL_PRAGMA_UNROLL

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#ifdef __FMA__
#define ISOPACE_MADD(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define ISOPACE_MADD(a, b, c) ((a) * (b) + (c))
#endif

namespace isopace {
template <class To, class From> ISOPACE_INLINE To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

struct bf16_format {
  static ISOPACE_INLINE float widen(uint16_t b) { return bits<float>(uint32_t(b) << 16); }
  static ISOPACE_INLINE uint16_t round(float f) {
    uint32_t u = bits<uint32_t>(f);
    uint32_t nan = (u >> 16) | 0x40u, even = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return uint16_t(f != f ? nan : even);
  }
};

struct f16_format {
  static ISOPACE_INLINE float widen(uint16_t h) {
    uint32_t sign = uint32_t(h & 0x8000u) << 16, rest = h & 0x7fffu;
    // Scaling by 2^112 makes subnormals come out right.
    float f = bits<float>(rest << 13) * bits<float>(0x77800000u);
    uint32_t u = rest >= 0x7c00u ? (0x7f800000u | (rest & 0x3ffu) << 13) : bits<uint32_t>(f);
    return bits<float>(u | sign);
  }
  static ISOPACE_INLINE uint16_t round(float f) {
    uint32_t u = bits<uint32_t>(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x47800000u) return uint16_t(sign | 0x7c00u);
    if (a < 0x38800000u) {  // subnormal: let an addition round
      float s = bits<float>(a) + 0.5f;
      return uint16_t(sign | (bits<uint32_t>(s) - 0x3f000000u));
    }
    return uint16_t(sign | ((a + 0xc8000fffu + ((a >> 13) & 1u)) >> 13));
  }
};

template <class F> struct soft;
template <class T> struct is_soft : std::false_type {};
template <class F> struct is_soft<soft<F>> : std::true_type {};
#ifdef __FLT16_MAX__
template <class T> struct is_native_half : std::is_same<T, _Float16> {};
#else
template <class T> struct is_native_half : std::false_type {};
#endif
template <class T> inline constexpr bool plain_v = std::is_arithmetic<T>::value || is_native_half<T>::value;
template <class T> inline constexpr bool small_v = is_soft<T>::value || is_native_half<T>::value;
template <class T> inline constexpr bool real_v = small_v<T> || std::is_floating_point<T>::value;
template <class T> inline constexpr bool scalar_v = plain_v<T> || is_soft<T>::value;
template <bool B> using when = std::enable_if_t<B, int>;

// A 16-bit float kept as its bits: arithmetic is done in float and rounded after every operation.
template <class F> struct soft {
  uint16_t b;
  soft() = default;
  template <class T, when<plain_v<T>> = 0> ISOPACE_INLINE soft(T v) : b(F::round(float(v))) {}
  template <class G> explicit ISOPACE_INLINE soft(soft<G> v) : b(F::round(float(v))) {}
  // Exactly float and double, so that `c ? x : 0` has one meaning.
  template <class T, when<std::is_floating_point<T>::value> = 0> ISOPACE_INLINE operator T() const { return F::widen(b); }
  template <class T, when<plain_v<T> && !std::is_floating_point<T>::value> = 0> explicit ISOPACE_INLINE operator T() const {
    return T(F::widen(b));
  }
  ISOPACE_INLINE soft operator-() const { soft r; r.b = b ^ 0x8000u; return r; }
  ISOPACE_INLINE soft operator+() const { return *this; }
  ISOPACE_INLINE bool operator!() const { return F::widen(b) == 0; }
  ISOPACE_INLINE soft& operator++() { return *this = soft(F::widen(b) + 1.0f); }
  ISOPACE_INLINE soft& operator--() { return *this = soft(F::widen(b) - 1.0f); }
};

// What a soft float beside a T computes to.
template <class S, class T> using soft_with = std::conditional_t<std::is_floating_point<T>::value, T,
    std::conditional_t<small_v<T>, float, S>>;
#define ISOPACE_SOFT_OP(op)                                                                               \
  template <class F> ISOPACE_INLINE soft<F> operator op(soft<F> a, soft<F> b) {                           \
    return soft<F>(float(a) op float(b));                                                                 \
  }                                                                                                       \
  template <class F, class T, when<plain_v<T>> = 0> ISOPACE_INLINE soft_with<soft<F>, T> operator op(soft<F> a, T b) { \
    return soft_with<soft<F>, T>(float(a) op soft_with<float, T>(b));                                     \
  }                                                                                                       \
  template <class F, class T, when<plain_v<T>> = 0> ISOPACE_INLINE soft_with<soft<F>, T> operator op(T a, soft<F> b) { \
    return soft_with<soft<F>, T>(soft_with<float, T>(a) op float(b));                                     \
  }                                                                                                       \
  template <class F, class T, when<scalar_v<T>> = 0> ISOPACE_INLINE soft<F>& operator op##=(soft<F>& a, T b) { \
    return a = soft<F>(a op b);                                                                           \
  }
ISOPACE_SOFT_OP(+)
ISOPACE_SOFT_OP(-)
ISOPACE_SOFT_OP(*)
ISOPACE_SOFT_OP(/)
#undef ISOPACE_SOFT_OP
#define ISOPACE_SOFT_COMPARE(op)                                                                          \
  template <class F> ISOPACE_INLINE bool operator op(soft<F> a, soft<F> b) { return float(a) op float(b); } \
  template <class F, class T, when<plain_v<T>> = 0> ISOPACE_INLINE bool operator op(soft<F> a, T b) {     \
    return float(a) op soft_with<float, T>(b);                                                            \
  }                                                                                                       \
  template <class F, class T, when<plain_v<T>> = 0> ISOPACE_INLINE bool operator op(T a, soft<F> b) {     \
    return soft_with<float, T>(a) op float(b);                                                            \
  }
ISOPACE_SOFT_COMPARE(==)
ISOPACE_SOFT_COMPARE(!=)
ISOPACE_SOFT_COMPARE(<)
ISOPACE_SOFT_COMPARE(<=)
ISOPACE_SOFT_COMPARE(>)
ISOPACE_SOFT_COMPARE(>=)
#undef ISOPACE_SOFT_COMPARE
}  // namespace isopace

#ifdef __FLT16_MAX__
typedef _Float16 half;
#else
typedef isopace::soft<isopace::f16_format> half;
#endif
typedef isopace::soft<isopace::bf16_format> bfloat;
typedef half float16_t;
typedef bfloat bfloat16_t;
inline half operator""h(long double v) { return half(float(v)); }
inline half operator""h(unsigned long long v) { return half(float(v)); }
inline half operator""H(long double v) { return half(float(v)); }
inline bfloat operator""bf(long double v) { return bfloat(float(v)); }
inline bfloat operator""BF(long double v) { return bfloat(float(v)); }

namespace metal {
template <class T, int N> struct vec;
}

namespace isopace {
using metal::vec;

// Components I... of a vector with room for W, readable as a vector and assignable.
template <class T, int W, int... I> struct swizzle {
  T d[W];
  static constexpr int count = sizeof...(I);
  static ISOPACE_INLINE int at(int i) { constexpr int order[] = {I...}; return order[i]; }
  ISOPACE_INLINE operator vec<T, count>() const {
    vec<T, count> r;
    for (int i = 0; i < count; i++) r.d[i] = d[at(i)];
    return r;
  }
  ISOPACE_INLINE swizzle& operator=(const vec<T, count>& v) {
    for (int i = 0; i < count; i++) d[at(i)] = v.d[i];
    return *this;
  }
  ISOPACE_INLINE swizzle& operator=(const swizzle& s) { return *this = vec<T, count>(s); }
  ISOPACE_INLINE T operator[](int i) const { return d[at(i)]; }
};

template <class A> struct shape { static constexpr int n = 0; using element = A; };
template <class T, int N> struct shape<vec<T, N>> { static constexpr int n = N; using element = T; };
template <class T, int W, int... I> struct shape<swizzle<T, W, I...>> {
  static constexpr int n = sizeof...(I);
  using element = T;
};
template <class A> inline constexpr bool vector_v = shape<A>::n != 0;
template <class A> inline constexpr int width = vector_v<A> ? shape<A>::n : 1;
template <class A> using element_t = typename shape<A>::element;
template <class A> using vec_of = vec<element_t<A>, shape<A>::n>;
template <class A> ISOPACE_INLINE auto get(const A& a, int i) {
  if constexpr (vector_v<A>) return a[i]; else return a;
}
// The shape and element of an operation on two operands, at least one of them a vector.
template <class A, class B> inline constexpr int joint_n = vector_v<A> ? shape<A>::n : shape<B>::n;
template <class A, class B> using joint_t = std::conditional_t<vector_v<A>, element_t<A>, element_t<B>>;
template <class A, class B> inline constexpr bool joint_v =
    (vector_v<A> && (vector_v<B> || scalar_v<B>)) || (scalar_v<A> && vector_v<B>);
}  // namespace isopace

#define ISOPACE_P2(W, a, A, b, B) isopace::swizzle<T, W, A, B> a##b;
#define ISOPACE_P3(W, a, A, b, B, c, C) isopace::swizzle<T, W, A, B, C> a##b##c;
#define ISOPACE_PAIRS2(W, a, A, x, y) ISOPACE_P2(W, a, A, x, 0) ISOPACE_P2(W, a, A, y, 1)
#define ISOPACE_PAIRS3(W, a, A, x, y, z) ISOPACE_PAIRS2(W, a, A, x, y) ISOPACE_P2(W, a, A, z, 2)
#define ISOPACE_PAIRS4(W, a, A, x, y, z, w) ISOPACE_PAIRS3(W, a, A, x, y, z) ISOPACE_P2(W, a, A, w, 3)
#define ISOPACE_TRI3(W, a, A, b, B, x, y, z) \
  ISOPACE_P3(W, a, A, b, B, x, 0) ISOPACE_P3(W, a, A, b, B, y, 1) ISOPACE_P3(W, a, A, b, B, z, 2)
#define ISOPACE_TRI4(W, a, A, b, B, x, y, z, w) ISOPACE_TRI3(W, a, A, b, B, x, y, z) ISOPACE_P3(W, a, A, b, B, w, 3)
#define ISOPACE_SW2(x, y) ISOPACE_PAIRS2(2, x, 0, x, y) ISOPACE_PAIRS2(2, y, 1, x, y)
#define ISOPACE_TRIS3(a, A, x, y, z) \
  ISOPACE_TRI3(4, a, A, x, 0, x, y, z) ISOPACE_TRI3(4, a, A, y, 1, x, y, z) ISOPACE_TRI3(4, a, A, z, 2, x, y, z)
#define ISOPACE_SW3(x, y, z)                                                                     \
  ISOPACE_PAIRS3(4, x, 0, x, y, z) ISOPACE_PAIRS3(4, y, 1, x, y, z) ISOPACE_PAIRS3(4, z, 2, x, y, z) \
  ISOPACE_TRIS3(x, 0, x, y, z) ISOPACE_TRIS3(y, 1, x, y, z) ISOPACE_TRIS3(z, 2, x, y, z)
#define ISOPACE_TRIS4(a, A, x, y, z, w)                                              \
  ISOPACE_TRI4(4, a, A, x, 0, x, y, z, w) ISOPACE_TRI4(4, a, A, y, 1, x, y, z, w)      \
  ISOPACE_TRI4(4, a, A, z, 2, x, y, z, w) ISOPACE_TRI4(4, a, A, w, 3, x, y, z, w)
#define ISOPACE_P4(a, A, b, B, c, C, e, E) isopace::swizzle<T, 4, A, B, C, E> a##b##c##e;
#define ISOPACE_SW4(x, y, z, w)                                                               \
  ISOPACE_PAIRS4(4, x, 0, x, y, z, w) ISOPACE_PAIRS4(4, y, 1, x, y, z, w)                       \
  ISOPACE_PAIRS4(4, z, 2, x, y, z, w) ISOPACE_PAIRS4(4, w, 3, x, y, z, w)                       \
  ISOPACE_TRIS4(x, 0, x, y, z, w) ISOPACE_TRIS4(y, 1, x, y, z, w)                               \
  ISOPACE_TRIS4(z, 2, x, y, z, w) ISOPACE_TRIS4(w, 3, x, y, z, w)                               \
  ISOPACE_P4(x, 0, y, 1, z, 2, w, 3) ISOPACE_P4(w, 3, z, 2, y, 1, x, 0)                         \
  ISOPACE_P4(x, 0, x, 0, x, 0, x, 0) ISOPACE_P4(y, 1, y, 1, y, 1, y, 1)                         \
  ISOPACE_P4(z, 2, z, 2, z, 2, z, 2) ISOPACE_P4(w, 3, w, 3, w, 3, w, 3)                         \
  ISOPACE_P4(x, 0, y, 1, x, 0, y, 1) ISOPACE_P4(z, 2, w, 3, z, 2, w, 3)                         \
  ISOPACE_P4(y, 1, x, 0, w, 3, z, 2) ISOPACE_P4(z, 2, w, 3, x, 0, y, 1)                         \
  ISOPACE_P4(y, 1, z, 2, w, 3, x, 0) ISOPACE_P4(w, 3, x, 0, y, 1, z, 2)                         \
  ISOPACE_P4(x, 0, z, 2, y, 1, w, 3) ISOPACE_P4(z, 2, y, 1, x, 0, w, 3)

#define ISOPACE_VEC(N)                                                                        \
  vec() = default;                                                                            \
  ISOPACE_INLINE vec(const vec& o) { for (int i = 0; i < N; i++) d[i] = o.d[i]; }             \
  ISOPACE_INLINE vec& operator=(const vec& o) { for (int i = 0; i < N; i++) d[i] = o.d[i]; return *this; } \
  template <class S, isopace::when<isopace::scalar_v<S>> = 0> ISOPACE_INLINE vec(S s) {       \
    for (int i = 0; i < N; i++) d[i] = T(s);                                                  \
  }                                                                                           \
  template <class V, isopace::when<isopace::shape<V>::n == N && !std::is_same<V, vec>::value> = 0> \
  explicit ISOPACE_INLINE vec(const V& v) { for (int i = 0; i < N; i++) d[i] = T(v[i]); }     \
  template <class A, class B, class... R> ISOPACE_INLINE vec(const A& a, const B& b, const R&... r) { \
    int k = 0;                                                                                \
    put(k, a); put(k, b); (put(k, r), ...);                                                   \
    static_assert(((isopace::width<A> + isopace::width<B>) + ... + isopace::width<R>) == N, "wrong number of components"); \
  }                                                                                           \
  ISOPACE_INLINE T& operator[](int i) { return d[i]; }                                        \
  ISOPACE_INLINE T operator[](int i) const { return d[i]; }                                   \
 private:                                                                                     \
  template <class A> ISOPACE_INLINE void put(int& k, const A& a) {                            \
    if constexpr (isopace::vector_v<A>) { for (int i = 0; i < isopace::shape<A>::n; i++) d[k++] = T(a[i]); } \
    else d[k++] = T(a);                                                                       \
  }

namespace metal {
template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
  union {
    T d[2];
    struct { T x, y; };
    struct { T r, g; };
    ISOPACE_SW2(x, y)
    isopace::swizzle<T, 2, 0, 1> rg;
  };
  ISOPACE_VEC(2)
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 3> {
  union {
    T d[4];
    struct { T x, y, z; };
    struct { T r, g, b; };
    ISOPACE_SW3(x, y, z)
    isopace::swizzle<T, 4, 0, 1> rg;
    isopace::swizzle<T, 4, 0, 1, 2> rgb;
  };
  ISOPACE_VEC(3)
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
  union {
    T d[4];
    struct { T x, y, z, w; };
    struct { T r, g, b, a; };
    ISOPACE_SW4(x, y, z, w)
    isopace::swizzle<T, 4, 0, 1> rg;
    isopace::swizzle<T, 4, 0, 1, 2> rgb;
    isopace::swizzle<T, 4, 0, 1, 2, 3> rgba;
  };
  ISOPACE_VEC(4)
};

// Vectors without padding, for memory only: read into and written from the others.
template <class T, int N> struct packed_vec {
  T d[N];
  packed_vec() = default;
  ISOPACE_INLINE packed_vec(const vec<T, N>& v) { for (int i = 0; i < N; i++) d[i] = v.d[i]; }
  ISOPACE_INLINE operator vec<T, N>() const { vec<T, N> v; for (int i = 0; i < N; i++) v.d[i] = d[i]; return v; }
  ISOPACE_INLINE T& operator[](int i) { return d[i]; }
  ISOPACE_INLINE T operator[](int i) const { return d[i]; }
};
}  // namespace metal

namespace isopace {
template <class T, int N> struct shape<metal::packed_vec<T, N>> { static constexpr int n = N; using element = T; };
}

#define ISOPACE_VEC_OP(op)                                                                    \
  template <class A, class B, isopace::when<isopace::joint_v<A, B>> = 0>                      \
  ISOPACE_INLINE vec<isopace::joint_t<A, B>, isopace::joint_n<A, B>> operator op(const A& a, const B& b) { \
    using T = isopace::joint_t<A, B>;                                                         \
    vec<T, isopace::joint_n<A, B>> r;                                                         \
    for (int i = 0; i < isopace::joint_n<A, B>; i++) r.d[i] = T(T(isopace::get(a, i)) op T(isopace::get(b, i))); \
    return r;                                                                                 \
  }                                                                                           \
  template <class A, class B, isopace::when<isopace::vector_v<A> && isopace::joint_v<A, B>> = 0> \
  ISOPACE_INLINE A& operator op##=(A& a, const B& b) {                                        \
    return a = isopace::vec_of<A>(a op b);                                                    \
  }
#define ISOPACE_VEC_COMPARE(op)                                                               \
  template <class A, class B, isopace::when<isopace::joint_v<A, B>> = 0>                      \
  ISOPACE_INLINE vec<bool, isopace::joint_n<A, B>> operator op(const A& a, const B& b) {      \
    using T = isopace::joint_t<A, B>;                                                         \
    vec<bool, isopace::joint_n<A, B>> r;                                                      \
    for (int i = 0; i < isopace::joint_n<A, B>; i++) r.d[i] = T(isopace::get(a, i)) op T(isopace::get(b, i)); \
    return r;                                                                                 \
  }
#define ISOPACE_VEC_UNARY(op, R)                                                              \
  template <class A, isopace::when<isopace::vector_v<A>> = 0>                                 \
  ISOPACE_INLINE vec<R, isopace::shape<A>::n> operator op(const A& a) {                       \
    using T = isopace::element_t<A>;                                                          \
    vec<R, isopace::shape<A>::n> r;                                                           \
    for (int i = 0; i < isopace::shape<A>::n; i++) r.d[i] = R(op a[i]);                       \
    return r;                                                                                 \
  }
#define ISOPACE_VEC_OPS                                                                        \
  ISOPACE_VEC_OP(+) ISOPACE_VEC_OP(-) ISOPACE_VEC_OP(*) ISOPACE_VEC_OP(/) ISOPACE_VEC_OP(%)    \
  ISOPACE_VEC_OP(&) ISOPACE_VEC_OP(|) ISOPACE_VEC_OP(^) ISOPACE_VEC_OP(<<) ISOPACE_VEC_OP(>>)  \
  ISOPACE_VEC_COMPARE(==) ISOPACE_VEC_COMPARE(!=) ISOPACE_VEC_COMPARE(<) ISOPACE_VEC_COMPARE(<=) \
  ISOPACE_VEC_COMPARE(>) ISOPACE_VEC_COMPARE(>=) ISOPACE_VEC_COMPARE(&&) ISOPACE_VEC_COMPARE(||) \
  ISOPACE_VEC_UNARY(-, isopace::element_t<A>) ISOPACE_VEC_UNARY(+, isopace::element_t<A>) ISOPACE_VEC_UNARY(~, isopace::element_t<A>) ISOPACE_VEC_UNARY(!, bool)
// In both namespaces, so that argument-dependent lookup finds them for vectors and for swizzles.
namespace metal { ISOPACE_VEC_OPS }
namespace isopace {
using metal::operator+; using metal::operator-; using metal::operator*; using metal::operator/; using metal::operator%;
using metal::operator&; using metal::operator|; using metal::operator^; using metal::operator<<; using metal::operator>>;
using metal::operator+=; using metal::operator-=; using metal::operator*=; using metal::operator/=; using metal::operator%=;
using metal::operator&=; using metal::operator|=; using metal::operator^=; using metal::operator<<=; using metal::operator>>=;
using metal::operator==; using metal::operator!=; using metal::operator<; using metal::operator<=; using metal::operator>;
using metal::operator>=; using metal::operator&&; using metal::operator||; using metal::operator~; using metal::operator!;
}  // namespace isopace

#define ISOPACE_VEC_NAMES(T, name)                                                                  \
  typedef vec<T, 2> name##2; typedef vec<T, 3> name##3; typedef vec<T, 4> name##4;                   \
  typedef packed_vec<T, 2> packed_##name##2; typedef packed_vec<T, 3> packed_##name##3; typedef packed_vec<T, 4> packed_##name##4;
namespace metal {
ISOPACE_VEC_NAMES(bool, bool)
ISOPACE_VEC_NAMES(int8_t, char)
ISOPACE_VEC_NAMES(uchar, uchar)
ISOPACE_VEC_NAMES(short, short)
ISOPACE_VEC_NAMES(ushort, ushort)
ISOPACE_VEC_NAMES(int, int)
ISOPACE_VEC_NAMES(uint, uint)
ISOPACE_VEC_NAMES(long, long)
ISOPACE_VEC_NAMES(ulong, ulong)
ISOPACE_VEC_NAMES(half, half)
ISOPACE_VEC_NAMES(bfloat, bfloat)
ISOPACE_VEC_NAMES(float, float)
template <class T> ISOPACE_INLINE T as_type_of(T v) { return v; }
}  // namespace metal

template <class To, class From> ISOPACE_INLINE To as_type(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
namespace metal { using ::as_type; }

// MLX's complex number.
struct complex64_t {
  float real, imag;
  complex64_t() = default;
  ISOPACE_INLINE constexpr complex64_t(float r, float i) : real(r), imag(i) {}
  template <class T, isopace::when<isopace::scalar_v<T>> = 0> ISOPACE_INLINE complex64_t(T r) : real(float(r)), imag(0) {}
  template <class T, isopace::when<isopace::scalar_v<T>> = 0> explicit ISOPACE_INLINE operator T() const { return T(real); }
  ISOPACE_INLINE complex64_t operator-() const { return {-real, -imag}; }
};
ISOPACE_INLINE complex64_t operator+(complex64_t a, complex64_t b) { return {a.real + b.real, a.imag + b.imag}; }
ISOPACE_INLINE complex64_t operator-(complex64_t a, complex64_t b) { return {a.real - b.real, a.imag - b.imag}; }
ISOPACE_INLINE complex64_t operator*(complex64_t a, complex64_t b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
ISOPACE_INLINE complex64_t operator/(complex64_t a, complex64_t b) {
  float n = b.real * b.real + b.imag * b.imag;
  return {(a.real * b.real + a.imag * b.imag) / n, (a.imag * b.real - a.real * b.imag) / n};
}
ISOPACE_INLINE complex64_t& operator+=(complex64_t& a, complex64_t b) { return a = a + b; }
ISOPACE_INLINE complex64_t& operator-=(complex64_t& a, complex64_t b) { return a = a - b; }
ISOPACE_INLINE complex64_t& operator*=(complex64_t& a, complex64_t b) { return a = a * b; }
ISOPACE_INLINE complex64_t& operator/=(complex64_t& a, complex64_t b) { return a = a / b; }
ISOPACE_INLINE bool operator==(complex64_t a, complex64_t b) { return a.real == b.real && a.imag == b.imag; }
ISOPACE_INLINE bool operator!=(complex64_t a, complex64_t b) { return !(a == b); }
