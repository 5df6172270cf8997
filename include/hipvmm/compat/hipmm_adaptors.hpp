// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <hipvmm/compat/hipmm_error.hpp>
#include <hipvmm/compat/hipmm_pools.hpp>
#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/owning_wrapper.hpp>
#include <hipvmm/mr/adaptor/prefetch_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/thread_safe_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>

namespace hipvmm::hipmm::mr {

template <typename Upstream>
class aligned_resource_adaptor final : public adaptor_of<hipvmm::mr::aligned_resource_adaptor> {
 public:
  explicit aligned_resource_adaptor(
      hipvmm::mr::memory_resource* upstream,
      std::size_t alignment = hipvmm::mr::memory_resource::default_alignment,
      std::size_t alignment_threshold = 0)
      : adaptor_of{upstream, alignment, alignment_threshold} {}
};
template <typename Upstream, typename... Rest>
aligned_resource_adaptor(Upstream*, Rest&&...) -> aligned_resource_adaptor<Upstream>;

using hipvmm::mr::failure_callback_t;

/// Calls the callback for `ExceptionType` only. The callback may rethrow the exception.
template <typename Upstream, typename ExceptionType = bad_alloc>
class failure_callback_resource_adaptor final
    : public adaptor_of<hipvmm::mr::failure_callback_resource_adaptor> {
  static_assert(
      std::is_base_of_v<bad_alloc, ExceptionType>,
      "failure_callback_resource_adaptor: the callback is for std::bad_alloc and derived classes");

 public:
  failure_callback_resource_adaptor(hipvmm::mr::memory_resource* upstream,
                                    failure_callback_t callback, void* callback_arg = nullptr)
      : adaptor_of{upstream, asked_of(std::move(callback)), callback_arg} {}

 private:
  static failure_callback_t asked_of(failure_callback_t callback) {
    if (std::is_same_v<ExceptionType, bad_alloc> || !callback) return callback;
    return [callback = std::move(callback)](std::size_t bytes, void* callback_arg) {
      try {
        throw;
      } catch (const ExceptionType&) {
        return callback(bytes, callback_arg);
      } catch (...) {
        return false;
      }
    };
  }
};
template <typename Upstream, typename... Rest>
failure_callback_resource_adaptor(Upstream*, Rest&&...)
    -> failure_callback_resource_adaptor<Upstream>;

template <typename Upstream>
class limiting_resource_adaptor final : public adaptor_of<hipvmm::mr::limiting_resource_adaptor> {
 public:
  limiting_resource_adaptor(hipvmm::mr::memory_resource* upstream, std::size_t allocation_limit,
                            std::size_t alignment = hipvmm::mr::memory_resource::default_alignment)
      : adaptor_of{upstream, allocation_limit, alignment} {}
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept {
    return wrapped().get_allocated_bytes();
  }
  [[nodiscard]] std::size_t get_allocation_limit() const noexcept {
    return wrapped().get_allocation_limit();
  }
};
template <typename Upstream, typename... Rest>
limiting_resource_adaptor(Upstream*, Rest&&...) -> limiting_resource_adaptor<Upstream>;

template <typename Upstream>
class logging_resource_adaptor final : public adaptor_of<hipvmm::mr::logging_resource_adaptor> {
 public:
  explicit logging_resource_adaptor(hipvmm::mr::memory_resource* upstream,
                                    const std::string& filename = get_default_filename(),
                                    bool auto_flush = false)
      : adaptor_of{upstream, filename, auto_flush} {}
  logging_resource_adaptor(hipvmm::mr::memory_resource* upstream, std::ostream& stream,
                           bool auto_flush = false)
      : adaptor_of{upstream, stream, auto_flush} {}
  void flush() { wrapped().flush(); }
  [[nodiscard]] std::string header() const { return wrapped().header(); }
  [[nodiscard]] static std::string get_default_filename() {
    return hipvmm::mr::logging_resource_adaptor::get_default_filename();
  }
};
template <typename Upstream, typename... Rest>
logging_resource_adaptor(Upstream*, Rest&&...) -> logging_resource_adaptor<Upstream>;

template <typename Upstream>
class prefetch_resource_adaptor final : public adaptor_of<hipvmm::mr::prefetch_resource_adaptor> {
 public:
  explicit prefetch_resource_adaptor(hipvmm::mr::memory_resource* upstream)
      : adaptor_of{upstream} {}
};
template <typename Upstream, typename... Rest>
prefetch_resource_adaptor(Upstream*, Rest&&...) -> prefetch_resource_adaptor<Upstream>;

template <typename Upstream>
class statistics_resource_adaptor final
    : public adaptor_of<hipvmm::mr::statistics_resource_adaptor> {
  using ours = hipvmm::mr::statistics_resource_adaptor;

 public:
  explicit statistics_resource_adaptor(hipvmm::mr::memory_resource* upstream)
      : adaptor_of{upstream} {}
  using counter = ours::counter;
  [[nodiscard]] counter get_bytes_counter() const noexcept { return wrapped().get_bytes_counter(); }
  [[nodiscard]] counter get_allocations_counter() const noexcept {
    return wrapped().get_allocations_counter();
  }
  std::pair<counter, counter> push_counters() { return wrapped().push_counters(); }
  std::pair<counter, counter> pop_counters() { return wrapped().pop_counters(); }
};
template <typename Upstream, typename... Rest>
statistics_resource_adaptor(Upstream*, Rest&&...) -> statistics_resource_adaptor<Upstream>;

template <typename Upstream>
class thread_safe_resource_adaptor final
    : public adaptor_of<hipvmm::mr::thread_safe_resource_adaptor> {
 public:
  explicit thread_safe_resource_adaptor(hipvmm::mr::memory_resource* upstream)
      : adaptor_of{upstream} {}
};
template <typename Upstream, typename... Rest>
thread_safe_resource_adaptor(Upstream*, Rest&&...) -> thread_safe_resource_adaptor<Upstream>;

template <typename Upstream>
class tracking_resource_adaptor final : public adaptor_of<hipvmm::mr::tracking_resource_adaptor> {
  using ours = hipvmm::mr::tracking_resource_adaptor;

 public:
  using allocation_info = ours::allocation_info;
  explicit tracking_resource_adaptor(hipvmm::mr::memory_resource* upstream,
                                     bool capture_stacks = false)
      : adaptor_of{upstream, capture_stacks} {}
  [[nodiscard]] std::map<const void*, allocation_info> get_outstanding_allocations() const {
    return wrapped().get_outstanding_allocations();
  }
  [[nodiscard]] std::string get_outstanding_allocations_str() const {
    return wrapped().get_outstanding_allocations_str();
  }
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept {
    return wrapped().get_allocated_bytes();
  }
  void log_outstanding_allocations() const { wrapped().log_outstanding_allocations(); }
};
template <typename Upstream, typename... Rest>
tracking_resource_adaptor(Upstream*, Rest&&...) -> tracking_resource_adaptor<Upstream>;

template <typename Resource, typename... Upstreams>
class owning_wrapper final
    : public resource_of<hipvmm::mr::owning_wrapper<Resource, Upstreams...>> {
  using base = resource_of<hipvmm::mr::owning_wrapper<Resource, Upstreams...>>;

 public:
  using upstream_tuple = std::tuple<std::shared_ptr<Upstreams>...>;
  template <typename... Args>
  explicit owning_wrapper(upstream_tuple upstreams, Args&&... args)
      : base{std::in_place, std::move(upstreams), std::forward<Args>(args)...} {}
  [[nodiscard]] Resource& wrapped() const noexcept { return base::wrapped().wrapped(); }
};

template <template <typename...> class Resource, typename... Upstreams, typename... Args>
[[nodiscard]] auto make_owning_wrapper(std::tuple<std::shared_ptr<Upstreams>...> upstreams,
                                       Args&&... args) {
  return std::make_shared<owning_wrapper<Resource<Upstreams...>, Upstreams...>>(
      std::move(upstreams), std::forward<Args>(args)...);
}
template <template <typename...> class Resource, typename Upstream, typename... Args>
[[nodiscard]] auto make_owning_wrapper(std::shared_ptr<Upstream> upstream, Args&&... args) {
  return make_owning_wrapper<Resource>(std::make_tuple(std::move(upstream)),
                                       std::forward<Args>(args)...);
}

}  // namespace hipvmm::hipmm::mr
