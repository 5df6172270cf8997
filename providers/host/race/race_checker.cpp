// SPDX-License-Identifier: MIT
#include "race/race_checker.hpp"

#include <utility>

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

void race_checker::enter(const char* function) noexcept { current_function = function; }
void race_checker::suspend() noexcept { ++suspensions; }
void race_checker::resume() noexcept {
  if (suspensions != 0) --suspensions;
}

void race_checker::name(const stream_queue& stream, std::uint64_t handle) noexcept {
  const guard lock{mutex_};
  streams_.name(stream, handle);
}

void race_checker::retire(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  streams_.retire(stream);
}

void race_checker::overlook(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  streams_.overlook(stream);
}

race_checker::point race_checker::place(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  return std::make_shared<const race_clock>(streams_.place(stream));
}

race_checker::point race_checker::end_of(const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  return std::make_shared<const race_clock>(streams_.end_of(stream));
}

race_checker::point race_checker::end_of_device(int device) noexcept {
  const guard lock{mutex_};
  return std::make_shared<const race_clock>(streams_.end_of_device(device));
}

void race_checker::learn(const race_clock& finished) noexcept {
  const guard lock{mutex_};
  streams_.learn(finished);
}

void race_checker::follow(const stream_queue& stream, const race_clock& finished) noexcept {
  const guard lock{mutex_};
  streams_.follow(stream, finished);
}

void race_checker::await_value(const stream_queue& stream,
                               const value_wait_request& wait) noexcept {
  const guard lock{mutex_};
  values_.await(stream, wait, streams_);
}

void race_checker::write_value(const stream_queue& stream,
                               const value_write_request& write) noexcept {
  const guard lock{mutex_};
  values_.write(stream, write, streams_);
}

std::uint64_t race_checker::submit(const stream_queue& stream, operation& work) noexcept {
  const guard lock{mutex_};
  if (work.role() == operation_role::host_function) {
    work.set_before(std::make_shared<const race_clock>(streams_.place(stream)));
    return 0;
  }
  if (suspensions != 0 || work.role() == operation_role::order) return 0;
  const race_deed deed = next_deed(stream);
  class judge final : public use_visitor {
   public:
    judge(race_checker& checker, const race_deed& step, const stream_queue& in) noexcept
        : checker_{checker}, step_{step}, in_{in} {}
    void see(address start, std::size_t bytes, memory_use how, int device) override {
      checker_.use(step_, {start, start + bytes}, how, device, in_);
    }

   private:
    race_checker& checker_;
    const race_deed& step_;
    const stream_queue& in_;
  };
  judge each{*this, deed, stream};
  work.visit_uses(each);
  memory_.tidy({streams_, nullptr});
  return deed.count;
}

void race_checker::withdraw(const stream_queue& stream, std::uint64_t count) noexcept {
  const guard lock{mutex_};
  if (count != 0) memory_.forget({stream.number(), count, nullptr});
}

void race_checker::lend(const void* lender, address start, std::size_t bytes,
                        const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  memory_.lend(lender, {start, start + bytes}, next_deed(stream));
}

void race_checker::take_back(address start, std::size_t bytes,
                             const stream_queue* stream) noexcept {
  if (stream == nullptr) return end(start, bytes);
  const guard lock{mutex_};
  values_.forget(start, start + bytes);
  const race_deed deed = next_deed(*stream);
  report(memory_.take_back({start, start + bytes}, deed, {streams_, &streams_.place(*stream)}));
}

void race_checker::note_allocate(address start, std::size_t bytes,
                                 const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  const race_deed deed = next_deed(stream);
  report(memory_.allocate({start, start + bytes}, deed, {streams_, &streams_.place(stream)}));
}

bool race_checker::note_deallocate(address start, std::size_t bytes,
                                   const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  const race_deed deed = next_deed(stream);
  const race_view view{streams_, &streams_.place(stream)};
  std::optional<race_memory::findings> found =
      memory_.deallocate({start, start + bytes}, deed, &view);
  if (!found) return false;
  report(*std::move(found));
  return true;
}

void race_checker::note_allocate(address start, std::size_t bytes) noexcept {
  const guard lock{mutex_};
  report(memory_.allocate({start, start + bytes}, {0, 0, host_origin()}, {streams_, nullptr}));
}

bool race_checker::note_deallocate(address start, std::size_t bytes) noexcept {
  const guard lock{mutex_};
  std::optional<race_memory::findings> found =
      memory_.deallocate({start, start + bytes}, {0, 0, host_origin()}, nullptr);
  if (!found) return false;
  report(*std::move(found));
  return true;
}

void race_checker::note_return(address start, std::size_t bytes) noexcept {
  const guard lock{mutex_};
  memory_.return_below({start, start + bytes});
}

void race_checker::note_use(address start, std::size_t bytes, memory_use how,
                            const stream_queue& stream) noexcept {
  const guard lock{mutex_};
  if (suspensions != 0) return;
  use(next_deed(stream), {start, start + bytes}, how, stream.device(), stream);
  memory_.tidy({streams_, nullptr});
}

void race_checker::forget(address start, std::size_t bytes) noexcept {
  const guard lock{mutex_};
  values_.forget(start, start + bytes);
  static_cast<void>(
      memory_.end({start, start + bytes}, host_that_takes_away(), {streams_, nullptr}));
}

void race_checker::end(address start, std::size_t bytes) noexcept {
  const guard lock{mutex_};
  values_.forget(start, start + bytes);
  report(memory_.end({start, start + bytes}, host_that_takes_away(), {streams_, nullptr}));
}

void race_checker::revoke(address start, std::size_t bytes, const access_change& change) noexcept {
  const guard lock{mutex_};
  report(
      memory_.revoke({start, start + bytes}, change, host_that_takes_away(), {streams_, nullptr}));
}

void race_checker::revoke(const void* lender, const access_change& change) noexcept {
  const guard lock{mutex_};
  report(memory_.revoke(lender, change, host_that_takes_away(), {streams_, nullptr}));
}

std::uint64_t race_checker::reports() const noexcept {
  const guard lock{mutex_};
  return reports_.count();
}

std::string race_checker::last_report() const {
  const guard lock{mutex_};
  return reports_.last();
}

void race_checker::clear_reports() noexcept {
  const guard lock{mutex_};
  reports_.clear();
}

std::shared_ptr<const race_origin> race_checker::origin_on(const stream_queue& stream) {
  return std::make_shared<const race_origin>(current_function, streams_.describe(stream),
                                             race_stack::capture());
}

std::shared_ptr<const race_origin> race_checker::host_origin() {
  return std::make_shared<const race_origin>(current_function, std::nullopt, race_stack::capture());
}

race_party race_checker::host_that_takes_away() { return {host_origin(), race_part::takes_away}; }

race_deed race_checker::next_deed(const stream_queue& stream) {
  static_cast<void>(streams_.place(stream));
  return {stream.number(), streams_.advance(stream), origin_on(stream)};
}

void race_checker::use(const race_deed& deed, race_range bytes, memory_use how, int device,
                       const stream_queue& stream) {
  if (how == memory_use::write) values_.forget(bytes.start, bytes.end);
  report(memory_.use(bytes, {deed, how, device}, {streams_, &streams_.place(stream)}));
}

std::string race_checker::place_of(address at) const {
  const std::optional<tracked_range> found = addresses_.find(at);
  if (!found) return {};
  return "at offset " + std::to_string(at - found->start) + " of " + std::to_string(found->bytes) +
         " bytes of " + kind_name(found->kind) + " of device " + std::to_string(found->device);
}

void race_checker::report(race_memory::findings found) {
  if (suspensions != 0) return;
  for (race_finding& each : found) {
    if (!reports_.is_new(each)) continue;
    const std::string around = place_of(each.start);
    if (!each.place.empty() && !around.empty()) each.place += ", ";
    each.place += around;
    if (each.place.empty()) each.place = "in memory that is no longer there";
    reports_.add(each);
  }
}

}  // namespace hipvmm::host_provider
