// SPDX-License-Identifier: MIT
// Reports of the resources for replays on their memory, beside another user of the
// device. Devices of the host provider belong to one process, so here nobody else disturbs it.
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/test.hpp"
#include "tool/replay/replay_subject.hpp"
#include "tool/replay_traces.hpp"

namespace hipvmm::test {
namespace {

/// The peak that `subject` reports if the replay takes 1 MiB and another user `others` bytes.
std::size_t peak_beside(tool::replay_subject& subject, std::size_t others) {
  const device_ref device{0};
  const stream used{device};
  mr::hip_resource other_user{device};
  subject.begin();
  void* const own = subject.resource().allocate(used, 1 * MiB);
  void* const foreign = other_user.allocate(used, others);
  subject.look();
  const std::size_t peak = subject.peak_physical();
  other_user.deallocate(used, foreign, others);
  subject.resource().deallocate(used, own, 1 * MiB);
  return peak;
}

}  // namespace

TEST_CASE("replay: hip counts what others take of the device, pool and async do not") {
  for (const tool::subject_kind& kind : tool::subject_kinds()) {
    CAPTURE(kind.name);
    const auto beside_little = subject_named(kind.name);
    const auto beside_much = subject_named(kind.name);
    if (!beside_much) continue;
    const std::size_t peak = peak_beside(*beside_little, 2 * MiB);
    CHECK(peak >= 1 * MiB);
    CHECK(peak_beside(*beside_much, 100 * MiB) == peak + (kind.name == "hip" ? 98 * MiB : 0));
  }
}

}  // namespace hipvmm::test
