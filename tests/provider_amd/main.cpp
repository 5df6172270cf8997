// SPDX-License-Identifier: MIT
// Like the provider's tests these are a HIP program, and link nothing of the library.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "support/process/child_process.hpp"

int main(int argc, char** argv) {
  if (const std::optional<int> status = hipvmm::test::run_as_child(argc, argv)) return *status;
  return doctest::Context{argc, argv}.run();
}
