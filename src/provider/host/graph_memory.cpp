// SPDX-License-Identifier: MIT
#include "graph_memory.hpp"

#include <sys/mman.h>

#include <utility>

#include "failure.hpp"
#include "graph.hpp"
#include "mem_pool.hpp"
#include "order_checker.hpp"
#include "pointers.hpp"
#include "runtime.hpp"

namespace hipvmm::host_provider {
namespace {

std::shared_ptr<graph_memory> memory_at(const region& found) {
  std::shared_ptr<graph_memory> memory = graph_memory::at(found);
  require(memory != nullptr);
  return memory;
}

}  // namespace

graph_tenancy::graph_tenancy(runtime& machine, const mem_pool& properties, std::size_t bytes)
    : machine_{machine},
      device_{properties.device()},
      bytes_{bytes},
      readers_{properties.rights().readers.load(std::memory_order_relaxed)},
      writers_{properties.rights().writers.load(std::memory_order_relaxed)} {}

std::size_t graph_tenancy::bytes_held() const {
  const std::lock_guard lock{mutex_};
  return held_ || recorder_ != 0 ? bytes_ : 0;
}

std::size_t graph_tenancy::bytes_reached() const {
  const std::lock_guard lock{mutex_};
  return reached_ ? bytes_ : 0;
}

device_set graph_tenancy::devices_with(right needed) const {
  return needed == right::read ? readers_ : writers_;
}

std::shared_ptr<graph_memory> graph_memory::reserve(runtime& machine, const mem_pool& properties,
                                                    std::size_t bytes, std::uint64_t recorder) {
  auto tenant = std::make_shared<graph_tenancy>(machine, properties, bytes);
  auto made = std::make_shared<graph_memory>(tenant);
  tenant->owner_ = made;
  tenant->recorder_ = recorder;
  made->start_ = machine.addresses().place_block(tenant->device_, bytes, tenant, {},
                                                 memory_kind::graph_allocation);
  return made;
}

std::shared_ptr<graph_memory> graph_memory::at(const region& found) {
  return std::static_pointer_cast<graph_tenancy>(found.tenant)->owner_.lock();
}

graph_memory::graph_memory(std::shared_ptr<graph_tenancy> tenant) noexcept
    : tenant_{std::move(tenant)} {}

graph_memory::~graph_memory() {
  if (start_ == 0) return;
  runtime& machine = tenant_->machine_;
  if (order_checker* const checker = machine.checker()) checker->forget(start_, tenant_->bytes_);
  machine.addresses().free_allocation(memory_kind::graph_allocation, start_);
}

bool graph_memory::is_recorded_by(std::uint64_t recorder) const {
  const std::lock_guard lock{tenant_->mutex_};
  return tenant_->recorder_ == recorder;
}

void graph_memory::end_recording() {
  const std::lock_guard lock{tenant_->mutex_};
  tenant_->recorder_ = 0;
}

bool graph_memory::is_held() const {
  const std::lock_guard lock{tenant_->mutex_};
  return tenant_->held_;
}

void graph_memory::take() {
  const std::lock_guard lock{tenant_->mutex_};
  require(!tenant_->held_);
  if (tenant_->launches_ == 0) {
    tenant_->machine_.device(tenant_->device_).memory.take(tenant_->bytes_);
    tenant_->kept_ = shared_from_this();
  }
  ++tenant_->launches_;
  set_held(true);
}

void graph_memory::undo_take() {
  std::unique_lock lock{tenant_->mutex_};
  set_held(false);
  give_back(lock);
}

void graph_memory::drop() {
  const std::lock_guard lock{tenant_->mutex_};
  require(tenant_->held_);
  set_held(false);
}

void graph_memory::undo_drop() {
  const std::lock_guard lock{tenant_->mutex_};
  set_held(true);
}

void graph_memory::open() {
  const std::lock_guard lock{tenant_->mutex_};
  tenant_->reached_ = true;
}

void graph_memory::close() {
  std::unique_lock lock{tenant_->mutex_};
  tenant_->reached_ = false;
  madvise(pointer_to(start_), whole_pages(tenant_->bytes_), MADV_DONTNEED);
  give_back(lock);
}

void graph_memory::give_back(std::unique_lock<std::mutex>& lock) {
  if (--tenant_->launches_ != 0) return;
  tenant_->machine_.device(tenant_->device_).memory.give_back(tenant_->bytes_);
  // Perhaps the last owner, which takes this object along.
  const std::shared_ptr<graph_memory> last = std::move(tenant_->kept_);
  lock.unlock();
}

void graph_memory::set_held(bool held) {
  tenant_->held_ = held;
  tenant_->machine_.graphs().note_memory_held(held ? 1 : -1);
}

void free_graph_memory(const region& found) {
  const std::shared_ptr<graph_memory> memory = memory_at(found);
  memory->drop();
  memory->close();
}

hipError_t free_graph_memory(runtime& machine, const region& found, stream_queue& freeing) {
  const std::shared_ptr<graph_memory> memory = memory_at(found);
  memory->drop();
  try {
    return machine.submit(freeing, graph_memory_operation{memory, graph_memory_step::free},
                          completion::asynchronous);
  } catch (...) {
    memory->undo_drop();
    throw;
  }
}

}  // namespace hipvmm::host_provider
