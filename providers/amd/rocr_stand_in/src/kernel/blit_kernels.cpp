// SPDX-License-Identifier: MIT
#include "src/kernel/blit_kernels.hpp"

#include <mutex>
#include <set>

#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"
#include "src/kernel/blit_copy.hpp"
#include "src/kernel/blit_fill.hpp"
#include "src/kernel/blit_stream_ops.hpp"

namespace stand_in {
namespace {

struct blit {
  const char* name;
  const char* verb;
  void (*run)(const argument_values& values, const device_view& memory);
  std::vector<byte_range> (*ranges)(const argument_values& values);
};

constexpr char prefix[] = "__amd_rocclr_";

void run_nothing(const argument_values&, const device_view&) {}
std::vector<byte_range> no_ranges(const argument_values&) { return {}; }

constexpr blit blits[] = {
    {"fillBufferAligned", "fill", run_fill, ranges_of_fill},
    {"fillBufferAligned2D", "fill", run_fill_2d, ranges_of_fill_2d},
    {"copyBuffer", "copy", run_copy, ranges_of_copy},
    {"copyBufferAligned", "copy", run_copy_aligned, ranges_of_copy_aligned},
    {"copyBufferRect", "copy", run_copy_rect, ranges_of_copy_rect},
    {"copyBufferRectAligned", "copy", run_copy_rect_aligned, ranges_of_copy_rect_aligned},
    {"streamOpsWrite", "write of a value", run_write_value, no_ranges},
    {"streamOpsWait", "wait for a value", run_wait_value, no_ranges},
    {"batchMemOp", "writes and waits", run_batch, no_ranges},
    // The heap of device-side malloc, and global wave sync: only kernels of programs use them.
    {"initHeap", "setup", run_nothing, no_ranges},
    {"gwsInit", "setup", run_nothing, no_ranges},
};

const blit* blit_of(const kernel& which) {
  if (which.name.rfind(prefix, 0) != 0) return nullptr;
  const std::string rest = which.name.substr(sizeof prefix - 1);
  for (const blit& each : blits) {
    if (rest == each.name) return &each;
  }
  return nullptr;
}

void complete_unknown(const kernel& which) {
  static std::mutex lock;
  static auto* const named = new std::set<std::string>;
  if (which.name.rfind(prefix, 0) == 0) {
    give_up(text("the runtime's kernel %s is not known to the stand-in", which.name.c_str()));
  }
  if (knobs().kernels_stop) {
    give_up(
        text("kernel %s cannot be run. HIPVMM_ROCR_KERNELS=complete lets kernels of the "
             "program do nothing.",
             which.name.c_str()));
  }
  std::lock_guard guard(lock);
  if (!named->insert(which.name).second) return;
  note(text("kernel %s is not run; its launches complete at once", which.name.c_str()));
}

}  // namespace

std::string describe_kernel(const kernel& which) {
  const blit* const known = blit_of(which);
  const std::string name = "kernel " + which.name;
  return known != nullptr ? std::string(known->verb) + " (" + name + ")" : name;
}

void run_kernel(const kernel& which, const argument_values& values, const device_view& memory) {
  if (const blit* const known = blit_of(which)) return known->run(values, memory);
  complete_unknown(which);
}

std::vector<byte_range> ranges_of_kernel(const kernel& which, const argument_values& values) {
  if (const blit* const known = blit_of(which)) return known->ranges(values);
  std::vector<byte_range> ranges;
  for (const kernel_argument& each : which.arguments) {
    if (each.pointer) ranges.push_back({"argument", values.number(each.name.c_str()), 1});
  }
  return ranges;
}

}  // namespace stand_in
