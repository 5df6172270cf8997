// SPDX-License-Identifier: MIT
#include <hipvmm/ipc/fd_channel.hpp>

#include <sys/mman.h>

#include "ipc/export_kind.hpp"
#include "ipc/ipc_test.hpp"

// A channel of descriptors, and peers that do not keep to the protocol. No HIP is needed for it.
namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

channel_options impatient() { return channel_options{.timeout = 20ms}; }

/// Memory that stands for a chunk's.
shareable_handle some_memory(std::size_t bytes) {
  const int descriptor = ::memfd_create("ipc test", MFD_CLOEXEC);
  REQUIRE(descriptor >= 0);
  REQUIRE(::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0);
  return {descriptor, bytes};
}

/// Both ends of a channel; the test checks that no descriptor is left behind.
struct channel_pair {
  std::size_t before = open_descriptors();
  std::pair<fd_channel, fd_channel> ends = fd_channel::make_pair(impatient());
  fd_channel& left = ends.first;
  fd_channel& right = ends.second;

  ~channel_pair() {
    ends.first = fd_channel{std::move(ends.second)};
    { const fd_channel last{std::move(ends.first)}; }
    CHECK(open_descriptors() == before);
  }
};

std::string malformed(fd_channel& channel) {
  return check_ipc_error(ipc_failure::malformed, [&] { static_cast<void>(channel.receive()); });
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: chunks and notes arrive in order") {
  std::vector<exported_chunk> sent;
  for (std::size_t i = 0; i < 20; ++i) sent.push_back({i * 4096, i + 1, some_memory(4096)});
  left.send(sent);
  left.send_note("20 chunks");
  left.send(exported_chunk{1 << 20, 30, some_memory(8192)});
  std::size_t seen = 0;
  for (const std::size_t expected : {16, 4}) {
    const auto message = right.receive();
    REQUIRE(message.has_value());
    REQUIRE(message->chunks.size() == expected);
    for (const exported_chunk& each : message->chunks) {
      CHECK(each.offset == seen * 4096);
      CHECK(each.handle.bytes() == 4096);
      CHECK((::fcntl(each.handle.get(), F_GETFD) & FD_CLOEXEC) != 0);
      CHECK(each.serial == ++seen);
    }
  }
  CHECK(right.receive()->note == "20 chunks");
  CHECK(right.receive()->chunks.at(0).serial == 30);
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: the end of the other side is nothing received") {
  left.send_note("last");
  { const fd_channel closing{std::move(left)}; }
  CHECK(right.receive()->note == "last");
  CHECK(!right.receive().has_value());
  CHECK(!right.receive().has_value());
  check_ipc_error(ipc_failure::closed, [&] { right.send_note("too late"); });
}

TEST_CASE("fd_channel: the longest limit of time is one") {
  const channel_options options{.timeout = std::chrono::milliseconds::max()};
  auto [left, right] = fd_channel::make_pair(options);
  left.send_note("x");
  CHECK(right.receive()->note == "x");
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: a silent peer costs the timeout and nothing else") {
  const std::string text =
      check_ipc_error(ipc_failure::timeout, [&] { static_cast<void>(right.receive()); });
  CHECK(text.find("20 ms") != std::string::npos);
  left.send_note("late");
  CHECK(right.receive()->note == "late");
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: signals do not prolong the timeout") {
  struct sigaction ignoring {};
  struct sigaction former {};
  ignoring.sa_handler = [](int) {};
  REQUIRE(::sigaction(SIGUSR1, &ignoring, &former) == 0);
  std::atomic<bool> is_over{false};
  std::thread signals{[&, waiting = ::pthread_self()] {
    for (const auto end = std::chrono::steady_clock::now() + 20s;
         !is_over && std::chrono::steady_clock::now() < end;) {
      ::pthread_kill(waiting, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
  }};
  const auto began = std::chrono::steady_clock::now();
  check_ipc_error(ipc_failure::timeout, [&] { static_cast<void>(right.receive()); });
  CHECK(std::chrono::steady_clock::now() - began < 15s);
  is_over = true;
  signals.join();
  ::sigaction(SIGUSR1, &former, nullptr);
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: a peer that does not read stops no sender") {
  const std::string note(fd_channel::max_note_bytes, 'x');
  std::size_t taken = 0;
  check_ipc_error(ipc_failure::timeout, [&] {
    for (;; ++taken) left.send_note(note);
  });
  CHECK(taken > 0);
  for (; taken > 0; --taken) CHECK(right.receive()->note == note);
  left.send_note("again");
  CHECK(right.receive()->note == "again");
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: arguments that are none are refused") {
  CHECK_THROWS_AS(left.send_note(""), std::invalid_argument);
  CHECK_THROWS_AS(left.send_note(std::string(fd_channel::max_note_bytes + 1, 'x')),
                  std::invalid_argument);
  CHECK_THROWS_WITH_AS(left.send(exported_chunk{4096, 1, {}}), doctest::Contains("offset 4096"),
                       std::invalid_argument);
  std::vector<exported_chunk> two;
  two.push_back({0, 1, some_memory(4096)});
  two.push_back({4096, 2, {}});
  CHECK_THROWS_AS(left.send(two), std::invalid_argument);
  check_ipc_error(ipc_failure::timeout, [&] { static_cast<void>(right.receive()); });
}

TEST_CASE("fd_channel: only a Unix socket of packets is taken, and any other closed") {
  const std::size_t before = open_descriptors();
  CHECK_THROWS_AS(fd_channel{::open("/dev/null", O_RDONLY)}, std::invalid_argument);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CHECK_THROWS_WITH_AS(fd_channel{ends[0]}, doctest::Contains("SOCK_SEQPACKET"),
                       std::invalid_argument);
  CHECK_THROWS_AS(fd_channel{ends[1]}, std::invalid_argument);
  CHECK_THROWS_AS(fd_channel{-1}, std::invalid_argument);
  CHECK_THROWS_AS(fd_channel{::socket(AF_UNIX, SOCK_SEQPACKET, 0)}, std::invalid_argument);
  CHECK(open_descriptors() == before);
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: what a hostile peer sends is an error, not memory") {
  const shareable_handle memory = some_memory(4096);
  const int one = memory.get();
  const std::vector<unsigned char> chunk = detail::encode(detail::chunk_packet{{{0, 4096, 1}}}, 1);
  const std::size_t held = open_descriptors();
  const auto refused = [&](const std::vector<unsigned char>& bytes,
                           const std::vector<int>& descriptors, const char* word) {
    REQUIRE(send_raw(left.get(), bytes, descriptors));
    const std::string text = malformed(right);
    CHECK_MESSAGE(text.find(word) != std::string::npos, text);
    CHECK(open_descriptors() == held);
  };
  SUBCASE("a wrong mark") { refused(std::vector<unsigned char>(100, 'x'), {one, one}, "mark"); }
  SUBCASE("short") { refused({chunk.begin(), chunk.begin() + 10}, {one}, "shorter"); }
  SUBCASE("long") { refused(std::vector<unsigned char>(5000, 'x'), {one}, "1024 bytes"); }
  SUBCASE("one byte too long") { refused(std::vector<unsigned char>(1025, 'x'), {}, "longer"); }
  SUBCASE("no descriptor") { refused(chunk, {}, "descriptors"); }
  SUBCASE("too many descriptors") { refused(chunk, std::vector<int>(17, one), "16"); }
  SUBCASE("very many descriptors") { refused(chunk, std::vector<int>(250, one), "16"); }
  SUBCASE("a size that the memory has not") {
    refused(detail::encode(detail::chunk_packet{{{0, 8192, 1}}}, 1), {one}, "8192");
  }
  SUBCASE("the second of two sizes") {
    refused(detail::encode(detail::chunk_packet{{{0, 4096, 1}, {4096, 8192, 2}}}, 2), {one, one},
            "8192");
  }
  SUBCASE("a packet of publications") {
    refused(detail::encode(detail::request_packet{1, 1}, 0), {}, "publication");
  }
  left.send_note("and then a good one");
  CHECK(right.receive()->note == "and then a good one");
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: an empty packet with a descriptor leaves none open") {
  const shareable_handle memory = some_memory(4096);
  const std::size_t held = open_descriptors();
  REQUIRE(send_raw(left.get(), nullptr, 0, {memory.get()}));
  CHECK(!right.receive().has_value());
  CHECK(open_descriptors() == held);
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: a receiver without descriptors says so") {
  left.send(exported_chunk{0, 1, some_memory(4096)});
  left.send(exported_chunk{4096, 2, some_memory(4096)});
  {
    const no_descriptors_left limit;
    CHECK_THROWS_AS(static_cast<void>(right.receive()), out_of_memory);
  }
  // The system closed none of them.
  CHECK(right.receive()->chunks.at(0).serial == 1);
  CHECK(right.receive()->chunks.at(0).serial == 2);
}

TEST_CASE_FIXTURE(
    channel_pair,
    "fd_channel: a receiver with few descriptors finds a packet with too many malformed") {
  const shareable_handle memory = some_memory(4096);
  const detail::chunk_packet one{{{0, 4096, 1}}};
  REQUIRE(send_raw(left.get(), detail::encode(one, 1), std::vector<int>(20, memory.get())));
  left.send(exported_chunk{0, 2, some_memory(4096)});
  const auto check_malformed = [&, &end = right] {
    check_ipc_error(ipc_failure::malformed, [&] { static_cast<void>(end.receive()); });
  };
  for (const std::size_t left_over : {std::size_t{4}, std::size_t{18}}) {
    const descriptor_limit few{limit_that_leaves(left_over)};
    check_malformed();
  }
  check_malformed();
  CHECK(right.receive()->chunks.at(0).serial == 2);
}

TEST_CASE("fd_channel: a peer of another user is refused before the first read") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may make a socket as another user");
    return;
  }
  const temporary_folder folder;
  ::chmod(folder.path().c_str(), 0777);
  const std::string path = (folder.path() / "socket").string();
  const detail::owned_descriptor listener = detail::make_socket();
  detail::bind_to(listener.get(), path, detail::who_connects::everybody);
  REQUIRE(::listen(listener.get(), 4) == 0);
  constexpr unsigned other = 54321;
  CHECK(succeeds_in_forked_child([&] {
    if (::setresuid(other, other, other) != 0) return false;
    try {
      const fd_channel refused{path};
    } catch (const ipc_error& error) {
      if (error.reason() != ipc_failure::refused) return false;
    }
    fd_channel accepted{path, {.other_users = {0}}};
    accepted.send_note("hello");
    return true;
  }));
  const auto accept = [&] {
    const int accepted = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(accepted >= 0);
    return accepted;
  };
  const std::string text = check_ipc_error(ipc_failure::refused, [&] { fd_channel{accept()}; });
  CHECK(text.find("user 54321, this one as 0") != std::string::npos);
  fd_channel channel{accept(), {.other_users = {other}}};
  CHECK(channel.receive()->note == "hello");
}

TEST_CASE("require_user: users of other namespaces are nobody, whoever is named") {
  unsigned overflow = 0;
  REQUIRE(static_cast<bool>(std::ifstream{"/proc/sys/kernel/overflowuid"} >> overflow));
  detail::require_user({1, 54321}, {54321});
  const std::string text = check_ipc_error(ipc_failure::refused, [&] {
    detail::require_user({1, overflow}, {overflow});
  });
  CHECK(text.find("another namespace") != std::string::npos);
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may run as another user");
    return;
  }
  CHECK(succeeds_in_forked_child([&] {
    if (::setresuid(overflow, overflow, overflow) != 0) return false;
    try {
      detail::require_user({1, ::geteuid()}, {});
    } catch (const ipc_error& error) {
      return error.reason() == ipc_failure::refused;
    }
    return false;
  }));
}

TEST_CASE("fd_channel: what a peer sent before it closed without reading is received") {
  auto [here, there] = fd_channel::make_pair();
  here.send_note("the last");
  there.send_note("never read");
  // The system reports a reset before the bytes still to be read.
  { const fd_channel closed{std::move(here)}; }
  CHECK(there.receive()->note == "the last");
  CHECK_FALSE(there.receive().has_value());
}

TEST_CASE("kind_of: descriptors by their names in /proc") {
  const auto kind = [](const char* link) { return detail::kind_of_link(link); };
  CHECK(kind("/dmabuf:") == export_kind::dma_buf);
  CHECK(kind("/dmabuf:name") == export_kind::dma_buf);
  CHECK(kind("anon_inode:dmabuf") == export_kind::dma_buf);
  CHECK(kind("/memfd:name (deleted)") == export_kind::memory_file);
  CHECK(kind("/dev/nvidiactl") == export_kind::driver_file);
  CHECK(kind("socket:[1]") == export_kind::unknown);
  CHECK(kind_of(some_memory(4096)) == export_kind::memory_file);
  CHECK_THROWS_AS(static_cast<void>(kind_of(shareable_handle{})), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(kind_of(shareable_handle{5'000, 1})), std::invalid_argument);
}

TEST_CASE("fd_channel: where nobody listens it says so") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "socket").string();
  const std::string text = check_ipc_error(ipc_failure::closed, [&] {
    const fd_channel none{path, impatient()};
  });
  CHECK(text.find(path) != std::string::npos);
  CHECK_THROWS_AS((fd_channel{std::string(200, 'x')}), std::invalid_argument);
  CHECK_THROWS_AS((fd_channel{std::string{}}), std::invalid_argument);
}

TEST_CASE_FIXTURE(channel_pair, "fd_channel: what is moved from is empty and sends nothing") {
  fd_channel taken{std::move(left)};
  CHECK(left.empty());
  CHECK_THROWS_AS(left.send_note("x"), ipc_error);
  left = std::move(taken);
  left.send_note("x");
  CHECK(right.receive()->note == "x");
}

TEST_CASE("fd_channel: both sides may send at the same time") {
  // Patient, because a thread may not run for a while.
  auto [left, right] = fd_channel::make_pair();
  // Both send more than the sockets hold before either reads all of it.
  const std::string note(fd_channel::max_note_bytes, 'x');
  const auto work = [&](fd_channel& channel) {
    std::thread sends{[&] {
      for (int i = 0; i < 500; ++i) channel.send_note(note);
    }};
    for (int i = 0; i < 500; ++i) CHECK(channel.receive()->note == note);
    sends.join();
  };
  std::thread other{[&work, &end = right] { work(end); }};
  work(left);
  other.join();
}

}  // namespace
}  // namespace hipvmm::test
