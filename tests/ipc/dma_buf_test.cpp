// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/dma_buf.hpp>

#include <sys/mman.h>

#include <hipvmm/ipc/export_kind.hpp>
#include "core/descriptors.hpp"
#include "ipc/ipc_test.hpp"

namespace hipvmm::test {
namespace {

/// A descriptor that can be told from others by its size.
shareable_handle file_of(std::size_t bytes) {
  const int file = ::memfd_create("dma_buf_test", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(::ftruncate(file, static_cast<off_t>(bytes)) == 0);
  return shareable_handle{file, bytes};
}

/// A machine that is not there: chunks of 1, 2, 1 and 4 units, the third on another device, and one
/// more behind a gap.
struct pretended {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t unit = 16 * page;
  char* const base = reinterpret_cast<char*>(std::uintptr_t{1} << 40U);
  std::vector<chunk_view> chunks;
  std::vector<std::uint64_t> since;
  struct range {
    std::size_t offset;
    std::size_t bytes;
    int device;
    bool operator==(const range&) const = default;
  };
  std::vector<range> asked;
  std::size_t refused_above = SIZE_MAX;  // a range of more bytes fails
  bool is_refused_as_unsupported = false;
  detail::dma_buf_source source{
      export_kind::driver_file,
      [this](std::uint64_t serial) {
        since.push_back(serial);
        std::vector<exported_chunk> result;
        for (const chunk_view& each : chunks)
          if (each.serial > serial)
            result.push_back({each.offset, each.serial, file_of(each.bytes)});
        return result;
      },
      [this](const void* address, std::size_t bytes, device_ref device) {
        const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - base);
        asked.push_back({offset, bytes, device.ordinal()});
        if (bytes > refused_above && is_refused_as_unsupported) throw unsupported{"no dma-buf"};
        if (bytes > refused_above) throw hip_error{1, "hipMemGetHandleForAddressRange", "", 0};
        return file_of(bytes);
      }};

  pretended() {
    add(0, 1, 0);
    add(1, 2, 0);
    add(3, 1, 1);
    add(4, 4, 0);
    add(9, 1, 0);
  }

  void add(std::size_t first, std::size_t units, int device) {
    const device_ref owner{device};
    chunks.push_back({first * unit, units * unit, base + first * unit, owner, nullptr,
                      10 - chunks.size(), owner});
  }

  /// The exports of [offset, offset + bytes), checked to be without a gap.
  std::vector<dma_buf> parts(std::size_t offset, std::size_t bytes) {
    std::vector<dma_buf> result = detail::dma_bufs_of(chunks, base + offset, bytes, source);
    const char* next = base + offset;
    for (const dma_buf& each : result) {
      CHECK(each.address == next);
      CHECK(each.offset + each.bytes <= each.handle.bytes());
      CHECK(detail::bytes_behind(each.handle.get()) == each.handle.bytes());
      next += each.bytes;
    }
    CHECK(next == base + offset + bytes);
    return result;
  }
};

TEST_CASE_FIXTURE(pretended, "dma_bufs: one range for all neighbouring chunks of a device") {
  CHECK(parts(0, 8 * unit).size() == 3);
  CHECK(asked ==
        std::vector<range>{{0, 3 * unit, 0}, {3 * unit, unit, 1}, {4 * unit, 4 * unit, 0}});
  CHECK(since.empty());  // no chunk was exported
}

TEST_CASE_FIXTURE(pretended, "dma_bufs: a range of whole pages holds what is asked for") {
  const std::vector<dma_buf> found = parts(unit / 2 + 100, unit);
  REQUIRE(found.size() == 1);
  CHECK(found[0].offset == 100);
  CHECK(found[0].bytes == unit);
  CHECK(asked == std::vector<range>{{unit / 2, unit + page, 0}});
  asked.clear();
  CHECK(parts(8 * unit - 1, 1)[0].offset == page - 1);
  CHECK(asked == std::vector<range>{{8 * unit - page, page, 0}});
}

TEST_CASE_FIXTURE(pretended, "dma_bufs: chunks that cannot be in one range are in one each") {
  for (const bool as_unsupported : {false, true}) {
    is_refused_as_unsupported = as_unsupported;
    refused_above = 2 * unit;
    asked.clear();
    const std::vector<dma_buf> found = parts(0, 4 * unit);
    REQUIRE(found.size() == 3);
    CHECK(found[1].bytes == 2 * unit);
    CHECK(asked == std::vector<range>{
                       {0, 3 * unit, 0}, {0, unit, 0}, {unit, 2 * unit, 0}, {3 * unit, unit, 1}});
  }
  // The last has no smaller parts.
  CHECK_THROWS_AS(parts(4 * unit, 4 * unit), unsupported);
  is_refused_as_unsupported = false;
  CHECK_THROWS_AS(parts(4 * unit, 4 * unit), hip_error);
}

TEST_CASE_FIXTURE(pretended, "dma_bufs: where chunks are dma-bufs, theirs and the offset in each") {
  source.kind = export_kind::dma_buf;
  const std::vector<dma_buf> found = parts(unit + 100, 2 * unit);
  REQUIRE(found.size() == 2);
  CHECK(found[0].offset == 100);
  CHECK(found[0].handle.bytes() == 2 * unit);
  CHECK(found[1].offset == 0);
  CHECK(found[1].bytes == 100);
  CHECK(found[1].handle.bytes() == unit);
  CHECK(asked.empty());
  CHECK(since == std::vector<std::uint64_t>{7});  // the older of serials 9 and 8, less one
}

TEST_CASE_FIXTURE(pretended, "dma_bufs: bytes that are not there") {
  for (const auto& [offset, bytes] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 0}, {8 * unit, 1}, {0, 8 * unit + 1}, {7 * unit, 3 * unit}, {20 * unit, 1}})
    CHECK_THROWS_AS(parts(offset, bytes), std::invalid_argument);
  CHECK_THROWS_WITH_AS(parts(7 * unit, 2 * unit),
                       doctest::Contains((" only " + std::to_string(unit) + " are").c_str()),
                       std::invalid_argument);
}

TEST_CASE_FIXTURE(pretended, "dma_bufs: descriptors that are none") {
  source.kind = export_kind::memory_file;
  CHECK_THROWS_WITH_AS(parts(0, unit), doctest::Contains("memory files"), unsupported);
  source.kind = export_kind::unknown;
  CHECK_THROWS_WITH_AS(parts(0, unit), doctest::Contains("/proc"), unsupported);
}

TEST_SUITE_BEGIN("needs virtual memory");

/// Exports by `make`, which this machine may not be able to; then ends the case.
#define HIPVMM_REQUIRE_DMA_BUFS(name, make)          \
  std::vector<dma_buf> name;                         \
  try {                                              \
    (name) = make;                                   \
  } catch (const unsupported& error) {               \
    MESSAGE("skipped: ", std::string{error.what()}); \
    return;                                          \
  }

void check_dma_bufs(const std::vector<dma_buf>& found, const void* start, std::size_t bytes) {
  const char* next = static_cast<const char*>(start);
  for (const dma_buf& each : found) {
    CHECK(kind_of(each.handle) == export_kind::dma_buf);
    CHECK(each.address == next);
    CHECK(each.offset + each.bytes <= each.handle.bytes());
    if (const auto there = detail::bytes_behind(each.handle.get()); there)
      CHECK(*there == each.handle.bytes());
    next += each.bytes;
  }
  CHECK(next == static_cast<const char*>(start) + bytes);
}

TEST_CASE("export_dma_bufs: a part of a region, over two chunks") {
  const std::size_t unit = granule();
  region memory{first_device, 4 * unit, shareable_chunks()};
  memory.commit(0, unit);
  memory.commit(unit, unit);
  CHECK_THROWS_AS(static_cast<void>(export_dma_bufs(memory, 0, 0)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(export_dma_bufs(memory, unit, 2 * unit)),
                  std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(export_dma_bufs(memory, 0, 5 * unit)), std::out_of_range);
  HIPVMM_REQUIRE_DMA_BUFS(found, export_dma_bufs(memory, unit - 100, 200));
  MESSAGE("200 bytes over two chunks are in ", found.size(), " dma-bufs");
  check_dma_bufs(found, static_cast<char*>(memory.base()) + unit - 100, 200);
  // It keeps the memory.
  memory.decommit(0, 2 * unit);
  check_dma_bufs(found, static_cast<char*>(memory.base()) + unit - 100, 200);
}

TEST_CASE("export_dma_bufs: a vector that grew, and a block of a pool") {
  const stream work{first_device};
  const growth_options options{.chunks = {.shareable = handle_type::posix_fd}};
  growable_device_vector<int> numbers{first_device, options};
  CHECK_THROWS_AS(static_cast<void>(export_dma_bufs(numbers)), std::invalid_argument);
  numbers.resize(1000, 1, work);
  numbers.resize(3 * granule() / sizeof(int), 2, work);
  HIPVMM_REQUIRE_DMA_BUFS(all, export_dma_bufs(numbers));
  check_dma_bufs(all, numbers.data(), numbers.size() * sizeof(int));

  mr::vmm_pool_resource pool{first_device, {.shareable = handle_type::posix_fd}};
  void* const block = pool.allocate(work, 5000);
  const std::size_t bytes = pool.export_block(block).bytes;
  CHECK(bytes >= 5000);
  check_dma_bufs(export_dma_bufs(pool, block), block, bytes);
  CHECK_THROWS_AS(static_cast<void>(export_dma_bufs(pool, static_cast<char*>(block) + 256)),
                  std::invalid_argument);
  pool.deallocate(work, block, 5000);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
