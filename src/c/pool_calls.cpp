// SPDX-License-Identifier: MIT
#include <chrono>

#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>
#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/pool/graph_pool.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/runtime/device.hpp>
#include "c/guard.hpp"
#include "c/objects.hpp"

namespace hipvmm::c {
namespace {

template <typename Resource, typename Body>
hipvmm_status with_kind(const char* function, hipvmm_resource handle, const char* kind,
                        Body body) noexcept {
  return with_resource(function, handle,
                       [&](const resource_object& object) { body(object.as<Resource>(kind)); });
}

template <typename Body>
hipvmm_status with_pool(const char* function, hipvmm_resource pool, Body body) noexcept {
  return with_kind<mr::vmm_pool_resource>(function, pool, "pool", body);
}

template <typename... Others, typename Body>
hipvmm_status with_pool_or(const char* function, hipvmm_resource pool, Body body) noexcept {
  return with_resource(function, pool, [&](const resource_object& object) {
    const auto is_one = [&](auto* other) {
      if (other != nullptr) body(*other);
      return other != nullptr;
    };
    if (!(is_one(dynamic_cast<Others*>(object.resource)) || ...))
      body(object.as<mr::vmm_pool_resource>("pool"));
  });
}

template <typename Body>
hipvmm_status with_any_pool(const char* function, hipvmm_resource pool, Body body) noexcept {
  return with_pool_or<mr::arena_resource, mr::fixed_size_resource>(function, pool, body);
}

hipvmm_counters counters_of(const mr::statistics_resource_adaptor::counter& bytes,
                            const mr::statistics_resource_adaptor::counter& count) {
  return {sizeof(hipvmm_counters),
          bytes.value,
          bytes.peak,
          bytes.total,
          count.value,
          count.peak,
          count.total};
}

std::size_t kept(const mr::fixed_size_resource& blocks, std::size_t bytes) {
  const std::size_t size = blocks.get_block_size();
  return bytes / size + (bytes % size != 0 ? 1 : 0);
}
template <typename Pool>
std::size_t kept(const Pool&, std::size_t bytes) {
  return bytes;
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_pool_deallocate(hipvmm_resource pool, void* pointer) {
  return with_pool(__func__, pool, [&](auto& of) { of.deallocate(pointer); });
}

hipvmm_status hipvmm_pool_trim(hipvmm_resource pool, size_t bytes_to_keep, unsigned milliseconds,
                               size_t* released) {
  std::chrono::steady_clock::time_point deadline{};
  if (milliseconds != 0)
    deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{milliseconds};
  return with_any_pool(__func__, pool, [&](auto& of) {
    out_if_wanted(released, of.trim_to(kept(of, bytes_to_keep), deadline));
  });
}

hipvmm_status hipvmm_pool_get_statistics(hipvmm_resource pool, hipvmm_pool_statistics* statistics) {
  return with_pool_or<mr::arena_resource>(__func__, pool, [&](auto& of) {
    const mr::pool_statistics now = of.statistics();
    copy_struct(
        statistics,
        {sizeof *statistics, now.reserved_current, now.reserved_high, now.used_current,
         now.used_high, now.address_bytes, now.mapped_bytes, now.largest_now, now.largest_moved,
         now.largest_possible, now.chunks_created, now.chunks_moved, now.callbacks},
        "statistics");
  });
}

hipvmm_status hipvmm_pool_reset_peaks(hipvmm_resource pool) {
  return with_pool(__func__, pool, [](auto& of) { of.reset_peaks(); });
}

hipvmm_status hipvmm_pool_report(hipvmm_resource pool, char* text, size_t capacity,
                                 size_t* length) {
  return with_pool_or<mr::arena_resource>(
      __func__, pool, [&](auto& of) { copy_text(of.report(), text, capacity, length); });
}

hipvmm_status hipvmm_pool_explain(hipvmm_resource pool, char* text, size_t capacity,
                                  size_t* length) {
  return with_pool(__func__, pool,
                   [&](auto& of) { copy_text(of.explain(), text, capacity, length); });
}

hipvmm_status hipvmm_pool_release_threshold(hipvmm_resource pool, size_t* bytes) {
  return with_pool(__func__, pool, [&](auto& of) { out(bytes, "bytes") = of.release_threshold(); });
}

hipvmm_status hipvmm_pool_set_release_threshold(hipvmm_resource pool, size_t bytes) {
  return with_pool(__func__, pool, [&](auto& of) { of.set_release_threshold(bytes); });
}

hipvmm_status hipvmm_pool_grant(hipvmm_resource pool, int device, hipvmm_right right) {
  return with_pool(__func__, pool,
                   [&](auto& of) { of.grant(device_ref{device}, right_of(right)); });
}

hipvmm_status hipvmm_pool_set_access(hipvmm_resource pool, const hipvmm_access* access,
                                     size_t count) {
  return with_pool(__func__, pool, [&](auto& of) { of.set_access(list_of(access, count)); });
}

hipvmm_status hipvmm_pool_access(hipvmm_resource pool, int device, hipvmm_right* right) {
  return with_pool(__func__, pool,
                   [&](auto& of) { out(right, "right") = right_of(of.access(device_of(device))); });
}

hipvmm_status hipvmm_pool_note_stream_wait(hipvmm_resource pool, void* waiter, void* other) {
  return with_any_pool(__func__, pool,
                       [&](auto& of) { of.note_stream_wait(stream_of(waiter), stream_of(other)); });
}

hipvmm_status hipvmm_pool_forget_stream(hipvmm_resource pool, void* stream) {
  return with_any_pool(__func__, pool, [&](auto& of) { of.forget_stream(stream_of(stream)); });
}

hipvmm_status hipvmm_logging_flush(hipvmm_resource logging) {
  return with_kind<mr::logging_resource_adaptor>(__func__, logging, "logging",
                                                 [](auto& of) { of.flush(); });
}

hipvmm_status hipvmm_statistics_counters(hipvmm_resource statistics, hipvmm_counters* counters) {
  return with_kind<mr::statistics_resource_adaptor>(
      __func__, statistics, "statistics", [&](auto& of) {
        copy_struct(counters, counters_of(of.get_bytes_counter(), of.get_allocations_counter()),
                    "counters");
      });
}

hipvmm_status hipvmm_statistics_push(hipvmm_resource statistics, hipvmm_counters* counters) {
  return with_kind<mr::statistics_resource_adaptor>(
      __func__, statistics, "statistics", [&](auto& of) {
        // Checks the arguments before a level begins.
        copy_struct(counters, hipvmm_counters{}, "counters");
        const auto [bytes, count] = of.push_counters();
        copy_struct(counters, counters_of(bytes, count), "counters");
      });
}

hipvmm_status hipvmm_statistics_pop(hipvmm_resource statistics, hipvmm_counters* counters) {
  return with_kind<mr::statistics_resource_adaptor>(
      __func__, statistics, "statistics", [&](auto& of) {
        copy_struct(counters, hipvmm_counters{}, "counters");
        const auto [bytes, count] = of.pop_counters();
        copy_struct(counters, counters_of(bytes, count), "counters");
      });
}

hipvmm_status hipvmm_tracking_allocated(hipvmm_resource tracking, size_t* bytes) {
  return with_kind<mr::tracking_resource_adaptor>(__func__, tracking, "tracking", [&](auto& of) {
    out(bytes, "bytes") = of.get_allocated_bytes();
  });
}

hipvmm_status hipvmm_tracking_outstanding(hipvmm_resource tracking, char* text, size_t capacity,
                                          size_t* length) {
  return with_kind<mr::tracking_resource_adaptor>(__func__, tracking, "tracking", [&](auto& of) {
    copy_text(of.get_outstanding_allocations_str(), text, capacity, length);
  });
}

hipvmm_status hipvmm_limiting_allocated(hipvmm_resource limiting, size_t* bytes) {
  return with_kind<mr::limiting_resource_adaptor>(__func__, limiting, "limiting", [&](auto& of) {
    out(bytes, "bytes") = of.get_allocated_bytes();
  });
}

hipvmm_status hipvmm_fixed_size_block(hipvmm_resource fixed_size, size_t* bytes) {
  return with_kind<mr::fixed_size_resource>(__func__, fixed_size, "fixed_size", [&](auto& of) {
    out(bytes, "bytes") = of.get_block_size();
  });
}

hipvmm_status hipvmm_graph_pool_release(hipvmm_resource graph_pool) {
  return with_kind<mr::graph_pool>(__func__, graph_pool, "graph_pool",
                                   [](auto& of) { of.release(); });
}

hipvmm_status hipvmm_graph_pool_get_statistics(hipvmm_resource graph_pool,
                                               hipvmm_graph_pool_statistics* statistics) {
  return with_kind<mr::graph_pool>(__func__, graph_pool, "graph_pool", [&](auto& of) {
    const mr::graph_pool_statistics now = of.statistics();
    copy_struct(statistics,
                {sizeof *statistics, now.held_bytes, now.used_bytes, now.peak_bytes, now.captures},
                "statistics");
  });
}

}  // extern "C"

}  // namespace hipvmm::c
