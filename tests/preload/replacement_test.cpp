// SPDX-License-Identifier: MIT
// The code behind the replaced functions, without another process.
#include <fstream>

#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "ipc/budget/budget_folder.hpp"
#include "preload/hip_calls.hpp"
#include "preload/replacement.hpp"
#include "preload/settings.hpp"
#include "support/blocked_stream.hpp"
#include "support/device_use.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/test.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

// The pool would make the next stream of that handle wait for the work of the first.
HIPVMM_TEST_CASE_IN("preload: memory of a stream that ends waits for its work, whatever the handle",
                    {"HIPVMM_CONF=pool.reuse_internal_dependencies=off"}) {
  preload::replacement calls{preload::settings{}};
  blocked_stream blocked{device_ref{0}};
  void* const first = allocate(calls, 3 * MiB, blocked);
  CHECK(calls.free_async(hip_calls, first, blocked) == 0);
  // In its order the stream has it at once.
  CHECK(allocate(calls, 3 * MiB, blocked) == first);
  CHECK(calls.free_async(hip_calls, first, blocked) == 0);
  calls.end_stream(blocked);
  // The next stream of that handle is another.
  void* const other = allocate(calls, 3 * MiB, blocked);
  CHECK(other != first);
  CHECK(calls.free_async(hip_calls, other, blocked) == 0);
  blocked.release();
}

TEST_CASE("preload: memory that hipFree returned without a wait is not reused before its work") {
  preload::replacement calls{{.free_waits = false}};
  blocked_stream busy{device_ref{0}};
  void* const first = allocate(calls, 3 * MiB, busy);
  opened_by_wait opener{[&] { busy.release(); }, std::chrono::seconds{1}};
  CHECK(calls.free(hip_calls, first) == 0);
  void* const second = allocate(calls, 3 * MiB);
  const bool waited = opener.was_waited_for();
  CHECK((second != first || waited));
  CHECK(calls.free(hip_calls, second) == 0);
}

TEST_CASE("preload: memory that hipFree has waited for is reused at once") {
  preload::replacement calls{preload::settings{}};
  void* const first = allocate(calls, 3 * MiB);
  CHECK(calls.free(hip_calls, first) == 0);
  const blocked_stream blocked{device_ref{0}};
  void* const second = allocate(calls, 3 * MiB);
  CHECK(second == first);
  void* const ordered = allocate(calls, 3 * MiB, blocked);
  CHECK(ordered != first);
  CHECK(calls.free_async(hip_calls, ordered, blocked) == 0);
  CHECK(calls.free_async(hip_calls, second, blocked) == 0);
}

// CUDA promises 256 and gives 512, which its textures need; AMD's give more.
TEST_CASE("preload: memory is as aligned as textures of it need") {
  preload::replacement calls{preload::settings{}};
  const stream used{device_ref{0}};
  std::vector<void*> held;
  for (std::size_t index = 0; index < 600; ++index) {
    const std::size_t bytes = 1 + index * 7919 % 6000;
    void* const made = index % 2 == 0 ? allocate(calls, bytes) : allocate(calls, bytes, used);
    CHECK(reinterpret_cast<std::uintptr_t>(made) % 512 == 0);
    held.push_back(made);
    if (index % 3 != 0) continue;
    CHECK(calls.free_async(hip_calls, held[index / 2], used) == 0);
    held[index / 2] = nullptr;
  }
  for (void* const each : held)
    if (each != nullptr) CHECK(calls.free_async(hip_calls, each, used) == 0);
}

TEST_CASE("preload: the range of an address within is found, whatever has been made and freed") {
  preload::replacement calls{preload::settings{}};
  std::map<char*, std::size_t> held;
  const auto make = [&](std::size_t index) {
    const std::size_t bytes = 1 + index * 7919 % 9000;
    void* const made = allocate(calls, bytes, stream_ref::legacy_default());
    held.emplace(static_cast<char*>(made), bytes);
  };
  const auto check_all = [&] {
    for (const auto& [begin, bytes] : held)
      for (const std::size_t offset : {std::size_t{0}, bytes / 2, bytes - 1}) {
        void* base = nullptr;
        std::size_t found = 0;
        CHECK(calls.address_range(hip_calls, &base, &found, begin + offset) == 0);
        CHECK(base == begin);
        CHECK(found == bytes);
      }
  };
  for (std::size_t index = 0; index < 100; ++index) make(index);
  check_all();
  std::size_t index = 0;
  for (auto each = held.begin(); each != held.end();) {
    if (++index % 3 == 0) {
      char* const freed = each->first;
      each = held.erase(each);
      CHECK(calls.free_async(hip_calls, freed, stream_ref::legacy_default()) == 0);
      CHECK(calls.address_range(hip_calls, nullptr, nullptr, freed) != 0);
      static_cast<void>(hipGetLastError());
    } else {
      ++each;
    }
  }
  for (index = 100; index < 150; ++index) make(index);
  check_all();
  for (const auto& [begin, bytes] : held)
    CHECK(calls.free_async(hip_calls, begin, stream_ref::legacy_default()) == 0);
}

/// A program that frees memory and allocates no more.
struct quiet_program {
  static constexpr std::size_t bytes = 64 * MiB;
  preload::replacement calls;
  void* made = nullptr;
  std::size_t before = 0;

  quiet_program() : calls{brief()} {
    REQUIRE(calls.allocate(hip_calls, &made, bytes) == 0);
    drain_retired_memory();  // slabs are allocated twice if HIP aligns too little
    before = bytes_in_use();
  }
  static preload::settings brief() {
    return preload::settings{.quiet = std::chrono::milliseconds{1}};
  }
  [[nodiscard]] bool is_released() const { return bytes_in_use() + bytes <= before; }
};

TEST_CASE("preload: what a program frees goes to the device when it allocates no more") {
  quiet_program program;
  SUBCASE("by hipFree") { CHECK(program.calls.free(hip_calls, program.made) == 0); }
  SUBCASE("by hipFreeAsync, when its work is done") {
    blocked_stream blocked{device_ref{0}};
    CHECK(program.calls.free_async(hip_calls, program.made, blocked) == 0);
    CHECK_FALSE(happens([&] { return program.is_released(); }));
    blocked.release();
  }
  CHECK(comes_true([&] { return program.is_released(); }));
}

HIPVMM_TEST_CASE_IN("preload: with a release threshold the pool keeps what that says",
                    {"HIPVMM_CONF=pool.release_threshold=unlimited"}) {
  quiet_program program;
  CHECK(program.calls.free(hip_calls, program.made) == 0);
  CHECK_FALSE(happens([&] { return program.is_released(); }));
}

TEST_CASE("preload: a device beyond those that have pools has none to end or to ask of") {
  preload::replacement calls{preload::settings{}};
  const error_recorder reported;
  for (const int beyond : {120, 1000}) {
    calls.reset_device(device_ref{beyond});
    calls.note_pool(device_ref{beyond});
  }
  CHECK(reported.count() == 0);
}

TEST_CASE("preload: the reset of a device takes no memory of another") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  preload::replacement calls{preload::settings{}};
  const stream on{device_ref{1}};
  static_cast<void>(allocate(calls, MiB));
  void* const other = allocate(calls, 3 * MiB, on);
  calls.reset_device(device_ref{0});
  void* base = nullptr;
  std::size_t bytes = 0;
  CHECK(calls.address_range(hip_calls, &base, &bytes, other) == 0);
  CHECK(base == other);
  CHECK(bytes == 3 * MiB);
  CHECK(calls.free_async(hip_calls, other, on) == 0);
}

TEST_CASE("preload: a device may be reset while threads use others") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  preload::replacement calls{preload::settings{}};
  std::atomic<bool> ends{false};
  std::atomic<int> asked{0};
  std::thread other{[&] {
    const stream on{device_ref{1}};
    // Of all pools.
    for (; !ends; ++asked) calls.end_stream(on);
  }};
  for (int round = 0; round < 20; ++round) {
    static_cast<void>(allocate(calls, 1000));
    const int before = asked;
    while (asked == before) std::this_thread::yield();
    calls.reset_device(device_ref{0});
  }
  ends = true;
  other.join();
}

TEST_CASE("preload: in a child of fork() nothing of the parent is freed, and all else is HIP's") {
  preload::replacement calls{preload::settings{}};
  void* const made = allocate(calls, MiB);
  calls.become_child();
  CHECK(calls.free(hip_calls, made) == 0);
  CHECK(calls.free_async(hip_calls, made, stream_ref::legacy_default()) == 0);
  void* const own = allocate(calls, MiB);
  REQUIRE(hipFree(own) == hipSuccess);
}

TEST_CASE("preload: settings are read from text") {
  const preload::settings read = preload::parse_settings(
      "threshold=64KiB, most=1GiB, free=returns, statistics=stderr, json=a%p");
  CHECK(read.threshold == 65536);
  CHECK(read.most == 1024 * MiB);
  CHECK_FALSE(read.free_waits);
  CHECK(read.statistics == "stderr");
  CHECK(read.json == "a%p");
  CHECK(preload::parse_settings("").free_waits);
  for (const char* const wrong : {"threshold=x", "free=never", "json=", "off,most=1",
                                  "most=1,most=2", "threshold=2MiB,most=1MiB"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(static_cast<void>(preload::parse_settings(wrong)), std::invalid_argument);
  }
}

/// The folder in which a child says that it is ready, and waits for its end.
constexpr const char* files_variable = "HIPVMM_TEST_FOLDER";

HIPVMM_CHILD("preload: is in a budget") {
  preload::replacement calls{preload::settings{}};
  void* const first = allocate(calls, 8 * MiB);
  const std::size_t held = held_of_all();
  CHECK(held >= 8 * MiB);
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(calls.memory_info(hip_calls, &free, &total) == 0);
  CHECK(free <= 24 * MiB);
  CHECK(total > 24 * MiB);
  // HIP has the memory, and is not asked for it.
  void* second = nullptr;
  for (const bool in_order : {false, true}) {
    const int code =
        in_order ? calls.allocate_async(hip_calls, &second, 64 * MiB, stream_ref::legacy_default())
                 : calls.allocate(hip_calls, &second, 64 * MiB);
    CHECK(code == hipErrorOutOfMemory);
    CHECK(hipGetLastError() == hipErrorOutOfMemory);
  }
  CHECK(held_of_all() <= 24 * MiB);
  CHECK(calls.free(hip_calls, first) == 0);
}

/// Of a device that can be in no budget: each request is out of memory, however it is made.
void check_refused(preload::replacement& calls) {
  void* made = nullptr;
  CHECK(calls.allocate(hip_calls, &made, MiB) == hipErrorOutOfMemory);
  CHECK(hipGetLastError() == hipErrorOutOfMemory);
  CHECK(calls.allocate_async(hip_calls, &made, MiB, stream_ref::legacy_default()) != 0);
  static_cast<void>(hipGetLastError());
}

HIPVMM_CHILD("preload: has a pool that is smaller than its budget") {
  preload::replacement calls{preload::settings{}};
  void* const first = allocate(calls, 4 * MiB);
  void* second = nullptr;
  CHECK(calls.allocate(hip_calls, &second, 16 * MiB) == hipErrorOutOfMemory);
  CHECK(hipGetLastError() == hipErrorOutOfMemory);
  CHECK(calls.free(hip_calls, first) == 0);
}

HIPVMM_CHILD("preload: cannot be in its budget") {
  preload::replacement calls{{.threshold = 1024}};
  check_refused(calls);
  check_refused(calls);
  // A request below the threshold does not count anyway.
  CHECK(calls.free(hip_calls, allocate(calls, 100)) == 0);
}

HIPVMM_CHILD("preload: has no budget and wrong options") {
  preload::replacement calls{preload::settings{}};
  CHECK(calls.free(hip_calls, allocate(calls, MiB)) == 0);  // by HIP
}

HIPVMM_CHILD("preload: has idle memory of a budget") {
  const std::string files = std::getenv(files_variable);
  preload::replacement calls{preload::settings{}};
  CHECK(calls.free(hip_calls, allocate(calls, 16 * MiB)) == 0);
  std::ofstream{files + "/holds"} << "x";
  comes_true([&] { return std::ifstream{files + "/end"}.good(); });
}

TEST_CASE(
    "preload: where its budget cannot be kept a program gets no memory, and that is said once") {
  const temporary_folder folder;
  const std::string missing = (folder.path() / "missing" / "folder").string();
  for (const std::string& conf :
       {std::string{"budget=fine:24MiB"}, std::string{"budget=a/b:24MiB"},
        std::string{"budget=:24MiB"}, std::string{"pool.maximum=much, budget = fine:24MiB"}}) {
    CAPTURE(conf);
    const child_result result = run_child("preload: cannot be in its budget",
                                          {"HIPVMM_CONF=" + conf, "HIPVMM_BUDGETS=" + missing});
    CHECK_MESSAGE(passed(result), result.output);
    const std::string sentence = "hipvmm_preload: requests on this device are out of memory";
    const std::size_t first = result.output.find(sentence);
    CHECK_MESSAGE(first != std::string::npos, result.output);
    CHECK(result.output.find(sentence, first + 1) == std::string::npos);
  }
}

TEST_CASE("preload: only an option of that name is a budget") {
  const child_result result = run_child("preload: has no budget and wrong options",
                                        {"HIPVMM_CONF=buffer.ahead_budget=8MiB,pool.maximum=much"});
  CHECK_MESSAGE(passed(result), result.output);
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("preload: a program as it is gets no more than its budget") {
  const budget_folder folder;
  check_child("preload: is in a budget", {"HIPVMM_CONF=budget=capped:24MiB"});
  check_child("preload: has a pool that is smaller than its budget",
              {"HIPVMM_CONF=budget=larger:512MiB,pool.maximum=8MiB"});
}

// In a process of its own, because memory that earlier cases left counts as its process's.
HIPVMM_TEST_CASE_IN("preload: idle memory of a program as it is goes to who needs it", {}) {
  const budget_folder folder;
  const temporary_folder files;
  auto child = std::async(std::launch::async, [&] {
    return run_child("preload: has idle memory of a budget",
                     {"HIPVMM_CONF=budget=shared:24MiB,pool.release_threshold=unlimited",
                      std::string{files_variable} + '=' + files.path().string()});
  });
  REQUIRE(comes_true([&] { return std::ifstream{(files.path() / "holds").string()}.good(); }));
  {
    memory_budget budget{device_ref{0}, "shared", 1, {.patience = std::chrono::seconds{20}}};
    CHECK(budget.report().limit == 24 * MiB);
    CHECK(budget.report().bytes >= 16 * MiB);
    std::string held;
    for (const budget_holder& each : budget.report().holders)
      held += std::to_string(each.bytes) + " of process " + std::to_string(each.process) + "; ";
    CAPTURE(held);
    CHECK(budget.make_room(20 * MiB));
  }
  std::ofstream{(files.path() / "end").string()} << "x";
  const child_result result = child.get();
  CHECK_MESSAGE(passed(result), result.output);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
