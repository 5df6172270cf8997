// SPDX-License-Identifier: MIT
#include "order_checker.hpp"

#include <utility>
#include <variant>

#include "graph.hpp"
#include "runtime.hpp"

namespace hipvmm::host_provider {
namespace {

thread_local const char* current_function = "";
thread_local unsigned suspensions = 0;

const char* kind_name(memory_kind kind) noexcept {
  switch (kind) {
    case memory_kind::mapping:
      return "a mapping";
    case memory_kind::device_allocation:
      return "hipMalloc memory";
    case memory_kind::host_allocation:
      return "hipHostMalloc memory";
    case memory_kind::managed_allocation:
      return "managed memory";
    case memory_kind::imported_allocation:
      return "memory of another process";
    case memory_kind::pool_block:
      return "memory of a pool";
    case memory_kind::graph_allocation:
      return "memory of a graph";
    case memory_kind::registration:
      break;
  }
  return "registered host memory";
}

}  // namespace

void order_checker::enter(const char* function) noexcept { current_function = function; }
void order_checker::suspend() noexcept { ++suspensions; }
void order_checker::resume() noexcept {
  if (suspensions != 0) --suspensions;
}

void order_checker::name(const stream_queue& stream, std::uint64_t handle) noexcept {
  const guard lock{mutex_};
  streams_.name(stream, handle);
}

void order_checker::retire(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  streams_.retire(stream);
}

void order_checker::overlook(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  streams_.overlook(stream);
}

order_checker::point order_checker::place(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  return std::make_shared<const order_clock>(streams_.place(stream));
}

order_checker::point order_checker::end_of(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  return std::make_shared<const order_clock>(streams_.end_of(stream));
}

order_checker::point order_checker::end_of_device(int device) noexcept {
  const guard lock{mutex_};
  return std::make_shared<const order_clock>(streams_.end_of_device(device));
}

void order_checker::learn(const order_clock& finished) noexcept {
  const guard lock{mutex_};
  streams_.learn(finished);
}

void order_checker::follow(const stream_queue& stream, const order_clock& finished) noexcept {
  const guard lock{mutex_};
  streams_.follow(stream, finished);
}

void order_checker::await_value(const stream_queue& stream,
                                const value_wait_operation& wait) noexcept {
  const guard lock{mutex_};
  values_.await(stream, wait, streams_);
}

void order_checker::write_value(const stream_queue& stream,
                                const value_write_operation& write) noexcept {
  const guard lock{mutex_};
  values_.write(stream, write, streams_);
}

std::uint64_t order_checker::submit(const stream_queue& stream, operation& work) noexcept {
  const guard lock{mutex_};
  if (auto* const host = std::get_if<host_operation>(&work)) {
    host->seen = std::make_shared<const order_clock>(streams_.place(stream));
    return 0;
  }
  const bool is_order_only = std::holds_alternative<wait_operation>(work) ||
                             std::holds_alternative<shared_wait_operation>(work) ||
                             std::holds_alternative<shared_mark_operation>(work) ||
                             std::holds_alternative<value_wait_operation>(work) ||
                             std::holds_alternative<value_write_operation>(work);
  if (suspensions != 0 || is_order_only) return 0;
  const order_deed deed = next_deed(stream);
  const auto touch = [&](const endpoint& side, order_use how, std::size_t bytes) {
    // Pageable memory is the program's own, and is read or written before the call returns.
    if (side.where == memory_class::pageable) return;
    use(deed, {side.start, side.start + bytes}, how, side.device, stream);
  };
  const auto judge = [&](const operation& step) {
    if (const auto* const copy = std::get_if<copy_operation>(&step)) {
      touch(copy->source, order_use::read, copy->bytes);
      touch(copy->destination, order_use::write, copy->bytes);
    } else if (const auto* const fill = std::get_if<fill_operation>(&step)) {
      touch(fill->destination, order_use::write, fill->count * fill->width);
    } else if (const auto* const fetch = std::get_if<prefetch_operation>(&step)) {
      use(deed, {fetch->start, fetch->start + fetch->bytes}, order_use::prefetch, fetch->place,
          stream);
    }
  };
  if (const auto* const graph = std::get_if<graph_operation>(&work)) {
    for (const graph_work& each : graph->program->steps) judge(operation_of(each));
  } else {
    judge(work);
  }
  memory_.tidy({streams_, nullptr});
  return deed.count;
}

void order_checker::withdraw(const stream_queue& stream, std::uint64_t count) noexcept {
  const guard lock{mutex_};
  if (count != 0) memory_.forget({stream.number(), count, nullptr});
}

void order_checker::lend(const mem_pool& pool, address start, std::size_t bytes,
                         const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  memory_.lend(&pool, {start, start + bytes}, next_deed(stream));
}

void order_checker::take_back(address start, std::size_t bytes,
                              const stream_queue* stream) noexcept {
  if (stream == nullptr) return end(start, bytes);
  const guard lock{mutex_};
  const order_deed deed = next_deed(*stream);
  report(memory_.take_back({start, start + bytes}, deed, {streams_, &streams_.place(*stream)}));
}

void order_checker::note_allocate(address start, std::size_t bytes,
                                  const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  const order_deed deed = next_deed(stream);
  report(memory_.allocate({start, start + bytes}, deed, {streams_, &streams_.place(stream)}));
}

bool order_checker::note_deallocate(address start, std::size_t bytes,
                                    const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  const order_deed deed = next_deed(stream);
  std::optional<order_memory::findings> found =
      memory_.deallocate({start, start + bytes}, deed, {streams_, &streams_.place(stream)});
  if (!found) return false;
  report(*std::move(found));
  return true;
}

void order_checker::forget(address start, std::size_t bytes) noexcept {
  const guard lock{mutex_};
  static_cast<void>(
      memory_.end({start, start + bytes}, host_that_takes_away(), {streams_, nullptr}));
}

void order_checker::end(address start, std::size_t bytes) noexcept {
  const guard lock{mutex_};
  report(memory_.end({start, start + bytes}, host_that_takes_away(), {streams_, nullptr}));
}

void order_checker::revoke(address start, std::size_t bytes, const access_change& change) noexcept {
  const guard lock{mutex_};
  report(
      memory_.revoke({start, start + bytes}, change, host_that_takes_away(), {streams_, nullptr}));
}

void order_checker::revoke(const mem_pool& pool, const access_change& change) noexcept {
  const guard lock{mutex_};
  report(memory_.revoke(&pool, change, host_that_takes_away(), {streams_, nullptr}));
}

std::uint64_t order_checker::reports() const noexcept {
  const guard lock{mutex_};
  return reports_.count();
}

std::string order_checker::last_report() const {
  const guard lock{mutex_};
  return reports_.last();
}

void order_checker::clear_reports() noexcept {
  const guard lock{mutex_};
  reports_.clear();
}

std::shared_ptr<const order_origin> order_checker::origin_on(const stream_queue& stream) {
  return std::make_shared<const order_origin>(current_function, streams_.describe(stream),
                                              order_stack::capture());
}

order_party order_checker::host_that_takes_away() {
  return {
      std::make_shared<const order_origin>(current_function, std::nullopt, order_stack::capture()),
      order_part::takes_away};
}

order_deed order_checker::next_deed(const stream_queue& stream) {
  static_cast<void>(streams_.place(stream));
  return {stream.number(), streams_.advance(stream), origin_on(stream)};
}

void order_checker::use(const order_deed& deed, order_range bytes, order_use how, int device,
                        const stream_queue& stream) {
  report(memory_.use(bytes, {deed, how, device}, {streams_, &streams_.place(stream)}));
}

std::string order_checker::place_of(address at) const {
  const std::optional<region> found = machine_.addresses().find(at);
  if (!found) return {};
  return "at offset " + std::to_string(at - found->start) + " of " + std::to_string(found->bytes) +
         " bytes of " + kind_name(found->kind) + " of device " + std::to_string(found->device);
}

void order_checker::report(order_memory::findings found) {
  if (suspensions != 0) return;
  for (order_finding& each : found) {
    if (!reports_.is_new(each)) continue;
    const std::string around = place_of(each.start);
    if (!each.place.empty() && !around.empty()) each.place += ", ";
    each.place += around;
    if (each.place.empty()) each.place = "in memory that is no longer there";
    reports_.add(each);
  }
}

}  // namespace hipvmm::host_provider
