// SPDX-License-Identifier: MIT
// Publications that are kept: memory that outlives the process that made it.
#include <hipvmm/capability/capability.hpp>
#include "ipc/ipc_test.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

std::string kept_path(const std::string& path) { return path + ".kept"; }

/// Makes a file that says something to another process.
void tell(const std::string& path) { const std::ofstream file{path}; }

bool is_told(const std::string& path) {
  return comes_true([&] { return std::filesystem::exists(path); });
}

/// The chunks of an importer, for check_tags().
struct seen_from {
  const attached_region& seen;
  [[nodiscard]] void* base() const { return seen.data(); }
};

void check_tags_of(const attached_region& seen, std::size_t chunks, stream_ref stream) {
  REQUIRE(seen.bytes() == chunks * granule());
  check_tags(seen_from{seen}, 0, chunks, 1, stream);
}

/// A region of two chunks under a path, and kept under another.
struct kept_region : published_region {
  publication kept = publication::keep(path, kept_path(path));

  void end_owner() {
    { const publication ended{std::move(published)}; }
    { const region gone{std::move(owned)}; }
    REQUIRE(comes_true([&] { return !kept.follows(); }));
  }
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(kept_region, "publication::keep: memory and path outlive the owner") {
  CHECK(kept.path() == kept_path(path));
  CHECK(kept.max_bytes() == 8 * granule());
  CHECK(kept.follows());
  CHECK(published.importers() == 1);
  attached_region before{kept_path(path)};
  end_owner();
  check_tags_of(before, 2, stream);
  attached_region after{kept_path(path)};
  check_tags_of(after, 2, stream);
  CHECK(get_access(after.data(), first_device) == access_right::read);
  attached_region writer{kept_path(path), {.right = access_right::read_write}};
  write_tags(seen_from{writer}, 0, 2, 5, stream);
  check_tags(seen_from{before}, 0, 2, 5, stream);
  CHECK(kept.importers() == 3);
  CHECK_FALSE(published.follows());  // NOLINT(bugprone-use-after-move): it is empty
}

TEST_CASE("publication::keep: a vector's type and devices are those of the owner") {
  const temporary_folder folder;
  const stream stream;
  growable_device_vector<int> numbers{first_device,
                                      {.max_bytes = 64 * MiB,
                                       .past_max = past_max_size::refuse,
                                       .chunks = {.shareable = handle_type::posix_fd}}};
  numbers.resize(1000, 7, stream);
  publication published{path_in(folder), numbers};
  published.announce(numbers, stream);
  stream.synchronize();
  const publication kept = publication::keep(path_in(folder), kept_path(path_in(folder)));
  attached_vector<int> seen{kept_path(path_in(folder))};
  CHECK(seen.size() == 1000);
  CHECK(seen.device() == first_device);
  check_ipc_error(ipc_failure::refused,
                  [&] { attached_vector<double> wrong{kept_path(path_in(folder))}; });
}

TEST_CASE_FIXTURE(kept_region, "publication::keep: follows growth until the owner ends") {
  attached_region seen{kept_path(path)};
  for (std::size_t chunks = 3; chunks <= 5; ++chunks) {
    owned.commit((chunks - 1) * granule(), granule());
    write_tags(owned, chunks - 1, chunks, 1, stream);
    announce(chunks);
    REQUIRE(seen.wait_for(chunks * granule(), 10s, stream));
  }
  end_owner();
  check_tags_of(seen, 5, stream);
  check_tags_of(attached_region{kept_path(path)}, 5, stream);
}

TEST_CASE_FIXTURE(kept_region, "publication::keep: what is announced and not passed on stays") {
  owned.commit(2 * granule(), granule());
  write_tags(owned, 2, 3, 1, stream);
  announce(3);
  REQUIRE(comes_true([&] { return attached_region{kept_path(path)}.bytes() == 3 * granule(); }));
  published.announce(owned, 2 * granule(), stream);
  stream.synchronize();
  end_owner();
  // The last size, though no chunk had changed.
  check_tags_of(attached_region{kept_path(path)}, 2, stream);
}

TEST_CASE_FIXTURE(kept_region, "publication::keep: withdrawn chunks go, and replacements come") {
  attached_region seen{kept_path(path)};
  const std::size_t before = steady_descriptors();
  owned.trim(granule(), stream);
  announce(1);
  // The owner does not wait for importers of the kept memory, and the keeper can.
  CHECK(published.wait_until_withdrawn(20s));
  REQUIRE(comes_true([&] { return seen.refresh(stream) == granule(); }));
  CHECK(seen.chunks().size() == 1);
  CHECK(kept.wait_until_withdrawn(20s));
  owned.commit(granule(), granule());
  write_tags(owned, 1, 2, 7, stream);
  announce(2);
  REQUIRE(seen.wait_for(2 * granule(), 10s, stream));
  check_tags(seen_from{seen}, 1, 2, 7, stream);
  // Else the owner's chunk, and the importer's, leave descriptors until the addresses are freed.
  if (capability_of(first_device).has(trait::returns_memory)) CHECK(descriptors_become(before));
}

TEST_CASE_FIXTURE(kept_region, "publication::keep: a range that begins behind the start") {
  published.announce(owned, granule(), granule(), stream);
  stream.synchronize();
  REQUIRE(comes_true([&] { return attached_region{kept_path(path)}.bytes() == granule(); }));
  end_owner();
  const attached_region seen{kept_path(path)};
  CHECK(has_tag(seen_from{seen}, 0, 1, stream) == false);
  const auto* const second = static_cast<const std::byte*>(seen.data());
  CHECK(read_bytes(stream, second, tag_bytes) == pattern(tag_bytes, 1001));
}

TEST_CASE("publication::keep: costs a descriptor for each chunk, and maps none") {
  const published_region memory;
  { const publication warm_up = publication::keep(memory.path, kept_path(memory.path)); }
  const std::size_t before = steady_descriptors();
  const std::size_t mapped = mappings_of("memfd");
  {
    const publication kept = publication::keep(memory.path, kept_path(memory.path));
    // Two state pages are mapped, and no chunk.
    CHECK(mappings_of("memfd") == mapped + 2);
    // Chunks; state page, lock, folder, listener and eventfd; both ends of the connection.
    CHECK(steady_descriptors() == before + 2 + 5 + 2);
  }
  CHECK(descriptors_become(before));
  CHECK(std::filesystem::exists(memory.path));
  CHECK_FALSE(std::filesystem::exists(kept_path(memory.path)));
}

TEST_CASE("publication::keep: the memory comes back with the last of keeper and importers") {
  std::optional<kept_region> memory;
  const stream stream;
  memory.emplace();
  const temporary_folder next;
  memory->end_owner();
  std::optional<attached_region> seen{kept_path(memory->path)};
  { const publication ended{std::move(memory->kept)}; }
  check_tags_of(*seen, 2, stream);
  CHECK_FALSE(seen->wait_for(3 * granule(), 10s, stream));
  CHECK_FALSE(seen->is_open());
  check_ipc_error(ipc_failure::closed, [&] { attached_region again{kept_path(memory->path)}; });
}

TEST_CASE_FIXTURE(published_region, "publication::keep: refuses what it cannot keep") {
  const std::string to = kept_path(path);
  const auto keep = [&](const std::string& from, const std::string& at,
                        const publication_options& options = {}) {
    const publication none = publication::keep(from, at, options);
  };
  const std::string absent =
      check_ipc_error(ipc_failure::closed, [&] { keep(path + ".none", to); });
  CHECK(absent.find(path + ".none") != std::string::npos);
  const std::string taken = check_ipc_error(ipc_failure::refused, [&] { keep(path, path); });
  CHECK(taken.find("published already") != std::string::npos);
  std::ofstream{to} << "a user's";
  check_ipc_error(ipc_failure::refused, [&] { keep(path, to); });
  std::filesystem::remove(to);
  const publication_options options{.other_devices = {first_device}};
  CHECK_THROWS_AS(keep(path, to, options), std::invalid_argument);
  CHECK_THROWS_AS(keep(path, ""), std::invalid_argument);
  CHECK_THROWS_AS(keep(path, std::string(200, 'x')), std::invalid_argument);
  CHECK_THROWS_AS(keep("", to), std::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(to));
  CHECK_FALSE(std::filesystem::exists(to + ".hipvmm"));
  CHECK(comes_true([&] { return published.importers() == 0; }));
}

TEST_CASE_FIXTURE(kept_region, "publication::keep: announces nothing of its own") {
  CHECK_THROWS_AS(kept.announce(owned, granule(), stream), std::invalid_argument);
  CHECK(attached_region{kept_path(path)}.bytes() == 2 * granule());
}

TEST_CASE_FIXTURE(kept_region, "publication::keep: one that is kept may be kept again") {
  const std::string third = path + ".third";
  publication again = publication::keep(kept_path(path), third);
  end_owner();
  { const publication ended{std::move(kept)}; }
  CHECK(comes_true([&] { return !again.follows(); }));
  check_tags_of(attached_region{third}, 2, stream);
  kept = std::move(again);
  CHECK(kept.path() == third);
  check_tags_of(attached_region{third}, 2, stream);
}

TEST_CASE_FIXTURE(kept_region, "publication::keep: in a child of fork() it only closes") {
  std::optional<publication> there{std::move(kept)};
  CHECK(succeeds_in_forked_child([&] {
    there.reset();
    return true;
  }));
  CHECK(there->follows());
  check_tags_of(attached_region{kept_path(path)}, 2, stream);
  owned.commit(2 * granule(), granule());
  write_tags(owned, 2, 3, 1, stream);
  announce(3);
  CHECK(attached_region{kept_path(path)}.wait_for(3 * granule(), 10s, stream));
}

TEST_CASE_FIXTURE(published_region, "publication::keep: its own lease ends importers that hang") {
  const publication kept = publication::keep(path, kept_path(path), with_lease(50ms));
  attached_region hangs{kept_path(path)};
  owned.trim(granule(), stream);
  announce(1);
  CHECK(comes_true([&] { return kept.importers() == 0; }));
  check_ipc_error(ipc_failure::expired, [&] { hangs.refresh(stream); });
  CHECK(attached_region{kept_path(path)}.bytes() == granule());
}

TEST_CASE("publication::keep: an owner that sends overlapping chunks is refused") {
  const temporary_folder folder;
  raw_owner owner{path_in(folder)};
  const auto sends = [](std::vector<detail::chunk_record> places) {
    return [places = std::move(places)](int socket, std::uint64_t ticket) {
      static_cast<void>(detail::send_packet(socket, detail::answer_packet{ticket, 1}));
      const std::vector<int> descriptors(places.size(), STDIN_FILENO);
      static_cast<void>(detail::send_packet(socket, detail::chunk_packet{places}, descriptors));
      static_cast<void>(detail::send_packet(socket, detail::complete_packet{ticket, 1}));
    };
  };
  const std::size_t size = granule();
  const std::vector<std::vector<detail::chunk_record>> wrong{
      {{0, 2 * size, 1}, {size, size, 2}},  // one in the other
      {{size, size, 1}, {0, 2 * size, 2}},
      {{0, size, 1}, {0, size, 2}},
      {{0, 5 * size, 1}},  // past the end
      {{0, size / 2, 1}},  // no whole granule
      {{0, size, 1, 1}},   // of a device that was not named
  };
  const std::size_t before = steady_descriptors();
  for (const auto& places : wrong) {
    auto served = owner.serve(sends(places));
    check_ipc_error(ipc_failure::malformed, [&] {
      const publication none = publication::keep(path_in(folder), kept_path(path_in(folder)));
    });
    served.get();
  }
  CHECK_FALSE(std::filesystem::exists(kept_path(path_in(folder))));
  CHECK(descriptors_become(before));
}

TEST_CASE("publication::keep: an owner that answers slowly is followed") {
  constexpr std::size_t count = 10;
  const temporary_folder folder;
  raw_owner owner{path_in(folder)};
  std::atomic<std::uint64_t> epoch{1};
  auto served = owner.serve([&](int socket, std::uint64_t ticket) {
    const auto send = [socket](const detail::packet& content, const std::vector<int>& with = {}) {
      static_cast<void>(detail::send_packet(socket, content, with));
    };
    send(detail::answer_packet{ticket, epoch});
    for (std::size_t i = 0; epoch == 2 && i < count; ++i) {
      // The same again, as if chunks came and went.
      send(detail::chunk_packet{{{i % 4 * granule(), granule(), i % 4 + 1}}}, {STDIN_FILENO});
      std::this_thread::sleep_for(40ms);
    }
    send(detail::complete_packet{ticket, epoch});
  });
  {
    const std::string path = kept_path(path_in(folder));
    const publication kept = publication::keep(path_in(folder), path);
    epoch = 2;
    owner.page().set_range(2, {0, 4 * granule()});
    owner.page().set_epoch(2);
    raw_importer seen{path};
    seen.send(detail::hello_packet{detail::own_identity()});
    const auto welcome = seen.receive();
    REQUIRE(welcome.has_value());
    const detail::state_view page{welcome->descriptors.at(0).get()};
    CHECK(comes_true([&] { return page.readable()->end == 4 * granule(); }, 4s));
    CHECK(kept.follows());
  }
  served.get();
}

TEST_CASE("publication::keep: an owner of another user is refused, and so is such an importer") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may be another user");
    return;
  }
  constexpr unsigned stranger = 65534;
  published_region memory{{.other_users = {stranger}}};
  REQUIRE(::chmod(memory.folder.path().c_str(), 0777) == 0);
  const auto is_refused = [&](auto action) {
    return succeeds_in_forked_child([&] {
      if (::setresuid(stranger, stranger, stranger) != 0) return false;
      try {
        action();
      } catch (const ipc_error& error) {
        return error.reason() == ipc_failure::refused;
      }
      return false;
    });
  };
  // Attached by an importer it names, but kept by its own user only.
  CHECK(is_refused(
      [&] { const publication none = publication::keep(memory.path, memory.path + ".theirs"); }));
  const publication kept = publication::keep(memory.path, kept_path(memory.path));
  struct stat about {};
  REQUIRE(::stat(kept_path(memory.path).c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

HIPVMM_CHILD("publishes, and is killed when told to") {
  const stream stream;
  region owned{first_device, 8 * granule(), shareable_chunks()};
  publication published{path_of_child(), first_device, 8 * granule()};
  for (std::size_t i = 0; i < 2; ++i) owned.commit(i * granule(), granule());
  write_tags(owned, 0, 2, 1, stream);
  published.announce(owned, 2 * granule(), stream);
  stream.synchronize();
  tell(path_of_child() + ".ready");
  REQUIRE(is_told(path_of_child() + ".end"));
  std::raise(SIGKILL);
}

HIPVMM_CHILD("keeps, and is killed when told to") {
  const publication kept = publication::keep(path_of_child(), kept_path(path_of_child()));
  REQUIRE(is_told(kept_path(path_of_child()) + ".end"));
  std::raise(SIGKILL);
}

HIPVMM_CHILD("reads what is kept, and is killed") {
  const stream stream;
  const attached_region seen{kept_path(path_of_child())};
  check_tags_of(seen, 2, stream);
  std::raise(SIGKILL);
}

HIPVMM_CHILD("reads what is kept") {
  const stream stream;
  check_tags_of(attached_region{kept_path(path_of_child())}, 2, stream);
}

TEST_CASE("publication::keep: any of writer, reader and keeper may be killed") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const stream stream;
  auto writer = start_child("publishes, and is killed when told to", path);
  REQUIRE(is_told(path + ".ready"));
  auto keeper = start_child("keeps, and is killed when told to", path);
  attached_region seen = attach_when_published(kept_path(path));
  check_tags_of(seen, 2, stream);
  tell(path + ".end");
  CHECK(writer.get().status == 128 + SIGKILL);
  check_child("reads what is kept", with_path(path));
  CHECK(start_child("reads what is kept, and is killed", path).get().status == 128 + SIGKILL);
  check_child("reads what is kept", with_path(path));
  check_tags_of(seen, 2, stream);
  tell(kept_path(path) + ".end");
  CHECK(keeper.get().status == 128 + SIGKILL);
  CHECK_FALSE(seen.wait_for(3 * granule(), 10s, stream));
  CHECK_FALSE(seen.is_open());
  check_tags_of(seen, 2, stream);
  const std::string why =
      check_ipc_error(ipc_failure::closed, [&] { const attached_region again{kept_path(path)}; });
  CHECK(why.find("no process publishes at " + kept_path(path)) != std::string::npos);
  // The path that is left is taken over by the next.
  published_region other;
  { const publication next = publication::keep(other.path, kept_path(path)); }
  CHECK_FALSE(std::filesystem::exists(kept_path(path)));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
