// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "profile_rules.hpp"
#include "providers/host/tests/fixtures.hpp"

// Copies that name several devices: which of them carries a copy out, with its rights to mapped
// memory, and in which of its streams. AMD's runtimes 6.4.3 and 7.2.4 have answered, on a stand-in
// for ROCr.
namespace hipvmm::test {
namespace {

constexpr hipError_t good = hipSuccess;
constexpr hipError_t value = hipErrorInvalidValue;

/// Work of a stream that ends after 60 ms, or by end().
class slow_function {
 public:
  void submit(hipStream_t stream) {
    REQUIRE(hipLaunchHostFunc(
                stream,
                [](void* given) {
                  auto& self = *static_cast<slow_function*>(given);
                  const auto last =
                      std::chrono::steady_clock::now() + std::chrono::milliseconds{60};
                  while (!self.may_end_ && std::chrono::steady_clock::now() < last)
                    std::this_thread::sleep_for(std::chrono::milliseconds{1});
                  self.has_ended_ = true;
                },
                this) == hipSuccess);
  }
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  hipError_t end(int device) {
    may_end_ = true;
    REQUIRE(hipSetDevice(device) == hipSuccess);
    const hipError_t code = hipStreamSynchronize(nullptr);
    REQUIRE(hipSetDevice(0) == hipSuccess);
    return code;
  }

 private:
  std::atomic<bool> may_end_{false};
  std::atomic<bool> has_ended_{false};
};

/// Whether hipMemcpy between pinned memory and memory of device 1, made while device 0 is the
/// current one, waits for the null stream of device 1.
bool copy_waits_for_owner(bool to_host) {
  void* host = nullptr;
  void* device = nullptr;
  REQUIRE(hipHostMalloc(&host, 64, 0) == hipSuccess);
  REQUIRE(hipSetDevice(1) == hipSuccess);
  REQUIRE(hipMalloc(&device, 64) == hipSuccess);
  slow_function slow;
  slow.submit(nullptr);
  REQUIRE(hipSetDevice(0) == hipSuccess);
  REQUIRE(hipMemcpy(to_host ? host : device, to_host ? device : host, 64, hipMemcpyDefault) ==
          hipSuccess);
  const bool waited = slow.has_ended();
  REQUIRE(slow.end(1) == hipSuccess);
  REQUIRE(hipFree(device) == hipSuccess);
  REQUIRE(hipHostFree(host) == hipSuccess);
  return waited;
}

struct foreign_copies {
  const allocation target{64, 1};
  const allocation source{64, 1};
  const pinned host{64};
  const stream blocking{hipStreamDefault, 0};
  const stream independent{hipStreamNonBlocking, 0};

  struct form {
    hipStream_t asked_in;
    std::function<hipError_t(hipStream_t)> submit;
  };
  [[nodiscard]] std::vector<form> forms() const {
    const auto async = [](void* to, const void* from) {
      return [=](hipStream_t in) { return hipMemcpyAsync(to, from, 64, hipMemcpyDefault, in); };
    };
    return {{nullptr, async(target.at(), source.at())},
            {independent.get(), async(target.at(), source.at())},
            {independent.get(), async(target.at(), host.at())},
            {blocking.get(), async(host.at(), source.at())},
            {independent.get(), [this](hipStream_t in) {
               return hipMemcpyPeerAsync(target.at(), 1, source.at(), 1, 64, in);
             }}};
  }
};

/// How many of them wait for earlier work of the null stream of device 1.
int copies_behind_null_stream() {
  const foreign_copies copies;
  int behind = 0;
  for (const auto& [asked_in, submit] : copies.forms()) {
    slow_function slow;
    REQUIRE(hipSetDevice(1) == hipSuccess);
    slow.submit(nullptr);
    REQUIRE(hipSetDevice(0) == hipSuccess);
    REQUIRE(submit(asked_in) == hipSuccess);
    REQUIRE(hipStreamSynchronize(asked_in) == hipSuccess);
    behind += int{slow.has_ended()};
    REQUIRE(slow.end(1) == hipSuccess);
  }
  return behind;
}

/// For how many of them later work of the null stream of device 1 waits.
int copies_before_null_stream() {
  const foreign_copies copies;
  int before = 0;
  for (const auto& [asked_in, submit] : copies.forms()) {
    slow_function slow;
    slow.submit(asked_in);
    REQUIRE(submit(asked_in) == hipSuccess);
    REQUIRE(hipSetDevice(1) == hipSuccess);
    REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
    before += int{slow.has_ended()};
    REQUIRE(slow.end(0) == hipSuccess);
    REQUIRE(hipStreamSynchronize(asked_in) == hipSuccess);
  }
  return before;
}

struct side {
  int owner;
  std::optional<unsigned> users;  // of a mapping: bit 0 for device 0, bit 1 for device 1

  [[nodiscard]] void* make() const {
    if (!users) {
      REQUIRE(hipSetDevice(owner) == hipSuccess);
      void* made = nullptr;
      REQUIRE(hipMalloc(&made, granule) == hipSuccess);
      return made;
    }
    // HIP 7.2.4 takes memory of the current device.
    REQUIRE(hipSetDevice(owner) == hipSuccess);
    const auto* const made = new mapped{granule, {}, owner};
    for (const int device : {0, 1})
      if ((*users >> static_cast<unsigned>(device) & 1U) != 0)
        made->give(device, hipMemAccessFlagsProtReadWrite);
    return made->at();
  }
};

/// Whether a copy goes through. A process of its own makes it, because a GPU without a right
/// faults.
bool goes_through(const side& to, const side& from, int stream_device) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 2;
    try {
      void* const target = to.make();
      const void* const source = from.make();
      const auto* const asked_in = new stream{hipStreamNonBlocking, stream_device};
      REQUIRE(hipSetDevice(stream_device) == hipSuccess);
      const hipError_t made = hipMemcpyAsync(target, source, 64, hipMemcpyDefault, asked_in->get());
      code = made == hipSuccess && asked_in->wait() == hipSuccess ? 0 : 1;
    } catch (...) {
      // The code says so.
    }
    std::_Exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(!(WIFEXITED(status) && WEXITSTATUS(status) > 1));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

constexpr int nobody = 2;    ///< no right is needed
constexpr int unequal = -1;  ///< the combinations that one question asks for differ

/// The device whose right a copy needs that goes through with the users 0 or 1 of a mapping.
int device_of(bool with_0, bool with_1) {
  if (with_0 && with_1) return nobody;
  return with_0 ? 0 : with_1 ? 1 : unequal;
}

/// Seen from the mapping: 0 for its owner, 1 for the other device, for both directions and both
/// owners, 8 combinations.
int rights_beside_allocation(bool in_stream_of_owner) {
  std::optional<int> all;
  for (const int owner : {0, 1}) {
    const int other = 1 - owner;
    const int asked_in = in_stream_of_owner ? owner : other;
    for (const bool is_target : {true, false}) {
      const auto with = [&](int user) {
        const side mapping{owner, 1U << static_cast<unsigned>(user)};
        const side plain{other, {}};
        return is_target ? goes_through(mapping, plain, asked_in)
                         : goes_through(plain, mapping, asked_in);
      };
      const int found = device_of(with(owner), with(other));
      if (all && *all != found) return unequal;
      all = found;
    }
  }
  return *all;
}

/// The same for one of two mappings of two devices, the other of which all may use: 4 combinations.
int rights_beside_mapping(bool in_stream_of_owner, bool of_target) {
  std::optional<int> all;
  for (const int owner : {0, 1}) {
    const int other = 1 - owner;
    const auto with = [&](int user) {
      const side asked{owner, 1U << static_cast<unsigned>(user)};
      const side open{other, 3U};
      const int asked_in = in_stream_of_owner ? owner : other;
      return of_target ? goes_through(asked, open, asked_in) : goes_through(open, asked, asked_in);
    };
    const int found = device_of(with(owner), with(other));
    if (all && *all != found) return unequal;
    all = found;
  }
  return *all;
}

/// Between two mappings of device `owner`, in a stream of the other: the rights to both.
int rights_within_device() {
  std::optional<int> all;
  for (const int owner : {0, 1}) {
    const int other = 1 - owner;
    const auto with = [&](int user) {
      const side each{owner, 1U << static_cast<unsigned>(user)};
      return goes_through(each, each, other);
    };
    const int found = device_of(with(owner), with(other));
    if (all && *all != found) return unequal;
    all = found;
  }
  return *all;
}

/// The rights that a mapping of device 0 gives device 1 after a copy to memory of device 1 in a
/// stream of device 1, and after one in a stream of device 0.
int opened_by_copy() {
  int opened = 0;
  for (const int asked_in : {0, 1}) {
    const mapped memory{granule, {0, 1}};
    memory.give(1, hipMemAccessFlagsProtRead);
    const allocation other{64, 1};
    const stream of{hipStreamNonBlocking, asked_in};
    REQUIRE(hipSetDevice(asked_in) == hipSuccess);
    REQUIRE(hipMemcpyAsync(other.at(), memory.at(), 64, hipMemcpyDefault, of.get()) == hipSuccess);
    REQUIRE(of.wait() == hipSuccess);
    REQUIRE(hipSetDevice(0) == hipSuccess);
    opened += int{access_at(memory.at(), 1) == hipMemAccessFlagsProtReadWrite} << asked_in;
  }
  return opened;
}

constexpr const char* asked = "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr";

const rule rules[] = {
    {"copies of hipMemcpy between the host and memory of device 1, while device 0 is the current "
     "one, "
     "that wait for the null stream of device 1",
     [] { return int{copy_waits_for_owner(true)} + int{copy_waits_for_owner(false)}; },
     {0, 2, 2, 2, 2, 2, 2, 0},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr; cuda-13: not asked of CUDA"},
    {"five copies of memory of device 1, in streams of device 0, that wait for work of the null "
     "stream of device 1",
     copies_behind_null_stream,
     {0, 5, 5, 5, 5, 5, 5, 0},
     "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr; cuda-13: not asked of CUDA"},
    {"the same five, that later work of the null stream of device 1 waits for",
     copies_before_null_stream,
     {0, 5, 5, 5, 5, 5, 5, 0},
     "AMD's runtime 6.4.3 and 7.2.4 on a stand-in for ROCr; cuda-13: not asked of CUDA"},
    {"a copy from the host, in a stream of device 1, to memory that device 0 alone may use",
     [] {
       const mapped of_0{granule};
       const stream of_1{hipStreamNonBlocking, 1};
       std::vector<std::byte> bytes(64);
       const int code =
           hipMemcpyAsync(of_0.at(), bytes.data(), 64, hipMemcpyHostToDevice, of_1.get());
       REQUIRE(of_1.wait() == hipSuccess);
       return code;
     },
     {value, no_answer, good, good, value, value, value, value},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::hardware},
    {"a copy to the host, in a stream of device 1, from memory of device 0 that 1 alone may use",
     [] {
       const mapped of_0{granule, {1}};
       const stream of_1{hipStreamNonBlocking, 1};
       std::vector<std::byte> bytes(64);
       const int code =
           hipMemcpyAsync(bytes.data(), of_0.at(), 64, hipMemcpyDeviceToHost, of_1.get());
       REQUIRE(of_1.wait() == hipSuccess);
       return code;
     },
     {good, no_answer, value, value, good, good, good, good},
     "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr",
     decided_by::hardware},
    {"a copy between a mapping and hipMalloc memory of another device, in a stream of the "
     "mapping's "
     "device: it needs the right of 0, the mapping's device, or of 1, the other; 2: none",
     [] { return rights_beside_allocation(true); },
     {0, no_answer, 1, 1, 0, 0, 0, 0},
     asked},
    {"the same copy in a stream of the other device",
     [] { return rights_beside_allocation(false); },
     {1, no_answer, 1, 1, 2, 2, 2, 1},
     asked},
    {"a copy between mappings of two devices, in a stream of the source's: whose right to the "
     "source "
     "it needs, of 0, its device, or of 1, the target's; 2: none",
     [] { return rights_beside_mapping(true, false); },
     {0, no_answer, 1, 1, 0, 0, 0, 0},
     asked},
    {"the same copy in a stream of the target's device",
     [] { return rights_beside_mapping(false, false); },
     {1, no_answer, 0, 0, 2, 2, 2, 1},
     asked},
    {"a copy between mappings of two devices, in a stream of the target's: whose right to the "
     "target "
     "it needs, of 0, its device, or of 1, the source's; 2: none",
     [] { return rights_beside_mapping(true, true); },
     {0, no_answer, 1, 1, 0, 0, 0, 0},
     asked},
    {"the same copy in a stream of the source's device",
     [] { return rights_beside_mapping(false, true); },
     {1, no_answer, 0, 0, 2, 2, 2, 1},
     asked},
    {"a copy between two mappings of one device, in a stream of another: it needs the rights of 0, "
     "that device, or of 1, the stream's",
     rights_within_device,
     {1, no_answer, 0, 0, 0, 0, 0, 1},
     asked},
    {"a copy from a mapping of device 0 to memory of device 1, which may only read the mapping, "
     "lets it write too: 1 in a stream of device 0, 2 in one of device 1, 3 in both",
     opened_by_copy,
     {0, no_answer, 0, 0, 3, 3, 3, 0},
     asked},
};

}  // namespace

std::span<const rule> copy_rules() { return rules; }

}  // namespace hipvmm::test
