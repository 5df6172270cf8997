// SPDX-License-Identifier: MIT
// Chunks as fabric handles: plain bytes in place of a descriptor.
#include <hipvmm/ipc/export_kind.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "ipc/ipc_test.hpp"

namespace hipvmm::test {
namespace {

// Of the host provider; nothing to others, whose machine can or cannot.
constexpr const char* with_fabric = "HIPVMM_HOST_FABRIC=1";
constexpr const char* handle_variable = "HIPVMM_TEST_FABRIC_HANDLE";

region_options made_as(handle_type shareable) { return region_options{.shareable = shareable}; }

std::string in_hex(const fabric_handle& handle) {
  std::string result;
  for (const unsigned each : handle.data) {
    result += "0123456789abcdef"[each / 16];
    result += "0123456789abcdef"[each % 16];
  }
  return result;
}

fabric_handle from_hex(const std::string& text, std::size_t bytes) {
  fabric_handle result;
  result.bytes = bytes;
  for (std::size_t i = 0; i < result.data.size(); ++i)
    result.data[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return result;
}

#define HIPVMM_REQUIRE_FABRIC                                                \
  if (!exports_fabric(first_device)) {                                       \
    MESSAGE("skipped: device 0 exports no chunks with fabric handles here"); \
    return;                                                                  \
  }

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("fabric: what was made without it is not exported so") {
  physical_chunk as_descriptor{first_device, granule(), handle_type::posix_fd};
  CHECK_THROWS_WITH_AS(static_cast<void>(export_fabric(as_descriptor)),
                       doctest::Contains("handle_type::fabric"), std::invalid_argument);
  CHECK_FALSE(as_descriptor.shared());
  physical_chunk nothing;
  CHECK_THROWS_AS(static_cast<void>(export_fabric(nothing)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(import_chunk(fabric_handle{}, first_device)),
                  std::invalid_argument);
  region plain{first_device, granule(), made_as(handle_type::posix_fd)};
  plain.commit(0, granule());
  CHECK_THROWS_WITH_AS(static_cast<void>(plain.export_fabric_chunks()),
                       doctest::Contains("region_options::shareable"), std::invalid_argument);
  const mr::hip_async_options pool{.shareable = handle_type::fabric};
  CHECK_THROWS_AS(mr::hip_async_resource(first_device, pool), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(exports_fabric(device_ref{99})), std::invalid_argument);
}

HIPVMM_CHILD("reads a chunk by its fabric handle") {
  const stream work{first_device};
  physical_chunk chunk =
      import_chunk(from_hex(std::getenv(handle_variable), granule()), first_device);
  CHECK(chunk.shareable() == handle_type::fabric);
  CHECK(chunk.shared());
  region seen{first_device, 2 * granule()};
  seen.adopt(0, std::move(chunk));
  CHECK(has_tag(seen, 0, 1, work));
  write_tag(seen, 0, 2, work);
  work.synchronize();
}

HIPVMM_TEST_CASE_IN("fabric: another process maps a chunk by 64 bytes", {with_fabric}) {
  HIPVMM_REQUIRE_FABRIC
  const stream work{first_device};
  region memory{first_device, 4 * granule(), made_as(handle_type::fabric)};
  memory.commit(0, granule());
  write_tag(memory, 0, 1, work);
  work.synchronize();
  const std::vector<exported_fabric_chunk> all = memory.export_fabric_chunks();
  REQUIRE(all.size() == 1);
  CHECK(all[0].offset == 0);
  CHECK(all[0].serial == memory.chunks()[0].serial);
  CHECK(all[0].handle.bytes == granule());
  CHECK(memory.export_fabric_chunks(all[0].serial).empty());
  CHECK_THROWS_AS(static_cast<void>(memory.export_chunks()), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(memory.export_range(0, 1)), std::invalid_argument);
  CHECK(passed(run_child("reads a chunk by its fabric handle",
                         {std::string{handle_variable} + "=" + in_hex(all[0].handle)})));
  CHECK(has_tag(memory, 0, 2, work));
}

HIPVMM_TEST_CASE_IN("fabric: a chunk that was asked for as both is exported as either",
                    {with_fabric}) {
  HIPVMM_REQUIRE_FABRIC
  const stream work{first_device};
  region memory{first_device, 4 * granule(), made_as(handle_type::posix_fd_and_fabric)};
  memory.commit(0, granule());
  write_tag(memory, 0, 1, work);
  work.synchronize();
  region seen{first_device, 4 * granule()};
  seen.adopt(0, import_chunk(memory.export_chunks()[0].handle, first_device));
  seen.adopt(granule(), import_chunk(memory.export_fabric_chunks()[0].handle, first_device));
  CHECK(has_tag(seen, 0, 1, work));
  // Grown and exported by vectors and pools alike.
  const growth_options growth{.chunks = {.shareable = handle_type::posix_fd_and_fabric}};
  growable_device_vector<int> numbers{first_device, growth};
  numbers.resize(10, work);
  CHECK(numbers.export_fabric_chunks().size() == numbers.export_chunks().size());
  mr::vmm_pool_resource pool{first_device, {.shareable = handle_type::fabric}};
  void* const block = pool.allocate(work, 1000);
  CHECK(pool.export_fabric_chunks().size() == pool.chunks().size());
  pool.deallocate(work, block, 1000);
}

HIPVMM_TEST_CASE_IN("fabric: a handle of nothing is refused", {with_fabric}) {
  HIPVMM_REQUIRE_FABRIC
  fabric_handle nothing;
  nothing.bytes = granule();
  CHECK_THROWS_AS(static_cast<void>(import_chunk(nothing, first_device)), hip_error);
  fabric_handle gone;
  {
    physical_chunk chunk{first_device, granule(), handle_type::fabric};
    gone = export_fabric(chunk);
    CHECK(chunk.shared());
  }
  CHECK_THROWS_AS(static_cast<void>(import_chunk(gone, first_device)), hip_error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
