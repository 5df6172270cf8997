// SPDX-License-Identifier: MIT
#include <hipvmm/mr/tracking_resource_adaptor.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/call_stack.hpp"
#include "core/check.hpp"
#include "core/log.hpp"

namespace hipvmm::mr {
namespace {

constexpr const char* adaptor_name = "tracking_resource_adaptor";

/// Tells of a use that is wrong. Pre: no lock is held.
template <typename Sentence>
void warn_of(Sentence sentence) noexcept {
  detail::report_exceptions([&] { detail::warn(adaptor_name, sentence()); });
}

}  // namespace

/// What is handed out, in parts so that threads seldom want the same lock.
struct tracking_resource_adaptor::table {
  using list = std::unordered_map<const void*, allocation_info>;
  struct alignas(64) part {
    mutable std::mutex mutex;
    list blocks;
  };

  const bool with_stacks;
  std::array<part, 16> parts;
  std::atomic<std::size_t> bytes{0};

  [[nodiscard]] part& part_of(const void* pointer) noexcept {
    // Blocks begin at multiples of 256, and large ones at multiples of much more.
    const std::uint64_t mixed =
        (reinterpret_cast<std::uintptr_t>(pointer) >> 8) * 0x9e3779b97f4a7c15U;
    return parts[mixed >> 60];
  }

  /// A block to be put in, made before the upstream is asked, so that nothing can fail behind it
  /// but the table's own growth.
  template <typename Allocate, typename GiveBack>
  void* allocation(std::size_t size, Allocate allocate, GiveBack give_back) {
    list made;
    made[nullptr] = {size, with_stacks ? detail::call_stack() : std::vector<const void*>{}};
    list::node_type node = made.extract(nullptr);
    void* const pointer = allocate();
    node.key() = pointer;
    std::size_t forgotten = 0;
    try {
      forgotten = put(std::move(node));
    } catch (...) {
      give_back(pointer);
      throw;
    }
    bytes += size;
    bytes -= forgotten;
    if (forgotten != 0)
      warn_of([&] {
        return "the upstream gave " + detail::address_text(pointer) + " again, of which " +
               format_bytes(forgotten) +
               " are out: they went back past the adaptor; free what it gave by it";
      });
    return pointer;
  }

  /// The bytes to give back to the upstream for what comes back as `size`.
  std::size_t take(const void* pointer, std::size_t size) noexcept {
    list::node_type node;
    {
      part& in = part_of(pointer);
      const std::lock_guard lock{in.mutex};
      node = in.blocks.extract(pointer);
    }
    if (node.empty()) {
      warn_of([&] {
        return std::to_string(size) + " bytes at " + detail::address_text(pointer) +
               " come back that are not out: they came back before, or are from elsewhere";
      });
      return size;
    }
    const std::size_t right = node.mapped().allocation_size;
    bytes -= right;
    if (right != size)
      warn_of([&] {
        return std::to_string(size) + " bytes come back at " + detail::address_text(pointer) +
               ", where " + std::to_string(right) + " were allocated; these are given back";
      });
    return right;
  }

 private:
  /// Returns how many bytes were out under that address, which no more are.
  std::size_t put(list::node_type node) {
    part& in = part_of(node.key());
    const std::lock_guard lock{in.mutex};
    auto done = in.blocks.insert(std::move(node));
    if (done.inserted) return 0;
    std::swap(done.position->second, done.node.mapped());
    return done.node.mapped().allocation_size;
  }
};

tracking_resource_adaptor::tracking_resource_adaptor(memory_resource* upstream, bool capture_stacks)
    : resource_adaptor{adaptor_name, upstream}, table_{new table{capture_stacks, {}, {}}} {}

tracking_resource_adaptor::~tracking_resource_adaptor() {
  std::size_t count = 0;
  for (const auto& each : table_->parts) count += each.blocks.size();
  if (count == 0) return;
  warn_of([&] {
    return "it ends with " + format_bytes(get_allocated_bytes()) + " still out, in " +
           std::to_string(count) + (count == 1 ? " allocation:\n" : " allocations:\n") +
           get_outstanding_allocations_str();
  });
}

std::map<const void*, tracking_resource_adaptor::allocation_info>
tracking_resource_adaptor::get_outstanding_allocations() const {
  std::map<const void*, allocation_info> result;
  for (const auto& each : table_->parts) {
    const std::lock_guard lock{each.mutex};
    result.insert(each.blocks.begin(), each.blocks.end());
  }
  return result;
}

std::string tracking_resource_adaptor::get_outstanding_allocations_str() const {
  std::string text;
  for (const auto& [pointer, block] : get_outstanding_allocations())
    text += detail::address_text(pointer) + ": " + std::to_string(block.allocation_size) + " B\n" +
            detail::text_of_stack(block.strace, {"hipvmm::mr::tracking_resource_adaptor::",
                                                 "hipvmm::mr::memory_resource::"});
  return text;
}

std::size_t tracking_resource_adaptor::get_allocated_bytes() const noexcept {
  return table_->bytes;
}

void tracking_resource_adaptor::log_outstanding_allocations() const {
  detail::log<log_level::info>(
      [this] { return "outstanding allocations:\n" + get_outstanding_allocations_str(); });
}

void* tracking_resource_adaptor::do_allocate(stream_ref stream, std::size_t bytes,
                                             std::size_t alignment) {
  return table_->allocation(
      bytes, [&] { return resource_adaptor::do_allocate(stream, bytes, alignment); },
      [&](void* pointer) { resource_adaptor::do_deallocate(stream, pointer, bytes, alignment); });
}

void tracking_resource_adaptor::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                              std::size_t alignment) noexcept {
  resource_adaptor::do_deallocate(stream, pointer, table_->take(pointer, bytes), alignment);
}

void* tracking_resource_adaptor::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return table_->allocation(
      bytes, [&] { return resource_adaptor::do_allocate_sync(bytes, alignment); },
      [&](void* pointer) { resource_adaptor::do_deallocate_sync(pointer, bytes, alignment); });
}

void tracking_resource_adaptor::do_deallocate_sync(void* pointer, std::size_t bytes,
                                                   std::size_t alignment) noexcept {
  resource_adaptor::do_deallocate_sync(pointer, table_->take(pointer, bytes), alignment);
}

}  // namespace hipvmm::mr
