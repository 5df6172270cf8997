// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/shareable_handle.hpp>

#include <fcntl.h>
#include <unistd.h>

#include "core/descriptors.hpp"
#include "support/device_bytes.hpp"
#include "support/region/mapped_chunk.hpp"
#include "support/test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

// The descriptor that the child inherits.
constexpr int inherited = 100;

physical_chunk shareable_chunk() {
  return physical_chunk{first_device, 2 * granule(), handle_type::posix_fd};
}

TEST_CASE("shareable_handle: a default one is empty") {
  const shareable_handle handle;
  CHECK(handle.empty());
  CHECK(handle.get() == -1);
  CHECK(handle.bytes() == 0);
}

TEST_CASE("shareable_handle: an export is an open descriptor and knows the chunk's bytes") {
  physical_chunk chunk = shareable_chunk();
  const shareable_handle handle{chunk};
  CHECK(::fcntl(handle.get(), F_GETFD) >= 0);
  CHECK(handle.bytes() == chunk.bytes());
  CHECK(chunk.shared());
}

TEST_CASE("shareable_handle: a chunk that was exported and moved still says so") {
  physical_chunk chunk = shareable_chunk();
  const shareable_handle handle{chunk};
  physical_chunk constructed{std::move(chunk)};
  CHECK(constructed.shared());
  physical_chunk assigned = shareable_chunk();
  assigned = std::move(constructed);
  CHECK(assigned.shared());
}

TEST_CASE("shareable_handle: destruction closes the descriptor") {
  physical_chunk chunk = shareable_chunk();
  int descriptor = -1;
  {
    const shareable_handle handle{chunk};
    descriptor = handle.get();
  }
  CHECK(::fcntl(descriptor, F_GETFD) == -1);
}

TEST_CASE("import_chunk: a number that is no open descriptor is refused and named") {
  const shareable_handle closed{777, granule()};
  REQUIRE(::fcntl(closed.get(), F_GETFD) == -1);
  const auto error =
      thrown_by<std::invalid_argument>([&] { return import_chunk(closed, first_device); });
  CHECK(std::string{error.what()}.find("descriptor 777") != std::string::npos);
}

TEST_CASE("shareable_handle: the export of an empty or ordinary chunk throws") {
  physical_chunk empty;
  CHECK_THROWS_AS(shareable_handle{empty}, std::invalid_argument);
  physical_chunk ordinary{first_device, granule()};
  CHECK_THROWS_AS(shareable_handle{ordinary}, std::invalid_argument);
  CHECK_FALSE(ordinary.shared());
}

TEST_CASE("import_chunk: empty handles and unknown devices and other descriptors throw") {
  CHECK_THROWS_AS(static_cast<void>(import_chunk(shareable_handle{}, first_device)),
                  std::invalid_argument);
  physical_chunk chunk = shareable_chunk();
  const shareable_handle handle{chunk};
  CHECK_THROWS_AS(static_cast<void>(import_chunk(handle, device_ref{device_count()})),
                  std::invalid_argument);
  std::array<int, 2> ends;
  REQUIRE(::pipe(ends.data()) == 0);
  const shareable_handle reading{ends[0], granule()};
  const shareable_handle writing{ends[1], granule()};
  CHECK_THROWS_AS(static_cast<void>(import_chunk(reading, first_device)), hip_error);
}

TEST_CASE("import_chunk: a size beyond what the descriptor holds is refused and named") {
  physical_chunk chunk = shareable_chunk();
  shareable_handle exported{chunk};
  if (detail::bytes_behind(exported.get()) != chunk.bytes()) {
    MESSAGE("skipped: the system does not report how much memory this descriptor shares");
    return;
  }
  const shareable_handle received{exported.release(), chunk.bytes() + granule()};
  const auto error =
      thrown_by<std::invalid_argument>([&] { return import_chunk(received, first_device); });
  const std::string what = error.what();
  CHECK(what.find(std::to_string(chunk.bytes() + granule())) != std::string::npos);
  CHECK(what.find(std::to_string(chunk.bytes())) != std::string::npos);
}

TEST_CASE("import_chunk: leaves the position in the file, which the sender shares, where it was") {
  physical_chunk chunk = shareable_chunk();
  const shareable_handle exported{chunk};
  const ::off_t before = ::lseek(exported.get(), 0, SEEK_CUR);
  static_cast<void>(import_chunk(exported, first_device));
  CHECK(::lseek(exported.get(), 0, SEEK_CUR) == before);
}

TEST_CASE("import_chunk: shows the exporter's bytes within one process") {
  const stream stream;
  mapped_chunk exported{shareable_chunk()};
  const shareable_handle handle{exported.chunk};
  const mapped_chunk imported{import_chunk(handle, first_device)};
  CHECK(imported.chunk.bytes() == exported.chunk.bytes());
  CHECK(imported.chunk.shared());
  write_bytes(stream, exported.map.get(), pattern(4096, 1));
  CHECK(read_bytes(stream, imported.map.get(), 4096) == pattern(4096, 1));
}

TEST_CASE("import_chunk: the memory outlives the handle and the exported chunk") {
  const stream stream;
  physical_chunk received;
  {
    mapped_chunk exported{shareable_chunk()};
    write_bytes(stream, exported.map.get(), pattern(4096, 2));
    received = import_chunk(shareable_handle{exported.chunk}, first_device);
  }
  const mapped_chunk imported{std::move(received)};
  CHECK(read_bytes(stream, imported.map.get(), 4096) == pattern(4096, 2));
}

HIPVMM_CHILD("an importer that reads and answers") {
  const stream stream;
  const mapped_chunk imported{
      import_chunk(shareable_handle{inherited, 2 * granule()}, first_device)};
  CHECK(read_bytes(stream, imported.map.get(), 2 * granule()) == pattern(2 * granule(), 3));
  write_bytes(stream, imported.map.get(), pattern(2 * granule(), 4));
}

TEST_CASE("shareable_handle: two processes read what the other wrote") {
  const stream stream;
  mapped_chunk exported{shareable_chunk()};
  const shareable_handle handle{exported.chunk};
  write_bytes(stream, exported.map.get(), pattern(2 * granule(), 3));
  check_child("an importer that reads and answers", {}, {{handle.get(), inherited}});
  CHECK(read_bytes(stream, exported.map.get(), 2 * granule()) == pattern(2 * granule(), 4));
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
