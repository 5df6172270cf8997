// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

struct pool_state;

/// A stream-ordered pool in memory of another resource, which it takes in large superblocks: 8 MiB,
/// 32 MiB from 2 GiB held on, 128 MiB from 8 GiB on, larger for larger requests. Each stream and
/// thread has a cache of its own for small requests; the rest is served by best fit.
/// Differs from vmm_pool_resource in standing on any resource; superblocks neither join nor move.
/// Differs from RMM's in taking superblocks when they are needed, and in giving them back: when
/// told to, and before a request is refused. Alignments above 256 bytes are unsupported.
/// Any number of threads and streams may use it. The upstream is called outside all locks, so it
/// may call back into the arena. Its end waits for work that uses what was given back.
class arena_resource final : public resource_adaptor {
 public:
  /// At most `arena_size` bytes are ever held; by default half of what the upstream's device, or
  /// else the current one, has free now. What a refused request finds is told to the error handler
  /// too if `dump_log_on_failure`. Throws: std::invalid_argument for no upstream or no bytes.
  explicit arena_resource(memory_resource* upstream,
                          std::optional<std::size_t> arena_size = std::nullopt,
                          bool dump_log_on_failure = false);
  ~arena_resource() override;

  /// Gives superblocks whose last use is over back until `bytes_to_keep` are held, and returns the
  /// bytes that went. Waits until `deadline` at most for work that still uses what is free.
  std::size_t trim_to(std::size_t bytes_to_keep,
                      std::chrono::steady_clock::time_point deadline = {});

  /// As vmm_pool_resource's, for streams and events that are not hipvmm's own.
  void note_stream_wait(stream_ref waiter, stream_ref other);
  void forget_stream(stream_ref stream);

  /// `chunks_created` counts superblocks.
  [[nodiscard]] pool_statistics statistics() const;
  /// statistics() for people. Fits a screen.
  [[nodiscard]] std::string report() const;
  /// Most that is ever held, in bytes.
  [[nodiscard]] std::size_t arena_size() const noexcept;

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  std::unique_ptr<pool_state> state_;
  bool dumps_;
};

}  // namespace hipvmm::mr
