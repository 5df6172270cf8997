// SPDX-License-Identifier: MIT
#include <limits>

#include "api/copy.hpp"
#include "api/memory.hpp"
#include "base/enum_value.hpp"
#include "machine/call.hpp"

// The header that declares it needs kernels' types.
extern "C" [[gnu::visibility("default")]] hipChannelFormatDesc hipCreateChannelDesc(
    int x, int y, int z, int w, hipChannelFormatKind kind);

namespace hipvmm::host_provider {
namespace {

constexpr std::size_t pitch_unit = 256;  // AMD's

std::size_t product_of(std::size_t a, std::size_t b) {
  require(b == 0 || a <= std::numeric_limits<std::size_t>::max() / b, hipErrorOutOfMemory);
  return a * b;
}

void* allocate_rows(runtime& machine, std::size_t& pitch, const hipExtent& extent) {
  require(extent.width <= std::numeric_limits<std::size_t>::max() - (pitch_unit - 1));
  pitch = (extent.width + pitch_unit - 1) / pitch_unit * pitch_unit;
  return allocate_now(machine, product_of(product_of(pitch, extent.height), extent.depth));
}

hipError_t allocate_plane(runtime& machine, void** pointer, std::size_t* pitch, std::size_t width,
                          std::size_t height) {
  require(pointer != nullptr && pitch != nullptr);
  *pointer = nullptr;
  if (width == 0 || height == 0) return hipSuccess;  // the pitch stays as it was
  *pointer = allocate_rows(machine, *pitch, {width, height, 1});
  return hipSuccess;
}

hipError_t copy_plane(runtime& machine, const copy_arguments& what, int kind, hipStream_t stream,
                      copy_wait until) {
  require(is_copy_kind(kind), hipErrorInvalidMemcpyDirection);
  const bool is_empty = what.bytes == 0 || what.pieces.rows == 0;
  require(
      is_empty || (what.bytes <= what.destination_apart.row && what.bytes <= what.source_apart.row),
      hipErrorInvalidPitchValue);
  return copy_memory(machine, what, kind, stream, until);
}

/// One side of a copy of rows, in bytes and rows from its start.
struct rows_of_side {
  const void* start;
  std::size_t pitch;
  std::size_t height;
  std::size_t x;
  std::size_t y;
  std::size_t z;

  [[nodiscard]] pitches apart() const noexcept { return {pitch, pitch * height}; }
  [[nodiscard]] const void* first() const noexcept {
    return pointer_to(address_of(start) + x + pitch * (y + height * z));
  }
  // The offset of the first byte is not checked.
  [[nodiscard]] bool has_room_for(const hipExtent& extent) const noexcept {
    return extent.width <= pitch && extent.height <= height;
  }
};

hipError_t copy_rows(runtime& machine, const rows_of_side& to, const rows_of_side& from,
                     const hipExtent& extent, int kind, hipStream_t stream, copy_wait until) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return hipSuccess;
  require(to.start != nullptr && from.start != nullptr);
  require(to.has_room_for(extent) && from.has_room_for(extent));
  return copy_memory(machine,
                     {const_cast<void*>(to.first()),
                      from.first(),
                      extent.width,
                      {extent.height, extent.depth},
                      to.apart(),
                      from.apart()},
                     kind, stream, until);
}

// Without a height the rows of a slice follow those of the one before.
rows_of_side side_of(const hipPitchedPtr& side, const hipPos& at, std::size_t height) noexcept {
  return {side.ptr, side.pitch, side.ysize != 0 ? side.ysize : height, at.x, at.y, at.z};
}

hipError_t copy_space(runtime& machine, const hipMemcpy3DParms* what, hipStream_t stream,
                      copy_wait until) {
  require(what != nullptr);
  require(is_copy_kind(value_of(what->kind)), hipErrorInvalidMemcpyDirection);
  // No function here makes arrays.
  require(what->srcArray == nullptr && what->dstArray == nullptr);
  require(what->srcPtr.ptr != nullptr && what->dstPtr.ptr != nullptr);
  for (const hipPitchedPtr* const side : {&what->srcPtr, &what->dstPtr})
    require(side->xsize <= side->pitch, hipErrorInvalidPitchValue);
  return copy_rows(machine, side_of(what->dstPtr, what->dstPos, what->extent.height),
                   side_of(what->srcPtr, what->srcPos, what->extent.height), what->extent,
                   value_of(what->kind), stream, until);
}

bool is_named_type(int type) noexcept {
  return type == hipMemoryTypeHost || type == hipMemoryTypeDevice || type == hipMemoryTypeUnified;
}

int kind_of(int to, int from) noexcept {
  if (to == hipMemoryTypeUnified || from == hipMemoryTypeUnified) return hipMemcpyDefault;
  if (from == hipMemoryTypeHost)
    return to == hipMemoryTypeHost ? hipMemcpyHostToHost : hipMemcpyHostToDevice;
  return to == hipMemoryTypeHost ? hipMemcpyDeviceToHost : hipMemcpyDeviceToDevice;
}

/// A copy by one of the driver's structures, which have two addresses of each side, and name the
/// one that counts.
template <class Description>
hipError_t copy_described(runtime& machine, const Description& what, const hipExtent& extent,
                          std::size_t to_height, std::size_t from_height, std::size_t to_z,
                          std::size_t from_z, hipStream_t stream, copy_wait until) {
  const int to_type = value_of(what.dstMemoryType);
  const int from_type = value_of(what.srcMemoryType);
  require(is_named_type(to_type) && is_named_type(from_type));
  const auto given = [](std::size_t number, std::size_t otherwise) {
    return number != 0 ? number : otherwise;
  };
  const rows_of_side to{to_type == hipMemoryTypeHost ? what.dstHost : what.dstDevice,
                        given(what.dstPitch, extent.width),
                        given(to_height, extent.height),
                        what.dstXInBytes,
                        what.dstY,
                        to_z};
  const rows_of_side from{from_type == hipMemoryTypeHost ? what.srcHost : what.srcDevice,
                          given(what.srcPitch, extent.width),
                          given(from_height, extent.height),
                          what.srcXInBytes,
                          what.srcY,
                          from_z};
  return copy_rows(machine, to, from, extent, kind_of(to_type, from_type), stream, until);
}

hipError_t copy_described(runtime& machine, const hip_Memcpy2D* what, hipStream_t stream,
                          copy_wait until) {
  require(what != nullptr);
  return copy_described(machine, *what, {what->WidthInBytes, what->Height, 1}, 0, 0, 0, 0, stream,
                        until);
}

hipError_t copy_described(runtime& machine, const HIP_MEMCPY3D* what, hipStream_t stream,
                          copy_wait until) {
  require(what != nullptr);
  return copy_described(machine, *what, {what->WidthInBytes, what->Height, what->Depth},
                        what->dstHeight, what->srcHeight, what->dstZ, what->srcZ, stream, until);
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

hipError_t hipMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return call(__func__, [&](runtime& machine) {
    return allocate_plane(machine, pointer, pitch, width, height);
  });
}

hipError_t hipMemAllocPitch(hipDeviceptr_t* pointer, size_t* pitch, size_t width, size_t height,
                            unsigned int element_bytes) {
  return call(__func__, [&](runtime& machine) {
    require(element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
    return allocate_plane(machine, pointer, pitch, width, height);
  });
}

hipError_t hipMalloc3D(hipPitchedPtr* memory, hipExtent extent) {
  return call(__func__, [&](runtime& machine) {
    require(memory != nullptr);
    hipPitchedPtr made{nullptr, 0, extent.width, extent.height};
    made.ptr = allocate_rows(machine, made.pitch, extent);
    *memory = made;
    return hipSuccess;
  });
}

hipError_t hipMemcpy2D(void* destination, size_t destination_pitch, const void* source,
                       size_t source_pitch, size_t width, size_t height, hipMemcpyKind kind) {
  return call(__func__, [&](runtime& machine) {
    return copy_plane(
        machine, {destination, source, width, {height, 1}, {destination_pitch}, {source_pitch}},
        value_of(kind), nullptr, copy_wait::finished);
  });
}

hipError_t hipMemcpy2DAsync(void* destination, size_t destination_pitch, const void* source,
                            size_t source_pitch, size_t width, size_t height, hipMemcpyKind kind,
                            hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_plane(
        machine, {destination, source, width, {height, 1}, {destination_pitch}, {source_pitch}},
        value_of(kind), stream, copy_wait::none);
  });
}

hipError_t hipMemcpy3D(const hipMemcpy3DParms* what) {
  return call(__func__, [&](runtime& machine) {
    return copy_space(machine, what, nullptr, copy_wait::finished);
  });
}

hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* what, hipStream_t stream) {
  return call(__func__,
              [&](runtime& machine) { return copy_space(machine, what, stream, copy_wait::none); });
}

hipError_t hipMemcpyParam2D(const hip_Memcpy2D* what) {
  return call(__func__, [&](runtime& machine) {
    return copy_described(machine, what, nullptr, copy_wait::finished);
  });
}

hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* what, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_described(machine, what, stream, copy_wait::none);
  });
}

hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* what) {
  return call(__func__, [&](runtime& machine) {
    return copy_described(machine, what, nullptr, copy_wait::finished);
  });
}

hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* what, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_described(machine, what, stream, copy_wait::none);
  });
}
