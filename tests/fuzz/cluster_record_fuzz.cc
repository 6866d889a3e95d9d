// Any bytes as the records of the configuration store, and as the file store's tree: refused, or what is read
// encodes to something that reads the same.
//
// Input: one byte: which record; its top bit: the checksum and the format are set right first | the bytes.
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/config/config_tree.h"
#include "coordinator/cluster_types.h"
#include "coordinator/znodes.h"

namespace nova {
namespace {

constexpr char kTreeMagic[] = "NOVACFG1";
constexpr size_t kTreeHeader = 12;

// Format, body, checksum of both.
std::string Sealed(std::string_view body, char format) {
  std::string bytes = std::string(1, format) + std::string(body);
  const uint32_t crc = Crc32c(bytes);
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return bytes;
}

void CheckTree(std::string_view bytes) {
  const auto tree = ConfigTree::Decode(bytes);
  if (!tree.ok()) return;
  const auto again = ConfigTree::Decode(tree->Encode());
  NOVA_CHECK(again.ok() && again->Encode() == tree->Encode());
}

template <typename Record>
void CheckText(std::string_view bytes) {
  const auto record = Record::Decode(bytes);
  if (!record.ok()) return;
  const auto again = Record::Decode(record->Encode());
  NOVA_CHECK(again.ok() && again->Encode() == record->Encode());
}

void Check(uint8_t which, bool plant, std::string_view bytes) {
  switch (which % 5) {
    case 0: {
      const std::string data = plant ? Sealed(bytes, bytes.size() % 2 == 0 ? 1 : 2) : std::string(bytes);
      const auto range = RangeRecord::Decode(data, 1);
      if (range.ok()) NOVA_CHECK(RangeRecord::Decode(range->Encode(), 1)->Encode() == range->Encode());
      break;
    }
    case 1: {
      const auto node = DecodeNodeInfo(plant ? Sealed(bytes, 1) : std::string(bytes));
      if (node.ok()) NOVA_CHECK(*DecodeNodeInfo(EncodeNodeInfo(*node)) == *node);
      break;
    }
    case 2:
      CheckText<ClusterRecord>(bytes);
      break;
    case 3:
      CheckText<CoordRecord>(bytes);
      break;
    default: {
      std::string tree(bytes);
      if (plant && tree.size() >= kTreeHeader) {
        const uint32_t crc = Crc32c(std::string_view(tree).substr(kTreeHeader));
        std::memcpy(tree.data(), kTreeMagic, kTreeHeader - sizeof(crc));
        std::memcpy(tree.data() + kTreeHeader - sizeof(crc), &crc, sizeof(crc));
      }
      CheckTree(tree);
    }
  }
}

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  nova::Check(data[0] & 0x7f, (data[0] & 0x80) != 0, {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
