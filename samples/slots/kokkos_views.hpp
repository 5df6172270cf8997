// SPDX-License-Identifier: MIT
#pragma once

// Kokkos views of memory of hipvmm. Memory spaces of Kokkos have no hook for allocations: a View
// that allocates calls hipMalloc or cudaMalloc itself. It offers views of memory that the
// program owns. A header to copy into a program; written for Kokkos 4. CI has no Kokkos.
#include <Kokkos_Core.hpp>

/// A View of the program's memory for kernels of the default execution space.
template <typename T>
using hipvmm_view = Kokkos::View<T*, typename Kokkos::DefaultExecutionSpace::memory_space,
                                 Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// A View of all elements of a hipvmm container: growable_device_vector, device_uvector. The
/// container owns the memory and must outlive the kernels that use the View. A vector that grows in
/// place keeps its address, so that an older View stays valid for the elements that it has; make a
/// new one for the elements behind.
template <typename Container>
hipvmm_view<typename Container::value_type> view_of(Container& elements) {
  return {elements.data(), elements.size()};
}
