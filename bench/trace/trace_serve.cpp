// SPDX-License-Identifier: MIT
// The side of trace_bench that replays on an allocator behind trace_allocator.h.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include "trace_allocator.h"
#include "trace_process.hpp"
#include "trace_protocol.hpp"

namespace bench {
namespace {

namespace tool = hipvmm::tool;

/// The functions of trace_allocator.h from a library that stays loaded.
class allocator_library {
 public:
  explicit allocator_library(const std::string& path)
      : handle_{::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)} {
    if (handle_ == nullptr) throw std::runtime_error{::dlerror()};
    find(open, "hipvmm_bench_open");
    find(allocate, "hipvmm_bench_allocate");
    find(deallocate, "hipvmm_bench_deallocate");
    find(peak_reserved_bytes, "hipvmm_bench_peak_reserved_bytes");
    find(reserved_bytes, "hipvmm_bench_reserved_bytes");
    find(reset_peak, "hipvmm_bench_reset_peak");
    find(empty_cache, "hipvmm_bench_empty_cache");
    find(error, "hipvmm_bench_error");
  }

  decltype(&hipvmm_bench_open) open = nullptr;
  decltype(&hipvmm_bench_allocate) allocate = nullptr;
  decltype(&hipvmm_bench_deallocate) deallocate = nullptr;
  decltype(&hipvmm_bench_reserved_bytes) reserved_bytes = nullptr;
  decltype(&hipvmm_bench_peak_reserved_bytes) peak_reserved_bytes = nullptr;
  decltype(&hipvmm_bench_reset_peak) reset_peak = nullptr;
  decltype(&hipvmm_bench_empty_cache) empty_cache = nullptr;
  decltype(&hipvmm_bench_error) error = nullptr;

 private:
  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr) throw std::runtime_error{::dlerror()};
  }

  void* handle_;
};

class allocator_resource final : public hipvmm::mr::memory_resource {
 public:
  explicit allocator_resource(const allocator_library& served) : served_{served} {}

 private:
  void* do_allocate(hipvmm::stream_ref stream, std::size_t bytes, std::size_t) override {
    void* const pointer = served_.allocate(bytes, stream.get());
    if (pointer == nullptr) throw std::runtime_error{served_.error()};
    return pointer;
  }
  void do_deallocate(hipvmm::stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t) noexcept override {
    // Nothing can be thrown here; a replay counts reports to the handler as failures.
    if (served_.deallocate(pointer, bytes, stream.get()) != 0) {
      const hipvmm::error_handler handler = hipvmm::set_error_handler(nullptr);
      hipvmm::set_error_handler(handler);
      handler("hipvmm_bench_deallocate", 1, served_.error());
    }
  }
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override {
    return do_allocate(hipvmm::stream_ref::legacy_default(), bytes, alignment);
  }
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override {
    do_deallocate(hipvmm::stream_ref::legacy_default(), pointer, bytes, alignment);
  }

  const allocator_library& served_;
};

trace_epochs replay_on_library(const allocator_library& served, const tool::trace& recorded,
                               const tool::replay_options& options) {
  if (served.open(options.device.ordinal()) != 0) throw std::runtime_error{served.error()};
  allocator_resource resource{served};
  // Before the streams end: PyTorch waits for the stream of an expandable segment that it unmaps.
  const auto empty_cache = [&served](hipvmm::stream_ref) {
    if (served.empty_cache() != 0) throw std::runtime_error{served.error()};
  };
  trace_subject subject{resource, {served.peak_reserved_bytes, served.reset_peak, empty_cache}};
  served.reset_peak();
  trace_epochs result = replay_on(subject, recorded, options);
  if (served.reserved_bytes() != 0)
    std::fprintf(stderr, "trace_bench: %zu bytes are held behind a replay; the next is less cold\n",
                 served.reserved_bytes());
  return result;
}

}  // namespace

int serve_allocator(const std::string& library, int device) {
  // Output of libraries must not get between the answers.
  const int answers = ::dup(STDOUT_FILENO);
  if (answers == -1 || ::dup2(STDERR_FILENO, STDOUT_FILENO) == -1)
    throw std::runtime_error{"there is no standard output or error"};
  std::optional<allocator_library> served;
  std::map<std::string, tool::trace> traces;
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    try {
      const replay_request request = request_of(line);
      tool::replay_options options;
      options.device = hipvmm::device_ref{device};
      options.epochs = request.epochs;
      options.busy_bytes = request.busy_bytes;
      const hipvmm::scoped_device scope{options.device};
      if (!served) served.emplace(library);
      auto known = traces.find(request.trace);
      if (known == traces.end())
        known = traces.emplace(request.trace, tool::read_trace(request.trace)).first;
      answer = to_line(replay_on_library(*served, known->second, options));
    } catch (const std::exception& error) {
      answer = failure_line(error.what());
    }
    answer += '\n';
    if (::write(answers, answer.data(), answer.size()) != static_cast<ssize_t>(answer.size()))
      return 1;
  }
  return 0;
}

}  // namespace bench
