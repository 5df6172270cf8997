// SPDX-License-Identifier: MIT
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

// Caches of small blocks by stream and thread. To the block index a cached block is used.
namespace hipvmm::mr::pool {

inline constexpr std::size_t small_block_unit = 256;
inline constexpr std::size_t largest_small_block = 32768;
/// Each multiple of the unit up to 16, then eight sizes for each doubling, so that a block of more
/// than 8 units is at most an eighth larger than its request.
inline constexpr std::size_t size_class_count = 40;

struct size_classes {
  std::array<std::uint8_t, largest_small_block / small_block_unit + 1>
      by_units{};  // the smallest class that holds so many units
  std::array<std::uint32_t, size_class_count> bytes{};

  constexpr size_classes() {
    std::size_t count = 0;
    std::size_t units = 0;
    std::size_t step = 1;
    while (units < by_units.size() - 1) {
      if (units >= 16 && (units & (units - 1)) == 0) step = units / 8;
      for (std::size_t i = 1; i <= step; ++i)
        by_units[units + i] = static_cast<std::uint8_t>(count);
      units += step;
      bytes[count++] = static_cast<std::uint32_t>(units * small_block_unit);
    }
  }
  /// Pre: 0 < `wanted` <= largest_small_block.
  [[nodiscard]] constexpr std::size_t of(std::size_t wanted) const noexcept {
    return by_units[(wanted + small_block_unit - 1) / small_block_unit];
  }
  /// The largest request that fits into `free` bytes.
  [[nodiscard]] constexpr std::size_t largest_in(std::size_t free) const noexcept {
    if (free < small_block_unit || free >= largest_small_block) return free;
    const std::size_t up = of(free);
    return bytes[up] <= free ? bytes[up] : bytes[up - 1];
  }
};
inline constexpr size_classes classes;
static_assert(classes.bytes.back() == largest_small_block);

/// The class of all larger blocks.
inline constexpr std::size_t block_class = 126;

/// Zeroed memory that costs only the pages that were written.
template <typename Element>
class sparse_array {
 public:
  sparse_array() = default;
  /// Throws: std::bad_alloc.
  explicit sparse_array(std::size_t count) : count_{count} {
    void* const made = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc{};
    // With huge pages the first write would clear 2 MiB.
    static_cast<void>(::madvise(made, bytes(), MADV_NOHUGEPAGE));
    elements_ = static_cast<Element*>(made);
  }
  ~sparse_array() { free(elements_, count_); }
  sparse_array& operator=(sparse_array&&) = delete;

  [[nodiscard]] Element* get() const noexcept { return elements_; }
  [[nodiscard]] Element& operator[](std::size_t i) const noexcept { return elements_[i]; }
  /// To be passed to free() with the same count.
  [[nodiscard]] Element* release() noexcept { return std::exchange(elements_, nullptr); }
  static void free(Element* elements, std::size_t count) noexcept {
    if (elements != nullptr) ::munmap(elements, count * sizeof(Element));
  }

 private:
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(Element); }
  Element* elements_ = nullptr;
  std::size_t count_ = 0;
};

/// The state of small blocks, and of larger ones that caches may have, by offset; lock-free.
/// Detects double frees and wrong sizes, except the size of an earlier larger block at that offset
/// that the thread's cache remembers.
class block_map {
 public:
  /// No stream: for an offset without an entry, and for all streams after so many.
  static constexpr std::size_t nobody = (std::size_t{1} << 23) - 1;

  /// Throws: std::bad_alloc.
  explicit block_map(std::size_t address_bytes)
      : count_{address_bytes / stretch + 1}, stretches_{count_} {}
  ~block_map() {
    for (std::size_t i = 0; i < count_; ++i)
      sparse_array<entry>::free(stretches_[i].load(), entries_per_stretch);
  }
  block_map& operator=(block_map&&) = delete;

  /// Throws: std::bad_alloc.
  void add(std::size_t offset, std::size_t class_index, std::size_t user, bool cached) {
    std::atomic<entry*>& stretch_at = stretches_[offset / stretch];
    if (stretch_at.load(std::memory_order_acquire) == nullptr) {
      sparse_array<entry> made{entries_per_stretch};
      entry* none = nullptr;
      if (stretch_at.compare_exchange_strong(none, made.get())) static_cast<void>(made.release());
    }
    place_for(offset, class_index)
        ->store(word(offset, class_index, user, cached), std::memory_order_relaxed);
  }
  /// Returns false, with nothing done, unless the other side has a block of that class.
  [[nodiscard]] bool to_caller(std::size_t offset, std::size_t class_index,
                               std::size_t user) noexcept {
    return change(offset, class_index, user, false);
  }
  [[nodiscard]] bool to_cache(std::size_t offset, std::size_t class_index,
                              std::size_t user) noexcept {
    return change(offset, class_index, user, true);
  }
  void remove(std::size_t offset) noexcept {
    entry* const one = entry_at(offset);
    if (one != nullptr) one->store(0, std::memory_order_relaxed);
  }

  [[nodiscard]] bool is_small_block(std::size_t offset) const noexcept {
    return entry_at(offset) != nullptr;
  }
  [[nodiscard]] bool is_in_cache(std::size_t offset) const noexcept {
    return (word_at(offset) & is_cached) != 0;
  }
  /// The last user; nobody if there is no entry.
  [[nodiscard]] std::size_t user_of(std::size_t offset) const noexcept {
    return word_at(offset) >> user_shift;
  }

 private:
  using entry = std::atomic<std::uint32_t>;
  /// The low bits: the class of a small block, or where in its 32 KiB the larger block begins.
  static constexpr unsigned user_shift = 9;
  static constexpr std::uint32_t is_cached = 0x100;
  static constexpr std::uint32_t is_there = 0x80;
  static constexpr std::size_t stretch = std::size_t{1} << 28;
  static constexpr std::size_t blocks_per_stretch = stretch / largest_small_block;
  static constexpr std::size_t entries_per_stretch =
      stretch / small_block_unit + blocks_per_stretch;
  static_assert(largest_small_block / small_block_unit <= is_there && size_class_count <= is_there);

  [[nodiscard]] static std::uint32_t low_bits(std::size_t offset,
                                              std::size_t class_index) noexcept {
    return is_there |
           static_cast<std::uint32_t>(class_index == block_class
                                          ? offset % largest_small_block / small_block_unit
                                          : class_index);
  }
  [[nodiscard]] static std::uint32_t word(std::size_t offset, std::size_t class_index,
                                          std::size_t user, bool cached) noexcept {
    return static_cast<std::uint32_t>(user << user_shift) | (cached ? is_cached : 0) |
           low_bits(offset, class_index);
  }
  /// Larger blocks' entries are dense, because adjacent ones are rarely of two threads.
  [[nodiscard]] static entry* place_in(entry* entries, std::size_t offset,
                                       bool is_larger) noexcept {
    if (is_larger) return entries + offset % stretch / largest_small_block;
    return entries + blocks_per_stretch + place_of(offset % stretch / small_block_unit);
  }
  /// nullptr if there never was an entry in that stretch.
  [[nodiscard]] entry* place_for(std::size_t offset, std::size_t class_index) const noexcept {
    entry* const entries = stretches_[offset / stretch].load(std::memory_order_acquire);
    return entries == nullptr ? nullptr : place_in(entries, offset, class_index == block_class);
  }
  /// nullptr if no block begins there.
  [[nodiscard]] entry* entry_at(std::size_t offset) const noexcept {
    if (offset % small_block_unit != 0) return nullptr;
    entry* const entries = stretches_[offset / stretch].load(std::memory_order_acquire);
    if (entries == nullptr) return nullptr;
    entry* const block = place_in(entries, offset, true);
    if ((block->load(std::memory_order_relaxed) & 0xFF) == low_bits(offset, block_class))
      return block;
    entry* const small = place_in(entries, offset, false);
    return small->load(std::memory_order_relaxed) != 0 ? small : nullptr;
  }
  /// An entry of nobody if no block begins there.
  [[nodiscard]] std::uint32_t word_at(std::size_t offset) const noexcept {
    const entry* const one = entry_at(offset);
    if (one == nullptr) return nobody << user_shift;
    return one->load(std::memory_order_relaxed);
  }
  /// Puts adjacent entries into other cache lines, because threads share small blocks, but into one
  /// page, because the first use of a page costs more than a request.
  [[nodiscard]] static constexpr std::size_t place_of(std::size_t index) noexcept {
    constexpr std::size_t entries_per_line = 64 / sizeof(entry);
    constexpr std::size_t entries_per_page = 4096 / sizeof(entry);
    const std::size_t in_page = index * (entries_per_line + 1) % entries_per_page;
    return index / entries_per_page * entries_per_page + in_page;
  }
  // No compare-exchange: only an erroneous second free at the same time would need it.
  bool change(std::size_t offset, std::size_t class_index, std::size_t user, bool cached) noexcept {
    if (offset % small_block_unit != 0) return false;
    entry* const one = place_for(offset, class_index);
    if (one == nullptr) return false;
    const std::uint32_t before = one->load(std::memory_order_relaxed);
    constexpr std::uint32_t all_low_bits = (1U << user_shift) - 1;
    if ((before & all_low_bits) != word(offset, class_index, 0, !cached)) return false;
    one->store(word(offset, class_index, user, cached), std::memory_order_relaxed);
    return true;
  }

  std::size_t count_;
  // The first block in a stretch makes its entries, because most stretches have none.
  sparse_array<std::atomic<entry*>> stretches_;
};

/// Blocks freed in one stream by some threads: small ones, and one larger block, the last freed of
/// the four that were last allocated here.
class thread_cache {
 public:
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

  /// The newest; npos if there is none.
  [[nodiscard]] std::size_t pop(std::size_t class_index) noexcept {
    const std::lock_guard lock{lock_};
    std::uint32_t& size = sizes_[class_index];
    return size == 0 ? npos : slots_[places.first[class_index] + --size];
  }
  [[nodiscard]] bool push(std::size_t class_index, std::size_t offset) noexcept {
    const std::lock_guard lock{lock_};
    std::uint32_t& size = sizes_[class_index];
    if (size == capacity(class_index)) return false;
    slots_[places.first[class_index] + size++] = offset;
    filled_ |= std::uint64_t{1} << class_index;
    return true;
  }
  /// Removes up to `count`, the oldest first, and returns how many.
  std::size_t take(std::size_t class_index, std::size_t* offsets, std::size_t count) noexcept {
    const std::lock_guard lock{lock_};
    std::uint32_t& size = sizes_[class_index];
    const std::size_t taken = std::min<std::size_t>(count, size);
    std::size_t* const begin = slots_.data() + places.first[class_index];
    std::copy_n(begin, taken, offsets);
    std::copy(begin + taken, begin + size, begin);
    size -= static_cast<std::uint32_t>(taken);
    return taken;
  }
  /// Removes all blocks of the first class from `class_index` on that has any, sets `class_index`
  /// to it, and returns how many, at most `most`.
  std::size_t take_next(std::size_t& class_index, std::size_t* offsets) noexcept {
    const std::lock_guard lock{lock_};
    while (const std::uint64_t left = filled_ >> class_index) {
      class_index += static_cast<std::size_t>(std::countr_zero(left));
      filled_ &= ~(std::uint64_t{1} << class_index);
      const std::size_t taken = std::exchange(sizes_[class_index], 0);
      if (taken == 0) continue;
      std::copy_n(slots_.data() + places.first[class_index], taken, offsets);
      return taken;
    }
    class_index = size_class_count;
    return 0;
  }
  /// May be false after all small blocks were popped.
  [[nodiscard]] bool is_empty() noexcept {
    const std::lock_guard lock{lock_};
    return filled_ == 0 && cached_block_.bytes == 0;
  }

  struct block_at {
    std::size_t offset = npos;
    std::size_t bytes = 0;
  };
  /// Removes the larger block if it has that size; otherwise npos.
  [[nodiscard]] std::size_t pop_block(std::size_t bytes) noexcept {
    const std::lock_guard lock{lock_};
    if (cached_block_.bytes != bytes) return npos;
    const std::size_t offset = cached_block_.offset;
    recent_blocks_[oldest_recent_] = cached_block_;
    oldest_recent_ = (oldest_recent_ + 1) % recent_blocks_.size();
    cached_block_ = {};
    return offset;
  }
  void remember(block_at one) noexcept {
    const std::lock_guard lock{lock_};
    recent_blocks_[oldest_recent_] = one;
    oldest_recent_ = (oldest_recent_ + 1) % recent_blocks_.size();
  }
  /// Caches `one` and returns true if it was remembered. Increments `blocks_in_transit` if it sets
  /// `evicted`. Only one is kept, because the best fit does not see it.
  [[nodiscard]] bool push_block(block_at one, block_at& evicted,
                                std::atomic<int>* blocks_in_transit = nullptr) noexcept {
    const std::lock_guard lock{lock_};
    for (block_at& each : recent_blocks_) {
      if (each.offset != one.offset || each.bytes != one.bytes) continue;
      each = {};
      evicted = cached_block_;
      if (evicted.bytes != 0 && blocks_in_transit != nullptr) ++*blocks_in_transit;
      cached_block_ = one;
      return true;
    }
    return false;
  }
  template <typename Visit>
  void for_each(Visit visit) {
    const std::lock_guard lock{lock_};
    for (std::size_t i = 0; i < size_class_count; ++i)
      for (std::uint32_t at = 0; at < sizes_[i]; ++at) visit(slots_[places.first[i] + at]);
    if (cached_block_.bytes != 0) visit(cached_block_.offset);
  }
  /// Increments `blocks_in_transit` if there is a block.
  [[nodiscard]] block_at take_block(std::atomic<int>* blocks_in_transit = nullptr) noexcept {
    const std::lock_guard lock{lock_};
    if (cached_block_.bytes != 0 && blocks_in_transit != nullptr) ++*blocks_in_transit;
    return std::exchange(cached_block_, {});
  }
  /// Small blocks of a class: 64 KiB, but at least 4 blocks and at most 64.
  static constexpr std::size_t capacity(std::size_t class_index) noexcept {
    return places.capacity[class_index];
  }
  static constexpr std::size_t most = 64;

 private:
  /// Held for a few instructions and almost never contended.
  class spin_lock {
   public:
    void lock() noexcept {
      while (taken_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() noexcept { taken_.clear(std::memory_order_release); }

   private:
    std::atomic_flag taken_{};
  };

  /// A table, because a division would cost more than the rest of a call.
  struct class_places {
    std::array<std::uint32_t, size_class_count> capacity{};
    std::array<std::uint32_t, size_class_count> first{};
    std::uint32_t total = 0;

    constexpr class_places() {
      for (std::size_t i = 0; i < size_class_count; ++i) {
        const std::uint32_t fit = 65536 / classes.bytes[i];
        capacity[i] = fit < 4 ? 4 : fit > most ? most : fit;
        first[i] = total;
        total += capacity[i];
      }
    }
  };
  static const class_places places;

  spin_lock lock_;
  std::array<std::uint32_t, size_class_count> sizes_{};
  static_assert(size_class_count < 64);
  // A bit for each class that may have blocks, so that a miss visits only these.
  std::uint64_t filled_ = 0;
  std::vector<std::size_t> slots_ = std::vector<std::size_t>(places.total);
  std::array<block_at, 4> recent_blocks_;
  std::size_t oldest_recent_ = 0;
  block_at cached_block_;
};

inline constexpr thread_cache::class_places thread_cache::places;

}  // namespace hipvmm::mr::pool
