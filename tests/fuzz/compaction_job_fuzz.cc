// Any bytes: CompactionJob::Parse and CompactionResult::Parse refuse them, or they are what the job, or the
// result, writes.
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "common/sstable/compaction_job.h"

namespace nova {
namespace {

void CheckJob(std::string_view all) {
  std::string_view rest = all;
  const auto job = CompactionJob::Parse(&rest, 0);
  if (!job.ok()) return NOVA_CHECK(rest.size() == all.size());
  std::string again;
  job->AppendTo(&again, 0);
  NOVA_CHECK(again == all.substr(0, all.size() - rest.size()));
}

void CheckResult(std::string_view all) {
  std::string_view rest = all;
  const auto result = CompactionResult::Parse(&rest);
  if (!result.ok()) return NOVA_CHECK(rest.size() == all.size());
  std::string again;
  result->AppendTo(&again);
  NOVA_CHECK(again == all.substr(0, all.size() - rest.size()));
}

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  nova::CheckJob(all);
  nova::CheckResult(all);
  return 0;
}
