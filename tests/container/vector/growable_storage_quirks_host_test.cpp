// SPDX-License-Identifier: MIT
// A growable vector under the work-arounds that a capability record asks for.
#include <hipvmm/container/growable_storage.hpp>
#include "container/container_test.hpp"
#include "support/host/host_test.hpp"
#include "support/process/descriptor_limit.hpp"
#include "support/region/assumed_capability.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t storage_step = 2 * MiB;
constexpr const char* kept_memory = "returns_memory=no,returns_with_addresses=yes";

/// A storage of 64 granules whose steps are exact.
growable_storage exact_storage(past_max_size past_max = past_max_size::move) {
  growable_storage result{first_device,
                          {.max_bytes = 256 * storage_step,
                           .past_max = past_max,
                           .step_limit = 0,
                           .granule_bytes = storage_step}};
  result.reserve(64 * storage_step);
  return result;
}

/// Granules that one byte more adds, and those that it adds when two thirds of the process's
/// descriptors are used.
struct steps {
  std::size_t usual;
  std::size_t when_short;
};
steps next_steps() {
  growable_storage storage = exact_storage();
  storage.grow(64 * storage_step + 1);
  const std::size_t before = storage.capacity_bytes();
  const std::size_t used = lowest_free_descriptor();
  const descriptor_limit few{used + used / 2};
  storage.grow(before + 1);
  return {before / storage_step - 64, (storage.capacity_bytes() - before) / storage_step};
}

TEST_CASE("growable_storage: where chunks cost descriptors steps grow when these run short" *
          needs_virtual_memory) {
  const assumed_capability found{"descriptors_per_chunk=1"};
  const steps next = next_steps();
  CHECK(next.usual == 1);
  CHECK(next.when_short == 65 / 8);
}

TEST_CASE("growable_storage: where chunks cost no descriptors steps stay as they are") {
  const assumed_capability found{"descriptors_per_chunk=0"};
  const steps next = next_steps();
  CHECK(next.usual == 1);
  CHECK(next.when_short == 1);
}

HIPVMM_TEST_CASE_IN("growable_storage: an address that changes when it is emptied is counted",
                    under("rocm-6.4", kept_memory)) {
  const error_recorder reported;
  const stream stream;
  growable_storage storage = exact_storage();
  const void* const before = storage.data();
  storage.shrink(0, stream);
  CHECK(storage.data() == before);
  CHECK(storage.statistics().base_moves == 0);
  storage.grow(storage_step);
  // The second is the look for a record that stayed.
  const planned_fault fault{"hipMemAddressReserve", 3, hipErrorOutOfMemory};
  storage.shrink(0, stream);
  CHECK(fault.struck());
  CHECK(storage.data() != before);
  CHECK(storage.statistics().base_moves == 1);
  CHECK(storage.max_bytes() == 256 * storage_step);
  CHECK(reported.count() == 1);
}

HIPVMM_TEST_CASE_IN(
    "growable_storage: one that may not move keeps its addresses when it is emptied",
    under("rocm-6.4", kept_memory)) {
  const stream stream;
  growable_storage storage = exact_storage(past_max_size::refuse);
  const call_counter frees{"hipMemAddressFree"};
  storage.shrink(0, stream);
  CHECK(frees.count() == 0);
}

}  // namespace
}  // namespace hipvmm::test
