// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool_snapshot.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

struct pool_state;

/// A stream-ordered pool that suballocates large superblocks of another resource.
/// - Superblock size: the largest power of two up to an eighth of the memory held, but at least 8
///   MiB and at most 128 MiB; larger for larger requests, smaller if the limit or the upstream
///   leaves less.
/// - Differs from vmm_pool_resource: it works on any resource; superblocks neither merge nor move.
/// - Differs from RMM's: it allocates superblocks only when needed, and releases them by trim_to()
///   and before it refuses a request.
/// - Alignments above 256 bytes are unsupported.
/// - Any number of threads and streams may use it. The upstream is called without a lock, so it may
///   call back into the arena.
/// - The destructor waits for work that uses deallocated memory.
class arena_resource final : public resource_adaptor {
 public:
  /// The arena never holds more than `arena_size` bytes. Default: half of the free memory of the
  /// upstream's device or, if it has none, of the current device. With `dump_log_on_failure` each
  /// refused request also reports the arena's state to the error handler.
  /// Throws: std::invalid_argument for no bytes.
  explicit arena_resource(memory_resource* upstream,
                          std::optional<std::size_t> arena_size = std::nullopt,
                          bool dump_log_on_failure = false);
  ~arena_resource() override;

  /// Releases unused superblocks until `bytes_to_keep` bytes are held, and returns the bytes
  /// released. Waits at most until `deadline` for work that still uses free memory.
  std::size_t trim_to(std::size_t bytes_to_keep,
                      std::chrono::steady_clock::time_point deadline = {});

  /// As vmm_pool_resource's.
  void note_stream_wait(stream_ref waiter, stream_ref other);
  void forget_stream(stream_ref stream);

  /// `chunks_created` counts superblocks.
  [[nodiscard]] pool_statistics statistics() const;
  [[nodiscard]] std::string report() const;
  [[nodiscard]] std::size_t arena_size() const noexcept;
  [[nodiscard]] pool_snapshot snapshot() const;
  /// As memory_event::object.
  [[nodiscard]] std::uint64_t event_id() const noexcept;

 private:
  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override;

  /// Throws: unsupported in a child of fork().
  [[nodiscard]] pool_state& live() const;

  std::unique_ptr<pool_state> state_;
  bool dumps_;
};

}  // namespace hipvmm::mr
