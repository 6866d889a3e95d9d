#include "client/commands.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "client/exit_codes.h"
#include "common/base/clock.h"
#include "common/base/keys.h"

namespace nova {
namespace {

constexpr char kKeys[] = "Keys";
constexpr char kCheckpoints[] = "Checkpoints";
constexpr char kCluster[] = "Cluster";

int Report(const Result& r) {
  if (r.ok()) return kExitOk;
  std::fprintf(stderr, "%s\n", r.message.c_str());
  if (r.outcome == Outcome::kInvalidArgument) return kExitUsage;
  if (r.outcome == Outcome::kNotFound) return kExitNotFound;
  if (r.outcome == Outcome::kConditionFailed) return kExitConditionFailed;
  return r.effect() == Effect::kUnknown ? kExitUnknown : kExitFailed;
}

// Of the control plane, which takes each request any number of times.
int Report(const Status& s) {
  if (s.ok()) return kExitOk;
  std::fprintf(stderr, "error: %s\n", std::string(s.message()).c_str());
  return absl::IsInvalidArgument(s) ? kExitUsage : kExitFailed;
}

void PrintBytes(std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stdout); }

void PrintEntry(std::string_view key, std::string_view value) {
  PrintBytes(key);
  std::putchar('\t');
  PrintBytes(value);
  std::putchar('\n');
}

constexpr char kFlags[] = "default";  // in the place of a value: none is set

// Until nothing is left on the node. The cluster goes on with it if this ends early.
int DrainUntilEmpty(Client* client, const std::string& node, bool force) {
  constexpr Nanos kPoll = 200 * kMillisecond;
  constexpr Nanos kPatience = 60 * kSecond;
  std::string shown;
  for (Nanos changed = Now();;) {
    std::string left;
    const Status s = client->Drain(node, &left, force);
    if (!s.ok()) return Report(s);
    if (left.empty()) {
      std::printf("%s is drained: it can stop\n", node.c_str());
      return kExitOk;
    }
    if (left != shown) {
      std::printf("%s: %s left\n", node.c_str(), left.c_str());
      if (std::fflush(stdout) != 0) return kExitFailed;
      shown = left;
      changed = Now();
    }
    if (Now() > changed + kPatience) {
      std::fprintf(stderr, "error: %s: nothing moved for %lld s (nova status); ask again to wait on\n",
                   node.c_str(), static_cast<long long>(kPatience / kSecond));
      return kExitFailed;
    }
    SleepFor(kPoll);
  }
}

int Undrain(Client* client, const std::string& node) {
  std::string now;
  const Status s = client->Undrain(node, &now);
  if (s.ok()) std::printf("%s\n", now.c_str());
  return Report(s);
}

int Configure(Client* client, const std::string& name, const std::string& value) {
  int number = 0;
  const bool is_number = absl::SimpleAtoi(value, &number);
  if (!is_number && value != kFlags)
    return Report(absl::InvalidArgumentError(StrCat("'", value, "' is neither a number nor '", kFlags, "'")));
  return Report(client->ChangeSetting(name, is_number ? std::optional(number) : std::nullopt));
}

// The entries of a batch; RefuseWords where they are none.
WriteBatch BatchOf(const std::vector<std::string>& words) {
  WriteBatch batch;
  for (size_t i = 0; i < words.size();) {
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
      RefuseWords(StrCat("no entry begins with '", words[i], "', or its words are missing"));
    }
  }
  return batch;
}

int GetMany(Session* session, const std::vector<std::string>& words) {
  const std::vector<std::string_view> keys(words.begin(), words.end());
  const MultiGetResult r = session->client->MultiGet(keys, {session->snapshot});
  if (!r.ok()) return Report(r);
  bool all = true;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (r.values[i]) {
      PrintEntry(keys[i], *r.values[i]);
    } else {
      std::fprintf(stderr, "mget: NotFound: %s\n", words[i].c_str());
      all = false;
    }
  }
  return all ? kExitOk : kExitNotFound;
}

int ListCheckpoints(Client* client) {
  const CheckpointsResult r = client->ListCheckpoints();
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

int PrintStatusJson(Client* client) {
  const StatusOr<std::string> json = client->StatusJson();
  if (json.ok()) std::printf("%s\n", json->c_str());
  return Report(json.status());
}

// A command, what it was given, and what it does with that.
template <typename Arguments>
struct Added {
  CLI::App* command;
  std::shared_ptr<Arguments> arguments;
};

// `check` refuses words that do not go together.
template <typename Arguments, typename Action>
Added<Arguments> Add(
    CLI::App* app, Command* chosen, const char* group, const char* name, const char* what, Action action,
    std::function<void(Arguments*)> check = [](Arguments*) {}) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* const command = app->add_subcommand(name, what)->group(group);
  command->callback([=] {
    check(arguments.get());
    *chosen = [=](Session* session) { return action(session, *arguments); };
  });
  return {command, arguments};
}

void AddWrites(CLI::App* app, Command* chosen) {
  struct PutArguments {
    std::string key, value;
    WriteOptions write;
  };
  const auto put = Add<PutArguments>(
      app, chosen, kKeys, "put", "Write VALUE at KEY.",
      [](Session* s, const PutArguments& a) { return Report(s->client->Put(a.key, a.value, a.write)); });
  AddText(put.command, "KEY", &put.arguments->key, "")->required();
  AddText(put.command, "VALUE", &put.arguments->value, "")->required();
  AddNumber<int64_t>(put.command, "TTL_MS", &put.arguments->write.ttl_ms, 1,
                     std::numeric_limits<int64_t>::max(),
                     "the key is gone so many milliseconds from now; 0: never");
  AddSync(put.command, &put.arguments->write);

  const auto remove = Add<PutArguments>(
      app, chosen, kKeys, "delete", "Remove KEY.",
      [](Session* s, const PutArguments& a) { return Report(s->client->Delete(a.key, a.write)); });
  AddText(remove.command, "KEY", &remove.arguments->key, "")->required();
  AddSync(remove.command, &remove.arguments->write);

  struct RangeArguments {
    std::string from, to;
    WriteOptions write;
  };
  const auto range = Add<RangeArguments>(app, chosen, kKeys, "delete-range",
                                         "Remove every key at or after FROM and below TO: whole in each "
                                         "range of the cluster, not over all of them.",
                                         [](Session* s, const RangeArguments& a) {
                                           return Report(s->client->DeleteRange(a.from, a.to, a.write));
                                         });
  AddText(range.command, "FROM", &range.arguments->from, "\"\": from the first key")->required();
  AddText(range.command, "TO", &range.arguments->to, "\"\": to the last key")->required();
  AddSync(range.command, &range.arguments->write);
}

struct SwapArguments {
  std::string key;
  std::vector<std::string> values;
  bool absent = false, remove = false;
  WriteOptions write;
};

void AddSwap(CLI::App* app, Command* chosen) {
  const auto cas = Add<SwapArguments>(
      app, chosen, kKeys, "cas",
      "Write a value at KEY if the one there is as expected: cas KEY EXPECTED NEW, cas KEY --absent NEW,\n"
      "cas KEY EXPECTED --delete.",
      [](Session* s, const SwapArguments& a) {
        std::optional<std::string_view> expected, desired;
        if (!a.absent) expected = a.values.front();
        if (!a.remove) desired = a.values.back();
        return Report(s->client->CompareAndSwap(a.key, expected, desired, a.write));
      },
      [](SwapArguments* a) {
        const size_t wanted = 2 - (a->absent ? 1 : 0) - (a->remove ? 1 : 0);
        if (a->values.size() != wanted)
          RefuseWords(
              StrCat("with these options ", wanted, " values are needed, ", a->values.size(), " given"));
      });
  SwapArguments* const a = cas.arguments.get();
  AddText(cas.command, "KEY", &a->key, "")->required();
  AddTexts(cas.command, "VALUES", &a->values, "EXPECTED and NEW, less what an option stands for");
  cas.command->add_flag("--absent", a->absent, "for EXPECTED: there is no value");
  cas.command->add_flag("--delete", a->remove, "for NEW: remove the key");
  AddSync(cas.command, &a->write);
}

void AddBatch(CLI::App* app, Command* chosen) {
  struct Arguments {
    std::vector<std::string> words;
    WriteBatch batch;
    WriteOptions write;
  };
  const auto batch = Add<Arguments>(
      app, chosen, kKeys, "batch", "Write all of it or nothing, in one range.",
      [](Session* s, const Arguments& a) { return Report(s->client->Write(a.batch, a.write)); },
      [](Arguments* a) { a->batch = BatchOf(a->words); });
  Arguments* const a = batch.arguments.get();
  AddTexts(batch.command, "ENTRY", &a->words,
           "any of: put KEY VALUE, put-ttl KEY VALUE TTL_MS, delete KEY, delete-range FROM TO")
      ->required();
  AddSync(batch.command, &a->write);
}

void AddReads(CLI::App* app, Command* chosen) {
  const auto get = Add<std::string>(app, chosen, kKeys, "get", "Print the value of KEY.",
                                    [](Session* s, const std::string& key) {
                                      const GetResult r = s->client->Get(key, {s->snapshot});
                                      if (r.ok()) {
                                        PrintBytes(r.value);
                                        std::putchar('\n');
                                      }
                                      return Report(r);
                                    });
  AddText(get.command, "KEY", get.arguments.get(), "")->required();

  const auto mget =
      Add<std::vector<std::string>>(app, chosen, kKeys, "mget", "Print keys and their values.", GetMany);
  AddTexts(mget.command, "KEY", mget.arguments.get(), "")->required();

  struct ScanArguments {
    std::string from, to, prefix;
    size_t limit = 10;
    bool reverse = false;
  };
  const auto scan = Add<ScanArguments>(
      app, chosen, kKeys, "scan", "Print entries at or after FROM, in key order.",
      [](Session* s, const ScanArguments& a) {
        const auto it = s->client->NewIterator(
            {std::max(a.from, a.prefix), LesserEnd(a.to, PrefixEnd(a.prefix)), s->snapshot});
        a.reverse ? it->SeekToLast() : it->SeekToFirst();
        for (size_t left = a.limit; left > 0 && it->Valid() && std::ferror(stdout) == 0; --left) {
          PrintEntry(it->key(), it->value());
          if (left > 1) a.reverse ? it->Prev() : it->Next();
        }
        return Report(it->result());
      });
  ScanArguments* const arguments = scan.arguments.get();
  AddText(scan.command, "FROM", &arguments->from, "\"\": the first key")->required();
  AddNumber<size_t>(scan.command, "COUNT", &arguments->limit, 1, 1'000'000'000, "entries at most");
  AddText(scan.command, "--to", &arguments->to, "only keys below it");
  AddText(scan.command, "--prefix", &arguments->prefix, "only keys that begin so");
  scan.command->add_flag("--reverse", arguments->reverse, "from the highest key down");
}

void AddSnapshot(CLI::App* app, Command* chosen) {
  const auto snapshot = Add<std::string>(
      app, chosen, kKeys, "snapshot", "In the shell: later reads see what is there now, until it is dropped.",
      [](Session* s, const std::string& which) {
        if (!s->interactive) {
          std::fputs("snapshot: it lives in a shell (nova shell), for the commands that follow\n", stderr);
          return static_cast<int>(kExitUsage);
        }
        s->snapshot = nullptr;
        if (which == "drop") return static_cast<int>(kExitOk);
        SnapshotResult r = s->client->TakeSnapshot();
        if (r.ok()) s->snapshot = std::move(r.snapshot);
        return Report(r);
      });
  AddText(snapshot.command, "WHAT", snapshot.arguments.get(), "take or drop")
      ->required()
      ->check(CLI::IsMember({"take", "drop"}));
}

struct CheckpointArguments {
  std::string name;
  bool list = false, remove = false;
};

void AddCheckpoints(CLI::App* app, Command* chosen) {
  const auto checkpoint = Add<CheckpointArguments>(
      app, chosen, kCheckpoints, "checkpoint",
      "Keep what every range holds now, under NAME, until it is deleted.",
      [](Session* s, const CheckpointArguments& a) {
        if (a.list) return ListCheckpoints(s->client);
        return Report(a.remove ? s->client->DeleteCheckpoint(a.name) : s->client->CreateCheckpoint(a.name));
      },
      [](CheckpointArguments* a) {
        if (!a->list && a->name.empty()) RefuseWords("NAME is required");
      });
  CheckpointArguments* const a = checkpoint.arguments.get();
  CLI::Option* const name = AddText(checkpoint.command, "NAME", &a->name, "");
  CLI::Option* const list =
      checkpoint.command->add_flag("--list", a->list, "the checkpoints, and what they keep on the StoCs");
  list->excludes(name);
  checkpoint.command->add_flag("--delete", a->remove, "delete the checkpoint")->excludes(list);

  const auto restore = Add<std::string>(
      app, chosen, kCheckpoints, "restore",
      "The ranges hold what they held at the checkpoint; what was written since is GONE.",
      [](Session* s, const std::string& of) { return Report(s->client->RestoreCheckpoint(of)); });
  AddText(restore.command, "NAME", restore.arguments.get(), "")->required();
}

void AddOfCluster(CLI::App* app, Command* chosen) {
  const auto status = Add<bool>(app, chosen, kCluster, "status", "Show nodes, ranges, leases, durability.",
                                [](Session* s, bool json) {
                                  if (json) return PrintStatusJson(s->client);
                                  const std::string text = s->client->StatusText();
                                  const bool failed = text.starts_with("error:");
                                  std::fputs(text.c_str(), failed ? stderr : stdout);
                                  return static_cast<int>(failed ? kExitFailed : kExitOk);
                                });
  status.command->add_flag("--json", *status.arguments, "the same for programs, as one line of JSON");

  struct DrainArguments {
    std::string node;
    bool force = false;
  };
  constexpr char kNode[] = "its name, as `status` shows it; of a StoC also its number";
  const auto drain = Add<DrainArguments>(
      app, chosen, kCluster, "drain",
      "Move everything off a node, show what is left; then it can stop. A StoC may be gone already.",
      [](Session* s, const DrainArguments& a) { return DrainUntilEmpty(s->client, a.node, a.force); });
  AddText(drain.command, "NODE", &drain.arguments->node, kNode)->required();
  drain.command->add_flag("--force", drain.arguments->force,
                          "also where fewer StoCs would be left than copies are configured");

  const auto undrain =
      Add<std::string>(app, chosen, kCluster, "undrain", "End the drain of a node: it takes part again.",
                       [](Session* s, const std::string& node) { return Undrain(s->client, node); });
  AddText(undrain.command, "NODE", undrain.arguments.get(), kNode)->required();

  const auto forget =
      Add<uint32_t>(app, chosen, kCluster, "forget",
                    "Remove a StoC that is lost from the status, once nothing is left on it.",
                    [](Session* s, uint32_t stoc) { return Report(s->client->Forget(stoc)); });
  forget.command->add_option("NUMBER", *forget.arguments, "of the StoC, as `status` shows it")->required();

  struct ConfigureArguments {
    std::string name, value;
  };
  const auto configure = Add<ConfigureArguments>(
      app, chosen, kCluster, "configure",
      "Set an option of all LTCs while they run: active_memtables, dranges, power_of_d, scatter_width.",
      [](Session* s, const ConfigureArguments& a) { return Configure(s->client, a.name, a.value); });
  AddText(configure.command, "NAME", &configure.arguments->name, "of the setting: that of a flag of nova_ltc")
      ->required();
  AddText(configure.command, "VALUE", &configure.arguments->value,
          "a number; default: what the flag of each LTC says")
      ->required();

  const auto create = Add<std::vector<std::string>>(
      app, chosen, kCluster, "create-ranges", "Cut the key space of a new cluster; only once.",
      [](Session* s, const std::vector<std::string>& keys) {
        if (keys.empty())
          std::fputs("warning: without keys there is one range, at one LTC, and it cannot be cut later\n",
                     stderr);
        return Report(s->client->CreateRanges(keys));
      });
  AddTexts(create.command, "KEY", create.arguments.get(),
           "where a range ends and the next begins; n of them make n + 1 ranges");

  struct ForceArguments {
    uint64_t range = 0;
    bool accept_data_loss = false;
  };
  const auto force = Add<ForceArguments>(
      app, chosen, kCluster, "force-open", "Show what a range that lost its log is missing.",
      [](Session* s, const ForceArguments& a) {
        std::string text;
        const Status status = s->client->ForceOpen(a.range, a.accept_data_loss, &text);
        std::fputs(text.c_str(), stdout);
        return Report(status);
      });
  force.command->add_option("RANGE", force.arguments->range, "its number")->required();
  // So long that nobody types it by accident.
  force.command->add_flag("--accept-data-loss", force.arguments->accept_data_loss, "open it all the same");
}

}  // namespace

void AddSync(CLI::App* command, WriteOptions* write) {
  command->add_flag(
      "--sync,!--nosync", write->sync,
      "--sync=false: where the log is on disks, acknowledged when written: survives processes, not "
      "hosts");
}

int EndOutput(int code) {
  const int error = std::fflush(stdout) == 0 ? 0 : errno;
  if (error == 0 && std::ferror(stdout) == 0) return code;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  const bool nobody_reads = poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  if (!nobody_reads) {
    std::fprintf(stderr, "error: output is lost%s%s\n", error == 0 ? "" : ": ",
                 error == 0 ? "" : std::strerror(error));
  }
  return code == kExitOk ? kExitFailed : code;
}

void AddCommands(CLI::App* app, Command* chosen) {
  AddWrites(app, chosen);
  AddReads(app, chosen);
  AddSwap(app, chosen);
  AddBatch(app, chosen);
  AddSnapshot(app, chosen);
  AddCheckpoints(app, chosen);
  AddOfCluster(app, chosen);
}

}  // namespace nova
