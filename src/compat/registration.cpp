// SPDX-License-Identifier: MIT
#include <hipvmm/compat/registration.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>

#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ranks/communicator_parts.hpp>
#include "core/check.hpp"

namespace hipvmm {

std::vector<registered_bytes> cut_by_chunk(const std::vector<registered_bytes>& chunks,
                                           std::uint64_t address, std::size_t bytes) {
  std::vector<registered_bytes> result;
  auto chunk = std::upper_bound(
      chunks.begin(), chunks.end(), address,
      [](std::uint64_t wanted, const registered_bytes& each) { return wanted < each.address; });
  if (chunk != chunks.begin()) --chunk;
  for (; bytes != 0; ++chunk) {
    if (chunk == chunks.end() || address < chunk->address ||
        address - chunk->address >= chunk->bytes)
      throw std::out_of_range{"no registered memory at address " + std::to_string(address) + ", " +
                              std::to_string(bytes) + " bytes before the end of the named range"};
    const auto begin = static_cast<std::size_t>(address - chunk->address);
    const std::size_t piece = std::min(bytes, chunk->bytes - begin);
    result.push_back({address, piece, static_cast<std::size_t>(chunk - chunks.begin())});
    address += piece;
    bytes -= piece;
  }
  return result;
}

void library_registrar::add(const mapped_memory& memory) {
  const std::lock_guard lock{mutex_};
  const auto at = known_.try_emplace(memory.address, memory).first;
  try {
    enter(memory);
  } catch (...) {
    known_.erase(at);
    throw;
  }
}

void library_registrar::remove(const mapped_memory& memory) noexcept {
  // An error handler may call the library: it is called without the lock.
  std::exception_ptr failed;
  {
    const std::lock_guard lock{mutex_};
    try {
      leave(memory);
    } catch (...) {
      failed = std::current_exception();
    }
    known_.erase(memory.address);
  }
  if (failed) detail::report_exceptions([&failed] { std::rethrow_exception(failed); });
}

std::vector<mapped_memory> library_registrar::memory() const {
  const std::lock_guard lock{mutex_};
  std::vector<mapped_memory> result;
  result.reserve(known_.size());
  for (const auto& [address, memory] : known_) result.push_back(memory);
  return result;
}

std::vector<registered_bytes> library_registrar::chunks() const {
  std::vector<registered_bytes> result;
  for (const mapped_memory& each : memory())
    result.push_back({reinterpret_cast<std::uintptr_t>(each.address), each.bytes, result.size()});
  return result;
}

void library_registrar::require_reach(const char* who, device_ref device, bool takes_device_memory,
                                      const std::string& remedy) {
  // Host code reads memory of other providers too, but no library registers it as host memory.
  if (takes_device_memory || detail::is_host_memory(device)) return;
  throw unsupported{std::string{who} +
                    ": the library takes memory of the host only, and memory of device " +
                    std::to_string(device.ordinal()) + " is none: " + remedy};
}

void library_registrar::require_exportable(const char* who, const region_options& options) {
  if (options.shareable != handle_type::none) return;
  throw unsupported{std::string{who} +
                    ": the chunks are made without a handle that others can import "
                    "(region_options::shareable is none), by which the memory is shown to other "
                    "ranks and to network cards: set it to handle_type::posix_fd, or between nodes "
                    "that share an NVLink fabric to posix_fd_and_fabric (of a vector "
                    "growth_options::chunks.shareable, of a pool pool_options::shareable)"};
}

void library_registrar::warn(const char* subject, const std::string& sentence) noexcept {
  detail::warn(subject, sentence);
}

}  // namespace hipvmm
