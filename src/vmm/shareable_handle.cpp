// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/shareable_handle.hpp>

#include <unistd.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "core/hip_compat.hpp"
#include "runtime/check_resources.hpp"
#include "vmm/descriptor_closer.hpp"
#include "vmm/shareable_handle.hpp"

// Older runtimes and headers lack it.
extern "C" [[gnu::weak]] hipError_t hipMemGetHandleForAddressRange(
    void* handle, hipDeviceptr_t start, std::size_t bytes,
    hipvmm::hip_compat::range_handle_type type, unsigned long long flags);

namespace hipvmm {

namespace {

void require_exportable(const physical_chunk& chunk, handle_type wanted, const char* name) {
  if (chunk.empty())
    throw std::invalid_argument{
        "the export of an empty chunk: it was moved from, or never created; create one first"};
  if (!can_export(chunk.shareable(), wanted))
    throw std::invalid_argument{"the export of a chunk that was created without handle_type::" +
                                std::string{name} + ": name that to its constructor"};
}

// Older headers have no enumerator of hip_compat::fabric_handle_kind.
__attribute__((no_sanitize("enum"))) hipError_t export_as(int kind, void* result,
                                                          const physical_chunk& chunk) {
  hipMemAllocationHandleType type{};
  std::memcpy(&type, &kind, sizeof(kind));
  return hipMemExportToShareableHandle(result, chunk.get(), type, 0);
}

__attribute__((no_sanitize("enum"))) hipError_t import_as(int kind,
                                                          hipMemGenericAllocationHandle_t& result,
                                                          void* handle) {
  hipMemAllocationHandleType type{};
  std::memcpy(&type, &kind, sizeof(kind));
  return hipMemImportFromShareableHandle(&result, handle, type);
}

/// An importer would map as many bytes as the sender says.
void require_bytes_behind(const shareable_handle& handle) {
  const std::optional<std::size_t> present = detail::bytes_behind(handle.get());
  if (!present || handle.bytes() <= *present) return;
  throw std::invalid_argument{"the import of a chunk of " + std::to_string(handle.bytes()) +
                              " bytes from descriptor " + std::to_string(handle.get()) +
                              ", behind which are " + std::to_string(*present) +
                              ": pass the size of the chunk that was exported"};
}

}  // namespace

shareable_handle::shareable_handle(physical_chunk& chunk) {
  require_exportable(chunk, handle_type::posix_fd, "posix_fd");
  chunk.process_.require_own();
  int descriptor = -1;
  const hipError_t result = export_as(hipMemHandleTypePosixFileDescriptor, &descriptor, chunk);
  detail::check_resources(result, "hipMemExportToShareableHandle", chunk.device(), chunk.bytes());
  descriptor_ = descriptor;
  bytes_ = chunk.bytes();
  chunk.shared_ = true;
}

shareable_handle::~shareable_handle() {
  if (is_received_)
    detail::close_foreign(descriptor_);
  else if (descriptor_ >= 0)
    ::close(descriptor_);
}

shareable_handle& shareable_handle::operator=(shareable_handle&& other) noexcept {
  shareable_handle moved{std::move(other)};
  std::swap(descriptor_, moved.descriptor_);
  std::swap(bytes_, moved.bytes_);
  std::swap(is_received_, moved.is_received_);
  return *this;
}

fabric_handle export_fabric(physical_chunk& chunk) {
  require_exportable(chunk, handle_type::fabric, "fabric");
  chunk.process_.require_own();
  fabric_handle result;
  static_assert(sizeof(result.data) == hip_compat::fabric_handle_bytes);
  detail::check(export_as(hip_compat::fabric_handle_kind, result.data.data(), chunk),
                "hipMemExportToShareableHandle");
  result.bytes = chunk.bytes();
  chunk.shared_ = true;
  return result;
}

physical_chunk import_chunk(const fabric_handle& handle, device_ref device) {
  if (handle.bytes == 0)
    throw std::invalid_argument{
        "the import of a fabric handle of no bytes: pass the one that "
        "export_fabric() gave, with its size"};
  const scoped_device scope{device};
  fabric_handle copied = handle;
  hipMemGenericAllocationHandle_t imported = nullptr;
  detail::check_resources(import_as(hip_compat::fabric_handle_kind, imported, copied.data.data()),
                          "hipMemImportFromShareableHandle", device, handle.bytes);
  physical_chunk result{imported, device, static_cast<std::size_t>(handle.bytes)};
  result.shareable_ = handle_type::fabric;
  return result;
}

namespace detail {

physical_chunk import_chunk_as(import_form form, const shareable_handle& handle,
                               device_ref device) {
  if (handle.empty())
    throw std::invalid_argument{"the import of an empty handle: pass one that was received"};
  require_open_descriptor(handle.get(), "the import of a chunk");
  require_bytes_behind(handle);
  // ROCm gives an imported chunk the calling thread's device.
  const scoped_device scope{device};
  int descriptor = handle.get();
  void* const argument = form == import_form::value
                             ? reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor))
                             : static_cast<void*>(&descriptor);
  hipMemGenericAllocationHandle_t imported = nullptr;
  const hipError_t result = import_as(hipMemHandleTypePosixFileDescriptor, imported, argument);
  check_resources(result, "hipMemImportFromShareableHandle", device, handle.bytes());
  return physical_chunk{imported, device, handle.bytes()};
}

shareable_handle dma_buf_of_range(const void* address, std::size_t bytes, device_ref device) {
  const auto refuse = [&](const std::string& why) {
    return unsupported{"no dma-buf can be made of the " + std::to_string(bytes) + " bytes at " +
                       address_text(address) + " of device " + std::to_string(device.ordinal()) +
                       ": " + why};
  };
  if (&hipMemGetHandleForAddressRange == nullptr)
    throw refuse("this HIP runtime has no hipMemGetHandleForAddressRange");
  hip_compat::range_handle_type type{};
  std::memcpy(&type, &hip_compat::dma_buf_of_range, sizeof type);
  int descriptor = -1;
  const hipError_t result =
      hipMemGetHandleForAddressRange(&descriptor, const_cast<void*>(address), bytes, type, 0);
  if (result == hipErrorNotSupported) {
    clear_last_error();
    throw refuse(
        "hipMemGetHandleForAddressRange says that it is not supported; on NVIDIA it needs the open "
        "kernel modules (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)");
  }
  check_resources(result, "hipMemGetHandleForAddressRange", device, bytes);
  return shareable_handle{descriptor, bytes};
}

}  // namespace detail

}  // namespace hipvmm
