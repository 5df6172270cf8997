// SPDX-License-Identifier: MIT
#include "support/system.hpp"

#include <cstring>

namespace test {
namespace {

constexpr std::uint64_t segment_bytes = 256;

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

}  // namespace

hsa_system::hsa_system() {
  EXPECT(hsa_init() == HSA_STATUS_SUCCESS);
  const auto add = [](hsa_agent_t agent, void* into) {
    auto& all = *static_cast<hsa_system*>(into);
    hsa_device_type_t type{};
    hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    if (type == HSA_DEVICE_TYPE_GPU) {
      all.gpus.push_back(agent);
    } else {
      all.cpu = agent;
    }
    return HSA_STATUS_SUCCESS;
  };
  EXPECT(hsa_iterate_agents(add, this) == HSA_STATUS_SUCCESS);
}

hsa_amd_memory_pool_t hsa_system::pool(hsa_agent_t agent) const {
  hsa_amd_memory_pool_t first{};
  // The first pool is the one the comment names.
  hsa_amd_agent_iterate_memory_pools(
      agent,
      [](hsa_amd_memory_pool_t each, void* into) {
        *static_cast<hsa_amd_memory_pool_t*>(into) = each;
        return HSA_STATUS_INFO_BREAK;
      },
      &first);
  EXPECT(first.handle != 0);
  return first;
}

char* hsa_system::allocate(hsa_agent_t agent, std::uint64_t bytes) const {
  void* made = nullptr;
  EXPECT(hsa_amd_memory_pool_allocate(pool(agent), bytes, 0, &made) == HSA_STATUS_SUCCESS);
  std::vector<hsa_agent_t> all = gpus;
  all.push_back(cpu);
  EXPECT(hsa_amd_agents_allow_access(static_cast<std::uint32_t>(all.size()), all.data(), nullptr,
                                     made) == HSA_STATUS_SUCCESS);
  return static_cast<char*>(made);
}

hsa_amd_vmem_alloc_handle_t hsa_system::create(hsa_agent_t agent, std::uint64_t bytes) const {
  hsa_amd_vmem_alloc_handle_t made{};
  EXPECT(hsa_amd_vmem_handle_create(pool(agent), bytes, MEMORY_TYPE_PINNED, 0, &made) ==
         HSA_STATUS_SUCCESS);
  return made;
}

char* reserve(std::uint64_t bytes) {
  void* at = nullptr;
  EXPECT(hsa_amd_vmem_address_reserve(&at, bytes, 0, 0) == HSA_STATUS_SUCCESS);
  return static_cast<char*>(at);
}

hsa_status_t grant(void* at, std::uint64_t bytes, hsa_agent_t who, hsa_access_permission_t right) {
  const hsa_amd_memory_access_desc_t description{right, who};
  return hsa_amd_vmem_set_access(at, bytes, &description, 1);
}

mapped_memory::mapped_memory(const hsa_system& on, hsa_agent_t owner, std::uint64_t size)
    : at(reserve(size)), bytes(size), handle(on.create(owner, size)) {
  EXPECT(hsa_amd_vmem_map(at, bytes, 0, handle, 0) == HSA_STATUS_SUCCESS);
  EXPECT(grant(at, bytes, owner) == HSA_STATUS_SUCCESS);
  EXPECT(grant(at, bytes, on.cpu) == HSA_STATUS_SUCCESS);
}

hsa_signal_t make_signal(hsa_signal_value_t value) {
  hsa_signal_t made{};
  EXPECT(hsa_signal_create(value, 0, nullptr, &made) == HSA_STATUS_SUCCESS);
  return made;
}

void wait(hsa_signal_t signal) {
  hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, ~std::uint64_t{0},
                            HSA_WAIT_STATE_BLOCKED);
}

hsa_signal_t start_copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                        std::uint64_t bytes, const std::vector<hsa_signal_t>& after) {
  const hsa_signal_t done = make_signal();
  EXPECT(hsa_amd_memory_async_copy(
             to, to_agent, from, from_agent, bytes, static_cast<std::uint32_t>(after.size()),
             after.empty() ? nullptr : after.data(), done) == HSA_STATUS_SUCCESS);
  return done;
}

launcher::launcher(const hsa_system& on, hsa_agent_t gpu,
                   const std::vector<kernel_description>& kernels)
    : kernels_(kernels),
      code_(build_code_object(kernels)),
      segments_(on.allocate(on.cpu, 64 * segment_bytes)) {
  hsa_code_object_reader_t reader{};
  EXPECT(hsa_code_object_reader_create_from_memory(code_.data(), code_.size(), &reader) ==
         HSA_STATUS_SUCCESS);
  EXPECT(hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT,
                                   nullptr, &executable_) == HSA_STATUS_SUCCESS);
  EXPECT(hsa_executable_load_agent_code_object(executable_, gpu, reader, nullptr, nullptr) ==
         HSA_STATUS_SUCCESS);
  EXPECT(hsa_executable_freeze(executable_, nullptr) == HSA_STATUS_SUCCESS);
  hsa_code_object_reader_destroy(reader);
  EXPECT(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, 0, 0, &queue_) ==
         HSA_STATUS_SUCCESS);
}

launcher::~launcher() {
  hsa_queue_destroy(queue_);
  hsa_executable_destroy(executable_);
}

template <class Packet>
void launcher::submit(Packet& packet, std::uint16_t type) {
  packet.header = HSA_PACKET_TYPE_INVALID;
  const std::uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
  auto* slot = static_cast<Packet*>(queue_->base_address) + (index & (queue_->size - 1));
  *slot = packet;
  __atomic_store_n(&slot->header, type, __ATOMIC_RELEASE);
  hsa_signal_store_screlease(queue_->doorbell_signal, static_cast<std::int64_t>(index));
}

hsa_signal_t launcher::launch(const std::string& kernel,
                              const std::map<std::string, std::uint64_t>& with,
                              const std::map<std::string, std::vector<std::uint64_t>>& vectors) {
  char* const segment = segments_ + used_++ % 64 * segment_bytes;
  std::memset(segment, 0, segment_bytes);
  for (const kernel_description& each : kernels_) {
    if (each.name != kernel) continue;
    const auto offsets = argument_offsets(each);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const argument_description& argument = each.arguments[i];
      if (const auto at = with.find(argument.name); at != with.end()) {
        std::memcpy(segment + offsets[i], &at->second, argument.bytes);
      }
      if (const auto at = vectors.find(argument.name); at != vectors.end()) {
        std::memcpy(segment + offsets[i], at->second.data(), argument.bytes);
      }
    }
  }
  hsa_executable_symbol_t symbol{};
  EXPECT(hsa_executable_get_symbol_by_name(executable_, (kernel + ".kd").c_str(), nullptr,
                                           &symbol) == HSA_STATUS_SUCCESS);
  hsa_kernel_dispatch_packet_t packet{};
  hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
                                 &packet.kernel_object);
  packet.kernarg_address = segment;
  packet.completion_signal = make_signal();
  submit(packet, HSA_PACKET_TYPE_KERNEL_DISPATCH);
  return packet.completion_signal;
}

hsa_signal_t launcher::barrier(const std::vector<hsa_signal_t>& after, bool all) {
  hsa_barrier_and_packet_t packet{};
  for (std::size_t i = 0; i < after.size(); ++i) packet.dep_signal[i] = after[i];
  packet.completion_signal = make_signal();
  submit(packet, all ? HSA_PACKET_TYPE_BARRIER_AND : HSA_PACKET_TYPE_BARRIER_OR);
  return packet.completion_signal;
}

kernel_description fill_kernel() {
  return {"__amd_rocclr_fillBufferAligned",
          {{"buf", 8, true},
           {"pattern", 8, true},
           {"pattern_size", 4},
           {"alignment", 4},
           {"end_ptr", 8},
           {"next_chunk", 4}}};
}

kernel_description fill_kernel_of_clr_5() {
  return {"__amd_rocclr_fillBufferAligned",
          {{"bufUChar", 8, true},
           {"bufUShort", 8, true},
           {"bufUInt", 8, true},
           {"bufULong", 8, true},
           {"pattern", 8, true},
           {"patternSize", 4},
           {"offset", 8},
           {"size", 8}}};
}

kernel_description program_kernel() {
  return {"a_kernel_of_a_program", {{"factor", 8}, {"data", 8, true}}};
}

hsa_signal_t start_fill(launcher& by, const hsa_system& on, void* to, std::uint64_t bytes,
                        unsigned char value) {
  char* const pattern = on.allocate(on.cpu, 16);
  std::memset(pattern, value, 16);
  return by.launch("__amd_rocclr_fillBufferAligned", {{"buf", address_of(to)},
                                                      {"pattern", address_of(pattern)},
                                                      {"pattern_size", 1},
                                                      {"alignment", 1},
                                                      {"end_ptr", address_of(to) + bytes}});
}

}  // namespace test
