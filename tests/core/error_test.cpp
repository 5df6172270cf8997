// SPDX-License-Identifier: MIT
#include <hipvmm/core/error.hpp>

#include "core/check.hpp"
#include "core/error.hpp"
#include "support/test.hpp"

namespace hipvmm {
namespace {

bool says(const std::exception& error, const std::string& text) {
  return std::string{error.what()}.find(text) != std::string::npos;
}

TEST_CASE("hip_error: carries code, call, file and line") {
  const hip_error error{999, "hipMemMap", "mapping.cpp", 17};
  CHECK(error.code() == 999);
  CHECK(std::string{error.call()} == "hipMemMap");
  CHECK(std::string{error.file()} == "mapping.cpp");
  CHECK(error.line() == 17);
}

TEST_CASE(
    "hip_error: its text names the call, the error and its code, and no place in the library") {
  const hip_error error{999, "hipMemMap", "mapping.cpp", 17};
  CHECK(says(error, "hipMemMap failed: hipErrorUnknown (999), "));
  CHECK_FALSE(says(error, "mapping.cpp"));
}

TEST_CASE("out_of_memory: is caught as std::bad_alloc and carries its figures") {
  try {
    throw out_of_memory{exhausted::device_memory, 1, 3 * GiB, 2 * MiB, {}};
  } catch (const std::bad_alloc& caught) {
    const auto* const error = dynamic_cast<const out_of_memory*>(&caught);
    REQUIRE(error != nullptr);
    CHECK(error->resource() == exhausted::device_memory);
    CHECK(error->device() == 1);
    CHECK(error->bytes_requested() == 3 * GiB);
    CHECK(error->bytes_free() == 2 * MiB);
  }
}

TEST_CASE("out_of_memory: its text names the device, the bytes asked for and the bytes free") {
  const out_of_memory error{exhausted::device_memory, 5, 3 * GiB, 2 * MiB, {}};
  CHECK(says(error, "device 5"));
  CHECK(says(error, "3.00 GiB"));
  CHECK(says(error, "2.00 MiB"));
}

TEST_CASE("retry_rounds: end after 16 that changed nothing, unless fewer retirements wait") {
  const shortage why{.cause = exhausted::addresses, .device = 0, .requested = MiB};
  detail::retry_rounds unchanged;
  int rounds = 0;
  while (unchanged.may_help(why, 5)) ++rounds;
  CHECK(rounds == 16);
  detail::retry_rounds fewer;
  for (std::size_t waiting = 100; waiting != 0; --waiting) REQUIRE(fewer.may_help(why, waiting));
  // A number that rises and falls proves nothing.
  rounds = 0;
  for (std::size_t i = 0; fewer.may_help(why, 1 + i % 3); ++i) ++rounds;
  CHECK(rounds == 15);
}

TEST_CASE("out_of_memory: its text tells the resources apart") {
  CHECK(says(out_of_memory{exhausted::device_memory, 0, MiB, 0, {}}, "device memory"));
  CHECK(says(out_of_memory{exhausted::addresses, 0, MiB, 0, {}}, "addresses"));
  CHECK(says(out_of_memory{exhausted::descriptors, 0, MiB, 0, {}}, "descriptor"));
  CHECK(says(out_of_memory{exhausted::limit, 0, MiB, 0, {}}, "limit"));
}

TEST_CASE("out_of_memory: the context continues the sentence") {
  CHECK(says(out_of_memory{exhausted::addresses, 0, MiB, 0, "the vector holds 7 MiB"},
             "the vector holds 7 MiB"));
}

TEST_CASE("out_of_memory: a caller's context follows what the cause says") {
  const out_of_memory cause{exhausted::descriptors, 2, 4 * MiB, GiB, "9 of the 9 are open"};
  const out_of_memory error{cause, "the vector holds 7 MiB"};
  CHECK(std::string{error.what()} == std::string{cause.what()} + "; the vector holds 7 MiB");
  CHECK(error.resource() == exhausted::descriptors);
  CHECK(error.device() == 2);
  CHECK(error.bytes_requested() == 4 * MiB);
  CHECK(error.bytes_free() == GiB);
}

TEST_CASE("out_of_memory: a copy keeps text and figures") {
  const auto original =
      std::make_unique<out_of_memory>(exhausted::descriptors, 2, 4 * MiB, GiB, "context");
  out_of_memory copied{exhausted::limit, 0, 1, 0, ""};
  copied = *original;
  CHECK(std::string{copied.what()} == original->what());
  CHECK(copied.resource() == exhausted::descriptors);
  CHECK(copied.bytes_requested() == 4 * MiB);
}

TEST_CASE_TEMPLATE("error types: copying never throws", Error, hip_error, out_of_memory,
                   unsupported) {
  CHECK(std::is_nothrow_copy_constructible_v<Error>);
  CHECK(std::is_nothrow_copy_assignable_v<Error>);
}

void first_handler(const char*, int, const char*) noexcept {}
void second_handler(const char*, int, const char*) noexcept {}

TEST_CASE("set_error_handler: returns the handler before") {
  const error_handler original = set_error_handler(first_handler);
  const bool first_was_set = set_error_handler(second_handler) == first_handler;
  const bool second_was_set = set_error_handler(original) == second_handler;
  CHECK(first_was_set);
  CHECK(second_was_set);
}

TEST_CASE("set_error_handler: nullptr restores the default") {
  const error_handler original = set_error_handler(nullptr);
  set_error_handler(first_handler);
  const error_handler restored = set_error_handler(nullptr);
  const error_handler original_default = set_error_handler(original);
  const bool first_was_set = restored == first_handler;
  const bool default_is_a_handler =
      original_default != nullptr && original_default != first_handler;
  CHECK(first_was_set);
  CHECK(default_is_a_handler);
}

TEST_CASE("reports_wait: an inner one that ends leaves the outer one in force") {
  const test::error_recorder reported;
  {
    detail::held_reports outer;
    const detail::reports_wait outer_wait{outer};
    {
      detail::held_reports inner;
      const detail::reports_wait inner_wait{inner};
      detail::warn("inner", "first");
    }
    detail::warn("outer", "second");
    CHECK(reported.count() == 0);
  }
  REQUIRE(reported.count() == 2);
  CHECK(reported.errors()[0].message == "first");
  CHECK(reported.errors()[1].message == "second");
}

TEST_CASE("report_exceptions: the report of a failed call of HIP has all that its text says") {
  const test::error_recorder reported;
  detail::report_exceptions(
      [] { detail::throw_failure(hipErrorInvalidHandle, "hipStreamQuery", "keep the stream"); });
  detail::report_exceptions([] { detail::check(hipErrorUnknown, "hipFree"); });
  REQUIRE(reported.count() == 2);
  CHECK(reported.errors()[0].message ==
        detail::error_name(hipErrorInvalidHandle) + std::string{"; keep the stream"});
  CHECK(reported.errors()[1].message == detail::error_name(hipErrorUnknown));
}

TEST_CASE("report: what fails because the runtime has shut down is no failure") {
  const test::error_recorder reported;
  detail::report(hipErrorDeinitialized, "hipFree");
  CHECK(reported.count() == 0);
  detail::report(hipErrorUnknown, "hipFree");
  CHECK(reported.count() == 1);
}

}  // namespace
}  // namespace hipvmm
