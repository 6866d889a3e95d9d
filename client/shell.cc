#include "client/shell.h"

#include <editline/readline.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace nova {
namespace {

int Report(const Result& r) {
  if (r.ok()) return 0;
  std::fprintf(stderr, "%s\n", r.message.c_str());
  return r.outcome == Outcome::kInvalidArgument ? 2 : 1;
}

void PrintBytes(std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stdout); }

void PrintEntry(std::string_view key, std::string_view value) {
  PrintBytes(key);
  std::putchar('\t');
  PrintBytes(value);
  std::putchar('\n');
}

// Until nothing is left on the node. The cluster goes on with it if this ends early.
int Drain(Client* client, const std::string& node) {
  constexpr Nanos kPoll = 200 * kMillisecond;
  constexpr Nanos kPatience = 60 * kSecond;
  std::string shown;
  for (Nanos changed = Now();;) {
    std::string left;
    const Status s = client->Drain(node, &left);
    if (!s.ok()) {
      std::fprintf(stderr, "error: %s\n", std::string(s.message()).c_str());
      return 1;
    }
    if (left.empty()) {
      std::printf("%s is drained: it can stop\n", node.c_str());
      return 0;
    }
    if (left != shown) {
      std::printf("%s: %s left\n", node.c_str(), left.c_str());
      std::fflush(stdout);
      shown = left;
      changed = Now();
    }
    if (Now() > changed + kPatience) {
      std::fprintf(stderr, "error: %s: nothing moved for %lld s (nova status); ask again to wait on\n",
                   node.c_str(), static_cast<long long>(kPatience / kSecond));
      return 1;
    }
    SleepFor(kPoll);
  }
}

int Usage() {
  std::fputs(CommandHelp(), stderr);
  return 2;
}

// Words of a line; "double quotes" hold blanks together, \" and \\ stand for themselves.
std::vector<std::string> SplitWords(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, open = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      open = true;
    } else if (c == '"') {
      quoted = !quoted;
      open = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) && !quoted) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(std::move(word));
  return words;
}

}  // namespace

const char* CommandHelp() {
  return "  put KEY VALUE [TTL_MS] write; with TTL_MS, gone so many milliseconds from now\n"
         "  get KEY                read one\n"
         "  delete KEY             remove\n"
         "  delete-range FROM TO   remove every key at or after FROM and below TO (\"\": from the first, to "
         "the last); whole in each range\n"
         "                         of the cluster, not over all of them\n"
         "  cas KEY EXPECTED NEW   write NEW if the value is EXPECTED; --absent for EXPECTED: if there is "
         "none; --delete for NEW: remove\n"
         "  mget KEY...            read several\n"
         "  batch ENTRY...         all or nothing, in one range: put KEY VALUE, put-ttl KEY VALUE TTL_MS, "
         "delete KEY,\n"
         "                         delete-range FROM TO\n"
         "  scan FROM [COUNT] [to TO] [prefix PREFIX] [reverse]\n"
         "                         COUNT (10) entries at or after FROM, in key order; to: below TO; prefix: "
         "only keys that begin so;\n"
         "                         reverse: from the highest key down\n"
         "  snapshot take|drop     in the shell: later reads see what is there now; drop: as it goes on\n"
         "  checkpoint NAME        keep what every range holds now, under NAME, until it is deleted\n"
         "  checkpoint --list      the checkpoints, and what they keep on the StoCs\n"
         "  checkpoint --delete NAME\n"
         "  restore NAME           the ranges hold what they held at the checkpoint; what was written since "
         "is GONE\n"
         "  status                 nodes, ranges, leases, durability\n"
         "  drain NODE             move everything off a node, show what is left; then it can stop\n"
         "  create-ranges [KEY...] cut the key space at these keys (only once)\n"
         "  force-open RANGE [--accept-data-loss]\n"
         "                         what a range that lost its log is missing; with the flag, open it all the "
         "same\n";
}

int Shell::Put(const std::vector<std::string>& words) {
  WriteOptions options = write_;
  if (words.size() == 4 && (!absl::SimpleAtoi(words[3], &options.ttl_ms) || options.ttl_ms <= 0))
    return Usage();
  return Report(client_->Put(words[1], words[2], options));
}

// The flags stand for the words they replace, wherever they are: the tool's own parser may have moved them.
int Shell::CompareAndSwap(const std::vector<std::string>& words) {
  bool absent = false, remove = false;
  std::vector<std::string> given;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--absent") {
      absent = true;
    } else if (words[i] == "--delete") {
      remove = true;
    } else {
      given.push_back(words[i]);
    }
  }
  if (given.size() + (absent ? 1 : 0) + (remove ? 1 : 0) != 3) return Usage();
  std::optional<std::string_view> expected, desired;
  if (!absent) expected = given[1];
  if (!remove) desired = given.back();
  return Report(client_->CompareAndSwap(given[0], expected, desired, write_));
}

int Shell::Batch(const std::vector<std::string>& words) {
  WriteBatch batch;
  for (size_t i = 1; i < words.size();) {
    const size_t left = words.size() - i;
    int64_t ttl_ms = 0;
    if (words[i] == "put" && left >= 3) {
      batch.Put(words[i + 1], words[i + 2]);
      i += 3;
    } else if (words[i] == "put-ttl" && left >= 4 && absl::SimpleAtoi(words[i + 3], &ttl_ms)) {
      batch.PutTtl(words[i + 1], words[i + 2], ttl_ms);
      i += 4;
    } else if (words[i] == "delete" && left >= 2) {
      batch.Delete(words[i + 1]);
      i += 2;
    } else if (words[i] == "delete-range" && left >= 3) {
      batch.DeleteRange(words[i + 1], words[i + 2]);
      i += 3;
    } else {
      return Usage();
    }
  }
  return Report(client_->Write(batch, write_));
}

int Shell::MultiGet(const std::vector<std::string>& words) {
  const std::vector<std::string_view> keys(words.begin() + 1, words.end());
  const MultiGetResult r = client_->MultiGet(keys, {snapshot_});
  if (!r.ok()) return Report(r);
  bool all = true;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (r.values[i]) {
      PrintEntry(keys[i], *r.values[i]);
    } else {
      std::fprintf(stderr, "mget: NotFound: %s\n", words[i + 1].c_str());
      all = false;
    }
  }
  return all ? 0 : 1;
}

int Shell::Scan(const std::vector<std::string>& words) {
  ScanOptions options;
  options.limit = 10;
  options.snapshot = snapshot_;
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "reverse") {
      options.reverse = true;
    } else if (words[i] == "to" && i + 1 < words.size()) {
      options.to = words[++i];
    } else if (words[i] == "prefix" && i + 1 < words.size()) {
      options.prefix = words[++i];
    } else if (!absl::SimpleAtoi(words[i], &options.limit) || options.limit == 0) {
      return Usage();
    }
  }
  const ScanResult r = client_->Scan(words[1], options);
  for (const auto& [key, value] : r.entries) PrintEntry(key, value);
  return Report(r);
}

int Shell::Checkpoint(const std::vector<std::string>& words) {
  bool list = false, remove = false;
  std::vector<std::string> names;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--list") {
      list = true;
    } else if (words[i] == "--delete") {
      remove = true;
    } else {
      names.push_back(words[i]);
    }
  }
  if (names.size() != (list ? 0 : 1) || (list && remove)) return Usage();
  if (remove) return Report(client_->DeleteCheckpoint(names[0]));
  if (!list) return Report(client_->CreateCheckpoint(names[0]));
  const CheckpointsResult r = client_->ListCheckpoints();
  for (const CheckpointSummary& c : r.checkpoints) {
    const std::string made =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixMillis(c.created_ms), absl::UTCTimeZone());
    std::printf("%s\t%s\t%llu bytes, %llu of them kept only for checkpoints\t%s\n", c.name.c_str(),
                made.c_str(), static_cast<unsigned long long>(c.bytes),
                static_cast<unsigned long long>(c.pinned_bytes),
                c.ranges == r.ranges ? "complete"
                                     : StrCat("INCOMPLETE: ", c.ranges, " of ", r.ranges, " ranges").c_str());
  }
  return Report(r);
}

int Shell::TakeOrDrop(const std::string& which) {
  if (!interactive_) {
    std::fputs("snapshot: it lives in a shell (nova shell), for the commands that follow\n", stderr);
    return 2;
  }
  if (which == "drop") {
    snapshot_ = nullptr;
    return 0;
  }
  SnapshotResult r = client_->TakeSnapshot();
  if (r.ok()) snapshot_ = std::move(r.snapshot);
  return Report(r);
}

int Shell::RunCommand(const std::vector<std::string>& words) {
  if (words.empty()) return Usage();
  const std::string& command = words[0];
  const size_t arguments = words.size() - 1;
  if (command == "put" && (arguments == 2 || arguments == 3)) return Put(words);
  if (command == "delete" && arguments == 1) return Report(client_->Delete(words[1], write_));
  if (command == "delete-range" && arguments == 2)
    return Report(client_->DeleteRange(words[1], words[2], write_));
  if (command == "get" && arguments == 1) {
    const GetResult r = client_->Get(words[1], {snapshot_});
    if (r.ok()) {
      PrintBytes(r.value);
      std::putchar('\n');
    }
    return Report(r);
  }
  if (command == "cas") return CompareAndSwap(words);
  if (command == "mget" && arguments > 0) return MultiGet(words);
  if (command == "batch" && arguments > 0) return Batch(words);
  if (command == "scan" && arguments > 0) return Scan(words);
  if (command == "checkpoint" && arguments > 0) return Checkpoint(words);
  if (command == "restore" && arguments == 1) return Report(client_->RestoreCheckpoint(words[1]));
  if (command == "snapshot" && arguments == 1 && (words[1] == "take" || words[1] == "drop"))
    return TakeOrDrop(words[1]);
  if (command == "status" && arguments == 0) {
    const std::string text = client_->StatusText();
    std::fputs(text.c_str(), stdout);
    return text.starts_with("error:") ? 1 : 0;
  }
  const auto report = [](const Status& s) {
    if (s.ok()) return 0;
    std::fprintf(stderr, "error: %s\n", std::string(s.message()).c_str());
    return 1;
  };
  if (command == "create-ranges") return report(client_->CreateRanges({words.begin() + 1, words.end()}));
  if (command == "drain" && arguments == 1) return Drain(client_, words[1]);
  if (command == "force-open" && (arguments == 1 || (arguments == 2 && words[2] == "--accept-data-loss"))) {
    uint64_t range;
    if (!absl::SimpleAtoi(words[1], &range)) return Usage();
    std::string text;
    const Status s = client_->ForceOpen(range, arguments == 2, &text);
    std::fputs(text.c_str(), stdout);
    return report(s);
  }
  return Usage();
}

int Shell::Run() {
  interactive_ = true;
  const bool terminal = isatty(STDIN_FILENO) != 0;
  int last = 0;
  for (;;) {
    std::string line;
    if (terminal) {
      char* typed = readline(snapshot_ == nullptr ? "nova> " : "nova (snapshot)> ");
      if (typed == nullptr) break;
      line = typed;
      if (!line.empty()) add_history(typed);
      std::free(typed);
    } else if (!std::getline(std::cin, line)) {
      break;
    }
    const std::vector<std::string> words = SplitWords(line);
    if (words.empty()) continue;
    if (words[0] == "quit" || words[0] == "exit") break;
    last = RunCommand(words);
    std::fflush(stdout);
  }
  return terminal ? 0 : last;
}

}  // namespace nova
