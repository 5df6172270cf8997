// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "memory/managed_pages.hpp"
#include "memory/transfer.hpp"
#include "stream/operation.hpp"
#include "stream/shared_event.hpp"
#include "stream/stream_queue.hpp"

namespace hipvmm::host_provider {

class wait_operation final : public operation {
 public:
  explicit wait_operation(position awaited) noexcept : awaited_{std::move(awaited)} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] operation_role role() const noexcept override { return operation_role::order; }

 private:
  position awaited_;
};

class host_operation final : public operation {
 public:
  host_operation(hipHostFn_t function, void* user_data) noexcept
      : function_{function}, user_data_{user_data} {}
  host_operation(hipStreamCallback_t callback, hipStream_t stream, void* user_data) noexcept
      : callback_{callback}, stream_{stream}, user_data_{user_data} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] std::optional<graph_form> recorded() const override;
  [[nodiscard]] operation_role role() const noexcept override {
    return operation_role::host_function;
  }
  void set_before(const stream_observer::point& known) noexcept override { before_ = known; }

 private:
  hipHostFn_t function_ = nullptr;
  hipStreamCallback_t callback_ = nullptr;  // used when function_ is null
  hipStream_t stream_ = nullptr;
  void* user_data_;
  stream_observer::point before_;  // null without the checker, and in a graph
};

class copy_operation final : public operation {
 public:
  copy_operation(copy_request what, const device_access& by) noexcept
      : what_{std::move(what)}, by_{by} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] std::optional<graph_form> recorded() const override;
  void visit_uses(use_visitor& visitor) const override;

 private:
  copy_request what_;
  device_access by_;
};

class fill_operation final : public operation {
 public:
  fill_operation(const fill_request& what, const device_access& by) noexcept
      : what_{what}, by_{by} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] std::optional<graph_form> recorded() const override;
  void visit_uses(use_visitor& visitor) const override;

 private:
  fill_request what_;
  device_access by_;
};

class prefetch_operation final : public operation {
 public:
  explicit prefetch_operation(prefetch_request what) noexcept : what_{std::move(what)} {}
  hipError_t execute(stream_queue& in) const override;
  void visit_uses(use_visitor& visitor) const override;

 private:
  prefetch_request what_;
};

class value_wait_operation final : public operation {
 public:
  value_wait_operation(const value_wait_request& what, const device_access& by) noexcept
      : what_{what}, by_{by} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] operation_role role() const noexcept override { return operation_role::order; }

 private:
  value_wait_request what_;
  device_access by_;
};

class value_write_operation final : public operation {
 public:
  value_write_operation(const value_write_request& what, const device_access& by) noexcept
      : what_{what}, by_{by} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] operation_role role() const noexcept override { return operation_role::order; }

 private:
  value_write_request what_;
  device_access by_;
};

/// Reaches record `number` of an interprocess event.
class shared_mark_operation final : public operation {
 public:
  shared_mark_operation(std::shared_ptr<shared_event> event, std::uint64_t number) noexcept
      : event_{std::move(event)}, number_{number} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] operation_role role() const noexcept override { return operation_role::order; }

 private:
  std::shared_ptr<shared_event> event_;
  std::uint64_t number_;
};

/// Waits until it is reached.
class shared_wait_operation final : public operation {
 public:
  shared_wait_operation(std::shared_ptr<shared_event> event, std::uint64_t number) noexcept
      : event_{std::move(event)}, number_{number} {}
  hipError_t execute(stream_queue& in) const override;
  [[nodiscard]] operation_role role() const noexcept override { return operation_role::order; }

 private:
  std::shared_ptr<shared_event> event_;
  std::uint64_t number_;
};

}  // namespace hipvmm::host_provider
