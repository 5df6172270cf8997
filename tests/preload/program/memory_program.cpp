// SPDX-License-Identifier: MIT
// A program that knows HIP and nothing of hipvmm: memory_program TASK. Its output must not
// depend on the library that serves its calls.
#include <hip/hip_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

// Of the host provider only.
extern "C" [[gnu::weak]] const char* hipvmm_host_set_faults(const char* plan);

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

void require(hipError_t result, const char* call) {
  if (result == hipSuccess) return;
  std::printf("%s failed with %d\n", call, static_cast<int>(result));
  std::exit(1);
}
#define REQUIRE(call) require(call, #call)

/// The result of a call that may fail, and whether HIP keeps it.
void print(const char* what, hipError_t result) {
  const hipError_t last = hipGetLastError();
  std::printf("%s: %d, last error %s\n", what, static_cast<int>(result),
              last == hipSuccess ? "none"
              : last == result   ? "the same"
                                 : "another");
}

char* allocate(std::size_t bytes) {
  void* made = nullptr;
  REQUIRE(hipMalloc(&made, bytes));
  return static_cast<char*>(made);
}

std::uint64_t sum_of(const char* memory, std::size_t bytes) {
  std::vector<unsigned char> copy(bytes);
  REQUIRE(hipMemcpy(copy.data(), memory, bytes, hipMemcpyDeviceToHost));
  std::uint64_t sum = 0;
  for (const unsigned char each : copy) sum = sum * 31 + each;
  return sum;
}

void copies() {
  std::uint64_t sum = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<char*> held;
    for (std::size_t bytes : {std::size_t{1}, std::size_t{100}, 3 * mib, mib / 2, 5 * mib + 7}) {
      char* const memory = allocate(bytes);
      if (reinterpret_cast<std::uintptr_t>(memory) % 512 != 0) std::printf("misaligned\n");
      REQUIRE(hipMemset(memory, round + static_cast<int>(held.size()), bytes));
      sum += sum_of(memory, bytes);
      held.push_back(memory);
    }
    for (char* const each : held) REQUIRE(hipFree(each));
  }
  hipStream_t stream = nullptr;
  REQUIRE(hipStreamCreate(&stream));
  for (int round = 0; round < 5; ++round) {
    void* memory = nullptr;
    REQUIRE(hipMallocAsync(&memory, mib, stream));
    REQUIRE(hipMemsetAsync(memory, round, mib, stream));
    REQUIRE(hipStreamSynchronize(stream));
    sum += sum_of(static_cast<char*>(memory), mib);
    REQUIRE(hipFreeAsync(memory, stream));
  }
  // Either kind may be freed the other way.
  void* memory = nullptr;
  REQUIRE(hipMallocAsync(&memory, mib, nullptr));
  REQUIRE(hipFree(memory));
  REQUIRE(hipFreeAsync(allocate(mib), hipStreamPerThread));
  REQUIRE(hipStreamDestroy(stream));
  REQUIRE(hipDeviceSynchronize());
  std::printf("sum %016llx\n", static_cast<unsigned long long>(sum));
}

void threads() {
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int number = 1; number <= 4; ++number)
    all.emplace_back([number, &wrong] {
      hipStream_t stream = nullptr;
      REQUIRE(hipStreamCreate(&stream));
      for (int round = 0; round < 40; ++round) {
        const std::size_t bytes = static_cast<std::size_t>(1000 * number + 300 * round);
        char* const memory = allocate(bytes);
        void* ordered = nullptr;
        REQUIRE(hipMallocAsync(&ordered, bytes, stream));
        REQUIRE(hipMemsetAsync(ordered, number, bytes, stream));
        REQUIRE(hipMemcpyAsync(memory, ordered, bytes, hipMemcpyDeviceToDevice, stream));
        REQUIRE(hipFreeAsync(ordered, stream));
        std::vector<char> copy(bytes);
        REQUIRE(hipMemcpyAsync(copy.data(), memory, bytes, hipMemcpyDeviceToHost, stream));
        REQUIRE(hipStreamSynchronize(stream));
        for (const char each : copy)
          if (each != number) ++wrong;
        REQUIRE(hipFree(memory));
      }
      REQUIRE(hipStreamDestroy(stream));
    });
  for (std::thread& each : all) each.join();
  std::printf("wrong bytes: %d\n", wrong.load());
}

void captures() {
  hipStream_t stream = nullptr;
  REQUIRE(hipStreamCreate(&stream));
  void* before = nullptr;
  REQUIRE(hipMallocAsync(&before, mib, stream));
  REQUIRE(hipStreamSynchronize(stream));
  REQUIRE(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  void* within = nullptr;
  const hipError_t made = hipMallocAsync(&within, mib, stream);
  print("hipMallocAsync while captured", made);
  if (made == hipSuccess) {
    print("hipMemsetAsync while captured", hipMemsetAsync(within, 7, mib, stream));
    print("hipFreeAsync while captured", hipFreeAsync(within, stream));
  }
  hipGraph_t graph = nullptr;
  print("hipStreamEndCapture", hipStreamEndCapture(stream, &graph));
  if (graph != nullptr) {
    std::size_t nodes = 0;
    REQUIRE(hipGraphGetNodes(graph, nullptr, &nodes));
    std::printf("nodes: %zu\n", nodes);
    REQUIRE(hipGraphDestroy(graph));
  }
  REQUIRE(hipFreeAsync(before, stream));
  REQUIRE(hipStreamSynchronize(stream));
  REQUIRE(hipStreamDestroy(stream));
}

void errors() {
  static char own[64];
  void* memory = nullptr;
  print("hipMalloc to null", hipMalloc(static_cast<void**>(nullptr), mib));
  print("hipMalloc of nothing", hipMalloc(&memory, 0));
  std::printf("pointer %s\n", memory == nullptr ? "null" : "not null");
  print("hipMalloc of too much", hipMalloc(&memory, std::size_t{1} << 50));
  print("hipMallocAsync of too much", hipMallocAsync(&memory, std::size_t{1} << 50, nullptr));
  print("hipFree of null", hipFree(nullptr));
  print("hipFree of the program's memory", hipFree(own));
  char* const first = allocate(3 * mib);
  char* const second = allocate(3 * mib);
  print("hipFree", hipFree(first));
  print("hipFree again", hipFree(first));
  print("hipFree of the other", hipFree(second));
}

/// Releases of ROCm free an allocation by any address in it.
void inside() {
  char* const memory = allocate(3 * mib);
  print("hipFree inside", hipFree(memory + mib));
  print("hipFree", hipFree(memory));
}

void forks() {
  char* const memory = allocate(mib);
  REQUIRE(hipMemset(memory, 5, mib));
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    // HIP may answer anything there; the process must not hang.
    static_cast<void>(hipFree(memory));
    void* own = nullptr;
    static_cast<void>(hipMalloc(&own, mib));
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  std::printf("child ended with %d, sum %llx\n", status,
              static_cast<unsigned long long>(sum_of(memory, mib)));
  REQUIRE(hipFree(memory));
}

/// Frees with the program's static objects.
struct kept_to_the_end {
  char* memory = nullptr;
  bool is_quiet = false;
  ~kept_to_the_end() {
    if (memory == nullptr) return;
    const hipError_t result = hipFree(memory);
    // CUDA has ended by then, and its memory with it.
    const bool is_free = result == hipSuccess || result == hipErrorDeinitialized;
    if (!is_quiet) std::printf("freed at the end: %d\n", is_free ? 0 : static_cast<int>(result));
  }
};
kept_to_the_end kept;

void held() {
  static_cast<void>(allocate(2 * mib));
  kept.memory = allocate(3 * mib);
  void* ordered = nullptr;
  REQUIRE(hipMallocAsync(&ordered, mib, nullptr));
  std::printf("held\n");
}

/// Free memory once it stays: without virtual memory a thread of the library may be freeing memory
/// that it got in a place that was not aligned.
std::size_t steady_free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(hipMemGetInfo(&free, &total));
  for (int same = 0, tries = 0; same < 20 && tries < 2000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    const std::size_t last = free;
    REQUIRE(hipMemGetInfo(&free, &total));
    same = free == last ? same + 1 : 0;
  }
  return free;
}

void information() {
  REQUIRE(hipFree(allocate(8 * mib)));
  // HIP rounds allocations up.
  const std::size_t unit = 8 * mib;
  std::size_t used = 0;
  std::size_t left = 0;
  // Other programs may use a GPU at the same time; a fault of ours would show every time.
  for (int attempt = 0; attempt < 100 && (used != 4 || left != 0); ++attempt) {
    const std::size_t before = steady_free_memory();
    char* const memory = allocate(32 * mib);
    used = (before - steady_free_memory()) / unit;
    REQUIRE(hipFree(memory));
    left = (before - steady_free_memory()) / unit;
  }
  std::printf("used %zu * 8 MiB, and %zu * 8 MiB after\n", used, left);
}

void ranges() {
  char* const memory = allocate(3 * mib);
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  REQUIRE(hipMemGetAddressRange(&base, &bytes, memory + mib));
  std::printf("base %s, %zu bytes\n", base == memory ? "right" : "wrong", bytes);
  hipPointerAttribute_t attributes{};
  REQUIRE(hipPointerGetAttributes(&attributes, memory + mib));
  std::printf("device %d\n", attributes.device);
  REQUIRE(hipFree(memory));
  print("hipMemGetAddressRange of what was freed", hipMemGetAddressRange(&base, &bytes, memory));
}

/// Memory in stream order is the current pool's of the device, whose attributes count it.
void pools() {
  hipMemPool_t standard = nullptr;
  REQUIRE(hipDeviceGetDefaultMemPool(&standard, 0));
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  hipMemPool_t own = nullptr;
  REQUIRE(hipMemPoolCreate(&own, &properties));
  for (hipMemPool_t const current : {own, standard}) {
    REQUIRE(hipDeviceSetMemPool(0, current));
    void* memory = nullptr;
    REQUIRE(hipMallocAsync(&memory, 4 * mib, nullptr));
    std::uint64_t used = 0;
    REQUIRE(hipMemPoolGetAttribute(own, hipMemPoolAttrUsedMemCurrent, &used));
    std::printf("of its own pool: %d MiB\n", static_cast<int>(used / mib));
    REQUIRE(hipFreeAsync(memory, nullptr));
    REQUIRE(hipStreamSynchronize(nullptr));
  }
  // The default pool is the current one again when the other is destroyed.
  REQUIRE(hipDeviceSetMemPool(0, own));
  REQUIRE(hipMemPoolDestroy(own));
  hipMemPool_t current = nullptr;
  REQUIRE(hipDeviceGetMemPool(&current, 0));
  std::printf("default pool: %d\n", current == standard ? 1 : 0);
  void* memory = nullptr;
  REQUIRE(hipMallocAsync(&memory, 4 * mib, nullptr));
  REQUIRE(hipFreeAsync(memory, nullptr));
}

void devices() {
  int count = 0;
  REQUIRE(hipGetDeviceCount(&count));
  std::vector<char*> all;
  for (int device = 0; device < count; ++device) {
    REQUIRE(hipSetDevice(device));
    all.push_back(allocate(2 * mib));
    REQUIRE(hipMemset(all.back(), device + 1, 2 * mib));
    hipPointerAttribute_t attributes{};
    REQUIRE(hipPointerGetAttributes(&attributes, all.back()));
    std::printf("device %d\n", attributes.device);
  }
  for (int device = 0; device < count; ++device) {
    char* const memory = all[static_cast<std::size_t>(device)];
    REQUIRE(hipSetDevice(device));
    std::printf("sum %llx\n", static_cast<unsigned long long>(sum_of(memory, 2 * mib)));
    // Freed with any device current.
    REQUIRE(hipSetDevice(0));
    REQUIRE(hipFree(memory));
  }
}

void resets() {
  static_cast<void>(allocate(mib));
  REQUIRE(hipDeviceReset());
  char* const memory = allocate(mib);
  REQUIRE(hipMemset(memory, 1, mib));
  std::printf("sum %llx\n", static_cast<unsigned long long>(sum_of(memory, mib)));
  REQUIRE(hipFree(memory));
}

void handles() {
  char* const memory = allocate(3 * mib);
  hipIpcMemHandle_t handle{};
  print("hipIpcGetMemHandle", hipIpcGetMemHandle(&handle, memory));
  REQUIRE(hipFree(memory));
}

void waits() {
  hipStream_t stream = nullptr;
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  char* const memory = allocate(mib);
  static std::atomic<bool> done{false};
  static std::atomic<bool> has_returned{false};
  REQUIRE(hipStreamAddCallback(
      stream,
      [](hipStream_t, hipError_t, void*) {
        for (int i = 0; i < 100 && !has_returned; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds{5});
        done = true;
      },
      nullptr, 0));
  REQUIRE(hipFree(memory));
  std::printf("hipFree %s\n", done ? "waited" : "returned");
  has_returned = true;
  REQUIRE(hipStreamSynchronize(stream));
  REQUIRE(hipStreamDestroy(stream));
}

/// HIP ends with an exit handler, as CUDA's driver does; with the host provider by a plan of
/// faults.
void ended() {
  static void* ordered = nullptr;
  static_cast<void>(allocate(2 * mib));
  REQUIRE(hipMallocAsync(&ordered, mib, nullptr));
  kept.memory = allocate(3 * mib);
  kept.is_quiet = true;
  std::atexit([] {
    if (hipvmm_host_set_faults != nullptr)
      hipvmm_host_set_faults("any error=hipErrorDeinitialized");
    static_cast<void>(hipFreeAsync(ordered, nullptr));
  });
  std::printf("ended\n");
}

/// The program's folder is another one before its first call.
void moves() {
  if (::chdir("/") != 0) std::exit(1);
  REQUIRE(hipFree(allocate(mib)));
  std::printf("moved\n");
}

/// Memory of a stream that ends goes to others only when its work is done.
void ended_streams() {
  for (int round = 0; round < 3; ++round) {
    hipStream_t stream = nullptr;
    REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    void* memory = nullptr;
    REQUIRE(hipMallocAsync(&memory, mib, stream));
    REQUIRE(hipMemsetAsync(memory, round, mib, stream));
    REQUIRE(hipFreeAsync(memory, stream));
    REQUIRE(hipStreamDestroy(stream));
  }
  REQUIRE(hipDeviceSynchronize());
  std::printf("ended\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> tasks{{"copies", copies},     {"threads", threads},
                                                {"captures", captures}, {"errors", errors},
                                                {"inside", inside},     {"forks", forks},
                                                {"held", held},         {"ended", ended},
                                                {"info", information},  {"ranges", ranges},
                                                {"devices", devices},   {"resets", resets},
                                                {"handles", handles},   {"pools", pools},
                                                {"waits", waits},       {"streams", ended_streams},
                                                {"moves", moves},       {"nothing", [] {}}};
  const auto found = tasks.find(argc == 2 ? argv[1] : "");
  if (found == tasks.end()) return 2;
  found->second();
  return 0;
}
