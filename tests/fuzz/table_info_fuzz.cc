// Any bytes: TableInfo::Parse refuses them, or they are what the info writes.
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "common/sstable/format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  std::string_view rest = all;
  const auto info = nova::TableInfo::Parse(&rest);
  if (!info.ok()) {
    NOVA_CHECK(rest.size() == size);
    return 0;
  }
  std::string again;
  info->AppendTo(&again);
  NOVA_CHECK(again == all.substr(0, size - rest.size()));
  return 0;
}
