// SPDX-License-Identifier: MIT
// The subjects of gdb_printers_test.sh: a vector, a region and a pool.
#include <hipvmm/hipvmm.hpp>

void look(const hipvmm::growable_device_vector<int>& numbers, const hipvmm::region& region,
          const hipvmm::mr::vmm_pool_resource& pool) {
  static_cast<void>(numbers);
  static_cast<void>(region);
  static_cast<void>(pool);
}

int main() {
  const hipvmm::device_ref device{0};
  const hipvmm::stream stream{device};
  hipvmm::growable_device_vector<int> numbers{device};
  numbers.append({1, 2, 3}, stream);
  hipvmm::region region{device, 64 * hipvmm::MiB};
  region.commit(0, 4 * hipvmm::MiB);
  hipvmm::mr::vmm_pool_resource pool{device};
  look(numbers, region, pool);
}
