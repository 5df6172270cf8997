// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

#include <cstddef>

// The one file that knows CUDA header versions: 12.0 to 13.x. The driver may be newer or older than
// the header, and refuses calls that it lacks.
namespace hipvmm::cuda_provider::cuda_compat {

// From 13.0 on, advice and prefetches name a location; before, a device, with the host as
// CU_DEVICE_CPU.
#if CUDA_VERSION >= 13000
inline CUmemLocation location_of(CUdevice place) {
  if (place == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  if (place == CU_DEVICE_INVALID) return {CU_MEM_LOCATION_TYPE_INVALID, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, place};
}

inline CUresult advise(CUdeviceptr start, std::size_t bytes, CUmem_advise advice, CUdevice place) {
  return cuMemAdvise(start, bytes, advice, location_of(place));
}

inline CUresult prefetch(CUdeviceptr start, std::size_t bytes, CUdevice place, CUstream stream) {
  return cuMemPrefetchAsync(start, bytes, location_of(place), 0, stream);
}
#else
inline CUresult advise(CUdeviceptr start, std::size_t bytes, CUmem_advise advice, CUdevice place) {
  return cuMemAdvise(start, bytes, advice, place);
}

inline CUresult prefetch(CUdeviceptr start, std::size_t bytes, CUdevice place, CUstream stream) {
  return cuMemPrefetchAsync(start, bytes, place, stream);
}
#endif

// Chunks in memory of the host are made from 12.2 on.
#if CUDA_VERSION >= 12020
inline bool place_on_host(CUmemLocation& place) {
  place = {};
  place.type = CU_MEM_LOCATION_TYPE_HOST;
  return true;
}
inline bool place_on_host_node(CUmemLocation& place, int node) {
  place = {};
  place.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  place.id = node;
  return true;
}
inline bool is_on_host(const CUmemLocation& place) {
  return place.type == CU_MEM_LOCATION_TYPE_HOST;
}
inline bool is_on_host_node(const CUmemLocation& place) {
  return place.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}
#else
inline bool place_on_host(CUmemLocation&) { return false; }
inline bool place_on_host_node(CUmemLocation&, int) { return false; }
inline bool is_on_host(const CUmemLocation&) { return false; }
inline bool is_on_host_node(const CUmemLocation&) { return false; }
#endif

// CUmemPoolProps has maxSize from 12.2 on. Without it, a limit cannot be kept.
#if CUDA_VERSION >= 12020
inline bool set_max_bytes(CUmemPoolProps& properties, std::size_t bytes) {
  properties.maxSize = bytes;
  return true;
}
#else
inline bool set_max_bytes(CUmemPoolProps&, std::size_t bytes) { return bytes == 0; }
#endif

// From 13.0 on an edge of a graph has data, for which HIP has no parameter. Without a parameter for
// data the driver describes only edges with the usual data.
struct capture_info {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* last = nullptr;
  std::size_t last_count = 0;
};
#if CUDA_VERSION >= 13000
inline CUresult get_capture_info(CUstream stream, capture_info& found) {
  return cuStreamGetCaptureInfo(stream, &found.status, &found.id, &found.graph, &found.last,
                                nullptr, &found.last_count);
}

inline CUresult get_edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t& count) {
  return cuGraphGetEdges(graph, from, to, nullptr, &count);
}
#else
inline CUresult get_capture_info(CUstream stream, capture_info& found) {
  return cuStreamGetCaptureInfo(stream, &found.status, &found.id, &found.graph, &found.last,
                                &found.last_count);
}

inline CUresult get_edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t& count) {
  return cuGraphGetEdges(graph, from, to, &count);
}
#endif

}  // namespace hipvmm::cuda_provider::cuda_compat
