// SPDX-License-Identifier: MIT
#include "tool/replay/replay_subject.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <hipvmm/mr/pool/arena_resource.hpp>
#include <hipvmm/mr/pool/binning_resource.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/region/retirement.hpp>
#include "c/guard.hpp"
#include "c/settings.hpp"
#include "core/text/nearest_name.hpp"
#include "tool/replay/replay_clock.hpp"

namespace hipvmm::tool {
namespace {

class timed_resource final : public mr::memory_resource {
 public:
  timed_resource(mr::memory_resource& upstream, const char* allocates, const char* frees)
      : upstream_{upstream}, allocations_{allocates}, frees_{frees} {}

  [[nodiscard]] std::vector<driver_calls> calls() const { return {allocations_, frees_}; }

 private:
  class measured {
   public:
    explicit measured(driver_calls& calls) : calls_{calls} {}
    ~measured() {
      ++calls_.count;
      calls_.seconds += static_cast<double>(watch_.nanoseconds()) / 1e9;
    }
    measured& operator=(measured&&) = delete;

   private:
    driver_calls& calls_;
    stopwatch watch_;
  };

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override {
    const measured call{allocations_};
    return upstream_.allocate(stream, bytes, alignment);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override {
    const measured call{frees_};
    upstream_.deallocate(stream, pointer, bytes, alignment);
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override {
    const measured call{allocations_};
    return upstream_.allocate_sync(bytes, alignment);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override {
    const measured call{frees_};
    upstream_.deallocate_sync(pointer, bytes, alignment);
  }

  mr::memory_resource& upstream_;
  driver_calls allocations_;
  driver_calls frees_;
};

/// Measures use by the device's free memory, because hipMalloc does not report it.
class hip_subject final : public replay_subject {
 public:
  explicit hip_subject(const subject_options& options)
      : upstream_{options.device}, timed_{upstream_, "hipMalloc", "hipFree"} {
    if (!options.settings.empty())
      throw std::invalid_argument{
          "--pool: hipMalloc has no options; leave it out, or choose a pool"};
  }

  mr::memory_resource& resource() noexcept override { return timed_; }
  void begin() override {
    drain_retired_memory();  // memory released during the replay would hide new allocations
    free_before_ = upstream_.device().free_memory();
  }
  void begin_epoch() override { peak_ = held().physical; }
  void look() override { peak_ = std::max(peak_, held().physical); }
  [[nodiscard]] std::size_t peak_physical() const override { return peak_; }
  [[nodiscard]] memory_held held() const override {
    const std::size_t free = upstream_.device().free_memory();
    return {free_before_ - std::min(free, free_before_), std::nullopt};
  }
  [[nodiscard]] std::vector<driver_calls> calls() const override { return timed_.calls(); }

 private:
  mr::hip_resource upstream_;
  timed_resource timed_;
  std::size_t free_before_ = 0;
  std::size_t peak_ = 0;
};

class async_subject final : public replay_subject {
 public:
  explicit async_subject(const subject_options& options)
      : upstream_{options.device, c::async_settings(options.device, options.settings.c_str())},
        timed_{upstream_, "hipMallocFromPoolAsync", "hipFreeAsync"} {}

  mr::memory_resource& resource() noexcept override { return timed_; }
  void begin_epoch() override { upstream_.reset_peaks(); }
  [[nodiscard]] std::size_t peak_physical() const override {
    return upstream_.statistics().reserved_high;
  }
  [[nodiscard]] memory_held held() const override {
    return {upstream_.statistics().reserved_current, std::nullopt};
  }
  [[nodiscard]] std::vector<driver_calls> calls() const override { return timed_.calls(); }

 private:
  mr::hip_async_resource upstream_;
  timed_resource timed_;
};

class pool_subject : public replay_subject {
 public:
  explicit pool_subject(const subject_options& options)
      : pool_{options.device, settings_of_pool(options)} {}

  mr::memory_resource& resource() noexcept override { return pool_; }
  void begin() override { before_ = memory_calls(); }
  void begin_epoch() override { pool_.reset_peaks(); }
  void forget(stream_ref stream) override { pool_.forget_stream(stream); }
  [[nodiscard]] std::size_t peak_physical() const override {
    return pool_.statistics().reserved_high;
  }
  [[nodiscard]] memory_held held() const override {
    const mr::pool_statistics now = pool_.statistics();
    return {now.reserved_current, now.mapped_bytes};
  }
  [[nodiscard]] std::vector<driver_calls> calls() const override {
    std::vector<driver_calls> result;
    for (driver_calls each : memory_calls()) {
      const auto earlier = std::ranges::find(before_, each.function, &driver_calls::function);
      if (earlier != before_.end()) {
        each.count -= earlier->count;
        each.seconds -= earlier->seconds;
      }
      if (each.count != 0) result.push_back(each);
    }
    return result;
  }

 private:
  static mr::pool_options settings_of_pool(const subject_options& from) {
    mr::pool_options options = c::pool_settings(from.device, from.settings.c_str());
    if (!from.limit_bytes) return options;
    if (options.maximum_bytes != 0)
      throw std::invalid_argument{
          "--limit: the pool's option maximum says the same; leave one out"};
    options.maximum_bytes = *from.limit_bytes;
    return options;
  }

  mr::vmm_pool_resource pool_;
  std::vector<driver_calls> before_;
};

class binning_subject final : public pool_subject {
 public:
  explicit binning_subject(const subject_options& options)
      : pool_subject{{options.device, options.limit_bytes, {}}},
        bins_{make(pool_subject::resource(), c::binning_settings(options.settings.c_str()))} {}

  mr::memory_resource& resource() noexcept override { return *bins_; }

 private:
  static std::unique_ptr<mr::binning_resource> make(mr::memory_resource& pool,
                                                    const c::binning_options& options) {
    // 128 blocks of each size are allocated at once: 16 MiB in all.
    constexpr int least = 10;
    constexpr int greatest = 16;
    return std::make_unique<mr::binning_resource>(
        &pool, static_cast<std::int8_t>(options.min_exponent.value_or(least)),
        static_cast<std::int8_t>(options.max_exponent.value_or(greatest)));
  }

  std::unique_ptr<mr::binning_resource> bins_;
};

/// An arena's statistics have one peak, of its whole life.
class arena_subject final : public replay_subject {
 public:
  explicit arena_subject(const subject_options& options)
      : upstream_{options.device},
        timed_{upstream_, "hipMalloc", "hipFree"},
        arena_{make(timed_, options)} {}

  mr::memory_resource& resource() noexcept override { return *arena_; }
  void begin_epoch() override {
    is_first_epoch_ = false;
    peak_ = held().physical;
  }
  void look() override { peak_ = std::max(peak_, held().physical); }
  void forget(stream_ref stream) override { arena_->forget_stream(stream); }
  [[nodiscard]] std::size_t peak_physical() const override {
    return is_first_epoch_ ? arena_->statistics().reserved_high : std::max(peak_, held().physical);
  }
  [[nodiscard]] memory_held held() const override {
    return {arena_->statistics().reserved_current, std::nullopt};
  }
  [[nodiscard]] std::vector<driver_calls> calls() const override { return timed_.calls(); }

 private:
  static std::unique_ptr<mr::arena_resource> make(mr::memory_resource& upstream,
                                                  const subject_options& from) {
    const c::arena_options options = c::arena_settings(from.device, from.settings.c_str());
    if (options.maximum_bytes && from.limit_bytes)
      throw std::invalid_argument{
          "--limit: the arena's option maximum says the same; leave one out"};
    auto made = std::make_unique<mr::arena_resource>(
        &upstream, options.maximum_bytes ? options.maximum_bytes : from.limit_bytes,
        options.dumps_log);
    made->deallocate_sync(made->allocate_sync(options.initial_bytes), options.initial_bytes);
    return made;
  }

  mr::hip_resource upstream_;
  timed_resource timed_;
  std::unique_ptr<mr::arena_resource> arena_;
  bool is_first_epoch_ = true;
  std::size_t peak_ = 0;
};

template <typename Subject>
std::unique_ptr<replay_subject> make_unlimited(const subject_options& options) {
  if (options.limit_bytes)
    throw std::invalid_argument{
        "--limit: HIP offers no limit for the memory of this resource; leave it out, or choose a "
        "pool of the library's own"};
  return std::make_unique<Subject>(options);
}

template <typename Subject>
std::unique_ptr<replay_subject> make_limited(const subject_options& options) {
  try {
    return std::make_unique<Subject>(options);
  } catch (const std::invalid_argument& refused) {
    std::string text = c::with_option_names(refused.what());
    constexpr std::string_view advice = "raise maximum";
    if (const std::size_t at = text.find(advice); at != text.npos && options.limit_bytes)
      text.replace(at, advice.size(), "raise --limit");
    throw std::invalid_argument{text};
  }
}

constexpr std::array<subject_kind, 5> kinds{{
    {"pool", "hipvmm's own stream-ordered pool", make_limited<pool_subject>},
    {"hip", "hipMalloc and hipFree", make_unlimited<hip_subject>},
    {"async", "hipMallocAsync on a pool that keeps everything", make_unlimited<async_subject>},
    {"arena", "RMM's arena, over hipMalloc", make_limited<arena_subject>},
    {"binning", "RMM's bins for small blocks, over the pool", make_limited<binning_subject>},
}};

}  // namespace

std::span<const subject_kind> subject_kinds() noexcept { return kinds; }

std::unique_ptr<replay_subject> make_subject(std::string_view name,
                                             const subject_options& options) {
  std::vector<std::string> names;
  for (const subject_kind& kind : kinds) {
    if (kind.name == name) return kind.make(options);
    names.emplace_back(kind.name);
  }
  throw std::invalid_argument{"there is no resource '" + std::string{name} + "'; " +
                              detail::name_advice(name, names)};
}

}  // namespace hipvmm::tool
