// SPDX-License-Identifier: MIT
// Resources on one another: a pool, a part of the program that is limited in it, blocks of one size
// out of it, and an arena of pinned memory for copies.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

void run() {
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::mr::vmm_pool_resource pool{device};  // nearly everything, of every size
  hipvmm::mr::statistics_resource_adaptor counted{&pool};
  hipvmm::mr::limiting_resource_adaptor queries{&counted, 256 * hipvmm::MiB};  // this part's share
  hipvmm::mr::fixed_size_resource pages{&counted, 64 * hipvmm::KiB, 32};  // requests of one size
  hipvmm::mr::pinned_host_resource host;
  hipvmm::mr::arena_resource staging{&host, 64 * hipvmm::MiB};  // hipHostMalloc a few times only

  const hipvmm::device_uvector<float> result{1'000'000, stream, &queries};
  const hipvmm::device_buffer page{64 * hipvmm::KiB, stream, &pages};
  const hipvmm::device_buffer pinned{1'000'000, stream, &staging};
  require(queries.get_allocated_bytes() >= 4'000'000, "the limit did not count");
  require(staging.is_host_accessible() && !pages.is_host_accessible(),
          "a resource has memory of another kind");
  std::printf("in use of the pool: %zu bytes in %zu allocations\n",
              static_cast<std::size_t>(counted.get_bytes_counter().value),
              static_cast<std::size_t>(counted.get_allocations_counter().value));
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "choose_resource: %s\n", error.what());
    return 1;
  }
}
