// Measures what this processor sustains at best: bytes per second at several working-set sizes, and
// float32 fused multiply-adds per second. Built and run by peaks.py in a process of its own.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <omp.h>
#include <sys/mman.h>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
typedef float Vec __attribute__((vector_size(kVectorBytes)));

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

// Each kernel touches n vectors in all, once each, and returns something that depends on what it read.
static Vec read_all(Vec* a, int64_t n) {
  Vec sum[8] = {};
  for (int64_t i = 0; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) sum[j] += a[i + j];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]) + (sum[4] + sum[5]) + (sum[6] + sum[7]);
}

template <bool kStream>
static Vec fill(Vec* a, int64_t n) {
  Vec one = {1.0f};
  for (int64_t i = 0; i + 4 <= n; i += 4)
    for (int j = 0; j < 4; j++) put<kStream>(a + i + j, one);
  return one;
}

template <bool kStream>
static Vec copy(Vec* a, int64_t n) {
  Vec* b = a + n / 2;
  for (int64_t i = 0; i + 4 <= n / 2; i += 4)
    for (int j = 0; j < 4; j++) put<kStream>(b + i + j, a[i + j]);
  return Vec{};
}

template <bool kStream>
static Vec triad(Vec* a, int64_t n) {
  int64_t third = n / 3;
  Vec *b = a + third, *c = b + third;
  Vec scale = Vec{} + 3.0f;
  for (int64_t i = 0; i + 4 <= third; i += 4)
    for (int j = 0; j < 4; j++) put<kStream>(c + i + j, a[i + j] + scale * b[i + j]);
  return Vec{};
}

using Kernel = Vec (*)(Vec*, int64_t);
static const struct { const char* name; Kernel run; } kKernels[] = {
    {"read", read_all},      {"fill", fill<false>},    {"fill_streamed", fill<true>},
    {"copy", copy<false>},   {"copy_streamed", copy<true>},
    {"triad", triad<false>}, {"triad_streamed", triad<true>},
};

static volatile float sink;

// From the first thread's start to the last thread's end, so that waking the threads costs nothing.
template <typename Body>
static double seconds_of(int threads, Body body) {
  double first = 1e300, last = 0;
#pragma omp parallel num_threads(threads) reduction(min : first) reduction(max : last)
  {
#pragma omp barrier
    first = omp_get_wtime();
    body(omp_get_thread_num());
    last = omp_get_wtime();
  }
  return last - first;
}

static double best_bandwidth(Kernel kernel, std::vector<Vec*>& slices, int64_t bytes, double budget_s) {
  int threads = int(slices.size());
  int64_t n = bytes / threads / int64_t(sizeof(Vec));
  int64_t passes = std::max<int64_t>(1, (int64_t(32) << 20) / bytes);
  double best = 0, spent = 0;
  for (int sample = 0; sample < 2 || (spent < budget_s && sample < 40); sample++) {
    double s = seconds_of(threads, [&](int thread) {
      for (int64_t pass = 0; pass < passes; pass++) {
        Vec got = kernel(slices[thread], n);
        asm volatile("" : : "x"(got[0]) : "memory");
      }
    });
    spent += s;
    best = std::max(best, double(n) * sizeof(Vec) * threads * passes / s);
  }
  return best;
}

static double best_fma(int threads, double budget_s) {
  constexpr int kChains = 12, kSteps = 20000;
  double best = 0, spent = 0;
  for (int sample = 0; sample < 10 || spent < budget_s; sample++) {
    double s = seconds_of(threads, [&](int) {
      Vec acc[kChains] = {}, factor = Vec{} + 0.5f, term = Vec{} + 1.0f;
      for (int step = 0; step < kSteps; step++)
        for (int i = 0; i < kChains; i++) acc[i] = acc[i] * factor + term;
      for (int i = 1; i < kChains; i++) acc[0] += acc[i];
      sink = acc[0][0];
    });
    spent += s;
    best = std::max(best, 2.0 * kSteps * kChains * (sizeof(Vec) / sizeof(float)) * threads / s);
  }
  return best;
}

// Prints lines "fma 0 FLOPS" and "KERNEL BYTES BYTES_PER_SECOND", each figure twice at different moments: a
// neighbour that takes the machine for a while spoils one of them only. Returns 1 without memory.
extern "C" int probe(int threads, const int64_t* sizes, int n_sizes, double budget_s) {
  int64_t largest = *std::max_element(sizes, sizes + n_sizes), per_thread = largest / threads;
  std::vector<Vec*> slices(threads);
  for (auto& slice : slices) {
    void* got = mmap(nullptr, per_thread, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return 1;
#ifdef MADV_HUGEPAGE
    madvise(got, per_thread, MADV_HUGEPAGE);
#endif
    slice = static_cast<Vec*>(got);
  }
  seconds_of(threads, [&](int thread) { fill<false>(slices[thread], per_thread / int64_t(sizeof(Vec))); });
  for (int round = 0; round < 2; round++) {
    std::printf("fma 0 %.6g\n", best_fma(threads, budget_s));
    for (int i = 0; i < n_sizes; i++)
      for (auto& kernel : kKernels)
        std::printf("%s %lld %.6g\n", kernel.name, (long long)sizes[i],
                    best_bandwidth(kernel.run, slices, sizes[i], budget_s));
  }
  std::fflush(stdout);
  return 0;
}
