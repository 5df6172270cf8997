// SPDX-License-Identifier: MIT
#include <hipvmm/compat/hipmm.hpp>

#include "support/host/fault_sweep.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

namespace rmm = hipvmm::hipmm;

class two_way_resource final : public rmm::mr::device_memory_resource {
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    return upstream_.allocate(bytes, stream);
  }
  void do_deallocate(void* pointer, std::size_t bytes, rmm::cuda_stream_view stream) override {
    upstream_.deallocate(pointer, bytes, stream);
  }
  rmm::mr::cuda_memory_resource upstream_;
};

TEST_CASE("hipmm: calls that fail in a program's own resource leave nothing behind") {
  fault_sweep{"device_memory_resource"}.run([] {
    two_way_resource resource;
    void* const pointer = resource.allocate_sync(1000);
    resource.deallocate_sync(pointer, 1000);
  });
}

TEST_CASE("hipmm: calls that fail while a pool takes its initial size leave nothing behind") {
  fault_sweep{"pool_memory_resource"}.run([] {
    rmm::mr::cuda_memory_resource device;
    const rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> mapped{&device, 4 * MiB};
    rmm::mr::managed_memory_resource managed;
    const rmm::mr::pool_memory_resource<rmm::mr::managed_memory_resource> other{&managed, MiB};
  });
}

}  // namespace
}  // namespace hipvmm::test
