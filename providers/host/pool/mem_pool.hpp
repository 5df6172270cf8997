// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/descriptor.hpp"
#include "base/profile.hpp"
#include "memory/address_map.hpp"
#include "memory/device_memory.hpp"
#include "memory/device_places.hpp"
#include "pool/mem_pool_block.hpp"

namespace hipvmm::host_provider {

class race_checker;
class stream_owner;

inline constexpr std::string_view pool_file = "pool";

enum class pool_origin {
  device_default,  ///< the device's own, never destroyed
  created,
  imported,  ///< another process's: pointers of it can be imported
};

/// The reuse of memory whose free the allocating stream has not reached, and the bytes that a pool
/// keeps.
struct pool_policy {
  bool follow_events = true;
  bool opportunistic = true;
  bool internal_dependencies = true;
  std::uint64_t release_threshold = 0;
};

struct pool_usage {
  std::uint64_t reserved = 0;
  std::uint64_t reserved_high = 0;
  std::uint64_t own_high = 0;  // of the bytes of blocks, idle ones too, since reserved_high's reset
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
};

class pool_owner {
 public:
  /// Counts idle blocks, so that a synchronization costs nothing if no pool has any.
  virtual void note_idle(std::int64_t change) noexcept = 0;
  /// Ignores thresholds.
  virtual void release_idle(int device) = 0;
  /// Forgets destroyed pools whose last block has been freed.
  virtual void forget_done() noexcept = 0;

 protected:
  ~pool_owner() = default;
};

struct pool_support {
  const profile& rules;
  const device_places& places;
  address_map& addresses;
  stream_owner& streams;
  race_checker* checker;  // null unless HIPVMM_HOST_CHECK asks for it
};

/// A pool of the stream-ordered allocator, with lent and idle blocks. Thread-safe. Lives while its
/// handle does, and while blocks of it are held.
class mem_pool : public std::enable_shared_from_this<mem_pool> {
 public:
  /// `file` is empty for a pool that cannot be shared; `max_bytes` 0 is no limit.
  mem_pool(const pool_support& support, pool_owner& owner, device_memory& memory,
           pool_origin origin, int device, std::uint64_t max_bytes, descriptor file);

  [[nodiscard]] pool_origin origin() const noexcept { return origin_; }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] int file() const noexcept { return file_.get(); }
  /// Its own blocks are in its file, so that other processes may map them.
  [[nodiscard]] bool is_shareable() const noexcept {
    return origin_ == pool_origin::created && file_.get() >= 0;
  }
  /// The alignment of blocks in the file; its first page is not theirs.
  static std::size_t page_bytes() noexcept;

  /// Throws: failure with hipErrorOutOfMemory when neither the device nor the idle blocks have
  /// enough.
  address allocate(std::size_t bytes, stream_queue& queue);
  /// Takes a block back at this point of the stream, or at once without a stream. Throws: failure
  /// with hipErrorInvalidValue when nobody holds it.
  void take_back(const std::shared_ptr<pool_block>& block, stream_queue* freeing);
  /// Lends a block of the exporting process to an importer. `null` is the null stream of the pool's
  /// device.
  address borrow(std::size_t bytes, off_t offset, const std::shared_ptr<stream_queue>& null);

  /// Releases idle blocks whose free has been reached, small ones first, while the pool has more
  /// than `keep` bytes; the last one may leave it with less.
  void release(std::uint64_t keep) noexcept;
  void release_surplus() { release(policy().release_threshold); }
  /// For releases in which every export gives the same descriptor. The caller then owns it.
  int lasting_descriptor();
  /// The handle has ended: the pool keeps no idle memory any more.
  void abandon() noexcept;
  /// Abandoned, and no block is held.
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] std::uint64_t blocks_held() const;

  [[nodiscard]] pool_policy policy() const;
  template <class Change>
  void change_policy(Change&& change) {
    const std::lock_guard lock{mutex_};
    change(policy_);
  }
  [[nodiscard]] pool_usage usage() const;
  template <class Change>
  void change_usage(Change&& change) {
    const std::lock_guard lock{mutex_};
    change(usage_);
  }

  [[nodiscard]] const pool_rights& rights() const noexcept { return *rights_; }
  /// Writes them to the file too, for later importers.
  void change_rights(const access_change& change);

 private:
  struct idle_block {
    std::shared_ptr<pool_block> block;
    std::optional<position> freed;               // empty: no work may use it any more
    std::shared_ptr<stream_queue> trusted = {};  // gets it without a wait, by the profile

    [[nodiscard]] bool is_over() const noexcept { return !freed || freed->reached(); }
  };

  // Blocks move between the idle ones and their holders as nodes, so that all steps that need
  // memory are done before a block changes its holder.
  using idle_map = std::multimap<std::size_t, idle_block>;
  using idle_node = idle_map::node_type;

  [[nodiscard]] bool is_ready(const idle_block& idle, const stream_queue& queue,
                              bool opportunistic) const;
  void release_most() noexcept;
  [[nodiscard]] std::uint64_t idle_bytes() const noexcept;
  // Empty if there is no such block.
  idle_node take_ready(std::size_t bytes, const stream_queue& queue);
  idle_node take_pending(std::size_t bytes, const stream_queue& queue);
  idle_node take_new(std::size_t bytes);
  static idle_node node_for(std::size_t bytes);
  std::shared_ptr<pool_block> make_block(const block_pages& pages);
  void lend(pool_block& block, position begin, std::size_t bytes);
  void put_idle(idle_node idle) noexcept;
  /// Ends a reserved block that nobody has had.
  void discard(const pool_block& block) noexcept;
  void give_up(const pool_block& block) noexcept;
  /// The device memory that a pool takes for so many bytes of blocks.
  [[nodiscard]] std::uint64_t whole_growths(std::uint64_t bytes) const noexcept;
  // The caller holds the lock. It returns the result of unreserve() to the device when the memory
  // has ended.
  bool try_reserve(std::size_t bytes);
  std::uint64_t unreserve(std::size_t bytes) noexcept;
  off_t claim(std::size_t bytes);

  const pool_support support_;
  pool_owner& owner_;
  device_memory& memory_;
  const pool_origin origin_;
  const int device_;
  const std::uint64_t max_bytes_;
  const descriptor file_;
  const std::shared_ptr<pool_rights> rights_;

  mutable std::mutex mutex_;
  std::mutex releasing_;  // before mutex_
  pool_policy policy_;
  pool_usage usage_;
  std::uint64_t own_bytes_ = 0;  // of all blocks but borrowed ones
  idle_map idle_;
  std::uint64_t blocks_held_ = 0;
  off_t next_offset_;
  int lasting_descriptor_ = -1;
  bool abandoned_ = false;
};

/// `found` is a block of a pool.
void free_block(const tracked_range& found, stream_queue* freeing);

}  // namespace hipvmm::host_provider
