// Measures what this processor sustains at best: bytes per second by working set and by number of threads,
// float32 multiply-adds, products of 16-bit numbers, and elementary functions. Built and run by peaks.py in a
// process of its own.
//
// No loop here can be shortened by a compiler: every operand passes through an empty asm statement that may
// have changed it (HIDE), and every result is demanded by one (USE). peaks.py counts the multiply-adds in the
// object code of fma_compiled, and compares its rate with that of fma_written.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kChains = 24;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32, kChains = 12;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16, kChains = 24;
#else
constexpr int kVectorBytes = 16, kChains = 12;
#endif
constexpr int kLanes = kVectorBytes / 4;
typedef float Vec __attribute__((vector_size(kVectorBytes)));
typedef int32_t Ints __attribute__((vector_size(kVectorBytes)));

#if defined(__AVX512F__)
#define REGISTER "v"
#elif defined(__x86_64__)
#define REGISTER "x"
#elif defined(__aarch64__)
#define REGISTER "w"
#else
#define REGISTER "m"
#endif
#define HIDE(value) asm volatile("" : "+" REGISTER(value))
#define USE(value) asm volatile("" : : REGISTER(value))
#define BARRIER() asm volatile("" : : : "memory")

// -- arithmetic: the first kChains vectors of `state` are the chains, then come factor and term -------------

extern "C" __attribute__((noinline)) void fma_compiled(Vec* state, int64_t steps) {
  Vec chain[kChains], factor = state[kChains], term = state[kChains + 1];
#pragma GCC unroll 32
  for (int i = 0; i < kChains; i++) chain[i] = state[i];
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 32
    for (int i = 0; i < kChains; i++) {
      chain[i] = chain[i] * factor + term;
      HIDE(chain[i]);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kChains; i++) state[i] = chain[i];
}

#if defined(__FMA__)
#define WRITTEN_FMA "vfmadd213ps %2, %1, %0"
#elif defined(__aarch64__)
#define WRITTEN_FMA "fmla %0.4s, %1.4s, %2.4s"
#endif
#if defined(__AVX512BF16__)
#define WRITTEN_ROUNDED "vdpbf16ps %2, %1, %0"
#endif

#define WRITTEN(name, instruction, chains)                                                       \
  extern "C" __attribute__((noinline)) void name(Vec* state, int64_t steps) {                   \
    Vec chain[chains], factor = state[kChains], term = state[kChains + 1];                      \
    _Pragma("GCC unroll 32") for (int i = 0; i < chains; i++) chain[i] = state[i];              \
    for (int64_t step = 0; step < steps; step++) {                                              \
      _Pragma("GCC unroll 32") for (int i = 0; i < chains; i++)                                 \
          asm volatile(instruction : "+" REGISTER(chain[i]) : REGISTER(factor), REGISTER(term)); \
    }                                                                                           \
    _Pragma("GCC unroll 32") for (int i = 0; i < chains; i++) state[i] = chain[i];              \
  }
#ifdef WRITTEN_FMA
WRITTEN(fma_written, WRITTEN_FMA, kChains)
WRITTEN(fma_one_chain, WRITTEN_FMA, 1)
#endif
#ifdef WRITTEN_ROUNDED
WRITTEN(fma_rounded, WRITTEN_ROUNDED, kChains)
#endif

// -- elementary functions: the cheapest ways we know, exact to about 1e-5, without care for special values ---

static inline Vec all(float x) { return Vec{} + x; }
static inline Vec largest(Vec a, Vec b) { return a > b ? a : b; }
static inline Vec smallest(Vec a, Vec b) { return a < b ? a : b; }

static inline Vec cheap_exp(Vec x) {
  Vec shifted = x * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f;
  Vec r = x * 1.44269504f - whole;
  Vec p = all(0.00957008f);
  p = p * r + 0.05591786f;
  p = p * r + 0.24024745f;
  p = p * r + 0.69312181f;
  p = p * r + 0.99999926f;
  return (Vec)((Ints)p + ((Ints)shifted << 23));
}

static inline Vec cheap_log(Vec x) {
  Ints shifted = (Ints)x - 0x3f3504f3;
  Vec exponent = __builtin_convertvector(shifted >> 23, Vec);
  Vec f = (Vec)((shifted & 0x007fffff) + 0x3f3504f3) - 1.0f;
  Vec p = all(0.12212592f);
  p = p * f - 0.18784605f;
  p = p * f + 0.20454966f;
  p = p * f - 0.2489662f;
  p = p * f + 0.33316008f;
  p = p * f - 0.50001402f;
  p = p * f + 1.00000088f;
  return p * f + exponent * 0.69314718f;
}

static inline Vec cheap_tanh(Vec x) {
  x = smallest(largest(x, all(-4.97f)), all(4.97f));
  Vec s = x * x;
  Vec top = ((s + 378.0f) * s + 17325.0f) * s + 135135.0f;
  Vec bottom = ((s * 28.0f + 3150.0f) * s + 62370.0f) * s + 135135.0f;
  return x * top / bottom;
}

static inline Vec cheap_erf(Vec x) {
  x = smallest(largest(x, all(-3.3f)), all(3.3f));
  Vec s = x * x;
  Vec p = all(2.12894021e-8f);
  p = p * s - 1.18970834e-6f;
  p = p * s + 2.90263146e-5f;
  p = p * s - 4.09673123e-4f;
  p = p * s + 3.75172866e-3f;
  p = p * s - 2.38026266e-2f;
  p = p * s + 0.109243035f;
  p = p * s - 0.37416502f;
  p = p * s + 1.128062f;
  return p * x;
}

static inline Vec unit_sqrt(Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
  return (Vec)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
  return (Vec)_mm_sqrt_ps((__m128)x);
#else
  for (int i = 0; i < kLanes; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
static inline Vec unit_div(Vec x) { return 1.0f / x; }

// An estimate and one step of Newton: other units than the two above, and a kernel may use both at a time.
#if defined(__x86_64__)
static inline Vec root_estimate(Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_rsqrt14_ps((__m512)x);
#elif defined(__AVX__)
  return (Vec)_mm256_rsqrt_ps((__m256)x);
#else
  return (Vec)_mm_rsqrt_ps((__m128)x);
#endif
}
static inline Vec inverse_estimate(Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_rcp14_ps((__m512)x);
#elif defined(__AVX__)
  return (Vec)_mm256_rcp_ps((__m256)x);
#else
  return (Vec)_mm_rcp_ps((__m128)x);
#endif
}
static inline Vec newton_sqrt(Vec x) {
  Vec r = root_estimate(x), s = x * r;
  return s + (x - s * s) * (r * 0.5f);
}
static inline Vec newton_div(Vec x) {
  Vec r = inverse_estimate(x);
  return r + r * (1.0f - x * r);
}
#endif

using Function = Vec (*)(Vec);
template <Function kFunction>
static void evaluate(Vec* state, int64_t steps) {
  Vec x[4] = {state[0], state[1], state[2], state[3]};
  for (int64_t step = 0; step < steps; step++)
    for (int i = 0; i < 4; i++) {
      HIDE(x[i]);
      Vec y = kFunction(x[i]);
      USE(y);
    }
}

using Steps = void (*)(Vec*, int64_t);
struct Arithmetic {
  const char* name;
  Steps run;
  double per_step;  // operations of one step: products and sums, or evaluations
};
static const Arithmetic kArithmetic[] = {
    {"fma_compiled", fma_compiled, 2.0 * kChains * kLanes},
#ifdef WRITTEN_FMA
    {"fma_written", fma_written, 2.0 * kChains * kLanes},
    {"fma_one_chain", fma_one_chain, 2.0 * kLanes},
#endif
#ifdef WRITTEN_ROUNDED
    {"fma_rounded", fma_rounded, 4.0 * kChains * kLanes},
#endif
    {"exp", evaluate<cheap_exp>, 4.0 * kLanes},
    {"log", evaluate<cheap_log>, 4.0 * kLanes},
    {"tanh", evaluate<cheap_tanh>, 4.0 * kLanes},
    {"erf", evaluate<cheap_erf>, 4.0 * kLanes},
    {"sqrt", evaluate<unit_sqrt>, 4.0 * kLanes},
    {"div", evaluate<unit_div>, 4.0 * kLanes},
#if defined(__x86_64__)
    {"sqrt+", evaluate<newton_sqrt>, 4.0 * kLanes},
    {"div+", evaluate<newton_div>, 4.0 * kLanes},
#endif
};

// -- bandwidth: each kernel touches n vectors in all, once each; `back`: from the end to the start -----------

// A store that does not fetch the line first and does not stay in the caches.
static inline void stream(Vec* to, Vec value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(reinterpret_cast<float*>(to), (__m512)value);
#elif defined(__AVX__)
  _mm256_stream_ps(reinterpret_cast<float*>(to), (__m256)value);
#elif defined(__x86_64__)
  _mm_stream_ps(reinterpret_cast<float*>(to), (__m128)value);
#else
  *to = value;
#endif
}

template <bool kStream>
static inline void put(Vec* to, Vec value) {
  if (kStream) stream(to, value);
  else *to = value;
}

template <typename Body>
static inline void each_four(int64_t n, bool back, Body body) {
  if (back)
    for (int64_t i = n - n % 4 - 4; i >= 0; i -= 4)
      for (int j = 3; j >= 0; j--) body(i + j);
  else
    for (int64_t i = 0; i + 4 <= n; i += 4)
      for (int j = 0; j < 4; j++) body(i + j);
}

static void read_all(Vec* a, int64_t n, bool back) {
  each_four(n, back, [&](int64_t i) {
    Vec got = a[i];
    USE(got);
  });
}

template <bool kStream>
static void fill(Vec* a, int64_t n, bool back) {
  Vec one = all(1.0f);
  HIDE(one);
  each_four(n, back, [&](int64_t i) { put<kStream>(a + i, one); });
}

template <bool kStream>
static void copy(Vec* a, int64_t n, bool back) {
  Vec* b = a + n / 2;
  each_four(n / 2, back, [&](int64_t i) {
    Vec got = a[i];
    HIDE(got);
    put<kStream>(b + i, got);
  });
}

template <bool kStream>
static void triad(Vec* a, int64_t n, bool back) {
  int64_t third = n / 3;
  Vec *b = a + third, *c = b + third, scale = all(3.0f);
  each_four(third, back, [&](int64_t i) {
    Vec got = a[i] + scale * b[i];
    HIDE(got);
    put<kStream>(c + i, got);
  });
}

using Kernel = void (*)(Vec*, int64_t, bool);
struct Pattern {
  const char* name;
  Kernel run;
  bool turns;  // every second pass runs backwards and meets what the caches still hold
  bool is_basic;  // for the table of levels
};
static const Pattern kPatterns[] = {
    {"read", read_all, false, true},          {"read", read_all, true, true},
    {"write", fill<false>, false, true},      {"write", fill<true>, false, true},
    {"copy", copy<false>, false, true},       {"copy", copy<true>, false, true},
    {"copy", copy<false>, true, false},       {"triad", triad<false>, false, false},
    {"triad", triad<true>, false, false},
};

// -- samples ---------------------------------------------------------------------------------------------------

// Nanoseconds that this thread has waited on the run queue so far; -1 where the kernel does not say.
static int64_t waited_ns() {
  char text[96];
  int file = open("/proc/thread-self/schedstat", O_RDONLY);
  if (file < 0) return -1;
  ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  if (n <= 0) return -1;
  text[n] = 0;
  char* second = std::strchr(text, ' ');
  return second ? std::strtoll(second, nullptr, 10) : -1;
}

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double own_time() {
  timespec spent;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return double(spent.tv_sec) + double(spent.tv_nsec) / 1e9;
}

struct Sample {
  double seconds = 0;
  double busy = 0;     // processor time of the thread that needed most
  double waited = -1;  // share of the time that the thread which waited longest waited for a core
};

// From the moment at which the last thread is ready to the last thread's end.
template <typename Body>
static Sample sample(int threads, Body body) {
  std::atomic<int> ready{0};
  double first = 1e300, last = 0, waited = 0, busy = 0;
  bool is_known = true;
#pragma omp parallel num_threads(threads) reduction(min : first) reduction(max : last, waited, busy) \
    reduction(&& : is_known)
  {
    int64_t before = waited_ns();  // before the start: a thread that comes late for want of a core has waited
    ready++;
    while (ready.load() < threads) {
    }  // threads start together: each spins until all are there
    double spent = own_time();
    first = now();
    body(omp_get_thread_num());
    last = now();
    busy = own_time() - spent;
    int64_t after = waited_ns();
    waited = double(after - before) / 1e9;
    is_known = before >= 0 && after >= 0;
  }
  return {last - first, busy, is_known ? waited / (waited + last - first) : -1.0};
}

struct Best {
  double rate = 0, waited = -1;
};

struct Effort {
  double budget_s;  // of one figure in one round
  double quiet;     // share of a sample that threads may wait for a core
  double until_s;   // by `now`: from then on nothing is taken twice
};

// The best of the quiet samples within a budget, with more samples while none was quiet; where none was, the
// best of the others, by processor time: about what the threads reach when nothing else runs. A rate that is too
// high makes a floor that is too low, which wrongs nobody.
template <typename Body>
static Best best_of(int threads, double amount, const Effort& effort, Body body) {
  Best calm, noisy;
  double spent = 0;
  for (int n = 0; n < 40; n++) {
    bool is_done = n >= 2 && spent >= effort.budget_s && (calm.rate > 0 || n >= 12);
    if (is_done || (n > 0 && now() > effort.until_s)) break;
    Sample found = sample(threads, body);
    bool is_quiet = found.waited < effort.quiet;
    Best& best = is_quiet ? calm : noisy;
    double rate = amount / (is_quiet ? found.seconds : found.busy);
    if (rate > best.rate) best = {rate, found.waited};
    spent += found.seconds;
  }
  return calm.rate > 0 ? calm : noisy;
}

static Best best_arithmetic(const Arithmetic& kind, int threads, const Effort& effort) {
  auto run = [&](int64_t steps) {
    return [&kind, steps](int thread) {
      alignas(64) Vec state[kChains + 2];
      for (int i = 0; i < kChains; i++) state[i] = all(0.1f + 0.03f * float(i + thread));
      state[kChains] = all(0.5f);
      state[kChains + 1] = all(1.0f);
      BARRIER();
      kind.run(state, steps);
      USE(state[0]);
      BARRIER();
    };
  };
  int64_t steps = 256;  // grown until a sample is long beside the clock, the start and the end
  auto seconds = [&] { return std::min(sample(1, run(steps)).seconds, sample(1, run(steps)).seconds); };
  while (steps < (int64_t(1) << 24) && seconds() < effort.budget_s / 4) steps *= 2;
  return best_of(threads, kind.per_step * double(steps) * threads, effort, run(steps));
}

static Best best_bandwidth(const Pattern& pattern, std::vector<Vec*>& slices, int threads, int64_t bytes,
                           const Effort& effort) {
  int64_t n = bytes / threads / int64_t(sizeof(Vec));
  int64_t passes = std::max<int64_t>(2, (int64_t(32) << 20) / bytes);
  double amount = double(n) * sizeof(Vec) * threads * double(passes);
  return best_of(threads, amount, effort, [&](int thread) {
    for (int64_t pass = 0; pass < passes; pass++) {
      pattern.run(slices[thread], n, pattern.turns && pass % 2);
      BARRIER();
    }
  });
}

static void tell(const char* name, int threads, int64_t bytes, Best best) {
  std::printf("%s %d %lld %.6g %.4f\n", name, threads, (long long)bytes, best.rate, best.waited);
}

// Prints lines "NAME THREADS BYTES RATE WAITED" and, after each round, a line "end". A round measures
// everything once; rounds lie apart in time, so that a neighbour that takes the machine for a while spoils
// some of them only. After `limit_s` no sample is taken again, and the round that was begun is the last. Each
// request is a pair: threads, bytes. Returns 1 without memory.
extern "C" int probe(int threads, const int64_t* requests, int n_requests, int rounds, double budget_s,
                     double quiet, double limit_s) {
  Effort effort{budget_s, quiet, now() + limit_s};
  int64_t per_thread = 0;
  for (int i = 0; i < n_requests; i++)
    per_thread = std::max(per_thread, requests[2 * i + 1] / requests[2 * i] + int64_t(sizeof(Vec)));
  std::vector<Vec*> slices(threads);
  for (auto& slice : slices) {
    void* got = mmap(nullptr, per_thread, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return 1;
#ifdef MADV_HUGEPAGE
    madvise(got, per_thread, MADV_HUGEPAGE);
#endif
    slice = static_cast<Vec*>(got);
  }
  sample(threads, [&](int thread) { fill<false>(slices[thread], per_thread / int64_t(sizeof(Vec)), false); });
  std::printf("chains %d 0 0 0\n", kChains);
  for (int round = 0; round < rounds && (round < 1 || now() < effort.until_s); round++) {
    Effort warm_up{0.02, 1.0, effort.until_s};
    best_arithmetic(kArithmetic[0], threads, warm_up);  // not counted: threads and clock rate warm up
    for (auto& kind : kArithmetic) tell(kind.name, threads, 0, best_arithmetic(kind, threads, effort));
    for (int i = 0; i < n_requests; i++) {
      int used = int(requests[2 * i]);
      int64_t bytes = requests[2 * i + 1];
      for (auto& pattern : kPatterns)
        if (used == threads || pattern.is_basic)
          tell(pattern.name, used, bytes, best_bandwidth(pattern, slices, used, bytes, effort));
    }
    std::printf("end 0 0 0 0\n");
  }
  std::fflush(stdout);
  return 0;
}
