// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>

namespace hipvmm {

/// Consecutive bytes that lie in one registered chunk, of this rank or of another.
struct registered_bytes {
  std::uint64_t address;  ///< as its own process has it
  std::size_t bytes;
  std::size_t chunk;  ///< position of the chunk in the list that was cut
};

/// Cuts [address, address + bytes) at the borders of `chunks`, which are in the order of addresses:
/// communication libraries take no access that reaches from one registration into the next. Throws:
/// std::out_of_range that names the first byte that is in no chunk.
[[nodiscard]] std::vector<registered_bytes> cut_by_chunk(
    const std::vector<registered_bytes>& chunks, std::uint64_t address, std::size_t bytes);

class library_registrar : public memory_registrar {
 public:
  void add(const mapped_memory& memory) final;
  void remove(const mapped_memory& memory) noexcept final;

  /// The registered memory, in the order of addresses. Any thread may call it.
  [[nodiscard]] std::vector<mapped_memory> memory() const;
  [[nodiscard]] std::vector<registered_bytes> chunks() const;

 protected:
  library_registrar() = default;
  [[nodiscard]] std::mutex& mutex() const noexcept { return mutex_; }
  /// By address. Under mutex(), which is held while enter() and leave() run.
  [[nodiscard]] const std::map<void*, mapped_memory>& known() const noexcept { return known_; }
  /// Throws: unsupported, with `who` and the advice `remedy`, if the library takes no memory of the
  /// device, unless that is host memory, as only the host provider's is.
  static void require_reach(const char* who, device_ref device, bool takes_device_memory,
                            const std::string& remedy);
  /// Throws: unsupported if `options` allow export of chunks neither as posix_fd nor as fabric.
  static void require_exportable(const char* who, const region_options& options);
  static void warn(const char* subject, const std::string& sentence) noexcept;

 private:
  /// Throws: then `memory` is not registered.
  virtual void enter(const mapped_memory& memory) = 0;
  /// Exceptions are reported to the error handler.
  virtual void leave(const mapped_memory& memory) = 0;

  mutable std::mutex mutex_;
  std::map<void*, mapped_memory> known_;
};

}  // namespace hipvmm
