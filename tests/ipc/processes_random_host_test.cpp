// SPDX-License-Identifier: MIT
// Processes that share a budget and each other's memory at random, and are stopped and killed.
#include "ipc/budget/budget_test.hpp"
#include "ipc/ipc_test.hpp"
#include "support/host/host_provider.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* seed_variable = "HIPVMM_TEST_SEED";
constexpr const char* place_variable = "HIPVMM_TEST_PLACE";
constexpr std::size_t places = 5;  // processes at a time
constexpr std::size_t limit_units = 8 * places / 2;
constexpr std::size_t most_published = 16;  // granules
// The limits of calls are below; the rest is for stops, and for a machine that is busy.
constexpr auto patience = 300ms;
constexpr auto longest_call = 15s;

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

/// The path of the publication of the process at a place, or of the memory that it keeps.
std::string path_of(std::size_t place, bool is_kept) {
  return value_of(path_variable) + (is_kept ? "/kept" : "/own") + std::to_string(place);
}

/// Sends this process a signal later.
void send_after(int signal, std::chrono::microseconds time) {
  std::thread{[=] {
    std::this_thread::sleep_for(time);
    ::kill(::getpid(), signal);
  }}.detach();
}

/// A process that takes random steps.
class random_process {
 public:
  /// `fails`: calls of HIP may fail.
  explicit random_process(bool fails) {
    if (fails)
      faults_.emplace("any probability=0.003 error=hipErrorOperatingSystem seed=" +
                      value_of(seed_variable));
    for (std::size_t steps = 20 + below(60); steps != 0; --steps) {
      try {
        step();
      } catch (const std::runtime_error& failed) {
        CHECK_MESSAGE(fails, failed.what());
      }
    }
  }
  ~random_process() { withdraw(); }

 private:
  std::size_t below(std::size_t limit) { return test::below(generator_, limit); }
  /// Whether `work` succeeds, within its limit. Peers may have ended, or be slow; else it must.
  template <typename Work>
  bool is_served(Work work) {
    const auto begin = std::chrono::steady_clock::now();
    bool result = true;
    try {
      work();
    } catch (const out_of_memory& refused) {
      result = false;
      CHECK_MESSAGE((budget_ || refused.resource() != exhausted::budget), refused.what());
    } catch (const ipc_error& error) {
      result = false;
      const bool is_expected = error.reason() == ipc_failure::closed ||
                               error.reason() == ipc_failure::timeout ||
                               error.reason() == ipc_failure::expired;
      CHECK_MESSAGE(is_expected, error.what());
    }
    CHECK(std::chrono::steady_clock::now() - begin < longest_call);
    return result;
  }
  void trim(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    for (; bytes != 0 && !given_.empty(); given_.pop_back())
      bytes -= std::min(bytes, given_.back().committed_bytes());
  }
  /// Ends the publication and its memory behind the work on that, for which its end does not wait.
  void withdraw() {
    published_.reset();
    for (bool is_done = false; !is_done;) {
      try {
        stream_.synchronize();
        is_done = true;
      } catch (const hip_error&) {
        CHECK(faults_);
      }
    }
    owned_.reset();
  }
  void join() {
    // Memory from before the join counts even beyond the limit.
    trim(std::numeric_limits<std::size_t>::max());
    withdraw();
    release_idle_memory();
    const int priority = static_cast<int>(below(3));
    const bool trims = below(3) != 0;
    is_served([&] {
      budget_.emplace(first_device, "random", limit_units * unit_,
                      budget_options{.priority = priority,
                                     .patience = patience,
                                     .trim = trims ? [this](std::size_t bytes) { trim(bytes); }
                                                   : std::function<void(std::size_t)>{}});
    });
  }
  void allocate() {
    region made{first_device, 4 * unit_};
    const std::size_t chunks = 1 + below(4);
    const bool is_whole = below(2) == 0;
    is_served([&] {
      for (std::size_t i = 0; i < chunks; i += is_whole ? chunks : 1)
        made.commit(i * unit_, is_whole ? chunks * unit_ : unit_);
    });
    const std::lock_guard lock{mutex_};
    given_.push_back(std::move(made));
  }
  void publish() {
    if (!published_) {
      owned_.emplace(first_device, most_published * granule(), shareable_chunks());
      published_chunks_ = 0;
      has_lease_ = below(2) == 0;
      // Nothing that an owner before left is in the way.
      published_.emplace(path_of(place_, false), first_device, most_published * granule(),
                         element_identity{}, with_lease(has_lease_ ? 200ms : 0ms));
    }
    const std::size_t chunks = below(most_published + 1);
    if (chunks < published_chunks_) {
      const std::size_t before = std::exchange(published_chunks_, chunks);
      owned_->decommit(chunks * granule(), (before - chunks) * granule());
    }
    is_served([&] {
      for (; published_chunks_ < chunks; ++published_chunks_) {
        owned_->commit(published_chunks_ * granule(), granule());
        write_tag(*owned_, published_chunks_, 1, stream_);
      }
    });
    published_->announce(*owned_, published_chunks_ * granule(), stream_);
    // With a lease, no importer can prolong it, whether it runs or not.
    if (below(4) == 0)
      CHECK((published_->wait_until_withdrawn(has_lease_ ? longest_call : 50ms) || !has_lease_));
  }
  void import() {
    if (!seen_)
      is_served([&] { seen_.emplace(path_of(below(places), below(3) == 0), attach_within(1s)); });
    if (!seen_) return;
    const bool is_good = is_served([&] {
      seen_->wait_for(below(most_published) * granule(), std::chrono::milliseconds{below(20)},
                      stream_);
    });
    struct {
      const attached_region& seen;
      [[nodiscard]] void* base() const { return seen.data(); }
    } const memory{*seen_};
    check_tags(memory, 0, seen_->bytes() / granule(), 1, stream_);
    if (!is_good || below(4) == 0) seen_.reset();
  }
  void step() {
    switch (below(10)) {
      case 0:
        budget_ ? budget_.reset() : join();
        break;
      case 1:
      case 2:
      case 3:
        allocate();
        break;
      case 4:
        trim(below(8) * unit_);
        break;
      case 5:
        publish();
        break;
      case 6:
      case 7:
        import();
        break;
      case 8:
        if (below(3) == 0) {
          kept_.reset();
        } else if (!kept_) {
          is_served([&] {
            kept_.emplace(publication::keep(path_of(below(places), false), path_of(place_, true)));
          });
        } else if (below(3) == 0) {
          withdraw();
        }
        break;
      default:
        std::this_thread::sleep_for(std::chrono::milliseconds{below(30)});
        if (below(2) == 0 && budget_)
          is_served([&] { static_cast<void>(budget_->make_room(below(8) * unit_)); });
    }
    if (!budget_) return;
    const budget_report now = budget_->report();
    CHECK(now.bytes <= now.limit);
    CHECK(std::ranges::count(now.holders, ::getpid(), &budget_holder::process) == 1);
  }

  const std::size_t place_ = std::stoul(value_of(place_variable));
  std::mt19937 generator_{static_cast<std::uint32_t>(std::stoul(value_of(seed_variable)))};
  const std::size_t unit_ = budget_unit();
  const stream stream_;
  std::optional<planned_faults> faults_;
  std::mutex mutex_;
  std::vector<region> given_;
  std::optional<region> owned_;
  std::size_t published_chunks_ = 0;
  bool has_lease_ = false;
  std::optional<publication> published_;
  std::optional<publication> kept_;
  std::optional<attached_region> seen_;
  std::optional<memory_budget> budget_;
};

HIPVMM_CHILD("does what it likes with others") {
  std::mt19937 generator{static_cast<std::uint32_t>(std::stoul(value_of(seed_variable))) + 1};
  { const physical_chunk used{first_device, granule()}; }
  release_idle_memory();
  const std::size_t before = open_descriptors();
  const std::size_t end = below(generator, 4);
  if (below(generator, 2) == 0)
    send_after(SIGSTOP, std::chrono::microseconds{below(generator, 200'000)});
  if (end == 0) send_after(SIGKILL, std::chrono::microseconds{below(generator, 300'000)});
  const bool fails = below(generator, 4) == 0;
  std::optional<random_process> lives{std::in_place, fails};
  if (end == 1) ::_exit(0);
  lives.reset();
  if (fails) return;
  release_idle_memory();
  CHECK(descriptors_become(before));
}

TEST_SUITE_BEGIN("needs virtual memory");

#ifndef __SANITIZE_THREAD__  // reports threads of publications that outlive a child's main()
TEST_CASE("processes: random sharing with stops and deaths keeps limits, contents and files") {
  const budget_folder budgets;
  const temporary_folder folder;
  const std::size_t limit = limit_units * budget_unit();
  ::setenv(path_variable, folder.path().c_str(), 1);
  std::mt19937 generator = seeded_generator();
  // HIPVMM_TEST_SECONDS: longer, by hand.
  const char* const seconds = std::getenv("HIPVMM_TEST_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds{seconds == nullptr ? 3 : std::stoi(seconds)};
  std::atomic<int> started{0};
  std::atomic<std::size_t> at_work{places};
  std::vector<std::future<void>> all;
  for (std::size_t place = 0; place < places; ++place)
    all.push_back(
        std::async(std::launch::async, [&, place, own = std::mt19937{generator()}]() mutable {
          while (std::chrono::steady_clock::now() < end) {
            ++started;
            const std::string seed = std::to_string(own());
            const child_result child =
                run_child("does what it likes with others",
                          {std::string{seed_variable} + '=' + seed,
                           std::string{place_variable} + '=' + std::to_string(place)});
            const bool is_killed = child.status == 128 + SIGKILL;
            CAPTURE(seed);
            CHECK_MESSAGE((is_killed || child.status == 0), child.output);
          }
          --at_work;
        }));
  // A process that was stopped goes on after a while.
  while (at_work != 0) {
    siginfo_t stopped{};
    if (::waitid(P_ALL, 0, &stopped, WSTOPPED | WNOHANG) == 0 && stopped.si_pid != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds{below(generator, 300)});
      ::kill(stopped.si_pid, SIGCONT);
    }
    std::this_thread::sleep_for(1ms);
    for (const budget_report& each : memory_budget::all()) CHECK(each.bytes <= each.limit);
  }
  for (std::future<void>& each : all) each.get();
  MESSAGE("processes: " << started.load());
  {
    memory_budget budget{first_device, "random", limit, budget_options{.priority = -1}};
    CHECK(budget.make_room(limit));
  }
  CHECK(memory_budget::remove("random", first_device.uuid()));
  CHECK(std::filesystem::is_empty(budgets.path()));
  for (std::size_t place = 0; place < places; ++place)
    for (const bool is_kept : {false, true})
      const publication next{path_of(place, is_kept), first_device, granule()};
  CHECK(std::filesystem::is_empty(folder.path()));
}
#endif

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
