// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <optional>
#include <thread>

#include "capture_fixtures.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

namespace {

void count(void* to) { ++*static_cast<int*>(to); }

hipGraph_t counting_graph(hipStream_t stream, int& counter) {
  begin_capture(stream);
  REQUIRE(hipLaunchHostFunc(stream, count, &counter) == hipSuccess);
  return end_capture(stream);
}

}  // namespace

TIDY_CASE("graph: a launch runs nodes after those they depend on") {
  const stream origin;
  const stream forked;
  const event out;
  const event back;
  std::vector<int> seen;
  numbered entries[] = {{&seen, 0}, {&seen, 1}, {&seen, 2}, {&seen, 3}};
  const auto add = [&](const stream& to, int number) {
    REQUIRE(hipLaunchHostFunc(to.get(), note, &entries[number]) == hipSuccess);
  };
  begin_capture(origin.get());
  add(origin, 0);
  fork_to(forked.get(), origin.get(), out.get());
  add(forked, 1);
  add(origin, 2);
  fork_to(origin.get(), forked.get(), back.get());
  add(origin, 3);
  const recorded_graph graph{end_capture(origin.get())};
  const instance runs{graph.get()};
  CHECK(runs.launch(origin.get()) == hipSuccess);
  CHECK(origin.wait() == hipSuccess);
  REQUIRE(seen.size() == 4);
  CHECK(seen.front() == 0);
  CHECK(seen.back() == 3);
}

WORK_CASE("graph: a launch takes its place in the stream") {
  std::vector<int> seen;
  numbered entries[] = {{&seen, 0}, {&seen, 1}, {&seen, 2}};
  begin_capture(work.get());
  REQUIRE(hipLaunchHostFunc(work.get(), note, &entries[1]) == hipSuccess);
  const recorded_graph graph{end_capture(work.get())};
  const instance runs{graph.get()};
  {
    const held_streams held;
    REQUIRE(hipLaunchHostFunc(work.get(), note, &entries[0]) == hipSuccess);
    CHECK(runs.launch(work.get()) == hipSuccess);
    REQUIRE(hipLaunchHostFunc(work.get(), note, &entries[2]) == hipSuccess);
    CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(seen == std::vector{0, 1, 2});
}

WORK_CASE("graph: any stream may run it, the null stream and those of other devices too") {
  const stream of_1{hipStreamNonBlocking, 1};
  int runs = 0;
  const recorded_graph graph{counting_graph(work.get(), runs)};
  const instance made{graph.get()};
  for (hipStream_t each : {work.get(), of_1.get(), hipStream_t{nullptr}, hipStreamPerThread}) {
    CHECK(made.launch(each) == hipSuccess);
    CHECK(hipStreamSynchronize(each) == hipSuccess);
  }
  CHECK(runs == 4);
}

WORK_CASE("graph: copies and fills move bytes at every launch") {
  const allocation device{4096};
  const pinned source{4096};
  const pinned target{4096};
  begin_capture(work.get());
  REQUIRE(hipMemcpyAsync(device.at(), source.at(), 4096, hipMemcpyHostToDevice, work.get()) ==
          hipSuccess);
  REQUIRE(hipMemsetD32Async(device.at(1024), 0x07070707, 256, work.get()) == hipSuccess);
  REQUIRE(hipMemcpyDtoHAsync(target.at(), device.at(), 4096, work.get()) == hipSuccess);
  const recorded_graph graph{end_capture(work.get())};
  const instance runs{graph.get()};
  for (const int value : {1, 2}) {
    std::fill_n(source.at(), 4096, static_cast<std::byte>(value));
    CHECK(runs.launch(work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(equal(target.at(), bytes_of(1024, value)));
    CHECK(equal(target.at(1024), bytes_of(1024, 7)));
    CHECK(equal(target.at(2048), bytes_of(2048, value)));
  }
}

TIDY_CASE("graph: pageable memory is read and written by the launch, whatever its size") {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 20U}) {
    const stream work;
    const allocation device{bytes};
    std::vector<std::byte> source = bytes_of(bytes, 1);
    std::vector<std::byte> target = bytes_of(bytes, 2);
    begin_capture(work.get());
    REQUIRE(hipMemcpyAsync(device.at(), source.data(), bytes, hipMemcpyHostToDevice, work.get()) ==
            hipSuccess);
    REQUIRE(hipMemcpyAsync(target.data(), device.at(), bytes, hipMemcpyDeviceToHost, work.get()) ==
            hipSuccess);
    const recorded_graph graph{end_capture(work.get())};
    CHECK(target == bytes_of(bytes, 2));
    const instance runs{graph.get()};
    std::fill(source.begin(), source.end(), std::byte{3});
    CHECK(runs.launch(work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(target == bytes_of(bytes, 3));
  }
}

TIDY_CASE("graph: launches of one instance run one after the other, whatever their streams") {
  const stream first;
  const stream second;
  int runs = 0;
  const recorded_graph graph{counting_graph(first.get(), runs)};
  const instance made{graph.get()};
  roadblock block{first.get()};
  CHECK(made.launch(first.get()) == hipSuccess);
  CHECK(made.launch(second.get()) == hipSuccess);
  let_workers_run();
  CHECK(hipStreamQuery(second.get()) == hipErrorNotReady);
  block.open();
  CHECK(second.wait() == hipSuccess);
  CHECK(runs == 2);
}

TIDY_CASE("graph: another instance does not wait for the first") {
  const stream first;
  const stream second;
  int runs = 0;
  const recorded_graph graph{counting_graph(first.get(), runs)};
  const instance one{graph.get()};
  const instance other{graph.get()};
  roadblock block{first.get()};
  CHECK(one.launch(first.get()) == hipSuccess);
  CHECK(other.launch(second.get()) == hipSuccess);
  CHECK(second.wait() == hipSuccess);
  CHECK(runs == 1);
  block.open();
  CHECK(runs == 2);
}

WORK_CASE("graph: it and its instance may be destroyed while they run") {
  int runs = 0;
  {
    const held_streams held;
    recorded_graph graph{counting_graph(work.get(), runs)};
    instance made{graph.get()};
    CHECK(made.launch(work.get()) == hipSuccess);
    made.destroy();
    graph.destroy();
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(runs == 1);
}

WORK_CASE("graph: an instance outlives its graph and the stream that recorded it") {
  int runs = 0;
  std::optional<stream> recorder{std::in_place};
  recorded_graph graph{counting_graph(recorder->get(), runs)};
  const instance made{graph.get()};
  graph.destroy();
  recorder.reset();
  CHECK(made.launch(work.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(runs == 1);
}

WORK_CASE("graph: a node whose memory is gone fails, and those after it run") {
  int runs = 0;
  mapped mapping{granule};
  begin_capture(work.get());
  REQUIRE(hipMemsetAsync(mapping.at(), 1, 64, work.get()) == hipSuccess);
  REQUIRE(hipLaunchHostFunc(work.get(), count, &runs) == hipSuccess);
  const recorded_graph graph{end_capture(work.get())};
  const instance made{graph.get()};
  mapping.unmap();
  CHECK(made.launch(work.get()) == hipSuccess);
  CHECK(work.wait() == hipErrorIllegalAddress);
  CHECK(runs == 1);
}

TIDY_CASE("graph: threads may launch one instance at the same time") {
  const stream recorder;
  int runs = 0;
  const recorded_graph graph{counting_graph(recorder.get(), runs)};
  const instance made{graph.get()};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&made] {
      for (int i = 0; i < 50; ++i) static_cast<void>(made.launch(hipStreamPerThread));
      static_cast<void>(hipStreamSynchronize(hipStreamPerThread));
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(runs == 200);
}
