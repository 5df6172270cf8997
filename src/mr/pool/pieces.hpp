// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// Small requests, half of all in most programs, are served by caches of pieces: one for each stream
// and thread, so that a pair of calls touches nothing that others touch. To the books a piece is a
// used block, cached or not.
namespace hipvmm::mr::pool {

inline constexpr std::size_t piece_unit = 256;
/// Largest piece in bytes.
inline constexpr std::size_t largest_piece = 32768;
/// Sizes of pieces: every multiple of the unit up to 16 units, then eight for each doubling, so
/// that a piece is at most an eighth larger than what it holds.
inline constexpr std::size_t piece_class_count = 40;

struct piece_classes {
  std::array<std::uint8_t, largest_piece / piece_unit + 1> by_units{};  // smallest that holds them
  std::array<std::uint32_t, piece_class_count> bytes{};

  constexpr piece_classes() {
    std::size_t count = 0;
    std::size_t units = 0;
    std::size_t step = 1;
    while (units < by_units.size() - 1) {
      if (units >= 16 && (units & (units - 1)) == 0) step = units / 8;
      for (std::size_t i = 1; i <= step; ++i)
        by_units[units + i] = static_cast<std::uint8_t>(count);
      units += step;
      bytes[count++] = static_cast<std::uint32_t>(units * piece_unit);
    }
  }
  /// Pre: 0 < `wanted` <= largest_piece.
  [[nodiscard]] constexpr std::size_t of(std::size_t wanted) const noexcept {
    return by_units[(wanted + piece_unit - 1) / piece_unit];
  }
};
inline constexpr piece_classes classes;
static_assert(classes.bytes.back() == largest_piece);

/// Stands in the map for blocks larger than pieces.
inline constexpr std::size_t block_class = 126;

/// What is known of each piece by its offset, without a lock: its class, whether a caller or a
/// cache has it, and the user, the index of the ledger of the stream that took it or gave it back
/// last. Finds wrong sizes and what is given back twice.
class piece_map {
 public:
  /// No user: the stream is gone. More ledgers than this cannot be told apart.
  static constexpr std::size_t nobody = (std::size_t{1} << 24) - 1;

  explicit piece_map(std::size_t address_bytes)
      : stretches_{static_cast<std::atomic<mark*>*>(
            std::calloc(address_bytes / stretch + 1, sizeof(std::atomic<mark*>)))},
        count_{address_bytes / stretch + 1} {
    if (!stretches_) throw std::bad_alloc{};
  }
  ~piece_map() {
    for (std::size_t i = 0; i < count_; ++i) std::free(stretches_[i].load());
  }
  piece_map(const piece_map&) = delete;
  piece_map& operator=(const piece_map&) = delete;

  /// Makes note of a piece that was none before. Throws: std::bad_alloc.
  void add(std::size_t offset, std::size_t class_index, std::size_t user, bool cached);
  /// Takes it for the caller, or for a cache; false, nothing changed, when nobody else had it.
  [[nodiscard]] bool to_caller(std::size_t offset, std::size_t class_index,
                               std::size_t user) noexcept {
    return change(offset, is_cached | (class_index + 1), (user << 8) | (class_index + 1));
  }
  [[nodiscard]] bool to_cache(std::size_t offset, std::size_t class_index,
                              std::size_t user) noexcept {
    return change(offset, class_index + 1, (user << 8) | is_cached | (class_index + 1));
  }
  void remove(std::size_t offset) noexcept { at(offset)->store(0, std::memory_order_relaxed); }

  [[nodiscard]] bool is_piece(std::size_t offset) const noexcept { return value(offset) != 0; }
  [[nodiscard]] bool is_in_cache(std::size_t offset) const noexcept {
    return (value(offset) & is_cached) != 0;
  }
  /// Whose stream a caller took it in. Pre: it is a piece.
  [[nodiscard]] std::size_t user_of(std::size_t offset) const noexcept {
    return value(offset) >> 8;
  }
  /// Whose cache has it; nobody's when none has.
  [[nodiscard]] std::size_t cached_by(std::size_t offset) const noexcept {
    const std::size_t known = value(offset);
    return (known & is_cached) != 0 ? known >> 8 : nobody;
  }
  /// `user` can no longer be told: if it has the piece, nobody has.
  void disown(std::size_t offset, std::size_t user) noexcept {
    std::uint32_t known = static_cast<std::uint32_t>(value(offset));
    // A thread that gives it back at this moment has the last word.
    if (known != 0 && known >> 8 == user)
      at(offset)->compare_exchange_strong(known,
                                          static_cast<std::uint32_t>(nobody << 8) | (known & 0xFF));
  }

 private:
  using mark = std::atomic<std::uint32_t>;
  // Of so many marks that the system gives them as pages, which cost nothing while untouched.
  static constexpr std::size_t stretch = std::size_t{1} << 25;
  static constexpr std::size_t is_cached = 0x80;

  [[nodiscard]] mark* at(std::size_t offset) const noexcept {
    mark* const marks = stretches_[offset / stretch].load(std::memory_order_acquire);
    return marks == nullptr ? nullptr : marks + place_of(offset % stretch / piece_unit);
  }
  /// Where the mark of a piece lies among those of its stretch. Threads work on pieces side by
  /// side, whose marks must not lie in one cache line: next to each other are those of pieces some
  /// 2 MiB apart.
  [[nodiscard]] static constexpr std::size_t place_of(std::size_t index) noexcept {
    constexpr std::size_t marks_per_line = 64 / sizeof(mark);
    return index * (marks_per_line + 1) % (stretch / piece_unit);
  }
  [[nodiscard]] std::size_t value(std::size_t offset) const noexcept {
    const mark* const one = at(offset);
    return one == nullptr || offset % piece_unit != 0 ? 0 : one->load(std::memory_order_relaxed);
  }
  // Two threads that give the same piece back at the same time break a rule; no later state hides
  // it.
  bool change(std::size_t offset, std::size_t from, std::size_t to) noexcept {
    if ((value(offset) & 0xFF) != from) return false;
    at(offset)->store(static_cast<std::uint32_t>(to), std::memory_order_relaxed);
    return true;
  }
  struct free_memory {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  // Most addresses hold no pieces.
  std::unique_ptr<std::atomic<mark*>[], free_memory> stretches_;
  std::size_t count_;
};

/// The pieces that one stream gave back in one thread, or in the threads that share a place; and of
/// the larger blocks that were handed out there last, the one that came back last.
class piece_cache {
 public:
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

  piece_cache();

  /// Offset of a piece, the one that came last; npos when there is none.
  [[nodiscard]] std::size_t pop(std::size_t class_index) noexcept;
  /// Adds a piece; false when there is no room.
  [[nodiscard]] bool push(std::size_t class_index, std::size_t offset) noexcept;
  /// Takes out up to `count` pieces, those that came first, and returns how many.
  std::size_t take(std::size_t class_index, std::size_t* offsets, std::size_t count) noexcept;
  /// Takes out all pieces of the first class that has any, from `class_index` on, which becomes
  /// that class, and returns how many; at most `most`. 0 when there is none.
  std::size_t take_next(std::size_t& class_index, std::size_t* offsets) noexcept;

  /// A larger block.
  struct block_at {
    std::size_t offset = npos;
    std::size_t bytes = 0;
  };
  /// Offset of a block of exactly `bytes` bytes that came back; npos when there is none.
  [[nodiscard]] std::size_t pop_block(std::size_t bytes) noexcept;
  /// A block was handed out: it may come back.
  void remember(block_at one) noexcept;
  /// Whether it was remembered; then it is here now, and `evicted` is the one that was before: more
  /// of them would be missing where the best fit is looked for.
  [[nodiscard]] bool push_block(block_at one, block_at& evicted) noexcept;
  /// Takes a block out that came back; its offset is npos when there is none.
  [[nodiscard]] block_at take_block() noexcept;
  /// Pieces of a class that are cached at most: 64 KiB of them, but at least 4 and at most 64.
  static constexpr std::size_t capacity(std::size_t class_index) noexcept {
    const std::size_t fit = 65536 / classes.bytes[class_index];
    return fit < 4 ? 4 : fit > most ? most : fit;
  }
  static constexpr std::size_t most = 64;

 private:
  /// Held for a few instructions and next to never contended.
  class spin_lock {
   public:
    void lock() noexcept {
      while (taken_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() noexcept { taken_.clear(std::memory_order_release); }

   private:
    std::atomic_flag taken_{};
  };

  spin_lock lock_;
  std::array<std::uint32_t, piece_class_count> first_{};  // of a class, in `slots_`
  std::array<std::uint32_t, piece_class_count> sizes_{};
  std::vector<std::size_t> slots_;
  std::array<block_at, 4> blocks_;  // handed out
  std::size_t oldest_block_ = 0;
  block_at here_;
};

}  // namespace hipvmm::mr::pool
