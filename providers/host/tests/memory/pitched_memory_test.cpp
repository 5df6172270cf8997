// SPDX-License-Identifier: MIT
// Copies and fills of rows that a device lets pass. tests/provider_semantics has the answers common
// to all.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "providers/host/tests/fixtures.hpp"
#include "support/host/host_provider.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t width = 16;
constexpr std::size_t pitch = 256;

}  // namespace

TIDY_CASE("hipMallocPitch: takes the rows and their pitch, and nothing where it fails") {
  void* made = nullptr;
  std::size_t told = 0;
  REQUIRE(hipMallocPitch(&made, &told, 100, 10) == hipSuccess);
  CHECK(told == pitch);
  std::size_t bytes = 0;
  REQUIRE(hipMemPtrGetInfo(made, &bytes) == hipSuccess);
  CHECK(bytes == 10 * pitch);
  CHECK(hipFree(made) == hipSuccess);
  check_refusals({{"more than the device has", hipMallocPitch(&made, &told, device_budget, 2),
                   hipErrorOutOfMemory},
                  {"more than a number holds",
                   hipMallocPitch(&made, &told, std::size_t{1} << 40U, std::size_t{1} << 40U),
                   hipErrorOutOfMemory}});
  CHECK(made == nullptr);
}

TIDY_CASE(
    "hipMemcpy2D, hipMemset2D: a row outside of the memory is refused, and nothing is written") {
  const allocation rows{16 * pitch};
  const auto at = [&](std::size_t row, std::size_t byte = 0) {
    return rows.at(row * pitch + byte);
  };
  std::array<std::byte, 32 * width> host{};
  const auto copy = [&](std::byte* to, std::size_t apart, std::size_t count) {
    return hipMemcpy2D(to, apart, host.data(), width, width, count, hipMemcpyHostToDevice);
  };
  REQUIRE(fill_and_wait(at(0), 1, 16 * pitch) == hipSuccess);
  check_refusals({
      {"the last row begins behind the end", copy(at(0), pitch, 17)},
      {"the last row ends behind the end", copy(at(15, pitch - width + 1), pitch, 1)},
      {"a pitch that leads out", copy(at(0), 16 * pitch, 2)},
      {"a pitch that wraps around", copy(at(1), ~std::size_t{0} - pitch + 1, 2)},
      {"from behind the end",
       hipMemcpy2D(host.data(), width, at(0), pitch, width, 17, hipMemcpyDeviceToHost)},
      {"more rows than any memory has", hipMemcpy2D(host.data(), width, at(0), pitch, width,
                                                    std::size_t{1} << 40U, hipMemcpyDeviceToHost)},
      {"a fill", hipMemset2D(at(0), pitch, 7, width, 17)},
      {"a fill of slices", hipMemset3D({at(0), pitch, width, 8}, 7, {width, 8, 3})},
      {"memory of nobody", hipMemset2D(host.data(), width, 7, width, 2)},
  });
  CHECK(*at(0) == std::byte{1});
  CHECK(*at(15, pitch - 1) == std::byte{1});
}

TIDY_CASE("hipMemcpy3D: a copy from pageable memory of any size has what the memory held") {
  // Within the limit of the bytes kept aside, and beyond it.
  for (const std::size_t slices : {std::size_t{2}, std::size_t{64}}) {
    const std::size_t bytes = 1024;
    const std::size_t lines = 8;
    std::vector<unsigned char> host(bytes * lines * slices);
    for (std::size_t i = 0; i < host.size(); ++i)
      host[i] = static_cast<unsigned char>(i * 7 + i / bytes);
    hipPitchedPtr to{};
    REQUIRE(hipMalloc3D(&to, {bytes - 24, lines, slices}) == hipSuccess);
    hipMemcpy3DParms what{};
    what.srcPtr = {host.data(), bytes, bytes, lines};
    what.dstPtr = to;
    what.extent = {bytes - 24, lines, slices};
    what.kind = hipMemcpyHostToDevice;
    const std::vector<unsigned char> sent = host;
    REQUIRE(hipMemcpy3DAsync(&what, nullptr) == hipSuccess);
    std::fill(host.begin(), host.end(), static_cast<unsigned char>(0));
    REQUIRE(hipDeviceSynchronize() == hipSuccess);
    bool same = true;
    for (std::size_t line = 0; line < lines * slices; ++line)
      same = same && std::memcmp(static_cast<unsigned char*>(to.ptr) + line * to.pitch,
                                 sent.data() + line * bytes, bytes - 24) == 0;
    CHECK(same);
    CHECK(hipFree(to.ptr) == hipSuccess);
  }
}

TIDY_CASE("hipMemcpy2D: the rights to mapped memory count for each row") {
  const mapped two{2 * granule};
  std::array<std::byte, 2 * width> host{};
  const auto copy = [&](hipMemcpyKind kind) {
    return kind == hipMemcpyHostToDevice
               ? hipMemcpy2D(two.at(), granule, host.data(), width, width, 2, kind)
               : hipMemcpy2D(host.data(), width, two.at(), granule, width, 2, kind);
  };
  CHECK(copy(hipMemcpyHostToDevice) == hipSuccess);
  two.give(0, hipMemAccessFlagsProtRead);
  CHECK(copy(hipMemcpyHostToDevice) == hipErrorInvalidValue);
  CHECK(copy(hipMemcpyDeviceToHost) == hipSuccess);
}

WORK_CASE("hipMemset2DAsync: a row that is unmapped meanwhile is an error of the stream") {
  mapped some{granule};
  hipvmm_host_hold_streams();
  {
    const unordered_on_purpose taken_away;
    CHECK(hipMemset2DAsync(some.at(), granule / 2, 1, width, 2, work.get()) == hipSuccess);
    some.unmap();
  }
  hipvmm_host_release_streams();
  CHECK(work.wait() == hipErrorIllegalAddress);
}
