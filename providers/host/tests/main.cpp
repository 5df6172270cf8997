// SPDX-License-Identifier: MIT
// The provider's tests are a HIP program: they link the provider and nothing of the library.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
