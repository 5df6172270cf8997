// SPDX-License-Identifier: MIT
// The promises of hipMM's README about its resources, one by one, through its own names.
#include <hipvmm/compat/hipmm.hpp>

#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/testing/resource_contract.hpp>
#include "support/device_bytes.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

namespace rmm = hipvmm::hipmm;

/// A program's own resource, as programs of hipMM write one.
class my_custom_resource final : public rmm::mr::device_memory_resource {
 public:
  std::vector<std::pair<std::size_t, rmm::cuda_stream_view>> allocated;
  bool throws_when_freeing = false;

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    const std::lock_guard guard{lock_};
    allocated.emplace_back(bytes, stream);
    return upstream_.allocate(bytes, stream);
  }
  void do_deallocate(void* pointer, std::size_t bytes, rmm::cuda_stream_view stream) override {
    upstream_.deallocate(pointer, bytes, stream);
    if (throws_when_freeing) throw std::runtime_error{"not today"};
  }

  std::mutex lock_;
  rmm::mr::cuda_memory_resource upstream_;
};

/// The default resource from before comes back.
struct default_resource_restored {
  ~default_resource_restored() { rmm::mr::set_current_device_resource(nullptr); }
};

TEST_CASE("hipmm: allocate gives at least so many bytes and deallocate takes them back") {
  const rmm::cuda_stream stream;
  my_custom_resource resource;
  rmm::mr::device_memory_resource* const mr = &resource;
  void* const pointer = mr->allocate(1000, stream);
  const byte_vector bytes = pattern(1000, 3);
  write_bytes(stream.view(), pointer, bytes);
  CHECK(read_bytes(stream.view(), pointer, 1000) == bytes);
  mr->deallocate(pointer, 1000, stream);
  REQUIRE(resource.allocated.size() == 1);
  CHECK(resource.allocated.front() == std::pair{std::size_t{1000}, stream.view()});
}

TEST_CASE("hipmm: resources and those that programs derive keep the contract") {
  rmm::mr::cuda_memory_resource device;
  rmm::mr::managed_memory_resource managed;
  rmm::mr::pool_memory_resource pool{&device};
  rmm::mr::pool_memory_resource managed_pool{&managed};
  rmm::mr::arena_memory_resource arena{&device, 64 * MiB};
  rmm::mr::fixed_size_memory_resource blocks{&device, 4 * MiB, 2};
  rmm::mr::binning_memory_resource bins{&pool, 10, 12};
  rmm::mr::statistics_resource_adaptor adapted{&bins};
  my_custom_resource custom;
  const std::vector<rmm::mr::device_memory_resource*> all{
      &device, &managed, &pool, &managed_pool, &arena, &blocks, &bins, &adapted, &custom};
  for (rmm::mr::device_memory_resource* each : all) {
    CAPTURE(each - all.front());
    CHECK_NOTHROW(hipvmm::mr::verify_resource({*each, first_device, 2 * MiB}));
  }
}

TEST_CASE("hipmm: no alignment above 256 bytes, which all have, can be asked for") {
  my_custom_resource custom;
  CHECK_THROWS_AS(static_cast<void>(custom.allocate(rmm::cuda_stream_default, 1, 512)),
                  unsupported);
}

TEST_CASE("hipmm: memory freed in a stream serves that stream again at once") {
  const rmm::cuda_stream stream;
  rmm::mr::cuda_memory_resource upstream;
  rmm::mr::pool_memory_resource pool{&upstream};
  void* const first = pool.allocate(MiB, stream);
  pool.deallocate(first, MiB, stream);
  void* const second = pool.allocate(MiB, stream);
  CHECK(second == first);
  pool.deallocate(second, MiB, stream);
}

TEST_CASE("hipmm: a second stream uses memory of the first behind an event") {
  const rmm::cuda_stream first;
  const rmm::cuda_stream second;
  rmm::mr::cuda_memory_resource upstream;
  rmm::mr::pool_memory_resource pool{&upstream};
  rmm::device_buffer buffer{4096, first, &pool};
  const byte_vector bytes = pattern(4096, 5);
  copy_async(first.view(), buffer.data(), bytes.data(), bytes.size());
  event written{first_device};
  written.record(first.view());
  second.view().wait(written);
  CHECK(read_bytes(second.view(), buffer.data(), 4096) == bytes);
}

TEST_CASE("hipmm: a stream may end before memory that went back to another one") {
  rmm::mr::cuda_memory_resource upstream;
  rmm::mr::pool_memory_resource pool{&upstream};
  void* pointer = nullptr;
  {
    const rmm::cuda_stream stream;
    pointer = pool.allocate(1000, stream);
    stream.synchronize();
  }
  const error_recorder recorder;
  pool.deallocate(pointer, 1000);
  CHECK(recorder.count() == 0);
}

TEST_CASE("hipmm: what a program's deallocation throws is told, and nobody has to catch it") {
  my_custom_resource resource;
  resource.throws_when_freeing = true;
  const error_recorder recorder;
  resource.deallocate(resource.allocate(10), 10);
  REQUIRE(recorder.count() == 1);
  CHECK(recorder.errors().front().message.find("not today") != std::string::npos);
}

TEST_CASE("hipmm: pools of HIP are resources, of their own or as a view") {
  if (!first_device.supports_memory_pools()) {
    MESSAGE("skipped: the device has no pools of HIP");
    return;
  }
  rmm::mr::cuda_async_memory_resource own{MiB, 64 * MiB};
  rmm::mr::cuda_async_view_memory_resource view{own.pool_handle()};
  CHECK(own.wrapped().release_threshold() == 64 * MiB);
  CHECK(view.pool_handle() == own.pool_handle());
  CHECK(view.is_equal(own));
  void* const pointer = own.allocate(100);
  view.deallocate(pointer, 100);
}

TEST_CASE("hipmm: the initial resource is a cuda_memory_resource of its device") {
  auto* const initial =
      dynamic_cast<rmm::mr::cuda_memory_resource*>(rmm::mr::get_current_device_resource());
  REQUIRE(initial != nullptr);
  CHECK(initial->wrapped().device() == device_ref::current());
  CHECK(rmm::mr::cuda_memory_resource{} == *initial);
  rmm::mr::managed_memory_resource managed;
  CHECK(rmm::mr::set_current_device_resource(&managed) == initial);
  CHECK(rmm::mr::set_current_device_resource(nullptr) == &managed);
  CHECK(rmm::mr::get_current_device_resource() == initial);
  if (device_count() < 2) return;
  const auto* const other = dynamic_cast<rmm::mr::cuda_memory_resource*>(
      rmm::mr::get_per_device_resource(rmm::cuda_device_id{1}));
  REQUIRE(other != nullptr);
  CHECK(other->wrapped().device() == device_ref{1});
}

TEST_CASE("hipmm: a pool coalesces, fits best and holds its initial size from the start") {
  rmm::mr::cuda_memory_resource upstream;
  rmm::mr::pool_memory_resource pool{&upstream, 8 * MiB, 8 * MiB};
  CHECK(pool.pool_size() == 8 * MiB);
  std::vector<void*> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(pool.allocate(MiB));
  for (void* part : parts) pool.deallocate(part, MiB);
  void* const whole = pool.allocate(8 * MiB);
  pool.deallocate(whole, 8 * MiB);
  CHECK_THROWS_AS(static_cast<void>(pool.allocate(9 * MiB)), rmm::bad_alloc);
}

TEST_CASE("hipmm: a pool over any other upstream takes its memory from that") {
  rmm::mr::managed_memory_resource managed;
  rmm::mr::statistics_resource_adaptor counted{&managed};
  rmm::mr::pool_memory_resource pool{&counted, 8 * MiB};
  CHECK(counted.get_bytes_counter().value >= static_cast<std::int64_t>(8 * MiB));
  CHECK(pool.is_host_accessible());
  CHECK(pool.pool_size() >= 8 * MiB);
}

TEST_CASE("hipmm: a fixed-size resource costs its upstream nothing for a pair") {
  const rmm::cuda_stream stream;
  rmm::mr::cuda_memory_resource device;
  rmm::mr::statistics_resource_adaptor counted{&device};
  rmm::mr::fixed_size_memory_resource blocks{&counted, 4096, 16};
  CHECK(blocks.get_block_size() == 4096);
  const std::int64_t before = counted.get_allocations_counter().total;
  for (int i = 0; i < 1000; ++i) blocks.deallocate(blocks.allocate(4096, stream), 4096, stream);
  CHECK(counted.get_allocations_counter().total == before);
  CHECK_THROWS_AS(static_cast<void>(blocks.allocate(4097, stream)), rmm::bad_alloc);
}

TEST_CASE("hipmm: binning sends each size to its bin, and what is larger to its upstream") {
  rmm::mr::cuda_memory_resource device;
  rmm::mr::statistics_resource_adaptor large{&device};
  rmm::mr::statistics_resource_adaptor small{&device};
  rmm::mr::statistics_resource_adaptor middle{&device};
  rmm::mr::binning_memory_resource bins{&large};
  bins.add_bin(1024, &small);
  bins.add_bin(65536, &middle);
  for (const std::size_t bytes : {1, 1024, 1025, 65536, 65537})
    bins.deallocate(bins.allocate(bytes), bytes);
  CHECK(small.get_allocations_counter().total == 2);
  CHECK(middle.get_allocations_counter().total == 2);
  CHECK(large.get_allocations_counter().total == 1);
}

TEST_CASE("hipmm: the default resource begins as the one of hipMalloc") {
  rmm::mr::device_memory_resource* const mr = rmm::mr::get_current_device_resource();
  CHECK(mr == rmm::mr::get_per_device_resource(rmm::get_current_cuda_device()));
  CHECK(mr->is_equal(rmm::mr::cuda_memory_resource{}));
  CHECK(mr->device() == first_device);
}

TEST_CASE("hipmm: setting the default resource returns the one before, and null resets it") {
  const default_resource_restored restored;
  rmm::mr::device_memory_resource* const initial = rmm::mr::get_current_device_resource();
  rmm::mr::cuda_memory_resource cuda_mr;
  const auto initial_size = rmm::percent_of_free_device_memory(1);
  rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool_mr{&cuda_mr, initial_size};
  CHECK(rmm::mr::set_current_device_resource(&pool_mr) == initial);
  CHECK(rmm::mr::get_current_device_resource() == &pool_mr);
  const rmm::device_buffer buffer{100, rmm::cuda_stream_default};
  CHECK(buffer.memory_resource() == &pool_mr);
  CHECK(rmm::mr::set_current_device_resource(nullptr) == &pool_mr);
  CHECK(rmm::mr::get_current_device_resource() == initial);
}

TEST_CASE("hipmm: threads get and set the default resource at the same time") {
  const default_resource_restored restored;
  rmm::mr::cuda_memory_resource one;
  rmm::mr::cuda_memory_resource other;
  rmm::mr::device_memory_resource* const initial = rmm::mr::get_current_device_resource();
  const auto known = [&](const rmm::mr::device_memory_resource* seen) {
    return seen == initial || seen == &one || seen == &other;
  };
  std::array<bool, 4> all_known{};
  in_threads(all_known.size(), [&](std::size_t i) {
    bool good = true;
    for (int turn = 0; turn < 200; ++turn) {
      good = good && known(rmm::mr::get_current_device_resource());
      good = good && known(rmm::mr::set_current_device_resource(turn % 2 == 0 ? &one : &other));
    }
    all_known[i] = good;
  });
  CHECK(all_known == std::array{true, true, true, true});
}

TEST_CASE("hipmm: each device has a pool of its own as its default resource") {
  using pool_mr = rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>;
  std::vector<std::unique_ptr<rmm::mr::cuda_memory_resource>> upstreams;
  std::vector<std::unique_ptr<pool_mr>> per_device_pools;
  for (int i = 0; i < rmm::get_num_cuda_devices(); ++i) {
    const rmm::cuda_set_device_raii current{rmm::cuda_device_id{i}};
    upstreams.push_back(std::make_unique<rmm::mr::cuda_memory_resource>());
    per_device_pools.push_back(std::make_unique<pool_mr>(upstreams.back().get(), 2 * MiB));
    rmm::mr::set_per_device_resource(rmm::cuda_device_id{i}, per_device_pools.back().get());
  }
  for (int i = 0; i < rmm::get_num_cuda_devices(); ++i) {
    const rmm::cuda_device_id device{i};
    CHECK(per_device_pools[static_cast<std::size_t>(i)]->device() == device);
    CHECK(rmm::mr::set_per_device_resource(device, nullptr) ==
          per_device_pools[static_cast<std::size_t>(i)].get());
  }
}

TEST_CASE("hipmm: a resource set by hipvmm's own functions is told with hipMM's interface") {
  hipvmm::mr::hip_resource plain{first_device};
  const default_resource_restored restored;  // asks the resource that it replaces
  hipvmm::mr::set_current_device_resource(&plain);
  rmm::mr::device_memory_resource* const mr = rmm::mr::get_current_device_resource();
  CHECK(mr == rmm::mr::get_current_device_resource());
  CHECK(mr->is_equal(rmm::mr::cuda_memory_resource{}));
  void* const pointer = mr->allocate(100);
  CHECK(pointer != nullptr);
  mr->deallocate(pointer, 100);
}

/// A resource in memory of its own, which is overwritten when it ends.
template <typename Resource>
class ending_resource {
 public:
  template <typename... Arguments>
  explicit ending_resource(Arguments... arguments)
      : resource_{::new (room_.data()) Resource{arguments...}} {}
  ~ending_resource() { end(); }
  ending_resource& operator=(ending_resource&&) = delete;
  void end() {
    if (Resource* const ended = std::exchange(resource_, nullptr)) {
      std::destroy_at(ended);
      room_.fill(std::byte{0x41});
    }
  }
  [[nodiscard]] Resource* get() const { return resource_; }

 private:
  alignas(Resource) std::array<std::byte, sizeof(Resource)> room_{};
  Resource* resource_;
};

TEST_CASE("hipmm: a default resource that has ended is replaced and not followed") {
  const default_resource_restored restored;
  rmm::mr::cuda_memory_resource next;
  SUBCASE("of hipvmm") {
    ending_resource<hipvmm::mr::hip_resource> plain{first_device};
    rmm::mr::set_current_device_resource(plain.get());
    const auto* const known = rmm::mr::get_current_device_resource();
    plain.end();
    CHECK(rmm::mr::get_current_device_resource() == known);
    CHECK(rmm::mr::set_current_device_resource(&next) == known);
  }
  SUBCASE("with hipMM's interface") {
    ending_resource<rmm::mr::cuda_memory_resource> same;
    const auto* const initial = rmm::mr::set_current_device_resource(same.get());
    same.end();
    CHECK(rmm::mr::get_current_device_resource() == initial);
    CHECK(rmm::mr::set_current_device_resource(&next) == initial);
  }
  SUBCASE("by reference") {
    ending_resource<hipvmm::mr::hip_resource> plain{first_device};
    rmm::mr::set_current_device_resource_ref(plain.get());
    plain.end();
    CHECK(rmm::mr::set_current_device_resource(&next) != nullptr);
  }
  CHECK(rmm::mr::get_current_device_resource() == &next);
}

TEST_CASE("hipmm: a resource at the address of one that has ended is told as what it is") {
  const default_resource_restored restored;
  ending_resource<rmm::mr::cuda_memory_resource> room;
  rmm::mr::cuda_memory_resource* const first = room.get();
  rmm::mr::set_current_device_resource(first);
  room.end();
  // By hipvmm's own function, which knows nothing of hipMM's interface.
  static_assert(sizeof(hipvmm::mr::hip_resource) <= sizeof(rmm::mr::cuda_memory_resource));
  auto* const plain = ::new (static_cast<void*>(first)) hipvmm::mr::hip_resource{first_device};
  hipvmm::mr::set_current_device_resource(plain);
  rmm::mr::device_memory_resource* const mr = rmm::mr::get_current_device_resource();
  CHECK(static_cast<void*>(mr) != plain);
  void* const pointer = mr->allocate(100);
  CHECK(pointer != nullptr);
  mr->deallocate(pointer, 100);
  rmm::mr::set_current_device_resource(nullptr);
  std::destroy_at(plain);
}

}  // namespace
}  // namespace hipvmm::test
