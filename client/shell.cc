#include "client/shell.h"

#include <editline/readline.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"

namespace nova {
namespace {

int Report(const Result& r) {
  if (r.ok()) return 0;
  std::fprintf(stderr, "%s\n", r.message.c_str());
  return r.outcome == Outcome::kInvalidArgument ? 2 : 1;
}

void PrintBytes(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
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
      std::fprintf(stderr, "error: %s: nothing moved for %lld s (nova status); ask again to wait on\n", node.c_str(),
                   static_cast<long long>(kPatience / kSecond));
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
  return "  put KEY VALUE          write\n"
         "  get KEY                read one\n"
         "  delete KEY             remove\n"
         "  scan FROM [COUNT]      the next COUNT (10) entries at or after FROM, in key order\n"
         "  status                 nodes, ranges, leases, durability\n"
         "  drain NODE             move everything off a node, show what is left; then it can stop\n"
         "  create-ranges [KEY...] cut the key space at these keys (only once)\n"
         "  force-open RANGE [--accept-data-loss]\n"
         "                         what a range that lost its log is missing; with the flag, open it all the same\n";
}

int RunCommand(Client* client, const std::vector<std::string>& words) {
  if (words.empty()) return Usage();
  const std::string& command = words[0];
  const size_t arguments = words.size() - 1;
  if (command == "put" && arguments == 2) return Report(client->Put(words[1], words[2]));
  if (command == "delete" && arguments == 1) return Report(client->Delete(words[1]));
  if (command == "get" && arguments == 1) {
    const GetResult r = client->Get(words[1]);
    if (r.ok()) {
      PrintBytes(r.value);
      std::putchar('\n');
    }
    return Report(r);
  }
  if (command == "scan" && (arguments == 1 || arguments == 2)) {
    uint64_t count = 10;
    if (arguments == 2 && (!absl::SimpleAtoi(words[2], &count) || count == 0)) return Usage();
    const ScanResult r = client->Scan(words[1], count);
    for (const auto& [key, value] : r.entries) {
      PrintBytes(key);
      std::putchar('\t');
      PrintBytes(value);
      std::putchar('\n');
    }
    return Report(r);
  }
  if (command == "status" && arguments == 0) {
    const std::string text = client->StatusText();
    std::fputs(text.c_str(), stdout);
    return text.starts_with("error:") ? 1 : 0;
  }
  const auto report = [](const Status& s) {
    if (s.ok()) return 0;
    std::fprintf(stderr, "error: %s\n", std::string(s.message()).c_str());
    return 1;
  };
  if (command == "create-ranges") return report(client->CreateRanges({words.begin() + 1, words.end()}));
  if (command == "drain" && arguments == 1) return Drain(client, words[1]);
  if (command == "force-open" && (arguments == 1 || (arguments == 2 && words[2] == "--accept-data-loss"))) {
    uint64_t range;
    if (!absl::SimpleAtoi(words[1], &range)) return Usage();
    std::string text;
    const Status s = client->ForceOpen(range, arguments == 2, &text);
    std::fputs(text.c_str(), stdout);
    return report(s);
  }
  return Usage();
}

int RunShell(Client* client) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  int last = 0;
  for (;;) {
    std::string line;
    if (terminal) {
      char* typed = readline("nova> ");
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
    last = RunCommand(client, words);
    std::fflush(stdout);
  }
  return terminal ? 0 : last;
}

}  // namespace nova
