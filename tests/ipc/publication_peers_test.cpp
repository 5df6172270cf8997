// SPDX-License-Identifier: MIT
// Importers that do not keep to the protocol, or say nothing.
#include <poll.h>

#include "ipc/ipc_test.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(published_region, "publication: refuses peers that do not keep to the protocol") {
  attached_region honest{path};
  {
    raw_importer other{path};
    detail::hello_packet hello{detail::own_identity()};
    ++hello.identity.version[1];
    other.send(hello);
    CHECK(other.refusal().find("use the same on both sides") != std::string::npos);
  }
  {
    raw_importer early{path};
    early.send(detail::request_packet{1, 0});
    CHECK(early.refusal().find("at this point") != std::string::npos);
  }
  {
    raw_importer future{path};
    future.send(detail::hello_packet{detail::own_identity()});
    REQUIRE(future.receive().has_value());
    future.send(detail::request_packet{1, 1'000'000});
    CHECK(future.refusal().find("at this point") != std::string::npos);
  }
  {
    raw_importer noise{path};
    REQUIRE(send_raw(noise.socket.get(), "no packet of this protocol", 26));
    CHECK_FALSE(noise.refusal().empty());
  }
  CHECK(comes_true([&] { return published.importers() == 1; }));
  owned.commit(2 * granule(), granule());
  announce(3);
  CHECK(honest.wait_for(3 * granule(), 10s, stream));
}

TEST_CASE("publication: drops peers that are silent, or do not read, and serves the others") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const stream stream;
  {
    const published_region memory{{.patience = 50ms}};
    raw_importer silent{memory.path};
    CHECK_FALSE(silent.receive().has_value());
  }
  const publication_options options{.patience = 60s, .max_importers = 3};
  region owned{first_device, 64 * granule(), shareable_chunks()};
  publication published{path, first_device, 64 * granule(), {}, options};
  const std::size_t before = open_descriptors();
  const raw_importer silent{path};
  attached_region honest{path};
  for (std::size_t i = 0; i < 64; ++i) owned.commit(i * granule(), granule());
  published.announce(owned, 64 * granule(), stream);
  CHECK(honest.wait_for(64 * granule(), 10s, stream));
  raw_importer second{path};
  raw_importer third{path};
  raw_importer too_many{path};
  for (raw_importer* const each : {&second, &third, &too_many})
    each->send(detail::hello_packet{detail::own_identity()});
  CHECK(too_many.refusal().find("max_importers") != std::string::npos);
  // All of it is free again.
  { const detail::owned_descriptor closed{std::move(second.socket)}; }
  { const detail::owned_descriptor closed{std::move(third.socket)}; }
  { const detail::owned_descriptor closed{std::move(too_many.socket)}; }
  CHECK(comes_true([&] { return published.importers() == 1; }));
  // The chunks here, the honest importer's connection on both sides.
  CHECK(open_descriptors() >= before);
}

TEST_CASE("publication: silent connections keep nobody out") {
  published_region memory{{.patience = 60s, .max_importers = 2}};
  const attached_region first{memory.path};
  std::vector<std::unique_ptr<raw_importer>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<raw_importer>(memory.path));
  const attached_region second{memory.path};
  CHECK(second.bytes() == 2 * granule());
  // The oldest had its chance.
  CHECK_FALSE(silent.front()->receive().has_value());
  silent.back()->send(detail::hello_packet{detail::own_identity()});
  CHECK(silent.back()->refusal().find("raise max_importers") != std::string::npos);
}

/// The answer to a request, to its end.
struct whole_answer {
  std::vector<std::uint64_t> added, withdrawn, present;
  bool has_present = false;
  std::uint64_t epoch = 0;

  whole_answer(raw_importer& from, std::uint64_t ticket, std::uint64_t epoch_there) {
    const auto take = [](const std::vector<detail::chunk_record>& list,
                         std::vector<std::uint64_t>& into) {
      for (const detail::chunk_record& each : list) into.push_back(each.serial);
    };
    from.send(detail::request_packet{ticket, epoch_there});
    for (;;) {
      const auto next = from.receive();
      REQUIRE(next.has_value());
      if (const auto* const chunks = std::get_if<detail::chunk_packet>(&next->content)) {
        take(chunks->chunks, added);
      } else if (const auto* const gone = std::get_if<detail::retired_packet>(&next->content)) {
        take(gone->chunks, withdrawn);
      } else if (const auto* const list = std::get_if<detail::present_packet>(&next->content)) {
        take(list->chunks, present);
        has_present = true;
      } else if (const auto* const end = std::get_if<detail::complete_packet>(&next->content)) {
        if (end->ticket != ticket) continue;
        epoch = end->epoch;
        return;
      }
    }
  }
};

TEST_CASE_FIXTURE(published_region,
                  "publication: withdrawn chunks do not pile up while nobody looks") {
  attached_region honest{path};
  raw_importer lazy{path};
  lazy.send(detail::hello_packet{detail::own_identity()});
  REQUIRE(lazy.receive().has_value());
  const whole_answer first{lazy, 1, 0};
  CHECK(first.added.size() == 2);
  // Another region's chunks in place of the first, and these again.
  region other{first_device, 8 * granule(), shareable_chunks()};
  other.commit(0, granule());
  const auto exchange = [&] {
    for (int i = 0; i < 150; ++i) {
      published.announce(other, granule(), stream);
      announce(2);
    }
  };
  exchange();
  const whole_answer second{lazy, 2, first.epoch};
  CHECK(second.withdrawn.size() + second.present.size() <= 256);
  REQUIRE(second.has_present);
  REQUIRE(second.present.size() == 2);
  CHECK(second.present == first.added);
  CHECK(second.added == first.added);
  CHECK_FALSE(published.wait_until_withdrawn(0ms));
  write_tag(owned, 1, 9, stream);
  stream.synchronize();
  CHECK(honest.refresh(stream) == 2 * granule());
  CHECK(honest.chunks().size() == 2);
  CHECK(read_bytes(stream, advance(honest.data(), granule()), tag_bytes) ==
        read_bytes(stream, advance(owned.base(), granule()), tag_bytes));
  CHECK_FALSE(published.wait_until_withdrawn(0ms));
  // It reports its mapped chunks.
  const whole_answer third{lazy, 3, second.epoch};
  CHECK_FALSE(third.has_present);
  CHECK(third.added.empty());
  CHECK(published.wait_until_withdrawn(20s));
  // All of it goes, so that the list of present chunks is empty.
  exchange();
  region nothing{first_device, granule(), shareable_chunks()};
  published.announce(nothing, 0, stream);
  stream.synchronize();
  CHECK(honest.refresh(stream) == 0);
  CHECK(honest.chunks().empty());
}

TEST_CASE_FIXTURE(
    published_region,
    "publication: a dropped importer that leaves descriptors unread costs none then") {
  const std::size_t before = steady_descriptors();
  {
    raw_importer other{path};
    other.send(detail::hello_packet{detail::own_identity()});
    other.send(detail::request_packet{1, 0});
    other.send(detail::request_packet{2, 1'000'000});
    pollfd ended{other.socket.get(), POLLRDHUP, 0};
    REQUIRE(::poll(&ended, 1, 10'000) == 1);
  }
  CHECK(descriptors_become(before));
}

TEST_CASE("attached_region: maps with a few descriptors what has many chunks") {
  constexpr std::size_t count = 48;
  const temporary_folder folder;
  const stream stream;
  region owned{first_device, count * granule(), shareable_chunks()};
  publication published{path_in(folder), first_device, count * granule()};
  attached_region measured{path_in(folder)};
  attached_region seen{path_in(folder)};
  for (std::size_t i = 0; i < count; ++i) owned.commit(i * granule(), granule());
  published.announce(owned, count * granule(), stream);
  stream.synchronize();
  // HIP keeps descriptors of each chunk that was imported.
  const std::size_t before = open_descriptors();
  CHECK(measured.refresh(stream) == count * granule());
  const std::size_t kept = open_descriptors() - before;
  const descriptor_limit few{limit_that_leaves(kept + detail::max_packet_descriptors + 4)};
  CHECK(seen.refresh(stream) == count * granule());
}

TEST_CASE("attached_region: with too few descriptors it says how many it may have, and goes on") {
  constexpr std::size_t count = 40;
  const temporary_folder folder;
  const stream stream;
  region owned{first_device, count * granule(), shareable_chunks()};
  publication published{path_in(folder), first_device, count * granule()};
  attached_region seen{path_in(folder)};
  for (std::size_t i = 0; i < count; ++i) owned.commit(i * granule(), granule());
  published.announce(owned, count * granule(), stream);
  stream.synchronize();
  {
    // Under a low limit the owner, in this process too, would send chunks one by one.
    std::vector<detail::owned_descriptor> others;
    while (lowest_free_descriptor() < 8 * detail::max_packet_descriptors)
      others.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::size_t most = limit_that_leaves(detail::max_packet_descriptors / 2);
    const descriptor_limit few{most};
    const std::string text = text_thrown_by<out_of_memory>([&] { seen.refresh(stream); });
    const std::string named = "may have " + std::to_string(most) + " (RLIMIT_NOFILE)";
    CHECK_MESSAGE(text.find(named) != std::string::npos, text);
    CHECK_MESSAGE(text.find("device -1") == std::string::npos, text);
    CHECK(seen.is_open());
  }
  CHECK(seen.refresh(stream) == count * granule());
}

TEST_CASE("attached_region: owners that come and go are there, or not, and nothing else") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  {
    // The first export and import of a process may open more of the driver's own.
    const publication one{path, first_device, granule()};
    const attached_region seen{path};
  }
  const std::size_t before = open_descriptors();
  std::atomic<bool> ends{false};
  std::thread owner{[&] {
    for (int i = 0; i < 50; ++i) {
      const publication one{path, first_device, granule()};
      std::this_thread::sleep_for(100us);
    }
    ends = true;
  }};
  while (!ends) {
    try {
      const attached_region seen{path};
    } catch (const ipc_error& error) {
      CHECK_MESSAGE(error.reason() == ipc_failure::closed, error.what());
    }
  }
  owner.join();
  for (int i = 0; i < 200; ++i)
    check_ipc_error(ipc_failure::closed, [&] { attached_region{path}; });
  // A socket that nobody listens to any more.
  const detail::owned_descriptor dead = detail::make_socket();
  detail::bind_to(dead.get(), path, detail::who_connects::same_user);
  for (int i = 0; i < 200; ++i)
    check_ipc_error(ipc_failure::closed, [&] { attached_region{path}; });
  CHECK(open_descriptors() == before + 1);
}

/// Whether an importer that asks again and again, and unmaps nothing, is told that its lease is
/// over.
bool is_told_after(std::chrono::milliseconds lease) {
  publication_options options;
  options.lease = lease;
  published_region memory{options};
  raw_importer failing{memory.path};
  failing.send(detail::hello_packet{detail::own_identity()});
  REQUIRE(failing.receive().has_value());
  const whole_answer first{failing, 1, 0};
  memory.owned.trim(granule(), memory.stream);
  memory.announce(1);
  // As one whose every refresh() fails.
  std::uint64_t ticket = 1;
  bool is_told = false;
  CHECK(comes_true([&] {
    const detail::request_packet again{++ticket, first.epoch};
    static_cast<void>(detail::send_packet(failing.socket.get(), again));
    detail::received_packet next;
    for (;;) {
      const detail::transfer_result result = detail::receive_packet(failing.socket.get(), next);
      if (result == detail::transfer_result::closed) return true;
      if (result == detail::transfer_result::would_block) return false;
      is_told |= std::holds_alternative<detail::expired_packet>(next.content);
    }
  }));
  CHECK(memory.published.wait_until_withdrawn(0ms));
  return is_told;
}

TEST_CASE("publication: an importer that only asks, and unmaps nothing, keeps no lease") {
  // A busy machine may hold up this thread, which asks, for as long.
  CHECK((is_told_after(200ms) || is_told_after(1s) || is_told_after(5s)));
}

TEST_CASE("attached_region: refuses owners that do not keep to the protocol") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  raw_owner owner{path};
  region source{first_device, granule(), shareable_chunks()};
  source.commit(0, granule());
  const std::vector<exported_chunk> real = source.export_chunks();
  const int descriptor = real.front().handle.get();
  attach_options options = attach_within(10s);
  options.device = first_device;
  const auto send = [](int socket, const detail::packet& content,
                       const std::vector<int>& descriptors = {}) {
    static_cast<void>(detail::send_packet(socket, content, descriptors));
  };
  const auto fails = [&](ipc_failure why, const raw_owner::answer& how) {
    auto served = owner.serve(how);
    options.timeout = why == ipc_failure::timeout ? 50ms : 10s;
    check_ipc_error(why, [&] { const attached_region refused{path, options}; });
    served.get();
  };
  const auto is_malformed = [&](const auto& send_chunks) {
    fails(ipc_failure::malformed, [&](int socket, std::uint64_t ticket) {
      send(socket, detail::answer_packet{ticket, 1});
      send_chunks(socket);
    });
  };
  const detail::chunk_packet one{{{0, granule(), 1}}};
  const std::size_t before = open_descriptors();
  // A descriptor that was lost on the way.
  is_malformed([&](int socket) { REQUIRE(send_raw(socket, detail::encode(one, 1))); });
  // Outside of the reservation; no whole granule; in one place twice.
  is_malformed([&](int socket) {
    send(socket, detail::chunk_packet{{{4 * granule(), granule(), 1}}}, {descriptor});
  });
  is_malformed([&](int socket) {
    send(socket, detail::chunk_packet{{{1, granule(), 1}}}, {descriptor});
  });
  is_malformed([&](int socket) {
    send(socket, detail::chunk_packet{{{0, granule(), 1}, {0, granule(), 2}}},
         {descriptor, descriptor});
  });
  is_malformed([&](int socket) { send(socket, detail::hello_packet{detail::own_identity()}); });
  // An answer to another request, or without a beginning.
  fails(ipc_failure::timeout, [&](int socket, std::uint64_t ticket) {
    send(socket, detail::answer_packet{ticket + 1, 1});
    send(socket, one, {descriptor});
    send(socket, detail::complete_packet{ticket + 1, 1});
  });
  fails(ipc_failure::timeout, [&](int socket, std::uint64_t ticket) {
    send(socket, detail::complete_packet{ticket, 1});
  });
  CHECK(open_descriptors() == before);
  options.timeout = 10s;
  auto served = owner.serve([&](int socket, std::uint64_t ticket) {
    // The answer to an earlier request comes first.
    send(socket, detail::answer_packet{ticket + 1, 1});
    send(socket, detail::chunk_packet{{{granule(), granule(), 2}}}, {descriptor});
    send(socket, detail::complete_packet{ticket + 1, 1});
    send(socket, detail::answer_packet{ticket, 1});
    send(socket, one, {descriptor});
    send(socket, detail::complete_packet{ticket, 1});
  });
  {
    const attached_region seen{path, options};
    CHECK(seen.chunks().size() == 1);
  }
  served.get();
}

TEST_CASE("attached_region: a refresh that fails shows no byte that is not there") {
  const temporary_folder folder;
  raw_owner owner{path_in(folder)};
  region source{first_device, 2 * granule(), shareable_chunks()};
  for (std::size_t i = 0; i < 2; ++i) source.commit(i * granule(), granule());
  const std::vector<exported_chunk> real = source.export_chunks();
  int requests = 0;
  auto served = owner.serve([&](int socket, std::uint64_t ticket) {
    const auto send = [socket](const detail::packet& content, const std::vector<int>& with = {}) {
      static_cast<void>(detail::send_packet(socket, content, with));
    };
    send(detail::answer_packet{ticket, 1});
    switch (++requests) {
      case 1:
        send(detail::chunk_packet{{{0, granule(), 1}}}, {real[0].handle.get()});
        return send(detail::complete_packet{ticket, 1});
      case 2:
        // Chunk 2 has gone before the importer saw it. The chunk in its place is not written yet.
        owner.page().cut(3, 0, granule());
        owner.page().set_epoch(3);
        send(detail::retired_packet{{{granule(), granule(), 2}}});
        send(detail::chunk_packet{{{granule(), granule(), 3}}}, {real[1].handle.get()});
        return send(detail::complete_packet{ticket, 3});
      case 4:
        send(detail::retired_packet{{{granule(), granule(), 4}}});
        return send(detail::complete_packet{ticket, 4});
      default:
        // When the importer says that it has unmapped the old chunk.
        return send(detail::hello_packet{detail::own_identity()});
    }
  });
  attach_options options = attach_within(10s);
  options.device = first_device;
  owner.page().set_range(1, {0, granule()});
  std::optional<attached_region> seen{std::in_place, path_in(folder), options};
  CHECK(seen->bytes() == granule());
  const stream stream;
  owner.page().set_range(2, {0, 2 * granule()});
  owner.page().set_epoch(2);
  check_ipc_error(ipc_failure::malformed, [&] { seen->refresh(stream); });
  CHECK(seen->bytes() == granule());
  // An owner that says that there is more than it has sent.
  owner.page().set_range(4, {0, 4 * granule()});
  owner.page().set_epoch(4);
  check_ipc_error(ipc_failure::malformed, [&] { seen->refresh(stream); });
  CHECK(seen->bytes() == 2 * granule());
  seen.reset();
  served.get();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
