// SPDX-License-Identifier: MIT
// Copies between devices on AMD's runtime if some devices are linked and others not: it would
// end the process, as the host provider does under the profiles of ROCm.
#include <hipvmm/runtime/copy.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/vmm/chunk_placement.hpp>
#include "support/device_bytes.hpp"
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t size = 1000;

/// Memory of two devices, of which one holds a pattern.
struct two_sides {
  device_ref from;
  device_ref to;
  device_memory source{size, from};
  device_memory target{size, to};

  two_sides(device_ref source_device, device_ref target_device)
      : from{source_device}, to{target_device} {
    const stream own{from};
    fill_async(own, source.get(), 0x42, size);
    own.synchronize();
  }
  void copy_in(stream_ref stream) const {
    copy_peer_async(stream, target.get(), to, source.get(), from, size);
    stream.synchronize();
  }
  [[nodiscard]] bool is_copied() const {
    const scoped_device scope{to};
    const stream own{to};
    return read_bytes(own, target.get(), size) == byte_vector(size, 0x42);
  }
};

}  // namespace

HIPVMM_CHILD("copies go where the links of the stream's device lead, others are refused") {
  const two_sides linked{device_ref{0}, device_ref{1}};
  const two_sides apart{device_ref{1}, device_ref{2}};
  const stream own{device_ref{0}};
  linked.copy_in(own);
  CHECK(linked.is_copied());
  for (const device_ref carrier : {device_ref{1}, device_ref{2}}) {
    const stream used{carrier};
    CHECK_THROWS_WITH_AS(apart.copy_in(used), doctest::Contains("has no link to device"),
                         unsupported);
    CHECK_THROWS_AS(copy_async(used, apart.target.get(), apart.source.get(), size), unsupported);
  }
  // Of two linked devices, in a stream of a third.
  const stream foreign{device_ref{2}};
  CHECK_THROWS_AS(linked.copy_in(foreign), unsupported);
  // A graph would end the process when it is launched.
  const stream captured{device_ref{1}};
  const scoped_device scope{device_ref{1}};
  REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeGlobal) == hipSuccess);
  CHECK_THROWS_AS(copy_async(captured, apart.target.get(), apart.source.get(), size), unsupported);
  end_capture(captured.get());
}

HIPVMM_CHILD("copies go in streams of either device, or between linked ones") {
  const two_sides linked{device_ref{0}, device_ref{1}};
  const two_sides apart{device_ref{1}, device_ref{2}};
  const stream third{device_ref{2}};
  linked.copy_in(third);
  CHECK(linked.is_copied());
  const stream either{device_ref{2}};
  apart.copy_in(either);
  CHECK(apart.is_copied());
  const stream foreign{device_ref{0}};
  CHECK_THROWS_WITH_AS(apart.copy_in(foreign), doctest::Contains("has no link to device"),
                       unsupported);
}

HIPVMM_CHILD("copies go through the host where no devices are linked") {
  const two_sides apart{device_ref{1}, device_ref{2}};
  const stream used{device_ref{1}};
  apart.copy_in(used);
  CHECK(apart.is_copied());
}

HIPVMM_CHILD("a copy goes in a stream of a device with links to both") {
  const two_sides apart{device_ref{0}, device_ref{2}};
  const stream middle{device_ref{1}};
  apart.copy_in(middle);
  CHECK(apart.is_copied());
}

HIPVMM_CHILD("a copy is refused between devices without a link in any stream") {
  const two_sides apart{device_ref{0}, device_ref{2}};
  for (int carrier = 0; carrier < 3; ++carrier) {
    const stream used{device_ref{carrier}};
    CHECK_THROWS_AS(apart.copy_in(used), unsupported);
  }
}

HIPVMM_CHILD("fills by a device without a link are refused") {
  const device_memory filled{size, device_ref{2}};
  const stream foreign{device_ref{0}};
  const std::array<unsigned char, 3> pattern{1, 2, 3};
  CHECK_THROWS_WITH_AS(fill_async(foreign, filled.get(), 1, size),
                       doctest::Contains("use a stream of device 2"), unsupported);
  CHECK_THROWS_AS(fill_pattern_async(foreign, filled.get(), pattern.data(), 3, 10), unsupported);
  CHECK_THROWS_AS(fill_pattern_async(foreign, filled.get(), pattern.data(), 2, 10), unsupported);
  const stream own{device_ref{2}};
  fill_async(own, filled.get(), 1, size);
  own.synchronize();
  CHECK(read_bytes(own, filled.get(), size) == byte_vector(size, 1));
}

/// Two stripes of devices 0 and 1, which device 2 may use as far as it has links.
growth_options two_stripes() {
  return growth_options{
      .max_bytes = 4 * granule(),
      .past_max = past_max_size::refuse,
      .chunks = {.placement = chunk_placement::striped({device_ref{0}, device_ref{1}}, granule())}};
}

HIPVMM_CHILD("each part of a range needs its link") {
  const std::size_t half = granule();
  const stream own{device_ref{0}};
  growable_device_vector<unsigned char> bytes{device_ref{0}, two_stripes()};
  bytes.resize(2 * half, 7, own);
  own.synchronize();
  unsigned char* const data = bytes.data();
  const device_memory other{2 * half, device_ref{2}};
  const stream foreign{device_ref{2}};
  const std::array<unsigned char, 3> pattern{1, 2, 3};
  // The first byte is of device 0, to which there is a link.
  CHECK_THROWS_WITH_AS(fill_async(foreign, data, 1, half + 1),
                       doctest::Contains("cannot reach memory of device 1"), unsupported);
  CHECK_THROWS_AS(fill_async(foreign, data + half - 1, 1, 2), unsupported);
  CHECK_THROWS_AS(fill_pattern_async(foreign, data, pattern.data(), 3, half), unsupported);
  CHECK_THROWS_AS(copy_async(foreign, data, other.get(), half + 1), unsupported);
  CHECK_THROWS_AS(copy_async(foreign, other.get(), data, half + 1), unsupported);
  CHECK_THROWS_AS(copy_async(foreign, data + half - 1, data, 2), unsupported);
  CHECK_THROWS_AS(bytes.resize(4 * half, 1, foreign), unsupported);
  CHECK_THROWS_AS(bytes.erase(0, 5, foreign), unsupported);
  CHECK_THROWS_AS(bytes.insert(0, 5, 1, foreign), unsupported);
  CHECK(bytes.size() == 2 * half);
  CHECK(bytes.copy_to_host(own) == byte_vector(2 * half, 7));
  // Device 0 is linked with both.
  bytes.erase(0, 5, own);
  bytes.resize(3 * half, 1, own);
  own.synchronize();
}

HIPVMM_CHILD("a part in memory of the host needs no link") {
  const stream own{device_ref{1}};
  const growth_options options{.chunks = {.placement = chunk_placement::spill(granule())}};
  growable_device_vector<unsigned char> bytes{device_ref{1}, options};
  bytes.resize(3 * granule(), 7, own);
  own.synchronize();
  CHECK(bytes.size() == 3 * granule());
  fill_async(own, bytes.data(), 1, 3 * granule());
  own.synchronize();
}

TEST_CASE("copy_async: what AMD's runtime cannot copy or fill is refused before it" *
          names_its_profiles) {
  const auto passes = [&](const std::string& profile, const std::string& links, const char* name) {
    const child_result result = run_child(
        name,
        {"HIPVMM_HOST_PROFILE=" + profile, "HIPVMM_HOST_DEVICES=3", "HIPVMM_HOST_PEERS=" + links});
    INFO(profile << ", " << links << ": " << result.output);
    CHECK(passed(result));
  };
  for (const std::string profile : {"rocm-5.7", "rocm-6.4", "rocm-7.2", "rocm-10"}) {
    passes(profile, "none", "copies go through the host where no devices are linked");
    for (const char* const links : {"none", "0-1"})
      passes(profile, links, "fills by a device without a link are refused");
    if (profile != "rocm-5.7")
      passes(profile, "0-1",
             "copies go where the links of the stream's device lead, others are refused");
  }
  for (const std::string profile : {"rocm-6.4", "rocm-7.2", "rocm-10"})
    passes(profile, "0-1,0-2", "each part of a range needs its link");
  for (const std::string profile : {"rocm-7.2", "rocm-7.14"})
    for (const char* const links : {"none", "0-2"})
      passes(profile, links, "a part in memory of the host needs no link");
  passes("rocm-5.7", "0-1", "copies go in streams of either device, or between linked ones");
  passes("rocm-6.4", "0-1,1-2", "a copy is refused between devices without a link in any stream");
  for (const std::string profile : {"rocm-7.2", "rocm-10"})
    passes(profile, "0-1,1-2", "a copy goes in a stream of a device with links to both");
}

}  // namespace hipvmm::test
