// SPDX-License-Identifier: MIT
// Watermarks in the C interface.
#include <hipvmm/vmm/chunk_cache.hpp>
#include "c/c_interface.hpp"
#include "c/settings.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test {
namespace {

/// A limit of 64 MiB beyond the memory held.
std::string within_64(const std::string& rest) {
  require_ok(hipvmm_drain_retired_memory());
  chunk_cache::shared().trim();
  return "limit=" + std::to_string(detail::created_chunk_bytes(first_device) + 64 * MiB) +
         ",low=32MiB,high=16MiB,critical=8MiB,hysteresis=0%,device_memory=off" + rest;
}

hipvmm_pressure_note empty_note() {
  hipvmm_pressure_note note{};
  note.struct_size = sizeof note;
  return note;
}

owned_buffer buffer_of(std::size_t bytes) {
  owned_buffer made = make_buffer("max=256MiB,step_limit=0");
  require_ok(hipvmm_buffer_resize(made, bytes, nullptr));
  return made;
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("c pressure: notes are waited for, with figures and reasons") {
  const hipvmm_pressure pressure =
      result_of(hipvmm_pressure_subscribe, 0, within_64("").c_str(), nullptr, nullptr);
  hipvmm_pressure_note note = empty_note();
  CHECK(result_of(hipvmm_pressure_wait, pressure, 0, &note) == 0);
  owned_buffer buffer = buffer_of(50 * MiB);
  REQUIRE(result_of(hipvmm_pressure_wait, pressure, 10'000, &note) == 1);
  CHECK(note.level == HIPVMM_PRESSURE_HIGH);
  CHECK(note.previous == HIPVMM_PRESSURE_NONE);
  CHECK(note.bound == HIPVMM_EXHAUSTED_LIMIT);
  CHECK(note.free_bytes == 14 * MiB);
  CHECK(note.largest_request >= note.free_bytes);
  CHECK(note.reason.kind == HIPVMM_CHANGE_GROW);
  CHECK(note.reason.holder == HIPVMM_HOLDER_BUFFER);
  CHECK(note.reason.bytes == 50 * MiB);
  hipvmm_pressure_note now = result_of(hipvmm_pressure_now, pressure);
  CHECK(now.level == note.level);
  CHECK(now.reason.kind == HIPVMM_CHANGE_BY_OTHERS);
  std::size_t count = 0;
  hipvmm_memory_change newest{};
  CHECK(result_of(hipvmm_pressure_get_reasons, pressure, &newest, 1) >= 1);
  CHECK(newest.holder == HIPVMM_HOLDER_BUFFER);
  CHECK(hipvmm_pressure_get_reasons(pressure, nullptr, 1, &count) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_pressure_wait(pressure, 0, &note, nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  require_ok(hipvmm_pressure_end(pressure));
  CHECK(hipvmm_pressure_now(pressure, &now) == HIPVMM_ERROR_INVALID_HANDLE);
}

TEST_CASE("c pressure: a callback ends its subscription, and may call the library") {
  struct shared {
    hipvmm_pressure pressure = nullptr;
    std::atomic<int> calls{0};
    hipvmm_status ended = HIPVMM_ERROR_INTERNAL;
    hipvmm_status trimmed = HIPVMM_ERROR_INTERNAL;
  } state;
  const auto callback = [](const hipvmm_pressure_note* note, void* argument) {
    auto& of = *static_cast<shared*>(argument);
    CHECK(note->struct_size == sizeof *note);
    of.trimmed = hipvmm_drain_retired_memory();
    of.ended = hipvmm_pressure_end(of.pressure);
    ++of.calls;
  };
  require_ok(hipvmm_pressure_subscribe(0, within_64(",delivery=requesting_thread").c_str(),
                                       callback, &state, &state.pressure));
  owned_buffer buffer = buffer_of(40 * MiB);
  CHECK(state.calls == 1);
  CHECK(state.ended == HIPVMM_OK);
  CHECK(state.trimmed == HIPVMM_OK);
  require_ok(hipvmm_buffer_resize(buffer, 60 * MiB, nullptr));
  CHECK(state.calls == 1);
}

TEST_CASE("c pressure: a callback uses the memory that sleeps, wakes and is loaded") {
  struct shared {
    owned_buffer buffer;
    std::vector<hipvmm_status> sized = {};
  } state{make_buffer("max=256MiB,step_limit=0,sleep_tag=c_pressed")};
  const auto callback = [](const hipvmm_pressure_note*, void* argument) {
    auto& of = *static_cast<shared*>(argument);
    std::size_t bytes = 0;
    of.sized.push_back(hipvmm_buffer_size(of.buffer, &bytes));
    hipvmm_tag_statistics now{};
    now.struct_size = sizeof now;
    of.sized.push_back(hipvmm_tag_get_statistics("c_pressed", &now));
  };
  const hipvmm_pressure pressure =
      result_of(hipvmm_pressure_subscribe, 0, within_64(",delivery=requesting_thread").c_str(),
                callback, &state);
  const auto check_called = [&state] {
    CHECK(!state.sized.empty());
    for (const hipvmm_status each : std::exchange(state.sized, {})) CHECK(each == HIPVMM_OK);
  };
  require_ok(hipvmm_buffer_resize(state.buffer, 50 * MiB, nullptr));
  check_called();
  require_ok(hipvmm_suspend("c_pressed", HIPVMM_KEEP_CONTENTS, nullptr, nullptr));
  require_ok(hipvmm_drain_retired_memory());
  check_called();
  require_ok(hipvmm_resume("c_pressed", nullptr));
  check_called();
  require_ok(hipvmm_pressure_end(pressure));
}

TEST_CASE("c pressure: a wait ends with the subscription, and bad options are refused") {
  hipvmm_pressure pressure =
      result_of(hipvmm_pressure_subscribe, 0, within_64("").c_str(), nullptr, nullptr);
  std::thread waiting{[pressure] {
    hipvmm_pressure_note note = empty_note();
    int came = 1;
    // The handle may be stale before it begins.
    if (hipvmm_pressure_wait(pressure, 10'000, &note, &came) == HIPVMM_OK) CHECK(came == 0);
  }};
  require_ok(hipvmm_pressure_end(pressure));
  waiting.join();
  for (const char* const bad : {"low=x", "low=101%", "low=-1%", "low=nan%", "hysteresis=2",
                                "hysteresis=101%", "delivery=me", "interval=-1"})
    CHECK(hipvmm_pressure_subscribe(0, bad, nullptr, nullptr, &pressure) ==
          HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_pressure_subscribe(99, "", nullptr, nullptr, &pressure) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_pressure_end(nullptr) == HIPVMM_ERROR_INVALID_HANDLE);
}

TEST_CASE("c pressure: percentages have fractions") {
  const pressure_options made =
      c::pressure_settings(first_device, "low=2.5%,critical=1GiB,hysteresis=0.5%");
  CHECK(made.low.fraction == doctest::Approx(0.025));
  CHECK(made.critical.fraction == 0);
  CHECK(made.critical.bytes == GiB);
  CHECK(made.hysteresis == doctest::Approx(0.005));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
