// SPDX-License-Identifier: MIT
#include "chunk.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include "failure.hpp"

namespace hipvmm::host_provider {
namespace {

// The name of a shareable chunk's file carries its device; the seals keep every holder of the
// descriptor from shortening the file under the others' mappings.
constexpr std::string_view shared_name = "hipvmm-chunk-of-device-";
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::atomic<std::uint64_t> files_open{0};

descriptor create_shared_file(int device, std::size_t bytes) {
  const std::string name = std::string{shared_name} + std::to_string(device);
  descriptor file{memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  require(file.get() >= 0, error_of_errno(errno));
  require(ftruncate(file.get(), static_cast<off_t>(bytes)) == 0, error_of_errno(errno));
  require(fcntl(file.get(), F_ADD_SEALS, seals) == 0, error_of_errno(errno));
  return file;
}

}  // namespace

chunk::chunk(device_memory& memory, const hipMemAllocationProp& properties, std::size_t bytes)
    : properties_{properties}, bytes_{bytes}, memory_{&memory} {
  memory.take(bytes);
  try {
    if (properties.requestedHandleType == hipMemHandleTypePosixFileDescriptor) {
      own_file_ = create_shared_file(properties.location.id, bytes);
      files_open.fetch_add(1, std::memory_order_relaxed);
    } else {
      memory.file();
      offset_ = memory.claim(bytes);
    }
  } catch (...) {
    memory.give_back(bytes);
    throw;
  }
}

chunk::chunk(descriptor file, const hipMemAllocationProp& properties, std::size_t bytes,
             off_t offset) noexcept
    : properties_{properties},
      bytes_{bytes},
      memory_{nullptr},
      own_file_{std::move(file)},
      offset_{offset} {
  files_open.fetch_add(1, std::memory_order_relaxed);
}

chunk::~chunk() {
  if (own_file_.get() >= 0) {
    files_open.fetch_sub(1, std::memory_order_relaxed);
  } else {
    memory_->discard(offset_, bytes_);
  }
  if (memory_ != nullptr) memory_->give_back(bytes_);
}

int chunk::file() const noexcept {
  return own_file_.get() >= 0 ? own_file_.get() : memory_->file();
}

std::uint64_t chunk::open_files() noexcept { return files_open.load(std::memory_order_relaxed); }

shared_file shared_file::identify(int file, int devices, std::size_t granularity) {
  std::array<char, 96> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  require(length > 0);
  std::string_view name{target.data(), static_cast<std::size_t>(length)};
  constexpr std::string_view before = "/memfd:";
  constexpr std::string_view after = " (deleted)";
  require(name.starts_with(before) && name.ends_with(after));
  name.remove_prefix(before.size());
  name.remove_suffix(after.size());
  require(name.starts_with(shared_name));
  name.remove_prefix(shared_name.size());

  shared_file found{-1, 0};
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found.device);
  require(error == std::errc{} && end == name.data() + name.size());
  require(found.device >= 0 && found.device < devices);
  require((fcntl(file, F_GET_SEALS) & seals) == seals);
  struct stat status {};
  require(fstat(file, &status) == 0);
  found.bytes = static_cast<std::size_t>(status.st_size);
  require(found.bytes != 0 && found.bytes % granularity == 0);
  return found;
}

std::uint64_t chunk_table::add(std::shared_ptr<chunk> memory) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t handle = source_.next();
  memory->handle_ = handle;
  entries_.emplace(handle, entry{std::move(memory), 1});
  ++references_;
  return handle;
}

std::shared_ptr<chunk> chunk_table::find(std::uint64_t handle) const {
  const std::lock_guard lock{mutex_};
  const auto at = entries_.find(handle);
  require(at != entries_.end());
  return at->second.memory;
}

void chunk_table::retain(const std::shared_ptr<chunk>& memory) {
  const std::lock_guard lock{mutex_};
  ++entries_.try_emplace(memory->handle_, entry{memory, 0}).first->second.references;
  ++references_;
}

void chunk_table::release(std::uint64_t handle) {
  std::shared_ptr<chunk> last;  // dies after the lock: giving pages back takes time
  const std::lock_guard lock{mutex_};
  const auto at = entries_.find(handle);
  require(at != entries_.end());
  --references_;
  if (--at->second.references == 0) {
    last = std::move(at->second.memory);
    entries_.erase(at);
  }
}

std::uint64_t chunk_table::references() const {
  const std::lock_guard lock{mutex_};
  return references_;
}

}  // namespace hipvmm::host_provider
