// SPDX-License-Identifier: MIT
#include "vmm/chunk_limit.hpp"

#include "region/retirement.hpp"
#include "support/region/shared_cache.hpp"
#include "vmm/vmm_test.hpp"

namespace hipvmm::test {
namespace {

/// A limit that others make room in, so many times.
struct counted_limit final : detail::chunk_limit {
  explicit counted_limit(std::size_t most) : limit{most} {}
  void begin(std::size_t bytes) noexcept override { held = bytes; }
  bool charge(std::size_t bytes) noexcept override {
    if (held + bytes > limit) return false;
    held += bytes;
    return true;
  }
  void uncharge(std::size_t bytes) noexcept override { held -= bytes; }
  [[nodiscard]] std::size_t bytes_left() const noexcept override { return limit - held; }
  [[nodiscard]] std::string explain() const override { return "the reason"; }
  bool make_room(std::size_t bytes) noexcept override {
    ++asked;
    if (helpers == 0) return false;
    --helpers;
    limit += bytes;
    return true;
  }

  std::size_t limit;
  std::size_t held = 0;
  int helpers = 0;
  int asked = 0;
};

struct limited_device {
  std::shared_ptr<counted_limit> limit = std::make_shared<counted_limit>(4 * granule());
  const std::size_t unit = granule();
  limited_device() {
    release_idle_memory();
    detail::set_chunk_limit(first_device, limit);
  }
  ~limited_device() { detail::end_chunk_limit(first_device); }
  limited_device& operator=(limited_device&&) = delete;
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(limited_device, "chunk_limit: chunks count from creation to release") {
  const std::size_t before = detail::created_chunk_bytes(first_device);
  CHECK(limit->held == before);
  {
    physical_chunk one{first_device, unit};
    const physical_chunk moved = std::move(one);
    CHECK(limit->held == before + unit);
    CHECK(detail::created_chunk_bytes(first_device) == before + unit);
  }
  CHECK(limit->held == before);
}

TEST_CASE_FIXTURE(limited_device,
                  "chunk_limit: a refusal is out_of_memory, and HIP is not called") {
  const auto error = thrown_by<out_of_memory>([&] {
    const physical_chunk refused{first_device, 5 * unit};
  });
  CHECK(error.resource() == exhausted::budget);
  CHECK(error.device() == first_device.ordinal());
  CHECK(error.bytes_requested() == 5 * unit);
  CHECK(error.bytes_free() == 4 * unit);
  CHECK(std::string{error.what()}.find("the reason") != std::string::npos);
  CHECK(limit->held == 0);
  CHECK(limit->asked == 0);
}

TEST_CASE_FIXTURE(limited_device, "chunk_limit: growth has others make room, until they cannot") {
  limit->helpers = 2;
  region memory{first_device, 16 * unit};
  memory.commit(0, 4 * unit);
  CHECK(limit->asked == 0);
  memory.commit(4 * unit, unit);
  CHECK(limit->asked == 1);
  {
    const detail::without_asking_others now;
    CHECK_THROWS_AS(memory.commit(5 * unit, unit), out_of_memory);
    CHECK(limit->asked == 1);
  }
  {
    // A lock is held.
    const detail::without_reclaim now;
    CHECK_THROWS_AS(memory.commit(5 * unit, unit), out_of_memory);
    CHECK(limit->asked == 1);
  }
  memory.commit(5 * unit, unit);
  CHECK_THROWS_AS(memory.commit(6 * unit, unit), out_of_memory);
  CHECK(limit->asked == 3);
  CHECK(memory.committed_bytes() == 6 * unit);
}

TEST_CASE_FIXTURE(limited_device, "chunk_limit: others are asked for what a limit refused only") {
  limit->helpers = 1;
  const int device = first_device.ordinal();
  CHECK_FALSE(
      detail::make_room_within_limit(out_of_memory{exhausted::device_memory, device, unit, 0, ""}));
  const out_of_memory refused{exhausted::budget, device, unit, 0, ""};
  {
    const detail::without_asking_others outer;
    { const detail::without_asking_others inner; }
    CHECK_FALSE(detail::make_room_within_limit(refused));
  }
  CHECK(limit->asked == 0);
  CHECK(detail::make_room_within_limit(refused));
}

TEST_CASE_FIXTURE(limited_device, "chunk_limit: kept chunks are released before others are asked") {
  const shared_cache_keeps cache;
  limit->helpers = 1;
  chunk_cache::shared().recycle(chunk_cache::shared().acquire(first_device, unit));
  region memory{first_device, 16 * unit};
  memory.commit(0, 4 * unit);
  CHECK(limit->asked == 0);
  CHECK(limit->held == 4 * unit);
}

TEST_CASE_FIXTURE(limited_device, "chunk_limit: a device has one, and others none") {
  CHECK_THROWS_AS(detail::set_chunk_limit(first_device, std::make_shared<counted_limit>(1)),
                  std::invalid_argument);
  if (device_count() < 2) return;
  const physical_chunk other{second_device, 8 * granularity_of(second_device).minimum};
  CHECK(limit->held == 0);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
