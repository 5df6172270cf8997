// SPDX-License-Identifier: MIT
#include "ipc/attachment.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "ipc/block_mirror.hpp"
#include "ipc/identity.hpp"
#include "region/chunks/shared_chunks.hpp"
#include "strategy/memory_strategy.hpp"

namespace hipvmm::detail {
namespace {

using clock = std::chrono::steady_clock;

// A reply has a packet for at most 16 chunks; more packets than this are an endless reply.
constexpr std::size_t most_packets = 1U << 16U;
// The most requests of one refresh, which repeats its request if the owner has announced meanwhile.
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
                      "no process publishes at " + path_ + ": start the owner first"};
    if (clock::now() >= until)
      throw ipc_error{ipc_failure::timeout, "the owner of " + path_ + " accepts no connection"};
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  require_user(credentials_of(socket_.get()), options_.other_users);
}

void attachment::welcome(const published_elements& elements, deadline until) {
  const build_identity own = own_identity();
  // If the owner refused at once, its sentence can still be read.
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
                        std::to_string(theirs.tag) + ", and this process requested " +
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
        ", which this process does not see: make it visible (HIP_VISIBLE_DEVICES), or, if HIP "
        "reports no UUIDs, name it by attach_options::device and other_devices"};
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
  // If the owner has closed, its last packets can still be read.
  if (send(request_packet{++ticket_, epoch_}, until)) must_acknowledge_ = false;
  bool has_begun = false;
  std::optional<std::set<std::uint64_t>> present;
  bool has_added = false;
  for (std::size_t packets = 0; packets < most_packets; ++packets) {
    // The limit holds for an owner that sends without end, too.
    if (packets != 0 && clock::now() >= until)
      throw ipc_error{ipc_failure::timeout, "the owner of " + path_ +
                                                " did not end its answer within " +
                                                std::to_string(options_.timeout.count()) + " ms"};
    std::optional<received_packet> next = receive(until);
    if (!next) return false;
    if (const auto* const answer = std::get_if<answer_packet>(&next->content)) {
      has_begun = answer->ticket == ticket_;
      continue;
    }
    if (const auto* const late = std::get_if<expired_packet>(&next->content))
      let_go(late->text, stream);
    // Part of the answer to an abandoned request; the current answer contains it all.
    if (!has_begun) continue;
    // The time that this process needs does not count against the owner's limit. The loop ends:
    // withdrawals precede new chunks, and the reservation limits the number of those.
    const auto began = clock::now();
    if (has_added && !std::holds_alternative<chunk_packet>(next->content) &&
        !std::holds_alternative<complete_packet>(next->content))
      throw_malformed("it sends withdrawals after new chunks");
    if (const auto* const there = std::get_if<present_packet>(&next->content)) {
      if (!present) present.emplace();
      for (const chunk_record& each : there->chunks) present->insert(each.serial);
      continue;
    }
    if (present) withdraw_others(*std::exchange(present, std::nullopt), stream);
    if (const auto* const chunks = std::get_if<chunk_packet>(&next->content)) {
      add(chunks->chunks, next->descriptors);
      has_added = true;
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
    until += clock::now() - began;
  }
  throw_malformed("its answer does not end");
}

void attachment::withdraw(const std::vector<std::uint64_t>& serials, stream_ref stream) {
  // The owner also waits for acknowledgements of chunks that are not mapped here.
  must_acknowledge_ = true;
  std::map<std::uint64_t, chunk_record> gone;  // by offset
  for (const std::uint64_t serial : serials)
    if (const auto found = mapped_.find(serial); found != mapped_.end())
      gone.emplace(found->second.offset, found->second);
  if (!gone.empty()) stream.synchronize();
  for (auto next = gone.begin(); next != gone.end();) {
    const auto first = next;
    const std::uint64_t start = first->first;
    std::uint64_t end = start;
    for (; next != gone.end() && next->first == end; ++next) end += next->second.bytes;
    for (byte_range* const each : {&readable_, &next_}) {
      // No byte from here on is known to be there, unless the chunk was erased at the front.
      if (end > each->begin) *each = each->within(each->begin, start);
    }
    memory_->decommit(start, end - start);
    for (auto at = first; at != next; ++at) mapped_.erase(at->second.serial);
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

void attachment::add(const std::vector<chunk_record>& sent,
                     std::vector<owned_descriptor>& descriptors) {
  std::map<std::size_t, physical_chunk> chunks;
  std::vector<std::uint64_t> added;
  added.reserve(sent.size());
  try {
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const chunk_record& each = sent[i];
      require_sane(each);
      if (mapped_.count(each.serial) != 0) continue;
      const shareable_handle handle{descriptors[i].release(), each.bytes};
      physical_chunk chunk = import_chunk(handle, devices_[each.device]);
      mapped_.emplace(each.serial,
                      chunk_record{each.offset, chunk.bytes(), each.serial, each.device});
      added.push_back(each.serial);
      if (!chunks.try_emplace(each.offset, std::move(chunk)).second)
        throw std::invalid_argument{"two chunks begin at offset " + std::to_string(each.offset)};
    }
    adopt_chunks(*memory_, chunks);
  } catch (...) {
    for (const std::uint64_t each : added) mapped_.erase(each);
    try {
      throw;
    } catch (const std::invalid_argument& error) {
      // A descriptor without such memory, or a place that is taken.
      throw_malformed(error.what());
    }
  }
}

bool attachment::refuses_holes() const {
  return std::any_of(devices_.begin(), devices_.end(), [](device_ref each) {
    return !memory_strategy{each}.rights.takes_any_mapping;
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
  // Again, if it failed when this process was cut off.
  if (!why_expired_.empty()) unmap_expired(stream);
  bool has_begun_anew = false;
  for (int round = 0; round < most_rounds; ++round) {
    // The range first: its epoch's list contains the chunks of the range.
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
    // The owner cut off replaced chunks before it sent their replacements. Such a chunk need not
    // have been mapped here.
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
    // The state page is memory, and does not wake its readers. A closed connection is seen here.
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
