// SPDX-License-Identifier: MIT
// PyTorch's allocator while HIP calls and allocations of host memory fail one after another, while
// captures fail, and at the end of processes.
#include <hipvmm/torch.h>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "c/c_interface.hpp"
#include "c/torch_pool.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/device_contexts.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t bytes_each = 4 * MiB;
constexpr c::torch_pool::graphs_id faulty_graphs{0, 7};

/// A pool with a stream of an allocation, and one that uses it too.
struct faulty_torch {
  c::torch_pool torch{first_device, {}};
  stream own{first_device};
  stream other{first_device};
  void* memory = nullptr;

  [[nodiscard]] std::size_t used() { return torch.pool().statistics().used_current; }
};
using subject_pointer = std::unique_ptr<faulty_torch>;

HIPVMM_TEST_CASE_IN("torch: the pool's peers get no context because tensors end",
                    {"HIPVMM_HOST_PROFILE=cuda-13", "HIPVMM_TESTS_PROBE_LATER=1"}) {
  {
    const stream own{first_device};
    void* const tensor = hipvmm_torch_alloc(bytes_each, 0, own.get());
    // Of which device that stream is, is asked by events of each.
    const stream far{device_ref{2}};
    hipvmm_torch_record_stream(tensor, far.get());
    hipvmm_torch_free(tensor, bytes_each, 0, own.get());
  }
  drain_retired_memory();
  CHECK_FALSE(has_primary_context(second_device));
}

subject_pointer empty_pool() { return std::make_unique<faulty_torch>(); }
subject_pointer pool_with_memory() {
  subject_pointer made = empty_pool();
  made->memory = made->torch.allocate(bytes_each, made->own);
  return made;
}
subject_pointer pool_with_shared_memory() {
  subject_pointer made = pool_with_memory();
  made->torch.record_stream(made->memory, made->other);
  return made;
}
/// In the middle of a capture of graphs, without HIP's: that has its own failures.
subject_pointer pool_with_graphs() {
  subject_pointer made = empty_pool();
  made->torch.begin_graphs(
      faulty_graphs, [stream = made->own.get()](ihipStream_t* asked) { return asked == stream; });
  return made;
}

/// The same with memory that another stream uses, as without a capture.
subject_pointer pool_with_shared_graphs() {
  subject_pointer made = pool_with_graphs();
  made->memory = made->torch.allocate(bytes_each, made->own);
  made->torch.record_stream(made->memory, made->other);
  return made;
}

/// Serves requests of each stream still, and has nothing in use then.
void serves(faulty_torch& s) {
  s.own.synchronize();
  s.other.synchronize();
  CHECK(s.torch.allocated() == 0);
  CHECK(s.used() == 0);
  for (const stream_ref each : {stream_ref{s.own}, stream_ref{s.other}}) {
    void* const again = s.torch.allocate(bytes_each, each);
    CHECK(again != nullptr);
    s.torch.deallocate(again, bytes_each, each);
  }
  CHECK(s.torch.allocated() == 0);
}

TEST_CASE("torch_pool: calls whose HIP calls fail in turn leave what there was") {
  fault_sweep{"torch_pool"}.run([] { const c::torch_pool torch{first_device, {}}; });
  fault_sweep{"allocate", after_failure::capacity}.run(
      empty_pool, [](auto& s) { s.memory = s.torch.allocate(bytes_each, s.own); }, serves,
      [](auto& s) {
        CHECK(s.torch.allocated() == bytes_each);
        s.torch.deallocate(s.memory, bytes_each, s.own);
        serves(s);
      });
  // After any failure the memory is free: at worst once the device has done all its work.
  fault_sweep{"deallocate what another stream uses", after_failure::capacity}.run(
      pool_with_shared_memory, [](auto& s) { s.torch.deallocate(s.memory, bytes_each, s.own); },
      [](auto&) { FAIL("a deallocation threw"); }, serves);
  fault_sweep{"release_idle", after_failure::capacity}.run(
      [] {
        subject_pointer made = pool_with_memory();
        made->torch.deallocate(made->memory, bytes_each, made->own);
        return made;
      },
      [](auto& s) { s.torch.release_idle(); }, serves, serves);
}

TEST_CASE("torch_pool: calls for graphs whose HIP calls fail in turn leave what there was") {
  const auto end = [](auto& s) {
    s.torch.end_graphs(faulty_graphs);
    s.torch.release_graphs(faulty_graphs);
    serves(s);
  };
  fault_sweep{"allocate for a graph", after_failure::capacity}.run(
      pool_with_graphs, [](auto& s) { s.memory = s.torch.allocate(bytes_each, s.own); }, end,
      [&](auto& s) {
        s.torch.deallocate(s.memory, bytes_each, s.own);
        end(s);
      });
  fault_sweep{"deallocate of graphs what another stream uses", after_failure::capacity}.run(
      pool_with_shared_graphs, [](auto& s) { s.torch.deallocate(s.memory, bytes_each, s.own); },
      [](auto&) { FAIL("a deallocation threw"); }, end);
  fault_sweep{"allocate beside what another stream used", after_failure::capacity}.run(
      [] {
        subject_pointer made = pool_with_shared_graphs();
        made->torch.deallocate(made->memory, bytes_each, made->own);
        return made;
      },
      [](auto& s) { s.memory = s.torch.allocate(bytes_each, s.own); }, end,
      [&](auto& s) {
        s.torch.deallocate(s.memory, bytes_each, s.own);
        end(s);
      });
  fault_sweep{"deallocate during a capture", after_failure::capacity}.run(
      [] {
        subject_pointer made = pool_with_shared_memory();
        made->torch.begin_graphs(faulty_graphs, [](ihipStream_t*) { return false; });
        return made;
      },
      [](auto& s) { s.torch.deallocate(s.memory, bytes_each, s.own); },
      [](auto&) { FAIL("a deallocation threw"); }, end);
}

/// Calls `call` with its first allocation of host memory failing, then its second, until none does.
template <typename Make, typename Call, typename Check>
void sweep_host_memory(const std::string& name, Make make, Call call, Check check) {
  CAPTURE(name);
  for (std::uint64_t nth = 1; nth < 1000; ++nth) {
    CAPTURE(nth);
    const auto subject = make();
    bool failed = false;
    bool struck = false;
    {
      const allocation_failure failing{nth};
      try {
        call(*subject);
      } catch (const std::exception&) {
        // Allocations of the provider that fail are failures of HIP.
        failed = true;
      }
      struck = failing.struck();
    }
    CHECK((struck || !failed));
    check(*subject, failed);
    if (!struck) return;
  }
  FAIL("an endless retry");
}

TEST_CASE("torch_pool: a lack of host memory leaves what there was") {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process where it lacks host memory itself");
  sweep_host_memory(
      "record_stream", pool_with_memory, [](auto& s) { s.torch.record_stream(s.memory, s.other); },
      [](auto& s, bool) {
        s.torch.deallocate(s.memory, bytes_each, s.own);
        serves(s);
      });
  sweep_host_memory(
      "begin_graphs", empty_pool, [](auto& s) { s.torch.begin_graphs(faulty_graphs, nullptr); },
      [](auto& s, bool failed) {
        if (!failed) s.torch.end_graphs(faulty_graphs);
        s.torch.release_graphs(faulty_graphs);
        serves(s);
      });
  sweep_host_memory(
      "allocate for a graph", pool_with_graphs,
      [](auto& s) { s.memory = s.torch.allocate(bytes_each, s.own); },
      [](auto& s, bool failed) {
        if (!failed) s.torch.deallocate(s.memory, bytes_each, s.own);
        s.torch.end_graphs(faulty_graphs);
        s.torch.release_graphs(faulty_graphs);
        serves(s);
      });
  const error_recorder reported;
  sweep_host_memory(
      "deallocate what another stream uses",
      [] {
        // The stream that waits is there: the provider ends if a new one has no memory.
        subject_pointer made = pool_with_shared_memory();
        made->torch.deallocate(made->memory, bytes_each, made->own);
        made->memory = made->torch.allocate(bytes_each, made->own);
        made->torch.record_stream(made->memory, made->other);
        return made;
      },
      [](auto& s) { s.torch.deallocate(s.memory, bytes_each, s.own); },
      [](auto& s, bool failed) {
        CHECK_FALSE(failed);
        serves(s);
      });
}

TEST_CASE("torch.h: a device's first allocation fails by each of its HIP calls, and works then") {
  const device_ref last{device_count() - 1};
  const stream own{last};
  const error_recorder reported;
  bool struck = true;
  for (std::uint64_t nth = 1; struck; ++nth) {
    REQUIRE(nth < 1000);
    CAPTURE(nth);
    void* memory = nullptr;
    {
      planned_fault fault{nullptr, nth, hipErrorOperatingSystem};
      try {
        memory = hipvmm_torch_alloc(bytes_each, last.ordinal(), own.get());
      } catch (const std::exception& failure) {
        CHECK(std::string{failure.what()} != "");
      }
      struck = fault.end();
    }
    CHECK((struck || memory != nullptr));
    hipvmm_torch_free(memory, bytes_each, last.ordinal(), own.get());
  }
  own.synchronize();
  const auto statistics = result_of(hipvmm_torch_get_statistics, last.ordinal());
  CHECK(statistics.allocated_current == 0);
  CHECK(statistics.count_current == 0);
  hipvmm_torch_reset();
}

TEST_CASE("torch.h: a reset whose HIP calls fail reports that, and resets the next pools") {
  const stream own{first_device};
  error_recorder reported;
  bool struck = true;
  for (std::uint64_t nth = 1; struck; ++nth) {
    REQUIRE(nth < 1000);
    CAPTURE(nth);
    void* const memory = hipvmm_torch_alloc(bytes_each, 0, own.get());
    hipvmm_torch_free(memory, bytes_each, 0, own.get());
    reported.clear();
    planned_fault fault{nullptr, nth, hipErrorOperatingSystem};
    CHECK_NOTHROW(hipvmm_torch_reset());
    struck = fault.end();
    CHECK((struck || reported.count() == 0));
  }
  hipvmm_torch_reset();
}

TEST_CASE("torch.h: a use of other memory is not recorded, and HIP is not asked whose it is") {
  const stream own{first_device};
  void* const memory = hipvmm_torch_alloc(bytes_each, 0, own.get());
  const device_allocation other{first_device, bytes_each};
  int local = 0;
  {
    const allocation_failure failing{1};
    for (void* const pointer : {other.get(), static_cast<void*>(&local)}) {
      hipvmm_torch_record_stream(pointer, own.get());
      hipvmm_torch_erase_stream(pointer, own.get());
    }
    CHECK_FALSE(failing.struck());
  }
  blocked_stream user{first_device};
  {
    const planned_faults failing{"any error=hipErrorOperatingSystem"};
    hipvmm_torch_record_stream(memory, stream_ref{user}.get());
  }
  hipvmm_torch_free(memory, bytes_each, 0, own.get());
  void* const next = hipvmm_torch_alloc(bytes_each, 0, own.get());
  CHECK(next != memory);
  hipvmm_torch_free(next, bytes_each, 0, own.get());
  user.release();
}

/// A capture that the program loses by asking for the stream's end; ROCm 5.7 keeps it.
void lose_capture(const stream& captured) {
  CHECK(hipStreamSynchronize(captured.get()) != hipSuccess);
  static_cast<void>(hipGetLastError());
  static_cast<void>(end_capture_if_kept(captured.get()));
}

TEST_CASE("torch_pool: a capture that fails costs none of its memory") {
  // If HIP reports a failure of the capture, PyTorch never ends the allocation to its pool.
  for (const bool is_ended : {true, false}) {
    CAPTURE(is_ended);
    faulty_torch s;
    const stream captured{first_device};
    void* const outside = s.torch.allocate(bytes_each, captured);
    void* const shared = s.torch.allocate(bytes_each, s.own);
    s.torch.record_stream(shared, captured);
    s.torch.begin_graphs(faulty_graphs, [&](ihipStream_t* asked) {
      hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
      if (hipStreamIsCapturing(asked, &status) != hipSuccess) static_cast<void>(hipGetLastError());
      return status != hipStreamCaptureStatusNone;
    });
    REQUIRE(hipStreamBeginCapture(captured.get(), hipStreamCaptureModeThreadLocal) == hipSuccess);
    void* const early = s.torch.allocate(bytes_each, captured);
    void* const late = s.torch.allocate(bytes_each, captured);
    s.torch.record_stream(late, s.own);
    s.torch.deallocate(early, bytes_each, captured);
    s.torch.deallocate(outside, bytes_each, captured);
    s.torch.deallocate(shared, bytes_each, s.own);
    CHECK(s.torch.allocated() == bytes_each);
    CHECK(s.used() > 2 * bytes_each);
    lose_capture(captured);
    s.torch.deallocate(late, bytes_each, captured);
    if (is_ended) s.torch.end_graphs(faulty_graphs);
    void* const next = s.torch.allocate(bytes_each, captured);
    s.torch.deallocate(next, bytes_each, captured);
    s.torch.end_graphs(faulty_graphs);
    s.torch.release_graphs(faulty_graphs);
    captured.synchronize();
    serves(*empty_pool());
    s.own.synchronize();
    CHECK(s.torch.allocated() == 0);
    CHECK(s.used() == 0);
    // The next capture of the same graphs has its memory.
    s.torch.begin_graphs(faulty_graphs, nullptr);
    void* const again = s.torch.allocate(bytes_each, captured);
    s.torch.deallocate(again, bytes_each, captured);
    s.torch.end_graphs(faulty_graphs);
    s.torch.release_graphs(faulty_graphs);
    CHECK(s.used() == 0);
  }
}

}  // namespace
}  // namespace hipvmm::test
