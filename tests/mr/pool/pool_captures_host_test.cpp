// SPDX-License-Identifier: MIT
// A graph may run in any stream, at any time: memory allocated while a stream is captured into it
// must be used by nothing else, and memory freed meanwhile must not be allocated anew.
#include "mr/mr_test.hpp"
#include "support/host/host_profile.hpp"

namespace hipvmm::test {
namespace {

class capture {
 public:
  explicit capture(stream_ref stream) : stream_{stream} {
    REQUIRE(hipStreamBeginCapture(stream_.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  }
  ~capture() {
    if (graph_ != nullptr) CHECK(hipGraphDestroy(graph_) == hipSuccess);
  }
  capture& operator=(capture&&) = delete;

  void end() { REQUIRE(hipStreamEndCapture(stream_.get(), &graph_) == hipSuccess); }
  void launch(stream_ref in) {
    hipGraphExec_t runs = nullptr;
    REQUIRE(hipGraphInstantiate(&runs, graph_, nullptr, nullptr, 0) == hipSuccess);
    CHECK(hipGraphLaunch(runs, in.get()) == hipSuccess);
    in.synchronize();
    CHECK(hipGraphExecDestroy(runs) == hipSuccess);
  }

 private:
  stream_ref stream_;
  hipGraph_t graph_ = nullptr;
};

void make_wait(stream_ref waiter, stream_ref behind) {
  event reached{first_device};
  reached.record(behind);
  waiter.wait(reached);
}

}  // namespace

TEST_SUITE_BEGIN("capture");

namespace {

void check_captured(stream_ref user) {
  // A small block, a block of a thread's cache, one of the index, and one with an alignment.
  struct size {
    std::size_t bytes;
    std::size_t alignment;
  };
  for (const size& each :
       {size{1 * KiB, 256}, {64 * KiB, 256}, {8 * MiB, 256}, {1 * MiB, 64 * KiB}}) {
    CAPTURE(each.bytes);
    // Idle memory, for mapping waits for the null stream on some releases.
    mr::vmm_pool_resource pool{first_device,
                               {.initial_bytes = 32 * MiB, .maximum_bytes = 64 * MiB}};
    const stream other{first_device};
    void* const earlier = pool.allocate(user, each.bytes, each.alignment);
    blocked_stream before{first_device};
    make_wait(user, before);
    fill_async(user, earlier, 1, each.bytes);
    pool.deallocate(user, earlier, each.bytes, each.alignment);
    capture graph{user};
    const error_recorder reported;
    void* const of_graph = pool.allocate(user, each.bytes, each.alignment);
    CHECK(of_graph != earlier);
    fill_async(user, of_graph, 2, each.bytes);
    graph.end();
    // Beside the earlier work, as the order checker sees.
    graph.launch(other);
    before.release();
    user.synchronize();
    pool.deallocate(other, of_graph, each.bytes, each.alignment);
    CHECK(reported.count() == 0);
    CHECK(pool.statistics().used_current == 0);
  }
}

}  // namespace

TEST_CASE("vmm_pool_resource: a captured stream gets no memory that earlier work of it uses") {
  const stream user{first_device};
  check_captured(user);
}

TEST_CASE("vmm_pool_resource: a captured thread's default stream gets no memory that work uses") {
  HIPVMM_SKIP_UNDER(null_stream_is_waited_for);  // which waits for that one
  check_captured(stream_ref::per_thread_default());
}

TEST_CASE("vmm_pool_resource: a thread's default stream is that of the pool's device") {
  HIPVMM_SKIP_UNDER(null_stream_is_waited_for);
  mr::vmm_pool_resource pool{first_device, {.initial_bytes = 8 * MiB, .maximum_bytes = 16 * MiB}};
  const stream_ref user = stream_ref::per_thread_default();
  void* const earlier = pool.allocate(user, MiB);
  blocked_stream before{first_device};
  make_wait(user, before);
  fill_async(user, earlier, 1, MiB);
  pool.deallocate(user, earlier, MiB);
  capture graph{user};
  const scoped_device other{second_device};
  void* const of_graph = pool.allocate(user, MiB);
  {
    const scoped_device own{first_device};
    graph.end();
  }
  CHECK(of_graph != earlier);
  before.release();
  pool.deallocate(stream_ref::legacy_default(), of_graph, MiB);
}

TEST_CASE("vmm_pool_resource: a captured stream gets what others freed when nothing uses it") {
  mr::vmm_pool_resource pool{first_device, {.maximum_bytes = 8 * MiB}};
  const stream captured{first_device};
  const stream other{first_device};
  void* const one = pool.allocate(other, 8 * MiB);
  fill_async(other, one, 1, 8 * MiB);
  pool.deallocate(other, one, 8 * MiB);
  drain_retired_memory();
  capture graph{captured};
  // There is no other memory: it waits.
  CHECK(pool.allocate(captured, 8 * MiB) == one);
  CHECK(other.ref().is_done());
  CHECK_THROWS_AS(pool.allocate(captured, 1 * MiB), out_of_memory);
  CHECK(captured.ref().is_capturing());
  graph.end();
  pool.deallocate(captured, one, 8 * MiB);
}

TEST_CASE("vmm_pool_resource: new memory is preferred to a wait while a stream is captured") {
  mr::vmm_pool_resource pool{first_device, {.maximum_bytes = 32 * MiB}};
  const stream captured{first_device};
  const stream other{first_device};
  void* const one = pool.allocate(other, 8 * MiB);
  blocked_stream before{first_device};
  make_wait(other, before);
  fill_async(other, one, 1, 8 * MiB);
  pool.deallocate(other, one, 8 * MiB);
  capture graph{captured};
  void* const of_graph = pool.allocate(captured, 8 * MiB);
  CHECK(of_graph != one);
  graph.end();
  before.release();
  pool.deallocate(captured, of_graph, 8 * MiB);
}

TEST_CASE("vmm_pool_resource: memory is not taken back in a stream that is being captured") {
  for (const std::size_t bytes : {1 * KiB, 64 * KiB, 8 * MiB}) {
    CAPTURE(bytes);
    mr::vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
    const stream captured{first_device};
    void* one = nullptr;
    {
      capture graph{captured};
      const error_recorder reported;
      one = pool.allocate(captured, bytes);
      pool.deallocate(captured, one, bytes);
      REQUIRE(reported.count() == 1);
      CHECK(reported.errors()[0].message.find("is being captured into a graph") !=
            std::string::npos);
      void* const two = pool.allocate(captured, bytes);
      CHECK(two != one);
      graph.end();
      pool.deallocate(captured, two, bytes);
      CHECK(reported.count() == 1);
    }
    const error_recorder reported;
    pool.deallocate(captured, one, bytes);
    CHECK(reported.count() == 0);
    CHECK(pool.statistics().used_current == 0);
    // The stream's own again.
    void* const again = pool.allocate(captured, bytes);
    pool.deallocate(captured, again, bytes);
    CHECK(pool.allocate(captured, bytes) == again);
    pool.deallocate(captured, again, bytes);
  }
}

TEST_CASE("vmm_pool_resource: what was allocated for a graph comes back by its address alone") {
  mr::vmm_pool_resource pool{first_device, {.maximum_bytes = 8 * MiB}};
  const stream captured{first_device};
  capture graph{captured};
  void* const one = pool.allocate(captured, 8 * MiB);
  graph.end();
  pool.deallocate(one);
  CHECK(pool.statistics().used_current == 0);
  CHECK(pool.allocate(captured, 8 * MiB) == one);
  pool.deallocate(captured, one, 8 * MiB);
}

TEST_SUITE_END();

}  // namespace hipvmm::test
