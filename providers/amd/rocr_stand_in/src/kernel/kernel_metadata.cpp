// SPDX-License-Identifier: MIT
#include "src/kernel/kernel_metadata.hpp"

#include <nlohmann/json.hpp>

namespace stand_in {

std::vector<kernel> parse_kernel_metadata(const unsigned char* note, std::size_t bytes) {
  using nlohmann::json;
  std::vector<kernel> kernels;
  try {
    const json root = json::from_msgpack(note, note + bytes);
    for (const json& each : root.at("amdhsa.kernels")) {
      kernel made;
      made.name = each.at(".name").get<std::string>();
      for (const json& argument : each.value(".args", json::array())) {
        const auto kind = argument.at(".value_kind").get<std::string>();
        if (kind.rfind("hidden_", 0) == 0) continue;
        made.arguments.push_back(
            {argument.value(".name", ""), argument.at(".offset").get<std::uint64_t>(),
             argument.at(".size").get<std::uint64_t>(), kind == "global_buffer"});
      }
      kernels.push_back(std::move(made));
    }
  } catch (const json::exception&) {
    kernels.clear();
  }
  return kernels;
}

}  // namespace stand_in
