// Any bytes: CompactionJob::Parse refuses them, or they are what the job writes.
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "common/sstable/compaction_job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  std::string_view rest = all;
  const auto job = nova::CompactionJob::Parse(&rest, 0);
  if (!job.ok()) {
    NOVA_CHECK(rest.size() == size);
    return 0;
  }
  std::string again;
  job->AppendTo(&again, 0);
  NOVA_CHECK(again == all.substr(0, size - rest.size()));
  return 0;
}
