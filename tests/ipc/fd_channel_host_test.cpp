// SPDX-License-Identifier: MIT
#include "ipc/ipc_test.hpp"
#include "support/host/host_provider.hpp"

// Chunks over a channel, from process to process, and failing calls of the system.
namespace hipvmm::test {
namespace {

constexpr int inherited_end = 100;

HIPVMM_CHILD("fd_channel: adopts what comes, checks it and writes to it") {
  const stream stream;
  fd_channel channel{inherited_end};
  region mirror{first_device, 32 * granule()};
  for (;;) {
    const auto message = channel.receive();
    REQUIRE(message.has_value());
    for (const exported_chunk& each : message->chunks)
      mirror.adopt(each.offset, import_chunk(each.handle, first_device));
    if (message->note == "that was all") break;
  }
  check_tags(mirror, 0, 20, 1, stream);
  write_tags(mirror, 0, 20, 2, stream);
  channel.send_note("done");
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("fd_channel: another process maps the chunks of a region") {
  const stream stream;
  region owned{first_device, 32 * granule(), shareable_chunks()};
  for (std::size_t i = 0; i < 20; ++i) owned.commit(i * granule(), granule());
  write_tags(owned, 0, 20, 1, stream);
  auto [here, there] = fd_channel::make_pair();
  here.send(owned.export_chunks());
  here.send_note("that was all");
  check_child("fd_channel: adopts what comes, checks it and writes to it", {},
              {{there.get(), inherited_end}});
  CHECK(here.receive()->note == "done");
  check_tags(owned, 0, 20, 2, stream);
}

TEST_CASE("fd_channel: a descriptor of another kind becomes no chunk") {
  auto [here, there] = fd_channel::make_pair();
  const hipvmm_host_counters before = live_objects();
  int pipe_ends[2];
  REQUIRE(::pipe2(pipe_ends, O_CLOEXEC) == 0);
  here.send(exported_chunk{0, 1, shareable_handle{pipe_ends[0], granule()}});
  here.send(exported_chunk{0, 1, shareable_handle{pipe_ends[1], granule()}});
  for (int i = 0; i < 2; ++i) {
    const auto message = there.receive();
    CHECK_THROWS(static_cast<void>(import_chunk(message->chunks.at(0).handle, first_device)));
  }
  CHECK(live_objects() == before);
}

TEST_SUITE_END();

// The step of the protocol that fails next, counted down.
int failing_call = 0;
int fail_at_call(const char*) { return --failing_call == 0 ? EIO : 0; }

TEST_CASE("fd_channel: each call of the system that fails is one error, with nothing left open") {
  const std::size_t before = open_descriptors();
  for (int nth = 1;; ++nth) {
    REQUIRE(nth < 50);
    failing_call = nth;
    detail::protocol_step_hook = fail_at_call;
    bool failed = false;
    try {
      auto [here, there] = fd_channel::make_pair();
      const int descriptor = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
      here.send(exported_chunk{0, 1, shareable_handle{descriptor, 1}});
      CHECK(there.receive()->chunks.size() == 1);
    } catch (const ipc_error& error) {
      failed = true;
      CHECK(error.reason() == ipc_failure::system);
    }
    detail::protocol_step_hook = nullptr;
    CHECK(open_descriptors() == before);
    if (!failed) {
      CHECK(nth > 3);
      break;
    }
  }
}

}  // namespace
}  // namespace hipvmm::test
