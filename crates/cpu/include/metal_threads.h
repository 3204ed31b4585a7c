// How the threads of a grid run on a CPU: as plain loops where they need nothing of each other,
// as fibers where they do; simdgroup and quadgroup functions, barriers, atomics, the entry point.

namespace isopace {
constexpr int kDone = 0, kInterrupted = 1;
constexpr uint32_t kLanes = 32;
constexpr uint64_t kStackStride = 65536, kStackGuard = 8192, kStackColor = 576;

// Shared with Rust (custom/run.rs): keep the two equal.
struct frame {
  volatile int armed;
  void (*leave)(frame*);
  uint64_t jump[64];
  const int* stop;
};
struct grid_info {
  uint32_t grid[3], group[3], groups[3];
  uint32_t stacks;              // how many
  const volatile int* stop;     // not 0: stop as soon as possible
  frame* place;                 // where an interrupt leaves to
  unsigned char* memory;        // stacks, aligned to kStackStride, each guarded at its low end
  unsigned char* state;         // kStateBytes
};

// Where a thread is, and what Metal lets it know of that.
struct where {
  const grid_info* g;
  uint px, py, pz;  // in the threadgroup
  uint gx, gy, gz;  // of the threadgroup
  uint sx, sy, sz;  // threads of this threadgroup, fewer at the grid's end
  ISOPACE_INLINE uint index() const { return px + sx * (py + sy * pz); }
  ISOPACE_INLINE uint count() const { return sx * sy * sz; }
  ISOPACE_INLINE uint full() const { return g->group[0] * g->group[1] * g->group[2]; }
  ISOPACE_INLINE uint3 thread_position_in_grid() const {
    return uint3(gx * g->group[0] + px, gy * g->group[1] + py, gz * g->group[2] + pz);
  }
  ISOPACE_INLINE uint3 thread_position_in_threadgroup() const { return uint3(px, py, pz); }
  ISOPACE_INLINE uint3 threadgroup_position_in_grid() const { return uint3(gx, gy, gz); }
  ISOPACE_INLINE uint3 threads_per_threadgroup() const { return uint3(sx, sy, sz); }
  ISOPACE_INLINE uint3 dispatch_threads_per_threadgroup() const { return uint3(g->group[0], g->group[1], g->group[2]); }
  ISOPACE_INLINE uint3 threads_per_grid() const { return uint3(g->grid[0], g->grid[1], g->grid[2]); }
  ISOPACE_INLINE uint3 grid_size() const { return threads_per_grid(); }
  ISOPACE_INLINE uint3 grid_origin() const { return uint3(0u, 0u, 0u); }
  ISOPACE_INLINE uint3 threadgroups_per_grid() const { return uint3(g->groups[0], g->groups[1], g->groups[2]); }
  ISOPACE_INLINE uint thread_index_in_threadgroup() const { return index(); }
  ISOPACE_INLINE uint thread_index_in_simdgroup() const { return index() % kLanes; }
  ISOPACE_INLINE uint simdgroup_index_in_threadgroup() const { return index() / kLanes; }
  ISOPACE_INLINE uint simdgroups_per_threadgroup() const { return (count() + kLanes - 1) / kLanes; }
  ISOPACE_INLINE uint dispatch_simdgroups_per_threadgroup() const { return (full() + kLanes - 1) / kLanes; }
  ISOPACE_INLINE uint threads_per_simdgroup() const { return kLanes; }
  ISOPACE_INLINE uint thread_execution_width() const { return kLanes; }
  ISOPACE_INLINE uint thread_index_in_quadgroup() const { return index() % 4; }
  ISOPACE_INLINE uint quadgroup_index_in_threadgroup() const { return index() / 4; }
  ISOPACE_INLINE uint quadgroups_per_threadgroup() const { return (count() + 3) / 4; }
  ISOPACE_INLINE uint dispatch_quadgroups_per_threadgroup() const { return (full() + 3) / 4; }
};
// The same where neighbouring threadgroups run as one row: the grid's x is counted directly, which
// tells the compiler that it does not wrap.
struct flat_where : where {
  uint x;
  ISOPACE_INLINE uint3 thread_position_in_grid() const {
    return uint3(x, gy * g->group[1] + py, gz * g->group[2] + pz);
  }
};

[[noreturn]] inline void leave(frame* f) { _longjmp(*(jmp_buf*)f->jump, 1); }

ISOPACE_INLINE uint extent(const grid_info& g, int axis, uint group) {
  uint64_t from = uint64_t(group) * g.group[axis], left = g.grid[axis] - from;
  return left < g.group[axis] ? uint(left) : g.group[axis];
}

#ifdef __clang__
#define ISOPACE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define ISOPACE_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Threads that never wait for each other: loops, the innermost one free of dependences because
// threads of a grid are.
template <class Call, bool FLAT> __attribute__((noinline)) int run_loops(const Call& held, const grid_info& g, uint64_t first, uint64_t last) {
  const Call call = held;
  for (uint64_t i = first; i < last;) {
    if (*g.stop) return kInterrupted;
    flat_where t;
    t.g = &g;
    t.gx = uint(i % g.groups[0]), t.gy = uint(i / g.groups[0] % g.groups[1]), t.gz = uint(i / g.groups[0] / g.groups[1]);
    uint64_t run = 1;
    if (FLAT && g.group[1] == 1 && g.group[2] == 1) {
      uint64_t row = g.groups[0] - t.gx, room = 65536 / g.group[0] + 1;
      run = last - i < row ? last - i : row;
      run = run < room ? run : room;
    }
    uint64_t from = uint64_t(t.gx) * g.group[0], to = from + run * g.group[0];
    uint x0 = uint(from), x1 = to < g.grid[0] ? uint(to) : g.grid[0];
    t.sx = x1 - x0, t.sy = extent(g, 1, t.gy), t.sz = extent(g, 2, t.gz);
    for (t.pz = 0; t.pz < t.sz; t.pz++)
      for (t.py = 0; t.py < t.sy; t.py++) {
        ISOPACE_INDEPENDENT
        for (uint x = x0; x < x1; x++) {
          flat_where u = t;
          u.x = x;
          u.px = x - x0;
          call(u);
        }
      }
    i += run;
  }
  return kDone;
}

// ---- Fibers -------------------------------------------------------------------------------------

struct simdgroup;
typedef void (*collective)(simdgroup*, uint32_t active);

struct context {
#if defined(__x86_64__) && !defined(ISOPACE_UCONTEXT)
  void* sp;
#else
  ucontext_t* saved;
#endif
};

struct alignas(64) simdgroup {
  uint32_t ready, at_operation, at_barrier, mixed;
  uint32_t line;
  collective fn;
  uint32_t lines[kLanes];
  collective fns[kLanes];
  uint32_t aux[kLanes];
  alignas(32) unsigned char in[kLanes][32], out[kLanes][32];
};

// The threads of one threadgroup on one OS thread.
struct team {
  const void* call;
  void (*body)(const team&, uint32_t index);
  where group;             // without the thread's own place
  uint32_t size, current;  // threads, and the simdgroup that runs
  context back;
  context fibers[1024];
  simdgroup simd[32];
#if !defined(__x86_64__) || defined(ISOPACE_UCONTEXT)
  ucontext_t storage[1025];
#endif
};
constexpr uint64_t kStateBytes = (sizeof(team) + 63) & ~uint64_t(63);

// At the top of each stack, found from any address within it. Stacks start at different cache
// sets: 32 lanes run in turn, and their frames would push each other out.
struct fiber {
  team* owner;
  uint32_t index;
};
ISOPACE_INLINE uintptr_t stack_top(uintptr_t any) {
  uintptr_t base = any & ~uintptr_t(kStackStride - 1);
  return base + kStackStride - (base / kStackStride % kLanes) * kStackColor - 64;
}
ISOPACE_INLINE fiber* self() { return (fiber*)stack_top((uintptr_t)__builtin_frame_address(0)); }

#if defined(__x86_64__) && !defined(ISOPACE_UCONTEXT)
extern "C" void isopace_switch(void** from, void* to) __attribute__((visibility("hidden")));
asm(R"(
.text
.p2align 4
.hidden isopace_switch
.globl isopace_switch
.type isopace_switch,@function
isopace_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size isopace_switch, .-isopace_switch
)");
ISOPACE_INLINE void change(context& from, context& to) { isopace_switch(&from.sp, to.sp); }
#else
ISOPACE_INLINE void change(context& from, context& to) { swapcontext(from.saved, to.saved); }
#endif

inline void go(team* t, uint32_t from, uint32_t to) { if (from != to) change(t->fibers[from], t->fibers[to]); }

// All lanes that can run have arrived: those at the first line (in the text's order) that have not
// gone on are the active lanes of that operation.
inline void resolve(simdgroup* g) {
  uint32_t active = g->at_operation;
  if (g->mixed) {
    uint32_t best = ~0u;
    for (uint32_t m = active; m; m &= m - 1) {
      uint32_t l = __builtin_ctz(m);
      if (best == ~0u || g->lines[l] < g->lines[best]) best = l;
    }
    for (uint32_t m = active; m; m &= m - 1) {
      uint32_t l = __builtin_ctz(m);
      if (g->lines[l] != g->lines[best] || g->fns[l] != g->fns[best]) active &= ~(1u << l);
    }
    g->fn = g->fns[best];
  }
  g->fn(g, active);
  g->at_operation &= ~active;
  g->ready |= active;
  if (g->at_operation) {
    uint32_t l = __builtin_ctz(g->at_operation);
    g->fn = g->fns[l], g->line = g->lines[l], g->mixed = 1;
  }
}

// Runs another thread, or returns when this one may go on; `index` is this one's.
inline void next(team* t, uint32_t index) {
  for (;;) {
    simdgroup* g = &t->simd[t->current];
    if (!g->ready && g->at_operation) resolve(g);
    if (g->ready) return go(t, index, t->current * kLanes + __builtin_ctz(g->ready));
    uint32_t n = (t->size + kLanes - 1) / kLanes;
    // This simdgroup waits at a barrier or is done: the next one that can run, else all are there.
    bool found = false;
    for (uint32_t i = 0; i < n && !found; i++)
      if (t->simd[i].ready | t->simd[i].at_operation) t->current = i, found = true;
    if (found) continue;
    for (uint32_t i = 0; i < n; i++)
      if (t->simd[i].at_barrier) {
        t->simd[i].ready = t->simd[i].at_barrier, t->simd[i].at_barrier = 0;
        if (!found) t->current = i, found = true;
      }
    if (!found) return change(t->fibers[index], t->back);
  }
}

__attribute__((noinline)) inline void arrive(fiber* f, collective fn, uint32_t line) {
  team* t = f->owner;
  uint32_t index = f->index, lane = index % kLanes, bit = 1u << lane;
  simdgroup* g = &t->simd[index / kLanes];
  if (!g->at_operation) g->fn = fn, g->line = line, g->mixed = 0;
  else g->mixed |= (fn != g->fn) | (line != g->line);
  g->fns[lane] = fn, g->lines[lane] = line;
  g->ready &= ~bit, g->at_operation |= bit;
  next(t, index);
}

__attribute__((noinline)) inline void wait_for_group(fiber* f) {
  team* t = f->owner;
  uint32_t index = f->index, bit = 1u << index % kLanes;
  simdgroup* g = &t->simd[index / kLanes];
  g->ready &= ~bit, g->at_barrier |= bit;
  next(t, index);
}

[[noreturn]] inline void fiber_main() {
  fiber* f = self();
  for (;;) {
    team* t = f->owner;
    uint32_t index = f->index;
    t->body(*t, index);
    t->simd[index / kLanes].ready &= ~(1u << index % kLanes);
    next(t, index);
  }
}

inline void prepare(team* t, const grid_info& g, uint32_t i) {
  uintptr_t top = stack_top((uintptr_t)g.memory + i * kStackStride);
  fiber* f = (fiber*)top;
  f->owner = t, f->index = i;
#if defined(__x86_64__) && !defined(ISOPACE_UCONTEXT)
  void** sp = (void**)top;
  *--sp = nullptr;  // the return address of fiber_main, which keeps the stack aligned as after a call
  *--sp = (void*)fiber_main;
  for (int r = 0; r < 6; r++) *--sp = nullptr;
  t->fibers[i].sp = sp;
#else
  ucontext_t* c = t->fibers[i].saved = &t->storage[i];
  getcontext(c);
  c->uc_stack.ss_sp = g.memory + i * kStackStride + kStackGuard;
  c->uc_stack.ss_size = top - (uintptr_t)c->uc_stack.ss_sp;
  c->uc_link = nullptr;
  makecontext(c, (void (*)())fiber_main, 0);
#endif
}

template <class Call> void fiber_body(const team& t, uint32_t index) {
  where w = t.group;
  w.px = index % w.sx, w.py = index / w.sx % w.sy, w.pz = index / w.sx / w.sy;
  (*(const Call*)t.call)(w);
}

template <class Call> __attribute__((noinline)) int run_fibers(const Call& call, const grid_info& g, uint64_t first, uint64_t last) {
  team* t = (team*)g.state;
  t->call = &call, t->body = fiber_body<Call>;
#if !defined(__x86_64__) || defined(ISOPACE_UCONTEXT)
  t->back.saved = &t->storage[1024];
#endif
  for (uint32_t i = 0; i < g.stacks; i++) prepare(t, g, i);
  for (uint64_t i = first; i < last; i++) {
    if (*g.stop) return kInterrupted;
    where& w = t->group;
    w.g = &g;
    w.gx = uint(i % g.groups[0]), w.gy = uint(i / g.groups[0] % g.groups[1]), w.gz = uint(i / g.groups[0] / g.groups[1]);
    w.sx = extent(g, 0, w.gx), w.sy = extent(g, 1, w.gy), w.sz = extent(g, 2, w.gz);
    t->size = w.count(), t->current = 0;
    for (uint32_t s = 0; s * kLanes < t->size; s++) {
      uint32_t left = t->size - s * kLanes;
      t->simd[s].ready = left >= kLanes ? ~0u : (1u << left) - 1;
      t->simd[s].at_operation = t->simd[s].at_barrier = 0;
    }
    change(t->back, t->fibers[0]);
  }
  return kDone;
}

// Touched before a frame is armed: a thread's first use of a module's thread-local memory allocates,
// and an interrupt must not leave from within the allocator.
static thread_local volatile char touched;

// The one way in. The frame is armed only while control is in here, so an interrupt can never
// leave across another frame.
template <class F> __attribute__((noinline)) int enter(const grid_info& g, F run) {
  static_assert(sizeof(jmp_buf) <= sizeof(frame::jump), "jump buffer too small");
  frame* f = g.place;
  if (_setjmp(*(jmp_buf*)f->jump)) return kInterrupted;
  f->leave = leave;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  f->armed = 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  int code = run();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  f->armed = 0;
  return code;
}

// ---- Operations of a simdgroup --------------------------------------------------------------------

template <class T> ISOPACE_INLINE T load(const unsigned char* p) { T v; __builtin_memcpy(&v, p, sizeof(T)); return v; }
template <class T> ISOPACE_INLINE void store(unsigned char* p, const T& v) { __builtin_memcpy(p, &v, sizeof(T)); }

template <class T, class R = T> ISOPACE_INLINE R collect(const T& v, uint32_t aux, collective fn, uint32_t line) {
  static_assert(sizeof(T) <= 32 && sizeof(R) <= 32, "too large for a simdgroup operation");
  fiber* f = self();
  simdgroup* g = &f->owner->simd[f->index / kLanes];
  uint32_t lane = f->index % kLanes;
  store(g->in[lane], v);
  g->aux[lane] = aux;
  arrive(f, fn, line);
  return load<R>(g->out[lane]);
}

struct add { template <class T> static ISOPACE_INLINE T of(T a, T b) { return T(a + b); } };
struct mul { template <class T> static ISOPACE_INLINE T of(T a, T b) { return T(a * b); } };
struct least { template <class T> static ISOPACE_INLINE T of(T a, T b) { return metal::min(a, b); } };
struct most { template <class T> static ISOPACE_INLINE T of(T a, T b) { return metal::max(a, b); } };
struct both { template <class T> static ISOPACE_INLINE T of(T a, T b) { return T(a & b); } };
struct either { template <class T> static ISOPACE_INLINE T of(T a, T b) { return T(a | b); } };
struct differ { template <class T> static ISOPACE_INLINE T of(T a, T b) { return T(a ^ b); } };

// WIDTH is 32 for a simdgroup, 4 for a quadgroup. Neighbours combine first, then pairs, and so on:
// the tree that shuffles by xor 1, 2, 4, 8, 16 make, so that both give the same bits.
template <class Op, class T, int WIDTH> void reduce(simdgroup* g, uint32_t active) {
  for (uint32_t base = 0; base < kLanes; base += WIDTH) {
    uint32_t here = WIDTH == 32 ? active : active >> base & ((1u << (WIDTH % 32)) - 1);
    if (!here) continue;
    T v[WIDTH];
    bool there[WIDTH];
    for (int i = 0; i < WIDTH; i++) there[i] = here >> i & 1, v[i] = there[i] ? load<T>(g->in[base + i]) : T();
    for (int s = 1; s < WIDTH; s *= 2)
      for (int i = 0; i < WIDTH; i += 2 * s) {
        if (there[i] && there[i + s]) v[i] = Op::template of<T>(v[i], v[i + s]);
        else if (there[i + s]) v[i] = v[i + s];
        there[i] |= there[i + s];
      }
    for (int i = 0; i < WIDTH; i++) store(g->out[base + i], v[0]);
  }
}
template <class Op, class T, int WIDTH, bool INCLUSIVE> void prefix(simdgroup* g, uint32_t active) {
  T v = T(std::is_same<Op, mul>::value ? 1 : 0);
  for (uint32_t i = 0; i < kLanes; i++) {
    if (i % WIDTH == 0) v = T(std::is_same<Op, mul>::value ? 1 : 0);
    if (!(active >> i & 1)) continue;
    T before = v;
    v = Op::template of<T>(v, load<T>(g->in[i]));
    store(g->out[i], INCLUSIVE ? v : before);
  }
}
// HOW a lane's source follows from its own number and the operation's argument.
enum how { kTo, kUp, kDown, kXor, kRotateUp, kRotateDown, kFirst };
template <class T, int WIDTH, how HOW> void shuffle(simdgroup* g, uint32_t active) {
  for (uint32_t i = 0; i < kLanes; i++) {
    if (!(active >> i & 1)) continue;
    uint32_t base = i & ~uint32_t(WIDTH - 1), l = i - base, d = g->aux[i], s = l;
    switch (HOW) {
      case kTo: s = d; break;
      case kUp: s = d <= l ? l - d : l; break;
      case kDown: s = l + d; break;
      case kXor: s = l ^ d; break;
      case kRotateUp: s = (l - d) & (WIDTH - 1); break;
      case kRotateDown: s = (l + d) & (WIDTH - 1); break;
      case kFirst: s = uint32_t(__builtin_ctz(active >> base)); break;
    }
    // Outside or inactive (undefined in Metal): the lane keeps its own value.
    bool there = s < uint32_t(WIDTH) && (active >> (base + s) & 1);
    store(g->out[i], load<T>(g->in[there ? base + s : i]));
  }
}
// The value and what fills the gap; aux is delta and, above, the modulus.
template <class T, int WIDTH, bool UP> void shuffle_fill(simdgroup* g, uint32_t active) {
  for (uint32_t i = 0; i < kLanes; i++) {
    if (!(active >> i & 1)) continue;
    uint32_t d = g->aux[i] & 0xffff, m = g->aux[i] >> 16, l = i & (WIDTH - 1), base = i - l, block = l / m * m, k = l - block;
    uint32_t s = UP ? (k >= d ? k - d : k + m - d) : (k + d < m ? k + d : k + d - m);
    bool fill = UP ? k < d : k + d >= m;
    uint32_t from = base + block + s;
    bool there = from < kLanes && (active >> from & 1);
    store(g->out[i], load<T>(g->in[there ? from : i] + (fill ? sizeof(T) : 0)));
  }
}
template <int WIDTH> void votes(simdgroup* g, uint32_t active) {
  uint32_t m = 0;
  for (uint32_t i = 0; i < kLanes; i++) m |= uint32_t((active >> i & 1) && load<bool>(g->in[i])) << i;
  for (uint32_t i = 0; i < kLanes; i++) {
    uint32_t base = i & ~uint32_t(WIDTH - 1), mask = WIDTH == 32 ? ~0u : (1u << (WIDTH % 32)) - 1;
    uint32_t r[2] = {m >> base & mask, active >> base & mask};
    store(g->out[i], r);
  }
}
inline void nothing(simdgroup*, uint32_t) {}
struct vote_pair { uint32_t set, active; };
template <class T> struct filled { T value, fill; };
}  // namespace isopace

namespace metal {
struct simd_vote {
  typedef uint64_t vote_t;
  vote_t v;
  uint32_t active;
  explicit ISOPACE_INLINE simd_vote(vote_t m = 0, uint32_t a = ~0u) : v(m), active(a) {}
  ISOPACE_INLINE operator vote_t() const { return v; }
  ISOPACE_INLINE bool all() const { return v == active; }
  ISOPACE_INLINE bool any() const { return v != 0; }
};
typedef simd_vote quad_vote;

#define ISOPACE_LINE uint32_t line = __builtin_LINE()
#define ISOPACE_REDUCE(name, Op)                                                                  \
  template <class T> ISOPACE_INLINE T simd_##name(T v, ISOPACE_LINE) { return isopace::collect<T>(v, 0, isopace::reduce<isopace::Op, T, 32>, line); } \
  template <class T> ISOPACE_INLINE T quad_##name(T v, ISOPACE_LINE) { return isopace::collect<T>(v, 0, isopace::reduce<isopace::Op, T, 4>, line); }
ISOPACE_REDUCE(sum, add) ISOPACE_REDUCE(product, mul) ISOPACE_REDUCE(min, least) ISOPACE_REDUCE(max, most)
ISOPACE_REDUCE(and, both) ISOPACE_REDUCE(or, either) ISOPACE_REDUCE(xor, differ)
#define ISOPACE_PREFIX(name, Op, inclusive)                                                       \
  template <class T> ISOPACE_INLINE T simd_prefix_##name(T v, ISOPACE_LINE) { return isopace::collect<T>(v, 0, isopace::prefix<isopace::Op, T, 32, inclusive>, line); } \
  template <class T> ISOPACE_INLINE T quad_prefix_##name(T v, ISOPACE_LINE) { return isopace::collect<T>(v, 0, isopace::prefix<isopace::Op, T, 4, inclusive>, line); }
ISOPACE_PREFIX(inclusive_sum, add, true) ISOPACE_PREFIX(exclusive_sum, add, false)
ISOPACE_PREFIX(inclusive_product, mul, true) ISOPACE_PREFIX(exclusive_product, mul, false)
#define ISOPACE_SHUFFLE(name, how)                                                                \
  template <class T> ISOPACE_INLINE T simd_##name(T v, uint lane, ISOPACE_LINE) { return isopace::collect<T>(v, lane, isopace::shuffle<T, 32, isopace::how>, line); } \
  template <class T> ISOPACE_INLINE T quad_##name(T v, uint lane, ISOPACE_LINE) { return isopace::collect<T>(v, lane, isopace::shuffle<T, 4, isopace::how>, line); }
ISOPACE_SHUFFLE(shuffle, kTo) ISOPACE_SHUFFLE(broadcast, kTo) ISOPACE_SHUFFLE(shuffle_up, kUp) ISOPACE_SHUFFLE(shuffle_down, kDown)
ISOPACE_SHUFFLE(shuffle_xor, kXor) ISOPACE_SHUFFLE(shuffle_rotate_up, kRotateUp) ISOPACE_SHUFFLE(shuffle_rotate_down, kRotateDown)
#define ISOPACE_FILL(scope, WIDTH, name, up)                                                      \
  template <class T> ISOPACE_INLINE T scope##_shuffle_and_fill_##name(T v, T fill, ushort delta, ushort modulo = WIDTH, ISOPACE_LINE) { \
    isopace::filled<T> f = {v, fill};                                                             \
    return isopace::collect<isopace::filled<T>, T>(f, uint(modulo) << 16 | delta, isopace::shuffle_fill<T, WIDTH, up>, line); \
  }
ISOPACE_FILL(simd, 32, up, true) ISOPACE_FILL(simd, 32, down, false) ISOPACE_FILL(quad, 4, up, true) ISOPACE_FILL(quad, 4, down, false)
#define ISOPACE_VOTES(scope, WIDTH)                                                               \
  template <class T> ISOPACE_INLINE T scope##_broadcast_first(T v, ISOPACE_LINE) { return isopace::collect<T>(v, 0, isopace::shuffle<T, WIDTH, isopace::kFirst>, line); } \
  ISOPACE_INLINE isopace::vote_pair scope##_votes(bool b, uint32_t line) { return isopace::collect<bool, isopace::vote_pair>(b, 0, isopace::votes<WIDTH>, line); } \
  ISOPACE_INLINE scope##_vote scope##_ballot(bool b, ISOPACE_LINE) { isopace::vote_pair p = scope##_votes(b, line); return scope##_vote(p.set, p.active); } \
  ISOPACE_INLINE bool scope##_all(bool b, ISOPACE_LINE) { isopace::vote_pair p = scope##_votes(b, line); return p.set == p.active; } \
  ISOPACE_INLINE bool scope##_any(bool b, ISOPACE_LINE) { return scope##_votes(b, line).set != 0; } \
  ISOPACE_INLINE scope##_vote scope##_active_threads_mask(ISOPACE_LINE) { isopace::vote_pair p = scope##_votes(true, line); return scope##_vote(p.active, p.active); } \
  ISOPACE_INLINE bool scope##_is_first(ISOPACE_LINE) {                                            \
    isopace::vote_pair p = scope##_votes(true, line);                                             \
    return uint32_t(__builtin_ctz(p.active)) == isopace::self()->index % WIDTH;                   \
  }
ISOPACE_VOTES(simd, 32) ISOPACE_VOTES(quad, 4)

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4, mem_threadgroup_imageblock = 8 };
ISOPACE_INLINE mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
ISOPACE_INLINE mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }
enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };

// A threadgroup runs on one OS thread, so order within it needs no fence but the compiler's.
ISOPACE_INLINE void threadgroup_barrier(mem_flags = mem_flags::mem_none, thread_scope = thread_scope_threadgroup) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  isopace::wait_for_group(isopace::self());
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
ISOPACE_INLINE void simdgroup_barrier(mem_flags = mem_flags::mem_none, thread_scope = thread_scope_simdgroup, ISOPACE_LINE) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  isopace::arrive(isopace::self(), isopace::nothing, line);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
ISOPACE_INLINE void atomic_thread_fence(mem_flags, memory_order = memory_order_seq_cst, thread_scope = thread_scope_device) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Atomics: any type of 1, 2, 4 or 8 bytes, sequentially weak as in Metal.
template <class T> struct atomic {
  T v;
  using value_type = T;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
typedef atomic<ulong> atomic_ulong;
template <class T> ISOPACE_INLINE T atomic_load_explicit(const volatile atomic<T>* p, memory_order) {
  T r;
  __atomic_load((T*)&p->v, &r, __ATOMIC_RELAXED);
  return r;
}
template <class T, class U> ISOPACE_INLINE void atomic_store_explicit(volatile atomic<T>* p, U value, memory_order) {
  T v = T(value);
  __atomic_store((T*)&p->v, &v, __ATOMIC_RELAXED);
}
template <class T, class U> ISOPACE_INLINE T atomic_exchange_explicit(volatile atomic<T>* p, U value, memory_order) {
  T v = T(value), r;
  __atomic_exchange((T*)&p->v, &v, &r, __ATOMIC_RELAXED);
  return r;
}
template <class T, class U> ISOPACE_INLINE bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* p, T* expected, U value, memory_order, memory_order) {
  T v = T(value);
  return __atomic_compare_exchange((T*)&p->v, expected, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#define ISOPACE_ATOMIC(name, expr)                                                                \
  template <class T, class U> ISOPACE_INLINE T atomic_fetch_##name##_explicit(volatile atomic<T>* p, U value, memory_order) { \
    T b = T(value), a, r;                                                                         \
    __atomic_load((T*)&p->v, &a, __ATOMIC_RELAXED);                                               \
    do { r = T(expr); } while (!__atomic_compare_exchange((T*)&p->v, &a, &r, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
    return a;                                                                                     \
  }
#define ISOPACE_ATOMIC_INT(name, expr)                                                            \
  template <class T, class U> ISOPACE_INLINE T atomic_fetch_##name##_explicit(volatile atomic<T>* p, U value, memory_order) { \
    if constexpr (std::is_integral<T>::value && !std::is_same<T, bool>::value) return __atomic_fetch_##name((T*)&p->v, T(value), __ATOMIC_RELAXED); \
    else {                                                                                        \
      T b = T(value), a, r;                                                                       \
      __atomic_load((T*)&p->v, &a, __ATOMIC_RELAXED);                                             \
      do { r = T(expr); } while (!__atomic_compare_exchange((T*)&p->v, &a, &r, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
      return a;                                                                                   \
    }                                                                                             \
  }
ISOPACE_ATOMIC_INT(add, a + b) ISOPACE_ATOMIC_INT(sub, a - b) ISOPACE_ATOMIC_INT(and, a & b) ISOPACE_ATOMIC_INT(or, a | b)
ISOPACE_ATOMIC_INT(xor, a ^ b) ISOPACE_ATOMIC(min, metal::min(a, b)) ISOPACE_ATOMIC(max, metal::max(a, b))
}  // namespace metal

#define ISOPACE_EXPORT extern "C" __attribute__((visibility("default")))
#define ISOPACE_THREAD const auto&
#define ISOPACE_ENTRY(Call, count, cooperative, run)                                              \
  ISOPACE_EXPORT const uint32_t isopace_abi[4] = {1, count, cooperative, uint32_t(isopace::kStateBytes)}; \
  ISOPACE_EXPORT int isopace_kernel(void* const* args, const isopace::grid_info* g, uint64_t first, uint64_t last) { \
    const Call call(args);                                                                        \
    if (cooperative) isopace::touched = 1;                                                        \
    return isopace::enter(*g, [&] { return run(call, *g, first, last); });                        \
  }
#define ISOPACE_ENTRY_FLAT(Call, count) ISOPACE_ENTRY(Call, count, 0, (isopace::run_loops<Call, true>))
#define ISOPACE_ENTRY_GROUPED(Call, count) ISOPACE_ENTRY(Call, count, 0, (isopace::run_loops<Call, false>))
#define ISOPACE_ENTRY_COOPERATIVE(Call, count) ISOPACE_ENTRY(Call, count, 1, isopace::run_fibers<Call>)
