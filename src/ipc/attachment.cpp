// SPDX-License-Identifier: MIT
#include "ipc/attachment.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "ipc/block_mirror.hpp"
#include "ipc/identity.hpp"

namespace hipvmm::detail {
namespace {

using clock = std::chrono::steady_clock;

// A reply has a packet for at most 16 chunks; one that never ends is none.
constexpr std::size_t most_packets = 1U << 16U;
// How often one refresh asks again because the owner has announced meanwhile.
constexpr int most_rounds = 16;

access_list rights_of(const std::vector<device_ref>& devices, const attach_options& options) {
  std::vector<access_desc> all = options.peers.entries();
  for (const device_ref each : devices) all.push_back({each, options.right});
  return access_list{std::move(all)};
}

/// A region that makes no chunks: the stripes say which devices' chunks it takes.
chunk_placement placement_on(const std::vector<device_ref>& devices, std::size_t granule) {
  return devices.size() == 1 ? chunk_placement{} : chunk_placement::striped(devices, granule);
}

}  // namespace

attachment::attachment(const std::string& path, const attach_options& options,
                       const published_elements& elements)
    : path_{path}, options_{options} {
  const deadline until = deadline_in(options_.timeout);
  connect(until);
  welcome(elements, until);
  const device_ref device = devices_.front();
  memory_.emplace(reserve_mirror(device, shape_.max_bytes, rights_of(devices_, options_),
                                 "an importer reserves all addresses that the owner of " + path_ +
                                     " may fill: let it publish with a smaller max_bytes",
                                 placement_on(devices_, shape_.granularity)));
  const stream own{device};
  refresh(own, until);
}

void attachment::connect(deadline until) {
  for (;;) {
    connection made = connect_to(path_);
    if (made.state == listener_state::answered) {
      socket_ = std::move(made.socket);
      break;
    }
    if (made.state == listener_state::absent)
      throw ipc_error{ipc_failure::closed,
                      "nobody publishes at " + path_ + ": start the owner first"};
    if (clock::now() >= until)
      throw ipc_error{ipc_failure::timeout, "the owner of " + path_ + " accepts no connection"};
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  require_user(credentials_of(socket_.get()), options_.other_users);
}

void attachment::welcome(const published_elements& elements, deadline until) {
  const build_identity own = own_identity();
  // Where the owner refuses at once, its sentence can still be read.
  static_cast<void>(send(hello_packet{own}, until));
  std::optional<received_packet> answer = receive(until);
  if (!answer)
    throw ipc_error{ipc_failure::closed, "the owner of " + path_ + " closed the connection"};
  const auto* const found = std::get_if<welcome_packet>(&answer->content);
  if (found == nullptr) throw_malformed("its first packet is no welcome");
  if (std::string why = why_refused(found->identity, own); !why.empty())
    throw ipc_error{ipc_failure::refused, path_ + ": " + why};
  shape_ = found->shape;
  const published_elements theirs{shape_.element_size, shape_.element_align, shape_.element_tag};
  if (elements.size != 0 && theirs != elements)
    throw ipc_error{ipc_failure::refused,
                    path_ + " publishes elements of " + std::to_string(theirs.size) +
                        " bytes, alignment " + std::to_string(theirs.align) + ", tag " +
                        std::to_string(theirs.tag) + ", and this process asked for " +
                        std::to_string(elements.size) + ", " + std::to_string(elements.align) +
                        ", " + std::to_string(elements.tag)};
  devices_ = devices_here(*found);
  state_.emplace(answer->descriptors.front().get());
}

std::vector<device_ref> attachment::devices_here(const welcome_packet& from) const {
  const std::vector<device_ref>& chosen = options_.other_devices;
  if (!chosen.empty() && chosen.size() != from.other_devices.size())
    throw std::invalid_argument{"attach_options::other_devices names " +
                                std::to_string(chosen.size()) + " devices, and the memory at " +
                                path_ + " is of " + std::to_string(from.other_devices.size()) +
                                " besides the first"};
  const auto find = [this](const std::optional<device_ref>& named, const device_uuid& uuid) {
    if (named) {
      require_device(*named);
      return *named;
    }
    if (const std::optional<device_ref> found = device_with_uuid(uuid); found) return *found;
    throw std::invalid_argument{
        "the memory at " + path_ + " is of device " + to_string(uuid) +
        ", which this process does not see: make it visible (HIP_VISIBLE_DEVICES), or name it by "
        "attach_options::device and other_devices where HIP reports no UUIDs"};
  };
  std::vector<device_ref> result{find(options_.device, device_uuid{from.shape.device})};
  for (std::size_t i = 0; i < from.other_devices.size(); ++i)
    result.push_back(find(chosen.empty() ? std::nullopt : std::optional{chosen[i]},
                          device_uuid{from.other_devices[i]}));
  return result;
}

void attachment::throw_malformed(const std::string& what) const {
  throw ipc_error{ipc_failure::malformed,
                  "the owner of " + path_ + " does not keep to the protocol: " + what};
}

bool attachment::send(const packet& content, deadline until) {
  for (;;) {
    switch (send_packet(socket_.get(), content)) {
      case transfer_result::done:
        return true;
      case transfer_result::closed:
        return false;
      case transfer_result::would_block:
        break;
    }
    if (!wait_writable(socket_.get(), until))
      throw ipc_error{ipc_failure::timeout, "the owner of " + path_ + " does not read"};
  }
}

std::optional<received_packet> attachment::receive(deadline until) {
  received_packet next;
  for (;;) {
    const transfer_result result = receive_packet(socket_.get(), next);
    if (result == transfer_result::closed) return std::nullopt;
    if (result == transfer_result::done) break;
    if (!wait_readable(socket_.get(), until))
      throw ipc_error{ipc_failure::timeout, "the owner of " + path_ + " did not answer within " +
                                                std::to_string(options_.timeout.count()) + " ms"};
  }
  if (const auto* const refused = std::get_if<refusal_packet>(&next.content))
    throw ipc_error{ipc_failure::refused, "the owner of " + path_ + " refuses: " + refused->text};
  return next;
}

void attachment::require_sane(const chunk_record& place) const {
  if (place.offset % shape_.granularity == 0 && place.bytes % shape_.granularity == 0 &&
      place.offset < shape_.max_bytes && place.bytes <= shape_.max_bytes - place.offset &&
      place.device < devices_.size())
    return;
  throw_malformed("a chunk of " + std::to_string(place.bytes) + " bytes at offset " +
                  std::to_string(place.offset) + " is outside of " +
                  std::to_string(shape_.max_bytes) +
                  " bytes, no whole granules, or of no device that was named");
}

bool attachment::fetch(stream_ref stream, deadline until) {
  // Where the owner has closed, its last words can still be read.
  if (send(request_packet{++ticket_, epoch_}, until)) must_acknowledge_ = false;
  bool has_begun = false;
  std::optional<std::set<std::uint64_t>> present;
  for (std::size_t packets = 0; packets < most_packets; ++packets) {
    std::optional<received_packet> next = receive(until);
    if (!next) return false;
    if (const auto* const answer = std::get_if<answer_packet>(&next->content)) {
      has_begun = answer->ticket == ticket_;
      continue;
    }
    if (const auto* const late = std::get_if<expired_packet>(&next->content))
      let_go(late->text, stream);
    // Of the answer to a request that was given up: this one says all of it again, as it is now.
    if (!has_begun) continue;
    if (const auto* const there = std::get_if<present_packet>(&next->content)) {
      if (!present) present.emplace();
      for (const chunk_record& each : there->chunks) present->insert(each.serial);
      continue;
    }
    if (present) withdraw_others(*std::exchange(present, std::nullopt), stream);
    if (const auto* const chunks = std::get_if<chunk_packet>(&next->content)) {
      for (std::size_t i = 0; i < chunks->chunks.size(); ++i)
        add(chunks->chunks[i], std::move(next->descriptors[i]));
    } else if (const auto* const gone = std::get_if<retired_packet>(&next->content)) {
      std::vector<std::uint64_t> serials;
      for (const chunk_record& each : gone->chunks) serials.push_back(each.serial);
      withdraw(serials, stream);
    } else if (const auto* const complete = std::get_if<complete_packet>(&next->content)) {
      epoch_ = complete->epoch;
      return true;
    } else {
      throw_malformed("it sends a packet that answers nothing");
    }
  }
  throw_malformed("its answer does not end");
}

void attachment::withdraw(const std::vector<std::uint64_t>& serials, stream_ref stream) {
  // The owner waits to hear of those too that are not here.
  must_acknowledge_ = true;
  bool has_waited = false;
  for (const std::uint64_t serial : serials) {
    const auto found = mapped_.find(serial);
    if (found == mapped_.end()) continue;
    if (!std::exchange(has_waited, true)) stream.synchronize();
    const chunk_record place = found->second;
    for (byte_range* const each : {&readable_, &next_}) {
      // No byte from here on is known to be there, unless the chunk was erased at the front.
      if (place.offset + place.bytes > each->begin) *each = each->within(each->begin, place.offset);
    }
    memory_->decommit(place.offset, place.bytes);
    mapped_.erase(found);
  }
}

void attachment::let_go(const std::string& why, stream_ref stream) {
  why_expired_ = path_ + ": " + why;
  socket_ = {};
  readable_ = {};
  unmap_expired(stream);
}

void attachment::unmap_expired(stream_ref stream) {
  withdraw_others({}, stream);
  throw ipc_error{ipc_failure::expired, std::exchange(why_expired_, {})};
}

void attachment::withdraw_others(const std::set<std::uint64_t>& present, stream_ref stream) {
  std::vector<std::uint64_t> gone;
  for (const auto& [serial, place] : mapped_)
    if (present.count(serial) == 0) gone.push_back(serial);
  withdraw(gone, stream);
}

void attachment::add(const chunk_record& sent, owned_descriptor descriptor) {
  require_sane(sent);
  if (mapped_.count(sent.serial) != 0) return;
  const shareable_handle handle{descriptor.release(), sent.bytes};
  try {
    physical_chunk chunk = import_chunk(handle, devices_[sent.device]);
    const chunk_record place{sent.offset, chunk.bytes(), sent.serial, sent.device};
    const auto entry = mapped_.emplace(sent.serial, place).first;
    try {
      memory_->adopt(sent.offset, std::move(chunk));
    } catch (...) {
      mapped_.erase(entry);
      throw;
    }
  } catch (const std::invalid_argument& error) {
    // A descriptor without such memory, or a place that is taken.
    throw_malformed(error.what());
  }
}

bool attachment::refuses_holes() const {
  return std::any_of(devices_.begin(), devices_.end(), [](device_ref each) {
    return capability_of(each).needs(quirk::access_from_base);
  });
}

void attachment::set_readable(byte_range range) noexcept {
  if (range.begin > memory_->max_bytes()) range = {};
  readable_ = range.within(range.begin, range.begin + memory_->committed_from(range.begin));
}

void attachment::require_own_process(const char* function) const {
  if (process_.is_of_parent())
    throw unsupported{std::string{"attached_region::"} + function +
                      " in a child of fork(): the connection is the parent's; attach anew in a "
                      "process that was started by exec"};
}

std::size_t attachment::refresh(stream_ref stream) {
  require_own_process("refresh");
  return refresh(stream, deadline_in(options_.timeout));
}

std::size_t attachment::refresh(stream_ref stream, deadline until) {
  // Again, where it failed when this process was cut off.
  if (!why_expired_.empty()) unmap_expired(stream);
  bool has_begun_anew = false;
  for (int round = 0; round < most_rounds; ++round) {
    // First the range: what was announced with it is in the list of that epoch.
    const std::optional<byte_range> seen = state_->readable();
    const bool is_current = state_->epoch() == epoch_;
    if (!is_open() || (is_current && !must_acknowledge_)) {
      if (is_current && seen) readable_ = *seen;
      break;
    }
    // Of chunks that the answer withdraws it loses the bytes.
    next_ = seen.value_or(readable_);
    try {
      if (!fetch(stream, until)) {
        socket_ = {};
        continue;
      }
    } catch (const unsupported&) {
      if (mapped_.empty() || has_begun_anew || !refuses_holes()) throw;
      // Of several chunks that took others' places the first is beside the hole of the next. From
      // an empty region on, by offset, there is none.
      has_begun_anew = true;
      withdraw_others({}, stream);
      epoch_ = 0;
      continue;
    }
    // What took the place of a chunk while the owner answered was cut off before it was sent. That
    // chunk need not have been here.
    if (const std::optional<byte_range> now = state_->readable(); now)
      set_readable(next_.within(now->begin, now->end));
  }
  set_readable(readable_);
  return bytes();
}

bool attachment::wait_for(std::size_t bytes, std::chrono::milliseconds timeout, stream_ref stream) {
  require_own_process("wait_for");
  const deadline until = deadline_in(timeout);
  // An answer that has begun is worth the time that the options give the owner.
  const deadline last = std::max(until, deadline_in(options_.timeout));
  auto pause = std::chrono::microseconds{10};
  while (refresh(stream, last) < bytes) {
    if (!is_open() || clock::now() >= until) return false;
    // The state page is memory, and nobody wakes its readers. A closed connection is seen here.
    const deadline next = std::min<deadline>(until, clock::now() + pause);
    if (pause < std::chrono::milliseconds{1}) {
      std::this_thread::sleep_until(next);
    } else if (wait_readable(socket_.get(), next)) {
      received_packet unasked;
      if (receive_packet(socket_.get(), unasked) == transfer_result::closed)
        socket_ = {};
      else if (const auto* const late = std::get_if<expired_packet>(&unasked.content))
        let_go(late->text, stream);
    }
    pause = std::min<std::chrono::microseconds>(2 * pause, std::chrono::milliseconds{1});
  }
  return true;
}

}  // namespace hipvmm::detail
