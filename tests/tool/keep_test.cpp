// SPDX-License-Identifier: MIT
// hipvmm-ctl keep, as a user runs it.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/ipc/publication.hpp>
#include <hipvmm/region/region.hpp>
#include "support/process/program.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/region/region_contents.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

/// hipvmm-ctl keep, until end().
class running_keeper {
 public:
  explicit running_keeper(std::vector<std::string> arguments) {
    std::vector<std::string> words{CTL_PROGRAM, "keep"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& each : words) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    std::vector<std::string> variables;
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view variable{*each};
      if (!variable.starts_with("HIPVMM_HOST_DEVICES=") &&
          !variable.starts_with("HIPVMM_HOST_PEERS="))
        variables.emplace_back(variable);
    }
    // It needs no device.
    if (std::string_view{PROVIDER_NAME} == "host") variables.emplace_back("HIPVMM_HOST_DEVICES=0");
    std::vector<char*> environment;
    for (std::string& each : variables) environment.push_back(each.data());
    environment.push_back(nullptr);
    ::posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 2, errors_.path().c_str(), O_WRONLY, 0);
    REQUIRE(::posix_spawn(&process_, CTL_PROGRAM, &actions, nullptr, pointers.data(),
                          environment.data()) == 0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~running_keeper() { static_cast<void>(end(SIGKILL)); }
  running_keeper& operator=(running_keeper&&) = delete;

  [[nodiscard]] std::string errors() const { return errors_.contents(); }
  void send(int signal) const { ::kill(process_, signal); }
  /// Ends it by `signal`. Returns its status as waitpid() has it.
  int end(int signal) {
    int status = -1;
    if (process_ > 0) {
      ::kill(process_, signal);
      ::waitpid(process_, &status, 0);
    }
    process_ = -1;
    return status;
  }

 private:
  const temporary_file errors_;
  ::pid_t process_ = -1;
};

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("hipvmm-ctl keep: weights stay when their process ends, until it is stopped") {
  const temporary_folder folder;
  const std::string from = (folder.path() / "weights").string();
  const std::string to = (folder.path() / "kept").string();
  const stream stream;
  const region_options options{.shareable = handle_type::posix_fd};
  std::optional<region> owned{std::in_place, first_device, 4 * granule(), options};
  owned->commit(0, granule());
  fill_async(stream, owned->base(), 42, granule());
  std::optional<publication> published{std::in_place, from, first_device, 4 * granule()};
  published->announce(*owned, granule(), stream);
  stream.synchronize();
  // As nohup does.
  auto* const before = std::signal(SIGHUP, SIG_IGN);
  running_keeper keeper{{"--user", "1", from, to}};
  std::signal(SIGHUP, before);
  REQUIRE(comes_true([&] { return std::filesystem::exists(to); }));
  keeper.send(SIGHUP);
  CHECK_FALSE(happens([&] { return !std::filesystem::exists(to); }));
  published.reset();
  owned.reset();
  const attached_region seen{to};
  REQUIRE(seen.bytes() == granule());
  CHECK(read_bytes(stream, seen.data(), 16) == byte_vector(16, 42));
  const int status = keeper.end(SIGTERM);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(keeper.errors() == "");
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(read_bytes(stream, seen.data(), 16) == byte_vector(16, 42));
}

TEST_SUITE_END();

TEST_CASE("hipvmm-ctl keep: what is wrong is one sentence and an exit code") {
  const temporary_folder folder;
  const std::string from = (folder.path() / "weights").string();
  const auto fails = [](const std::vector<std::string>& arguments, int status,
                        const std::vector<std::string>& words) {
    const outcome ended = run(CTL_PROGRAM, arguments);
    CHECK(ended.status == status);
    CHECK(ended.out.empty());
    check_sentence(ended.err, "hipvmm-ctl: ", words);
  };
  fails({"keep", from, from + "2"}, 1, {"no process publishes at " + from});
  fails({"keep", from}, 2, {"PATH"});
  fails({"keep"}, 2, {"FROM"});
  fails({"keep", from, from + "2", "--user", "root"}, 2, {"--user: 'root' is no user's number"});
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace hipvmm::test
