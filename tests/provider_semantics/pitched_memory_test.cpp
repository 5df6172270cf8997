// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <array>
#include <cstddef>

#include "fixtures.hpp"
#include "rules.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t width = 16;
constexpr std::size_t height = 4;
constexpr std::size_t depth = 3;
constexpr std::size_t pitch = 256;

using plane = std::array<unsigned char, width * height>;
using space = std::array<unsigned char, width * height * depth>;

template <class Bytes>
Bytes counted() {
  Bytes made{};
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<unsigned char>(i + 1);
  return made;
}

hipMemcpy3DParms space_to(void* device, void* host, hipMemcpyKind kind) {
  hipMemcpy3DParms what{};
  what.srcPtr = {host, width, width, height};
  what.dstPtr = {device, pitch, width, height};
  what.extent = {width, height, depth};
  what.kind = kind;
  return what;
}

HIP_MEMCPY3D described_to(void* device, const void* host) {
  HIP_MEMCPY3D what{};
  what.srcMemoryType = hipMemoryTypeHost;
  what.srcHost = host;
  what.srcPitch = width;
  what.srcHeight = height;
  what.dstMemoryType = hipMemoryTypeDevice;
  what.dstDevice = device;
  what.dstPitch = pitch;
  what.dstHeight = height;
  what.WidthInBytes = width;
  what.Height = height;
  what.Depth = depth;
  return what;
}

}  // namespace

TEST_CASE("pitched memory: its arguments") {
  void* made = nullptr;
  std::size_t told = 0;
  hipPitchedPtr volume{};
  check_rules({
      {"no pointer", [&] { return hipMallocPitch(nullptr, &told, 8, 8); }},
      {"no pitch", [&] { return hipMallocPitch(&made, nullptr, 8, 8); }},
      {"a width beyond all pitches",
       [&] { return hipMallocPitch(&made, &told, ~std::size_t{0}, 1); }},
      {"elements of 3 bytes",
       [&] { return hipMemAllocPitch(reinterpret_cast<hipDeviceptr_t*>(&made), &told, 8, 8, 3); }},
      {"no volume",
       [&] {
         return hipMalloc3D(nullptr, {8, 8, 8});
       }},
      {"more bytes than a number holds",
       [&] {
         return hipMalloc3D(&volume, {8, std::size_t{1} << 40U, std::size_t{1} << 40U});
       },
       hipErrorOutOfMemory},
  });
  made = &told;
  REQUIRE(hipMallocPitch(&made, &told, 0, 8) == hipSuccess);
  CHECK(made == nullptr);
}

TEST_CASE("pitched memory: holds rows of its pitch") {
  void* made = nullptr;
  std::size_t told = 0;
  REQUIRE(hipMallocPitch(&made, &told, 100, 10) == hipSuccess);
  CHECK(told >= 100);
  CHECK(hipMemset2D(made, told, 7, 100, 10) == hipSuccess);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(byte_at(static_cast<std::byte*>(made) + 9 * told + 99) == 7);
  CHECK(hipFree(made) == hipSuccess);
  hipPitchedPtr volume{};
  REQUIRE(hipMalloc3D(&volume, {100, 10, 3}) == hipSuccess);
  CHECK(volume.xsize == 100);
  CHECK(volume.ysize == 10);
  CHECK(hipMemset3D(volume, 9, {100, 10, 3}) == hipSuccess);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(byte_at(static_cast<std::byte*>(volume.ptr) + 29 * volume.pitch + 99) == 9);
  CHECK(hipFree(volume.ptr) == hipSuccess);
}

TEST_CASE("copy of rows: carries the rows and leaves what is between them") {
  const allocation first{pitch * height};
  const allocation second{2 * pitch * height};
  REQUIRE(fill_and_wait(second.get(), 0xEE, 2 * pitch * height) == hipSuccess);
  plane sent = counted<plane>();
  plane got{};
  REQUIRE(hipMemcpy2D(first.get(), pitch, sent.data(), width, width, height,
                      hipMemcpyHostToDevice) == hipSuccess);
  REQUIRE(hipMemcpy2D(second.get(), 2 * pitch, first.get(), pitch, width, height,
                      hipMemcpyDeviceToDevice) == hipSuccess);
  REQUIRE(hipMemcpy2D(got.data(), width, second.get(), 2 * pitch, width, height,
                      hipMemcpyDefault) == hipSuccess);
  CHECK(got == sent);
  CHECK(byte_at(second.get() + width) == 0xEE);
  CHECK(byte_at(second.get() + 2 * pitch - 1) == 0xEE);
}

TEST_CASE("copy of rows: its arguments") {
  const allocation device{pitch * height};
  plane host{};
  const auto copy = [&](void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                        int kind = hipMemcpyHostToDevice, std::size_t bytes = width) {
    return hipMemcpy2D(to, to_pitch, from, from_pitch, bytes, height, no_such<hipMemcpyKind>(kind));
  };
  check_rules({
      {"no bytes", [&] { return copy(nullptr, pitch, host.data(), width, 1, 0); }, hipSuccess},
      {"to null", [&] { return copy(nullptr, pitch, host.data(), width); }},
      {"from null", [&] { return copy(device.get(), pitch, nullptr, width); }},
      {"rows of the target that overlap",
       [&] { return copy(device.get(), width - 1, host.data(), width); },
       hipErrorInvalidPitchValue},
      {"rows of the source that overlap",
       [&] { return copy(device.get(), pitch, host.data(), width - 1); },
       hipErrorInvalidPitchValue},
      {"no such kind", [&] { return copy(device.get(), pitch, host.data(), width, 77); },
       hipErrorInvalidMemcpyDirection},
      {"a host address by name of the device",
       [&] { return copy(device.get(), pitch, host.data(), width, hipMemcpyDeviceToDevice); }},
  });
}

TEST_CASE("copy of slices: carries each, from and to where it says") {
  const allocation device{2 * pitch * height * depth};
  space sent = counted<space>();
  hipMemcpy3DParms what = space_to(device.get(), sent.data(), hipMemcpyHostToDevice);
  REQUIRE(hipMemcpy3D(&what) == hipSuccess);
  CHECK(byte_at(device.get() + pitch * height) == width * height + 1);
  CHECK(byte_at(device.get() + pitch * (height * depth - 1) + width - 1) == sent.back());
  what.dstPos = {8, 1, 1};
  REQUIRE(hipMemcpy3D(&what) == hipSuccess);
  CHECK(byte_at(device.get() + pitch * (height + 1) + 8) == 1);
  check_rules({
      {"null", [] { return hipMemcpy3D(nullptr); }},
      {"no such kind",
       [&] {
         hipMemcpy3DParms bad = what;
         bad.kind = no_such<hipMemcpyKind>(77);
         return hipMemcpy3D(&bad);
       },
       hipErrorInvalidMemcpyDirection},
      {"rows longer than a pitch",
       [&] {
         hipMemcpy3DParms bad = what;
         bad.extent.width = width + 1;
         return hipMemcpy3D(&bad);
       }},
      {"a pitch shorter than the rows",
       [&] {
         hipMemcpy3DParms bad = what;
         bad.dstPtr.pitch = width - 1;
         return hipMemcpy3D(&bad);
       },
       hipErrorInvalidPitchValue},
      {"no target",
       [&] {
         hipMemcpy3DParms bad = what;
         bad.dstPtr.ptr = nullptr;
         return hipMemcpy3D(&bad);
       }},
      {"nothing",
       [&] {
         hipMemcpy3DParms none = what;
         none.extent.depth = 0;
         return hipMemcpy3D(&none);
       },
       hipSuccess},
  });
}

TEST_CASE("copy of slices: as the driver describes it") {
  const allocation device{pitch * height * (depth + 1)};
  space sent = counted<space>();
  HIP_MEMCPY3D what = described_to(device.get(), sent.data());
  REQUIRE(hipDrvMemcpy3D(&what) == hipSuccess);
  CHECK(byte_at(device.get() + pitch * height) == width * height + 1);
  what.dstXInBytes = 3;
  what.dstZ = 1;
  REQUIRE(hipDrvMemcpy3D(&what) == hipSuccess);
  CHECK(byte_at(device.get() + pitch * height + 3) == 1);
  hip_Memcpy2D plane_of{};
  plane_of.srcMemoryType = hipMemoryTypeHost;
  plane_of.srcHost = sent.data();
  plane_of.dstMemoryType = hipMemoryTypeDevice;
  plane_of.dstDevice = device.get();
  plane_of.dstPitch = pitch;
  plane_of.dstY = 2;
  plane_of.WidthInBytes = width;
  plane_of.Height = 2;
  REQUIRE(hipMemcpyParam2D(&plane_of) == hipSuccess);  // without a pitch rows lie end to end
  CHECK(byte_at(device.get() + 3 * pitch) == width + 1);
  check_rules({
      {"null", [] { return hipDrvMemcpy3D(nullptr); }},
      {"null", [] { return hipMemcpyParam2D(nullptr); }},
      {"slices lower than the rows",
       [&] {
         HIP_MEMCPY3D bad = described_to(device.get(), sent.data());
         bad.srcHeight = height - 1;
         return hipDrvMemcpy3D(&bad);
       }},
      {"no source",
       [&] {
         hip_Memcpy2D bad = plane_of;
         bad.srcHost = nullptr;
         return hipMemcpyParam2D(&bad);
       }},
      {"no such memory",
       [&] {
         hip_Memcpy2D bad = plane_of;
         bad.srcMemoryType = no_such<hipMemoryType>(77);
         return hipMemcpyParam2D(&bad);
       }},
  });
}

TEST_CASE("copy of rows: pageable memory has been read when the call returns") {
  const allocation device{pitch * height};
  const own_stream stream;
  plane host = counted<plane>();
  {
    const held back{stream.get()};
    REQUIRE(hipMemcpy2DAsync(device.get(), pitch, host.data(), width, width, height,
                             hipMemcpyHostToDevice, stream.get()) == hipSuccess);
    host.fill(0);
  }
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(byte_at(device.get() + 3 * pitch + width - 1) == width * height);
}

TEST_CASE("copy of rows: a capture records one node for each call") {
  const allocation device{pitch * height * depth};
  plane host = counted<plane>();
  const own_stream stream;
  const hipPitchedPtr volume{device.get(), pitch, width, height};
  REQUIRE(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  REQUIRE(hipMemset3DAsync(volume, 5, {width, height, depth}, stream.get()) == hipSuccess);
  REQUIRE(hipMemcpy2DAsync(device.get(), pitch, host.data(), width, width, height,
                           hipMemcpyHostToDevice, stream.get()) == hipSuccess);
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(stream.get(), &graph) == hipSuccess);
  hipGraphExec_t exec = nullptr;
  REQUIRE(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == hipSuccess);
  REQUIRE(hipGraphLaunch(exec, stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(byte_at(device.get() + pitch) == width + 1);
  CHECK(byte_at(device.get() + 2 * pitch * height + width - 1) == 5);
  std::size_t nodes = 0;
  REQUIRE(hipGraphGetNodes(graph, nullptr, &nodes) == hipSuccess);
  if (!on_cuda) CHECK(nodes == 2);
  CHECK(hipGraphExecDestroy(exec) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

TEST_CASE("fill of rows: its arguments") {
  const allocation device{pitch * height};
  check_rules({
      {"no bytes", [&] { return hipMemset2D(nullptr, pitch, 1, 0, height); }, hipSuccess},
      {"null", [&] { return hipMemset2D(nullptr, pitch, 1, width, height); }},
      {"rows that overlap", [&] { return hipMemset2D(device.get(), width - 1, 1, width, height); }},
      {"a volume of null",
       [&] {
         return hipMemset3D({nullptr, pitch, width, height}, 1, {8, 2, 1});
       }},
      {"a volume of rows that overlap",
       [&] {
         return hipMemset3D({device.get(), 7, 7, height}, 1, {8, 2, 1});
       }},
  });
}
