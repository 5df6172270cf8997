// SPDX-License-Identifier: MIT
#include "ipc/subscription.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include "ipc/identity.hpp"

namespace hipvmm::detail {
namespace {

using clock = std::chrono::steady_clock;

// The most requests of one refresh(), which asks again if the owner has announced meanwhile.
constexpr int most_rounds = 16;

}  // namespace

subscription::subscription(std::string path, std::vector<unsigned> other_users,
                           std::chrono::milliseconds timeout)
    : path_{std::move(path)}, other_users_{std::move(other_users)}, timeout_{timeout} {}

void subscription::connect(deadline until) {
  connection made = connect_until(path_, until);
  if (made.state == listener_state::absent)
    throw ipc_error{ipc_failure::closed,
                    "no process publishes at " + path_ + ": start the owner first"};
  if (made.state == listener_state::busy) fail(ipc_failure::timeout, "accepts no connection");
  socket_ = std::move(made.socket);
  require_user(credentials_of(socket_.get()), other_users_);
}

welcome_packet subscription::connect(const element_identity& elements, deadline& until) {
  // Before the owner waits for a hello: the first HIP call of a process may take long.
  const auto began = clock::now();
  const build_identity own = own_identity();
  until += clock::now() - began;
  connect(until);
  // If the owner refused at once, its sentence can still be read.
  static_cast<void>(send(hello_packet{own}, until));
  std::optional<received_packet> answer = receive(until);
  if (!answer) fail(ipc_failure::closed, "closed the connection");
  const auto* const found = std::get_if<welcome_packet>(&answer->content);
  if (found == nullptr) throw_malformed("its first packet is no welcome");
  if (std::string why = why_refused(found->identity, own); !why.empty())
    throw ipc_error{ipc_failure::refused, path_ + ": " + why};
  shape_ = found->shape;
  const element_identity theirs{shape_.element_size, shape_.element_align, shape_.element_tag};
  if (elements.size != 0 && theirs != elements)
    throw ipc_error{ipc_failure::refused,
                    path_ + " publishes elements of " + std::to_string(theirs.size) +
                        " bytes, alignment " + std::to_string(theirs.align) + ", tag " +
                        std::to_string(theirs.tag) + ", and this process requested " +
                        std::to_string(elements.size) + ", " + std::to_string(elements.align) +
                        ", " + std::to_string(elements.tag)};
  devices_ = 1 + found->other_devices.size();
  state_.emplace(answer->descriptors.front().get());
  return *found;
}

void subscription::fail(ipc_failure reason, const std::string& what) const {
  throw ipc_error{reason, "the owner of " + path_ + " " + what};
}

void subscription::throw_malformed(const std::string& what) const {
  fail(ipc_failure::malformed, "does not keep to the protocol: " + what);
}

bool subscription::send(const packet& content, deadline until) {
  const transfer_result sent = send_until(socket_.get(), content, {}, until);
  if (sent == transfer_result::would_block) fail(ipc_failure::timeout, "does not read");
  return sent == transfer_result::done;
}

std::optional<received_packet> subscription::receive(deadline until) {
  received_packet next;
  for (;;) {
    const transfer_result result = receive_packet(socket_.get(), next);
    if (result == transfer_result::closed) return std::nullopt;
    if (result == transfer_result::done) break;
    if (!wait_readable(socket_.get(), until))
      fail(ipc_failure::timeout,
           "did not answer within " + std::to_string(timeout_.count()) + " ms");
  }
  if (const auto* const refused = std::get_if<refusal_packet>(&next.content))
    fail(ipc_failure::refused, "refuses: " + refused->text);
  return next;
}

void subscription::require_sane(const chunk_record& place) const {
  if (place.offset % shape_.granularity == 0 && place.bytes % shape_.granularity == 0 &&
      place.offset < shape_.max_bytes && place.bytes <= shape_.max_bytes - place.offset &&
      place.device < devices_)
    return;
  throw_malformed("a chunk of " + std::to_string(place.bytes) + " bytes at offset " +
                  std::to_string(place.offset) + " is outside of " +
                  std::to_string(shape_.max_bytes) +
                  " bytes, no whole granules, or of no device that was named");
}

bool subscription::fetch(deadline& until, bool has_waited) {
  // If the owner has closed, its last packets can still be read.
  if (send(request_packet{++ticket_, epoch_}, until)) must_acknowledge_ = false;
  bool has_begun = false;
  std::optional<std::set<std::uint64_t>> present;
  bool has_added = false;
  bool must_wait = false;
  std::exception_ptr failure;
  // The owner drops a process that leaves its answer unread: the rest is read and requested again.
  const auto apply = [&](const auto& change) {
    if (must_wait || failure) return;
    try {
      change();
    } catch (const ipc_error&) {
      throw;
    } catch (...) {
      failure = std::current_exception();
    }
  };
  const auto end_chunks = [&](const std::vector<std::uint64_t>& gone) {
    apply([&] {
      must_wait = !has_waited &&
                  std::ranges::any_of(gone, [&](auto each) { return here_.count(each) != 0; }) &&
                  has_users();
      if (!must_wait) withdraw(gone);
    });
  };
  for (bool is_first = true;; is_first = false) {
    // The limit also holds for an owner that sends without end.
    if (!is_first && clock::now() >= until)
      fail(ipc_failure::timeout,
           "did not end its answer within " + std::to_string(timeout_.count()) + " ms");
    std::optional<received_packet> next = receive(until);
    if (!next) return false;
    if (const auto* const answer = std::get_if<answer_packet>(&next->content)) {
      has_begun = answer->ticket == ticket_;
      continue;
    }
    if (const auto* const late = std::get_if<expired_packet>(&next->content))
      let_go(path_ + ": " + late->text);
    // Part of the answer to an abandoned request; the current answer contains it all.
    if (!has_begun) continue;
    const auto began = clock::now();
    // Otherwise an answer could add and withdraw chunks again and again.
    if (has_added && !std::holds_alternative<chunk_packet>(next->content) &&
        !std::holds_alternative<complete_packet>(next->content))
      throw_malformed("it sends withdrawals after new chunks");
    if (const auto* const there = std::get_if<present_packet>(&next->content)) {
      if (!present) present.emplace();
      for (const chunk_record& each : there->chunks) present->insert(each.serial);
      continue;
    }
    if (present) end_chunks(others_than(*std::exchange(present, std::nullopt)));
    if (const auto* const chunks = std::get_if<chunk_packet>(&next->content)) {
      apply([&] { take(chunks->chunks, next->descriptors); });
      has_added = true;
    } else if (const auto* const gone = std::get_if<retired_packet>(&next->content)) {
      std::vector<std::uint64_t> serials;
      for (const chunk_record& each : gone->chunks) serials.push_back(each.serial);
      end_chunks(serials);
    } else if (const auto* const complete = std::get_if<complete_packet>(&next->content)) {
      if (failure) std::rethrow_exception(failure);
      if (must_wait) {
        wait_for_users();
        until += clock::now() - began;
        return fetch(until, true);
      }
      epoch_ = complete->epoch;
      return true;
    } else {
      throw_malformed("it sends a packet that answers nothing");
    }
    until += clock::now() - began;
  }
}

void subscription::withdraw(const std::vector<std::uint64_t>& serials) {
  // The owner also waits for acknowledgements of chunks that are not here.
  must_acknowledge_ = true;
  std::map<std::uint64_t, chunk_record> gone;  // by offset
  for (const std::uint64_t serial : serials)
    if (const auto found = here_.find(serial); found != here_.end())
      gone.emplace(found->second.offset, found->second);
  if (!gone.empty()) wait_for_users();
  for (auto next = gone.begin(); next != gone.end();) {
    const auto first = next;
    const std::uint64_t start = first->first;
    std::uint64_t end = start;
    for (; next != gone.end() && next->first == end; ++next) end += next->second.bytes;
    for (byte_range* const each : {&readable_, &next_}) {
      // No byte from here on is known to be there, unless the chunk was erased at the front.
      if (end > each->begin) *each = each->within(each->begin, start);
    }
    remove(start, end - start);
    for (auto at = first; at != next; ++at) here_.erase(at->second.serial);
  }
}

std::vector<std::uint64_t> subscription::others_than(const std::set<std::uint64_t>& present) const {
  std::vector<std::uint64_t> result;
  for (const auto& [serial, place] : here_)
    if (present.count(serial) == 0) result.push_back(serial);
  return result;
}

void subscription::take(const std::vector<chunk_record>& sent,
                        std::vector<owned_descriptor>& descriptors) {
  std::vector<sent_chunk> fresh;
  fresh.reserve(sent.size());
  try {
    for (std::size_t i = 0; i < sent.size(); ++i) {
      require_sane(sent[i]);
      if (here_.emplace(sent[i].serial, sent[i]).second)
        fresh.push_back({sent[i], {descriptors[i].release(), sent[i].bytes}});
    }
    add(fresh);
  } catch (...) {
    for (const sent_chunk& each : fresh) here_.erase(each.place.serial);
    try {
      throw;
    } catch (const std::invalid_argument& error) {
      // A descriptor without such memory, or a place that is taken.
      throw_malformed(error.what());
    }
  }
}

void subscription::set_readable(byte_range range) noexcept {
  if (range.begin > shape_.max_bytes) range = {};
  readable_ = range.within(range.begin, range.begin + backed_from(range.begin));
}

void subscription::refresh(deadline until) {
  bool has_begun_anew = false;
  bool has_answer = false;
  for (int round = 0; round < most_rounds; ++round) {
    // The range is read before the epoch: the list of that epoch then has the chunks of the range.
    const std::optional<byte_range> seen = state_->readable();
    const bool is_current = state_->epoch() == epoch_;
    if (!is_open() || (is_current && !must_acknowledge_)) {
      if (is_current && seen) readable_ = *seen;
      break;
    }
    // The answer's withdrawals cut their bytes off this range.
    next_ = seen.value_or(readable_);
    try {
      if (!fetch(until)) {
        disconnect();
        continue;
      }
      has_answer = true;
    } catch (const ipc_error& error) {
      // The owner announces again and again: the next call takes the rest.
      if (!has_answer || error.reason() != ipc_failure::timeout) throw;
      break;
    } catch (const unsupported&) {
      if (here_.empty() || has_begun_anew || !refuses_holes()) throw;
      // If several chunks are replaced, the first is mapped beside the hole of the next. Mapped
      // anew in the order of offsets, none is beside a hole.
      has_begun_anew = true;
      has_answer = false;
      // Set first: if an unmap fails, the next call requests all chunks.
      epoch_ = 0;
      withdraw_all();
      continue;
    }
    // The owner cuts replaced chunks off the range before it sends the new ones.
    if (const std::optional<byte_range> now = state_->readable(); now)
      set_readable(next_.within(now->begin, now->end));
  }
  set_readable(readable_);
}

bool subscription::has_news() const noexcept {
  const std::optional<byte_range> seen = state_->readable();
  return must_acknowledge_ || state_->epoch() != epoch_ || (seen && *seen != readable_);
}

void subscription::disconnect() noexcept {
  if (!process_.is_of_parent()) ::shutdown(socket_.get(), SHUT_RDWR);
  socket_ = {};
}

void subscription::listen(deadline until) {
  if (!wait_readable(socket_.get(), until)) return;
  received_packet unasked;
  if (receive_packet(socket_.get(), unasked) == transfer_result::closed)
    disconnect();
  else if (const auto* const late = std::get_if<expired_packet>(&unasked.content))
    let_go(path_ + ": " + late->text);
}

}  // namespace hipvmm::detail
