// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Passes everything to its upstream and keeps a list of what is handed out, with call stacks if
/// wished for: for finding leaks and wrong frees. The error handler is told of memory that comes
/// back with another size, which goes to the upstream with the right one; of memory that is not in
/// the list, which goes to the upstream as it is; and, when the adaptor ends, of what is still out,
/// which stays the upstream's.
/// Cost: a table by address, in parts that have locks of their own; a stack is some microseconds.
class tracking_resource_adaptor final : public resource_adaptor {
 public:
  /// A block that is handed out.
  struct allocation_info {
    std::size_t allocation_size;  ///< in bytes
    std::vector<const void*>
        strace;  ///< return addresses, the innermost first; empty unless wished
  };

  /// Throws: std::invalid_argument when `upstream` is nullptr.
  explicit tracking_resource_adaptor(memory_resource* upstream, bool capture_stacks = false);
  /// Tells the error handler of all that is still out, once.
  ~tracking_resource_adaptor() override;

  /// What is handed out at this moment, by address.
  [[nodiscard]] std::map<const void*, allocation_info> get_outstanding_allocations() const;
  /// The same in words, a line for each block and one for each call in its stack; empty when
  /// nothing is out. Cost: with stacks tenths of a second at first, to read names and lines.
  [[nodiscard]] std::string get_outstanding_allocations_str() const;
  /// Bytes handed out.
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept;
  /// Writes get_outstanding_allocations_str() to the debug log, as log_level::info.
  void log_outstanding_allocations() const;

 private:
  struct table;

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  std::unique_ptr<table> table_;
};

}  // namespace hipvmm::mr
