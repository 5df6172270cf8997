// SPDX-License-Identifier: MIT
#include "stream/operations.hpp"

#include "stream/stream_owner.hpp"

namespace hipvmm::host_provider {
namespace {

void show(use_visitor& visitor, const endpoint& side, memory_use how, std::size_t bytes,
          const piece_grid& pieces) {
  if (side.where == memory_class::pageable) return;
  for_each_piece(pieces, [&](std::size_t row, std::size_t slice) {
    visitor.see(side.at_piece(row, slice).start, bytes, how, side.device);
  });
}

}  // namespace

hipError_t wait_operation::execute(stream_queue& /*in*/) const {
  awaited_.wait();
  return hipSuccess;
}

hipError_t host_operation::execute(stream_queue& in) const {
  if (before_ != nullptr) in.owner().observer()->learn(*before_);
  const hipError_t status = in.peek_error();
  const stream_queue::host_function_mark inside;
  if (function_ != nullptr) {
    function_(user_data_);
  } else {
    callback_(stream_, status, user_data_);
  }
  return hipSuccess;
}

std::optional<graph_form> host_operation::recorded() const {
  // A callback gets the state of its stream, which a node does not have.
  if (function_ == nullptr) return std::nullopt;
  return graph_form{std::make_shared<const host_operation>(*this), hipGraphNodeTypeHost};
}

hipError_t copy_operation::execute(stream_queue& /*in*/) const { return perform(by_, what_); }

std::optional<graph_form> copy_operation::recorded() const {
  // Pageable memory is read and written when the node runs.
  return graph_form{
      std::make_shared<const copy_operation>(
          copy_request{what_.destination, what_.source, what_.bytes, what_.pieces}, by_),
      hipGraphNodeTypeMemcpy};
}

void copy_operation::visit_uses(use_visitor& visitor) const {
  show(visitor, what_.source, memory_use::read, what_.bytes, what_.pieces);
  show(visitor, what_.destination, memory_use::write, what_.bytes, what_.pieces);
}

hipError_t fill_operation::execute(stream_queue& /*in*/) const { return perform(by_, what_); }

std::optional<graph_form> fill_operation::recorded() const {
  return graph_form{std::make_shared<const fill_operation>(*this), hipGraphNodeTypeMemset};
}

void fill_operation::visit_uses(use_visitor& visitor) const {
  show(visitor, what_.destination, memory_use::write, what_.count * what_.width, what_.pieces);
}

hipError_t prefetch_operation::execute(stream_queue& /*in*/) const { return perform(what_); }

void prefetch_operation::visit_uses(use_visitor& visitor) const {
  visitor.see(what_.start, what_.bytes, memory_use::prefetch, what_.place);
}

hipError_t value_wait_operation::execute(stream_queue& /*in*/) const { return perform(by_, what_); }

hipError_t value_write_operation::execute(stream_queue& /*in*/) const {
  return perform(by_, what_);
}

hipError_t shared_mark_operation::execute(stream_queue& /*in*/) const {
  event_->reach(number_);
  return hipSuccess;
}

hipError_t shared_wait_operation::execute(stream_queue& /*in*/) const {
  return event_->wait(number_);
}

}  // namespace hipvmm::host_provider
