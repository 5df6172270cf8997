// SPDX-License-Identifier: MIT
// Descriptors of peers that take as long to close as their senders like.
#include <signal.h>
#include <sys/resource.h>

#include "ipc/ipc_test.hpp"
#include "ipc/lingering_socket.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

constexpr int linger_seconds = 60;
constexpr auto soon = 10s;

/// Checks that the calls in its lifetime do not wait for a peer's descriptor.
struct ends_soon {
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  ~ends_soon() { CHECK(std::chrono::steady_clock::now() - began < soon); }
};

const std::vector<unsigned char>& chunk_bytes() {
  static const std::vector<unsigned char> bytes =
      detail::encode(detail::chunk_packet{{{0, granule(), 1}}}, 1);
  return bytes;
}

/// Sends a packet with `before` harmless descriptors and one whose close lasts.
void send_lasting(int socket, const std::vector<unsigned char>& bytes, std::size_t before,
                  detail::owned_descriptor& other) {
  const int last = socket_with_lingering_one(other, linger_seconds);
  std::vector<int> all(before, STDERR_FILENO);
  all.push_back(last);
  REQUIRE(send_raw(socket, bytes, all));
  ::close(last);
}

/// A process that sends such a packet over the socket that it is given, closes the sent one, and
/// keeps the other side open until it is ended. Make it before the connections: its close of an
/// inherited copy could be the one that lasts.
class lasting_sender {
 public:
  lasting_sender() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    order_ = detail::owned_descriptor{ends[0]};
    const detail::owned_descriptor own{ends[1]};
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ != 0) return;
    if (::dup2(own.get(), 3) != 3 || ::close_range(4, ~0U, 0) != 0) ::_exit(1);
    obey(3);
  }
  void send(int socket, const std::vector<unsigned char>& bytes, std::size_t before) {
    std::vector<unsigned char> order{static_cast<unsigned char>(before)};
    order.insert(order.end(), bytes.begin(), bytes.end());
    REQUIRE(send_raw(order_.get(), order, {socket}));
  }
  ~lasting_sender() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  lasting_sender& operator=(lasting_sender&&) = delete;

 private:
  [[noreturn]] static void obey(int orders) {
    unsigned char order[1024];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec part{order, sizeof order};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ::ssize_t got = ::recvmsg(orders, &message, MSG_CMSG_CLOEXEC);
    if (got < 1 || CMSG_FIRSTHDR(&message) == nullptr) ::_exit(1);
    int socket = -1;
    std::memcpy(&socket, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof socket);
    detail::owned_descriptor other;
    try {
      send_lasting(socket, {order + 1, order + got}, order[0], other);
    } catch (...) {
      ::_exit(1);  // nothing on the stack is this process's
    }
    ::close(socket);
    while (::recv(orders, order, sizeof order, 0) > 0) {
    }
    ::_exit(0);  // the process that made it has ended without its destructor
  }

  detail::owned_descriptor order_;
  ::pid_t process_ = -1;
};

// Each in a process of its own: its threads close for as long as the descriptors last.

HIPVMM_TEST_CASE_IN("fd_channel: no descriptor of a peer makes a receiver wait", {}) {
  detail::owned_descriptor others[8];
  const ends_soon check;
  auto [here, there] = fd_channel::make_pair();
  const std::size_t own = open_descriptors();
  // One that keeps to the protocol, as far as a receiver can see.
  send_lasting(here.get(), chunk_bytes(), 0, others[0]);
  CHECK(there.receive()->chunks.size() == 1);
  {
    // A descriptor that a program closes in another way.
    send_lasting(here.get(), chunk_bytes(), 0, others[1]);
    auto message = there.receive();
    message->chunks.at(0) = {};
  }
  send_lasting(here.get(), std::vector<unsigned char>(100, 'x'), 0, others[2]);
  check_ipc_error(ipc_failure::malformed, [&, &end = there] { static_cast<void>(end.receive()); });
  for (const std::size_t more : {std::size_t{16}, std::size_t{252}}) {
    send_lasting(here.get(), chunk_bytes(), more, others[3 + more / 200]);
    check_ipc_error(ipc_failure::malformed,
                    [&, &end = there] { static_cast<void>(end.receive()); });
  }
  {
    // Threads close those that were received.
    CHECK(comes_true([&] { return open_descriptors() == own + 5; }));
    send_lasting(here.get(), chunk_bytes(), 0, others[5]);
    const no_descriptors_left limit;
    CHECK_THROWS_AS(static_cast<void>(there.receive()), out_of_memory);
  }
  CHECK(there.receive()->chunks.size() == 1);
  // A packet that is unread when both ends close, and an empty packet, which looks like the end.
  send_lasting(here.get(), {}, 0, others[6]);
  CHECK_FALSE(there.receive().has_value());
  send_lasting(here.get(), chunk_bytes(), 0, others[7]);
}

HIPVMM_TEST_CASE_IN("fd_channel: a peer with more lasting descriptors than threads stops nobody",
                    {}) {
  detail::owned_descriptor other;
  const ends_soon check;
  auto [here, there] = fd_channel::make_pair();
  std::vector<detail::owned_descriptor> others(80);
  for (detail::owned_descriptor& each : others) {
    send_lasting(here.get(), chunk_bytes(), 0, each);
    CHECK(there.receive()->chunks.size() == 1);
  }
}

TEST_SUITE_BEGIN("needs virtual memory");

HIPVMM_TEST_CASE_IN("publication: no descriptor of a peer stops it or its end", {}) {
  std::array<lasting_sender, 6> senders;
  const ends_soon check;
  std::vector<std::unique_ptr<raw_importer>> peers;
  {
    published_region memory;
    const auto send = [&](const std::vector<unsigned char>& bytes, std::size_t before = 0) {
      peers.push_back(std::make_unique<raw_importer>(memory.path));
      senders.at(peers.size() - 1).send(peers.back()->socket.get(), bytes, before);
    };
    const std::vector<unsigned char> hello =
        detail::encode(detail::hello_packet{detail::own_identity()}, 0);
    send(chunk_bytes());
    send(std::vector<unsigned char>(100, 'x'));
    send(chunk_bytes(), 16);
    send({});
    send(hello);
    peers.back()->refusal();
    attached_region honest{memory.path};
    CHECK(honest.bytes() == 2 * granule());
    memory.announce(1);
    CHECK(honest.refresh(memory.stream) == granule());
    // In the queue of a connection that has yet to be accepted, perhaps.
    send(chunk_bytes());
  }
  peers.clear();
}

HIPVMM_TEST_CASE_IN("attached_region: no descriptor of an owner makes it wait", {}) {
  std::array<lasting_sender, 2> senders;
  const temporary_folder folder;
  const std::string path = path_in(folder);
  raw_owner owner{path};
  attach_options options = attach_within(1s);
  options.device = first_device;
  const ends_soon check;
  for (const std::size_t more : {std::size_t{0}, std::size_t{16}}) {
    auto served = owner.serve([&](int socket, std::uint64_t ticket) {
      static_cast<void>(detail::send_packet(socket, detail::answer_packet{ticket, 1}));
      senders.at(more / 16).send(socket, chunk_bytes(), more);
    });
    CHECK_THROWS((attached_region{path, options}));
    served.get();
  }
}

TEST_CASE("attached_region: an owner whose answer does not end costs the timeout") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  raw_owner owner{path};
  auto served = owner.serve([](int socket, std::uint64_t ticket) {
    // Of another request: nothing of it is used.
    const detail::answer_packet other{ticket + 1, 1};
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < end &&
           detail::send_packet(socket, other) != detail::transfer_result::closed) {
    }
  });
  attach_options options = attach_within(20ms);
  options.device = first_device;
  const auto began = std::chrono::steady_clock::now();
  check_ipc_error(ipc_failure::timeout, [&] { const attached_region none{path, options}; });
  CHECK(std::chrono::steady_clock::now() - began < 10s);
  served.get();
}

HIPVMM_CHILD("publishes while nobody reads") {
  // Root may have any number of descriptors on their way.
  REQUIRE(::setresuid(54321, 54321, 54321) == 0);
  const descriptor_limit limit{400};
  const publication_options options{.patience = 60s, .max_importers = 16};
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const stream stream;
  constexpr std::size_t chunks = 40;
  region owned{first_device, chunks * granule(), shareable_chunks()};
  for (std::size_t i = 0; i < chunks; ++i) owned.commit(i * granule(), granule());
  publication published{path, first_device, chunks * granule(), {}, options};
  published.announce(owned, chunks * granule(), stream);
  stream.synchronize();
  std::vector<std::unique_ptr<raw_importer>> silent;
  for (int i = 0; i < 15; ++i) {
    silent.push_back(std::make_unique<raw_importer>(path));
    silent.back()->send(detail::hello_packet{detail::own_identity()});
    silent.back()->send(detail::request_packet{1, 0});
  }
  REQUIRE(comes_true([&] { return published.importers() == 15; }));
  std::this_thread::sleep_for(50ms);
  const attached_region honest{path, attach_within(20s)};
  CHECK(honest.bytes() == chunks * granule());
}

TEST_CASE("publication: importers that do not read hold nobody up") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may run as a user that has no descriptors on their way");
    return;
  }
  check_child("publishes while nobody reads", {"HOME=/dev/null/home", "XDG_CACHE_HOME="});
}

TEST_CASE("publication: those dropped with descriptors on their way count until they are gone") {
  publication_options options;
  options.max_importers = 2;
  std::optional<published_region> memory;
  std::vector<std::unique_ptr<raw_importer>> silent;
  // Both must be seen before the patience is over, which a busy machine may use up.
  bool are_seen = false;
  for (options.patience = 1s; !are_seen; options.patience *= 2) {
    REQUIRE(options.patience < 30s);
    silent.clear();
    memory.reset();
    memory.emplace(options);
    for (int i = 0; i < 2; ++i) {
      silent.push_back(std::make_unique<raw_importer>(memory->path));
      silent.back()->send(detail::hello_packet{detail::own_identity()});
      silent.back()->send(detail::request_packet{1, 0});
    }
    are_seen = comes_true([&] { return memory->published.importers() == 2; }, options.patience);
  }
  REQUIRE(comes_true([&] { return memory->published.importers() == 0; }));
  check_ipc_error(ipc_failure::refused, [&] { const attached_region one{memory->path}; });
  silent.pop_back();
  CHECK(comes_true([&] {
    try {
      return attached_region{memory->path}.bytes() == 2 * granule();
    } catch (const ipc_error&) {
      return false;
    }
  }));
}

HIPVMM_TEST_CASE_IN("publication: a limit on file sizes is an error, not the end", {}) {
  const temporary_folder folder;
  const rlimit few{1024, 1024};
  std::signal(SIGXFSZ, SIG_DFL);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &few) == 0);
  check_ipc_error(ipc_failure::system, [&] {
    const publication none{path_in(folder), first_device, granule()};
  });
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
