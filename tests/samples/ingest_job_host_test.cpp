// SPDX-License-Identifier: MIT
// ingest's job inside this process, because the provider here counts leftovers.
#include <pthread.h>
#include <unistd.h>

#include <csignal>

#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "ingest_job.hpp"
#include "support/host/host_test.hpp"
#include "support/process/program.hpp"

namespace {

using hipvmm::MiB;
using hipvmm::test::arbitrary_bytes;
using hipvmm::test::live_objects;
using hipvmm::test::temporary_file;
using ingest::growth_method;

constexpr std::array both_methods = {growth_method::vmm, growth_method::copy};

ingest::job checked_job(growth_method method) {
  ingest::job job;
  job.method = method;
  job.block_bytes = MiB;
  job.check = true;
  return job;
}

/// Runs the job and sees its memory released.
ingest::report run_once(const ingest::job& job, const std::vector<std::string>& names) {
  struct drain {
    ~drain() { hipvmm::drain_retired_memory(); }
  } const after_all;
  ingest::input source{names};
  return ingest::run(job, source);
}

/// Keeps the bytes on the host.
class host_bytes final : public ingest::device_bytes {
 public:
  void append(const unsigned char* source, std::size_t bytes, hipvmm::stream_ref) override {
    kept.append(reinterpret_cast<const char*>(source), bytes);
  }
  const unsigned char* data() const noexcept override {
    return reinterpret_cast<const unsigned char*>(kept.data());
  }
  std::size_t bytes() const noexcept override { return kept.size(); }
  ingest::growth_figures growth() const noexcept override { return {}; }

  std::string kept;
};

/// Spoils one byte on the device after each append.
class spoiling_bytes final : public ingest::device_bytes {
 public:
  explicit spoiling_bytes(const ingest::job& job) : bytes_{ingest::make_device_bytes(job)} {}

  void append(const unsigned char* source, std::size_t bytes, hipvmm::stream_ref stream) override {
    std::vector<unsigned char> spoiled(source, source + bytes);
    spoiled.back() ^= 1;
    bytes_->append(spoiled.data(), bytes, stream);
    stream.synchronize();
  }
  const unsigned char* data() const noexcept override { return bytes_->data(); }
  std::size_t bytes() const noexcept override { return bytes_->bytes(); }
  ingest::growth_figures growth() const noexcept override { return bytes_->growth(); }

 private:
  std::unique_ptr<ingest::device_bytes> bytes_;
};

}  // namespace

TEST_CASE("ingest: inputs become one in the order given, whatever the blocks") {
  const std::string bytes = arbitrary_bytes(10000);
  const temporary_file first{bytes.substr(0, 4097)};
  const temporary_file empty;
  const temporary_file second{bytes.substr(4097)};
  for (const std::size_t block : {1000, 4097, 5000, 10000, 20000}) {
    CAPTURE(block);
    ingest::job job;
    job.block_bytes = block;
    ingest::input source{{first.path(), empty.path(), second.path()}};
    host_bytes destination;
    CHECK(ingest::run(job, source, destination).bytes == bytes.size());
    CHECK(destination.kept == bytes);
  }
}

TEST_CASE("ingest: a signal during a read loses nothing") {
  static std::atomic<int> caught;
  caught = 0;
  struct sigaction interrupt = {};
  interrupt.sa_handler = [](int) { ++caught; };  // and no SA_RESTART
  struct sigaction before = {};
  REQUIRE(::sigaction(SIGUSR1, &interrupt, &before) == 0);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);

  const std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
  std::string got(4, '\0');
  std::string failure;
  std::atomic<bool> done = false;
  std::thread reader{[&] {
    failure = hipvmm::test::text_thrown_by([&] {
      ingest::input source{{path}};
      got.resize(source.read(reinterpret_cast<unsigned char*>(got.data()), got.size()));
    });
    done = true;
  }};
  // The reader waits in its read for nearly all of this time.
  while (caught < 1000 && !done) ::pthread_kill(reader.native_handle(), SIGUSR1);
  CHECK(::write(ends[1], "data", 4) == 4);
  reader.join();
  ::close(ends[0]);
  ::close(ends[1]);
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK(failure.empty());
  CHECK(got == "data");
}

TEST_CASE("ingest: --check finds a byte that differs on the device") {
  const temporary_file file{arbitrary_bytes(3 * MiB)};
  for (const growth_method method : both_methods) {
    const ingest::job job = checked_job(method);
    ingest::input source{{file.path()}};
    spoiling_bytes destination{job};
    CHECK(ingest::run(job, source, destination).verified == false);
  }
}

TEST_CASE("ingest: vmm asks HIP for no copy but those of the blocks and of growth that copies") {
  const temporary_file file{arbitrary_bytes(9 * MiB)};
  ingest::job job = checked_job(growth_method::vmm);
  job.check = false;
  const hipvmm::test::calls_of copies{hipvmm::test::copying_functions};
  const ingest::growth_figures growth = run_once(job, {file.path()}).growth;
  CHECK(growth.steps > 1);
  // Without virtual memory each step but the first copies once.
  CHECK(copies.count() == 9 + (hipvmm::test::on_fallback() ? growth.steps - 1 : 0));
}

TEST_CASE("ingest: the peak it tells is the provider's") {
  const temporary_file file{arbitrary_bytes(9 * MiB)};
  for (const growth_method method : both_methods) {
    hipvmm_host_reset_peak_device_bytes(0);
    const std::size_t held = hipvmm_host_peak_device_bytes(0);
    const ingest::report done = run_once(checked_job(method), {file.path()});
    const std::size_t peak = hipvmm_host_peak_device_bytes(0) - held;
    // A thread frees the old memory of growth by the library, soon but not at once.
    if (method == growth_method::vmm && hipvmm::test::on_fallback()) {
      CHECK(done.growth.peak_bytes <= peak);
    } else {
      CHECK(done.growth.peak_bytes <= peak);
      // Devices are waited for by the free of one byte.
      CHECK(done.growth.peak_bytes + 1 >= peak);
    }
  }
}

TEST_CASE("ingest: nothing is left behind after success") {
  const temporary_file file{arbitrary_bytes(5 * MiB)};
  for (const growth_method method : both_methods) {
    const hipvmm_host_counters before = live_objects();
    const std::size_t bytes_before = hipvmm_host_device_bytes(0);
    CHECK(run_once(checked_job(method), {file.path()}).verified == true);
    CHECK(live_objects() == before);
    CHECK(hipvmm_host_device_bytes(0) == bytes_before);
  }
}

TEST_CASE("ingest: nothing is left behind when reading fails half-way") {
  const temporary_file file{arbitrary_bytes(5 * MiB)};
  for (const growth_method method : both_methods) {
    const hipvmm_host_counters before = live_objects();
    CHECK_THROWS_AS(run_once(checked_job(method), {file.path(), "/proc/self/mem"}),
                    std::system_error);
    CHECK(live_objects() == before);
  }
}

TEST_CASE("ingest: nothing is left behind when the device does not exist") {
  const temporary_file file{"data"};
  for (const growth_method method : both_methods) {
    ingest::job job = checked_job(method);
    job.device = hipvmm::device_ref{99};
    const hipvmm_host_counters before = live_objects();
    CHECK_THROWS_AS(run_once(job, {file.path()}), std::invalid_argument);
    CHECK(live_objects() == before);
  }
}

TEST_CASE("ingest: with vmm nothing is left behind whichever HIP call fails") {
  const temporary_file file{arbitrary_bytes(5 * MiB)};
  hipvmm::test::fault_sweep{"ingest by vmm"}.run([&] {
    const ingest::report done = run_once(checked_job(growth_method::vmm), {file.path()});
    CHECK(done.verified == true);
  });
}

TEST_CASE("ingest: with copy nothing is left behind whichever HIP call but a release fails") {
  constexpr std::array working{"hipGetDeviceCount", "hipGetDevice", "hipSetDevice",
                               "hipStreamCreateWithFlags", "hipStreamSynchronize", "hipMalloc",
                               "hipMemcpyAsync",
                               // ~stream, if waits for the device overlook streams that end.
                               "hipStreamIsCapturing", "hipThreadExchangeStreamCaptureMode"};
  constexpr std::array releasing{"hipFree", "hipStreamDestroy"};
  const temporary_file file{arbitrary_bytes(3 * MiB)};
  const ingest::job job = checked_job(growth_method::copy);
  {
    const hipvmm::test::call_counter all{nullptr};
    const hipvmm::test::calls_of named{working};
    const hipvmm::test::calls_of released{releasing};
    REQUIRE(run_once(job, {file.path()}).verified == true);
    const std::uint64_t calls = named.count() + released.count();
    REQUIRE_MESSAGE(all.count() == calls, "the sweep below leaves out a function that copy calls");
  }

  const hipvmm_host_counters before = live_objects();
  for (const char* function : working) {
    for (const int error : {int{hipErrorOutOfMemory}, int{hipErrorUnknown}}) {
      bool struck = true;
      for (std::uint64_t nth = 1; struck; ++nth) {
        CAPTURE(function);
        CAPTURE(nth);
        REQUIRE(nth < 100);
        const hipvmm::test::error_recorder reported;
        {
          const hipvmm::test::planned_fault fault{function, nth, error};
          try {
            const ingest::report done = run_once(job, {file.path()});
            CHECK(done.verified == true);
          } catch (const std::exception&) {
            CHECK(fault.struck());
          }
          struck = fault.struck();
        }
        REQUIRE(hipSetDevice(0) == hipSuccess);  // a scope may have been kept from it
        CHECK(live_objects() == before);
      }
    }
  }
}
