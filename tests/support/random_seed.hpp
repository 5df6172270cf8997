// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>

namespace hipvmm::test {

/// A generator whose seed is printed: that of HIPVMM_TEST_SEED, else `fixed`, else a random one.
inline std::mt19937 seeded_generator(std::optional<std::uint32_t> fixed = std::nullopt) {
  const char* const chosen = std::getenv("HIPVMM_TEST_SEED");
  const std::uint32_t seed = chosen != nullptr
                                 ? static_cast<std::uint32_t>(std::strtoul(chosen, nullptr, 10))
                             : fixed ? *fixed
                                     : std::random_device{}();
  MESSAGE("seed: repeat with HIPVMM_TEST_SEED=", seed);
  return std::mt19937{seed};
}

/// A number in [0, limit).
inline std::size_t below(std::mt19937& generator, std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>{0, limit - 1}(generator);
}

}  // namespace hipvmm::test
