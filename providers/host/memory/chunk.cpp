// SPDX-License-Identifier: MIT
#include "memory/chunk.hpp"

#include <algorithm>
#include <atomic>

#include "base/failure.hpp"
#include "base/fault_plan.hpp"
#include "core/hip_compat.hpp"
#include "memory/shared_file.hpp"

namespace hipvmm::host_provider {
namespace {

std::atomic<std::uint64_t> files_open{0};
std::atomic<std::uint64_t> chunks_alive{0};

bool is_host(const hipMemAllocationProp& properties) noexcept {
  return hip_compat::is_on_host(properties.location);
}

}  // namespace

chunk::chunk(device_memory& memory, const hipMemAllocationProp& properties, int device,
             std::size_t bytes)
    : properties_{properties},
      device_{is_host(properties) ? 0 : device},
      bytes_{bytes},
      memory_{&memory} {
  memory.charge(bytes);
  try {
    if (hip_compat::handle_kinds(properties) != hipMemHandleTypeNone) {
      own_file_ = shared_file::create(chunk_file, memory.place(), bytes);
      files_open.fetch_add(1, std::memory_order_relaxed);
    } else {
      memory.file();
      offset_ = memory.claim(bytes);
    }
  } catch (...) {
    memory.release(bytes);
    throw;
  }
}

chunk::chunk(descriptor file, const hipMemAllocationProp& properties, int device, std::size_t bytes,
             off_t offset) noexcept
    : properties_{properties},
      device_{device},
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
  if (memory_ != nullptr) memory_->release(bytes_);
  if (counted_) chunks_alive.fetch_sub(1, std::memory_order_relaxed);
}

bool chunk::is_on_host() const noexcept { return is_host(properties_); }

int chunk::file() const noexcept {
  return own_file_.get() >= 0 ? own_file_.get() : memory_->file();
}

void chunk::forget_all() noexcept {
  files_open.store(0, std::memory_order_relaxed);
  chunks_alive.store(0, std::memory_order_relaxed);
}

std::uint64_t chunk::open_files() noexcept { return files_open.load(std::memory_order_relaxed); }

std::uint64_t chunk_table::add(std::shared_ptr<chunk> memory) {
  if (rules_.chunk_file == chunk_descriptor::of_each && memory->own_file_.get() < 0) {
    memory->spent_ = duplicate(memory->file());
  }
  const std::lock_guard lock{mutex_};
  require(chunks_alive.load(std::memory_order_relaxed) < fault_plan::get().chunks(),
          hipErrorOutOfMemory);
  const std::uint64_t handle = source_.next();
  memory->handle_ = handle;
  memory->counted_ = true;
  chunks_alive.fetch_add(1, std::memory_order_relaxed);
  entries_.emplace(handle, entry{std::move(memory), 1});
  ++references_;
  return handle;
}

std::shared_ptr<chunk> chunk_table::find(std::uint64_t handle) const {
  const std::lock_guard lock{mutex_};
  const auto at = entries_.find(handle);
  if (at != entries_.end()) return at->second.memory;
  if (const auto lent = lent_.find(handle); lent != lent_.end()) {
    if (std::shared_ptr<chunk> mapped = lent->second.lock()) return mapped;
  }
  refuse(handle);
}

void chunk_table::refuse(std::uint64_t handle) const {
  if (handle != 0 && rules_.stale_handle == bad_pointer::followed) {
    throw crash{"follows a handle that was released or never given",
                "ROCm/clr, hip_vm.cpp: handles are pointers"};
  }
  throw failure{hipErrorInvalidValue};
}

void chunk_table::lend(const std::shared_ptr<chunk>& memory) {
  if (lent_.size() >= lent_limit_) {
    std::erase_if(lent_, [](const auto& each) { return each.second.expired(); });
    lent_limit_ = std::max<std::size_t>(64, 2 * lent_.size());
  }
  lent_.insert_or_assign(memory->handle_, memory);
}

void chunk_table::retain(const std::shared_ptr<chunk>& memory) {
  const std::lock_guard lock{mutex_};
  if (rules_.retain == retained::same_reference) {
    lend(memory);
    return;
  }
  ++entries_.try_emplace(memory->handle_, entry{memory, 0}).first->second.references;
  ++references_;
}

void chunk_table::release(std::uint64_t handle) {
  std::shared_ptr<chunk> last;  // dies after the lock: giving pages back takes time
  const std::lock_guard lock{mutex_};
  const auto at = entries_.find(handle);
  if (at == entries_.end()) refuse(handle);
  --references_;
  if (--at->second.references == 0) {
    if (rules_.stale_handle == bad_pointer::followed) lend(at->second.memory);
    last = std::move(at->second.memory);
    entries_.erase(at);
  }
}

std::uint64_t chunk_table::references() const {
  const std::lock_guard lock{mutex_};
  return references_;
}

std::vector<chunk_table::live_handle> chunk_table::live() const {
  std::vector<live_handle> found;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [handle, each] : entries_) {
      found.push_back({handle, each.memory->bytes(), each.memory->device(), each.references});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const live_handle& a, const live_handle& b) { return a.handle < b.handle; });
  return found;
}

}  // namespace hipvmm::host_provider
