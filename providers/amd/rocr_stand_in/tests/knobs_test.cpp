// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("knobs: what is unknown or not understood is refused with what to do") {
  struct bad {
    const char* variable;
    const char* sentence;
  };
  for (const bad& each : {
           bad{"GPU=2", "HIPVMM_ROCR_GPU is unknown. The names after HIPVMM_ROCR_ are: GPUS,"},
           bad{"GPUS=65", "HIPVMM_ROCR_GPUS=65 is not understood. Use a number from 0 to 64."},
           bad{"GPUS=", "is not understood"},
           bad{"MEMORY=1MiB", "at least 64MiB"},
           bad{"MEMORY=4G", "with KiB, MiB, GiB or TiB"},
           bad{"PEERS=0-0", "pairs of GPUs"},
           bad{"PEERS=0-7", "PEERS links GPU 0 and GPU 7, but the GPUs are 0 to 1."},
           bad{"LOG=1", "Use on or off."},
           bad{"REPORTS=ignore", "Use stop, count or handlers."},
           bad{"ENGINES=0", "Use a number from 1 to 16."},
           bad{"MEMORY_RETURN=never", "Use unmap or address_free."},
           bad{"ISA=sm_90", "a target such as gfx90a"},
           bad{"FAULTS=hsa_amd_vmem_map", "is no function:nth=status"},
           bad{"FAULTS=hsa_amd_vmem_mop:1=ERROR", "\"hsa_amd_vmem_mop\" is no HSA function"},
           bad{"FAULTS=hsa_amd_vmem_map:0=ERROR", "which start at 1"},
           bad{"FAULTS=hsa_amd_vmem_map:1=BAD", "is no status"},
           bad{"FAULTS=hsa_amd_vmem_map=3", "no function=TIME, such as 300us"},
           bad{"FAULTS=hsa_amd_vmem_map=3ms", "no function=TIME, such as 300us"},
           bad{"FAULTS=hsa_amd_vmem_map=60000001us", "no function=TIME, such as 300us"},
           bad{"FAULTS=hsa_amd_vmem_mop=3us", "\"hsa_amd_vmem_mop\" is no HSA function"},
       }) {
    const outcome got =
        in_child({each.variable}, [] { EXPECT(hsa_init() == HSA_STATUS_ERROR_INVALID_ARGUMENT); });
    CHECK_MESSAGE(got.finished, each.variable);
    CHECK_MESSAGE(got.errors.find(each.sentence) != std::string::npos, got.errors);
  }
}

TEST_CASE("knobs: GPUs, memory, links and target are what was asked for") {
  const outcome got = in_child({"GPUS=3", "MEMORY=96MiB", "PEERS=0-1,2-1", "ISA=gfx942"}, [] {
    hsa_system on;
    EXPECT(on.gpus.size() == 3);
    char name[64];
    EXPECT(hsa_agent_get_info(on.gpus[0], HSA_AGENT_INFO_NAME, name) == HSA_STATUS_SUCCESS);
    EXPECT(std::string(name) == "gfx942");
    std::size_t bytes = 0;
    hsa_amd_memory_pool_get_info(on.pool(on.gpus[2]), HSA_AMD_MEMORY_POOL_INFO_SIZE, &bytes);
    EXPECT(bytes == 96 * MiB);
    const auto access = [&](std::size_t who, std::size_t to) {
      hsa_amd_memory_pool_access_t answer{};
      hsa_amd_agent_memory_pool_get_info(on.gpus[who], on.pool(on.gpus[to]),
                                         HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &answer);
      return answer;
    };
    EXPECT(access(0, 0) == HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
    EXPECT(access(0, 1) == HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
    EXPECT(access(1, 2) == HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
    EXPECT(access(0, 2) == HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
    EXPECT(access(2, 0) == HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("ROCR_VISIBLE_DEVICES: the GPUs that it names, in its order") {
  struct named {
    const char* list;
    std::vector<std::uint32_t> nodes;
  };
  for (const named& each : {
           named{"2,0", {3, 1}}, named{" 1 ", {2}}, named{"0x2", {3}}, named{"", {}},
           named{"-1", {}}, named{"3,0", {}}, named{"1,one,0", {2}}, named{"1,,0", {2}},
           named{"0,1,0,2", {1, 2}}, named{"gpu-0000000057a2d001,0", {2, 1}},
           named{"GPU-0000000057a2d0021", {}}, named{"GPU-0", {}},  // the beginning of all three
       }) {
    const outcome got = in_child({"GPUS=3"}, [&] {
      setenv("ROCR_VISIBLE_DEVICES", each.list, 1);
      hsa_system on;
      EXPECT(on.gpus.size() == each.nodes.size());
      for (std::size_t i = 0; i < each.nodes.size(); ++i) {
        std::uint32_t node = 0;
        hsa_agent_get_info(on.gpus[i], HSA_AGENT_INFO_NODE, &node);
        EXPECT(node == each.nodes[i]);
      }
    });
    CHECK_MESSAGE(got.finished, each.list, ": ", got.errors);
  }
}

TEST_CASE("pools: GPUs without a link are connected through the host") {
  const outcome got = in_child({"GPUS=3", "PEERS=0-1"}, [] {
    hsa_system on;
    const auto type = [&](hsa_agent_t from, hsa_agent_t to) {
      hsa_amd_memory_pool_link_info_t link{};
      hsa_amd_agent_memory_pool_get_info(from, on.pool(to),
                                         HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link);
      return link.link_type;
    };
    EXPECT(type(on.gpus[0], on.gpus[1]) == HSA_AMD_LINK_INFO_TYPE_XGMI);
    EXPECT(type(on.gpus[1], on.gpus[0]) == HSA_AMD_LINK_INFO_TYPE_XGMI);
    EXPECT(type(on.gpus[0], on.gpus[2]) == HSA_AMD_LINK_INFO_TYPE_PCIE);
    EXPECT(type(on.gpus[2], on.gpus[1]) == HSA_AMD_LINK_INFO_TYPE_PCIE);
    EXPECT(type(on.gpus[2], on.cpu) == HSA_AMD_LINK_INFO_TYPE_PCIE);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("lock: host memory that is not mapped to its end is refused") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    constexpr std::size_t page = 4096;
    char* const host = static_cast<char*>(
        mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(host + 3 * page, page);
    void* locked = nullptr;
    const auto lock = [&](void* at, std::size_t bytes) {
      return hsa_amd_memory_lock(at, bytes, nullptr, 0, &locked);
    };
    EXPECT(lock(host, 4 * page) == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT(lock(host + 3 * page - 1, 2) == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT(lock(host, std::size_t{20} << 40) == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT(lock(host, SIZE_MAX) == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT(lock(host + 1, 3 * page - 1) == HSA_STATUS_SUCCESS);
    EXPECT(locked == host + 1);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("knobs: no GPUs is as a machine without the driver") {
  const outcome got =
      in_child({"GPUS=0"}, [] { EXPECT(hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES); });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("knobs: README's table has the rows of the code") {
  const auto text_of = [](const char* file) {
    std::ifstream in(std::string(ROCR_STAND_IN_SOURCE) + "/" + file);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  };
  const std::string code = text_of("src/base/knobs.cpp");
  const std::string page = text_of("README.md");
  int rows = 0;
  for (std::size_t at = 0; (at = code.find("\n      {\"", at)) != std::string::npos; ++at) {
    const std::size_t begin = at + 9;
    const std::string name = code.substr(begin, code.find('"', begin) - begin);
    if (name == "KiB") continue;
    CHECK_MESSAGE(page.find("| `" + name + "` |") != std::string::npos, name);
    ++rows;
  }
  CHECK(rows == 20);
}

}  // namespace
