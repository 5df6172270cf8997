// SPDX-License-Identifier: MIT
// Retired memory beside work of devices without access: copies through the host need no right. ROCm
// 6 does not copy mapped memory that way, and no right can be granted to a device without a link.
#include "region/region_test.hpp"
#include "runtime/peer_copies.hpp"
#include "support/device_memory.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

// Two that do not reach each other. No other test copies between them, which is remembered.
constexpr device_ref copied_device{1};
constexpr device_ref copying_device{2};

bool is_copied() {
  const bool is =
      capability_of(copied_device).has(trait::peer_copies) && !detail::copies_need_links();
  if (!is) MESSAGE("skipped: mapped memory is not copied between devices without a link");
  return is;
}

/// A region of two granules, which a stream of a device without access is about to read.
struct region_being_copied {
  const std::size_t unit = granule();
  const stream own{copied_device};
  const device_memory copy{2 * unit, copying_device};
  hipvmm::region region{copied_device, 4 * unit};
  blocked_stream reader{copying_device};

  region_being_copied() {
    region.commit(0, unit);
    region.commit(unit, unit);
    fill_async(own, region.base(), 0x42, 2 * unit);
    own.synchronize();
    copy_peer_async(reader, copy.get(), copying_device, region.base(), copied_device, 2 * unit);
  }
  void check_copy() {
    reader.release();
    static_cast<stream_ref>(reader).synchronize();
    const scoped_device scope{copying_device};
    CHECK(read_bytes(reader, copy.get(), 2 * unit) == byte_vector(2 * unit, 0x42));
  }
};

TEST_CASE("retirement: the end of a region waits for a device without access that copies") {
  if (!is_copied()) return;
  drain_retired_memory();
  region_being_copied subject;
  subject.region.retire();
  CHECK_FALSE(happens([] { return retired_memory().waiting == 0; }));
  subject.check_copy();
  drain_retired_memory();
  CHECK(retired_memory().waiting == 0);
}

TEST_CASE("retirement: a trim in a stream of a device that copies waits for nothing") {
  if (!is_copied()) return;
  drain_retired_memory();
  region_being_copied subject;
  subject.region.trim(subject.unit, subject.reader);
  CHECK_FALSE(subject.reader.is_done());
  CHECK_FALSE(happens([] { return retired_memory().waiting == 0; }));
  subject.check_copy();
}

TEST_CASE("retirement: a region that moves waits for a device without access that copies") {
  if (!is_copied()) return;
  region_being_copied subject;
  const address_reservation blocker{subject.unit, 0,
                                    advance(subject.region.base(), subject.region.max_bytes())};
  std::atomic<bool> moved{false};
  std::thread extending{[&] {
    subject.region.extend(16 * subject.unit, 2 * subject.unit);
    moved = true;
  }};
  CHECK_FALSE(happens([&] { return moved.load(); }));
  subject.check_copy();
  extending.join();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
