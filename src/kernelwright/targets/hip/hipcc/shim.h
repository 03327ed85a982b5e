// What a clang without ROCm needs to compile kernels in HIP: qualifiers, indices, barriers, lanes, atomics,
// and the mathematics that the back end has instructions for. Not HIP's own headers; nothing links with it.
#pragma once
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define INFINITY __builtin_inff()
#define KW_DEVICE static inline __device__ __attribute__((always_inline))
typedef __SIZE_TYPE__ size_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef _Float16 half;
#define KW_INDEX(kind, from)                                    \
  struct kw_##kind##_x { __device__ operator unsigned() const { return from(x); } }; \
  struct kw_##kind##_y { __device__ operator unsigned() const { return from(y); } }; \
  struct kw_##kind##_z { __device__ operator unsigned() const { return from(z); } }; \
  struct kw_##kind { kw_##kind##_x x; kw_##kind##_y y; kw_##kind##_z z; };
#define KW_ITEM(d) __builtin_amdgcn_workitem_id_##d()
#define KW_GROUP(d) __builtin_amdgcn_workgroup_id_##d()
#define KW_SIZE(d) __builtin_amdgcn_workgroup_size_##d()
#define KW_COUNT(d) (__builtin_amdgcn_grid_size_##d() / __builtin_amdgcn_workgroup_size_##d())
KW_INDEX(item, KW_ITEM)
KW_INDEX(group, KW_GROUP)
KW_INDEX(size, KW_SIZE)
KW_INDEX(count, KW_COUNT)
static __device__ const kw_item threadIdx = {};
static __device__ const kw_group blockIdx = {};
static __device__ const kw_size blockDim = {};
static __device__ const kw_count gridDim = {};
static constexpr int warpSize = 64;
template <class T, int N> struct alignas(sizeof(T) * N) kw_vector;
template <class T> struct alignas(sizeof(T) * 2) kw_vector<T, 2> { T x, y; };
template <class T> struct alignas(sizeof(T) * 4) kw_vector<T, 4> { T x, y, z, w; };
typedef kw_vector<float, 2> float2;
typedef kw_vector<float, 4> float4;
typedef kw_vector<int, 2> int2;
typedef kw_vector<int, 4> int4;
KW_DEVICE float2 make_float2(float x, float y) { return {x, y}; }
KW_DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
KW_DEVICE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
KW_DEVICE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
KW_DEVICE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
KW_DEVICE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
KW_DEVICE void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
KW_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
KW_DEVICE int kw_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
KW_DEVICE int kw_from(int value, int lane) { return __builtin_amdgcn_ds_bpermute(lane << 2, value); }
KW_DEVICE float kw_from(float value, int lane) {
  return __builtin_bit_cast(float, kw_from(__builtin_bit_cast(int, value), lane));
}
template <class T> KW_DEVICE T __shfl(T value, int lane, int width = 64) {
  return kw_from(value, (lane & (width - 1)) | (kw_lane() & ~(width - 1)));
}
template <class T> KW_DEVICE T __shfl_xor(T value, int mask, int width = 64) {
  return kw_from(value, kw_lane() ^ mask);
}
template <class T> KW_DEVICE T __shfl_down(T value, int by, int width = 64) {
  const int lane = kw_lane();
  return kw_from(value, (lane & (width - 1)) + by < width ? lane + by : lane);
}
KW_DEVICE unsigned long __ballot(bool vote) { return __builtin_amdgcn_uicmp(vote, 0u, 33); }
KW_DEVICE int __popcll(unsigned long bits) { return __builtin_popcountl(bits); }
template <class T> KW_DEVICE T atomicAdd(T* at, T value) {
  return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> KW_DEVICE T atomicExch(T* at, T value) {
  return __hip_atomic_exchange(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
#define KW_UNARY(name, builtin) KW_DEVICE float name(float x) { return builtin(x); }
KW_UNARY(sqrtf, __builtin_sqrtf)
KW_UNARY(fabsf, __builtin_fabsf)
KW_UNARY(floorf, __builtin_floorf)
KW_UNARY(ceilf, __builtin_ceilf)
KW_UNARY(rintf, __builtin_rintf)
KW_UNARY(expf, __builtin_expf)
KW_UNARY(exp2f, __builtin_exp2f)
KW_UNARY(logf, __builtin_logf)
KW_UNARY(log2f, __builtin_log2f)
KW_UNARY(__expf, __builtin_expf)
KW_UNARY(__logf, __builtin_logf)
KW_UNARY(rsqrtf, __builtin_amdgcn_rsqf)
KW_UNARY(__frcp_rn, __builtin_amdgcn_rcpf)
KW_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
KW_DEVICE float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
KW_DEVICE float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
KW_DEVICE float fminf(float x, float y) { return __builtin_fminf(x, y); }
template <class T> KW_DEVICE T min(T x, T y) { return y < x ? y : x; }
template <class T> KW_DEVICE T max(T x, T y) { return x < y ? y : x; }
