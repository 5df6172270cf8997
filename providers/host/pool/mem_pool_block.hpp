// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "memory/address_map.hpp"
#include "stream/stream_queue.hpp"

namespace hipvmm::host_provider {

class mem_pool;

/// The devices that may use a pool's memory. The pool and all of its blocks share it, so that a
/// change reaches blocks in use.
struct pool_rights {
  std::atomic<device_set> readers;
  std::atomic<device_set> writers;
  /// Devices that ever had a right, and may still use the memory if a release only notes a revoked
  /// right; none if rights are enforced.
  std::atomic<device_set> opened{0};
};

struct block_pages {
  std::size_t bytes;
  off_t offset;   ///< in the pool's file, of a pool that has one
  bool borrowed;  ///< of the process that exported the pointer: not charged here, nor used again
};

/// Memory of a pool that is lent as a whole, to one holder after the other. It may be used from the
/// point of its allocation in a stream to the point of its free. Thread-safe.
class pool_block final : public tenancy {
 public:
  pool_block(std::weak_ptr<mem_pool> pool, std::shared_ptr<const pool_rights> rights,
             const block_pages& pages) noexcept
      : pool_{std::move(pool)}, rights_{std::move(rights)}, pages_{pages} {}

  /// Not null while the block is held.
  [[nodiscard]] std::shared_ptr<mem_pool> pool() const noexcept { return pool_.lock(); }
  [[nodiscard]] const block_pages& pages() const noexcept { return pages_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return pages_.bytes; }
  [[nodiscard]] address start() const noexcept { return start_; }
  void placed_at(address start) noexcept { start_ = start; }

  /// Lends the first `bytes` from position `from` on.
  void lend(position from, std::size_t bytes);
  /// False when nobody holds the block, as after an earlier free.
  bool claim_back() noexcept;
  void restore_claim() noexcept;
  /// The stream of the last loan.
  [[nodiscard]] std::shared_ptr<stream_queue> lent_in() const;
  /// Waits for the ends of all loans but the last.
  void wait_for_earlier_free() const;
  /// The memory may be used until the stream has reached `until`, or no more if that is empty.
  void close_at(const std::optional<position>& until);

  [[nodiscard]] std::size_t bytes_held() const override;
  [[nodiscard]] std::size_t bytes_reached() const override;
  [[nodiscard]] device_set devices_with(right needed) const override;

 private:
  struct loan {
    position from;
    std::optional<position> until;
    std::size_t bytes;
  };

  const std::weak_ptr<mem_pool> pool_;
  const std::shared_ptr<const pool_rights> rights_;
  const block_pages pages_;
  address start_ = 0;

  mutable std::mutex mutex_;
  // The last one is the holder's; those before it end in positions that streams have yet to reach.
  std::vector<loan> loans_;
  bool held_ = false;
};

}  // namespace hipvmm::host_provider
