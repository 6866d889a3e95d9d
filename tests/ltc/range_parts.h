// RangeParts: the parts of a range, each made by the test, without the Range that conducts them; over a local
// store in a directory of its own.
//
// Thread safety: one thread, which is also the request thread.   Ownership: the directory goes with it.
// Errors:        test failures.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ltc/embedded/local_storage.h"
#include "ltc/engine/compactor.h"
#include "ltc/engine/flusher.h"
#include "ltc/engine/rebuilder.h"
#include "ltc/engine/scanner.h"
#include "ltc/engine/write_path.h"
#include "tests/ltc/manual_executor.h"

namespace nova {

// Acknowledges, or answers what the test says; notes which rounds are deleted.
class NotingLog : public RangeLog {
 public:
  struct Notes {
    Outcome answer = Outcome::kOk;
    Outcome takes = Outcome::kOk;  // of Append; what else it is, it does nothing
    bool holds = false;            // what it takes is not answered: see held
    std::vector<absl::AnyInvocable<void(Outcome)>> held;
    std::vector<RoundNumber> deleted;
    std::vector<LogRecord> records;  // their entries are gone
    bool fenced = false;
  };
  explicit NotingLog(Notes* notes) : notes_(notes) {}
  Outcome Append(Executor*, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) override {
    if (notes_->takes != Outcome::kOk) return notes_->takes;
    notes_->records.push_back(record);
    notes_->holds ? notes_->held.push_back(std::move(done)) : done(notes_->answer);
    return Outcome::kOk;
  }
  void DeleteRound(RoundNumber round) override { notes_->deleted.push_back(round); }
  void Fence() override { notes_->fenced = true; }
  size_t bytes_in_flight() const override { return 0; }
  bool sync_matters() const override { return false; }

 private:
  Notes* const notes_;
};

class RangeParts : RangeHost {
 public:
  explicit RangeParts(RangeOptions options = SmallRounds(), bool map_tables = false)
      : map_tables_(map_tables),
        arenas(64 << 20),
        cache(1 << 20),
        services(MakeServices()),
        context(MakeSpec(), options, &services) {
    context.self = std::shared_ptr<const void>(life_, life_.get());
    context.lose = [this](const Status& why) {
      context.state.Set(ServingState::kLost);
      lost = why;
    };
    log.Open(std::make_unique<NotingLog>(&log_notes));
    EXPECT_TRUE(versions.Start(std::make_shared<const Version>(), 0).ok());
    EXPECT_TRUE(manifests->Install(versions.manifest_group()).ok());
    context.state.Set(ServingState::kActive);
  }
  ~RangeParts() {
    while (executor.RunOnce()) {
    }
    std::filesystem::remove_all(directory_);
  }

  static RangeOptions SmallRounds() {
    RangeOptions options;
    options.memtable_size_bytes = 64 << 10;
    options.active_memtables = 1;
    options.max_rounds = 4;
    return options;
  }

  Outcome Put(const std::string& key, const std::string& value, ValueType type = ValueType::kPut) {
    const WriteEntry entry{type, key, value};
    std::optional<Outcome> outcome;
    writes.Write(&executor, {{&entry, 1}, 0, 0, Now() + kSecond}, [&](Outcome o) { outcome = o; });
    executor.RunUntil([&] { return outcome.has_value(); });
    return *outcome;
  }
  std::string Get(const std::string& key) {
    std::optional<std::string> answer;
    reader.Get(&executor, key, Now() + kSecond, [&](Outcome o, std::string_view value) {
      answer = o == Outcome::kOk ? std::string(value) : std::string(OutcomeName(o));
    });
    executor.RunUntil([&] { return answer.has_value(); });
    return *answer;
  }
  const RangeView& view() { return *rounds.ViewOf(&executor); }

 private:
  std::string MakeDirectory() {
    char path[] = "/tmp/nova-parts-XXXXXX";
    return mkdtemp(path);
  }
  RangeSpec MakeSpec() { return {RangeId(1), Epoch(1), "", ""}; }
  StatusOr<Placement> Place(uint64_t /*table_bytes*/) override {
    if (!place_answers.ok()) return place_answers;
    return Placement{};
  }
  CopyPlanner PlannerOfCopies() override { return plan_copies ? plan_copies : RangeHost::PlannerOfCopies(); }
  void WorkDue(RangeId /*range*/) override { ++work_due; }
  void Fenced(RangeId /*range*/, const Status& /*why*/) override {}
  void RunReader(std::function<void()> fn) override { fn(); }
  RangeServices MakeServices() {
    RangeServices s;
    s.store = store.get();
    s.cache = &cache;
    s.arenas = &arenas;
    s.memtable_limit_bytes = 256 << 20;
    s.executors = {&executor};
    s.host = this;
    s.garbage = [this](const TableInfo& t) { garbage.push_back(t.uuid); };
    return s;
  }

  const bool map_tables_;
  const std::shared_ptr<int> life_ = std::make_shared<int>(0);
  const std::string directory_ = MakeDirectory();

 public:
  // What the parts told the process.
  int work_due = 0;
  std::vector<Uuid> garbage;
  Status lost;
  Status place_answers;     // not ok: no table can be placed
  CopyPlanner plan_copies;  // none: tables have one copy each
  NotingLog::Notes log_notes;

  ManualExecutor executor;
  const std::unique_ptr<Disk> disk = std::move(OpenPosixDisk(directory_)).value();
  const std::unique_ptr<TableStore> store = NewLocalTableStore(disk.get(), {.map = map_tables_});
  const std::unique_ptr<LocalManifestStorage> manifests = std::make_unique<LocalManifestStorage>(disk.get());
  ArenaPool arenas;
  BlockCache cache;
  RangeServices services;
  RangeContext context;
  ReadPoints points{0};
  RoundLog log;
  WrittenLoad written{context.options};
  RoundSet rounds{&context, &points, &log, &written};
  Pacer pacer{&context, &rounds, &log};
  TableAccess tables{&context, &pacer.disk_turns()};
  Level0Toll toll{&context};
  Reader reader{&context, &toll, &points, &rounds, &tables};
  Scanner scanner{&context, &toll, &points, &rounds, &tables};
  JobBook jobs;
  VersionSet versions{&context, &points, &rounds, &pacer, manifests.get()};
  Rebuilder rebuilder{&context, &jobs, &versions};
  RoundMerger merger{&context, &points, &rounds, &pacer, &written};
  FlushedLoad load{context.options.compaction};
  Flusher flusher{&context, &points,   &log,    &rounds, &pacer,  &tables,
                  &jobs,    &versions, &merger, &load,   &written};
  Compactor compactor{&context, &toll, &points, &rounds, &pacer, &tables, &jobs, &versions};
  WritePath writes{&context, &points, &log, &rounds, &pacer, &reader};
};

}  // namespace nova
