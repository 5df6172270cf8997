// SPDX-License-Identifier: MIT
#include <hipvmm/compat/foreign_resource.hpp>

#include <hipvmm/mr/resource/hip_resource.hpp>
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// Memory of hipMalloc, `offset` bytes behind its start, or nullptr if that is negative.
class offset_resource final : public mr::foreign_resource {
 public:
  explicit offset_resource(std::ptrdiff_t offset)
      : foreign_resource{"offset_resource", mr::foreign_reach::device, first_device},
        offset_{offset} {}

  std::vector<std::size_t> deallocated;

 private:
  void* foreign_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override {
    if (offset_ < 0) return nullptr;
    return static_cast<char*>(memory_.allocate(stream, bytes, alignment)) + offset_;
  }
  void foreign_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                          std::size_t alignment) override {
    deallocated.push_back(bytes);
    memory_.deallocate(stream, static_cast<char*>(pointer) - offset_, bytes, alignment);
  }

  std::ptrdiff_t offset_;
  mr::hip_resource memory_{first_device};
};

TEST_CASE("foreign_resource: nullptr of the other library is out_of_memory") {
  const stream used{first_device};
  offset_resource resource{-1};
  CHECK_THROWS_WITH_AS((void)resource.allocate(used, 100),
                       doctest::Contains("offset_resource: the foreign allocator gave nullptr"),
                       out_of_memory);
  CHECK_THROWS_AS((void)resource.allocate_sync(100), out_of_memory);
  CHECK(resource.deallocated.empty());
}

TEST_CASE("foreign_resource: memory that is not aligned is deallocated and refused") {
  const stream used{first_device};
  offset_resource resource{16};
  CHECK_THROWS_WITH_AS((void)resource.allocate(used, 100),
                       doctest::Contains("is no multiple of the alignment 256"),
                       std::invalid_argument);
  CHECK(resource.deallocated == std::vector<std::size_t>{100});
  resource.deallocate(used, resource.allocate(used, 50, 16), 50, 16);
  CHECK(resource.deallocated == std::vector<std::size_t>{100, 50});
}

TEST_CASE("foreign_resource: memory is deallocated although its device cannot be made current") {
  const stream used{first_device};
  class lost_resource final : public mr::foreign_resource {
   public:
    lost_resource()
        : foreign_resource{"lost_resource", mr::foreign_reach::device, device_ref{1000}} {}
    int deallocations = 0;

   private:
    void* foreign_allocate(stream_ref, std::size_t, std::size_t) override { return nullptr; }
    void foreign_deallocate(stream_ref, void*, std::size_t, std::size_t) override {
      ++deallocations;
    }
  } resource;
  CHECK_THROWS_AS((void)resource.allocate(used, 100), std::invalid_argument);
  const error_recorder recorder;
  int memory = 0;
  resource.deallocate(used, &memory, 100);
  CHECK(resource.deallocations == 1);
  CHECK(recorder.count() == 1);
}

}  // namespace
}  // namespace hipvmm::test
