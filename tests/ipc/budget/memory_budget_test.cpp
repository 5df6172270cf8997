// SPDX-License-Identifier: MIT
// The bytes in a budget and its refusals, in one process; its file, and the users that it trusts.
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "ipc/budget/budget_test.hpp"
#include "ipc/raw_socket.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// A process that has released all it kept, and a folder for its budgets.
struct budget_process : budget_folder {
  budget_process() { release_idle_memory(); }
  ~budget_process() { release_idle_memory(); }
};

std::string refusal_of(const std::string& name) {
  try {
    const memory_budget budget{first_device, name, 1};
  } catch (const ipc_error& error) {
    CHECK(error.reason() == ipc_failure::refused);
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("memory_budget: a device on hipMalloc has none" * needs_fallback) {
  const budget_folder folder;
  CHECK_THROWS_AS((memory_budget{first_device, "none", 1}), unsupported);
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE_FIXTURE(budget_process, "memory_budget: a chunk counts once, mapped or kept") {
  const shared_cache_keeps cache;
  const std::size_t unit = budget_unit();
  const memory_budget budget{first_device, "one", 16 * unit};
  {
    region memory{first_device, 8 * unit};
    memory.commit(0, 2 * unit);
    CHECK(budget.bytes() == 2 * unit);
    memory.decommit(0, unit);
    CHECK(budget.bytes() == 2 * unit);
  }
  drain_retired_memory();
  CHECK(budget.bytes() == 2 * unit);
  chunk_cache::shared().trim();
  CHECK(budget.bytes() == 0);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: room is made of what this process keeps") {
  const shared_cache_keeps cache;
  const std::size_t unit = budget_unit();
  memory_budget budget{first_device, "kept", 4 * unit};
  {
    region memory{first_device, 8 * unit};
    memory.commit(0, 3 * unit);
    CHECK_FALSE(budget.make_room(2 * unit));
  }
  CHECK(budget.make_room(2 * unit));
  CHECK(budget.bytes() <= 2 * unit);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: vectors, pools and arenas count") {
  const std::size_t unit = budget_unit();
  const stream stream;
  const memory_budget budget{first_device, "all", 64 * unit};
  {
    growable_device_vector<char> vector{first_device};
    vector.resize(unit, 'x', stream);
    const std::size_t of_vector = budget.bytes();
    CHECK(of_vector >= unit);
    mr::vmm_pool_resource pool{first_device};
    void* const block = pool.allocate(stream, unit);
    const std::size_t of_pool = budget.bytes() - of_vector;
    CHECK(of_pool >= unit);
    CHECK(budget.report().bytes == of_vector + of_pool);
    pool.deallocate(stream, block, unit);
  }
  release_idle_memory();
  CHECK(budget.bytes() == 0);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: who imports or refers to a chunk adds nothing") {
  const std::size_t unit = budget_unit();
  const memory_budget budget{first_device, "imports", 16 * unit};
  {
    physical_chunk owned{first_device, unit, handle_type::posix_fd};
    const shareable_handle handle{owned};
    const physical_chunk imported = import_chunk(handle, first_device);
    CHECK(budget.bytes() == unit);
    // The last of several owners in this process returns it.
    std::optional<physical_chunk> second = detail::reference_to(owned);
    owned = physical_chunk{};
    CHECK(budget.bytes() == unit);
    second.reset();
    CHECK(budget.bytes() == 0);
  }
  CHECK(budget.bytes() == 0);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: what was created before counts") {
  const std::size_t unit = budget_unit();
  region memory{first_device, 8 * unit};
  memory.commit(0, 3 * unit);
  {
    const memory_budget budget{first_device, "late", 2 * unit};
    CHECK(budget.bytes() == 3 * unit);
    CHECK_THROWS_AS(memory.commit(3 * unit, unit), out_of_memory);
  }
  // No budget, no limit.
  memory.commit(3 * unit, unit);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: a handle that was given away counts no longer") {
  const memory_budget budget{first_device, "given", 16 * granule()};
  physical_chunk owned{first_device, granule(), handle_type::posix_fd};
  const physical_chunk adopted{owned.release(), first_device, granule()};
  CHECK(budget.bytes() == 0);
}

TEST_CASE_FIXTURE(budget_process,
                  "memory_budget: a request beyond the limit names it and holders") {
  const std::size_t unit = budget_unit();
  const memory_budget budget{first_device, "small", 2 * unit};
  region memory{first_device, 8 * unit};
  memory.commit(0, unit);
  const auto error = thrown_by<out_of_memory>([&] { memory.commit(unit, 2 * unit); });
  const std::string text = error.what();
  CAPTURE(text);
  CHECK(error.resource() == exhausted::budget);
  CHECK(error.device() == first_device.ordinal());
  CHECK(has(text, "budget 'small' has a limit of"));
  CHECK(has(text, "(process " + std::to_string(::getpid()) + ", this one)"));
  CHECK(has(text, "hipvmm-ctl limit small SIZE"));
  CHECK(memory.committed_bytes() == unit);
  CHECK(budget.bytes() <= 2 * unit);
  memory.commit(unit, unit);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: kept chunks are released before a refusal") {
  const shared_cache_keeps cache;
  const std::size_t unit = budget_unit();
  const memory_budget budget{first_device, "kept", 2 * unit};
  { const physical_chunk made = chunk_cache::shared().acquire(first_device, unit); }
  chunk_cache::shared().recycle(chunk_cache::shared().acquire(first_device, unit));
  CHECK(budget.bytes() == unit);
  // Of another size, so that the kept one cannot serve it.
  const physical_chunk big = chunk_cache::shared().acquire(first_device, 2 * unit);
  CHECK(budget.bytes() == 2 * unit);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: a limit that was set stays") {
  const std::size_t unit = budget_unit();
  const auto limit_of = [](const memory_budget& budget) { return budget.report().limit; };
  CHECK(limit_of(memory_budget{first_device, "kept", 3 * unit}) == 3 * unit);
  // Nobody holds it: the next process sets its own.
  CHECK(limit_of(memory_budget{first_device, "kept", 4 * unit}) == 4 * unit);
  memory_budget::set_limit("kept", first_device.uuid(), unit);
  memory_budget budget{first_device, "kept", 4 * unit};
  CHECK(limit_of(budget) == unit);
  budget.set_limit(5 * unit);
  CHECK(limit_of(budget) == 5 * unit);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: a limit can be set before there is a holder") {
  memory_budget::set_limit("early", first_device.uuid(), granule());
  const std::vector<budget_report> all = memory_budget::all();
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "early");
  CHECK(all[0].device == first_device.uuid());
  CHECK(all[0].limit == granule());
  CHECK(all[0].bytes == 0);
  CHECK(all[0].holders.empty());
  memory_budget::set_limit("early", first_device.uuid(), 0);
  CHECK(memory_budget::all()[0].limit == 0);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: what was moved from is refused") {
  memory_budget empty{first_device, "moved", budget_unit()};
  memory_budget budget{std::move(empty)};
  CHECK(empty.bytes() == 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(empty.report()),
                       "the memory_budget is empty: it was moved from", std::invalid_argument);
  CHECK_THROWS_AS(empty.set_limit(1), std::invalid_argument);
  CHECK_THROWS_AS(empty.make_room(1), std::invalid_argument);
  CHECK(budget.report().holders.size() == 1);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: who is assigned to leaves the budget it had") {
  memory_budget empty{first_device, "left", budget_unit()};
  memory_budget budget{std::move(empty)};
  memory_budget& same = budget;
  budget = std::move(same);
  CHECK(budget.report().holders.size() == 1);
  budget = std::move(empty);
  CHECK(memory_budget::all().at(0).holders.empty());
  budget = memory_budget{first_device, "next", budget_unit()};
  CHECK(budget.report().holders.size() == 1);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: a lowered limit has the process itself trim") {
  const std::size_t unit = budget_unit();
  region memory{first_device, 3 * unit};
  memory.commit(0, 3 * unit);
  region given{first_device, unit};
  given.commit(0, unit);
  std::atomic<std::size_t> wanted{0};
  memory_budget budget{first_device, "lowered", 8 * unit, {.trim = [&](std::size_t bytes) {
                         wanted = bytes;
                         given.decommit(0, bytes);
                       }}};
  budget.set_limit(3 * unit);
  CHECK(comes_true([&] { return budget.bytes() == 3 * unit; }));
  CHECK(wanted == unit);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: whatever its callback throws is reported") {
  const std::size_t unit = budget_unit();
  region memory{first_device, 3 * unit};
  memory.commit(0, 3 * unit);
  error_recorder errors;
  memory_budget budget{first_device, "thrown", 8 * unit, {.trim = [](std::size_t) { throw 1; }}};
  budget.set_limit(2 * unit);
  CHECK(comes_true([&] { return errors.count() != 0; }));
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: of what is kept only what is needed goes") {
  const shared_cache_keeps cache;
  const std::size_t unit = budget_unit();
  memory_budget budget{first_device, "kept", 4 * unit};
  {
    region memory{first_device, 8 * unit};
    for (std::size_t i = 0; i < 4; ++i) memory.commit(i * unit, unit);
    memory.decommit(0, 4 * unit);
  }
  drain_retired_memory();
  REQUIRE(budget.bytes() == 4 * unit);
  budget.set_limit(3 * unit);
  CHECK(comes_true([&] { return budget.bytes() != 4 * unit; }));
  CHECK_FALSE(happens([&] { return budget.bytes() != 3 * unit; }));
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: it ends with the object, which can be moved") {
  const std::size_t unit = budget_unit();
  const physical_chunk held{first_device, unit};
  std::optional<memory_budget> first;
  first.emplace(first_device, "moved", 8 * unit);
  memory_budget second = std::move(*first);
  first.reset();
  CHECK(second.bytes() == unit);
  CHECK(held_of_all() == unit);
  { const memory_budget ends = std::move(second); }
  CHECK(memory_budget::all().at(0).holders.empty());
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: wrong arguments are refused") {
  for (const char* const name : {"", ".hidden", "a/b", "a@b", "a b", "\xc3\xa4"})
    CHECK_THROWS_AS((memory_budget{first_device, name, 1}), std::invalid_argument);
  CHECK_THROWS_AS((memory_budget{first_device, std::string(65, 'a'), 1}), std::invalid_argument);
  CHECK_THROWS_AS((memory_budget{first_device, "zero", 0}), std::invalid_argument);
  CHECK_THROWS_AS((memory_budget{device_ref{99}, "device", 1}), std::invalid_argument);
  const memory_budget first{first_device, std::string(64, 'a'), 1};
  CHECK_THROWS_AS((memory_budget{first_device, "second", 1}), std::invalid_argument);
  // That one took no part, and left no file.
  CHECK(memory_budget::all().size() == 1);
  CHECK(memory_budget::all().at(0).holders.size() == 1);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: remove refuses while a process takes part") {
  CHECK_FALSE(memory_budget::remove("none", first_device.uuid()));
  {
    const memory_budget budget{first_device, "used", 1};
    CHECK_THROWS_AS(memory_budget::remove("used", first_device.uuid()), ipc_error);
  }
  CHECK(memory_budget::remove("used", first_device.uuid()));
  CHECK(memory_budget::all().empty());
}

TEST_CASE_FIXTURE(budget_process,
                  "memory_budget: a file that was removed is reported, and no other is made") {
  const error_recorder reported;
  memory_budget budget{first_device, "split", granule()};
  const auto file = detail::budget_file::look_at(only_file(path()).filename());
  fs::remove(only_file(path()));
  const std::string why =
      check_ipc_error(ipc_failure::refused, [&] { budget.set_limit(2 * granule()); });
  CHECK(has(why, "RemoveIPC"));
  CHECK(fs::is_empty(path()));
  for (int looks = 0; looks < 2; ++looks) {
    static_cast<void>(detail::budget_table{file->shared()}.request());
    CHECK(comes_true([&] { return reported.count() != 0; }));
  }
  CHECK(reported.count() == 1);
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: a child of fork() takes no part") {
  const std::size_t unit = budget_unit();
  std::optional<memory_budget> budget;
  budget.emplace(first_device, "parent", 8 * unit);
  const physical_chunk held{first_device, unit};
  CHECK(succeeds_in_forked_child([&] {
    budget.reset();
    return true;
  }));
  CHECK(budget->bytes() == unit);
  REQUIRE(memory_budget::all().at(0).holders.size() == 1);
  CHECK(memory_budget::all().at(0).holders[0].process == ::getpid());
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: the folder and its files are the user's alone") {
  { const memory_budget budget{first_device, "file", 1}; }
  struct stat about {};
  REQUIRE(::stat(only_file(path()).c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  const fs::path file = only_file(path());

  SUBCASE("a folder that others may read") {
    fs::permissions(path(), fs::perms::owner_all | fs::perms::group_read);
    CHECK(has(refusal_of("file"), "chmod go="));
    CHECK_THROWS_AS(static_cast<void>(memory_budget::all()), ipc_error);
    fs::permissions(path(), fs::perms::owner_all);
  }
  SUBCASE("a file that others may write") {
    fs::permissions(file, fs::perms::owner_read | fs::perms::others_write);
    CHECK(has(refusal_of("file"), "chmod go="));
  }
  SUBCASE("a symbolic link instead of the file") {
    fs::rename(file, path() / "elsewhere");
    fs::create_symlink(path() / "elsewhere", file);
    CHECK(has(refusal_of("file"), "is a symbolic link"));
  }
  SUBCASE("a folder instead of the file, which hides no other budget") {
    fs::remove(file);
    fs::create_directory(file);
    CHECK(has(refusal_of("file"), "is no file"));
    CHECK_NOTHROW(static_cast<void>(memory_budget::all()));
    fs::remove(file);
  }
  SUBCASE("a symbolic link instead of the folder") {
    const fs::path link = path() / "link";
    fs::create_directory_symlink(path(), link);
    ::setenv("HIPVMM_BUDGETS", link.c_str(), 1);
    CHECK(has(refusal_of("file"), "is no folder"));
    ::setenv("HIPVMM_BUDGETS", path().c_str(), 1);
  }
  SUBCASE("a file instead of the folder") {
    ::setenv("HIPVMM_BUDGETS", file.c_str(), 1);
    CHECK(has(refusal_of("file"), "is no folder"));
    ::setenv("HIPVMM_BUDGETS", path().c_str(), 1);
  }
  SUBCASE("files of another user") {
    if (::geteuid() == 0) {
      REQUIRE(::chown(file.c_str(), 12345, 12345) == 0);
      CHECK(has(refusal_of("file"), "belongs to user 12345"));
      REQUIRE(::chown(file.c_str(), 0, 0) == 0);
      REQUIRE(::chown(path().c_str(), 12345, 12345) == 0);
      CHECK(has(refusal_of("file"), "belongs to user 12345"));
      REQUIRE(::chown(path().c_str(), 0, 0) == 0);
    } else {
      MESSAGE("skipped: only root can give files away");
    }
  }
  SUBCASE("a pipe") {
    fs::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK(has(refusal_of("file"), "is no budget of this version"));
  }
  SUBCASE("a file of another size") {
    fs::resize_file(file, 4096);
    CHECK(has(refusal_of("file"), "is no budget of this version"));
  }
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: a file with other contents is refused") {
  { const memory_budget budget{first_device, "file", 1}; }
  const fs::path file = only_file(path());
  const auto overwrite = [&](std::size_t at, const std::string& bytes) {
    std::fstream stream{file, std::ios::in | std::ios::out | std::ios::binary};
    stream.seekp(static_cast<std::streamoff>(at));
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  const auto version = std::string(4, '\x7f');
  SUBCASE("magic") {
    overwrite(0, "x");
    CHECK(has(refusal_of("file"), "is no budget of this version"));
  }
  SUBCASE("version") {
    overwrite(offsetof(detail::budget_header, version), version);
    CHECK(has(refusal_of("file"), "is no budget of this version"));
  }
  SUBCASE("name") {
    overwrite(offsetof(detail::budget_header, name), "f\x1b");
    CHECK(has(refusal_of("file"), "which is not its name"));
  }
  SUBCASE("device") {
    overwrite(offsetof(detail::budget_header, device), "x");
    CHECK(has(refusal_of("file"), "which is not its name"));
  }
  SUBCASE("another PID namespace") {
    overwrite(offsetof(detail::budget_header, pid_namespace), version);
    CHECK(has(refusal_of("file"), "another PID namespace"));
  }
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: files that are no budgets are left out of all") {
  memory_budget::set_limit("good", first_device.uuid(), 1);
  std::ofstream{path() / "bad@00"} << "x";
  std::ofstream{path() / "notes"} << "x";
  fs::create_symlink(only_file(path()), path() / "link@00");
  REQUIRE(memory_budget::all().size() == 1);
  CHECK(memory_budget::all()[0].name == "good");
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: a relative folder is refused") {
  ::setenv("HIPVMM_BUDGETS", "budgets", 1);
  CHECK(has(refusal_of("file"), "HIPVMM_BUDGETS names 'budgets'"));
}

TEST_CASE_FIXTURE(budget_process, "memory_budget: where there is no folder there are no budgets") {
  ::setenv("HIPVMM_BUDGETS", (path() / "none").c_str(), 1);
  CHECK(memory_budget::all().empty());
  CHECK_FALSE(fs::exists(path() / "none"));
  CHECK_FALSE(memory_budget::remove("file", first_device.uuid()));
  const memory_budget budget{first_device, "file", 1};
  CHECK(memory_budget::all().size() == 1);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();
