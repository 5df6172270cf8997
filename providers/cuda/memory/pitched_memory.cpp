// SPDX-License-Identifier: MIT
#include "base/call.hpp"
#include "core/hip_compat.hpp"

// The header that declares it needs kernels' types.
extern "C" [[gnu::visibility("default")]] hipChannelFormatDesc hipCreateChannelDesc(
    int x, int y, int z, int w, hipChannelFormatKind kind);

namespace hipvmm::cuda_provider {
namespace {

/// One side of a copy of rows. HIP lets rows and slices begin anywhere. CUDA refuses rows that end
/// behind the height of a slice, so the provider passes the address of the first byte instead of
/// its coordinates.
struct rows_of_side {
  CUmemorytype type;
  const void* start;
  std::size_t pitch;
  std::size_t height;
  std::size_t x = 0;
  std::size_t y = 0;
  std::size_t z = 0;

  [[nodiscard]] const void* first_byte() const noexcept {
    return static_cast<const char*>(start) + (z * height + y) * pitch + x;
  }
};

struct types_of_copy {
  CUmemorytype to;
  CUmemorytype from;
};

types_of_copy types_of(int kind) {
  switch (kind) {
    case hipMemcpyHostToHost:
      return {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
    case hipMemcpyHostToDevice:
      return {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
    case hipMemcpyDeviceToHost:
      return {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
    case hipMemcpyDeviceToDevice:
    case hip_compat::device_to_device_no_cu:
      return {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
    case hipMemcpyDefault:
      return {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
    default:
      throw failure{hipErrorInvalidMemcpyDirection};
  }
}

// The functions below return whether they have submitted work: not for 0 bytes.

bool copy_rows(const rows_of_side& to, const rows_of_side& from, const hipExtent& extent,
               hipStream_t stream) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return false;
  require(to.start != nullptr && from.start != nullptr);
  for (const rows_of_side* const side : {&to, &from})
    require(extent.width <= side->pitch && extent.height <= side->height);
  CUDA_MEMCPY3D what{};
  what.srcMemoryType = from.type;
  what.srcHost = from.first_byte();
  what.srcDevice = to_cuda(from.first_byte());
  what.srcPitch = from.pitch;
  what.srcHeight = from.height;
  what.dstMemoryType = to.type;
  what.dstHost = const_cast<void*>(to.first_byte());
  what.dstDevice = to_cuda(to.first_byte());
  what.dstPitch = to.pitch;
  what.dstHeight = to.height;
  what.WidthInBytes = extent.width;
  what.Height = extent.height;
  what.Depth = extent.depth;
  check(cuMemcpy3DAsync(&what, to_cuda(stream)));
  return true;
}

bool fill_rows(const hipPitchedPtr& to, int value, const hipExtent& extent, hipStream_t stream) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return false;
  require(to.ptr != nullptr && extent.width <= to.pitch);
  for (std::size_t slice = 0; slice < extent.depth; ++slice) {
    check(cuMemsetD2D8Async(to_cuda(to.ptr) + slice * to.pitch * to.ysize, to.pitch,
                            static_cast<unsigned char>(value), extent.width, extent.height,
                            to_cuda(stream)));
  }
  return true;
}

// CUDA's own functions return early.
template <class Submit>
hipError_t submit_and_wait(Submit submit) {
  return call([&](driver&) {
    if (submit()) check(cuStreamSynchronize(nullptr));
    return hipSuccess;
  });
}

template <class Submit>
hipError_t submit_to(hipStream_t stream, Submit submit) {
  return call_on(stream, [&](driver&) {
    submit();
    return hipSuccess;
  });
}

struct plane_side {
  const void* start;
  std::size_t pitch;
};

bool copy_plane(const plane_side& to, const plane_side& from, std::size_t width, std::size_t height,
                int kind, hipStream_t stream) {
  const types_of_copy types = types_of(kind);
  if (width == 0 || height == 0) return false;
  require(width <= to.pitch && width <= from.pitch, hipErrorInvalidPitchValue);
  return copy_rows({types.to, to.start, to.pitch, height},
                   {types.from, from.start, from.pitch, height}, {width, height, 1}, stream);
}

rows_of_side side_of(CUmemorytype type, const hipPitchedPtr& side, const hipPos& at,
                     std::size_t height) {
  return {type, side.ptr, side.pitch, side.ysize != 0 ? side.ysize : height, at.x, at.y, at.z};
}

bool copy_space(const hipMemcpy3DParms* what, hipStream_t stream) {
  require(what != nullptr);
  const types_of_copy types = types_of(value_of(what->kind));
  // No function here makes arrays.
  require(what->srcArray == nullptr && what->dstArray == nullptr);
  require(what->srcPtr.ptr != nullptr && what->dstPtr.ptr != nullptr);
  for (const hipPitchedPtr* const side : {&what->srcPtr, &what->dstPtr})
    require(side->xsize <= side->pitch, hipErrorInvalidPitchValue);
  return copy_rows(side_of(types.to, what->dstPtr, what->dstPos, what->extent.height),
                   side_of(types.from, what->srcPtr, what->srcPos, what->extent.height),
                   what->extent, stream);
}

CUmemorytype type_of(int type) {
  switch (type) {
    case hipMemoryTypeHost:
      return CU_MEMORYTYPE_HOST;
    case hipMemoryTypeDevice:
      return CU_MEMORYTYPE_DEVICE;
    case hipMemoryTypeUnified:
      return CU_MEMORYTYPE_UNIFIED;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

std::size_t given(std::size_t number, std::size_t otherwise) noexcept {
  return number != 0 ? number : otherwise;
}

struct place_in_sides {
  std::size_t to_height = 0;
  std::size_t from_height = 0;
  std::size_t to_z = 0;
  std::size_t from_z = 0;
};

template <class Description>
bool copy_described(const Description& what, const hipExtent& extent, const place_in_sides& at,
                    hipStream_t stream) {
  const CUmemorytype to = type_of(value_of(what.dstMemoryType));
  const CUmemorytype from = type_of(value_of(what.srcMemoryType));
  return copy_rows({to, to == CU_MEMORYTYPE_HOST ? what.dstHost : what.dstDevice,
                    given(what.dstPitch, extent.width), given(at.to_height, extent.height),
                    what.dstXInBytes, what.dstY, at.to_z},
                   {from, from == CU_MEMORYTYPE_HOST ? what.srcHost : what.srcDevice,
                    given(what.srcPitch, extent.width), given(at.from_height, extent.height),
                    what.srcXInBytes, what.srcY, at.from_z},
                   extent, stream);
}

bool copy_described(const hip_Memcpy2D* what, hipStream_t stream) {
  require(what != nullptr);
  return copy_described(*what, {what->WidthInBytes, what->Height, 1}, {}, stream);
}

bool copy_described(const HIP_MEMCPY3D* what, hipStream_t stream) {
  require(what != nullptr);
  return copy_described(*what, {what->WidthInBytes, what->Height, what->Depth},
                        {what->dstHeight, what->srcHeight, what->dstZ, what->srcZ}, stream);
}

void* allocate_rows(std::size_t& pitch, std::size_t width, std::size_t rows,
                    unsigned element_bytes) {
  CUdeviceptr made = 0;
  check(cuMemAllocPitch(&made, &pitch, width, rows, element_bytes));
  return to_pointer(made);
}

hipError_t allocate_plane(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height,
                          unsigned element_bytes) {
  return call([&](driver&) {
    require(pointer != nullptr && pitch != nullptr);
    require(element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
    *pointer = nullptr;
    if (width == 0 || height == 0) return hipSuccess;
    *pointer = allocate_rows(*pitch, width, height, element_bytes);
    return hipSuccess;
  });
}

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

hipError_t hipMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return allocate_plane(pointer, pitch, width, height, 4);
}

hipError_t hipMemAllocPitch(hipDeviceptr_t* pointer, size_t* pitch, size_t width, size_t height,
                            unsigned int element_bytes) {
  return allocate_plane(pointer, pitch, width, height, element_bytes);
}

hipError_t hipMalloc3D(hipPitchedPtr* memory, hipExtent extent) {
  return call([&](driver&) {
    require(memory != nullptr);
    hipPitchedPtr made{nullptr, 0, extent.width, extent.height};
    std::size_t rows = 0;
    require(!__builtin_mul_overflow(extent.height, extent.depth, &rows), hipErrorOutOfMemory);
    if (extent.width != 0 && rows != 0) made.ptr = allocate_rows(made.pitch, extent.width, rows, 4);
    *memory = made;
    return hipSuccess;
  });
}

hipError_t hipMemcpy2D(void* destination, size_t destination_pitch, const void* source,
                       size_t source_pitch, size_t width, size_t height, hipMemcpyKind kind) {
  return submit_and_wait([&] {
    return copy_plane({destination, destination_pitch}, {source, source_pitch}, width, height,
                      value_of(kind), nullptr);
  });
}

hipError_t hipMemcpy2DAsync(void* destination, size_t destination_pitch, const void* source,
                            size_t source_pitch, size_t width, size_t height, hipMemcpyKind kind,
                            hipStream_t stream) {
  return submit_to(stream, [&] {
    copy_plane({destination, destination_pitch}, {source, source_pitch}, width, height,
               value_of(kind), stream);
  });
}

hipError_t hipMemcpy3D(const hipMemcpy3DParms* what) {
  return submit_and_wait([&] { return copy_space(what, nullptr); });
}

hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* what, hipStream_t stream) {
  return submit_to(stream, [&] { copy_space(what, stream); });
}

hipError_t hipMemcpyParam2D(const hip_Memcpy2D* what) {
  return submit_and_wait([&] { return copy_described(what, nullptr); });
}

hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* what, hipStream_t stream) {
  return submit_to(stream, [&] { copy_described(what, stream); });
}

hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* what) {
  return submit_and_wait([&] { return copy_described(what, nullptr); });
}

hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* what, hipStream_t stream) {
  return submit_to(stream, [&] { copy_described(what, stream); });
}

hipError_t hipMemset2D(void* destination, size_t pitch, int value, size_t width, size_t height) {
  return submit_and_wait([&] {
    return fill_rows({destination, pitch, width, height}, value, {width, height, 1}, nullptr);
  });
}

hipError_t hipMemset2DAsync(void* destination, size_t pitch, int value, size_t width, size_t height,
                            hipStream_t stream) {
  return submit_to(stream, [&] {
    fill_rows({destination, pitch, width, height}, value, {width, height, 1}, stream);
  });
}

hipError_t hipMemset3D(hipPitchedPtr destination, int value, hipExtent extent) {
  return submit_and_wait([&] { return fill_rows(destination, value, extent, nullptr); });
}

hipError_t hipMemset3DAsync(hipPitchedPtr destination, int value, hipExtent extent,
                            hipStream_t stream) {
  return submit_to(stream, [&] { fill_rows(destination, value, extent, stream); });
}
