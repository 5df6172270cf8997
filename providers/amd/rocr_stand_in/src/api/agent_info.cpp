// SPDX-License-Identifier: MIT
// The description of agents: a GPU of the MI200 family, but for its name's target.
#include <hsa/hsa_ext_amd.h>
#include <hsa/hsa_ext_image.h>

#include "src/base/call.hpp"
#include "src/base/info.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"
#include "src/memory/agents.hpp"

namespace stand_in {
namespace {

constexpr hsa_isa_t only_isa{1};
constexpr std::size_t name_bytes = 64;

std::string isa_name() { return "amdgcn-amd-amdhsa--" + knobs().isa; }

std::string target_name() { return knobs().isa.substr(0, knobs().isa.find(':')); }

template <class Value, std::size_t Count>
hsa_status_t answer_array(void* to, const Value (&values)[Count]) {
  std::memcpy(to, values, sizeof values);
  return HSA_STATUS_SUCCESS;
}

// False if `attribute` is not one number of 32 bits.
bool number_of(const agent& who, int attribute, std::uint32_t& number) {
  switch (attribute) {
    case HSA_AGENT_INFO_NODE:
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
    case HSA_AMD_AGENT_INFO_DRIVER_UID:
      number = who.node;
      return true;
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
      number = 64;
      return true;
    case HSA_AGENT_INFO_WORKGROUP_MAX_SIZE:
      number = 1024;
      return true;
    case HSA_AGENT_INFO_GRID_MAX_SIZE:
      number = 0xffffffffu;
      return true;
    case HSA_AGENT_INFO_QUEUES_MAX:
      number = who.is_gpu ? 128 : 0;
      return true;
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
      number = who.is_gpu ? 64 : 0;
      return true;
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
      number = who.is_gpu ? 131072 : 0;
      return true;
    case HSA_AMD_AGENT_INFO_CHIP_ID:
      number = 0x740f;
      return true;
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
      number = 128;
      return true;
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
    case HSA_AMD_AGENT_INFO_COOPERATIVE_COMPUTE_UNIT_COUNT:
      number = 104;
      return true;
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
      number = 1700;
      return true;
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
      number = 1600;
      return true;
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
      number = 4096;
      return true;
    case HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS:
    case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
      number = 4;
      return true;
    case HSA_AMD_AGENT_INFO_BDFID:
      number = who.is_gpu ? (0x20 + who.index) << 8 : 0;
      return true;
    case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
      number = 32;
      return true;
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES:
      number = 8;
      return true;
    case HSA_AMD_AGENT_INFO_ASIC_REVISION:
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE:
    case HSA_AMD_AGENT_INFO_NUM_XCC:
      number = 1;
      return true;
    case HSA_AMD_AGENT_INFO_ASIC_FAMILY_ID:
      number = 141;
      return true;
    case HSA_AMD_AGENT_INFO_NUM_SDMA_ENG:
      number = static_cast<std::uint32_t>(knobs().engines);
      return true;
    case HSA_AMD_AGENT_INFO_DOMAIN:
    case HSA_AMD_AGENT_INFO_NUM_SDMA_XGMI_ENG:
      number = 0;
      return true;
    case HSA_AMD_AGENT_INFO_UCODE_VERSION:
    case HSA_AMD_AGENT_INFO_SDMA_UCODE_VERSION:
      number = 100;
      return true;
    default:
      return false;
  }
}

// ROCr's description of images of an MI200. clr asks for all of it if an agent has the extension,
// and HIP's pitch is a multiple of the last. An image itself cannot be made here.
bool describe_images(int attribute, void* value) {
  switch (attribute) {
    case HSA_EXT_AGENT_INFO_IMAGE_1D_MAX_ELEMENTS:
      answer(value, std::uint32_t{16384});
      return true;
    case HSA_EXT_AGENT_INFO_IMAGE_1DB_MAX_ELEMENTS:
      answer(value, ~std::uint32_t{0});
      return true;
    case HSA_EXT_AGENT_INFO_IMAGE_1DA_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2D_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DDEPTH_MAX_ELEMENTS:
      answer_array(value, (const std::uint32_t[]){16384, 16384});
      return true;
    case HSA_EXT_AGENT_INFO_IMAGE_2DA_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DADEPTH_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_3D_MAX_ELEMENTS:
      answer_array(value, (const std::uint32_t[]){16384, 16384, 8192});
      return true;
    case HSA_EXT_AGENT_INFO_IMAGE_ARRAY_MAX_LAYERS:
      answer(value, std::uint32_t{8192});
      return true;
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RD_HANDLES:
      answer(value, std::uint32_t{128});
      return true;
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RORW_HANDLES:
      answer(value, std::uint32_t{64});
      return true;
    case HSA_EXT_AGENT_INFO_MAX_SAMPLER_HANDLERS:
      answer(value, std::uint32_t{16});
      return true;
    case HSA_EXT_AGENT_INFO_IMAGE_LINEAR_ROW_PITCH_ALIGNMENT:
      answer(value, std::uint32_t{256});
      return true;
    default:
      return false;
  }
}

hsa_status_t describe_agent(const agent& who, int attribute, void* value) {
  switch (attribute) {
    case HSA_AGENT_INFO_NAME:
      return answer_text(value, who.is_gpu ? target_name() : "CPU", name_bytes);
    case HSA_AGENT_INFO_VENDOR_NAME:
      return answer_text(value, who.is_gpu ? "AMD" : "CPU", name_bytes);
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      return answer_text(value, who.is_gpu ? "Stand-in GPU" : "CPU", name_bytes);
    case HSA_AMD_AGENT_INFO_UUID:
      return answer_text(value, who.is_gpu ? uuid_of(who) : "CPU-XX", 21);
    case HSA_AGENT_INFO_FEATURE:
      return answer(value, who.is_gpu ? HSA_AGENT_FEATURE_KERNEL_DISPATCH : hsa_agent_feature_t{});
    case HSA_AGENT_INFO_PROFILE:
      return answer(value, who.is_gpu ? HSA_PROFILE_BASE : HSA_PROFILE_FULL);
    case HSA_AGENT_INFO_DEVICE:
      return answer(value, who.is_gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU);
    case HSA_AGENT_INFO_QUEUE_TYPE:
      return answer(value, HSA_QUEUE_TYPE_MULTI);
    case HSA_AGENT_INFO_ISA:
      return answer(value, only_isa);
    case HSA_AGENT_INFO_VERSION_MAJOR:
    case HSA_AGENT_INFO_VERSION_MINOR:
      return answer(value, std::uint16_t{1});
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM:
      return answer_array(value, (const std::uint16_t[]){1024, 1024, 1024});
    case HSA_AGENT_INFO_GRID_MAX_DIM:
      return answer_array(value, (const std::uint32_t[]){0x7fffffff, 0x7fffffff, 0x7fffffff});
    case HSA_AGENT_INFO_CACHE_SIZE:
      return answer_array(value, (const std::uint32_t[]){16384, 8u << 20, 0, 0});
    case HSA_AGENT_INFO_EXTENSIONS:
      answer_zeros(value, 128);
      return answer(value, std::uint8_t{who.is_gpu ? 1 << HSA_EXTENSION_IMAGES : 0});
    case HSA_AMD_AGENT_INFO_HDP_FLUSH:
      return answer(value, hsa_amd_hdp_flush_t{nullptr, nullptr});
    case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
      return answer(value, true);
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
      return answer(value, false);
    case HSA_AMD_AGENT_INFO_MEMORY_AVAIL:
      return answer(value, who.memory->budget() - who.memory->used());
    case HSA_AMD_AGENT_INFO_TIMESTAMP_FREQUENCY:
      return answer(value, std::uint64_t{1000000000});
    case HSA_AMD_AGENT_INFO_IOMMU_SUPPORT:
      return answer(value, HSA_IOMMU_SUPPORT_NONE);
    case HSA_AMD_AGENT_INFO_NEAREST_CPU:
      return answer(value, cpu_agent().handle());
    case HSA_AMD_AGENT_INFO_MEMORY_PROPERTIES:
    case HSA_AMD_AGENT_INFO_AQL_EXTENSIONS:
      return answer_zeros(value, 8);
    case HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_MAX:
    case HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_CURRENT:
      return answer(value, std::uint64_t{1} << 32);
    default:
      log("hsa_agent_get_info(0x%x) is not known", static_cast<unsigned>(attribute));
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void* value) {
  ROCR_CALL();
  const stand_in::agent* const who = agent_of(agent);
  if (who == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::uint32_t number = 0;
  if (number_of(*who, static_cast<int>(attribute), number)) return answer(value, number);
  if (who->is_gpu && describe_images(static_cast<int>(attribute), value)) {
    return HSA_STATUS_SUCCESS;
  }
  return describe_agent(*who, static_cast<int>(attribute), value);
}

hsa_status_t hsa_agent_iterate_isas(hsa_agent_t agent, hsa_status_t (*callback)(hsa_isa_t, void*),
                                    void* data) {
  ROCR_CALL();
  if (agent_of(agent) == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return callback(only_isa, data);
}

hsa_status_t hsa_isa_get_info_alt(hsa_isa_t isa, hsa_isa_info_t attribute, void* value) {
  ROCR_CALL();
  if (isa.handle != only_isa.handle) return HSA_STATUS_ERROR_INVALID_ISA;
  if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::string name = isa_name();
  if (attribute == HSA_ISA_INFO_NAME_LENGTH) {
    return answer(value, static_cast<std::uint32_t>(name.size() + 1));
  }
  if (attribute == HSA_ISA_INFO_NAME) return answer_text(value, name, name.size() + 1);
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

}  // extern "C"
