// SPDX-License-Identifier: MIT
#include "capability/capability_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "support/process/temporary_folder.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

using detail::file_owner;
using detail::read_record;
using detail::write_record;

constexpr const char* some_fingerprint = "a device; uuid 00";

capability::record some_record() {
  capability::record found;
  found.fingerprint = some_fingerprint;
  found.set(trait::virtual_memory, finding::yes, "it was seen", persistence::lasting);
  found.set(trait::tail_access, finding::no, "it was refused", persistence::lasting);
  found.set(trait::host_access, finding::yes, "it was assumed", persistence::passing);
  found.set(trait::peer_access, finding::unknown, "memory was short", persistence::open);
  found.minimum_granularity = 4096;
  found.recommended_granularity = 8192;
  found.costs = {1, 2, 3, 4, 5, 6, 7};
  return found;
}

void write_content(const std::filesystem::path& path, const std::string& text) {
  std::ofstream{path, std::ios::trunc} << text;
}

struct kept_record {
  kept_record() { REQUIRE(write_record(path, some_record()).empty()); }
  [[nodiscard]] std::optional<capability::record> read() const {
    return read_record(path, some_fingerprint, file_owner::cache);
  }
  temporary_folder folder;
  std::string path = (folder.path() / "deeper" / "hipvmm" / "record.txt").string();
};

/// Checks that reading gives nothing, and one warning with `why`.
void check_ignored(const kept_record& kept, const char* why) {
  const error_recorder told;
  CHECK_FALSE(kept.read());
  REQUIRE(told.count() == 1);
  CHECK(told.errors().front().message.find(kept.path + " is ignored") == 0);
  CHECK_MESSAGE(told.errors().front().message.find(why) != std::string::npos,
                told.errors().front().message);
}

TEST_CASE("capability file: what is lasting is read as it was written") {
  const kept_record kept;
  const auto read = kept.read();
  REQUIRE(read);
  CHECK(read->fingerprint == some_fingerprint);
  for (const trait which : {trait::virtual_memory, trait::tail_access}) {
    CHECK(read->findings[index_of(which)] == some_record().findings[index_of(which)]);
    CHECK(read->reasons[index_of(which)] == some_record().reasons[index_of(which)]);
    CHECK(read->persistences[index_of(which)] == persistence::lasting);
  }
  CHECK(read->minimum_granularity == 4096);
  CHECK(read->costs.free == 7);
  // The rest has still to be found out.
  CHECK(read->persistences[index_of(trait::host_access)] == persistence::open);
  CHECK(read->persistences[index_of(trait::peer_access)] == persistence::open);
}

TEST_CASE("capability file: what holds until a time is read until then") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "record.txt").string();
  capability::record written = some_record();
  const std::int64_t now = detail::seconds_now();
  written.set_until(trait::host_access, finding::no, "it was silent", now + 3600);
  written.set_until(trait::peer_copies, finding::no, "it was silent", now - 1);
  written.set_until(trait::tail_access, finding::no, "the clock was ahead",
                    now + 2 * detail::longest_dated);
  REQUIRE(write_record(path, written).empty());
  const auto read = read_record(path, some_fingerprint, file_owner::cache);
  REQUIRE(read);
  constexpr std::size_t at = index_of(trait::host_access);
  CHECK(read->findings[at] == finding::no);
  CHECK(read->reasons[at] == "it was silent");
  CHECK(read->persistences[at] == persistence::dated);
  CHECK(read->until[at] == now + 3600);
  // The time has passed, or is none that a probe sets: asked again.
  for (const trait again : {trait::peer_copies, trait::tail_access}) {
    CHECK(read->persistences[index_of(again)] == persistence::open);
    CHECK(read->findings[index_of(again)] == finding::unknown);
  }
}

TEST_CASE("capability file: a time that makes no sense is ignored with a warning") {
  const kept_record kept;
  std::string text = content_of(kept.path);
  text.replace(text.find("virtual_memory=yes"), 0, "until soon ");
  write_content(kept.path, text);
  check_ignored(kept, "until soon virtual_memory=yes");
}

TEST_CASE_FIXTURE(kept_record, "capability file: is the user's alone, in folders that are too") {
  const auto mode_of = [](const std::filesystem::path& of) {
    struct stat about {};
    REQUIRE(::stat(of.c_str(), &about) == 0);
    return about.st_mode & 0777U;
  };
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(std::filesystem::path{path}.parent_path()) == 0700);
}

TEST_CASE("capability file: without one there is nothing, and no warning") {
  const error_recorder told;
  CHECK_FALSE(read_record("/nonexistent/record.txt", some_fingerprint, file_owner::cache));
  CHECK(told.count() == 0);
}

TEST_CASE("capability file: one that is cut off anywhere is ignored with a warning") {
  const kept_record kept;
  const std::string whole = content_of(kept.path);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CAPTURE(bytes);
    write_content(kept.path, whole.substr(0, bytes));
    const error_recorder told;
    CHECK_FALSE(kept.read());
    CHECK(told.count() == 1);
  }
}

TEST_CASE("capability file: one with lines that make no sense is ignored with a warning") {
  const kept_record kept;
  std::string text = content_of(kept.path);
  text.replace(text.find("virtual_memory=yes"), 18, "virtual_memory=aye");
  write_content(kept.path, text);
  check_ignored(kept, "\"virtual_memory=aye  # it was seen\" is not understood");
}

TEST_CASE("capability file: one about something else is ignored with a warning") {
  const kept_record kept;
  const error_recorder told;
  CHECK_FALSE(read_record(kept.path, "another device", file_owner::cache));
  REQUIRE(told.count() == 1);
  CHECK(told.errors().front().message.find("it is about \"a device; uuid 00\"") !=
        std::string::npos);
}

TEST_CASE("capability file: one that others may write is ignored with a warning") {
  const kept_record kept;
  REQUIRE(::chmod(kept.path.c_str(), 0620) == 0);
  check_ignored(kept, "others may write to it");
}

TEST_CASE("capability file: one that is too large is ignored with a warning") {
  const kept_record kept;
  write_content(kept.path, content_of(kept.path) + std::string(100000, ' '));
  check_ignored(kept, "more than any record");
}

TEST_CASE("capability file: neither links nor folders are followed") {
  const kept_record kept;
  std::filesystem::rename(kept.path, kept.path + ".moved");
  std::filesystem::create_symlink(kept.path + ".moved", kept.path);
  check_ignored(kept, "it cannot be opened");
  std::filesystem::remove(kept.path);
  std::filesystem::create_directory(kept.path);
  check_ignored(kept, "it is no regular file");
}

TEST_CASE("capability file: no folder above the cache's own is made") {
  const temporary_folder folder;
  const std::filesystem::path path = folder.path() / "home" / ".cache" / "hipvmm" / "record.txt";
  const std::string why = write_record(path.string(), some_record());
  CHECK_MESSAGE(
      why.find((folder.path() / "home").string() + " does not exist") != std::string::npos, why);
  CHECK(std::filesystem::is_empty(folder.path()));
}

/// A folder of another user, also if this one is root.
struct foreign_folder {
  foreign_folder() {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(mine.path().c_str(), 65534, 65534) == 0);
    path = mine.path();
  }
  temporary_folder mine;
  std::filesystem::path path = "/usr";
};

TEST_CASE("capability file: nothing is written where the folder belongs to another user") {
  const foreign_folder foreign;
  for (const char* below : {"", "hipvmm", ".cache/hipvmm"}) {
    CAPTURE(below);
    const std::filesystem::path path = foreign.path / below / "record.txt";
    const std::string why = write_record(path.string(), some_record());
    CHECK_MESSAGE(why.find(foreign.path.string() + " belongs to user ") != std::string::npos, why);
    CHECK_FALSE(std::filesystem::exists(path));
  }
  CHECK((foreign.path == "/usr" || std::filesystem::is_empty(foreign.path)));
}

TEST_CASE("capability file: another user's cache is passed over without a warning") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may make another user's file");
    return;
  }
  const kept_record kept;
  const std::filesystem::path folder = std::filesystem::path{kept.path}.parent_path();
  for (const std::filesystem::path& each : {std::filesystem::path{kept.path}, folder})
    REQUIRE(::chown(each.c_str(), 65534, 65534) == 0);
  const error_recorder told;
  CHECK_FALSE(kept.read());
  CHECK(told.count() == 0);
  // Nor is one of root's own in a user's folder, if an earlier run made it.
  for (const std::filesystem::path& each : {std::filesystem::path{kept.path}, folder})
    REQUIRE(::chown(each.c_str(), 0, 0) == 0);
  REQUIRE(::chown(folder.parent_path().c_str(), 65534, 65534) == 0);
  CHECK_FALSE(kept.read());
  CHECK(told.count() == 0);
  const std::string before = content_of(kept.path);
  CHECK(write_record(kept.path, capability::record{})
            .find(folder.parent_path().string() + " belongs to user 65534") != std::string::npos);
  CHECK(content_of(kept.path) == before);
}

TEST_CASE("capability file: is written below a folder where everybody may make his own") {
  const foreign_folder foreign;
  if (::geteuid() == 0) REQUIRE(::chmod(foreign.path.c_str(), 01777) == 0);
  const std::filesystem::path shared = ::geteuid() == 0 ? foreign.path : foreign.mine.path();
  CHECK(write_record((shared / "cache" / "hipvmm" / "record.txt").string(), some_record()) == "");
}

TEST_CASE("capability file: one that cannot be written is told of, and leaves nothing") {
  const temporary_folder folder;
  const std::filesystem::path file = folder.path() / "file";
  write_content(file, "in the way");
  CHECK(write_record((file / "record.txt").string(), some_record()).find("cannot be made") !=
        std::string::npos);
  std::filesystem::create_directories(folder.path() / "record.txt" / "full");
  CHECK(write_record((folder.path() / "record.txt").string(), some_record())
            .find("cannot be written") != std::string::npos);
  std::size_t left = 0;
  for (const auto& each : std::filesystem::directory_iterator{folder.path()}) {
    CHECK((each.path().filename() == "file" || each.path().filename() == "record.txt"));
    ++left;
  }
  CHECK(left == 2);
}

constexpr const char* writing_child = "writes";
constexpr const char* path_variable = "HIPVMM_TESTS_RECORD";

HIPVMM_CHILD("writes") {
  const char* const path = std::getenv(path_variable);
  REQUIRE(path != nullptr);
  for (int i = 0; i < 200; ++i) CHECK(write_record(path, some_record()) == "");
}

TEST_CASE("capability file: while two processes write, a third reads it whole") {
  const kept_record kept;
  const auto write = [&kept] {
    return run_child(writing_child, {std::string{path_variable} + "=" + kept.path});
  };
  const error_recorder told;
  std::future<child_result> first = std::async(std::launch::async, write);
  std::future<child_result> second = std::async(std::launch::async, write);
  int read = 0;
  while (first.wait_for(std::chrono::seconds{0}) != std::future_status::ready ||
         second.wait_for(std::chrono::seconds{0}) != std::future_status::ready) {
    REQUIRE(kept.read());
    ++read;
  }
  CHECK(read > 0);
  CHECK(told.count() == 0);
  for (auto* each : {&first, &second}) {
    const child_result result = each->get();
    CHECK_MESSAGE(passed(result), result.output);
  }
}

}  // namespace
}  // namespace hipvmm::test
