// SPDX-License-Identifier: MIT
// The examples of hipMM's README, which move to hipvmm by an include and the line `namespace rmm`.
// HIP fills the memory here instead of a kernel of the README: this file is plain C++. Each
// example checks its result.
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// [namespace-line]
#include <hipvmm/compat/hipmm.hpp>

namespace rmm = hipvmm::hipmm;
// [namespace-line-end]

namespace {

using rmm::cuda_device_id;
using rmm::cuda_stream_view;
using rmm::mr::set_per_device_resource;
using std::unique_ptr;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

/// A resource of the program's own: hipMM's virtual functions, with ours below.
class my_custom_resource final : public rmm::mr::device_memory_resource {
 public:
  std::size_t bytes_out = 0;

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    void* const pointer = upstream_.allocate(bytes, stream);
    bytes_out += bytes;
    return pointer;
  }
  void do_deallocate(void* p, std::size_t bytes, rmm::cuda_stream_view stream) override {
    upstream_.deallocate(p, bytes, stream);
    bytes_out -= bytes;
  }

  rmm::mr::cuda_memory_resource upstream_;
};

void default_resource() {
  rmm::mr::cuda_memory_resource cuda_mr;
  // Construct a resource that uses a coalescing best-fit pool allocator
  // With the pool initially a part of available device memory: tests run beside one another
  auto initial_size = rmm::percent_of_free_device_memory(1);
  rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool_mr{&cuda_mr, initial_size};
  rmm::mr::set_current_device_resource(&pool_mr);  // Updates the current device resource pointer
  rmm::mr::device_memory_resource* mr = rmm::mr::get_current_device_resource();
  require(mr == &pool_mr, "the default resource is not the one that was set");
  rmm::mr::set_current_device_resource(nullptr);
}

void pool_for_each_device() {
  int N = 0;
  RMM_CUDA_TRY(hipGetDeviceCount(&N));
  auto initial_size = std::size_t{4} << 20;
  using pool_mr = rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>;
  std::vector<unique_ptr<rmm::mr::cuda_memory_resource>> upstreams;
  std::vector<unique_ptr<pool_mr>> per_device_pools;
  for (int i = 0; i < N; ++i) {
    RMM_CUDA_TRY(hipSetDevice(i));  // set device i before creating MR
    upstreams.push_back(std::make_unique<rmm::mr::cuda_memory_resource>());
    per_device_pools.push_back(std::make_unique<pool_mr>(upstreams.back().get(), initial_size));
    // The README passes &per_device_pools.back(), which is the address of a unique_ptr.
    set_per_device_resource(cuda_device_id{i}, per_device_pools.back().get());
  }
  RMM_CUDA_TRY(hipSetDevice(0));
  for (int i = 0; i < N; ++i) set_per_device_resource(cuda_device_id{i}, nullptr);
}

/// Undefined with hipMM; here an error that names the remedy.
void incorrect_device() {
  // [incorrect-device]
  RMM_CUDA_TRY(hipSetDevice(0));
  auto mr = rmm::mr::cuda_memory_resource{};
  try {
    RMM_CUDA_TRY(hipSetDevice(1));
    // Invalid, current device is 1, but MR is only valid for device 0
    rmm::device_buffer buf(16, rmm::cuda_stream_default, &mr);
  } catch (const rmm::logic_error& error) {
    std::printf("%s\n", error.what());
    RMM_CUDA_TRY(hipSetDevice(0));
    return;
  }
  // [incorrect-device-end]
  throw std::runtime_error{"a resource of another device was used"};
}

void correct_device() {
  {
    RMM_CUDA_TRY(hipSetDevice(0));
    auto mr = rmm::mr::cuda_memory_resource{};
    rmm::device_buffer buf(16, rmm::cuda_stream_default, &mr);
    RMM_CUDA_TRY(hipSetDevice(1));
    // No need to switch back to device 0 before ~buf runs
  }
  int current = 0;
  RMM_CUDA_TRY(hipGetDevice(&current));
  require(current == 1, "the end of a buffer changed the current device");
  RMM_CUDA_TRY(hipSetDevice(0));
}

void allocators() {
  rmm::cuda_stream stream;
  rmm::mr::polymorphic_allocator<int> stream_alloc;
  // Constructs an adaptor that forwards all (de)allocations to `stream_alloc` on `stream`.
  auto adapted = rmm::mr::stream_allocator_adaptor(stream_alloc, stream);
  // Allocates 100 ints using `stream_alloc` on `stream`
  auto p = adapted.allocate(100);
  require(p != nullptr, "the adapted allocator gave nothing");
  // Deallocates using `stream_alloc` on `stream`
  adapted.deallocate(p, 100);
}

void data_structures() {
  rmm::cuda_stream stream;
  cuda_stream_view s{stream};
  // Allocates at least 100 bytes on stream `s` using the *default* resource
  rmm::device_buffer b{100, s};
  RMM_CUDA_TRY(hipMemsetAsync(b.data(), 7, b.size(), s.value()));

  const auto custom = std::make_unique<my_custom_resource>();
  rmm::mr::device_memory_resource* mr = custom.get();
  {
    // Allocates at least 100 bytes on stream `s` using the resource `mr`
    rmm::device_buffer b2{100, s, mr};
    // Allocates uninitialized storage for 100 `int32_t` elements on stream `s` using `mr`
    rmm::device_uvector<std::int32_t> v2{100, s, mr};
    require(custom->bytes_out == 500, "the program's resource was not asked");
  }
  require(custom->bytes_out == 0, "the program's resource did not get its memory back");

  // Allocates uninitialized storage for 100 `int32_t` elements using the default resource
  rmm::device_uvector<std::int32_t> v(100, s);
  // Initializes the elements to 0
  RMM_CUDA_TRY(hipMemsetAsync(v.data(), 0, v.size() * sizeof(std::int32_t), s.value()));
  require(v.back_element(s) == 0, "an element is not what was written");

  // Allocates uninitialized storage for a single `int32_t` in device memory
  rmm::device_scalar<std::int32_t> a{s};
  a.set_value(42, s);           // Updates the value in device memory to `42` on stream `s`
  std::int32_t n = a.value(s);  // Retrieves the value from device to host on stream `s`
  require(n == 42, "a scalar lost its value");
}

void event_log() {
  const auto folder =
      std::filesystem::temp_directory_path() / ("hipvmm-hipmm-program-" + std::to_string(getpid()));
  std::string filename{(folder / "logs/test1.csv").string()};
  {
    rmm::mr::cuda_memory_resource upstream;
    rmm::mr::logging_resource_adaptor<rmm::mr::cuda_memory_resource> log_mr{&upstream, filename};
    log_mr.deallocate(log_mr.allocate(100), 100);
  }
  std::vector<std::string> rows;
  std::ifstream file{filename};
  for (std::string row; std::getline(file, row);) rows.push_back(row);
  std::filesystem::remove_all(folder);
  require(rows.size() == 3 && rows.front() == "Thread,Time,Action,Pointer,Size,Stream",
          "the log is not a header and two rows");
}

int run() {
  const rmm::cuda_device_id device;  // the current one; throws if there is none
  require(device.value() == 0, "a program does not begin with the first device");
  const int devices = rmm::get_num_cuda_devices();
  default_resource();
  pool_for_each_device();
  allocators();
  data_structures();
  event_log();
  if (devices > 1) {
    incorrect_device();
    correct_device();
  } else {
    std::puts("of the examples with two devices nothing is shown: there is one");
  }
  std::puts("hipMM's examples ran on hipvmm");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hipmm_program: %s\n", error.what());
    return 1;
  }
}
