// SPDX-License-Identifier: MIT
#include <hipvmm/compat/hipmm_pools.hpp>

#include <limits>
#include <stdexcept>
#include <string>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::hipmm::mr {

std::size_t maximum_of_pool(std::size_t initial_pool_size,
                            std::optional<std::size_t> maximum_pool_size) {
  const std::size_t maximum = maximum_pool_size.value_or(std::numeric_limits<std::size_t>::max());
  if (maximum < initial_pool_size)
    throw std::invalid_argument{"pool_memory_resource: maximum_pool_size is " +
                                std::to_string(maximum) + ", less than initial_pool_size, " +
                                std::to_string(initial_pool_size)};
  return maximum;
}

pool_memory_resource<cuda_memory_resource>::pool_memory_resource(
    cuda_memory_resource* upstream, std::size_t initial_pool_size,
    std::optional<std::size_t> maximum_pool_size)
    : resource_of{std::in_place,
                  hipvmm::mr::require_resource("pool_memory_resource", upstream)->device().value(),
                  [&] {
                    hipvmm::mr::pool_options options{.initial_bytes = initial_pool_size};
                    options.maximum_bytes = maximum_pool_size.value_or(options.maximum_bytes);
                    return options;
                  }()},
      upstream_{upstream} {}

}  // namespace hipvmm::hipmm::mr
