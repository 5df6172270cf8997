// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/fd_channel.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <stdexcept>

#include <hipvmm/ipc/ipc_error.hpp>
#include "core/descriptors.hpp"
#include "ipc/packet.hpp"
#include "ipc/socket.hpp"
#include "vmm/descriptor_closer.hpp"

namespace hipvmm {
namespace {

static_assert(fd_channel::max_chunks == detail::max_packet_descriptors);
static_assert(fd_channel::max_note_bytes == detail::max_packet_text);

int option_of(int socket, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

bool is_connected(int socket) {
  sockaddr_un peer;
  socklen_t bytes = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0;
}

void require_channel_socket(int socket) {
  if (option_of(socket, SO_DOMAIN) == AF_UNIX && option_of(socket, SO_TYPE) == SOCK_SEQPACKET &&
      is_connected(socket))
    return;
  throw std::invalid_argument{"fd_channel: descriptor " + std::to_string(socket) +
                              " is no connected Unix socket of type SOCK_SEQPACKET: make both ends "
                              "by make_pair(), or by socket(AF_UNIX, SOCK_SEQPACKET, 0)"};
}

[[noreturn]] void fail(ipc_failure reason, const std::string& what) {
  throw ipc_error{reason, "fd_channel: the peer " + what};
}

[[noreturn]] void throw_timeout(const std::string& what, std::chrono::milliseconds limit) {
  fail(ipc_failure::timeout, what + " within " + std::to_string(limit.count()) +
                                 " ms: raise channel_options::timeout if it may take so long");
}

struct call_limit {
  explicit call_limit(std::chrono::milliseconds limit_of_call)
      : limit{limit_of_call}, end{detail::deadline_in(limit_of_call)} {}

  std::chrono::milliseconds limit;
  detail::deadline end;
};

detail::owned_descriptor connect_within(const std::string& path, std::chrono::milliseconds limit) {
  detail::connection made = detail::connect_until(path, detail::deadline_in(limit));
  if (made.state == detail::listener_state::absent)
    throw ipc_error{ipc_failure::closed, "no process listens at " + path + ": start it first"};
  if (made.state == detail::listener_state::busy) throw_timeout("accepts no connection", limit);
  return std::move(made.socket);
}

void require_bytes(const detail::chunk_record& place, int descriptor) {
  const std::optional<std::size_t> present = detail::bytes_behind(descriptor);
  if (!present || place.bytes <= *present) return;
  fail(ipc_failure::malformed, "says that a chunk has " + std::to_string(place.bytes) +
                                   " bytes, and the system that there are " +
                                   std::to_string(*present));
}

void require_sendable(const exported_chunk& chunk) {
  if (!chunk.handle.empty() && chunk.handle.bytes() != 0) return;
  throw std::invalid_argument{"fd_channel::send: the chunk at offset " +
                              std::to_string(chunk.offset) +
                              " has no descriptor: it was moved from"};
}

void send_within(int socket, const call_limit& call, const detail::packet& content,
                 const std::vector<int>& descriptors) {
  switch (detail::send_until(socket, content, descriptors, call.end)) {
    case detail::transfer_result::done:
      return;
    case detail::transfer_result::closed:
      fail(ipc_failure::closed, "has closed the channel");
    case detail::transfer_result::would_block:
      throw_timeout("did not read", call.limit);
  }
}

void send_chunks(int socket, const call_limit& call, std::span<const exported_chunk> chunks) {
  while (!chunks.empty()) {
    detail::chunk_packet content;
    std::vector<int> descriptors;
    for (const exported_chunk& each :
         chunks.first(std::min(chunks.size(), fd_channel::max_chunks))) {
      content.chunks.push_back({each.offset, each.handle.bytes(), each.serial});
      descriptors.push_back(each.handle.get());
    }
    send_within(socket, call, content, descriptors);
    chunks = chunks.subspan(descriptors.size());
  }
}

std::optional<detail::received_packet> receive_within(int socket, const call_limit& call) {
  detail::received_packet next;
  for (;;) {
    const detail::transfer_result result = detail::receive_packet(socket, next);
    if (result == detail::transfer_result::closed) return std::nullopt;
    if (result == detail::transfer_result::done) return next;
    if (!detail::wait_readable(socket, call.end)) throw_timeout("sent nothing", call.limit);
  }
}

void take_chunks(detail::received_packet& from, std::vector<exported_chunk>& into) {
  const std::vector<detail::chunk_record>& places =
      std::get<detail::chunk_packet>(from.content).chunks;
  for (std::size_t i = 0; i < places.size(); ++i) {
    require_bytes(places[i], from.descriptors[i].get());
    into.push_back({places[i].offset, places[i].serial,
                    shareable_handle{from.descriptors[i].release(), places[i].bytes}});
  }
}

void receive_chunks(int socket, const call_limit& call, std::size_t count,
                    std::vector<exported_chunk>& into) {
  while (into.size() < count) {
    if (std::chrono::steady_clock::now() >= call.end)
      throw_timeout("sent no whole block", call.limit);
    std::optional<detail::received_packet> next = receive_within(socket, call);
    if (!next) fail(ipc_failure::closed, "closed the channel in the middle of a block");
    if (!std::holds_alternative<detail::chunk_packet>(next->content))
      fail(ipc_failure::malformed, "sends something else in the middle of a block");
    take_chunks(*next, into);
  }
  if (into.size() > count) fail(ipc_failure::malformed, "sends more chunks than the block has");
}

}  // namespace

fd_channel::fd_channel(int socket, channel_options options)
    : socket_{socket}, options_{std::move(options)} {
  // If this constructor throws, the destructor does not run.
  detail::owned_descriptor owned{socket};
  require_channel_socket(socket);
  detail::require_user(detail::credentials_of(socket), options_.other_users);
  static_cast<void>(owned.release());
}

fd_channel::fd_channel(const std::string& path, channel_options options)
    : socket_{-1}, options_{std::move(options)} {
  detail::owned_descriptor made = connect_within(path, options_.timeout);
  detail::require_user(detail::credentials_of(made.get()), options_.other_users);
  socket_ = made.release();
}

std::pair<fd_channel, fd_channel> fd_channel::make_pair(channel_options options) {
  // Copied first: if the copy fails, no descriptor is left open.
  channel_options same = options;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    detail::throw_system(errno, "socketpair", "a channel");
  detail::owned_descriptor second{ends[1]};
  fd_channel first{ends[0], std::move(same)};
  return {std::move(first), fd_channel{second.release(), std::move(options)}};
}

fd_channel::~fd_channel() { detail::close_foreign(socket_); }

fd_channel& fd_channel::operator=(fd_channel&& other) noexcept {
  fd_channel moved{std::move(other)};
  std::swap(socket_, moved.socket_);
  std::swap(options_, moved.options_);
  return *this;
}

void fd_channel::send(const exported_chunk& chunk) {
  require_sendable(chunk);
  send_chunks(socket_, call_limit{options_.timeout}, {&chunk, 1});
}

void fd_channel::send(const std::vector<exported_chunk>& chunks) {
  for (const exported_chunk& each : chunks) require_sendable(each);
  send_chunks(socket_, call_limit{options_.timeout}, chunks);
}

void fd_channel::send(const exported_range& block) {
  if (block.bytes == 0 || block.chunks.empty() || block.chunks.size() > detail::max_chunks_of_block)
    throw std::invalid_argument{"fd_channel::send: a block of " + std::to_string(block.bytes) +
                                " bytes in " + std::to_string(block.chunks.size()) +
                                " chunks: it has at least one byte and one chunk, and at most " +
                                std::to_string(detail::max_chunks_of_block) + " chunks"};
  for (const exported_chunk& each : block.chunks) require_sendable(each);
  const call_limit call{options_.timeout};
  send_within(socket_, call, detail::block_packet{block.offset, block.bytes, block.chunks.size()},
              {});
  send_chunks(socket_, call, block.chunks);
}

void fd_channel::send_note(const std::string& note) {
  if (note.empty() || note.size() > max_note_bytes)
    throw std::invalid_argument{"fd_channel::send_note: a note has 1 to " +
                                std::to_string(max_note_bytes) + " bytes, this one " +
                                std::to_string(note.size())};
  send_within(socket_, call_limit{options_.timeout}, detail::note_packet{note}, {});
}

std::optional<channel_message> fd_channel::receive() {
  const call_limit call{options_.timeout};
  std::optional<detail::received_packet> next = receive_within(socket_, call);
  if (!next) return std::nullopt;
  channel_message message;
  if (auto* const note = std::get_if<detail::note_packet>(&next->content)) {
    message.note = std::move(note->text);
  } else if (std::holds_alternative<detail::chunk_packet>(next->content)) {
    take_chunks(*next, message.chunks);
  } else if (const auto* const head = std::get_if<detail::block_packet>(&next->content)) {
    exported_range& block = message.block.emplace();
    block.offset = head->offset;
    block.bytes = head->bytes;
    receive_chunks(socket_, call, head->chunks, block.chunks);
  } else {
    fail(ipc_failure::malformed, "speaks the protocol of a publication: attach to it");
  }
  return message;
}

}  // namespace hipvmm
