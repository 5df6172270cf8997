// SPDX-License-Identifier: MIT
#include "src/queue/queue.hpp"

#include <cstdlib>
#include <cstring>

#include <hsa/hsa_ext_amd.h>

#include "src/base/clock.hpp"
#include "src/base/gate.hpp"
#include "src/base/lifetime.hpp"
#include "src/base/report.hpp"
#include "src/kernel/blit_kernels.hpp"
#include "src/kernel/kernels.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/device_view.hpp"
#include "src/signal/signal_wait.hpp"

namespace stand_in {
namespace {

constexpr std::uint64_t packet_bytes = 64;
std::atomic<std::uint64_t> next_id{0};

int type_of(const unsigned char* packet) {
  return __atomic_load_n(reinterpret_cast<const std::uint16_t*>(packet), __ATOMIC_ACQUIRE) & 0xff;
}

void invalidate(unsigned char* packet) {
  __atomic_store_n(reinterpret_cast<std::uint16_t*>(packet),
                   static_cast<std::uint16_t>(HSA_PACKET_TYPE_INVALID), __ATOMIC_RELEASE);
}

template <class Packet>
const Packet& as(const unsigned char* packet) {
  return *reinterpret_cast<const Packet*>(packet);
}

}  // namespace

queue::queue(agent& on, std::uint32_t packets, hsa_queue_type32_t type)
    : on_(on),
      block_(static_cast<queue_block*>(std::aligned_alloc(64, round_up(sizeof(queue_block), 64)))),
      doorbell_(create_signal(0)) {
  const std::uint64_t ring_bytes = round_up(packets * packet_bytes, page_bytes);
  auto* const ring = static_cast<unsigned char*>(std::aligned_alloc(page_bytes, ring_bytes));
  std::memset(ring, 0, ring_bytes);
  for (std::uint32_t i = 0; i < packets; ++i) invalidate(ring + i * packet_bytes);
  std::memset(static_cast<void*>(block_), 0, sizeof *block_);
  block_->self = this;
  hsa_queue_t& shared = block_->shared.hsa_queue;
  shared.type = type;
  shared.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
  shared.base_address = ring;
  shared.size = packets;
  shared.id = next_id.fetch_add(1);
  shared.doorbell_signal = doorbell_;
  amd_signal_t& bell = signal_of(doorbell_)->shared;
  bell.kind = AMD_SIGNAL_KIND_DOORBELL;
  bell.queue_ptr = &block_->shared;
  thread_ = std::thread([this] { serve(); });
  list();
}

queue::~queue() {
  unlist();
  stop_ = true;
  { std::lock_guard guard(wake_lock_); }
  wake_.notify_all();
  wake_waiters();
  wake_gates();
  thread_.join();
  std::free(block_->shared.hsa_queue.base_address);
  destroy_signal(doorbell_);
  std::free(block_);
}

queue* queue::of(const hsa_queue_t* handle) {
  return reinterpret_cast<const queue_block*>(handle)->self;
}

queue* queue::of_doorbell(hsa_signal_t doorbell) {
  return reinterpret_cast<queue_block*>(signal_of(doorbell)->shared.queue_ptr)->self;
}

std::uint64_t queue::read_index() const {
  return __atomic_load_n(&block_->shared.read_dispatch_id, __ATOMIC_ACQUIRE);
}

std::uint64_t queue::write_index() const {
  return __atomic_load_n(&block_->shared.write_dispatch_id, __ATOMIC_ACQUIRE);
}

std::uint64_t queue::add_write_index(std::uint64_t packets) {
  return __atomic_fetch_add(&block_->shared.write_dispatch_id, packets, __ATOMIC_SEQ_CST);
}

void queue::ring() {
  { std::lock_guard guard(wake_lock_); }
  wake_.notify_one();
}

queue::packet queue::slot(std::uint64_t index) const {
  const hsa_queue_t& shared = block_->shared.hsa_queue;
  return static_cast<packet>(shared.base_address) + (index & (shared.size - 1)) * packet_bytes;
}

operation queue::describe_packet(std::uint64_t index, std::string name) const {
  return {&on_, std::move(name),
          text("packet %llu of queue %llu", wide(index), wide(block_->shared.hsa_queue.id)),
          &stop_};
}

bool queue::wait_for_packet(packet at) {
  const auto ready = [&] { return type_of(at) != HSA_PACKET_TYPE_INVALID; };
  if (ready()) return true;
  std::unique_lock guard(wake_lock_);
  wake_.wait(guard, [&] { return stop_ || ready(); });
  return !stop_;
}

void queue::dispatch(std::uint64_t index, const hsa_kernel_dispatch_packet_t& kernel) {
  const auto which = kernel_of(kernel.kernel_object);
  if (which == nullptr) {
    report(text("packet %llu of queue %llu on %s dispatches 0x%llx, where no kernel is loaded.",
                wide(index), wide(block_->shared.hsa_queue.id), describe(on_).c_str(),
                wide(kernel.kernel_object)));
    return;
  }
  const operation what = describe_packet(index, describe_kernel(*which));
  const device_view memory(what);
  std::vector<unsigned char> bytes(argument_values::bytes_of(*which));
  memory.read(bytes.data(), address_of(kernel.kernarg_address), bytes.size());
  const argument_values values(*which, std::move(bytes));
  run_kernel(*which, values, memory);
  log("%s: %s", describe(what).c_str(), "done");
}

bool queue::process(std::uint64_t index, packet at, hsa_signal_t& done) {
  switch (type_of(at)) {
    case HSA_PACKET_TYPE_BARRIER_AND: {
      const auto& barrier = as<hsa_barrier_and_packet_t>(at);
      done = barrier.completion_signal;
      return wait_for_all_zero(barrier.dep_signal, 5, &stop_);
    }
    case HSA_PACKET_TYPE_BARRIER_OR: {
      const auto& barrier = as<hsa_barrier_or_packet_t>(at);
      done = barrier.completion_signal;
      return wait_for_any_zero(barrier.dep_signal, 5, &stop_);
    }
    case HSA_PACKET_TYPE_KERNEL_DISPATCH: {
      const auto& kernel = as<hsa_kernel_dispatch_packet_t>(at);
      done = kernel.completion_signal;
      dispatch(index, kernel);
      return true;
    }
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC: {
      const auto& barrier = as<hsa_amd_barrier_value_packet_t>(at);
      done = barrier.completion_signal;
      if (barrier.header.AmdFormat != HSA_AMD_PACKET_TYPE_BARRIER_VALUE) break;
      if (barrier.signal.handle == 0) return true;
      const auto ready = [&] {
        return condition_holds(static_cast<hsa_signal_condition_t>(barrier.cond),
                               load_signal(barrier.signal) & barrier.mask, barrier.value);
      };
      return wait_for_signal(barrier.signal, ready, 0, &stop_);
    }
    default:
      break;
  }
  give_up(text("packet %llu of queue %llu has type %d, which the stand-in does not know",
               wide(index), wide(block_->shared.hsa_queue.id), type_of(at)));
}

void queue::serve() {
  for (;;) {
    const std::uint64_t index = read_index();
    const packet at = slot(index);
    if (!wait_for_packet(at) || !pass_gate(on_.index, &stop_)) return;
    const std::uint64_t start = now();
    hsa_signal_t done{0};
    if (!process(index, at, done)) return;
    {
      std::lock_guard guard(progress_);
      invalidate(at);
      __atomic_store_n(&block_->shared.read_dispatch_id, index + 1, __ATOMIC_RELEASE);
    }
    complete_signal(done, start, now());
  }
}

void queue::visit_unfinished(const visitor& visit) {
  std::lock_guard guard(progress_);
  const std::uint64_t end = write_index();
  for (std::uint64_t index = read_index(); index < end; ++index) {
    const packet at = slot(index);
    if (type_of(at) != HSA_PACKET_TYPE_KERNEL_DISPATCH) continue;
    const auto& kernel = as<hsa_kernel_dispatch_packet_t>(at);
    const auto which = kernel_of(kernel.kernel_object);
    if (which == nullptr) continue;
    std::vector<unsigned char> bytes(argument_values::bytes_of(*which));
    const std::uint64_t from = address_of(kernel.kernarg_address);
    auto& allocations = addresses().allocations;
    const auto segment = containing(allocations, from);
    if (segment == allocations.end()) continue;
    const std::uint64_t offset = from - segment->first;
    if (segment->second.memory->bytes - offset < bytes.size()) continue;
    std::memcpy(bytes.data(), segment->second.memory->at + offset, bytes.size());
    const operation what = describe_packet(index, describe_kernel(*which));
    const argument_values values(*which, std::move(bytes));
    visit(what, {"arguments", from, argument_values::bytes_of(*which)});
    for (const byte_range& range : ranges_of_kernel(*which, values)) visit(what, range);
  }
}

}  // namespace stand_in
