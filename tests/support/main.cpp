// SPDX-License-Identifier: MIT
// The main of every test program above the provider: one clear sentence where there is no device.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include <hipvmm/core/device.hpp>

int main(int argc, char** argv) {
  // CTest asks a program for its cases while building, where there may be no device.
  const bool only_lists = std::any_of(argv, argv + argc, [](std::string_view argument) {
    return argument.find("list-test-cases") != std::string_view::npos;
  });
  if (!only_lists) {
    try {
      static_cast<void>(hipvmm::device_ref::current());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
      return 2;
    }
  }
  return doctest::Context{argc, argv}.run();
}
