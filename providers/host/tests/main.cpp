// SPDX-License-Identifier: MIT
// The provider's tests are a HIP program: they link the provider and nothing of the library.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "support/process/child_process.hpp"

int main(int argc, char** argv) {
  if (const std::optional<int> status = hipvmm::test::run_as_child(argc, argv)) return *status;
  return doctest::Context{argc, argv}.run();
}
