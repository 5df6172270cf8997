// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/vmm/region.hpp>

namespace hipvmm {

/// What a growable vector does when it needs more than it reserved at construction.
enum class past_max_size {
  move,    ///< map the chunks into a larger reservation: data() may change, no byte is copied
  refuse,  ///< throw std::length_error: data() is the same for life, on hipMalloc from the first
           ///< growth on, which takes all of growth_options::max_bytes, to be named then
};

/// Memory that a background thread makes ready before a growable vector needs it, so that growth
/// costs its caller about a microsecond. It belongs to the vector, beside capacity(), until growth
/// takes it, shrink_to_fit gives it back or the vector dies. One chunk at a time.
struct grow_ahead_policy {
  ahead prepare = ahead::off;
  /// A growth that leaves fewer bytes than this unused has the next chunk made, unless one is ready
  /// or on its way. Zero: half of the budget. At most the budget.
  std::size_t watermark_bytes = 0;
  /// The chunk is made so large that this many bytes are unused then: should hold several of the
  /// program's growth steps. Zero: an eighth of what is backed, at most growth_options::step_limit,
  /// but no less than 256 MiB or a 64th of max_size(), whichever is less.
  std::size_t budget_bytes = 0;
};

/// How a growable vector reserves and grows. The defaults suit most programs.
struct growth_options {
  /// Addresses to reserve in bytes. Zero: the total memory of the device, or 64/n of it while n >
  /// 64 vectors are alive, so that thousands find addresses.
  std::size_t max_bytes = 0;
  past_max_size past_max = past_max_size::move;
  /// Most bytes a growth step adds beyond what was asked for; below it a step adds an eighth of
  /// what is backed. Zero makes every step exact. No limit while chunks cost file descriptors and
  /// the process has used half of its own (quirk::larger_chunks). On hipMalloc a step adds half of
  /// what is there whatever this says, unless it is zero.
  std::size_t step_limit = GiB;
  /// Every step is a multiple of this many bytes; zero: 2 MiB, or HIP's recommended granularity if
  /// that is more. Less saves memory for many small vectors where the minimum is 4 KiB (ROCm), and
  /// makes more chunks, each of which costs a file descriptor on ROCm 7.14.
  std::size_t granule_bytes = 0;
  /// What is made ready before it is needed; nothing by default.
  grow_ahead_policy grow_ahead = {};
  /// Kind and source of the chunks.
  region_options chunks = {};
};

/// What growth has done since construction.
struct growth_statistics {
  std::size_t growth_steps;    ///< times memory was added
  std::size_t base_moves;      ///< times data() changed: past max_size, on hipMalloc, by shrink()
  std::size_t chunks;          ///< chunks mapped now
  std::size_t peak_bytes;      ///< most bytes backed at one time, during copies old and new
  std::size_t ahead_bytes;     ///< bytes ready now beyond those backed
  std::size_t ahead_hits;      ///< growth steps that found all they needed ready
  std::size_t ahead_misses;    ///< growth steps that did not, though grow_ahead is on
  std::size_t ahead_failures;  ///< preparations that came to nothing; the next step made its own
  std::size_t copied_bytes;    ///< bytes copied to new addresses: on hipMalloc only
};

/// Bytes to back so that `needed_bytes` fit: exact, or `committed_bytes` and one part in `share` of
/// them, bounded by `step_limit`, whichever is more; in multiples of `granule` as far as
/// `max_bytes` allows. Pre: committed_bytes < needed_bytes <= max_bytes.
[[nodiscard]] std::size_t growth_target(std::size_t committed_bytes, std::size_t needed_bytes,
                                        std::size_t max_bytes, std::size_t granule,
                                        std::size_t step_limit, std::size_t share = 8);

/// Bytes to make ready behind `committed_bytes` of which `needed_bytes` are in use: zero while as
/// many as the watermark are unused, else what raises them to the budget, in multiples of `granule`
/// as far as `max_bytes` allows. Nothing for an empty vector.
/// Pre: needed_bytes <= committed_bytes <= max_bytes.
[[nodiscard]] std::size_t ahead_target(std::size_t committed_bytes, std::size_t needed_bytes,
                                       std::size_t max_bytes, std::size_t granule,
                                       std::size_t step_limit, const grow_ahead_policy& policy);

/// The untyped half of growable_device_vector: a region backed from its start, and the policy of
/// how much to add when. Sizes are bytes. Same thread rules as std::vector.
class growable_storage {
 public:
  /// Throws: std::invalid_argument for options that contradict themselves; as region.
  growable_storage(device_ref device, const growth_options& options);
  /// Gives the memory back as region::retire.
  ~growable_storage();
  /// The moved-from storage is empty and may be used again: it reserves anew when it next grows.
  growable_storage(growable_storage&& other) noexcept;
  growable_storage& operator=(growable_storage&& other) noexcept;

  /// Makes at least `bytes` backed, with the slack the options allow, and has the next chunk made
  /// ready as they say. Takes what is ready first and whole.
  /// Throws: std::length_error past the maximum when moving is refused; out_of_memory; unsupported;
  /// hip_error; on any exception nothing changed.
  void grow(std::size_t bytes);
  /// Makes at least `bytes` backed, in whole granules and without slack, but for a chunk that was
  /// ordered ahead: that is taken whole. Orders none itself. Throws: as grow.
  void reserve(std::size_t bytes);
  /// Throws: unsupported, naming both devices, where `source` is memory of another device that has
  /// no right to write here, and trait::peer_copies says that its engine would copy.
  void require_copies_from(const void* source) const;
  /// Gives back what lies behind the first `bytes` as region::trim does, but nothing on hipMalloc
  /// where past_max_size::refuse promises an address for life. Where quirk::renew_addresses is in
  /// force data() may change when nothing is left, or `straddling` says replace, unless past_max is
  /// refuse; growth_statistics::base_moves tells. Throws: as region::trim.
  void shrink(std::size_t bytes, stream_ref stream,
              straddling_chunk straddling = straddling_chunk::keep);

  /// As region::grant.
  void grant(device_ref device, access_right right);
  [[nodiscard]] access_right access(device_ref device) const noexcept;

  [[nodiscard]] void* data() const noexcept { return region_ ? region_->base() : nullptr; }
  [[nodiscard]] std::size_t capacity_bytes() const noexcept {
    return region_ ? region_->committed_bytes() : 0;
  }
  [[nodiscard]] std::size_t max_bytes() const noexcept {
    return region_ ? region_->max_bytes() : 0;
  }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] const growth_options& options() const noexcept { return options_; }
  [[nodiscard]] growth_statistics statistics() const noexcept;
  /// Whether data(), once there is an address, stays the same while memory is added within
  /// max_bytes(). False for a moved-from storage.
  [[nodiscard]] bool is_address_stable() const noexcept;
  /// A few lines for people: how the device's memory is used and why, the work-arounds in force,
  /// what is reserved and backed, and what that means for data(). Throws: as capability_of.
  [[nodiscard]] std::string explain() const;
  /// The same device, options and rights, nothing backed.
  [[nodiscard]] growable_storage empty_copy() const;

 private:
  [[nodiscard]] std::size_t exact_for(std::size_t bytes) const;
  [[nodiscard]] bool is_pinned() const noexcept;
  void require_room(std::size_t bytes);
  void add(std::size_t bytes);
  bool commit_more(std::size_t bytes, std::size_t share, std::size_t limit);
  void commit(std::size_t bytes);
  void commit_exactly(std::size_t bytes);
  void note_move(const void* before, std::size_t backed) noexcept;
  void move_to_hold(std::size_t bytes);
  void look_ahead(std::size_t bytes);
  [[nodiscard]] std::size_t step_limit() const;
  void give_back() noexcept;

  device_ref device_;
  growth_options options_;
  std::size_t granule_;
  bool chunks_cost_descriptors_;
  std::optional<region> region_;
  std::size_t growth_steps_ = 0;
  std::size_t base_moves_ = 0;
  std::size_t peak_bytes_ = 0;
  std::size_t ahead_hits_ = 0;
  std::size_t ahead_misses_ = 0;
  std::size_t copied_bytes_ = 0;
};

}  // namespace hipvmm
