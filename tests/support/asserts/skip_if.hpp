// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

/// Ends the case, and says why, if `condition` holds.
#define HIPVMM_SKIP_IF(condition, why) \
  do {                                 \
    if (condition) {                   \
      MESSAGE("skipped: ", why);       \
      return;                          \
    }                                  \
  } while (false)
