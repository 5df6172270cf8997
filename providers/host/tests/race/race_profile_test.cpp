// SPDX-License-Identifier: MIT
// Releases that take more or less than the bytes they are told: the checker goes by the bytes
// taken.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <string>

#include "race_fixtures.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t page = 4096;

/// Two granules, each a mapping of its own, with work queued on the last page.
class busy_at_end {
 public:
  busy_at_end() {
    for (const std::size_t offset : {std::size_t{0}, granule}) {
      const memory chunk{granule};
      REQUIRE(hipMemMap(at(offset), granule, 0, chunk.get(), 0) == hipSuccess);
    }
    REQUIRE(give(2 * granule, hipMemAccessFlagsProtReadWrite) == hipSuccess);
    REQUIRE(hipMemsetAsync(at(2 * granule - page), 1, page, work_.get()) == hipSuccess);
  }
  busy_at_end& operator=(busy_at_end&&) = delete;
  ~busy_at_end() {
    static_cast<void>(hipMemUnmap(at(0), granule));
    if (has_second_) static_cast<void>(hipMemUnmap(at(granule), granule));
  }

  [[nodiscard]] std::byte* at(std::size_t offset) const { return addresses_.at(offset); }
  hipError_t give(std::size_t bytes, hipMemAccessFlags flags) const {
    const hipMemAccessDesc wanted = access_of(0, flags);
    return hipMemSetAccess(at(0), bytes, &wanted, 1);
  }
  hipError_t unmap_second(std::size_t bytes) {
    has_second_ = false;
    return hipMemUnmap(at(granule), bytes);
  }

 private:
  reservation addresses_{2 * granule};
  stream work_{hipStreamNonBlocking};
  bool has_second_ = true;
};

}  // namespace

HIPVMM_CHILD("an unmap that names one page takes the mapping") {
  busy_at_end range;
  CHECK_FALSE(report_of([&] { CHECK(range.unmap_second(page) == hipSuccess); }).empty());
}

HIPVMM_CHILD("rights taken from part of a mapping are taken from all of it") {
  const busy_at_end range;
  CHECK_FALSE(report_of([&] {
                CHECK(range.give(granule + page, hipMemAccessFlagsProtNone) == hipSuccess);
              }).empty());
}

HIPVMM_CHILD("rights that no call changes are no fault") {
  const stream work{hipStreamNonBlocking};
  const allocation block{page};
  const hipMemAccessDesc nothing = access_of(0, hipMemAccessFlagsProtNone);
  CHECK(is_clean([&] {
    REQUIRE(hipMemsetAsync(block.at(), 1, page, work.get()) == hipSuccess);
    CHECK(hipMemSetAccess(block.at(), page, &nothing, 1) == hipSuccess);
  }));
}

HIPVMM_CHILD("an unmap that waits tells the host that the work has finished") {
  const stream work{hipStreamDefault};
  mapped memory{granule};
  CHECK(is_clean([&] {
    REQUIRE(hipMemsetAsync(memory.at(), 1, page, work.get()) == hipSuccess);
    memory.unmap();
  }));
}

TEST_CASE("order checker: it goes by the bytes that a release takes, not by those it is told") {
  struct row {
    const char* profile;
    const char* child;
  };
  constexpr row rows[] = {
      {"rocm-6.4", "an unmap that names one page takes the mapping"},
      {"rocm-6.4", "rights taken from part of a mapping are taken from all of it"},
      {"rocm-6.4", "an unmap that waits tells the host that the work has finished"},
      {"rocm-7.14", "an unmap that waits tells the host that the work has finished"},
      {"rocm-5.7", "rights that no call changes are no fault"},
  };
  for (const row& each : rows) {
    CAPTURE(each.child);
    check_child(each.child, {std::string{"HIPVMM_HOST_PROFILE="} + each.profile});
  }
}
