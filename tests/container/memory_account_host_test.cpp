// SPDX-License-Identifier: MIT
// The driver's count of used bytes is the library's count of held bytes, after each operation of
// each object that holds chunks, under profiles with and without quirk::re_reserve.
#include <hipvmm/container/device_uvector.hpp>
#include <hipvmm/region/region.hpp>
#include "container/container_test.hpp"
#include "container/slot_arena/arenas.hpp"
#include "support/host/host_test.hpp"
#include "support/process/child_case.hpp"
#include "vmm/chunk_limit.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

constexpr std::size_t most = 12;  // units of an object

/// Something that holds chunks.
struct holder {
  virtual ~holder() = default;
  virtual void resize(std::size_t units) = 0;
  virtual void trim() = 0;
  /// Bytes that it says it holds, beside the shared cache.
  [[nodiscard]] virtual std::size_t held() const = 0;
};

struct region_holder final : holder {
  explicit region_holder(const memory_tag& tag, empty_policy policy = empty_policy::re_reserves)
      : all{first_device, most * granule(), options(tag, policy)} {}
  static region_options options(const memory_tag& tag, empty_policy policy) {
    return region_options{.when_empty = policy, .tag = tag};
  }
  void resize(std::size_t units) override {
    const std::size_t end = units * granule();
    if (end < all.committed_bytes())
      all.decommit(end, all.max_bytes() - end);
    else
      all.commit(0, end);
  }
  void trim() override { all.trim(granule(), stream, tail_chunk::replace); }
  [[nodiscard]] std::size_t held() const override { return all.committed_bytes(); }

  hipvmm::stream stream;
  region all;
};

/// Chunks that the program created, as an import has them.
struct adopting_region final : holder {
  explicit adopting_region(const memory_tag&) : all{first_device, most * granule()} {}
  void resize(std::size_t units) override {
    while (count > units) all.decommit(--count * granule(), granule());
    for (; count < units; ++count)
      all.adopt(count * granule(), physical_chunk{first_device, granule()});
  }
  void trim() override { resize(count / 2); }
  [[nodiscard]] std::size_t held() const override { return all.committed_bytes(); }

  std::size_t count = 0;
  region all;
};

struct vector_holder final : holder {
  explicit vector_holder(const memory_tag& tag, past_max_size past = past_max_size::move)
      : all{first_device, options(tag, past)} {}
  static growth_options options(const memory_tag& tag, past_max_size past) {
    return growth_options{.max_bytes = most * granule(), .past_max = past, .chunks = {.tag = tag}};
  }
  void resize(std::size_t units) override {
    all.resize(units * granule(), stream);
    all.shrink_to_fit(stream);
  }
  void trim() override { all.shrink_to_fit(stream, tail_chunk::replace); }
  [[nodiscard]] std::size_t held() const override { return all.capacity(); }

  hipvmm::stream stream;
  growable_device_vector<char> all;
};

/// Its chunks were exported, so that none may be used again.
struct exporting_vector final : holder {
  explicit exporting_vector(const memory_tag&) : all{first_device, options()} {}
  static growth_options options() {
    return growth_options{.max_bytes = most * granule(),
                          .chunks = {.shareable = handle_type::posix_fd}};
  }
  void resize(std::size_t units) override {
    all.resize(units * granule(), stream);
    static_cast<void>(all.export_chunks());
    all.shrink_to_fit(stream);
  }
  void trim() override { all.shrink_to_fit(stream); }
  [[nodiscard]] std::size_t held() const override { return all.capacity(); }

  hipvmm::stream stream;
  growable_device_vector<char> all;
};

struct pool_holder final : holder {
  explicit pool_holder(const memory_tag& tag) : pool{first_device, options(tag)} {}
  ~pool_holder() override { blocks.clear(); }
  static mr::pool_options options(const memory_tag& tag) { return mr::pool_options{.tag = tag}; }
  /// The oldest blocks go first, and one block makes up for all that lack: the pool moves chunks.
  void resize(std::size_t units) override {
    std::size_t has = 0;
    for (const auto& each : blocks) has += each.size() / granule();
    for (; has > units; blocks.erase(blocks.begin())) has -= blocks.front().size() / granule();
    if (has < units) blocks.emplace_back((units - has) * granule(), stream, &pool);
  }
  void trim() override { pool.trim_to(0); }
  [[nodiscard]] std::size_t held() const override { return pool.statistics().reserved_current; }

  hipvmm::stream stream;
  mr::vmm_pool_resource pool;
  std::vector<device_uvector<char>> blocks;
};

struct arena_holder final : holder {
  explicit arena_holder(const memory_tag& tag) : arena{first_device, options(tag)} {}
  static slot_arena_options options(const memory_tag& tag) {
    slot_arena_options result = small_slots(2);
    result.bytes_per_slot = most / 2 * granule();
    result.tag = tag;
    return result;
  }
  void resize(std::size_t units) override {
    const std::size_t length = units * granule() / 2;
    if (units == 0) {
      if (arena.in_use(0)) arena.release(0, stream);
    } else if (arena.in_use(0) && length < arena.length(0)) {
      arena.truncate(0, length, stream);
    } else {
      arena.commit(sizes{0}, sizes{length}, stream);
    }
    stream.synchronize();
  }
  void trim() override { arena.trim(); }
  [[nodiscard]] std::size_t held() const override {
    return const_cast<slot_arena&>(arena).statistics().held_bytes;
  }

  hipvmm::stream stream;
  slot_arena arena;
};

struct made_holder {
  const char* name;
  std::function<std::unique_ptr<holder>(const memory_tag&)> make;
  bool sleeps;
  bool keeps_addresses = false;  // by its options: memory may stay with them
};

template <typename Holder, typename... Args>
made_holder as(const char* name, bool sleeps, Args... args) {
  return {name, [=](const memory_tag& tag) { return std::make_unique<Holder>(tag, args...); },
          sleeps};
}

made_holder keeping_addresses(made_holder made) {
  made.keeps_addresses = true;
  return made;
}

std::vector<made_holder> holders() {
  std::vector<made_holder> result{
      as<region_holder>("region", true),
      keeping_addresses(as<region_holder>("region that keeps its addresses", true,
                                          empty_policy::keeps_addresses)),
      as<adopting_region>("region of adopted chunks", false),
      as<vector_holder>("vector", true),
      keeping_addresses(as<vector_holder>("vector at one address", true, past_max_size::refuse)),
      as<pool_holder>("pool", true),
      as<arena_holder>("arena", true)};
  if (capability_of(first_device).has(trait::shares_chunks))
    result.push_back(as<exporting_vector>("vector of exported chunks", false));
  return result;
}

/// Compares the three counts. Pre: all work has passed.
void check_account(std::size_t held) {
  drain_retired_memory();
  const std::size_t used = hipvmm_host_device_bytes(0);
  CHECK(used == held + chunk_cache::shared().statistics().bytes);
  CHECK(used == detail::created_chunk_bytes(first_device));
}

constexpr const char* fallible[] = {"hipMemCreate", "hipMemMap", "hipMemSetAccess",
                                    "hipMemAddressReserve"};

/// Random operations of one object of each of `kinds`: one may have memory that the
/// addresses of another pin.
void run_randomly(const std::vector<made_holder>& kinds, unsigned seed) {
  CAPTURE(std::string{kinds.front().name});
  CAPTURE(kinds.size());
  CAPTURE(seed);
  std::mt19937 random{seed};
  const memory_tag tag{"account"};
  std::vector<std::unique_ptr<holder>> all;
  for (const made_holder& kind : kinds) all.push_back(kind.make(tag));
  const error_recorder failures;  // its reports are not tested here
  std::string done;
  for (int step = 0; step < 40; ++step) {
    const std::size_t which = random() % all.size();
    holder& one = *all[which];
    const unsigned what = random() % 8;
    const std::size_t units = random() % (most + 1);
    done += " ";
    if (kinds.size() > 1) done += std::string{kinds[which].name} + " ";
    done += std::to_string(what) + ":" + std::to_string(units);
    CAPTURE(done);
    if (what == 5) {
      one.trim();
    } else if (what == 6 && kinds[which].sleeps) {
      suspend(tag, keep::nothing);
      CHECK(hipvmm_host_device_bytes(0) == detail::created_chunk_bytes(first_device));
      resume(tag);
    } else if (what == 7) {
      const planned_fault fault{fallible[random() % 4], 1 + random() % 4, hipErrorOutOfMemory};
      try {
        one.resize(units);
      } catch (const std::exception&) {
      }
    } else {
      try {
        one.resize(units);
      } catch (const out_of_memory&) {
        if (all.size() == 1) throw;  // one alone fits into the device
      }
    }
    std::size_t held = 0;
    for (const auto& each : all) held += each->held();
    check_account(held);
  }
  for (const auto& each : all) {
    each->resize(0);
    each->trim();
  }
  all.clear();
  release_idle_memory();
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(detail::created_chunk_bytes(first_device) == 0);
}

void check_on_each_profile(const std::string& child, const std::string& memory = "1GiB") {
  for (const char* profile :
       {"strict", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "cuda-13"}) {
    CAPTURE(std::string{profile});
    std::vector<std::string> environment = with_small_chunks(profile);
    environment.push_back(std::string{"HIPVMM_HOST_PROFILE="} + profile);
    environment.push_back("HIPVMM_HOST_MEMORY=" + memory);
    check_child(child, environment);
  }
}

HIPVMM_TEST_CASE_BY(
    check_on_each_profile,
    "memory: the driver counts what the library says it holds, after each operation" *
        names_its_profiles) {
  for (const made_holder& kind : holders())
    for (unsigned seed = 1; seed <= 3; ++seed) run_randomly({kind}, seed);
}

HIPVMM_TEST_CASE_BY(check_on_each_profile,
                    "memory: the driver counts what several objects say they hold together" *
                        names_its_profiles,
                    "24MiB") {
  for (unsigned seed = 1; seed <= 2; ++seed) run_randomly(holders(), seed);
}

HIPVMM_TEST_CASE_BY(check_on_each_profile,
                    "memory: an object emptied many times holds nothing" * names_its_profiles) {
  for (const made_holder& kind : holders()) {
    CAPTURE(std::string{kind.name});
    const memory_tag tag{"account"};
    const std::unique_ptr<holder> one = kind.make(tag);
    std::size_t first = 0;
    for (int round = 0; round < 12; ++round) {
      one->resize(most);
      one->resize(0);
      one->trim();
      chunk_cache::shared().trim();
      if (round == 0) first = hipvmm_host_device_bytes(0);
    }
    check_account(one->held());
    CHECK(hipvmm_host_device_bytes(0) <= first);
    // If no object is left, all memory has returned, unless the program said that addresses stay.
    if (!kind.keeps_addresses) CHECK(hipvmm_host_device_bytes(0) == 0);
  }
}

/// Two vectors that take turns beside a little that stays in each.
HIPVMM_TEST_CASE_BY(check_on_each_profile,
                    "memory: two vectors take turns on a device with room for one and a bit" *
                        names_its_profiles,
                    "64MiB") {
  stream s;
  growable_device_vector<char> a{first_device};
  growable_device_vector<char> b{first_device};
  const std::size_t unit = align_down(first_device.total_memory() / 28, granule());
  a.resize(unit, s);
  b.resize(unit, s);
  for (std::size_t i = 0; i < 10; ++i) {
    for (auto* each : {&a, &b}) {
      each->resize_uninitialized((20 + (each == &a ? i % 5 : 4 - i % 5)) * unit);
      each->resize(unit, s);
      each->shrink_to_fit(s);
    }
  }
  check_account(a.capacity() + b.capacity());
}

HIPVMM_TEST_CASE_BY(check_on_each_profile,
                    "slot_arena: memory that its addresses pin is held, used first, and returns" *
                        names_its_profiles) {
  stream s;
  slot_arena arena{first_device, small_slots()};
  arena.commit(sizes{3}, sizes{granule()}, s);
  std::size_t once = 0;
  for (int round = 0; round < 20; ++round) {
    arena.commit(sizes{0}, sizes{4 * granule()}, s);
    arena.release(0, s);
    s.synchronize();
    if (round % 2 == 0) {
      arena.trim();
    } else {
      arena.set_budget(row());
      arena.set_budget(slot_arena_options::no_budget);
    }
    if (round == 0) once = hipvmm_host_device_bytes(0);
    check_account(arena.statistics().held_bytes);
  }
  CHECK(hipvmm_host_device_bytes(0) == once);
  arena.release(3, s);
  s.synchronize();
  CHECK(arena.trim() == once);
  CHECK(hipvmm_host_device_bytes(0) == 0);
}

HIPVMM_TEST_CASE_BY(check_on_each_profile,
                    "growable_device_vector: growth after a trim takes no more calls than before" *
                        names_its_profiles) {
  const stream s;
  growable_device_vector<char> vector{first_device};
  const auto grow = [&] {
    const std::uint64_t before = hipvmm_host_call_count(nullptr);
    for (std::size_t i = 1; i <= 20; ++i) vector.resize(i * 8 * granule(), s);
    return hipvmm_host_call_count(nullptr) - before;
  };
  const std::uint64_t first = grow();
  vector.resize(granule(), s);
  vector.shrink_to_fit(s);
  drain_retired_memory();
  const call_counter created{"hipMemCreate"};
  CHECK(grow() <= first);
  if (addresses_pin()) CHECK(created.count() == 0);
}

HIPVMM_TEST_CASE_BY(check_on_each_profile,
                    "slot_arena: a trim beside a live slot unmaps nothing that its addresses pin" *
                        names_its_profiles) {
  const stream s;
  slot_arena arena{first_device, small_slots()};
  arena.commit(sizes{0, 3}, sizes{4 * granule(), granule()}, s);
  arena.release(0, s);
  s.synchronize();
  const call_counter unmapped{"hipMemUnmap"};
  const call_counter created{"hipMemCreate"};
  arena.set_budget(2 * row());
  arena.set_budget(slot_arena_options::no_budget);
  arena.trim();
  // An unmap that would return nothing is not made.
  CHECK(unmapped.count() == (addresses_pin() ? 0 : 4 * arena.planes()));
  arena.commit(sizes{0}, sizes{4 * granule()}, s);
  CHECK(created.count() == (addresses_pin() ? 0 : 4 * arena.planes()));
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
