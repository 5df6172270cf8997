// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <hipvmm/adaptor/hipmm_pools.hpp>
#include <hipvmm/mr/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/logging_resource_adaptor.hpp>
#include <hipvmm/mr/owning_wrapper.hpp>
#include <hipvmm/mr/prefetch_resource_adaptor.hpp>
#include <hipvmm/mr/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/thread_safe_resource_adaptor.hpp>
#include <hipvmm/mr/tracking_resource_adaptor.hpp>

// hipMM's adaptors, which are templates over their upstream; part of <hipvmm/adaptor/hipmm.hpp>.
namespace hipvmm::hipmm::mr {

template <typename Upstream>
class aligned_resource_adaptor final
    : public adaptor_of<hipvmm::mr::aligned_resource_adaptor, Upstream> {
 public:
  explicit aligned_resource_adaptor(
      Upstream* upstream, std::size_t alignment = hipvmm::mr::memory_resource::default_alignment,
      std::size_t alignment_threshold = 0)
      : adaptor_of<hipvmm::mr::aligned_resource_adaptor, Upstream>{upstream, alignment,
                                                                   alignment_threshold} {}
};

using hipvmm::mr::failure_callback_t;

template <typename Upstream>
class failure_callback_resource_adaptor final
    : public adaptor_of<hipvmm::mr::failure_callback_resource_adaptor, Upstream> {
 public:
  failure_callback_resource_adaptor(Upstream* upstream, failure_callback_t callback,
                                    void* callback_arg = nullptr)
      : adaptor_of<hipvmm::mr::failure_callback_resource_adaptor, Upstream>{
            upstream, std::move(callback), callback_arg} {}
};

template <typename Upstream>
class limiting_resource_adaptor final
    : public adaptor_of<hipvmm::mr::limiting_resource_adaptor, Upstream> {
 public:
  limiting_resource_adaptor(Upstream* upstream, std::size_t allocation_limit,
                            std::size_t alignment = hipvmm::mr::memory_resource::default_alignment)
      : adaptor_of<hipvmm::mr::limiting_resource_adaptor, Upstream>{upstream, allocation_limit,
                                                                    alignment} {}
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept {
    return this->wrapped().get_allocated_bytes();
  }
  [[nodiscard]] std::size_t get_allocation_limit() const noexcept {
    return this->wrapped().get_allocation_limit();
  }
};

template <typename Upstream>
class logging_resource_adaptor final
    : public adaptor_of<hipvmm::mr::logging_resource_adaptor, Upstream> {
 public:
  explicit logging_resource_adaptor(Upstream* upstream,
                                    const std::string& filename = get_default_filename(),
                                    bool auto_flush = false)
      : adaptor_of<hipvmm::mr::logging_resource_adaptor, Upstream>{upstream, filename, auto_flush} {
  }
  logging_resource_adaptor(Upstream* upstream, std::ostream& stream, bool auto_flush = false)
      : adaptor_of<hipvmm::mr::logging_resource_adaptor, Upstream>{upstream, stream, auto_flush} {}
  void flush() { this->wrapped().flush(); }
  [[nodiscard]] std::string header() const { return this->wrapped().header(); }
  [[nodiscard]] static std::string get_default_filename() {
    return hipvmm::mr::logging_resource_adaptor::get_default_filename();
  }
};

template <typename Upstream>
class prefetch_resource_adaptor final
    : public adaptor_of<hipvmm::mr::prefetch_resource_adaptor, Upstream> {
 public:
  explicit prefetch_resource_adaptor(Upstream* upstream)
      : adaptor_of<hipvmm::mr::prefetch_resource_adaptor, Upstream>{upstream} {}
};

template <typename Upstream>
class statistics_resource_adaptor final
    : public adaptor_of<hipvmm::mr::statistics_resource_adaptor, Upstream> {
  using ours = hipvmm::mr::statistics_resource_adaptor;

 public:
  explicit statistics_resource_adaptor(Upstream* upstream) : adaptor_of<ours, Upstream>{upstream} {}
  using counter = ours::counter;
  [[nodiscard]] counter get_bytes_counter() const noexcept {
    return this->wrapped().get_bytes_counter();
  }
  [[nodiscard]] counter get_allocations_counter() const noexcept {
    return this->wrapped().get_allocations_counter();
  }
  std::pair<counter, counter> push_counters() { return this->wrapped().push_counters(); }
  std::pair<counter, counter> pop_counters() { return this->wrapped().pop_counters(); }
};

template <typename Upstream>
class thread_safe_resource_adaptor final
    : public adaptor_of<hipvmm::mr::thread_safe_resource_adaptor, Upstream> {
 public:
  explicit thread_safe_resource_adaptor(Upstream* upstream)
      : adaptor_of<hipvmm::mr::thread_safe_resource_adaptor, Upstream>{upstream} {}
};

template <typename Upstream>
class tracking_resource_adaptor final
    : public adaptor_of<hipvmm::mr::tracking_resource_adaptor, Upstream> {
  using ours = hipvmm::mr::tracking_resource_adaptor;

 public:
  using allocation_info = ours::allocation_info;
  explicit tracking_resource_adaptor(Upstream* upstream, bool capture_stacks = false)
      : adaptor_of<ours, Upstream>{upstream, capture_stacks} {}
  [[nodiscard]] std::map<const void*, allocation_info> get_outstanding_allocations() const {
    return this->wrapped().get_outstanding_allocations();
  }
  [[nodiscard]] std::string get_outstanding_allocations_str() const {
    return this->wrapped().get_outstanding_allocations_str();
  }
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept {
    return this->wrapped().get_allocated_bytes();
  }
  void log_outstanding_allocations() const { this->wrapped().log_outstanding_allocations(); }
};

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

/// An owning_wrapper of a new Resource<Upstream> over `upstream`.
template <template <typename...> class Resource, typename Upstream, typename... Args>
[[nodiscard]] auto make_owning_wrapper(std::shared_ptr<Upstream> upstream, Args&&... args) {
  return std::make_shared<owning_wrapper<Resource<Upstream>, Upstream>>(
      std::make_tuple(std::move(upstream)), std::forward<Args>(args)...);
}

}  // namespace hipvmm::hipmm::mr
