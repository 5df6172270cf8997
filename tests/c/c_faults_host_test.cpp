// SPDX-License-Identifier: MIT
// Functions of the C interface whose HIP calls and allocations that fail one after another.
#include "c/c_interface.hpp"
#include "c/handle_table.hpp"
#include "ipc/budget/budget_folder.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

/// Throws if a function has failed, for the sweep; a failure must have a sentence.
void throw_unless_ok(hipvmm_status status) {
  if (status == HIPVMM_OK) return;
  CHECK(status != HIPVMM_ERROR_INTERNAL);
  CHECK(std::string{hipvmm_last_error()} != "");
  throw std::runtime_error{hipvmm_last_error()};
}

/// Sweeps a function that makes a handle, of which a failure leaves none.
template <typename Handle, typename Create>
void sweep_creation(const char* name, hipvmm_status (*destroy)(Handle), Create create) {
  fault_sweep{name}.run([=] {
    Handle made = nullptr;
    const hipvmm_status status = create(&made);
    CHECK((made != nullptr) == (status == HIPVMM_OK));
    throw_unless_ok(status);
    require_ok(destroy(made));
  });
}

std::unique_ptr<owned_buffer> filled_buffer() {
  auto made = std::make_unique<owned_buffer>(make_buffer("max=64MiB,past_max=refuse"));
  require_ok(hipvmm_buffer_append(*made, "abc", 3, nullptr));
  return made;
}

void is_unchanged(owned_buffer& buffer) {
  CHECK(size_of(buffer) == 3);
  CHECK(first_bytes(buffer) == "abc");
}

TEST_CASE("C interface: functions of a buffer that fail leave it as it was") {
  SUBCASE("append") {
    fault_sweep{"hipvmm_buffer_append", after_failure::capacity}.run(
        filled_buffer, [](auto& b) { throw_unless_ok(hipvmm_buffer_append(b, "def", 3, nullptr)); },
        is_unchanged, [](auto& b) { CHECK(size_of(b) == 6); });
  }
  SUBCASE("resize") {
    fault_sweep{"hipvmm_buffer_resize", after_failure::capacity}.run(
        filled_buffer, [](auto& b) { throw_unless_ok(hipvmm_buffer_resize(b, 5 * MiB, nullptr)); },
        is_unchanged, [](auto& b) { CHECK(size_of(b) == 5 * MiB); });
  }
  SUBCASE("read") {
    fault_sweep{"hipvmm_buffer_read"}.run(
        filled_buffer,
        [](auto& b) {
          char bytes[3];
          throw_unless_ok(hipvmm_buffer_read(b, 0, bytes, 3, nullptr));
        },
        is_unchanged, is_unchanged);
  }
}

constexpr const char* two_slots = "slots=2,bytes_per_slot=4MiB,block=2MiB,prefetch=0";

TEST_CASE("C slots: calls that fail leave the arena as it was" * needs_virtual_memory) {
  const std::size_t before = live_handles();
  sweep_creation("hipvmm_slot_arena_create", hipvmm_slot_arena_destroy,
                 [](auto* made) { return hipvmm_slot_arena_create(0, two_slots, made); });
  const auto make = [] {
    auto made = std::make_unique<owned_slot_arena>();
    require_ok(hipvmm_slot_arena_create(0, two_slots, made->out()));
    return made;
  };
  const auto has = [](auto& arena, std::size_t expected) {
    for (const std::size_t slot : {0, 1}) {
      CHECK(result_of(hipvmm_slot_arena_length, arena, slot) == expected);
    }
  };
  fault_sweep{"hipvmm_slot_arena_commit", after_failure::capacity}.run(
      make,
      [](auto& arena) {
        const std::size_t slots[] = {0, 1};
        const std::size_t lengths[] = {3 * MiB, 3 * MiB};
        throw_unless_ok(hipvmm_slot_arena_commit(arena, slots, lengths, 2, nullptr));
      },
      [&](const auto& arena) { has(arena, 0); }, [&](const auto& arena) { has(arena, 3 * MiB); });
  CHECK(live_handles() == before);
}

/// An arena whose two blocks slots 0 and 1 have, and that releases slot 1 for others.
struct evicting_arena {
  owned_slot_arena arena;

  evicting_arena() {
    const std::size_t slots[] = {0, 1};
    const std::size_t lengths[] = {1, 1};
    require_ok(hipvmm_slot_arena_create(
        0, "slots=3,bytes_per_slot=4MiB,block=2MiB,prefetch=0,budget=4MiB", arena.out()));
    require_ok(hipvmm_slot_arena_commit(arena, slots, lengths, 2, nullptr));
    require_ok(hipvmm_slot_arena_set_eviction(
        arena,
        [](std::size_t, void* of) {
          int in_use = 0;
          const auto self = static_cast<hipvmm_slot_arena>(of);
          const hipvmm_status asked = hipvmm_slot_arena_in_use(self, 1, &in_use);
          return asked != HIPVMM_OK || in_use == 0 ? asked
                                                   : hipvmm_slot_arena_release(self, 1, nullptr);
        },
        arena.get()));
  }
  [[nodiscard]] std::size_t length_of(std::size_t slot) const {
    return result_of(hipvmm_slot_arena_length, arena, slot);
  }
};

TEST_CASE("C slots: a commit whose eviction callback fails changes nothing" *
          needs_virtual_memory) {
  fault_sweep{"eviction", after_failure::capacity}.run<evicting_arena>(
      [](auto& of) {
        const std::size_t slot = 2;
        const std::size_t length = 1;
        throw_unless_ok(hipvmm_slot_arena_commit(of.arena, &slot, &length, 1, nullptr));
      },
      [](auto& of) {
        CHECK(of.length_of(0) == 1);
        CHECK(of.length_of(2) == 0);
      },
      [](auto& of) {
        CHECK(of.length_of(0) == 1);
        CHECK(of.length_of(1) == 0);
        CHECK(of.length_of(2) == 1);
      });
}

TEST_CASE("C budget: one that cannot be joined is not joined" * needs_virtual_memory) {
  const budget_folder folder;
  sweep_creation("hipvmm_budget_join", hipvmm_budget_leave, [](auto* made) {
    return hipvmm_budget_join(0, "fault", "limit=1GiB", nullptr, nullptr, made);
  });
}

TEST_CASE("C sleep: calls that fail leave all awake, or all asleep" * needs_virtual_memory) {
  const auto make = [] {
    auto made =
        std::make_unique<owned_buffer>(make_buffer("max=64MiB,past_max=refuse,sleep_tag=c_fault"));
    require_ok(hipvmm_buffer_append(*made, "abc", 3, nullptr));
    return made;
  };
  {
    const auto probe = make();
    if (hipvmm_suspend("c_fault", HIPVMM_KEEP_CONTENTS, nullptr, nullptr) ==
        HIPVMM_ERROR_UNSUPPORTED)
      return;
    require_ok(hipvmm_resume("c_fault", nullptr));
  }
  require_ok(hipvmm_drain_retired_memory());  // of the first one, which the sweep must not count
  const error_recorder reported;
  fault_sweep{"hipvmm_suspend", after_failure::capacity}.run(
      make,
      [](const auto&) {
        throw_unless_ok(hipvmm_suspend("c_fault", HIPVMM_KEEP_CONTENTS, nullptr, nullptr));
      },
      is_unchanged,
      [](auto& buffer) {
        require_ok(hipvmm_resume("c_fault", nullptr));
        is_unchanged(buffer);
      });
  fault_sweep{"hipvmm_resume", after_failure::capacity}.run(
      [&] {
        auto made = make();
        require_ok(hipvmm_suspend("c_fault", HIPVMM_KEEP_CONTENTS, nullptr, nullptr));
        return made;
      },
      [](const auto&) { throw_unless_ok(hipvmm_resume("c_fault", nullptr)); },
      [](auto& buffer) {
        require_ok(hipvmm_resume("c_fault", nullptr));
        is_unchanged(buffer);
      },
      is_unchanged);
}

TEST_CASE("C interface: a buffer, a pool or a stream that cannot be made has no handle") {
  const std::size_t before = live_handles();
  // On hipMalloc a buffer without bytes needs no call.
  if (!on_fallback())
    sweep_creation("hipvmm_buffer_create", hipvmm_buffer_destroy,
                   [](auto* made) { return hipvmm_buffer_create(0, "max=64MiB", made); });
  sweep_creation("hipvmm_pool_create", hipvmm_resource_destroy, [](auto* made) {
    return hipvmm_pool_create(0, "initial=2MiB,maximum=64MiB", made);
  });
  sweep_creation("hipvmm_stream_create", hipvmm_stream_destroy,
                 [](auto* made) { return hipvmm_stream_create(0, made); });
  sweep_creation("hipvmm_event_create", hipvmm_event_destroy,
                 [](auto* made) { return hipvmm_event_create(0, made); });
  CHECK(live_handles() == before);
}

TEST_CASE("C interface: adaptors and allocations that fail leave nothing") {
  const std::size_t before = live_handles();
  {
    const owned_resource pool = make_pool("maximum=128MiB");
    fault_sweep{"hipvmm_arena_create", after_failure::capacity}.run(
        [] { return std::make_unique<owned_resource>(make_pool("maximum=128MiB")); },
        [](auto& upstream) {
          owned_resource arena;
          throw_unless_ok(hipvmm_arena_create(upstream, "maximum=64MiB,initial=8MiB", arena.out()));
        },
        [](const auto&) {}, [](const auto&) {});
    fault_sweep{"hipvmm_allocate", after_failure::capacity}.run(
        [] { return std::make_unique<owned_resource>(make_pool("maximum=128MiB")); },
        [](auto& resource) {
          void* memory = nullptr;
          throw_unless_ok(hipvmm_allocate(resource, 3 * MiB, 0, nullptr, &memory));
          require_ok(hipvmm_deallocate(resource, memory, 3 * MiB, 0, nullptr));
        },
        [](const auto&) {}, [](const auto&) {});
    fault_sweep{"hipvmm_device_allocate", after_failure::capacity}.run(
        [] {
          auto made = std::make_unique<owned_resource>(make_pool("maximum=128MiB"));
          require_ok(hipvmm_set_device_resource(0, *made));
          return made;
        },
        [](const auto&) {
          void* const memory = hipvmm_device_allocate(nullptr, 3 * MiB, 0);
          if (memory == nullptr) throw std::runtime_error{hipvmm_last_error()};
          hipvmm_device_deallocate(nullptr, memory, 0);
          void* const other = hipvmm_device_allocate_sync(3 * MiB, 0);
          if (other == nullptr) throw std::runtime_error{hipvmm_last_error()};
          hipvmm_device_deallocate_sync(other);
        },
        [](const auto&) { require_ok(hipvmm_reset_device_resource(0)); },
        [](const auto&) { require_ok(hipvmm_reset_device_resource(0)); });
  }
  CHECK(live_handles() == before);
}

TEST_CASE("handle_table: an insertion without host memory leaves the table as it was") {
  c::handle_table table;
  const std::shared_ptr<void> object = std::make_shared<int>(7);
  {
    const allocation_failure failing{1};
    CHECK_THROWS_AS(table.insert(c::handle_kind::buffer, object), std::bad_alloc);
  }
  CHECK(table.size() == 0);
  void* const handle = table.insert(c::handle_kind::buffer, object);
  CHECK(table.find(c::handle_kind::buffer, handle) == object);
}

/// Runs `call` with its first allocation of host memory failing, then its second, until none does.
/// `end` destroys its result.
template <typename Call, typename End>
void sweep_allocations(const std::string& name, Call call, End end) {
  CAPTURE(name);
  for (std::uint64_t nth = 1; nth < 1000; ++nth) {
    CAPTURE(nth);
    const std::size_t before = live_handles();
    hipvmm_status status = HIPVMM_OK;
    bool struck = false;
    {
      const allocation_failure failing{nth};
      status = call();
      struck = failing.struck();
    }
    const std::string message = hipvmm_last_error();
    if (status == HIPVMM_OK) {
      end();
    } else {
      // Allocations of the provider that fail in its thread's calls are failures of HIP.
      CHECK((status == HIPVMM_ERROR_OUT_OF_MEMORY || status == HIPVMM_ERROR_HIP));
      CHECK(message != "");
    }
    CHECK(live_handles() == before);
    if (!struck) {
      CHECK(nth > 1);
      return;
    }
  }
  FAIL("an endless retry");
}

void nothing() {}

TEST_CASE("C interface: a lack of host memory is a status, whichever allocation it is") {
  const error_recorder reported;
  const owned_buffer buffer = make_buffer();
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  const owned_resource pool = make_pool();
  hipvmm_resource adaptor = nullptr;
  sweep_allocations(
      "hipvmm_statistics_create", [&] { return hipvmm_statistics_create(pool, &adaptor); },
      [&] { require_ok(hipvmm_resource_destroy(adaptor)); });
  hipvmm_buffer made = nullptr;
  sweep_allocations(
      "hipvmm_buffer_create",
      [&] { return hipvmm_buffer_create(0, "max=64MiB,step_limit=2MiB", &made); },
      [&] { require_ok(hipvmm_buffer_destroy(made)); });
  if (!on_fallback()) {
    hipvmm_slot_arena arena = nullptr;
    sweep_allocations(
        "hipvmm_slot_arena_create", [&] { return hipvmm_slot_arena_create(0, two_slots, &arena); },
        [&] { require_ok(hipvmm_slot_arena_destroy(arena)); });
    const budget_folder folder;
    hipvmm_budget budget = nullptr;
    sweep_allocations(
        "hipvmm_budget_join",
        [&] { return hipvmm_budget_join(0, "a", nullptr, nullptr, nullptr, &budget); },
        [&] { require_ok(hipvmm_budget_leave(budget)); });
    sweep_allocations(
        "hipvmm_buffer_create with a tag",
        [&] { return hipvmm_buffer_create(0, "max=64MiB,sleep_tag=c_allocations", &made); },
        [&] { require_ok(hipvmm_buffer_destroy(made)); });
  }
  std::size_t length = 0;
  sweep_allocations(
      "hipvmm_pool_report", [&] { return hipvmm_pool_report(pool, nullptr, 0, &length); }, nothing);
  sweep_allocations(
      "hipvmm_buffer_explain", [&] { return hipvmm_buffer_explain(buffer, nullptr, 0, &length); },
      nothing);
  sweep_allocations(
      "hipvmm_attach",
      [&] {
        hipvmm_attachment attached = nullptr;
        const hipvmm_status status = hipvmm_attach("/nowhere/at/all", "right=read", &attached);
        return status == HIPVMM_ERROR_IPC ? HIPVMM_OK : status;
      },
      nothing);
  sweep_allocations(
      "a refused handle",
      [] {
        const hipvmm_status status = hipvmm_buffer_reserve(nullptr, 1);
        return status == HIPVMM_ERROR_INVALID_HANDLE ? HIPVMM_OK : status;
      },
      nothing);
  CHECK(first_bytes(buffer) == "abc");
}

std::size_t used_of(hipvmm_resource pool) {
  return result_of(hipvmm_pool_get_statistics, pool).used_current;
}

TEST_CASE("C device memory: what the host has no memory to note is not allocated") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the program where there is no host memory for it");
  const owned_resource pool{result_of(hipvmm_device_pool, 0)};
  const std::size_t before = used_of(pool);
  for (const bool in_order : {true, false}) {
    CAPTURE(in_order);
    bool struck = true;
    for (std::uint64_t nth = 1; struck; ++nth) {
      CAPTURE(nth);
      REQUIRE(nth < 1000);
      void* made = nullptr;
      {
        const allocation_failure failing{nth};
        made = in_order ? hipvmm_device_allocate(nullptr, 3 * MiB, 0)
                        : hipvmm_device_allocate_sync(3 * MiB, 0);
        struck = failing.struck();
      }
      if (made == nullptr) {
        CHECK(used_of(pool) == before);
      } else {
        hipvmm_device_deallocate_sync(made);
      }
    }
  }
}

/// Destroys the result of `make` with its first allocation of host memory failing, then its second,
/// until none does.
template <typename Make, typename Destroy>
void sweep_destruction(const std::string& name, Make make, Destroy destroy) {
  CAPTURE(name);
  const std::size_t before = live_handles();
  for (std::uint64_t nth = 1; nth < 1000; ++nth) {
    CAPTURE(nth);
    auto made = make();
    hipvmm_status status = HIPVMM_OK;
    bool struck = false;
    {
      const allocation_failure failing{nth};
      status = destroy(made);
      struck = failing.struck();
    }
    CHECK(status == HIPVMM_OK);
    CHECK(live_handles() == before);
    if (!struck) return;
  }
  FAIL("an endless retry");
}

TEST_CASE("C interface: what is destroyed while host memory is lacking ends") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the program where there is no host memory for it");
  const error_recorder reported;
  sweep_destruction(
      "hipvmm_buffer_destroy",
      [] {
        const hipvmm_buffer buffer =
            result_of(hipvmm_buffer_create, 0, "max=64MiB,step_limit=2MiB");
        require_ok(hipvmm_buffer_resize(buffer, 5 * MiB, nullptr));
        return buffer;
      },
      hipvmm_buffer_destroy);
  sweep_destruction(
      "hipvmm_resource_destroy",
      [] {
        const hipvmm_resource pool = result_of(hipvmm_pool_create, 0, "maximum=64MiB");
        void* const memory = result_of(hipvmm_allocate, pool, 3 * MiB, 0, nullptr);
        require_ok(hipvmm_deallocate(pool, memory, 3 * MiB, 0, nullptr));
        return pool;
      },
      hipvmm_resource_destroy);
  const owned_resource pool = make_pool();
  sweep_destruction(
      "hipvmm_resource_destroy of an arena",
      [&] { return result_of(hipvmm_arena_create, pool, "maximum=64MiB,initial=8MiB"); },
      hipvmm_resource_destroy);
  sweep_destruction(
      "hipvmm_buffer_destroy in memory of a pool",
      [&] {
        const hipvmm_buffer buffer = result_of(hipvmm_buffer_create_on, pool, nullptr);
        require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
        return buffer;
      },
      hipvmm_buffer_destroy);
  sweep_destruction(
      "hipvmm_stream_destroy", [] { return result_of(hipvmm_stream_create, 0); },
      hipvmm_stream_destroy);
}

}  // namespace
}  // namespace hipvmm::test
