// SPDX-License-Identifier: MIT
// hipvmm-info --json is as packaging/share/hipvmm-info.schema.json says, member by member.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tool/info_program.hpp"

namespace hipvmm::test {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

// The part of JSON Schema that the file uses. Returns the places that differ.
void compare(const json& value, const json& schema, const std::string& place,
             std::vector<std::string>& wrong) {
  const json& type = schema.at("type");
  bool fits = false;
  for (const json& each : type.is_array() ? type : json::array({type}))
    fits = fits || has_type(value, each);
  if (!fits) wrong.push_back(place + " has another type");
  if (schema.contains("enum") && schema["enum"] != json::array() &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    wrong.push_back(place + " has another value");
  if (value.is_array())
    for (const json& each : value) compare(each, schema.at("items"), place + "[]", wrong);
  if (!value.is_object()) return;
  const json& rest = schema.at("additionalProperties");
  for (const auto& [name, each] : value.items()) {
    const bool is_named = schema.contains("properties") && schema["properties"].contains(name);
    if (is_named)
      compare(each, schema["properties"][name], place + "." + name, wrong);
    else if (rest.is_object())
      compare(each, rest, place + "." + name, wrong);
    else
      wrong.push_back(place + "." + name + " is not in the schema");
  }
  if (schema.contains("required"))
    for (const json& name : schema["required"])
      if (!value.contains(name))
        wrong.push_back(place + "." + name.get<std::string>() + " is missing");
}

std::string differences(const json& value) {
  std::ifstream file{INFO_SCHEMA};
  std::vector<std::string> wrong;
  compare(value, json::parse(file), "report", wrong);
  std::string all;
  for (const std::string& each : wrong) all += each + '\n';
  return all;
}

}  // namespace

TEST_CASE("info: --json keeps its schema") {
  CHECK(differences(info_json({})) == "");
  json changed = info_json({"--device=0"});
  changed["devices"][0].erase("path");
  changed["devices"][0]["lanes"] = "many";
  changed["more"] = 1;
  CHECK(differences(changed) ==
        "report.devices[].lanes has another type\n"
        "report.devices[].path is missing\n"
        "report.more is not in the schema\n");
}

}  // namespace hipvmm::test
