// SPDX-License-Identifier: MIT
// The main of every test program above the provider: one clear sentence if there is no device.
// It is the main of the program's children too, see support/process/child_process.hpp.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "support/process/child_process.hpp"
#include "support/process/temporary_folder.hpp"

namespace {

/// Folders of this run, in place of the user's: two runs on one machine do not meet in budgets or
/// in records of capabilities. Children are in the same, and cases may name others.
class own_folders {
 public:
  own_folders() {
    set("HIPVMM_BUDGETS", budgets_);
    set("XDG_CACHE_HOME", cache_);
  }

 private:
  static void set(const char* variable, std::optional<hipvmm::test::temporary_folder>& folder) {
    if (std::getenv(variable) != nullptr) return;
    folder.emplace();
    ::setenv(variable, folder->path().c_str(), 1);
  }

  std::optional<hipvmm::test::temporary_folder> budgets_;
  std::optional<hipvmm::test::temporary_folder> cache_;
};

/// Memory that a case has retired comes back before the next one counts.
void drain() {
  hipvmm::drain_retired_memory();
  hipvmm::chunk_cache::shared().trim();
}

struct drain_after_each_case : doctest::IReporter {
  explicit drain_after_each_case(const doctest::ContextOptions&) {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override { drain(); }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  // Retired memory of a pass would be freed beside the next, whose held stream takes no work then
  // on AMD's runtime 5.7.1 and 7.2.4 (enqueue_beside_wait in docs/guides/rocm.md).
  void test_case_reenter(const doctest::TestCaseData&) override { drain(); }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

DOCTEST_REGISTER_LISTENER("drain_after_each_case", 1, drain_after_each_case);

int main(int argc, char** argv) {
  // CTest asks a program for its cases while building, perhaps without a device.
  const bool only_lists = std::any_of(argv, argv + argc, [](std::string_view argument) {
    return argument.find("list-test-cases") != std::string_view::npos;
  });
  const own_folders folders;
  doctest::Context context{argc, argv};
  // Released chunks go to the device, so that a case can count them. Cases about the chunks kept
  // by default have children, which begin without this.
  if (std::getenv("HIPVMM_TESTS_KEEP_CHUNKS") == nullptr)
    hipvmm::chunk_cache::shared().set_byte_limit(0);
  if (!only_lists) {
    try {
      const hipvmm::device_ref device = hipvmm::device_ref::current();
      // Before the first case, so that no sweep of failures meets a probe. Cases about probes have
      // children, which begin without.
      if (std::getenv("HIPVMM_TESTS_PROBE_LATER") == nullptr) {
        for (int ordinal = 0; ordinal < hipvmm::device_count(); ++ordinal)
          static_cast<void>(hipvmm::capability_of(hipvmm::device_ref{ordinal}));
        const std::string why = hipvmm::capability_of(device).why_fallback();
        const char* const left_out = why.empty() ? "on hipMalloc" : "needs virtual memory";
        context.addFilter("test-suite-exclude", left_out);
        std::printf("without the cases of the suite \"%s\"; device %d: %s\n", left_out,
                    device.ordinal(), why.empty() ? "its virtual memory works" : why.c_str());
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
      return 2;
    }
  }
  if (const std::optional<int> status = hipvmm::test::run_as_child(argc, argv)) {
    drain();
    return *status;
  }
  return context.run();
}
