// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/shareable_handle.hpp>

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "runtime/check_resources.hpp"
#include "vmm/shareable_handle.hpp"

namespace hipvmm {

shareable_handle::shareable_handle(physical_chunk& chunk) {
  if (chunk.empty())
    throw std::invalid_argument{
        "the export of an empty chunk: it was moved from, or never created"};
  if (chunk.shareable() != handle_type::posix_fd)
    throw std::invalid_argument{
        "the export of a chunk that was created without handle_type::posix_fd: name that to its "
        "constructor"};
  int descriptor = -1;
  const hipError_t result = hipMemExportToShareableHandle(&descriptor, chunk.get(),
                                                          hipMemHandleTypePosixFileDescriptor, 0);
  detail::check_resources(result, "hipMemExportToShareableHandle", chunk.device(), chunk.bytes());
  descriptor_ = descriptor;
  bytes_ = chunk.bytes();
  chunk.shared_ = true;
}

shareable_handle::~shareable_handle() {
  // A failing close has closed the descriptor all the same on Linux.
  if (descriptor_ >= 0) ::close(descriptor_);
}

shareable_handle& shareable_handle::operator=(shareable_handle&& other) noexcept {
  shareable_handle moved{std::move(other)};
  std::swap(descriptor_, moved.descriptor_);
  std::swap(bytes_, moved.bytes_);
  return *this;
}

namespace detail {
namespace {

/// Whoever maps the chunk maps as many bytes as the sender says.
void require_bytes_behind(const shareable_handle& handle) {
  const std::optional<std::size_t> present = bytes_behind(handle.get());
  if (!present || handle.bytes() <= *present) return;
  throw std::invalid_argument{"the import of a chunk of " + std::to_string(handle.bytes()) +
                              " bytes from descriptor " + std::to_string(handle.get()) +
                              ", behind which are " + std::to_string(*present) +
                              ": pass the size of the chunk that was exported"};
}

}  // namespace

physical_chunk import_chunk_as(import_form form, const shareable_handle& handle,
                               device_ref device) {
  if (handle.empty()) throw std::invalid_argument{"the import of an empty handle"};
  require_open_descriptor(handle.get(), "the import of a chunk");
  require_bytes_behind(handle);
  // ROCm gives an imported chunk the calling thread's device.
  const scoped_device scope{device};
  int descriptor = handle.get();
  void* const argument = form == import_form::value
                             ? reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor))
                             : static_cast<void*>(&descriptor);
  hipMemGenericAllocationHandle_t imported = nullptr;
  const hipError_t result =
      hipMemImportFromShareableHandle(&imported, argument, hipMemHandleTypePosixFileDescriptor);
  check_resources(result, "hipMemImportFromShareableHandle", device, handle.bytes());
  return physical_chunk{imported, device, handle.bytes()};
}

}  // namespace detail

}  // namespace hipvmm
