// SPDX-License-Identifier: MIT
// Kept publications of which calls of HIP or of the system fail.
#include "ipc/ipc_test.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(published_region, "publication::keep: HIP calls that fail change nothing") {
  // Those of its threads, which name no device.
  { const publication warm_up = publication::keep(path, path + ".kept"); }
  fault_sweep{"keep"}.run([&] {
    publication kept = publication::keep(path, path + ".kept");
    CHECK(comes_true(
        [&] { return detail::connect_to(kept.path()).state == detail::listener_state::answered; }));
    CHECK(kept.follows());
  });
  CHECK(comes_true([&] { return published.importers() == 0; }));
}

TEST_CASE_FIXTURE(published_region, "publication::keep: costs no device memory") {
  const std::size_t free = first_device.free_memory();
  const publication kept = publication::keep(path, path + ".kept");
  CHECK(first_device.free_memory() == free);
}

TEST_CASE_FIXTURE(published_region,
                  "publication::keep: calls of the system that fail leave nothing") {
  const std::string to = path + ".kept";
  { const publication warm_up = publication::keep(path, to); }
  const publication_options options{.patience = 500ms};
  sweep_steps([&] { const publication one = publication::keep(path, to, options); });
  const publication kept = publication::keep(path, to);
  CHECK(attached_region{to}.bytes() == 2 * granule());
}

TEST_CASE_FIXTURE(published_region, "publication::keep: goes on after it had no descriptors left") {
  const publication kept = publication::keep(path, path + ".kept");
  attached_region seen{path + ".kept"};
  owned.commit(2 * granule(), granule());
  published.announce(owned, 3 * granule(), stream);
  stream.synchronize();
  {
    const no_descriptors_left limit;
    std::this_thread::sleep_for(50ms);
  }
  CHECK(seen.wait_for(3 * granule(), 10s, stream));
  CHECK(kept.follows());
}

TEST_CASE_FIXTURE(published_region,
                  "publication::keep: HIP calls that fail in an attach leave nothing") {
  const publication kept = publication::keep(path, path + ".kept");
  { const attached_region warm_up{path + ".kept"}; }
  fault_sweep{"attach"}.run([&] {
    const attached_region one{path + ".kept"};
    CHECK(one.bytes() == 2 * granule());
  });
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
