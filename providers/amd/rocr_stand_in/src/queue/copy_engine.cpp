// SPDX-License-Identifier: MIT
#include "src/queue/copy_engine.hpp"

#include <map>
#include <thread>

#include "src/base/clock.hpp"
#include "src/base/gate.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"
#include "src/signal/signal_wait.hpp"

namespace stand_in {
namespace {

// The signals show the party that took the copy for done too early: if the copy's signal is 1, a
// waiter for other signals; if it is less, the thread that changed it.
std::string progress_of(const copy_job& job) {
  std::string before;
  for (const hsa_signal_t each : job.after)
    before += text("%s%lld", before.empty() ? ", behind signals that are " : " ",
                   static_cast<long long>(load_signal(each)));
  return text("Queued by thread %d %llu us ago%s; its own signal 0x%llx is %lld. ", job.queued_by,
              wide((now() - job.queued_at) / 1000), before.c_str(), wide(job.done.handle),
              job.done.handle == 0 ? 0LL : static_cast<long long>(load_signal(job.done)));
}

}  // namespace

copy_engine::copy_engine(unsigned gpu, unsigned number) : gpu_(gpu), number_(number) { list(); }

void copy_engine::push(copy_job job) {
  job.queued_by = thread_id();
  job.queued_at = now();
  {
    std::lock_guard guard(lock_);
    jobs_.push_back(std::move(job));
    if (!started_) {
      std::thread([this] { serve(); }).detach();
      started_ = true;
    }
  }
  wake_.notify_one();
}

operation copy_engine::describe_job(const copy_job& job) const {
  return {job.who, job.name, text("engine %u of GPU %u, working", number_, gpu_), nullptr};
}

void copy_engine::serve() {
  for (;;) {
    std::list<copy_job>::iterator job;
    {
      std::unique_lock guard(lock_);
      wake_.wait(guard, [&] { return !jobs_.empty(); });
      job = jobs_.begin();
    }
    wait_for_all_zero(job->after.data(), job->after.size(), nullptr);
    pass_gate(gpu_, nullptr);
    const std::uint64_t start = now();
    const operation what = describe_job(*job);
    job->work(device_view(what));
    log("%s: done", describe(what).c_str());
    const hsa_signal_t done = job->done;
    {
      std::lock_guard guard(lock_);
      jobs_.erase(job);
    }
    complete_signal(done, start, now());
  }
}

void copy_engine::visit_unfinished(const visitor& visit) {
  std::lock_guard guard(lock_);
  for (const copy_job& job : jobs_) {
    operation what = describe_job(job);
    what.progress = progress_of(job);
    for (const byte_range& range : job.ranges) visit(what, range);
  }
}

copy_engine& engine_of(const agent& gpu, unsigned number) {
  static std::mutex lock;
  static auto* const engines = new std::map<std::pair<unsigned, unsigned>, copy_engine*>;
  std::lock_guard guard(lock);
  copy_engine*& made = (*engines)[{gpu.index, number}];
  if (made == nullptr) made = new copy_engine(gpu.index, number);
  return *made;
}

}  // namespace stand_in
