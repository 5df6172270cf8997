// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/imported_blocks.hpp>

#include <stdexcept>
#include <utility>

#include "ipc/imported_block_map.hpp"

namespace hipvmm {

imported_block::~imported_block() {
  if (mirror_) mirror_->end_use(offset_, bytes_);
}

imported_block& imported_block::operator=(imported_block&& other) noexcept {
  imported_block moved{std::move(other)};
  std::swap(mirror_, moved.mirror_);
  std::swap(offset_, moved.offset_);
  std::swap(bytes_, moved.bytes_);
  return *this;
}

void* imported_block::data() const noexcept {
  return mirror_ ? mirror_->address_of(offset_) : nullptr;
}

imported_blocks::imported_blocks(device_ref device, std::size_t max_bytes,
                                 const access_list& rights)
    : mirror_{std::make_shared<detail::imported_block_map>(device, max_bytes, rights)} {}

imported_blocks::~imported_blocks() = default;
imported_blocks::imported_blocks(imported_blocks&& other) noexcept = default;
imported_blocks& imported_blocks::operator=(imported_blocks&& other) noexcept = default;

detail::imported_block_map& imported_blocks::live() const {
  if (!mirror_)
    throw std::invalid_argument{"imported_blocks: it was moved from; use the one it went to"};
  return *mirror_;
}

imported_block imported_blocks::add(exported_range block) {
  const exported_range taken{std::move(block)};
  live().add(taken);
  return {mirror_, taken.offset, taken.bytes};
}

std::size_t imported_blocks::release_unused() { return live().release_unused(); }

std::vector<chunk_view> imported_blocks::chunks() const { return live().chunks(); }

device_ref imported_blocks::device() const { return live().device(); }

}  // namespace hipvmm
