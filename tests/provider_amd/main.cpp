// SPDX-License-Identifier: MIT
// Like the provider's tests these are a HIP program, and link nothing of the library.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
