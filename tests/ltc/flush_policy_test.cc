// Which rounds are flushed, which are merged in memory, and how far a flush is, as text in, text out:
// testdata/flush_policy.txt.
#include "ltc/engine/flush_policy.h"

#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/ltc/data_driven.h"

namespace nova {
namespace {

bool Has(const std::string& word, char flag) { return word.find(flag) != std::string::npos; }

// "12" or "12:0.5": a round and its share; then flags: p pinned, m merging, f flushing, t tombstones,
// c checkpoint, and "@20": sealed so many milliseconds ago (else just now).
FlushCandidate RoundFromText(const std::string& word, Nanos now_ns) {
  FlushCandidate r;
  const std::vector<std::string> parts = absl::StrSplit(word, '@');
  const std::vector<std::string> head = absl::StrSplit(parts[0], ':');
  r.number = std::stoull(head[0]);
  if (head.size() > 1) r.share = std::stod(head[1]);
  r.pinned = Has(word, 'p');
  r.merging = Has(word, 'm');
  r.flushing = Has(word, 'f');
  r.has_tombstones = Has(word, 't');
  r.has_checkpoint = Has(word, 'c');
  r.sealed_ns = now_ns - (parts.size() > 1 ? std::stoll(parts[1]) * kMillisecond : 0);
  return r;
}

std::string FlushFromText(const std::vector<std::string>& lines) {
  FlushSituation s;
  s.now_ns = 1000 * kSecond;
  s.lag_ns = kSecond;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0] == "rounds") {
      for (size_t i = 1; i < words.size(); ++i) s.rounds.push_back(RoundFromText(words[i], s.now_ns));
    } else if (words[0] == "max") {
      s.max_rounds = std::stoi(words[1]);
    } else if (words[0] == "level0") {
      s.level0_runs = std::stoi(words[1]);
    } else if (words[0] == "asked") {
      s.asked_upto = std::stoull(words[1]);
    } else if (words[0] == "kept") {
      s.history.kept = std::stod(words[1]);
    } else {
      for (const std::string& word : words) {
        if (word == "others") s.others_are_written = true;
        if (word == "one_at_a_time") s.history.one_at_a_time = true;
        if (word == "holds") s.holds_rounds_back = true;
        if (word == "merges") s.groups_are_merged = true;
      }
    }
  }
  const size_t n = RoundsToFlush(s);
  std::string out = n == 0 ? "later" : "flush";
  for (size_t i = 0; i < n; ++i) out += StrCat(" ", s.rounds[i].number);
  return out + "\n";
}

// "merge MAX ROOM share/left ...", the youngest first; b: busy, m: merged.
std::string MergeFromText(const std::vector<std::string>& words) {
  std::vector<MergeCandidate> rounds;
  for (size_t i = 3; i < words.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(words[i], '/');
    rounds.push_back({std::stod(parts[0]), std::stod(parts[1]), Has(words[i], 'b'), Has(words[i], 'm')});
  }
  const MergeChoice choice = RoundsToMerge(rounds, std::stoi(words[1]), std::stod(words[2]));
  return choice.rounds == 0 ? "nothing\n"
                            : absl::StrFormat("%d rounds, %.2f left\n", choice.rounds, choice.left_share);
}

// "history took_ms busy_ms share written kept replaced", one flush a line, on one disk; with "disks" at its
// end on several.
std::string HistoryFromText(const std::vector<std::string>& lines) {
  FlushHistory h;
  for (const std::string& line : lines) {
    const std::vector<std::string> w = absl::StrSplit(line, ' ', absl::SkipEmpty());
    FlushResult r{std::stoll(w[1]) * kMillisecond,
                  std::stoll(w[2]) * kMillisecond,
                  std::stod(w[3]),
                  std::stoull(w[4]),
                  std::stoull(w[5]),
                  std::stoull(w[6]),
                  w.back() != "disks"};
    h = After(h, r);
  }
  return absl::StrFormat("kept %.2f replaced %.3f, %d ms a round%s%s%s\n", h.kept, h.replaced,
                         h.round_ns / kMillisecond, h.waits ? ", waits" : "",
                         h.one_at_a_time ? ", one at a time" : "",
                         h.RoundsShareKeys() ? ", rounds share keys" : "");
}

// "left ENTRIES KEEPS done/stored ...": what is left at each of these.
std::string LeftFromText(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 3; i < words.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(words[i], '/');
    const FlushWork work{std::stoull(words[1]), std::stoull(parts[0]), std::stoull(parts[1])};
    out += absl::StrFormat("%s%.2f", out.empty() ? "" : " ", PartLeft(work, std::stod(words[2])));
  }
  return out + "\n";
}

TEST(FlushPolicyTest, Decides) {
  RunFile("flush_policy.txt", [](const std::vector<std::string>& lines) {
    const std::vector<std::string> words = absl::StrSplit(lines[0], ' ', absl::SkipEmpty());
    if (words[0] == "merge") return MergeFromText(words);
    if (words[0] == "left") return LeftFromText(words);
    if (words[0] == "history") return HistoryFromText(lines);
    return FlushFromText(lines);
  });
}

}  // namespace
}  // namespace nova
