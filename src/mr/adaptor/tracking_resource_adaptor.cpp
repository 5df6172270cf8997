// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/tracking_resource_adaptor.hpp>

#include <atomic>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/call_stack.hpp"
#include "core/check.hpp"
#include "core/logger.hpp"
#include "mr/address_table.hpp"

namespace hipvmm::mr {
namespace {

constexpr const char* adaptor_name = "tracking_resource_adaptor";

/// Pre: no lock is held.
template <typename Sentence>
void warn_of(Sentence sentence) noexcept {
  detail::report_exceptions([&] { detail::warn(adaptor_name, sentence()); });
}

}  // namespace

struct tracking_resource_adaptor::table {
  detail::address_table<allocation_info> blocks;
  const bool with_stacks;
  std::atomic<std::size_t> bytes{0};
};

tracking_resource_adaptor::tracking_resource_adaptor(memory_resource* upstream, bool capture_stacks)
    : resource_adaptor{adaptor_name, upstream}, table_{new table{{}, capture_stacks}} {}

tracking_resource_adaptor::~tracking_resource_adaptor() {
  if (is_of_parent()) return;
  std::size_t count = 0;
  table_->blocks.for_each([&](const void*, const allocation_info&) { ++count; });
  if (count == 0) return;
  warn_of([&] {
    return "it ends with " + format_bytes(get_allocated_bytes()) + " still in use, in " +
           std::to_string(count) + (count == 1 ? " allocation:\n" : " allocations:\n") +
           get_outstanding_allocations_str();
  });
}

std::map<const void*, tracking_resource_adaptor::allocation_info>
tracking_resource_adaptor::get_outstanding_allocations() const {
  std::map<const void*, allocation_info> result;
  table_->blocks.for_each(
      [&](const void* pointer, const allocation_info& block) { result.emplace(pointer, block); });
  return result;
}

std::string tracking_resource_adaptor::get_outstanding_allocations_str() const {
  std::string text;
  for (const auto& [pointer, block] : get_outstanding_allocations())
    text += detail::address_text(pointer) + ": " + std::to_string(block.allocation_size) + " B\n" +
            detail::text_of_stack(block.strace);
  return text;
}

std::size_t tracking_resource_adaptor::get_allocated_bytes() const noexcept {
  return table_->bytes;
}

void tracking_resource_adaptor::log_outstanding_allocations() const {
  detail::log<log_level::info>(
      [this] { return "outstanding allocations:\n" + get_outstanding_allocations_str(); });
}

void* tracking_resource_adaptor::do_allocate_any(const request& wanted) {
  auto made = table_->blocks.prepare(
      {wanted.bytes, table_->with_stacks ? detail::call_stack() : std::vector<const void*>{}});
  void* const pointer = resource_adaptor::do_allocate_any(wanted);
  std::size_t forgotten = 0;
  try {
    if (const auto before = table_->blocks.put(std::move(made), pointer); !before.empty())
      forgotten = before.mapped().allocation_size;
  } catch (...) {
    resource_adaptor::do_deallocate_any(pointer, wanted);
    throw;
  }
  table_->bytes += wanted.bytes;
  table_->bytes -= forgotten;
  if (forgotten != 0)
    warn_of([&] {
      return "the upstream allocated " + detail::address_text(pointer) + " again, but " +
             format_bytes(forgotten) +
             " there are still in use: they were freed without the adaptor; free memory of the "
             "adaptor through the adaptor";
    });
  return pointer;
}

void tracking_resource_adaptor::do_deallocate_any(void* pointer, const request& freed) noexcept {
  request right = freed;
  if (const auto known = table_->blocks.take(pointer); !known.empty()) {
    right.bytes = known.mapped().allocation_size;
    table_->bytes -= right.bytes;
    if (right.bytes != freed.bytes)
      warn_of([&] {
        return std::to_string(freed.bytes) + " bytes are freed at " +
               detail::address_text(pointer) + ", but " + std::to_string(right.bytes) +
               " were allocated; all of those are freed";
      });
  } else {
    warn_of([&] {
      return std::to_string(freed.bytes) + " bytes at " + detail::address_text(pointer) +
             " are freed that are not allocated: they were freed before, or the adaptor did not "
             "allocate them";
    });
  }
  resource_adaptor::do_deallocate_any(pointer, right);
}

}  // namespace hipvmm::mr
