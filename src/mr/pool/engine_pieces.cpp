// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <vector>

#include "mr/pool/engine.hpp"

namespace hipvmm::mr::pool {

std::size_t engine::cached_piece(const small_user& user, std::size_t class_index) noexcept {
  const std::size_t cached = user.cache->pop(class_index);
  if (cached != piece_cache::npos)
    static_cast<void>(pieces_.to_caller(cached, class_index, user.ledger->index()));
  return cached;
}

std::size_t engine::cached_block(const small_user& user, std::size_t bytes) noexcept {
  const std::size_t cached = user.cache->pop_block(bytes);
  if (cached != piece_cache::npos)
    static_cast<void>(pieces_.to_caller(cached, block_class, user.ledger->index()));
  return cached;
}

std::optional<std::size_t> engine::allocate_piece(stream_ledger& user, piece_cache& cache,
                                                  std::size_t class_index) {
  const std::size_t bytes = classes.bytes[class_index];
  std::array<std::size_t, piece_cache::most> batch{};
  const std::size_t wanted = piece_cache::capacity(class_index) / 2;
  std::size_t count = take_batch(user, bytes, batch.data(), wanted);
  if (count == 0) {
    const auto one = allocate(user, bytes, unit);
    if (!one) return one;
    note_piece(user, *one, class_index, bytes);
    // What served it has mostly left more.
    count = take_batch(user, bytes, batch.data(), wanted);
    if (count == 0) return one;
    static_cast<void>(deallocate_piece(user, cache, class_index, *one));
  }
  // The lowest address for the caller; the others follow in the order of addresses.
  for (std::size_t i = count; i-- > 0;) {
    try {
      pieces_.add(batch[i], class_index, user.index(), i != 0);
    } catch (...) {
      for (std::size_t rest = 0; rest <= i; ++rest)
        static_cast<void>(deallocate(user, batch[rest], bytes));
      throw;
    }
    if (i != 0 && !cache.push(class_index, batch[i]))
      give_back_pieces(user, class_index, &batch[i], 1);
  }
  return batch[0];
}

void engine::note_piece(stream_ledger& user, std::size_t offset, std::size_t class_index,
                        std::size_t bytes) {
  try {
    pieces_.add(offset, class_index, user.index(), false);
  } catch (...) {
    static_cast<void>(deallocate(user, offset, bytes));
    throw;
  }
}

std::size_t engine::take_batch(stream_ledger& user, std::size_t bytes, std::size_t* offsets,
                               std::size_t count) {
  const books_lock lock{books_};
  // What is left of small holes is no loss: pieces that come back join again.
  block* found = nullptr;
  for (; count != 0; count /= 2) {
    found = best_fit(user, count * bytes, unit);
    if (found == nullptr) found = best_fit(idle(), count * bytes, unit);
    if (found != nullptr) break;
  }
  if (found == nullptr) return 0;
  space_.prepare_for(count + 2);
  block* piece = &take(*found, found->offset, count * bytes);
  for (std::size_t i = 0; i < count; ++i) {
    block* const rest = i + 1 < count ? &space_.cut(*piece, bytes) : nullptr;
    make_used(*piece, user);
    offsets[i] = piece->offset;
    piece = rest;
  }
  ++counters_.served[static_cast<std::size_t>(rung::own)];
  return count;
}

bool engine::deallocate_piece(stream_ledger& user, piece_cache& cache, std::size_t class_index,
                              std::size_t offset) noexcept {
  if (!pieces_.to_cache(offset, class_index, user.index())) return false;
  while (!cache.push(class_index, offset)) {
    std::array<std::size_t, piece_cache::most> oldest{};
    const std::size_t count =
        cache.take(class_index, oldest.data(), piece_cache::capacity(class_index) / 2);
    give_back_pieces(user, class_index, oldest.data(), count);
  }
  return true;
}

void engine::give_back_pieces(stream_ledger& user, std::size_t class_index,
                              const std::size_t* offsets, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) pieces_.remove(offsets[i]);
  const books_lock lock{books_};
  for (std::size_t i = 0; i < count; ++i)
    static_cast<void>(take_back(user, offsets[i], classes.bytes[class_index]));
}

std::optional<std::size_t> engine::allocate_block(stream_ledger& user, piece_cache& cache,
                                                  std::size_t bytes) {
  // The best fit is looked for among all that is free.
  const piece_cache::block_at other = cache.take_block();
  if (other.bytes != 0) give_back_block(user, other);
  const auto made = allocate(user, bytes, unit);
  if (!made) return made;
  note_piece(user, *made, block_class, bytes);
  cache.remember({*made, bytes});
  return made;
}

bool engine::deallocate_block(stream_ledger& user, piece_cache& cache, std::size_t offset,
                              std::size_t bytes) noexcept {
  const std::size_t before = pieces_.user_of(offset);
  if (!pieces_.to_cache(offset, block_class, user.index())) return false;
  piece_cache::block_at evicted;
  if (!cache.push_block({offset, bytes}, evicted)) {
    static_cast<void>(pieces_.to_caller(offset, block_class, before));
    return false;
  }
  if (evicted.bytes != 0) give_back_block(user, evicted);
  return true;
}

void engine::give_back_block(stream_ledger& user, const piece_cache::block_at& one) noexcept {
  pieces_.remove(one.offset);
  const books_lock lock{books_};
  static_cast<void>(take_back(user, one.offset, one.bytes));
}

bool engine::end_piece(std::size_t offset, std::size_t& bytes) noexcept {
  if (!pieces_.is_piece(offset)) return true;
  const std::size_t class_index = bytes > largest_piece ? block_class : classes.of(bytes);
  const std::size_t before = pieces_.user_of(offset);
  if (!pieces_.to_cache(offset, class_index, before)) return false;
  if (class_index != block_class) {
    bytes = classes.bytes[class_index];
  } else {
    const books_lock lock{books_};
    const block* const known = space_.find(offset);
    if (known == nullptr || known->bytes != bytes) {
      static_cast<void>(pieces_.to_caller(offset, class_index, before));
      return false;
    }
  }
  pieces_.remove(offset);
  return true;
}

void engine::empty_caches(stream_ledger& user) noexcept {
  user.for_each_cache([&](piece_cache& cache) {
    std::array<std::size_t, piece_cache::most> all{};
    // A miss empties all caches, and next to all classes of next to all of them have nothing.
    for (std::size_t i = 0; const std::size_t count = cache.take_next(i, all.data()); ++i)
      give_back_pieces(user, i, all.data(), count);
    const piece_cache::block_at one = cache.take_block();
    if (one.bytes != 0) give_back_block(user, one);
  });
}

void engine::empty_all_caches() {
  std::vector<stream_ledger*> all;
  {
    const books_lock lock{books_};
    for (stream_ledger& each : ledgers_) all.push_back(&each);
  }
  for (stream_ledger* const each : all) empty_caches(*each);
}

}  // namespace hipvmm::mr::pool
