// SPDX-License-Identifier: MIT
// The promises of hipMM's README on streams, allocators, containers, host memory and the log, one
// by one, through its own names.
#include <hipvmm/compat/hipmm.hpp>

#include <memory_resource>
#include <sstream>

#include "support/resource/watched_resource.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

namespace rmm = hipvmm::hipmm;

std::optional<device_ref> second_device() {
  return device_count() > 1 ? std::optional{device_ref{1}} : std::nullopt;
}

TEST_CASE("hipmm: a stream view is made of a stream, never of 0, and passes back to HIP") {
  static_assert(!std::is_convertible_v<int, rmm::cuda_stream_view>);
  static_assert(!std::is_convertible_v<std::nullptr_t, rmm::cuda_stream_view>);
  const rmm::cuda_stream stream;
  const rmm::cuda_stream_view view{stream};
  ihipStream_t* const raw = view;
  CHECK(raw == stream.value());
  CHECK(view == rmm::cuda_stream_view{raw});
  CHECK(static_cast<ihipStream_t*>(stream) == raw);
}

TEST_CASE("hipmm: the default streams are those of HIP") {
  CHECK(rmm::cuda_stream_view{} == rmm::cuda_stream_default);
  CHECK(rmm::cuda_stream_default.is_default());
  CHECK(rmm::cuda_stream_legacy.is_default());
  CHECK(rmm::cuda_stream_per_thread.is_per_thread_default());
  rmm::cuda_stream_per_thread.synchronize();
}

TEST_CASE("hipmm: a stream owns one that is no default, is moved and not copied") {
  static_assert(!std::is_copy_constructible_v<rmm::cuda_stream>);
  rmm::cuda_stream stream{rmm::cuda_stream::flags::non_blocking};
  CHECK_FALSE(stream.view().is_default());
  CHECK_FALSE(stream.view().is_per_thread_default());
  ihipStream_t* const raw = stream.value();
  const rmm::cuda_stream moved{std::move(stream)};
  CHECK(moved.value() == raw);
  CHECK(moved.is_valid());
  CHECK_FALSE(stream.is_valid());  // NOLINT(bugprone-use-after-move): as promised
  moved.synchronize_no_throw();
}

TEST_CASE("hipmm: a stream pool has a size and lends identical streams beyond it") {
  const rmm::cuda_stream_pool pool{3};
  CHECK(pool.get_pool_size() == 3);
  std::set<ihipStream_t*> lent;
  for (int i = 0; i < 7; ++i) lent.insert(pool.get_stream().value());
  CHECK(lent.size() == 3);
  CHECK(pool.get_stream(1) == pool.get_stream(4));
  CHECK(rmm::cuda_stream_pool::default_size == 16);
  CHECK_THROWS_AS(rmm::cuda_stream_pool{0}, rmm::logic_error);
}

TEST_CASE("hipmm: threads allocate and deallocate at the same time") {
  rmm::mr::cuda_memory_resource device;
  rmm::mr::pool_memory_resource pool{&device};
  rmm::mr::statistics_resource_adaptor counted{&pool};
  const rmm::cuda_stream_pool streams{4};
  in_threads(4, [&](int) {
    const rmm::cuda_stream_view stream = streams.get_stream();
    for (std::size_t turn = 1; turn <= 100; ++turn)
      counted.deallocate(counted.allocate(turn * 100, stream), turn * 100, stream);
  });
  CHECK(counted.get_bytes_counter().value == 0);
  CHECK(counted.get_allocations_counter().total == 400);
}

TEST_CASE("hipmm: a stream-ordered allocator becomes a standard one") {
  rmm::cuda_stream stream;
  rmm::mr::polymorphic_allocator<int> stream_alloc;
  auto adapted = rmm::mr::stream_allocator_adaptor(stream_alloc, stream);
  int* const p = adapted.allocate(100);
  CHECK(p != nullptr);
  CHECK(adapted.stream() == stream.view());
  adapted.deallocate(p, 100);
  static_assert(std::is_same_v<std::allocator_traits<decltype(adapted)>::value_type, int>);
}

TEST_CASE("hipmm: containers take sizes, streams and resources in hipMM's order") {
  const rmm::cuda_stream stream;
  rmm::mr::cuda_memory_resource device;
  rmm::mr::statistics_resource_adaptor mr{&device};
  {
    const rmm::device_buffer buffer{100, stream, &mr};
    const rmm::device_buffer copied{buffer, stream, &mr};
    rmm::device_uvector<std::int32_t> v{100, stream, &mr};
    CHECK(mr.get_bytes_counter().value == 600);
    v.set_element_to_zero_async(99, stream);
    CHECK(v.back_element(stream) == 0);
    rmm::device_scalar<std::int32_t> a{stream, &mr};
    a.set_value(42, stream);
    CHECK(a.value(stream) == 42);
    CHECK(a.stream() == stream.view());
  }
  CHECK(mr.get_bytes_counter().value == 0);
}

TEST_CASE("hipmm: using a resource of another device is refused, where hipMM is undefined") {
  HIPVMM_REQUIRE_DEVICE(other, second_device(), "second device");
  auto mr = rmm::mr::cuda_memory_resource{};
  std::string message;
  {
    const rmm::cuda_set_device_raii switched{other};
    message = text_thrown_by<rmm::logic_error>(
        [&] { const rmm::device_buffer buf(16, rmm::cuda_stream_default, &mr); });
  }
  CHECK(message.find("device 0") != std::string::npos);
  CHECK(message.find("device 1") != std::string::npos);
}

TEST_CASE("hipmm: a buffer may end under another device than its own") {
  HIPVMM_REQUIRE_DEVICE(other, second_device(), "second device");
  watched_resource mr{first_device};
  {
    std::optional<rmm::device_buffer> buf{std::in_place, std::size_t{16}, rmm::cuda_stream_default,
                                          &mr};
    const rmm::cuda_set_device_raii switched{other};
    buf.reset();
    CHECK(rmm::get_current_cuda_device() == other);
  }
  REQUIRE(mr.deallocations.size() == 1);
  CHECK(mr.deallocations.front().current == first_device);
}

TEST_CASE("hipmm: host resources are those of the standard library, at any alignment") {
  static_assert(std::is_same_v<rmm::mr::host_memory_resource, std::pmr::memory_resource>);
  rmm::mr::new_delete_resource plain;
  rmm::mr::pinned_memory_resource pinned;
  for (rmm::mr::host_memory_resource* each :
       std::vector<rmm::mr::host_memory_resource*>{&plain, &pinned}) {
    void* const pointer = each->allocate(100, 64);
    CHECK(reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0);
    each->deallocate(pointer, 100, 64);
    std::pmr::vector<int> values{each};
    values.assign(1000, 7);
    CHECK(values.back() == 7);
  }
  CHECK(pinned.is_equal(rmm::mr::pinned_memory_resource{}));
  CHECK_FALSE(pinned.is_equal(plain));
}

TEST_CASE("hipmm: the log has a row for each allocation and deallocation, in RMM's columns") {
  std::ostringstream text;
  rmm::mr::cuda_memory_resource upstream;
  rmm::mr::logging_resource_adaptor<rmm::mr::cuda_memory_resource> log_mr{&upstream, text};
  CHECK(log_mr.header() == "Thread,Time,Action,Pointer,Size,Stream");
  log_mr.deallocate(log_mr.allocate(123), 123);
  log_mr.flush();
  std::istringstream lines{text.str()};
  std::vector<std::string> rows;
  for (std::string row; std::getline(lines, row);) rows.push_back(row);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == log_mr.header());
  CHECK(rows[1].find(",allocate,0x") != std::string::npos);
  CHECK(rows[1].find(",123,") != std::string::npos);
  CHECK(rows[2].find(",free,0x") != std::string::npos);
}

TEST_CASE("hipmm: the debug log has hipMM's levels, and the program sets which are written") {
  const rmm::level_enum before = rmm::default_logger().level();
  rmm::default_logger().set_level(rmm::level_enum::critical);
  CHECK(rmm::default_logger().should_log(rmm::level_enum::critical));
  CHECK_FALSE(rmm::default_logger().should_log(rmm::level_enum::error));
  rmm::default_logger().set_level(before);
}

TEST_CASE("hipmm: adaptors find their upstream's type, and each does its work") {
  rmm::mr::cuda_memory_resource device;
  rmm::mr::limiting_resource_adaptor limited{&device, 1000};
  CHECK(limited.get_upstream_resource() == &device);
  void* const pointer = limited.allocate(600);
  CHECK(limited.get_allocated_bytes() >= 600);
  CHECK_THROWS_AS(static_cast<void>(limited.allocate(600)), rmm::out_of_memory);
  limited.deallocate(pointer, 600);

  int asked = 0;
  rmm::mr::failure_callback_resource_adaptor retrying{
      &limited, [&](std::size_t, void*) { return ++asked < 3; }};
  CHECK_THROWS_AS(static_cast<void>(retrying.allocate(5000)), rmm::bad_alloc);
  CHECK(asked == 3);

  rmm::mr::aligned_resource_adaptor aligned{&device, 4096};
  void* const far = aligned.allocate(10);
  CHECK(reinterpret_cast<std::uintptr_t>(far) % 4096 == 0);
  aligned.deallocate(far, 10);

  rmm::mr::tracking_resource_adaptor tracked{&device};
  void* const out = tracked.allocate(10);
  CHECK(tracked.get_outstanding_allocations().count(out) == 1);
  tracked.deallocate(out, 10);
  CHECK(tracked.get_allocated_bytes() == 0);

  rmm::mr::thread_safe_resource_adaptor locked{&device};
  locked.deallocate(locked.allocate(10), 10);
}

TEST_CASE("hipmm: callbacks get sizes and streams as hipMM gives them") {
  const rmm::cuda_stream stream;
  rmm::mr::cuda_memory_resource device;
  using call = std::tuple<void*, std::size_t, ihipStream_t*>;
  std::vector<call> allocated;
  std::vector<call> freed;
  rmm::mr::callback_memory_resource called{
      [&](std::size_t bytes, rmm::cuda_stream_view s, void* mr) {
        void* const pointer = static_cast<rmm::mr::device_memory_resource*>(mr)->allocate(bytes, s);
        allocated.emplace_back(pointer, bytes, s.value());
        return pointer;
      },
      [&](void* pointer, std::size_t bytes, rmm::cuda_stream_view s, void* mr) {
        static_cast<rmm::mr::device_memory_resource*>(mr)->deallocate(pointer, bytes, s);
        freed.emplace_back(pointer, bytes, s.value());
      },
      static_cast<rmm::mr::device_memory_resource*>(&device),
      static_cast<rmm::mr::device_memory_resource*>(&device)};
  void* const pointer = called.allocate(100, stream);
  called.deallocate(pointer, 100, stream);
  CHECK(allocated == std::vector{call{pointer, 100, stream.value()}});
  CHECK(freed == allocated);
}

TEST_CASE("hipmm: an owning wrapper keeps its upstream alive") {
  auto upstream = std::make_shared<rmm::mr::cuda_memory_resource>();
  const std::weak_ptr<rmm::mr::cuda_memory_resource> seen{upstream};
  auto owner =
      rmm::mr::make_owning_wrapper<rmm::mr::pool_memory_resource>(std::move(upstream), 2u << 20);
  CHECK(owner->wrapped().pool_size() >= 2u << 20);
  owner->deallocate(owner->allocate(100), 100);
  CHECK_FALSE(seen.expired());
  owner.reset();
  CHECK(seen.expired());
  const auto of_tuple = rmm::mr::make_owning_wrapper<rmm::mr::pool_memory_resource>(
      std::make_tuple(std::make_shared<rmm::mr::cuda_memory_resource>()), 2u << 20);
  CHECK(of_tuple->wrapped().pool_size() >= 2u << 20);
}

TEST_CASE("hipmm: a HIP call that fails is thrown by RMM_CUDA_TRY with its text and code") {
  CHECK_NOTHROW(RMM_CUDA_TRY(0));
  const auto error = thrown_by<rmm::cuda_error>([&] { RMM_CUDA_TRY(1); });
  CHECK(error.code() == 1);
  CHECK(std::string{error.call()} == "1");
}

}  // namespace
}  // namespace hipvmm::test
