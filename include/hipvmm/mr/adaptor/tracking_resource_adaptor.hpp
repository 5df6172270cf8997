// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Tracks outstanding allocations, with call stacks on request, to find leaks and wrong frees.
/// Reports to the error handler:
/// - memory deallocated with a wrong size; it is forwarded with the right one;
/// - memory that is not in the list; it is forwarded unchanged;
/// - when the adaptor ends, memory still allocated; it stays the upstream's.
/// Cost: a table by address, in parts with a lock each; some microseconds for a stack.
class tracking_resource_adaptor final : public resource_adaptor {
 public:
  struct allocation_info {
    std::size_t allocation_size;
    std::vector<const void*> strace;  ///< return addresses, the innermost first; empty by default
  };

  explicit tracking_resource_adaptor(memory_resource* upstream, bool capture_stacks = false);
  ~tracking_resource_adaptor() override;

  [[nodiscard]] std::map<const void*, allocation_info> get_outstanding_allocations() const;
  /// A line for each outstanding block and one for each call in its stack; empty when there are
  /// none. Cost: with stacks tenths of a second at first, to read names and lines.
  [[nodiscard]] std::string get_outstanding_allocations_str() const;
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept;
  /// Writes get_outstanding_allocations_str() to the debug log, as log_level::info.
  void log_outstanding_allocations() const;

 private:
  struct table;

  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;

  std::unique_ptr<table> table_;
};

}  // namespace hipvmm::mr
