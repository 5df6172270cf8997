// SPDX-License-Identifier: MIT
// Publications while calls of the system or of HIP fail, and in children of fork().
#include "ipc/ipc_test.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("publication: calls of the system that fail leave nothing") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "memory").string();
  { const publication warm_up{path, first_device, granule()}; }
  sweep_steps([&] {
    { const publication one{path, first_device, granule()}; }
    CHECK(std::filesystem::is_empty(folder.path()));
  });
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE_FIXTURE(published_region,
                  "attached_region: calls of the system that fail leave nothing") {
  { const attached_region warm_up{path}; }
  sweep_steps([&] { const attached_region one{path, attach_within(500ms)}; });
  CHECK(mappings_of("hipvmm publication") == 1);
}

TEST_CASE_FIXTURE(published_region,
                  "attached_region: HIP calls that fail in an attach leave nothing") {
  { const attached_region warm_up{path}; }
  fault_sweep{"attach"}.run([&] {
    attached_region one{path};
    CHECK(one.bytes() == 2 * granule());
  });
}

TEST_CASE("attached_region: HIP calls that fail in an attach to striped memory leave nothing") {
  const temporary_folder folder;
  const stream stream;
  region_options options = shareable_chunks();
  options.placement = chunk_placement::striped({first_device, second_device}, granule());
  region owned{first_device, 2 * granule(), options};
  owned.commit(0, 2 * granule());
  const publication_options also{.other_devices = {second_device}};
  publication published{path_in(folder), first_device, 2 * granule(), {}, also};
  published.announce(owned, 2 * granule(), stream);
  stream.synchronize();
  { const attached_region warm_up{path_in(folder)}; }
  fault_sweep{"attach"}.run([&] {
    const attached_region one{path_in(folder)};
    CHECK(one.bytes() == 2 * granule());
  });
}

TEST_CASE("attached_region: a refresh that fails goes on at the next") {
  struct importing : published_region {
    attached_region seen{path};
    importing() {
      owned.commit(2 * granule(), 2 * granule());
      published.announce(owned, 4 * granule(), stream);
      stream.synchronize();
    }
  };
  fault_sweep{"refresh", after_failure::capacity}.run<importing>(
      [](auto& one) { one.seen.refresh(one.stream); },
      [](auto& one) {
        CHECK(one.seen.bytes() >= 2 * granule());
        CHECK(one.seen.refresh(one.stream) == 4 * granule());
      },
      [](auto& one) { CHECK(one.seen.refresh(one.stream) == 4 * granule()); });
}

// More than one packet has: ROCm 7.0 to 7.2 refuse the first, beside a hole, and all is mapped
// anew.
TEST_CASE("attached_region: many chunks in the middle are replaced at once, though unmaps fail") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "two devices that reach");
  constexpr std::size_t count = 24;
  bool struck = true;
  for (std::uint64_t nth = 1; struck; ++nth) {
    CAPTURE(nth);
    const temporary_folder folder;
    const stream stream;
    region owned{first_device, count * granule(), shareable_chunks()};
    owned.grant(peer);
    publication_options options;
    options.other_devices = {peer};
    publication published{path_in(folder), first_device, count * granule(), {}, options};
    owned.commit(0, 2 * granule());
    for (std::size_t i = 2; i < count; ++i) owned.commit(i * granule(), granule());
    published.announce(owned, count * granule(), stream);
    stream.synchronize();
    attached_region seen{path_in(folder)};
    REQUIRE(owned.move_range(2 * granule(), 20 * granule(), peer, stream) == 20 * granule());
    published.announce(owned, count * granule(), stream);
    stream.synchronize();
    {
      planned_fault fault{"hipMemUnmap", nth, hipErrorOutOfMemory};
      try {
        seen.refresh(stream);
      } catch (const hip_error&) {
      }
      struck = fault.end();
    }
    CHECK(seen.refresh(stream) == count * granule());
    CHECK(seen.chunks().size() == count - 1);
  }
}

TEST_CASE("attached_region: what is cut off unmaps all and says so at last, though calls fail") {
  struct cut_off : published_region {
    attached_region seen{this->path};
    int times_told = 0;
    cut_off() : published_region{with_lease(1ms)} {
      owned.trim(granule(), stream);
      announce(1);
      CHECK(published.wait_until_withdrawn(20s));
    }
    void look() {
      try {
        CHECK(seen.refresh(stream) == 0);
      } catch (const ipc_error& error) {
        CHECK(error.reason() == ipc_failure::expired);
        ++times_told;
      }
    }
  };
  const auto check_unmapped = [](auto& one) {
    one.look();
    CHECK(one.times_told == 1);
    CHECK(one.seen.chunks().empty());
    CHECK_FALSE(one.seen.is_open());
  };
  fault_sweep{"refresh", after_failure::capacity}.run<cut_off>([](auto& one) { one.look(); },
                                                               check_unmapped, check_unmapped);
}

std::atomic<bool> holds_accept{false};
std::atomic<bool> is_held{false};

int hold_accept(const char* step) {
  if (std::string_view{step} != "accept4") return 0;
  while (holds_accept) {
    is_held = true;
    std::this_thread::sleep_for(1ms);
  }
  return 0;
}

TEST_CASE("publication: a request that came while its thread was held up counts for the lease") {
  constexpr std::chrono::milliseconds lease = 700ms;  // a busy machine takes some of it
  published_region memory{with_lease(lease)};
  attached_region seen{memory.path};
  holds_accept = true;
  detail::protocol_step_hook = hold_accept;
  const raw_importer knocks{memory.path};
  REQUIRE(comes_true([] { return is_held.load(); }));
  memory.owned.trim(granule(), memory.stream);
  memory.announce(1);
  auto looks =
      std::async(std::launch::async, [&] { return seen.refresh(memory.stream) == granule(); });
  std::this_thread::sleep_for(2 * lease + 20ms);
  holds_accept = false;
  CHECK_NOTHROW(CHECK(looks.get()));
  CHECK(memory.published.wait_until_withdrawn(20s));
  CHECK(memory.published.importers() == 1);
  detail::protocol_step_hook = nullptr;
}

TEST_CASE("publication: an announcement that fails can be made again") {
  fault_sweep{"announce", after_failure::capacity}.run(
      [] {
        auto one = std::make_unique<published_region>();
        one->owned.commit(2 * granule(), granule());
        return one;
      },
      [](auto& one) { one.published.announce(one.owned, 3 * granule(), one.stream); },
      [](auto& one) {
        one.published.announce(one.owned, 3 * granule(), one.stream);
        one.stream.synchronize();
        CHECK(attached_region{one.path}.bytes() == 3 * granule());
      },
      [](auto& one) {
        one.stream.synchronize();
        CHECK(attached_region{one.path}.bytes() == 3 * granule());
      });
}

TEST_CASE("attached_region: the owner hears that chunks are unmapped, whatever failed before") {
  const failing_steps steps;
  bool struck = true;
  for (long step = 1; struck; ++step) {
    REQUIRE(step < 100);
    CAPTURE(step);
    published_region memory;
    attached_region seen{memory.path};
    memory.owned.trim(granule(), memory.stream);
    memory.announce(1);
    failing_step = step;
    failing_code = ENOMEM;
    try {
      seen.refresh(memory.stream);
    } catch (const ipc_error&) {
    }
    struck = failing_step == 0;
    failing_step = 0;
    CHECK(seen.refresh(memory.stream) == granule());
    CHECK(seen.chunks().size() == 1);
    CHECK(memory.published.wait_until_withdrawn(20s));
    seen.refresh(memory.stream);
    CHECK(seen.is_open());
  }
}

// The allocation after the step `memory_step` that fails in threads of the library; 0: none.
std::atomic<std::uint64_t> failing_allocation{0};
std::atomic<const char*> memory_step{""};
std::atomic<bool> allocation_struck{false};
thread_local bool is_test_thread = false;
thread_local std::optional<allocation_failure> planned_failure;

int fail_allocations(const char* step) {
  if (is_test_thread) return 0;
  if (planned_failure && planned_failure->struck()) allocation_struck = true;
  if (failing_allocation != 0 && std::string_view{memory_step} == step && !allocation_struck) {
    if (!planned_failure) planned_failure.emplace(failing_allocation);
  } else if (failing_allocation == 0 || allocation_struck) {
    planned_failure.reset();
  }
  return 0;
}

/// Runs `action` with each allocation of the library's threads after `step` failing in turn.
template <typename Action>
void sweep_thread_allocations(const char* step, Action action) {
  is_test_thread = true;
  memory_step = step;
  detail::protocol_step_hook = fail_allocations;
  bool struck = true;
  for (std::uint64_t nth = 1; struck; ++nth) {
    REQUIRE(nth < 200);
    CAPTURE(nth);
    allocation_struck = false;
    failing_allocation = nth;
    action();
    failing_allocation = 0;
    struck = allocation_struck;
  }
  detail::protocol_step_hook = nullptr;
  is_test_thread = false;
}

TEST_CASE_FIXTURE(published_region, "publication: goes on where its thread has no memory") {
  attached_region honest{path};
  REQUIRE(comes_true([&] { return published.importers() == 1; }));
  const std::size_t before = steady_descriptors();
  sweep_thread_allocations("accept4", [&] {
    try {
      attached_region seen{path, attach_within(2s)};
      CHECK((seen.bytes() == 2 * granule() || !seen.is_open()));
    } catch (const ipc_error& error) {
      CHECK(error.reason() == ipc_failure::closed);
    }
    failing_allocation = 0;
    // So that the thread, which may wait, takes the plan back.
    CHECK(comes_true([&] {
      try {
        return attached_region{path}.bytes() == 2 * granule();
      } catch (const ipc_error&) {
        return false;
      }
    }));
    CHECK(comes_true([&] { return published.importers() == 1; }));
    CHECK(descriptors_become(before));
  });
  owned.commit(2 * granule(), granule());
  announce(3);
  CHECK(honest.wait_for(3 * granule(), 10s, stream));
}

TEST_CASE("publication: a stranger is refused though memory has run out") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may be another user");
    return;
  }
  constexpr unsigned stranger = 65534;
  published_region memory{{.other_users = {1}}};
  REQUIRE(::chmod(memory.folder.path().c_str(), 0755) == 0);
  sweep_thread_allocations("getsockopt", [&] {
    CHECK(succeeds_in_forked_child([&] {
      detail::protocol_step_hook = nullptr;
      if (::setresuid(stranger, stranger, stranger) != 0) return false;
      const raw_importer one{memory.path};
      static_cast<void>(
          detail::send_packet(one.socket.get(), detail::hello_packet{detail::own_identity()}));
      detail::received_packet next;
      while (detail::wait_readable(one.socket.get(), detail::deadline_in(2s))) {
        if (detail::receive_packet(one.socket.get(), next) == detail::transfer_result::closed)
          return true;
        if (!std::holds_alternative<detail::refusal_packet>(next.content)) return false;
      }
      return false;
    }));
    failing_allocation = 0;
    CHECK(comes_true([&] {
      try {
        return attached_region{memory.path}.bytes() == 2 * granule();
      } catch (const ipc_error&) {
        return false;
      }
    }));
  });
}

TEST_CASE_FIXTURE(published_region,
                  "publication: a newcomer has no chunk that was withdrawn before") {
  attached_region first{path};
  owned.trim(granule(), stream);
  published.announce(owned, granule(), stream);
  attached_region second{path};
  CHECK(second.chunks().size() == 1);
  first.refresh(stream);
  CHECK(published.wait_until_withdrawn(20s));
}

TEST_CASE_FIXTURE(published_region,
                  "publication: its end is seen though a child of the owner lives") {
  attached_region seen{path};
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  { const publication ended{std::move(published)}; }
  CHECK_FALSE(seen.wait_for(3 * granule(), 10s, stream));
  CHECK_FALSE(seen.is_open());
  ::kill(child, SIGKILL);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE_FIXTURE(published_region, "publication: a child of fork() ends it while a thread waits") {
  attached_region seen{path};
  owned.trim(granule(), stream);
  published.announce(owned, granule(), stream);
  bool is_withdrawn = false;
  watched_thread waiting{[&] { is_withdrawn = published.wait_until_withdrawn(10s); }};
  REQUIRE(waiting.comes_to_wait());
  CHECK(succeeds_in_forked_child([&] {
    { const publication ended{std::move(published)}; }
    return true;
  }));
  seen.refresh(stream);
  waiting.join();
  CHECK(is_withdrawn);
}

TEST_CASE_FIXTURE(published_region,
                  "attached_region: a child of fork() says nothing over its parent's connection") {
  attached_region seen{path};
  owned.trim(granule(), stream);
  announce(1);
  CHECK(succeeds_in_forked_child([&] {
    try {
      seen.refresh(stream);
    } catch (const unsupported&) {
      return seen.chunks().size() == 2;
    }
    return false;
  }));
  CHECK_FALSE(published.wait_until_withdrawn(0ms));
  CHECK(seen.refresh(stream) == granule());
  CHECK(published.wait_until_withdrawn(20s));
}

TEST_CASE_FIXTURE(published_region, "publication: limits of time may be as long as can be said") {
  const publication_options patient{.patience = std::chrono::milliseconds::max()};
  publication other{path + "2", first_device, 8 * granule(), {}, patient};
  other.announce(owned, 2 * granule(), stream);
  attached_region seen{path + "2", {.timeout = std::chrono::milliseconds::max()}};
  CHECK(seen.wait_for(2 * granule(), std::chrono::milliseconds::max(), stream));
  CHECK(other.importers() == 1);
  CHECK(other.wait_until_withdrawn(std::chrono::milliseconds::max()));
}

TEST_CASE_FIXTURE(published_region, "attached_region: goes on after it had no descriptors left") {
  attached_region seen{path};
  owned.commit(2 * granule(), granule());
  published.announce(owned, 3 * granule(), stream);
  for (int i = 0; i < 6; ++i) {
    const no_descriptors_left limit;
    CHECK_THROWS_AS(seen.refresh(stream), out_of_memory);
  }
  CHECK(seen.wait_for(3 * granule(), 10s, stream));
  CHECK(seen.is_open());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
