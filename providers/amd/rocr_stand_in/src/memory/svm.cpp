// SPDX-License-Identifier: MIT
#include "src/memory/svm.hpp"

#include <algorithm>
#include <mutex>

#include "src/base/text.hpp"

namespace stand_in {
namespace {

struct state {
  std::mutex lock;
  std::map<std::uint64_t, svm_attributes> pieces;  // by first page; each up to the next
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

void split(std::map<std::uint64_t, svm_attributes>& pieces, std::uint64_t address) {
  const auto at = pieces.lower_bound(address);
  if (at != pieces.end() && at->first == address) return;
  const svm_attributes before = at == pieces.begin() ? svm_attributes{} : std::prev(at)->second;
  pieces.emplace(address, before);
}

}  // namespace

void for_each_svm_piece(const void* pointer, std::uint64_t bytes,
                        const std::function<void(svm_attributes&)>& each) {
  const std::uint64_t begin = round_down(address_of(pointer), page_bytes);
  const std::uint64_t end = round_up(address_of(pointer) + bytes, page_bytes);
  state& all = the_state();
  std::lock_guard guard(all.lock);
  split(all.pieces, begin);
  split(all.pieces, end);
  for (auto at = all.pieces.find(begin); at->first < end; ++at) each(at->second);
}

std::uint64_t svm_end(std::uint64_t address, std::uint64_t most) {
  state& all = the_state();
  std::lock_guard guard(all.lock);
  auto at = all.pieces.upper_bound(address);
  if (at == all.pieces.begin()) return address;
  std::uint64_t end = address;
  for (--at; end < most && at != all.pieces.end() && at->second.set; ++at) {
    const auto next = std::next(at);
    end = next == all.pieces.end() ? most : std::min(most, next->first);
  }
  return end;
}

}  // namespace stand_in
