// SPDX-License-Identifier: MIT
// Each case is run by all ranks of mpirun at the same time.
#include <hipvmm/compat/mpi_window.hpp>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "compat/ranks/mpi_world.hpp"
#include "support/blocked_stream.hpp"
#include "support/host/host_profile.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

MPI_Comm world_of_ranks() { return mpi_world(MPI_THREAD_MULTIPLE); }

int own_rank() {
  int rank = 0;
  MPI_Comm_rank(world_of_ranks(), &rank);
  return rank;
}

growth_options windowed(const std::shared_ptr<mpi_window>& window) {
  return growth_options{.max_bytes = 16 * granule(),
                        .step_limit = 0,
                        .granule_bytes = granule(),
                        .chunks = {.registrar = window}};
}

/// Writes to the vector of rank `to`, from its element `first` on.
void put(const mpi_window& window, int to, std::size_t first, const std::vector<int>& elements) {
  const int* next = elements.data();
  MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window.get());
  for (const registered_bytes& each :
       window.locate(to, first * sizeof(int), elements.size() * sizeof(int))) {
    const int count = static_cast<int>(each.bytes / sizeof(int));
    MPI_Put(next, count, MPI_INT, to, static_cast<MPI_Aint>(each.address), count, MPI_INT,
            window.get());
    next += count;
  }
  MPI_Win_unlock(to, window.get());
}

TEST_SUITE_BEGIN("needs virtual memory");

/// Made before MPI is initialized, and so ended behind MPI_Finalize.
std::unique_ptr<growable_device_vector<int>> outlives_mpi;

// MPI ends a process that calls it then: mpirun reports it.
TEST_CASE("mpi_window: memory may end after MPI_Finalize") {
  if (quirks::host_may_not_touch.holds()) return;
  const auto window = std::make_shared<mpi_window>(world_of_ranks(), first_device);
  outlives_mpi = std::make_unique<growable_device_vector<int>>(first_device, windowed(window));
  const stream own{first_device};
  outlives_mpi->resize(100, own);
  own.synchronize();
  CHECK(window->memory().size() == 1);
}

TEST_CASE("mpi_window: ranks write into what others have grown, across chunks") {
  if (quirks::host_may_not_touch.holds()) {
    CHECK_THROWS_AS((mpi_window{world_of_ranks(), first_device}), unsupported);
    return;
  }
  const int rank = own_rank();
  int size = 0;
  MPI_Comm_size(world_of_ranks(), &size);
  const auto window = std::make_shared<mpi_window>(world_of_ranks(), first_device);
  {
    const stream own{first_device};
    growable_device_vector<int> vector{first_device, windowed(window)};
    // Each rank grows by another number of chunks.
    const std::size_t per_chunk = granule() / sizeof(int);
    for (int chunk = 0; chunk <= rank + 1; ++chunk)
      vector.resize((static_cast<std::size_t>(chunk) + 1) * per_chunk, -1, own);
    own.synchronize();
    CHECK(window->memory().size() == static_cast<std::size_t>(rank) + 2);
    window->update(vector.data());

    const int to = (rank + 1) % size;
    const std::vector<int> message(8, rank);
    const std::size_t start = (per_chunk - 4) * sizeof(int);
    const auto pieces = window->locate(to, start, message.size() * sizeof(int));
    REQUIRE(pieces.size() == 2);
    put(*window, to, per_chunk - 4, message);
    MPI_Barrier(world_of_ranks());
    const int from = (rank + size - 1) % size;
    CHECK(vector.element(per_chunk - 5, own) == -1);
    for (std::size_t each = per_chunk - 4; each < per_chunk + 4; ++each)
      CHECK(vector.element(each, own) == from);
    CHECK(vector.element(per_chunk + 4, own) == -1);

    // One byte beyond the memory of another rank.
    const std::size_t theirs = (static_cast<std::size_t>(to) + 2) * granule();
    CHECK_NOTHROW(static_cast<void>(window->locate(to, theirs - 1, 1)));
    CHECK_THROWS_WITH_AS(static_cast<void>(window->locate(to, theirs - 1, 2)),
                         doctest::Contains("not attached at the last update()"), std::out_of_range);
    CHECK_THROWS_AS(static_cast<void>(window->locate(size, 0, 1)), std::out_of_range);
    MPI_Barrier(world_of_ranks());

    // Shrinks behind work in flight: detached by a thread of the library.
    {
      blocked_stream user{first_device};
      vector.resize(per_chunk, user);
      vector.shrink_to_fit(user);
    }
    drain_retired_memory();
    CHECK(window->memory().size() == 1);
    window->update(vector.data());
    CHECK_THROWS_AS(static_cast<void>(window->locate(to, granule(), 1)), std::out_of_range);
    CHECK(window->locate(to, 0, granule()).size() == 1);
  }
  drain_retired_memory();
  CHECK(window->memory().empty());
}

TEST_CASE("mpi_window: memory that sleeps is detached, and attached when it wakes") {
  if (quirks::host_may_not_touch.holds()) return;
  const auto window = std::make_shared<mpi_window>(world_of_ranks(), first_device);
  {
    const stream own{first_device};
    memory_tag tag;
    growth_options options = windowed(window);
    options.chunks.tag = tag;
    growable_device_vector<int> vector{first_device, options};
    vector.resize(100, own_rank(), own);
    own.synchronize();
    suspend(tag, keep::contents);
    CHECK(window->memory().empty());
    resume(tag);
    window->update(vector.data());
    int size = 0;
    MPI_Comm_size(world_of_ranks(), &size);
    const int from = (own_rank() + 1) % size;
    const auto pieces = window->locate(from, 0, sizeof(int));
    int got = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, from, 0, window->get());
    CHECK(MPI_Get(&got, 1, MPI_INT, from, static_cast<MPI_Aint>(pieces.at(0).address), 1, MPI_INT,
                  window->get()) == MPI_SUCCESS);
    MPI_Win_unlock(from, window->get());
    CHECK(got == from);
    MPI_Barrier(world_of_ranks());
  }
  drain_retired_memory();
}

TEST_CASE("mpi_window: growth that MPI does not attach fails and changes nothing") {
  if (quirks::host_may_not_touch.holds()) return;
  const auto window = std::make_shared<mpi_window>(world_of_ranks(), first_device);
  {
    growth_options options = windowed(window);
    options.max_bytes = 100 * granule();
    growable_device_vector<char> vector{first_device, options};
    const std::string text = text_thrown_by<std::runtime_error>([&] {
      for (std::size_t chunk = 1; chunk <= 100; ++chunk)
        vector.resize_uninitialized(chunk * granule());
    });
    CHECK(text.find("mpi_window: 64 chunks are attached") == 0);
    CHECK(text.find("osc_rdma_max_attach") != std::string::npos);
    CHECK(vector.size() == window->memory().size() * granule());
    CHECK(window->memory().size() == 64);
  }
  drain_retired_memory();
  CHECK(window->memory().empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test
