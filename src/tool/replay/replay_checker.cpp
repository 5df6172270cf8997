// SPDX-License-Identifier: MIT
#include "tool/replay/replay_checker.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>

namespace hipvmm::tool {
namespace {

constexpr std::size_t half_bytes = block_checker::staging_bytes / 2;
constexpr std::size_t word_bytes = sizeof(std::uint32_t);
constexpr std::size_t pieces = 4;

/// Different for every block, because multiplication by an odd factor is one-to-one.
std::uint32_t word_of(std::uint32_t number) { return (number + 1) * 0x9E3779B1U; }

std::array<unsigned char, word_bytes> bytes_of(std::uint32_t number) {
  std::array<unsigned char, word_bytes> result{};
  const std::uint32_t word = word_of(number);
  std::memcpy(result.data(), &word, word_bytes);
  return result;
}

std::size_t first_difference(const unsigned char* found, std::size_t bytes, std::uint32_t number) {
  const auto expected = bytes_of(number);
  const std::size_t head = std::min(bytes, word_bytes);
  if (std::memcmp(found, expected.data(), head) == 0) {
    // All words are equal if the block equals itself shifted by one; memcmp is faster than a loop.
    if (bytes <= word_bytes || std::memcmp(found, found + word_bytes, bytes - word_bytes) == 0)
      return bytes;
  }
  std::size_t at = 0;
  while (at < bytes && found[at] == expected[at % word_bytes]) ++at;
  return at;
}

}  // namespace

block_checker::block_checker(device_ref device, std::size_t budget, replay_failures& failures)
    : budget_{budget},
      failures_{failures},
      staging_{device, staging_bytes},
      copies_to_host_{device},
      order_{device},
      halves_{half{0}, half{half_bytes}} {
  if (budget < least_budget)
    throw std::invalid_argument{"a check of " + std::to_string(budget) +
                                " bytes of each block says too little; check at least " +
                                std::to_string(least_budget)};
}

block_checker::~block_checker() = default;

void block_checker::fill(stream_ref stream, const checked_block& block) {
  require_apart(block);
  const auto word = bytes_of(block.number);
  auto* const start = static_cast<unsigned char*>(block.pointer);
  for (const piece& part : pieces_of(block.bytes)) {
    const std::size_t whole = align_down(part.bytes, word_bytes);
    unsigned char* const at = start + part.offset;
    fill_pattern_async(stream, at, word.data(), word_bytes, whole / word_bytes);
    note_fill(stream);
    for (std::size_t i = whole; i < part.bytes; ++i) {
      fill_async(stream, at + i, word[i % word_bytes], 1);
      note_fill(stream);
    }
  }
}

void block_checker::note_fill(stream_ref stream) {
  auto found = std::find_if(fills_.begin(), fills_.end(),
                            [stream](const auto& each) { return each.first == stream; });
  if (found == fills_.end()) found = fills_.insert(fills_.end(), {stream, stream_fills{}});
  stream_fills& fills = found->second;
  if (++fills.since_mark < fills_in_flight / 2) return;
  fills.since_mark = 0;
  if (fills.mark) {
    fills.mark->synchronize();
  } else {
    fills.mark.emplace(staging_.device());
  }
  fills.mark->record(stream);
}

void block_checker::copy_aside(stream_ref stream, const checked_block& block) {
  alive_.erase(reinterpret_cast<std::uintptr_t>(block.pointer));
  ++blocks_;
  bytes_ += block.bytes;
  for (const piece& part : pieces_of(block.bytes)) {
    looked_at_ += part.bytes;
    put(stream, block, part);
  }
}

void block_checker::finish() {
  for (half& each : halves_) {
    collect(each);
    if (each.used == 0) continue;
    compare_in_background(each);
    collect(each);
  }
}

std::vector<block_checker::piece> block_checker::pieces_of(std::size_t bytes) const {
  if (bytes <= budget_) return {{0, bytes}};
  const std::size_t each = align_down(budget_ / pieces, word_bytes);
  std::vector<piece> result;
  for (std::size_t i = 0; i + 1 < pieces; ++i)
    result.push_back({align_down((bytes - each) / (pieces - 1) * i, word_bytes), each});
  const std::size_t last = align_down(bytes - each, word_bytes);
  result.push_back({last, bytes - last});
  return result;
}

void block_checker::require_apart(const checked_block& block) {
  const auto start = reinterpret_cast<std::uintptr_t>(block.pointer);
  const auto after = alive_.lower_bound(start);
  const checked_block* other = nullptr;
  if (after != alive_.end() && after->first < start + block.bytes) other = &after->second;
  if (after != alive_.begin()) {
    const auto& [before, neighbour] = *std::prev(after);
    if (before + neighbour.bytes > start) other = &neighbour;
  }
  if (other != nullptr)
    failures_.add("row " + std::to_string(block.row) + ": the " + format_bytes(block.bytes) +
                  " overlap with the block of row " + std::to_string(other->row) +
                  ", which is still in use");
  alive_.insert_or_assign(start, block);
}

void block_checker::put(stream_ref stream, const checked_block& block, piece part) {
  while (part.bytes > 0) {
    half& into = halves_[current_];
    const std::size_t fits = std::min(part.bytes, half_bytes - into.used);
    if (fits == 0) {
      compare_in_background(into);
      current_ = 1 - current_;
      collect(halves_[current_]);
      continue;
    }
    copy_async(stream, static_cast<unsigned char*>(staging_.get()) + into.start + into.used,
               static_cast<const unsigned char*>(block.pointer) + part.offset, fits);
    into.pieces.push_back({into.used, {part.offset, fits}, block.number, block.row});
    if (std::find(into.streams.begin(), into.streams.end(), stream) == into.streams.end())
      into.streams.push_back(stream);
    into.used = std::min(align_up(into.used + fits, word_bytes), half_bytes);
    part.offset += fits;
    part.bytes -= fits;
  }
}

void block_checker::compare_in_background(half& full) {
  for (const stream_ref stream : full.streams) {
    order_.record(stream);
    copies_to_host_.wait(order_);
  }
  full.on_host.resize(half_bytes);
  full.wrong = std::async(std::launch::async, [this, &full] {
    copy(copies_to_host_, full.on_host.data(),
         static_cast<const unsigned char*>(staging_.get()) + full.start, full.used);
    return compare(full);
  });
}

void block_checker::collect(half& compared) {
  if (!compared.wrong.valid()) return;
  for (std::string& text : compared.wrong.get()) failures_.add(std::move(text));
  // Does not wait any more: it orders later work of this thread behind the copy.
  copies_to_host_.synchronize();
  compared.used = 0;
  compared.pieces.clear();
  compared.streams.clear();
}

std::vector<std::string> block_checker::compare(const half& full) {
  std::vector<std::string> wrong;
  for (const copied& each : full.pieces) {
    const unsigned char* const found = full.on_host.data() + each.at;
    const std::size_t at = first_difference(found, each.of.bytes, each.number);
    if (at == each.of.bytes) continue;
    wrong.push_back("row " + std::to_string(each.row) + ": byte " +
                    std::to_string(each.of.offset + at) + " of the block holds " +
                    std::to_string(found[at]) + " instead of " +
                    std::to_string(bytes_of(each.number)[at % word_bytes]) +
                    ": other work wrote into it between its allocation and its free");
  }
  return wrong;
}

}  // namespace hipvmm::tool
