// SPDX-License-Identifier: MIT
// Kokkos kernels on a vector that grows in place, and on memory of a pool. Not built by CMake: CI
// has no Kokkos.
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdio>

#include <hipvmm/hipvmm.hpp>

#include "kokkos_views.hpp"

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard guard{argc, argv};
  const Kokkos::DefaultExecutionSpace space;
#if defined(KOKKOS_ENABLE_HIP)
  const hipvmm::stream_ref stream = space.hip_stream();
#elif defined(KOKKOS_ENABLE_CUDA)
  const hipvmm::stream_ref stream = space.cuda_stream();
#else
  const hipvmm::stream_ref stream = hipvmm::stream_ref::legacy_default();  // host provider
#endif

  hipvmm::growable_device_vector<double> numbers;
  numbers.resize(1'000'000, 1.0, stream);
  const auto view = view_of(numbers);
  numbers.resize(50'000'000, 1.0, stream);  // `view` stays valid
  stream.synchronize();
  const auto all = view_of(numbers);
  double sum = 0;
  Kokkos::parallel_reduce(
      "sum", Kokkos::RangePolicy<>{space, 0, all.extent(0)},
      KOKKOS_LAMBDA(std::size_t i, double& part) { part += all(i); }, sum);

  // Memory of a pool, in the order of the execution space.
  hipvmm::mr::vmm_pool_resource pool{hipvmm::device_ref::current()};
  hipvmm::device_uvector<double> scratch{view.extent(0), stream, &pool};
  Kokkos::deep_copy(space, view_of(scratch), view);
  space.fence();
  std::printf("sum %.0f\n", sum);
}
