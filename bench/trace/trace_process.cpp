// SPDX-License-Identifier: MIT
// The side of trace_bench that starts processes and gives them their turns.
#include "trace_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "trace_protocol.hpp"

extern char** environ;

namespace bench {
namespace {

void require(int code, const char* call) {
  if (code != 0) throw std::system_error{code, std::generic_category(), call};
}

/// The environment with `settings` for PyTorch's allocator, and without earlier ones.
std::vector<std::string> environment_with(const std::string& settings) {
  // The second is the name since 2.9.
  const std::array<std::string, 2> names{"PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF="};
  std::vector<std::string> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view each{*variable};
    if (!each.starts_with(names[0]) && !each.starts_with(names[1])) result.emplace_back(each);
  }
  if (!settings.empty())
    for (const std::string& each : names) result.push_back(each + settings);
  return result;
}

struct pipe_ends {
  pipe_ends() {
    std::array<int, 2> both{};
    if (::pipe2(both.data(), O_CLOEXEC) != 0)
      throw std::system_error{errno, std::generic_category(), "pipe2"};
    read = both[0];
    write = both[1];
  }
  ~pipe_ends() {
    if (read != -1) ::close(read);
    if (write != -1) ::close(write);
  }
  pipe_ends(const pipe_ends&) = delete;
  pipe_ends& operator=(const pipe_ends&) = delete;

  int read = -1;
  int write = -1;
};

/// This program with --serve. Ends when its input does, with this object.
class serving_process {
 public:
  serving_process(const std::string& library, hipvmm::device_ref device,
                  const std::string& settings) {
    std::vector<std::string> arguments{"trace_bench", "--serve", library, "--device",
                                       std::to_string(device.ordinal())};
    std::vector<std::string> environment = environment_with(settings);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> result;
      for (std::string& each : texts) result.push_back(each.data());
      result.push_back(nullptr);
      return result;
    };
    posix_spawn_file_actions_t actions;
    require(::posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
    int code = ::posix_spawn_file_actions_adddup2(&actions, requests_.read, STDIN_FILENO);
    if (code == 0)
      code = ::posix_spawn_file_actions_adddup2(&actions, answers_.write, STDOUT_FILENO);
    if (code == 0)
      code = ::posix_spawn(&id_, "/proc/self/exe", &actions, nullptr, pointers(arguments).data(),
                           pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    require(code, "posix_spawn");
    ::close(std::exchange(requests_.read, -1));
    ::close(std::exchange(answers_.write, -1));
  }
  ~serving_process() {
    ::close(std::exchange(requests_.write, -1));
    static_cast<void>(::waitpid(id_, nullptr, 0));
  }
  serving_process(const serving_process&) = delete;
  serving_process& operator=(const serving_process&) = delete;

  trace_epochs replay(const replay_request& request) {
    const std::string line = to_line(request) + '\n';
    if (::write(requests_.write, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error{"the process of this allocator has ended"};
    return epochs_of(read_line());
  }

 private:
  std::string read_line() {
    std::string line;
    for (char c = 0;;) {
      const ssize_t got = ::read(answers_.read, &c, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got != 1)
        throw std::runtime_error{"the process of this allocator ended without an answer"};
      if (c == '\n') return line;
      line += c;
    }
  }

  pipe_ends requests_;
  pipe_ends answers_;
  pid_t id_ = 0;
};

/// Runs torch_allocator.sh, which prints PyTorch's version. Empty, and said so, if it fails.
std::string build_library() {
  const std::string folder = BENCH_TORCH_FOLDER;
  const std::string command = "bash '" BENCH_SOURCE_FOLDER "/torch_allocator.sh' '" + folder + "'";
  std::string version;
  FILE* const out = ::popen(command.c_str(), "re");
  if (out == nullptr) throw std::system_error{errno, std::generic_category(), "popen"};
  for (int c = 0; (c = std::fgetc(out)) != EOF;)
    if (c != '\n') version += static_cast<char>(c);
  const int status = ::pclose(out);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    std::fprintf(stderr, "trace_bench: PyTorch %s\n", version.c_str());
    return folder + "/libtorch_allocator.so";
  }
  const bool absent = WIFEXITED(status) && WEXITSTATUS(status) == 3;
  std::fprintf(stderr, "trace_bench: PyTorch is not measured: %s, see %s/torch_allocator.log\n",
               absent ? "there is none for CUDA" : "its allocator does not compile",
               folder.c_str());
  return {};
}

}  // namespace

trace_contender process_contender(const std::string& name, const std::string& library,
                                  hipvmm::device_ref device, const std::string& settings) {
  // Started at the first turn and kept, so that later turns find it as the others find this one.
  auto process = std::make_shared<std::unique_ptr<serving_process>>();
  trace_contender result;
  result.name = name;
  result.same_stream_only = true;
  result.replay = [=](const hipvmm::tool::trace& recorded,
                      const hipvmm::tool::replay_options& options) {
    if (!*process) *process = std::make_unique<serving_process>(library, device, settings);
    return (*process)->replay({recorded.name, options.epochs, options.busy_bytes});
  };
  return result;
}

std::vector<trace_contender> torch_contenders(hipvmm::device_ref device) {
  const std::string library = build_library();
  if (library.empty()) return {};
  return {process_contender("PyTorch", library, device),
          process_contender("PyTorch expandable", library, device, "expandable_segments:True")};
}

}  // namespace bench
