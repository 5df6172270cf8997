// SPDX-License-Identifier: MIT
// Asserts about exceptions discard the value of their expression, of [[nodiscard]] functions too.
#pragma once

#include <doctest/doctest.h>

// doctest's DOCTEST_CONFIG_VOID_CAST_EXPRESSIONS takes expressions alone, and some tests pass
// statements.
#undef DOCTEST_CAST_TO_VOID
#define DOCTEST_CAST_TO_VOID(...)                                                      \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunused-result\"") \
      __VA_ARGS__;                                                                     \
  _Pragma("GCC diagnostic pop")
