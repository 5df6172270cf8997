// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hipvmm/mr/adaptor/guard_options.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Finds writes outside of blocks and to freed blocks, for debugging.
/// - Each block stands between canaries. A deallocation copies them to the host, in the order of
///   the stream, to compare them later.
/// - New blocks are filled with `fresh`, freed ones with `freed`. The last freed blocks, up to
///   guard_options::quarantine_bytes, are kept. They are compared when they return to the upstream:
///   all of them before a request is refused for lack of memory.
/// - A report names the block, the offset of the first wrong byte, and the calls that allocated and
///   freed it. A write that leaves a byte as it was is not found.
/// - Also reported: memory that is freed twice, with a wrong size or that is not the adaptor's, and
///   blocks that are still allocated when it ends; these stay the upstream's.
/// - A deallocation that exceeds the quarantine waits for the oldest block in it, and
///   deallocate_sync() for all devices.
/// - A deallocation in a stream that is captured is forwarded without a check.
/// Cost: two copies and four fills for each block, its alignment and two canaries of memory.
class guard_resource_adaptor final : public resource_adaptor {
 public:
  static constexpr unsigned char canary = guard_patterns::canary;
  static constexpr unsigned char fresh = guard_patterns::fresh;
  static constexpr unsigned char freed = guard_patterns::freed;

  /// Throws: std::invalid_argument when there are no canaries; hip_error.
  explicit guard_resource_adaptor(memory_resource* upstream, const guard_options& options = {});
  /// As flush(), but damage goes to the error handler with guard_damage::throws too.
  ~guard_resource_adaptor() override;

  /// Waits for the deallocations so far, checks all freed blocks and returns them to the upstream.
  /// Throws: std::logic_error for damage if guard_options say so.
  void flush();
  [[nodiscard]] std::uint64_t damages() const noexcept;
  /// Bytes of freed blocks that are kept now, with canaries and alignment.
  [[nodiscard]] std::size_t quarantined_bytes() const noexcept;

 private:
  class state;

  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override;

  std::unique_ptr<state> state_;
};

}  // namespace hipvmm::mr
