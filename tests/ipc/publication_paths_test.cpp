// SPDX-License-Identifier: MIT
// Files of others beside the path of a publication, and leftovers of owners that died.
#include <sys/un.h>

#include <sstream>

#include "ipc/ipc_test.hpp"

namespace hipvmm::test {
namespace {

/// A listener of another program.
detail::owned_descriptor listen_at(const std::string& path, int type) {
  detail::owned_descriptor socket{::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(socket.get(), 4) == 0);
  return socket;
}

std::string content_of(const std::string& path) {
  std::ostringstream result;
  result << std::ifstream{path}.rdbuf();
  return result.str();
}

void write(const std::string& path, const char* text) { std::ofstream{path} << text; }

::ino_t inode_of(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 ? about.st_ino : 0;
}

void check_refused(const std::string& path) {
  check_ipc_error(ipc_failure::refused, [&] { const publication none{path, first_device, 1}; });
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("publication: files of others beside its path stay as they are") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const char* const suffixes[] = {".lock", ".new", ".hipvmm.lock"};
  for (const char* const suffix : suffixes) write(path + suffix, "a user's");
  { const publication one{path, first_device, 1}; }
  write(path, "a user's");
  check_refused(path);
  CHECK(content_of(path) == "a user's");
  for (const char* const suffix : suffixes) CHECK(content_of(path + suffix) == "a user's");
  CHECK_FALSE(std::filesystem::exists(path + ".hipvmm"));
}

TEST_CASE("publication: takes no socket of another program, living or dead") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    CAPTURE(type);
    detail::owned_descriptor socket;
    if (type == SOCK_DGRAM) {
      // Of a program that died.
      socket = listen_at(path, SOCK_SEQPACKET);
      socket = {};
    } else {
      socket = listen_at(path, type);
    }
    const ::ino_t before = inode_of(path);
    check_refused(path);
    CHECK(inode_of(path) == before);
    CHECK_FALSE(std::filesystem::exists(path + ".hipvmm"));
    ::unlink(path.c_str());
  }
}

TEST_CASE("publication: one beside another, whatever its name, leaves it alone") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const publication first{path + ".new", first_device, granule()};
  const publication second{path + ".lock", first_device, granule()};
  const publication third{path, first_device, granule()};
  for (const char* const suffix : {"", ".new", ".lock"})
    CHECK_NOTHROW(attached_region{path + suffix});
  check_refused(path + ".hipvmm");
}

TEST_CASE("publication: uses no folder that others made or may use") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const std::string beside = path + ".hipvmm";
  SUBCASE("a file") { write(beside, "a user's"); }
  SUBCASE("open to all") {
    REQUIRE(::mkdir(beside.c_str(), 0700) == 0);
    REQUIRE(::chmod(beside.c_str(), 0777) == 0);
  }
  SUBCASE("a link to a folder") {
    std::filesystem::create_directory(folder.path() / "other");
    ::chmod((folder.path() / "other").c_str(), 0700);
    std::filesystem::create_symlink(folder.path() / "other", beside);
  }
  SUBCASE("of another user") {
    REQUIRE(::mkdir(beside.c_str(), 0700) == 0);
    if (::chown(beside.c_str(), 54321, 54321) != 0) {
      MESSAGE("skipped: only root may give a folder to another user");
      return;
    }
  }
  const ::ino_t before = inode_of(beside);
  check_refused(path);
  CHECK(inode_of(beside) == before);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("publication: a user's files in the folder beside its path stay") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  REQUIRE(::mkdir((path + ".hipvmm").c_str(), 0700) == 0);
  write(path + ".hipvmm/notes", "a user's");
  { const publication one{path, first_device, 1}; }
  CHECK(content_of(path + ".hipvmm/notes") == "a user's");
  CHECK_FALSE(std::filesystem::exists(path + ".hipvmm/lock"));
}

// A link that is swapped in when a path has been bound.
std::string swapped_path, swapped_target;
int swap_at_open(const char* step) {
  if (std::strcmp(step, "open") == 0 && !swapped_path.empty()) {
    ::unlink(swapped_path.c_str());
    static_cast<void>(!::symlink(swapped_target.c_str(), swapped_path.c_str()));
  }
  return 0;
}

TEST_CASE("publication: a relative path goes with it, wherever the process is by then") {
  const temporary_folder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  {
    const publication published{"memory", first_device, granule()};
    CHECK(published.path() == "memory");
    std::filesystem::current_path(before);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("bind_to: a link in place of the socket changes no other file") {
  const temporary_folder folder;
  const std::string path = path_in(folder);
  const std::string victim = (folder.path() / "private").string();
  write(victim, "a user's");
  REQUIRE(::chmod(victim.c_str(), 0600) == 0);
  const detail::owned_descriptor socket = detail::make_socket();
  swapped_path = path;
  swapped_target = victim;
  detail::protocol_step_hook = swap_at_open;
  check_ipc_error(ipc_failure::system,
                  [&] { detail::bind_to(socket.get(), path, detail::who_connects::everybody); });
  detail::protocol_step_hook = nullptr;
  swapped_path.clear();
  struct stat about {};
  REQUIRE(::stat(victim.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

TEST_CASE("publication: other users may connect where one is named, whatever the umask") {
  const temporary_folder folder;
  publication_options options;
  struct stat about {};
  const ::mode_t before = ::umask(0077);
  {
    const publication alone{path_in(folder), first_device, 1};
    CHECK(::stat(path_in(folder).c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
  }
  options.other_users = {54321};
  const publication shared{path_in(folder), first_device, 1, {}, options};
  ::umask(before);
  CHECK(::stat(path_in(folder).c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0666);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
