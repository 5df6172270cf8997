// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/publication.hpp>

#include <stdexcept>
#include <string>
#include <utility>

#include "ipc/publisher.hpp"

namespace hipvmm {

publication::publication(const std::string& path, device_ref device, std::size_t max_bytes,
                         published_elements elements, publication_options options)
    : publisher_{std::make_unique<detail::publisher>(path, device, max_bytes, elements,
                                                     std::move(options))} {}
publication::~publication() {
  if (publisher_ == nullptr || !publisher_->is_of_parent()) return;
  publisher_->abandon();
  // Its end could wait for threads that are in the parent.
  static_cast<void>(publisher_.release());
}

publication::publication(publication&& other) noexcept = default;

publication& publication::operator=(publication&& other) noexcept {
  publication moved{std::move(other)};
  std::swap(publisher_, moved.publisher_);
  return *this;
}

detail::publisher& publication::live() const {
  if (publisher_ == nullptr)
    throw std::invalid_argument{"the publication is empty: it was moved from"};
  return *publisher_;
}

void publication::announce(region& memory, std::size_t bytes, stream_ref stream) {
  announce(memory, 0, bytes, stream);
}

void publication::announce(region& memory, std::size_t offset, std::size_t bytes,
                           stream_ref stream) {
  if (offset > memory.max_bytes())
    throw std::invalid_argument{"publication::announce: offset " + std::to_string(offset) +
                                " is behind the " + std::to_string(memory.max_bytes()) +
                                " bytes of the region"};
  announce_chunks(
      memory.chunks(), static_cast<const char*>(memory.base()) + offset, bytes,
      [&memory](std::uint64_t since) { return memory.export_chunks(since); }, stream);
}

void publication::announce_chunks(const std::vector<chunk_view>& chunks, const void* start,
                                  std::size_t bytes, const exporter& export_since,
                                  stream_ref stream) {
  live().require_own_process("announce");
  live().announce(chunks, start, bytes, export_since, stream);
}

bool publication::wait_until_withdrawn(std::chrono::milliseconds timeout) {
  live().require_own_process("wait_until_withdrawn");
  return live().wait_until_withdrawn(timeout);
}

const std::string& publication::path() const noexcept {
  static const std::string none;
  return publisher_ ? publisher_->path() : none;
}
std::size_t publication::max_bytes() const noexcept {
  return publisher_ ? publisher_->max_bytes() : 0;
}

std::size_t publication::importers() const {
  live().require_own_process("importers");
  return live().importers();
}

}  // namespace hipvmm
