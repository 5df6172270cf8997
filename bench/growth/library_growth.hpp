// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include "grower.hpp"

namespace bench {

/// region::commit, each chunk created anew: the chunk cache is off. A peer is granted access before
/// the first step.
[[nodiscard]] std::unique_ptr<grower> make_region(hipvmm::device_ref device, std::size_t max_bytes,
                                                  std::optional<hipvmm::device_ref> peer = {});

/// growable_device_vector of bytes, by resize_uninitialized.
[[nodiscard]] std::unique_ptr<grower> make_vector(hipvmm::device_ref device,
                                                  const hipvmm::growth_options& options = {},
                                                  std::optional<hipvmm::device_ref> peer = {});

/// As make_vector without options, in a program that has grown such a vector through `sizes` a
/// moment ago and set nothing: chunk_cache::shared() keeps the chunks which that one released.
/// Throws: std::runtime_error when the cache did not keep them.
[[nodiscard]] std::unique_ptr<grower> make_vector_again(hipvmm::device_ref device,
                                                        const std::vector<std::size_t>& sizes);

/// One chunk of exactly the missing bytes for each step, as the raw calls make theirs.
[[nodiscard]] hipvmm::growth_options exact_steps();

/// As exact_steps, with the chunk for the next sixteen steps of `step_bytes` made ready by a thread
/// in the background.
[[nodiscard]] hipvmm::growth_options ahead_options(std::size_t step_bytes);

/// As make_region and as an exact make_vector, with a chunk cache of its own that holds the chunks
/// of a first growth through `sizes`: the case of a program that grows again and again.
/// Throws: std::runtime_error when the cache did not keep them.
[[nodiscard]] std::unique_ptr<grower> make_cached_region(hipvmm::device_ref device,
                                                         const std::vector<std::size_t>& sizes);
[[nodiscard]] std::unique_ptr<grower> make_cached_vector(hipvmm::device_ref device,
                                                         const std::vector<std::size_t>& sizes);

}  // namespace bench
