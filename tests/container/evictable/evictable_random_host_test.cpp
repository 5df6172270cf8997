// SPDX-License-Identifier: MIT
// Evictable memory under threads, failures, fork() and random requests.
#include <unistd.h>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include "container/container_test.hpp"
#include "container/evictable/evictable_layer.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/process/forked_child.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* device_of_evictables = "HIPVMM_HOST_MEMORY=64MiB";

EVICTABLE_TEST_CASE("evictable: two threads whose uses evict each other come to an end") {
  std::atomic<int> served{0};
  const auto work = [&](std::uint32_t seed) {
    evictable_layer first{16 * MiB, {}, seed};
    evictable_layer second{16 * MiB, {}, seed + 1};
    for (int i = 0; i < 5; ++i)
      for (evictable_layer* each : {&first, &second}) {
        try {
          if (each->is_right(i % 2 ? access_right::read : access_right::read_write)) ++served;
          request_bytes(24 * MiB);
        } catch (const out_of_memory&) {
        }
      }
  };
  std::thread other{[&] { work(1); }};
  work(5);
  other.join();
  CHECK(served > 4);
}

HIPVMM_TEST_CASE_IN("evictable: any call of HIP may fail in an eviction",
                    {"HIPVMM_HOST_MEMORY=4GiB"}) {
  if (!can_sleep()) return;
  // No small device: a release that fails costs its memory for ever.
  const std::string name = "evictable-" + std::to_string(::getpid());
  std::optional<memory_budget> limit{std::in_place, first_device, name, 8 * MiB};
  struct subject {
    evictable_layer one{4 * MiB};
    growable_device_vector<char> vector{first_device};
    subject() { chunk_cache::shared().trim(); }
  };
  const auto check = [](auto& each) {
    each.vector.clear();
    each.vector.shrink_to_fit(stream{});
    CHECK(each.one.is_right());
  };
  fault_sweep{"eviction", after_failure::capacity}.run<subject>(
      [](auto& each) { each.vector.resize_uninitialized(6 * MiB); }, check, check);
  fault_sweep{"return", after_failure::capacity}.run(
      [] {
        auto made = std::make_unique<subject>();
        suspend(made->one.tag, keep::contents, {sleep_storage::pinned_kept});
        return made;
      },
      [](auto& each) {
        const stream stream;
        const scoped_use use{*each.one.held, stream};
      },
      check, check);
  limit.reset();
  memory_budget::remove(name, first_device.uuid());
}

EVICTABLE_TEST_CASE("evictable: a child of fork() is refused") {
  evictable_layer one{8 * MiB};
  const stream stream;
  CHECK(succeeds_in_forked_child([&] {
    try {
      one.held->use(stream);
    } catch (const unsupported&) {
      one.held.reset();
      return true;
    }
    return false;
  }));
  CHECK(one.is_right());
}

/// Random requests beside evictables: each is refused only if others cannot free the missing bytes.
class eviction_driver {
 public:
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    CHECK(served_ > steps / 4);
    free_blocks();
    free_others();
    for (std::size_t i = 0; i < layers_.size(); ++i)
      if (is_used_[i]) layers_[i].held->done(stream_);
    stream_.synchronize();
    for (evictable_layer& each : layers_) CHECK(each.is_right());
  }

 private:
  static constexpr std::size_t limit = 64 * MiB;

  template <typename Request>
  void request(std::size_t bytes, Request make) {
    stream_.synchronize();
    try {
      make();
      ++served_;
    } catch (const out_of_memory& error) {
      std::size_t bound = vector_.capacity();
      if (!blocks_.empty()) bound += pool_.usage().reserved_current;
      std::size_t in_slots = 0;
      for (std::size_t which = 0; which < arena_.slots(); ++which)
        if (arena_.in_use(which)) in_slots += arena_.capacity(which);
      // Addresses in use keep the memory of the arena's other blocks.
      const bool pins = capability_of(first_device).needs(quirk::re_reserve);
      bound += in_slots != 0 && pins ? arena_.statistics().held_bytes : in_slots;
      for (std::size_t i = 0; i < layers_.size(); ++i)
        if (is_used_[i]) bound += layers_[i].bytes;
      INFO(std::string{error.what()});
      CHECK(bound + bytes + 8 * MiB > limit);
    }
  }
  void free_blocks() {
    for (const auto& [pointer, size] : blocks_) pool_.deallocate(stream_, pointer, size);
    blocks_.clear();
  }
  void free_others() {
    vector_.clear();
    vector_.shrink_to_fit(stream_);
    for (std::size_t each = 0; each < arena_.slots(); ++each)
      if (arena_.in_use(each)) arena_.release(each, stream_);
  }
  void step() {
    const std::size_t bytes = (1 + below(generator_, 10)) * 2 * MiB;
    const std::size_t which = below(generator_, layers_.size());
    switch (below(generator_, 7)) {
      case 0:
        request(bytes, [&] { blocks_.emplace_back(pool_.allocate(stream_, bytes), bytes); });
        break;
      case 1:
        free_blocks();
        break;
      case 2:
        request(bytes, [&] { vector_.resize(vector_.size() + bytes, stream_); });
        break;
      case 3:
        free_others();
        break;
      case 4: {
        const std::size_t length = (1 + below(generator_, 4)) * 2 * MiB;
        request(length, [&] {
          const std::vector<std::size_t> slot{below(generator_, arena_.slots())};
          arena_.commit(slot, std::vector<std::size_t>{length}, stream_);
        });
        break;
      }
      default:
        if (is_used_[which]) {
          CHECK(layers_[which].has_contents());
          layers_[which].held->done(stream_);
          is_used_[which] = false;
        } else {
          request(layers_[which].bytes, [&] {
            layers_[which].held->use(
                stream_, below(generator_, 2) == 0 ? access_right::read : access_right::read_write);
            is_used_[which] = true;
          });
        }
    }
  }

  std::mt19937 generator_ = seeded_generator(38);
  stream stream_;
  mr::vmm_pool_resource pool_{first_device};
  std::vector<std::pair<void*, std::size_t>> blocks_;
  growable_device_vector<char> vector_{first_device};
  slot_arena arena_{first_device, [] {
                      slot_arena_options result;
                      result.slots = 3;
                      result.bytes_per_slot = 8 * MiB;
                      result.prefetch_blocks = 0;
                      return result;
                    }()};
  std::array<evictable_layer, 4> layers_{
      evictable_layer{8 * MiB, of_priority(0), 1}, evictable_layer{12 * MiB, of_priority(1), 2},
      evictable_layer{16 * MiB, of_priority(0), 3}, evictable_layer{20 * MiB, of_priority(0), 4}};
  std::array<bool, 4> is_used_{};
  int served_ = 0;
};

EVICTABLE_TEST_CASE("evictable: no request fails while enough is idle or evictable") {
  eviction_driver{}.run(100);
}

// Growth by chunks of one size: the last one fails, and those before it are free again.
HIPVMM_TEST_CASE_IN("evictable: a pool's growth lacks only what is not free",
                    {device_of_evictables, "HIPVMM_HOST_PROFILE=rocm-7.2"}) {
  evictable_layer one{12 * MiB};
  growable_device_vector<char> rest{first_device};
  rest.resize_uninitialized(36 * MiB);
  mr::vmm_pool_resource pool{first_device};
  const stream stream;
  pool.deallocate(stream, pool.allocate(stream, 20 * MiB), 20 * MiB);
  CHECK(!one.is_here());
}

HIPVMM_TEST_CASE_IN("evictable: nor within a budget", {"HIPVMM_HOST_MEMORY=1GiB"}) {
  if (!can_sleep()) return;
  const std::string name = "evictions-" + std::to_string(::getpid());
  std::optional<memory_budget> limit{std::in_place, first_device, name, 64 * MiB};
  eviction_driver{}.run(100);
  limit.reset();
  memory_budget::remove(name, first_device.uuid());
}

}  // namespace
}  // namespace hipvmm::test
