// SPDX-License-Identifier: MIT
#include "graph/graph_memory.hpp"

#include <sys/mman.h>

#include <utility>

#include "base/failure.hpp"
#include "core/hip_compat.hpp"
#include "memory/tracked_range.hpp"
#include "race/race_checker.hpp"
#include "stream/stream_owner.hpp"

namespace hipvmm::host_provider {
namespace {

std::shared_ptr<graph_memory> memory_at(const tracked_range& found) {
  std::shared_ptr<graph_memory> memory = graph_memory::at(found);
  require(memory != nullptr);
  return memory;
}

}  // namespace

graph_tenancy::graph_tenancy(const graph_memory_support& support, const graph_memory_place& place,
                             std::size_t bytes)
    : support_{support}, place_{place}, bytes_{bytes} {}

std::size_t graph_tenancy::bytes_held() const {
  const std::lock_guard lock{mutex_};
  return held_ || recorder_ != 0 ? bytes_ : 0;
}

std::size_t graph_tenancy::bytes_reached() const {
  const std::lock_guard lock{mutex_};
  return reached_ ? bytes_ : 0;
}

device_set graph_tenancy::devices_with(right needed) const {
  return needed == right::read ? place_.readers : place_.writers;
}

std::shared_ptr<graph_memory> graph_memory::reserve(const graph_memory_support& support,
                                                    const graph_memory_place& place,
                                                    std::size_t bytes, std::uint64_t recorder) {
  auto tenant = std::make_shared<graph_tenancy>(support, place, bytes);
  auto made = std::make_shared<graph_memory>(tenant);
  tenant->owner_ = made;
  tenant->recorder_ = recorder;
  made->start_ =
      support.addresses.place_block(place.device, bytes, tenant, {}, memory_kind::graph_allocation);
  return made;
}

std::shared_ptr<graph_memory> graph_memory::at(const tracked_range& found) {
  return std::static_pointer_cast<graph_tenancy>(found.tenant)->owner_.lock();
}

graph_memory::graph_memory(std::shared_ptr<graph_tenancy> tenant) noexcept
    : tenant_{std::move(tenant)} {}

graph_memory::~graph_memory() {
  if (start_ == 0) return;
  const graph_memory_support& support = tenant_->support_;
  if (support.checker != nullptr) support.checker->forget(start_, tenant_->bytes_);
  support.addresses.free_allocation(memory_kind::graph_allocation, start_);
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
    tenant_->place_.memory.charge(tenant_->bytes_);
    tenant_->kept_ = shared_from_this();
  }
  ++tenant_->launches_;
  set_held(true);
}

void graph_memory::undo_take() {
  std::unique_lock lock{tenant_->mutex_};
  set_held(false);
  end_launch(lock);
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
  end_launch(lock);
}

void graph_memory::end_launch(std::unique_lock<std::mutex>& lock) {
  if (--tenant_->launches_ != 0) return;
  tenant_->place_.memory.release(tenant_->bytes_);
  // Perhaps the last owner, which takes this object along.
  const std::shared_ptr<graph_memory> last = std::move(tenant_->kept_);
  lock.unlock();
}

void graph_memory::set_held(bool held) {
  tenant_->held_ = held;
  tenant_->support_.count.note(held ? 1 : -1);
}

hipError_t graph_memory_operation::execute(stream_queue& /*in*/) const {
  if (step_ == graph_memory_step::allocate) {
    memory_->open();
  } else {
    memory_->close();
  }
  return hipSuccess;
}

graph_form graph_memory_node(std::shared_ptr<graph_memory> memory, graph_memory_step step) {
  return {std::make_shared<const graph_memory_operation>(std::move(memory), step),
          step == graph_memory_step::allocate ? hip_compat::graph_node_type_mem_alloc
                                              : hip_compat::graph_node_type_mem_free};
}

void free_graph_memory(const tracked_range& found) {
  const std::shared_ptr<graph_memory> memory = memory_at(found);
  memory->drop();
  memory->close();
}

hipError_t free_graph_memory(stream_owner& owner, const tracked_range& found,
                             stream_queue& freeing) {
  const std::shared_ptr<graph_memory> memory = memory_at(found);
  memory->drop();
  try {
    return owner.submit(freeing, graph_memory_operation{memory, graph_memory_step::free},
                        completion::asynchronous);
  } catch (...) {
    memory->undo_drop();
    throw;
  }
}

}  // namespace hipvmm::host_provider
