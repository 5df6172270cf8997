// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/budget/memory_budget.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include "core/error.hpp"
#include "ipc/budget/budget_file.hpp"
#include "ipc/budget/budget_member.hpp"
#include "ipc/budget/budget_table.hpp"
#include "ipc/budget/futex.hpp"
#include "ipc/fault_point.hpp"
#include "region/retirement.hpp"

namespace hipvmm {

using detail::budget_file;
using detail::budget_table;

memory_budget::memory_budget(device_ref device, const std::string& name, std::size_t bytes,
                             budget_options options) {
  detail::require_budget_name(name);
  if (bytes == 0)
    throw std::invalid_argument{"budget '" + name + "': its limit is zero; give it bytes"};
  require_device(device);
  if (capability_of(device).path() == memory_path::fallback)
    throw unsupported{
        "budget '" + name + "': device " + std::to_string(device.ordinal()) +
        " is used by hipMalloc, which is not counted: " + capability_of(device).why_fallback()};
  share_ = detail::budget_member::join(device, {name, device.uuid()}, bytes, std::move(options));
}

memory_budget::~memory_budget() {
  if (share_) share_->end();
}

memory_budget::memory_budget(memory_budget&&) noexcept = default;

memory_budget& memory_budget::operator=(memory_budget&& other) noexcept {
  memory_budget taken{std::move(other)};
  std::swap(share_, taken.share_);  // the former share ends with `taken`
  return *this;
}

detail::budget_member& memory_budget::live() const {
  if (!share_) throw std::invalid_argument{"the memory_budget is empty: it was moved from"};
  return *share_;
}

void memory_budget::set_limit(std::size_t bytes) {
  if (const std::string why = live().why_split(); !why.empty())
    throw ipc_error{ipc_failure::refused, why};
  set_limit(live().key().name, live().key().device, bytes);
}

bool memory_budget::make_room(std::size_t bytes) {
  detail::budget_member& share = live();
  return detail::attempt([&] {
    detail::acquire_with_retry([&] {
      if (share.bytes_left() < bytes) throw out_of_memory{share.refusal(share.device(), bytes)};
      return true;
    });
  });
}

std::size_t memory_budget::bytes() const noexcept { return share_ ? share_->bytes() : 0; }

budget_report memory_budget::report() const { return live().report(); }

std::vector<budget_report> memory_budget::all() {
  std::vector<budget_report> result;
  for (const std::string& each : budget_file::all()) {
    try {
      if (const auto file = budget_file::look_at(each))
        result.push_back(report_of(budget_table{file->shared()}));
    } catch (const ipc_error& error) {
      // It may be of another version: a process that joins it learns why.
      if (error.reason() != ipc_failure::refused) throw;
    }
  }
  return result;
}

void memory_budget::set_limit(const std::string& name, const device_uuid& device,
                              std::size_t bytes) {
  const auto file = budget_file::open({name, device}, std::max<std::size_t>(bytes, 1));
  budget_table table{file->shared()};
  static_cast<void>(detail::fault_point("limit"));
  table.header().is_fixed = 1;
  static_cast<void>(detail::fault_point("fixed"));
  table.header().limit = bytes;
  table.request();
  file->unlock();
  detail::change_and_wake(table.header().changes);
}

bool memory_budget::remove(const std::string& name, const device_uuid& device) {
  const auto file = budget_file::open({name, device}, 0);
  if (!file) return false;
  const std::vector<budget_holder> holders = budget_table{file->shared()}.holders();
  if (!holders.empty())
    throw ipc_error{
        ipc_failure::refused,
        "budget '" + name + "' is used by " + holders.front().program + " (process " +
            std::to_string(holders.front().process) + ")" +
            (holders.size() == 1 ? std::string{}
                                 : " and " + std::to_string(holders.size() - 1) + " more") +
            ": end them before it is removed"};
  file->remove();
  return true;
}

}  // namespace hipvmm
