// SPDX-License-Identifier: MIT
// Measures the cost of a request in one stream for memory that another one freed, with each of the
// switches that HIP's pools have for it, and without.
//
// The pool may hold no more than the one block, so it cannot get around it. Above the time to
// create as much (new memory), the switch is not worth having.
#include <hip/hip_runtime_api.h>

#include <array>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/runtime/event.hpp>
#include "pool_contenders.hpp"

namespace bench {
namespace {

namespace mr = hipvmm::mr;

enum class handover { followed, passed, internal, refused };

mr::pool_reuse switches_of(handover how) {
  return {how == handover::followed, how == handover::passed, how == handover::internal};
}

void set_switch(hipMemPool_t pool, hipMemPoolAttr which, bool on) {
  int value = on ? 1 : 0;
  const hipError_t result = hipMemPoolSetAttribute(pool, which, &value);
  if (result != hipSuccess)
    throw hipvmm::hip_error{static_cast<int>(result), "hipMemPoolSetAttribute", __FILE__, __LINE__};
}

class handover_job : public job {
 public:
  handover_job(resource_ptr resource, hipvmm::device_ref device, handover how, std::size_t bytes)
      : resource_{std::move(resource)},
        how_{how},
        bytes_{bytes},
        streams_{hipvmm::stream{device}, hipvmm::stream{device}},
        event_{device} {
    resource_->deallocate(streams_[0], resource_->allocate(streams_[0], bytes), bytes);
  }

  std::vector<double> sample() final {
    std::vector<double> seconds(32);
    for (double& each : seconds) {
      const hipvmm::stream_ref gave_back = streams_[0];
      const hipvmm::stream_ref asks = streams_[1];
      if (how_ == handover::followed) {
        event_.record(gave_back);
        asks.wait(event_);
        note_wait(asks, gave_back);
      } else if (how_ != handover::internal) {
        gave_back.synchronize();
      }
      const stopwatch watch;
      void* const block = resource_->allocate(asks, bytes_);
      each = watch.seconds();
      resource_->deallocate(asks, block, bytes_);
      std::swap(streams_[0], streams_[1]);
    }
    return seconds;
  }

 protected:
  mr::memory_resource& resource() { return *resource_; }

 private:
  virtual void note_wait(hipvmm::stream_ref, hipvmm::stream_ref) {}

  resource_ptr resource_;
  handover how_;
  std::size_t bytes_;
  std::array<hipvmm::stream, 2> streams_;
  hipvmm::event event_;
};

class our_handover final : public handover_job {
 public:
  our_handover(hipvmm::device_ref device, handover how, std::size_t bytes)
      : handover_job{make(device, how, bytes), device, how, bytes} {}

  /// Which place each hand-over was served from, so that the name of a row is true.
  std::string note() override {
    constexpr std::array<const char*, mr::pool_source_count> places{
        nullptr, "followed", "opportunistic", "internal", "moved", nullptr, "waited"};
    std::string text;
    const auto served = pool().statistics().served;
    for (std::size_t i = 0; i < places.size(); ++i)
      if (places[i] != nullptr && served[i] != 0)
        text += (text.empty() ? "" : ", ") + std::to_string(served[i]) + " " + places[i];
    return text;
  }

 private:
  static resource_ptr make(hipvmm::device_ref device, handover how, std::size_t bytes) {
    mr::pool_options options;
    options.maximum_bytes = bytes;
    options.reuse = switches_of(how);
    return std::make_unique<mr::vmm_pool_resource>(device, options);
  }
  mr::vmm_pool_resource& pool() { return static_cast<mr::vmm_pool_resource&>(resource()); }
  void note_wait(hipvmm::stream_ref waiter, hipvmm::stream_ref other) override {
    pool().note_stream_wait(waiter, other);
  }
};

class async_handover final : public handover_job {
 public:
  async_handover(hipvmm::device_ref device, handover how, std::size_t bytes)
      : handover_job{make(device, how), device, how, bytes} {}

  /// More than the one block was taken from the device instead of handed over.
  std::string note() override {
    const auto& pool = static_cast<mr::hip_async_resource&>(resource());
    return "holds " + hipvmm::format_bytes(pool.statistics().reserved_current);
  }

 private:
  static resource_ptr make(hipvmm::device_ref device, handover how) {
    auto pool = std::make_unique<mr::hip_async_resource>(device);
    const mr::pool_reuse switches = switches_of(how);
    set_switch(pool->get(), hipMemPoolReuseFollowEventDependencies,
               switches.follow_event_dependencies);
    set_switch(pool->get(), hipMemPoolReuseAllowOpportunistic, switches.allow_opportunistic);
    set_switch(pool->get(), hipMemPoolReuseAllowInternalDependencies,
               switches.allow_internal_dependencies);
    return pool;
  }
};

}  // namespace

std::vector<measurement> measure_handover(const pool_settings& chosen) {
  const hipvmm::device_ref device = chosen.common.device;
  const std::size_t bytes = chosen.handover_bytes;
  const std::vector<contender> all = pools(device);
  std::vector<measurement> rows;
  for (const auto& [scenario, how] : {std::pair{scenario::handover_followed, handover::followed},
                                      std::pair{scenario::handover_passed, handover::passed},
                                      std::pair{scenario::handover_internal, handover::internal},
                                      std::pair{scenario::handover_refused, handover::refused}}) {
    std::vector<entry> entries;
    for (const contender& each : all)
      entries.push_back({each, [&, kind = how]() -> std::unique_ptr<job> {
                           if (each.name == name::pool)
                             return std::make_unique<our_handover>(device, kind, bytes);
                           if (each.name == name::async_pool)
                             return std::make_unique<async_handover>(device, kind, bytes);
                           return std::make_unique<handover_job>(each.make(), device, kind, bytes);
                         }});
    for (measurement& row : measure_jobs(row_for(scenario, bytes), entries, chosen))
      rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace bench
