// Compares our prototypes of the CUDA runtime with its header, where that is installed. No code.

#include "device/CudaRuntime.h"

#if __has_include(<cuda_runtime_api.h>)

#include <cuda_runtime_api.h>

#include <type_traits>

namespace spillway {
namespace {

// Handles are pointers here and pointers to something there, and enums are ints: what counts for a
// call is the size of each value and whether it is a pointer.
template <typename Ours, typename Theirs>
constexpr bool sameValue() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && !std::is_floating_point_v<Theirs>;
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};

template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
struct SameCall<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool all() {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
      return false;
    } else {
      return sameValue<OurResult, TheirResult>() && (sameValue<Ours, Theirs>() && ...);
    }
  }
  static constexpr bool value = all();
};

#define SAME(member, name)                                                                    \
  static_assert(SameCall<decltype(CudaCalls::member),                                         \
                         std::add_pointer_t<std::remove_reference_t<decltype(name)>>>::value, \
                #name)

SAME(runtimeGetVersion, ::cudaRuntimeGetVersion);
SAME(driverGetVersion, ::cudaDriverGetVersion);
SAME(getDeviceCount, ::cudaGetDeviceCount);
SAME(setDevice, ::cudaSetDevice);
SAME(getDevice, ::cudaGetDevice);
SAME(deviceGetAttribute, ::cudaDeviceGetAttribute);
SAME(deviceGetPCIBusId, ::cudaDeviceGetPCIBusId);
SAME(memGetInfo, ::cudaMemGetInfo);
SAME(malloc, ::cudaMalloc);
SAME(free, ::cudaFree);
SAME(memcpy, ::cudaMemcpy);
SAME(memset, ::cudaMemset);
SAME(memcpyAsync, ::cudaMemcpyAsync);
SAME(memcpy2DAsync, ::cudaMemcpy2DAsync);
SAME(hostRegister, ::cudaHostRegister);
SAME(hostUnregister, ::cudaHostUnregister);
SAME(deviceGetStreamPriorityRange, ::cudaDeviceGetStreamPriorityRange);
SAME(streamCreateWithPriority, ::cudaStreamCreateWithPriority);
SAME(streamDestroy, ::cudaStreamDestroy);
SAME(streamQuery, ::cudaStreamQuery);
SAME(streamSynchronize, ::cudaStreamSynchronize);
SAME(streamWaitEvent, ::cudaStreamWaitEvent);
SAME(threadExchangeStreamCaptureMode, ::cudaThreadExchangeStreamCaptureMode);
SAME(eventCreateWithFlags, ::cudaEventCreateWithFlags);
SAME(eventDestroy, ::cudaEventDestroy);
SAME(eventRecord, ::cudaEventRecord);
SAME(eventQuery, ::cudaEventQuery);
SAME(launchHostFunc, ::cudaLaunchHostFunc);
SAME(getErrorName, ::cudaGetErrorName);
SAME(getErrorString, ::cudaGetErrorString);
#if CUDART_VERSION >= 13000
SAME(memcpyBatch13, ::cudaMemcpyBatchAsync);
#elif CUDART_VERSION >= 12080
SAME(memcpyBatch12, ::cudaMemcpyBatchAsync);
#endif

static_assert(kCudaSuccess == cudaSuccess && kCudaErrorNotReady == cudaErrorNotReady);
static_assert(kCudaHostToDevice == cudaMemcpyHostToDevice);
static_assert(kCudaDeviceToHost == cudaMemcpyDeviceToHost);
static_assert(kCudaStreamNonBlocking == cudaStreamNonBlocking);
static_assert(kCudaEventDisableTiming == cudaEventDisableTiming);
static_assert(kCudaHostRegisterPortable == cudaHostRegisterPortable);
static_assert(kCudaCaptureModeRelaxed == cudaStreamCaptureModeRelaxed);
static_assert(kCudaAttributeMaxPitch == cudaDevAttrMaxPitch);
static_assert(kCudaAttributeHostPointerForRegistered ==
              cudaDevAttrCanUseHostPointerForRegisteredMem);
static_assert(kCudaErrorInsufficientDriver == cudaErrorInsufficientDriver);
#if CUDART_VERSION >= 12080
static_assert(kCudaSourceStreamOrdered == cudaMemcpySrcAccessOrderStream);
static_assert(kCudaSourceAnyOrder == cudaMemcpySrcAccessOrderAny);
static_assert(kCudaCopyPreferOverlap == cudaMemcpyFlagPreferOverlapWithCompute);
static_assert(sizeof(CudaCopyAttributes) == sizeof(cudaMemcpyAttributes));
static_assert(offsetof(CudaCopyAttributes, source) == offsetof(cudaMemcpyAttributes, srcLocHint));
static_assert(offsetof(CudaCopyAttributes, flags) == offsetof(cudaMemcpyAttributes, flags));
#endif

}  // namespace
}  // namespace spillway

#endif
