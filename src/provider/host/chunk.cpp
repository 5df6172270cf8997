// SPDX-License-Identifier: MIT
#include "chunk.hpp"

#include <atomic>

#include "failure.hpp"
#include "shared_file.hpp"

namespace hipvmm::host_provider {
namespace {

std::atomic<std::uint64_t> files_open{0};

}  // namespace

chunk::chunk(device_memory& memory, const hipMemAllocationProp& properties, std::size_t bytes)
    : properties_{properties}, bytes_{bytes}, memory_{&memory} {
  memory.take(bytes);
  try {
    if (properties.requestedHandleType == hipMemHandleTypePosixFileDescriptor) {
      own_file_ = shared_file::create(chunk_file, properties.location.id, bytes);
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
