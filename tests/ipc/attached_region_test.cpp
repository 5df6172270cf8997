// SPDX-License-Identifier: MIT
// Importers and time: their own work, and the limits of both sides.
#include "ipc/ipc_test.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

TEST_SUITE_BEGIN("needs virtual memory");

/// A stream whose work ends after `time`.
struct busy_stream {
  explicit busy_stream(std::chrono::milliseconds time)
      : ends{std::async(std::launch::async, [this, time] {
          std::this_thread::sleep_for(time);
          stream.release();
        })} {}
  blocked_stream stream{first_device};
  std::future<void> ends;
};

TEST_CASE("attached_region: an importer that waits for its own stream is not dropped") {
  constexpr std::size_t count = 40;
  const temporary_folder folder;
  const stream stream;
  region owned{first_device, count * granule(), shareable_chunks()};
  publication published{path_in(folder), first_device, count * granule(), {}, {.patience = 1s}};
  const auto replace_all = [&] {
    owned.decommit(0, count * granule());
    for (std::size_t i = 0; i < count; ++i) owned.commit(i * granule(), granule());
    published.announce(owned, count * granule(), stream);
    stream.synchronize();
  };
  replace_all();
  attached_region seen{path_in(folder)};
  replace_all();
  {
    const busy_stream busy{3s};
    CHECK(seen.refresh(busy.stream) == count * granule());
  }
  CHECK(seen.is_open());
  CHECK(published.importers() == 1);
  CHECK(published.wait_until_withdrawn(20s));
}

TEST_CASE_FIXTURE(published_region,
                  "attached_region: its own work does not count against the owner's limit") {
  attached_region seen{path, attach_within(100ms)};
  owned.trim(granule(), stream);
  announce(1);
  const busy_stream busy{300ms};
  CHECK_NOTHROW(CHECK(seen.refresh(busy.stream) == granule()));
  CHECK(published.wait_until_withdrawn(20s));
}

TEST_CASE("attached_region: wait_for() returns false at its limit though the owner goes on") {
  const temporary_folder folder;
  raw_owner owner{path_in(folder)};
  std::uint64_t epoch = 1;
  std::chrono::milliseconds duration{0};
  auto served = owner.serve([&](int socket, std::uint64_t ticket) {
    std::this_thread::sleep_for(duration);
    static_cast<void>(detail::send_packet(socket, detail::answer_packet{ticket, epoch}));
    static_cast<void>(detail::send_packet(socket, detail::complete_packet{ticket, epoch}));
    owner.page().set_epoch(++epoch);
    if (epoch > 16) duration = 50ms;
  });
  attach_options options = attach_within(1s);
  options.device = first_device;
  {
    const stream stream;
    attached_region seen{path_in(folder), options};
    bool has_come = true;
    CHECK_NOTHROW(has_come = seen.wait_for(1, 120ms, stream));
    CHECK_FALSE(has_come);
    CHECK_NOTHROW(seen.refresh(stream));
    CHECK(seen.is_open());
  }
  served.get();
}

thread_local int sends_refused = -1;  // in the thread that set it; -1: none is to be

int refuse_sends(const char* step) {
  // An end, if the caller has none.
  if (sends_refused < 0 || sends_refused > 5000 || std::string_view{step} != "sendmsg") return 0;
  ++sends_refused;
  return ENOBUFS;
}

TEST_CASE_FIXTURE(published_region,
                  "attached_region: sends at intervals, up to the limit, while buffers lack") {
  attached_region seen{path, attach_within(50ms)};
  owned.trim(granule(), stream);
  announce(1);
  detail::protocol_step_hook = refuse_sends;
  sends_refused = 0;
  check_ipc_error(ipc_failure::timeout, [&] { seen.refresh(stream); });
  CHECK(sends_refused < 1000);
  detail::protocol_step_hook = nullptr;
  sends_refused = -1;
  CHECK(seen.refresh(stream) == granule());
}

TEST_CASE_FIXTURE(published_region,
                  "attached_region: its end is seen though a child of fork() lives") {
  std::optional<attached_region> seen{path};
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  seen.reset();
  owned.trim(granule(), stream);
  announce(1);
  CHECK(comes_true([&] { return published.importers() == 0; }, 2s));
  CHECK(published.wait_until_withdrawn(0ms));
  ::kill(child, SIGKILL);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
