// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "kernels.hpp"

namespace bench {

// The scenarios of growth_bench, each with its question in its own file, and the names by which
// bars and tables find their rows.

[[nodiscard]] std::vector<measurement> measure_doubling(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_steps(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_push_back(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_largest(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_bandwidth(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_beside_kernel(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_create_after_free(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_create_on_full_device(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_peers(const settings& chosen);

namespace scenario {
inline constexpr const char* doubling = "doubling";
[[nodiscard]] std::string steps(const settings& chosen);
inline constexpr const char* push_back = "push_back";
inline constexpr const char* largest = "largest";
inline constexpr const char* read_kernel = "read by kernel";
inline constexpr const char* copy_kernel = "copy by kernel";
inline constexpr const char* copy_call = "copy by hipMemcpyAsync";
inline constexpr const char* beside =
    kernels_built ? "beside a 200 ms kernel" : "beside a 200 ms host function";
inline constexpr const char* create_after_free = "create after free";
inline constexpr const char* create_on_full_device = "create after free, full device";
[[nodiscard]] std::string peers(const settings& chosen);
}  // namespace scenario

namespace name {
inline constexpr const char* raw_calls = "raw calls";
inline constexpr const char* region = "region";
inline constexpr const char* exact_vector = "vector exact";
inline constexpr const char* vector = "vector";
inline constexpr const char* cached_region = "region cached";
inline constexpr const char* cached_vector = "vector exact cached";
inline constexpr const char* vector_again = "vector again";
inline constexpr const char* ahead = "vector ahead";
inline constexpr const char* ahead_no_pause = "vector ahead no pause";
inline constexpr const char* copy = "copy";
inline constexpr const char* async_copy = "async copy";
inline constexpr const char* thrust = "thrust::device_vector";
inline constexpr const char* no_growth = "no growth";
inline constexpr const char* growth_alone = "vector growth alone";
inline constexpr const char* plain = "hipMalloc";
inline constexpr const char* doubled_vector = "vector doubled";
inline constexpr const char* stepped_vector = "vector equal steps";
}  // namespace name

/// The methods that share a scenario of growth with raw calls: region, vectors, copies.
[[nodiscard]] std::vector<growth_method> common_methods(const settings& chosen,
                                                        const std::vector<std::size_t>& sizes);

}  // namespace bench
