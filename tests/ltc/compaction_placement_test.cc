// Where compaction jobs run, as text in, text out: testdata/place_job.txt, --rewrite updates.
#include "ltc/server/compaction_placement.h"

#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "tests/ltc/data_driven.h"

namespace nova {
namespace {

// Lines "stoc <id> [running=n] [queue=n] [input=bytes]" name those that take jobs; "job <bytes>"; "here <n>":
// jobs that run here. "policies a b" says which are asked, each for as many turns in a row as "turns" says (1
// unless it does). Out comes a line for each policy.
std::string PlaceFromText(const std::vector<std::string>& lines) {
  std::vector<CompactionWorker> workers;
  uint64_t job_bytes = 0, turns = 1;
  uint32_t here = 0;
  std::string out;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0] == "job") job_bytes = std::stoull(words[1]);
    if (words[0] == "here") here = static_cast<uint32_t>(std::stoul(words[1]));
    if (words[0] == "turns") turns = std::stoull(words[1]);
    if (words[0] == "stoc") {
      CompactionWorker& worker = workers.emplace_back();
      worker.id = StocId(static_cast<uint32_t>(std::stoul(words[1])));
      for (size_t i = 2; i < words.size(); ++i) {
        const std::vector<std::string> pair = absl::StrSplit(words[i], '=');
        const uint64_t value = std::stoull(pair[1]);
        if (pair[0] == "running") worker.running = static_cast<uint32_t>(value);
        if (pair[0] == "queue") worker.backlog_bytes = static_cast<double>(value * kBytesOfARequest);
        if (pair[0] == "input") worker.local_input_bytes = value;
      }
    }
    if (words[0] != "policies") continue;
    for (size_t i = 1; i < words.size(); ++i) {
      const auto policy = ParseOffloadPolicy(words[i]);
      absl::StrAppend(&out, words[i], ":");
      for (uint64_t turn = 0; policy && turn < turns; ++turn) {
        const auto stoc = PlaceJob(workers, job_bytes, here, *policy, turn);
        absl::StrAppend(&out, " ", stoc ? absl::StrCat(stoc->value()) : "here");
      }
      absl::StrAppend(&out, policy ? "\n" : " no such policy\n");
    }
  }
  return out;
}

TEST(PlaceJobTest, AsWrittenDown) { RunFile("place_job.txt", PlaceFromText); }

}  // namespace
}  // namespace nova
