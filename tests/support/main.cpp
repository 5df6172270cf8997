// SPDX-License-Identifier: MIT
// The main of every test program above the provider: one clear sentence where there is no device.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include <hipvmm/core/device.hpp>

#if defined(HIPVMM_TESTS_NEED_VIRTUAL_MEMORY)
constexpr bool needs_virtual_memory = true;
#else
constexpr bool needs_virtual_memory = false;
#endif

int main(int argc, char** argv) {
  // CTest asks a program for its cases while building, where there may be no device.
  const bool only_lists = std::any_of(argv, argv + argc, [](std::string_view argument) {
    return argument.find("list-test-cases") != std::string_view::npos;
  });
  if (!only_lists) {
    try {
      const hipvmm::device_ref device = hipvmm::device_ref::current();
      const bool needs_none = std::any_of(argv, argv + argc, [](std::string_view argument) {
        return argument.find("without virtual memory") != std::string_view::npos;
      });
      if (needs_virtual_memory && !needs_none && !device.supports_virtual_memory()) {
        // Nothing to test there but that the library says so.
        std::printf("skipped: device %d offers no virtual memory management\n", device.ordinal());
        return 0;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
      return 2;
    }
  }
  return doctest::Context{argc, argv}.run();
}
