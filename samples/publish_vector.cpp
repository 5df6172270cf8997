// SPDX-License-Identifier: MIT
// One process grows a vector, two others follow it: the vector is published under a path, and
// they attach there. They map new chunks when they look, read them in place, and never wait for one
// another.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr std::size_t steps = 3;
constexpr std::size_t step_size = 3'000'000;
constexpr std::size_t consumers = 2;

/// Whether `numbers` has a step of ones, then one of twos, and so on.
bool is_as_written(const std::vector<int>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != static_cast<int>(i / step_size + 1)) return false;
  return true;
}

// A driver that many processes start at once needs seconds for each.
constexpr std::chrono::seconds patience = 60s;

/// Attaches as soon as the vector is published. Returns false if it never is.
bool follow(const std::string& path) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!std::filesystem::exists(path)) {
    if (!std::filesystem::exists(std::filesystem::path{path}.parent_path())) return false;
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  hipvmm::attach_options options;
  options.timeout = patience;
  hipvmm::attached_vector<int> numbers{path, options};
  const hipvmm::stream stream{numbers.device()};
  while (numbers.size() < steps * step_size) {
    if (!numbers.wait_for(numbers.size() + 1, patience, stream)) return false;
    std::vector<int> copied(numbers.size());
    hipvmm::copy(stream, copied.data(), numbers.data(), copied.size() * sizeof(int));
    if (!is_as_written(copied)) throw std::runtime_error{"read other numbers than were written"};
  }
  return true;
}

/// Waits for processes. Returns whether each has ended well.
bool all_succeeded(std::vector<::pid_t>& children) {
  bool succeeded = true;
  for (const ::pid_t child : std::exchange(children, {})) {
    int status = 0;
    succeeded = ::waitpid(child, &status, 0) == child && status == 0 && succeeded;
  }
  return succeeded;
}

bool produce(const std::string& path, std::vector<::pid_t>& children) {
  const hipvmm::device_ref device = hipvmm::device_ref::current();
  const hipvmm::stream stream{device};
  hipvmm::growth_options options;
  options.max_bytes = 64 * hipvmm::MiB;
  options.past_max = hipvmm::past_max_size::refuse;
  options.chunks.shareable = hipvmm::handle_type::posix_fd;
  hipvmm::growable_device_vector<int> numbers{device, options};
  hipvmm::publication published{path, numbers};
  for (std::size_t step = 1; step <= steps; ++step) {
    numbers.resize(step * step_size, static_cast<int>(step), stream);
    published.announce(numbers, stream);  // readable once the stream has written them
  }
  // The path is there as long as the publication, for processes that attach late.
  if (!all_succeeded(children)) return false;
  std::printf("%zu processes followed %zu ints on device %d through a path\n", consumers,
              numbers.size(), device.ordinal());
  return true;
}

/// Runs one side and turns its exceptions into a sentence.
template <typename Side>
bool succeeds(const char* side, Side run) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "publish_vector: %s: %s\n", side, error.what());
    return false;
  }
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "publish_vector-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::perror("publish_vector: mkdtemp");
    return 1;
  }
  const std::string path = folder + "/numbers";
  // Before the first HIP call: a runtime that is already running does not survive fork.
  std::vector<::pid_t> children;
  for (std::size_t i = 0; i < consumers; ++i) {
    const ::pid_t child = ::fork();
    if (child == 0) return succeeds("consumer", [&] { return follow(path); }) ? 0 : 1;
    if (child > 0) children.push_back(child);
  }
  const bool produced =
      children.size() == consumers && succeeds("producer", [&] { return produce(path, children); });
  // Tells processes that still wait for the path that nothing will be published.
  std::filesystem::remove_all(folder);
  return all_succeeded(children) && produced ? 0 : 1;
}
