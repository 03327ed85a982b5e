// Just enough of HIP's device language for a C++ compiler to check the syntax and types of the patterns.
#include <cmath>
#include <cstddef>
#include <math.h>
#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
struct Index { unsigned x, y, z; };
extern Index threadIdx, blockIdx, blockDim, gridDim;
struct alignas(16) float4 { float x, y, z, w; };
float4 make_float4(float x, float y, float z, float w);
void __syncthreads();
void __threadfence();
template <class T> T __shfl_down(T value, int distance);
template <class T> T __shfl_xor(T value, int mask);
unsigned long long __ballot(bool vote);
int __popcll(unsigned long long bits);
template <class T> T atomicAdd(T* at, T value);
template <class T> T atomicExch(T* at, T value);
unsigned __float_as_uint(float value);
float __uint_as_float(unsigned value);
float __expf(float value);
template <class T> T __builtin_nontemporal_load(const T* from);
template <class T> void __builtin_nontemporal_store(T value, T* to);
typedef float mfma4 __attribute__((vector_size(16)));
mfma4 __builtin_amdgcn_mfma_f32_16x16x4f32(float a, float b, mfma4 c, int cbsz, int abid, int blgp);
#ifndef __FLT16_MAX__
typedef short _Float16;
#endif
typedef _Float16 mfma_half4 __attribute__((vector_size(8)));
typedef float mfma16 __attribute__((vector_size(64)));
mfma16 __builtin_amdgcn_mfma_f32_32x32x8f16(mfma_half4 a, mfma_half4 b, mfma16 c, int cbsz, int abid, int blgp);
int __builtin_amdgcn_update_dpp(int old, int from, int control, int row_mask, int bank_mask, bool bound_control);
int __builtin_amdgcn_readlane(int from, int lane);
void __builtin_amdgcn_sched_barrier(int mask);
