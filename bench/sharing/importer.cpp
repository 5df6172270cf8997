// SPDX-License-Identifier: MIT
#include "importer.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/region/region.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "bench/growth/kernels.hpp"
#include "raw_memory.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// Longer than any step takes; a process that died is noticed by the closed channel.
constexpr hipvmm::channel_options patient{60s, {}};

/// A descriptor and its size, as sendmsg() carries them.
struct raw_letter {
  std::uint64_t bytes = 0;
  iovec data = {&bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {nullptr, 0, &data, 1, control, sizeof control, 0};
};

[[noreturn]] void throw_errno(const char* call) {
  throw std::system_error{errno, std::generic_category(), call};
}

/// The memory of the other process, mapped by HIP's calls alone.
class raw_view {
 public:
  raw_view(hipvmm::device_ref device, std::size_t max_bytes) : memory_{device, max_bytes, 1024} {}
  void receive(int socket) {
    raw_letter message;
    if (::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != sizeof message.bytes)
      throw_errno("recvmsg");
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof descriptor);
    memory_.import(descriptor, message.bytes);
    ::close(descriptor);
  }
  void* base() { return memory_.at(0); }

 private:
  raw_memory memory_;
};

/// The same in a region that adopts it.
class adopting_view {
 public:
  adopting_view(hipvmm::device_ref device, hipvmm::device_ref reader, std::size_t max_bytes)
      : device_{device}, mirror_{device, max_bytes} {
    if (reader != device) mirror_.grant(reader, hipvmm::access_right::read);
  }
  void take(const hipvmm::channel_message& message) {
    for (const hipvmm::exported_chunk& each : message.chunks)
      mirror_.adopt(each.offset, hipvmm::import_chunk(each.handle, device_));
  }
  void* base() { return mirror_.base(); }

 private:
  hipvmm::device_ref device_;
  hipvmm::region mirror_;
};

/// The other process: serves orders until the first lets it quit.
class server {
 public:
  server(int behind, hipvmm::fd_channel channel, int raw_socket)
      : behind_{behind}, channel_{std::move(channel)}, raw_socket_{raw_socket} {}

  void run() {
    while (const auto message = channel_.receive()) {
      if (message->note == "quit") return;
      if (message->chunks.empty())
        channel_.send_note(answer(message->note));
      else
        adopted_->take(*message);
    }
  }

 private:
  std::string answer(const std::string& order) {
    try {
      return "ok " + std::to_string(obey(order));
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  unsigned obey(const std::string& order) {
    std::istringstream words{order};
    std::string verb;
    words >> verb;
    if (verb == "begin") return begin(words);
    if (verb == "read") {
      std::size_t bytes = 0;
      words >> bytes;
      return read(bytes);
    }
    adopted_.reset();
    raw_.reset();
    attached_.reset();
    stream_.reset();
    return 0;
  }

  unsigned begin(std::istringstream& words) {
    int how = 0;
    int ordinal = 0;
    std::size_t max_bytes = 0;
    std::string path;
    words >> how >> ordinal >> max_bytes >> path;
    const hipvmm::device_ref device{ordinal};
    const hipvmm::device_ref reader{(ordinal + behind_) % hipvmm::device_count()};
    require(hipSetDevice(reader.ordinal()), "hipSetDevice");
    stream_.emplace(reader);
    switch (static_cast<importer::way>(how)) {
      case importer::way::raw_calls:
        raw_ = std::make_unique<raw_view>(reader, max_bytes);
        break;
      case importer::way::adopt:
        adopted_ = std::make_unique<adopting_view>(device, reader, max_bytes);
        break;
      case importer::way::attach: {
        hipvmm::attach_options options;
        if (reader != device) options.peers = {{reader, hipvmm::access_right::read}};
        attached_.emplace(path, options);
        break;
      }
    }
    return 0;
  }

  unsigned read(std::size_t bytes) {
    if (raw_) raw_->receive(raw_socket_);
    if (attached_ && !attached_->wait_for(bytes, 60s, *stream_))
      throw std::runtime_error{"what was announced did not come"};
    void* const base = raw_ ? raw_->base() : attached_ ? attached_->data() : adopted_->base();
    char* const last = static_cast<char*>(base) + bytes - 16;
    if constexpr (kernels_built) launch_read(last, 16, stream_->get());
    unsigned word = 0;
    hipvmm::copy(*stream_, &word, last, sizeof word);
    return word;
  }

  int behind_;
  hipvmm::fd_channel channel_;
  int raw_socket_;
  std::optional<hipvmm::stream> stream_;
  std::unique_ptr<raw_view> raw_;
  std::unique_ptr<adopting_view> adopted_;
  std::optional<hipvmm::attached_region> attached_;
};

}  // namespace

importer::importer(int behind) : importer{behind, hipvmm::fd_channel::make_pair(patient)} {}

importer::importer(int behind, std::pair<hipvmm::fd_channel, hipvmm::fd_channel> ends)
    : channel_{std::move(ends.first)} {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    throw_errno("socketpair");
  raw_socket_ = sockets[0];
  process_ = ::fork();
  if (process_ < 0) throw_errno("fork");
  if (process_ != 0) {
    ::close(sockets[1]);
    return;
  }
  int status = 0;
  try {
    // Else it would keep its own channel open.
    { const hipvmm::fd_channel closed{std::move(channel_)}; }
    ::close(raw_socket_);
    server{behind, std::move(ends.second), sockets[1]}.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sharing_bench: an importing process: %s\n", error.what());
    status = 1;
  }
  std::_Exit(status);
}

importer::~importer() {
  try {
    // Importers forked later have this channel too, so it does not close with this end.
    channel_.send_note("quit");
  } catch (const std::exception&) {
    // It has ended.
  }
  { const hipvmm::fd_channel closed{std::move(channel_)}; }
  ::close(raw_socket_);
  ::waitpid(process_, nullptr, 0);
}

unsigned importer::answer() {
  const auto given = channel_.receive();
  if (!given) throw std::runtime_error{"an importing process has ended"};
  if (given->note.rfind("ok ", 0) != 0) throw std::runtime_error{"importer: " + given->note};
  return static_cast<unsigned>(std::stoul(given->note.substr(3)));
}

void importer::begin(way how, hipvmm::device_ref device, std::size_t max_bytes,
                     const std::string& path) {
  channel_.send_note("begin " + std::to_string(static_cast<int>(how)) + " " +
                     std::to_string(device.ordinal()) + " " + std::to_string(max_bytes) + " " +
                     path);
  answer();
}

void importer::ask_for_last_word_of(std::size_t bytes) {
  channel_.send_note("read " + std::to_string(bytes));
}

void importer::end() {
  channel_.send_note("end");
  answer();
}

void importer::send_raw(int descriptor, std::size_t bytes) const {
  raw_letter message;
  message.bytes = bytes;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  if (::sendmsg(raw_socket_, &message.header, MSG_NOSIGNAL) < 0) throw_errno("sendmsg");
}

}  // namespace bench
