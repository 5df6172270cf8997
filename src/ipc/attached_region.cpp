// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/attached_region.hpp>

#include <stdexcept>

#include "ipc/attachment.hpp"

namespace hipvmm {

attached_region::attached_region(const std::string& path, const attach_options& options,
                                 published_elements elements)
    : attachment_{std::make_unique<detail::attachment>(path, options, elements)} {}
attached_region::~attached_region() = default;
attached_region::attached_region(attached_region&& other) noexcept = default;
attached_region& attached_region::operator=(attached_region&& other) noexcept = default;

detail::attachment& attached_region::live() const {
  if (attachment_ == nullptr)
    throw std::invalid_argument{"the attached_region is empty: it was moved from"};
  return *attachment_;
}

std::size_t attached_region::refresh(stream_ref stream) { return live().refresh(stream); }
bool attached_region::wait_for(std::size_t bytes, std::chrono::milliseconds timeout,
                               stream_ref stream) {
  return live().wait_for(bytes, timeout, stream);
}

std::size_t attached_region::bytes() const noexcept {
  return attachment_ ? attachment_->bytes() : 0;
}
void* attached_region::data() const noexcept { return attachment_ ? attachment_->data() : nullptr; }
std::size_t attached_region::max_bytes() const noexcept {
  return attachment_ ? attachment_->memory().max_bytes() : 0;
}
device_ref attached_region::device() const { return live().memory().device(); }
bool attached_region::is_open() const noexcept { return attachment_ && attachment_->is_open(); }
std::vector<chunk_view> attached_region::chunks() const {
  return attachment_ ? attachment_->memory().chunks() : std::vector<chunk_view>{};
}

}  // namespace hipvmm
