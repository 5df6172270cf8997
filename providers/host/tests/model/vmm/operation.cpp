// SPDX-License-Identifier: MIT
#include "operation.hpp"

#include <sstream>

namespace hipvmm::test::model {
namespace {

std::ostream& operator<<(std::ostream& out, const place& at) {
  switch (at.where) {
    case space::number:
      if (at.offset == 0) return out << "null";
      return out << "0x" << std::hex << at.offset << std::dec;
    case space::reservation:
      out << "reservation[" << +at.slot << "]";
      break;
    case space::allocation:
      out << "allocation[" << +at.slot << "]";
      break;
    case space::pinned:
      out << "pinned";
      break;
    case space::pageable:
      out << "pageable";
      break;
  }
  const auto offset = static_cast<std::int64_t>(at.offset);
  if (offset != 0) out << (offset < 0 ? " - " : " + ") << (offset < 0 ? -offset : offset);
  return out;
}

struct named_handle {
  std::uint8_t slot;
};
std::ostream& operator<<(std::ostream& out, named_handle of) {
  return of.slot == no_slot ? out << "null" : out << "handle[" << +of.slot << "]";
}

const char* text_of(passed how) {
  switch (how) {
    case passed::as_value:
      return "value of ";
    case passed::as_pointer:
      return "pointer to ";
    case passed::as_null:
      return "null instead of ";
    case passed::not_open:
      return "a closed number instead of ";
    case passed::another_file:
      return "/dev/null instead of ";
  }
  return "";
}

const char* text_of(variant by) {
  switch (by) {
    case variant::at_once:
      return "at once";
    case variant::on_stream:
      return "on a stream";
    case variant::by_direction:
      return "by the function of the direction";
  }
  return "";
}

const char* text_of(change then) {
  switch (then) {
    case change::nothing:
      return "nothing";
    case change::unmapped:
      return "its first mapping is unmapped";
    case change::closed:
      return "its first mapping is closed to the device";
    case change::read_only:
      return "its first mapping becomes read-only for the device";
  }
  return "";
}

void write_entries(std::ostream& out, const operation& each) {
  if (!each.has_argument) {
    out << "null";
    return;
  }
  out << "{";
  for (std::size_t i = 0; i < each.entry_count; ++i) {
    const access_entry& entry = each.entries[i];
    out << (i == 0 ? "" : ", ") << "device " << entry.device << ": " << entry.flags;
    if (entry.location_type != hipMemLocationTypeDevice)
      out << " of location type " << entry.location_type;
  }
  out << "}";
}

}  // namespace

std::string text_of(const operation& each) {
  std::ostringstream out;
  const auto result = [&](const char* name, std::uint8_t slot) {
    if (each.has_result) out << name << "[" << +slot << "] = ";
  };
  const char* const no_result = each.has_result ? "" : " without a result";
  switch (each.what) {
    case kind::reserve:
      result("reservation", each.slot);
      out << "hipMemAddressReserve(bytes " << each.bytes << ", alignment " << each.offset
          << ", wish " << each.at << ", flags " << each.flags << ")";
      break;
    case kind::address_free:
      out << "hipMemAddressFree(" << each.at << ", bytes " << each.bytes << ")";
      break;
    case kind::create:
      result("handle", each.slot);
      out << "hipMemCreate(bytes " << each.bytes << ", ";
      if (each.has_argument) {
        out << "type " << each.type << ", location type " << each.location_type << ", device "
            << each.device << ", handle type " << each.handle_type;
      } else {
        out << "null";
      }
      out << ", flags " << each.flags << ")"
          << " on device " << each.peer;
      break;
    case kind::release:
      out << "hipMemRelease(" << named_handle{each.slot} << ")";
      break;
    case kind::map:
      out << "hipMemMap(" << each.at << ", bytes " << each.bytes << ", offset " << each.offset
          << ", " << named_handle{each.slot} << ", flags " << each.flags << ")";
      break;
    case kind::unmap:
      out << "hipMemUnmap(" << each.at << ", bytes " << each.bytes << ")";
      break;
    case kind::set_access:
      out << "hipMemSetAccess(" << each.at << ", bytes " << each.bytes << ", ";
      write_entries(out, each);
      out << ", count " << +each.entry_count << ")";
      break;
    case kind::get_access:
      out << "hipMemGetAccess(" << each.at << ", ";
      if (each.has_argument) {
        out << "location type " << each.location_type << ", device " << each.device;
      } else {
        out << "null";
      }
      out << ")" << no_result;
      break;
    case kind::retain:
      result("handle", each.slot);
      out << "hipMemRetainAllocationHandle(" << each.at << ")";
      break;
    case kind::properties:
      out << "hipMemGetAllocationPropertiesFromHandle(" << named_handle{each.slot} << ")"
          << no_result;
      break;
    case kind::export_handle:
      result("descriptor", each.slot);
      out << "hipMemExportToShareableHandle(" << named_handle{each.source} << ", type "
          << each.handle_type << ", flags " << each.flags << ")";
      break;
    case kind::import_handle:
      result("handle", each.slot);
      out << "hipMemImportFromShareableHandle(" << text_of(each.how) << "descriptor["
          << +each.source << "], type " << each.handle_type << ")";
      break;
    case kind::close_descriptor:
      out << "close(descriptor[" << +each.slot << "])";
      break;
    case kind::allocate:
      result("allocation", each.slot);
      out << "hipMalloc(bytes " << each.bytes << ") on device " << each.device;
      break;
    case kind::free_allocation:
      out << "hipFree(" << each.at << ")";
      break;
    case kind::enable_peer:
      out << "hipDeviceEnablePeerAccess(" << each.peer << ", flags " << each.flags << ") on device "
          << each.device;
      break;
    case kind::disable_peer:
      out << "hipDeviceDisablePeerAccess(" << each.peer << ") on device " << each.device;
      break;
    case kind::copy:
      out << "hipMemcpy(to " << each.at << ", from " << each.from << ", bytes " << each.bytes
          << ", kind " << each.type << ") of device " << each.device << ", " << text_of(each.by);
      break;
    case kind::peer_copy:
      out << "hipMemcpyPeer(to " << each.at << ", device " << each.device << ", from " << each.from
          << ", device " << each.peer << ", bytes " << each.bytes << ") " << text_of(each.by);
      break;
    case kind::fill:
      out << "hipMemsetD" << 8 * each.type << "(" << each.at << ", value " << each.value
          << ", count " << each.bytes << ") of device " << each.device << ", " << text_of(each.by);
      break;
    case kind::fill_behind_change:
      out << "hipMemsetAsync(" << each.at << ", value " << each.value << ", count " << each.bytes
          << ") of device " << each.device << "; before it runs " << text_of(each.then);
      break;
  }
  return out.str();
}

}  // namespace hipvmm::test::model
