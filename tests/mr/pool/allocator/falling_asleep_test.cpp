// SPDX-License-Identifier: MIT
// Requests that wait for the GPU while the pool falls asleep in another thread.
#include "mr/pool/allocator/pool_of.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

struct falling_asleep : pool_of {
  const std::string refusal = "it sleeps";

  /// The request, whose first wait is when the pool falls asleep, takes and changes nothing.
  void check_refused(stream_state& user, std::size_t bytes) {
    streams.when_waited = [this] {
      falling_asleep& self = *this;  // the next line ends this function object
      self.streams.when_waited = [] {};
      self.all.begin_sleep(self.refusal);
    };
    const std::uint64_t created = memory.created;
    const std::size_t mappings = memory.mappings();
    const std::size_t used = all.counters().used_current;
    CHECK_THROWS_AS(static_cast<void>(all.allocate(user, {bytes, 256})), std::logic_error);
    CHECK(memory.created == created);
    CHECK(memory.mappings() == mappings);
    CHECK(all.counters().used_current == used);
    all.wake();
    const auto at = all.allocate(user, {bytes, 256});
    REQUIRE(at);
    if (user.is_idle()) memory.require_idle(*at, bytes);
  }
};

TEST_CASE_FIXTURE(falling_asleep, "block_allocator: no freed memory is given once it sleeps") {
  memory.capacity = 4 * MiB;
  give(0, take(0, 4 * MiB), 4 * MiB);
  check_refused(all.idle(), 4 * MiB);
}

TEST_CASE_FIXTURE(falling_asleep, "block_allocator: no chunk moves once it sleeps") {
  memory.capacity = 12 * MiB;
  const std::size_t first = take(0, 4 * MiB);
  take(0, 4 * MiB);
  const std::size_t last = take(0, 4 * MiB);
  give(0, first, 4 * MiB);
  give(0, last, 4 * MiB);
  check_refused(state(1), 8 * MiB);
}

}  // namespace
}  // namespace hipvmm::test
