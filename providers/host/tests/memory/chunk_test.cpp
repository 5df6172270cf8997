// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

std::ptrdiff_t resident_pages(const std::byte* start, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page);
  REQUIRE(::mincore(const_cast<std::byte*>(start), bytes, pages.data()) == 0);
  return std::count_if(pages.begin(), pages.end(),
                       [](unsigned char flags) { return (flags & 1U) != 0; });
}

// Pages behind all the ordinary chunks of this process.
std::size_t pages_in_device_files() {
  std::size_t blocks = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code gone;  // the descriptor of the iteration itself
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    struct stat status {};
    if (target.find("memfd:hipvmm-device") == std::string::npos) continue;
    REQUIRE(::stat(entry.path().c_str(), &status) == 0);
    blocks += static_cast<std::size_t>(status.st_blocks);
  }
  return blocks * 512 / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TIDY_CASE("chunk: its pages go back to the operating system with it") {
  const std::size_t before = pages_in_device_files();
  {
    const mapped mapping{granule};
    REQUIRE(fill_and_wait(mapping.at(), 1, granule) == hipSuccess);
    CHECK(pages_in_device_files() >= before + 512);
  }
  CHECK(pages_in_device_files() == before);
}

TIDY_CASE("chunk: untouched bytes cost nothing") {
  for (const auto type : {hipMemHandleTypeNone, hipMemHandleTypePosixFileDescriptor}) {
    const memory chunk{32 * granule, 0, type};
    const reservation addresses{32 * granule};
    REQUIRE(hipMemMap(addresses.at(), 32 * granule, 0, chunk.get(), 0) == hipSuccess);
    const hipMemAccessDesc wanted = access_of(0);
    REQUIRE(hipMemSetAccess(addresses.at(), 32 * granule, &wanted, 1) == hipSuccess);
    CHECK(resident_pages(addresses.at(), 32 * granule) == 0);
    REQUIRE(fill_and_wait(addresses.at(granule), 1, 1) == hipSuccess);
    const std::ptrdiff_t touched = resident_pages(addresses.at(), 32 * granule);
    CHECK(touched >= 1);
    CHECK(touched <= 512);  // one page, or the huge page around it
    CHECK(hipMemUnmap(addresses.at(), 32 * granule) == hipSuccess);
  }
}

TIDY_CASE("chunk: memory of a new chunk is zero, whoever had the pages before") {
  for (int round = 0; round < 3; ++round) {
    const mapped mapping{granule};
    CHECK(equal(mapping.at(), bytes_of(granule, 0)));
    REQUIRE(fill_and_wait(mapping.at(), 0xAB, granule) == hipSuccess);
  }
}

TIDY_CASE("chunk: two mappings show the same bytes") {
  const memory chunk{granule};
  const reservation addresses{2 * granule};
  const hipMemAccessDesc wanted = access_of(0);
  for (const std::size_t offset : {std::size_t{0}, granule}) {
    REQUIRE(hipMemMap(addresses.at(offset), granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemSetAccess(addresses.at(offset), granule, &wanted, 1) == hipSuccess);
  }
  const std::vector<std::byte> pattern = counted_bytes(granule);
  REQUIRE(hipMemcpy(addresses.at(), pattern.data(), granule, hipMemcpyHostToDevice) == hipSuccess);
  CHECK(equal(addresses.at(granule), pattern));
  CHECK(hipMemUnmap(addresses.at(), 2 * granule) == hipSuccess);
}

TIDY_CASE("chunk: bytes move with the chunk from one address to another") {
  const memory chunk{granule};
  const reservation addresses{2 * granule};
  const hipMemAccessDesc wanted = access_of(0);
  REQUIRE(hipMemMap(addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
  REQUIRE(hipMemSetAccess(addresses.at(), granule, &wanted, 1) == hipSuccess);
  REQUIRE(fill_and_wait(addresses.at(), 9, granule) == hipSuccess);
  REQUIRE(hipMemUnmap(addresses.at(), granule) == hipSuccess);
  REQUIRE(hipMemMap(addresses.at(granule), granule, 0, chunk.get(), 0) == hipSuccess);
  REQUIRE(hipMemSetAccess(addresses.at(granule), granule, &wanted, 1) == hipSuccess);
  CHECK(equal(addresses.at(granule), bytes_of(granule, 9)));
  CHECK(hipMemUnmap(addresses.at(granule), granule) == hipSuccess);
}
