// M4 over StoCs: ranges with manifests of their own that reference the same tables, through restarts of StoCs
// and owners that die between an edit and its references.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/coding.h"
#include "common/base/failpoint.h"
#include "common/base/fault_disk.h"
#include "common/log/range_log.h"
#include "ltc/embedded/local_storage.h"
#include "ltc/engine/import.h"
#include "stoc/stoc_table_store.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using Model = std::map<std::string, std::string>;

constexpr int kKeys = 600;
std::string KeyOf(int i) { return StrCat("key", 1000 + i); }

struct Rig {
  explicit Rig(FabricWorld* w) : world(w) {
    for (uint32_t i = 0; i < 3; ++i) {
      media.push_back(std::make_unique<SimDisk>());
      disks.push_back(media.back()->Mount());
      stocs.push_back(std::make_unique<TestStoc>(w, i + 1, incarnation, disks.back().get()));
    }
    client = std::make_unique<TestClient>(w, "ltc-1", 10);
    store = NewStocTableStore(
        client->stocs.get(), [](Executor* e) { return static_cast<TestExecutor*>(e)->xchg(); },
        {.write_deadline_ns = 5 * kSecond, .read_deadline_ns = 5 * kSecond, .damaged = {}}, &metrics);
    Update();
  }
  ~Rig() { client->Stop(); }
  void Update() { client->Update({stocs[0].get(), stocs[1].get(), stocs[2].get()}); }
  // All of them lose power: what was not synced is gone.
  void RestartStocs() {
    ++incarnation;
    for (uint32_t i = 0; i < 3; ++i) {
      stocs[i] = nullptr;
      disks[i] = nullptr;
      media[i]->Crash(nullptr);
      disks[i] = media[i]->Mount();
      stocs[i] = std::make_unique<TestStoc>(world, i + 1, incarnation, disks[i].get());
    }
    Update();
    for (const auto& s : stocs) {  // what is sent over an old connection is lost
      EXPECT_TRUE(Eventually([&] {
        const auto answered = PingOf(client->stocs.get(), s->id(), Soon());
        return answered.ok() && *answered == Incarnation(incarnation);
      }));
    }
  }
  std::set<std::string> Files() {
    std::set<std::string> files;
    for (const auto& s : stocs) {
      const auto names = disks[s->id().value() - 1]->List("files");
      for (const std::string& name : *names) files.insert(StrCat(s->id().value(), "/", name));
    }
    return files;
  }
  size_t Tables() {  // of which there is a file
    std::set<std::string> tables;
    for (const std::string& f : Files()) tables.insert(f.substr(2, 32));
    return tables.size();
  }
  template <typename Done>
  bool Eventually(const Done& done) {
    for (const Nanos until = Soon(); !done() && Now() < until;) SleepFor(5 * kMillisecond);
    return done();
  }
  // In the end: a drop that nobody waits for may be between a file and its list.
  testing::AssertionResult NoFiles() {
    if (Eventually([this] { return Files().empty(); })) return testing::AssertionSuccess();
    return testing::AssertionFailure() << testing::PrintToString(Files());
  }

  FabricWorld* const world;
  uint64_t incarnation = 100;
  Metrics metrics;
  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> disks;
  std::vector<std::unique_ptr<TestStoc>> stocs;
  std::unique_ptr<TestClient> client;
  std::unique_ptr<TableStore> store;
};

// A range's owner: its tables on the rig's StoCs, its manifest on a disk of its own.
class Owner : RangeHost {
 public:
  Owner(Rig* rig, uint64_t id, std::string lower = "", std::string upper = "")
      : rig_(rig), arenas_(64 << 20), cache_(64 << 10) {
    spec_.id = RangeId(id);
    spec_.lower = std::move(lower);
    spec_.upper = std::move(upper);
    manifests_ = std::make_unique<LocalManifestStorage>(&manifest_disk);
    services_.store = rig->store.get();
    services_.cache = &cache_;
    services_.arenas = &arenas_;
    services_.executors = {on()};
    services_.host = this;
    services_.garbage = [this](const TableInfo& t) {
      if (drops_references) rig_->store->DropTable(t, {spec_.id, spec_.epoch, 0});
    };
    options_.active_memtables = 1;
    options_.compaction.table_size_bytes = 16 << 10;
    options_.compaction.level0_runs_trigger = 1;
    options_.compaction.level0_share = 0;  // each compaction goes to Level1, and rewrites what it meets there
    options_.table.block_size_bytes = 1 << 10;
  }
  ~Owner() { Die(); }

  // The next owner: from the manifest, as it is.
  void Open() {
    Die();
    const auto edits = manifests_->ReadInstalled();
    ASSERT_TRUE(edits.ok()) << edits.status();
    spec_.epoch = Epoch(spec_.epoch.value() + 1);
    Activate(Range::Recover(spec_, options_, &services_, manifests_.get(), *edits, {}));
  }
  void Import(const VersionEdit& cut) { Activate(TryImport(cut)); }
  StatusOr<std::shared_ptr<Range>> TryImport(const VersionEdit& cut) {
    Die();
    spec_.epoch = Epoch(spec_.epoch.value() + 1);
    return ImportRange(spec_, options_, &services_, manifests_.get(), cut);
  }
  // Its first edit is written, and no pointer names that manifest when it dies.
  void ImportInVain(const VersionEdit& cut) {
    auto range = TryImport(cut);
    ASSERT_TRUE(range.ok()) << range.status();
    range_ = *std::move(range);
    Die();
  }
  // The owner after `before`, with a manifest of its own.
  void Follow(const Owner& before) { spec_.epoch = before.spec_.epoch; }
  // What is not in the manifest is gone.
  void Die() {
    if (range_ == nullptr) return;
    range_->Abandon();
    std::shared_ptr<Range> last = std::move(range_);
    rig_->client->On(0, [&] { last = nullptr; });
    rig_->client->On(0, [] {});  // what was queued before that, and holds the range too, is destroyed
    MutexLock lock(&mu_);
    readers_.clear();
  }
  // N4, as the LTC does it.
  void CollectOrphans() {
    ASSERT_NE(range_, nullptr);
    for (const auto& s : rig_->stocs) {
      StatusOr<std::vector<FileSummary>> files;
      rig_->Eventually([&] {
        return (files = rig_->client->stocs->ListFiles(s->id(), spec_.id, spec_.epoch, {}, Soon())).ok();
      });
      ASSERT_TRUE(files.ok()) << files.status();
      const NamedFiles referenced = range_->versions().ReferencedFiles();
      std::vector<StocFileId> orphans;
      for (const FileSummary& f : *files) {
        if (!referenced.NamedOn(s->id(), f.file)) orphans.push_back(f.file);
      }
      const Status dropped =
          rig_->client->stocs->DropReferences(s->id(), spec_.id, spec_.epoch, orphans, Soon());
      ASSERT_TRUE(dropped.ok()) << dropped;
    }
  }

  void Write(ValueType type, const std::string& key, const std::string& value) {
    Notification done;
    rig_->client->On(0, [&] {
      const WriteEntry entry{type, key, value};
      range_->Write(on(), {{&entry, 1}, 0, 0, Soon()}, [&](Outcome o) {
        EXPECT_EQ(o, Outcome::kOk) << OutcomeName(o);
        done.Notify();
      });
    });
    done.Wait();
  }
  void Fill(const std::string& value) {
    for (int i = 0; i < kKeys; ++i) {
      if (!range_->Contains(KeyOf(i))) continue;
      Write(ValueType::kPut, KeyOf(i), StrCat(value, i, std::string(100, 'v')));
      model[KeyOf(i)] = StrCat(value, i, std::string(100, 'v'));
    }
  }
  void Clear() {  // and with it every table
    Write(ValueType::kDeleteRange, range_->spec().lower.empty() ? "a" : range_->spec().lower,
          range_->spec().upper.empty() ? "z" : range_->spec().upper);
    model.clear();
    Settle();
    EXPECT_EQ(range_->stats().tables, 0u);
  }
  void Settle() {
    range_->SealActive();
    while (range_->FlushOne() || range_->CompactOne()) {
    }
  }
  std::set<Uuid> Tables() {
    std::set<Uuid> tables;
    const NamedFiles named = range_->versions().ReferencedFiles();
    for (const auto& [file, stocs] : named.files()) {
      if (file.part == kMetadataPart) tables.insert(file.owner);
    }
    return tables;
  }

  void ExpectContents() {
    for (const bool reverse : {false, true}) {
      Model all;
      std::string from, to;
      for (bool more = true; more;) {
        Notification done;
        ScanPage page;
        rig_->client->On(0, [&] {
          range_->Scan(on(), {from, to, 100, Soon(), nullptr, reverse}, [&](Outcome o, ScanPage p) {
            EXPECT_EQ(o, Outcome::kOk) << OutcomeName(o);
            page = std::move(p);
            done.Notify();
          });
        });
        done.Wait();
        std::string_view in = page.entries, key, value;
        while (GetLengthPrefixed(&in, &key) && GetLengthPrefixed(&in, &value)) {
          all.emplace(key, value);
          (reverse ? to : from) = reverse ? std::string(key) : std::string(key) + '\0';
        }
        more = page.count == 100;
      }
      ASSERT_EQ(all.size(), model.size()) << "range " << spec_.id.value();
      ASSERT_TRUE(all == model);
    }
    for (int i = 0; i < kKeys; i += 7) {
      if (!range_->Contains(KeyOf(i))) continue;
      Notification done;
      std::optional<std::string> value;
      rig_->client->On(0, [&] {
        range_->Get(on(), KeyOf(i), Soon(), [&](Outcome o, std::string_view v) {
          if (o == Outcome::kOk) value = std::string(v);
          EXPECT_TRUE(o == Outcome::kOk || o == Outcome::kNotFound) << OutcomeName(o);
          done.Notify();
        });
      });
      done.Wait();
      const auto it = model.find(KeyOf(i));
      ASSERT_TRUE(it == model.end() ? !value : value && *value == it->second) << KeyOf(i);
    }
  }

  VersionEdit Cut(const std::string& lower, const std::string& upper) {
    frozen_ = range_->checkpoints().Freeze(Soon()).value();
    return CutCheckpoint(*frozen_, lower, upper, range_->points().published_now_ms(), rig_->store.get())
        .value();
  }
  void LetGoOfCut() { frozen_ = nullptr; }
  Executor* on() { return rig_->client->executors[0].get(); }
  Range* range() { return range_.get(); }
  Creator holder() const { return {spec_.id, spec_.epoch, 0}; }

  Model model;
  Placement placement{{{StocId(1), StocId(2)}}, {StocId(2), StocId(3)}};
  std::atomic<int> tables_to_place{1 << 30};  // then they go where no StoC is
  std::atomic<bool> drops_references{true};   // false: it dies before it does
  CopyPlanner planner;                        // none: no copies move

 private:
  StatusOr<Placement> Place(uint64_t /*table_bytes*/) override {
    return tables_to_place-- > 0 ? placement : Placement{{{StocId(9)}}, {StocId(9)}};
  }
  CopyPlanner PlannerOfCopies() override { return planner ? planner : RangeHost::PlannerOfCopies(); }
  void WorkDue(RangeId /*range*/) override {}
  void Fenced(RangeId /*range*/, const Status& why) override { ADD_FAILURE() << "lost: " << why; }
  void RunReader(std::function<void()> fn) override {
    MutexLock lock(&mu_);
    readers_.push_back(std::make_unique<Thread>("reader", std::move(fn)));
  }

  void Activate(StatusOr<std::shared_ptr<Range>> range) {
    ASSERT_TRUE(range.ok()) << range.status();
    range_ = *std::move(range);
    ASSERT_TRUE(manifests_->Install(range_->versions().manifest_group()).ok());
    range_->Activate(NewNullLog());
  }

  Rig* const rig_;
  SimDisk medium_;
  const std::unique_ptr<Disk> base_ = medium_.Mount();

 public:
  FaultDisk manifest_disk{base_.get()};

 private:
  std::unique_ptr<LocalManifestStorage> manifests_;
  ArenaPool arenas_;
  BlockCache cache_;
  RangeServices services_;
  RangeOptions options_;
  RangeSpec spec_;
  Mutex mu_;
  std::vector<std::unique_ptr<Thread>> readers_;
  std::shared_ptr<Range> range_;
  CheckpointRef frozen_;
};

class SharedTableTest : public testing::TestWithParam<FabricKind> {
 protected:
  ~SharedTableTest() override { DisarmFailPoints(); }
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
  // A drop that is lost on its way is made up for by the next owner (N4).
  static void Succeed(std::initializer_list<Owner*> owners) {
    for (Owner* o : owners) {
      ASSERT_NO_FATAL_FAILURE(o->Open());
      ASSERT_NO_FATAL_FAILURE(o->CollectOrphans());
    }
  }
};

// What StoCs are asked for here other tests ask for over verbs.
INSTANTIATE_TEST_SUITE_P(Fabrics, SharedTableTest, testing::Values(FabricKind::kTcp, FabricKind::kSim),
                         [](const auto& param) { return FabricKindName(param.param); });

const std::string kMiddle = KeyOf(kKeys * 5 / 8);

// A range is split in two: three manifests name one table for a while; then its two halves; then one; then
// the file goes.
TEST_P(SharedTableTest, M4ASplitSharesTablesUntilEachHalfHasRewrittenThem) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    Owner parent(&rig, 1), low(&rig, 2, "", kMiddle), high(&rig, 3, kMiddle, "");
    ASSERT_NO_FATAL_FAILURE(parent.Open());
    parent.Fill("first");
    parent.Settle();
    ASSERT_NO_FATAL_FAILURE(low.Import(parent.Cut("", kMiddle)));
    ASSERT_NO_FATAL_FAILURE(high.Import(parent.Cut(kMiddle, "")));
    parent.LetGoOfCut();
    low.model = {parent.model.begin(), parent.model.lower_bound(kMiddle)};
    high.model = {parent.model.lower_bound(kMiddle), parent.model.end()};
    std::vector<Uuid> both;
    for (const Uuid& t : low.Tables()) {
      if (high.Tables().contains(t)) both.push_back(t);
    }
    ASSERT_EQ(both.size(), 1u) << "one table lies across the middle";
    for (Owner* o : {&parent, &low, &high}) ASSERT_NO_FATAL_FAILURE(o->ExpectContents());

    ASSERT_NO_FATAL_FAILURE(parent.Clear());
    rig.RestartStocs();
    ASSERT_NO_FATAL_FAILURE(low.Open());  // nothing of it is in memory
    ASSERT_NO_FATAL_FAILURE(parent.Open());
    // of what it had dropped the loss of power brought back some
    ASSERT_NO_FATAL_FAILURE(parent.CollectOrphans());
    for (Owner* o : {&low, &high}) ASSERT_NO_FATAL_FAILURE(o->ExpectContents());

    low.Fill("second");
    low.Settle();
    EXPECT_TRUE(rig.Eventually([&] { return !low.Tables().contains(both[0]); })) << "compacted away here";
    ASSERT_NO_FATAL_FAILURE(high.Open());
    for (Owner* o : {&low, &high}) ASSERT_NO_FATAL_FAILURE(o->ExpectContents());
    EXPECT_TRUE(high.Tables().contains(both[0]));

    ASSERT_NO_FATAL_FAILURE(high.Clear());
    ASSERT_NO_FATAL_FAILURE(low.ExpectContents());
    const auto of_table = [&] {
      size_t n = 0;
      for (const std::string& f : rig.Files()) n += f.find(both[0].ToString()) != f.npos;
      return n;
    };
    ASSERT_NO_FATAL_FAILURE(Succeed({&parent, &high, &low}));
    EXPECT_TRUE(rig.Eventually([&] { return of_table() == 0; }));
    ASSERT_NO_FATAL_FAILURE(low.Clear());
    ASSERT_NO_FATAL_FAILURE(Succeed({&low}));
    EXPECT_TRUE(rig.NoFiles());
  });
}

// The owner dies between its references and the edit that counts: before that is written, in the middle,
// before the pointer names it.
TEST_P(SharedTableTest, N4ReferencesOfAnImportThatDidNotHappenAreCollected) {
  Run([&](FabricWorld* world) {
    for (int step = 0; step < 3; ++step) {
      for (const bool again : {false, true}) {
        SCOPED_TRACE(StrCat("step ", step, again ? ", tried again" : ""));
        Rig rig(world);
        Owner parent(&rig, 1), high(&rig, 3, kMiddle, "");
        ASSERT_NO_FATAL_FAILURE(parent.Open());
        parent.Fill("first");
        parent.Settle();
        const VersionEdit cut = parent.Cut(kMiddle, "");
        if (step == 2) {
          ASSERT_NO_FATAL_FAILURE(high.ImportInVain(cut));
        } else {
          if (step == 1) high.manifest_disk.Add({.op = DiskOp::kSync, .action = FaultAction::kEio});
          const auto fails = [step] { return step == 0 ? absl::DataLossError("failpoint") : OkStatus(); };
          ASSERT_TRUE(ArmFailPoint("import.referenced", 0, fails).ok());
          EXPECT_FALSE(high.TryImport(cut).ok());
          EXPECT_EQ(FailPointHits("import.referenced"), 1u);
        }
        DisarmFailPoints();
        high.manifest_disk.Clear();
        rig.RestartStocs();
        if (again) {  // what is left of the first try does no harm
          ASSERT_NO_FATAL_FAILURE(high.Import(cut));
          high.model = {parent.model.lower_bound(kMiddle), parent.model.end()};
        }
        parent.LetGoOfCut();
        ASSERT_NO_FATAL_FAILURE(parent.Clear());
        SleepFor(50 * kMillisecond);  // the parent's drops arrive
        EXPECT_FALSE(rig.Files().empty()) << "referenced, though nobody may ever read it";
        ASSERT_NO_FATAL_FAILURE(high.Open());
        ASSERT_NO_FATAL_FAILURE(high.CollectOrphans());
        ASSERT_NO_FATAL_FAILURE(high.ExpectContents());
        ASSERT_NO_FATAL_FAILURE(high.Clear());
        ASSERT_NO_FATAL_FAILURE(Succeed({&parent, &high}));
        EXPECT_TRUE(rig.NoFiles());
      }
    }
  });
}

// A new owner fences between an import's references and its edit, and imports itself.
TEST_P(SharedTableTest, F1AnImportThatWasOvertakenHarmsNobody) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    Owner parent(&rig, 1), late(&rig, 3, kMiddle, ""), next(&rig, 3, kMiddle, "");
    ASSERT_NO_FATAL_FAILURE(parent.Open());
    parent.Fill("first");
    parent.Settle();
    const VersionEdit cut = parent.Cut(kMiddle, "");
    ASSERT_TRUE(ArmFailPoint("import.referenced", 1, [&] {
                  for (const auto& s : rig.stocs)
                    EXPECT_TRUE(rig.client->stocs->Fence(s->id(), RangeId(3), Epoch(2), Soon()).ok());
                  next.Follow(late);
                  next.Import(cut);
                  return absl::FailedPreconditionError("the StoCs of its manifest say so");
                }).ok());
    EXPECT_FALSE(late.TryImport(cut).ok());
    DisarmFailPoints();
    parent.LetGoOfCut();
    next.model = {parent.model.lower_bound(kMiddle), parent.model.end()};
    ASSERT_NO_FATAL_FAILURE(parent.Clear());
    const auto drops_too_late = [&] {
      std::vector<Status> answers;
      for (const auto& s : rig.stocs) {
        const auto listed = rig.client->stocs->ListFiles(s->id(), RangeId(3), Epoch(9), {}, Soon());
        EXPECT_TRUE(listed.ok() && !listed->empty()) << listed.status();
        std::vector<StocFileId> files;
        for (size_t i = 0; listed.ok() && i < listed->size(); ++i) files.push_back((*listed)[i].file);
        answers.push_back(rig.client->stocs->DropReferences(s->id(), RangeId(3), Epoch(1), files, Soon()));
      }
      return answers;
    };
    for (const Status& s : drops_too_late()) EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
    ASSERT_NO_FATAL_FAILURE(next.ExpectContents());
    rig.RestartStocs();
    ASSERT_NO_FATAL_FAILURE(parent.Open());
    ASSERT_NO_FATAL_FAILURE(parent.CollectOrphans());  // nobody else keeps the files
    // of a StoC that knows of no fence: the reference is a later one
    for (const Status& s : drops_too_late()) EXPECT_TRUE(s.ok()) << s;
    ASSERT_NO_FATAL_FAILURE(next.Open());
    ASSERT_NO_FATAL_FAILURE(next.ExpectContents());
    ASSERT_NO_FATAL_FAILURE(next.Clear());
    ASSERT_NO_FATAL_FAILURE(Succeed({&next, &parent}));
    EXPECT_TRUE(rig.NoFiles());
  });
}

// An owner dies between the edit that drops a table and its references: its next owner drops them, and nobody
// else's.
TEST_P(SharedTableTest, N4ReferencesThatAnEditLeftBehindAreCollected) {
  Run([&](FabricWorld* world) {
    for (const bool creator_dies : {true, false}) {
      Rig rig(world);
      Owner parent(&rig, 1), high(&rig, 3, kMiddle, "");
      ASSERT_NO_FATAL_FAILURE(parent.Open());
      parent.Fill("first");
      parent.Settle();
      ASSERT_NO_FATAL_FAILURE(high.Import(parent.Cut(kMiddle, "")));
      parent.LetGoOfCut();
      high.model = {parent.model.lower_bound(kMiddle), parent.model.end()};
      Owner* const dies = creator_dies ? &parent : &high;
      Owner* const lives = creator_dies ? &high : &parent;
      dies->drops_references = false;
      ASSERT_NO_FATAL_FAILURE(dies->Clear());
      dies->Die();
      rig.RestartStocs();
      dies->drops_references = true;
      ASSERT_NO_FATAL_FAILURE(dies->Open());
      ASSERT_NO_FATAL_FAILURE(lives->Open());
      ASSERT_NO_FATAL_FAILURE(dies->CollectOrphans());
      ASSERT_NO_FATAL_FAILURE(lives->CollectOrphans());
      ASSERT_NO_FATAL_FAILURE(lives->ExpectContents());
      ASSERT_NO_FATAL_FAILURE(lives->Clear());
      ASSERT_NO_FATAL_FAILURE(Succeed({lives}));
      EXPECT_TRUE(rig.NoFiles());
    }
  });
}

// A StoC drains: the copies that one range uses there are made on another StoC, in the version and in a
// checkpoint; the other range's tables stay where they are. Then the other one's leave too, to the same
// place.
TEST_P(SharedTableTest, S5EachRangeLeavesAStocByItself) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    Owner parent(&rig, 1), high(&rig, 3, kMiddle, "");
    ASSERT_NO_FATAL_FAILURE(parent.Open());
    parent.Fill("first");
    parent.Settle();
    ASSERT_NO_FATAL_FAILURE(high.Import(parent.Cut(kMiddle, "")));
    parent.LetGoOfCut();
    high.model = {parent.model.lower_bound(kMiddle), parent.model.end()};
    ASSERT_TRUE(high.range()->checkpoints().Create("whole", Soon()).ok());
    for (Owner* o : {&high, &parent}) {
      o->planner = [](const TableInfo& table, const std::set<StocId>&) {
        const std::vector<StocId>& copies = table.fragments[0].stocs;
        const bool there = std::find(copies.begin(), copies.end(), StocId(1)) != copies.end();
        return there ? CopyPlan{{{0, StocId(1), StocId(3)}}, table.data_size, 1} : CopyPlan();
      };
      o->range()->jobs().LeaveStocs({StocId(1)});
      o->range()->rebuilder().Look();
      while (o->range()->rebuilder().NeedsRebuild()) EXPECT_TRUE(o->range()->rebuilder().RebuildOne());
      EXPECT_EQ(o->range()->rebuilder().TablesLeft({StocId(1)}).at(StocId(1)), 0u);
      for (Owner* any : {&parent, &high}) ASSERT_NO_FATAL_FAILURE(any->ExpectContents());
      EXPECT_TRUE(rig.Eventually([&] {  // nobody reads an older version any more
        const NamedFiles named = o->range()->versions().ReferencedFiles();
        return std::none_of(named.files().begin(), named.files().end(),
                            [](const auto& file) { return file.second.contains(StocId(1)); });
      }));
    }
    EXPECT_GT(rig.metrics.counter("nova_table_copies_made_total")->value(), 0u);
    ASSERT_TRUE(high.range()->checkpoints().Delete("whole").ok());
    for (Owner* o : {&parent, &high}) ASSERT_NO_FATAL_FAILURE(o->Clear());
    ASSERT_NO_FATAL_FAILURE(Succeed({&parent, &high}));
    EXPECT_TRUE(rig.NoFiles());
  });
}

// What a compaction wrote whose edit failed is nobody's once a later edit counts; before that the edit may be
// durable all the same.
TEST_P(SharedTableTest, M2OutputsOfAnEditThatFailedGoWithTheNextOne) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    Owner owner(&rig, 1);
    ASSERT_NO_FATAL_FAILURE(owner.Open());
    owner.Fill("first");
    owner.range()->SealActive();
    ASSERT_TRUE(owner.range()->FlushOne());
    owner.Fill("second");
    owner.range()->SealActive();
    ASSERT_TRUE(owner.range()->FlushOne());
    const auto stored = [&] { return rig.Tables(); };
    const size_t in_version = owner.Tables().size();
    ASSERT_EQ(stored(), in_version);
    owner.manifest_disk.Add({.op = DiskOp::kWrite, .action = FaultAction::kEio});
    EXPECT_FALSE(owner.range()->CompactOne());
    SleepFor(50 * kMillisecond);
    EXPECT_GT(stored(), in_version) << "it wrote tables, and they stay for now";
    EXPECT_EQ(owner.Tables().size(), stored()) << "they are not to be collected meanwhile (N4)";
    owner.manifest_disk.Clear();
    while (owner.range()->CompactOne()) {
    }
    EXPECT_TRUE(rig.Eventually([&] { return stored() == owner.Tables().size(); }))
        << stored() << ", " << owner.Tables().size();
    ASSERT_NO_FATAL_FAILURE(owner.ExpectContents());
    // Parts that were written before another failed were in no edit.
    owner.Fill("third");
    owner.range()->SealActive();
    ASSERT_TRUE(owner.range()->FlushOne());
    const size_t before = stored();
    owner.tables_to_place = 2;
    EXPECT_FALSE(owner.range()->CompactOne());
    EXPECT_LT(owner.tables_to_place, 0) << "two were written";
    EXPECT_TRUE(rig.Eventually([&] { return stored() == before; })) << stored() << ", " << before;
    owner.tables_to_place = 1 << 30;
    while (owner.range()->CompactOne()) {
    }
    ASSERT_NO_FATAL_FAILURE(owner.ExpectContents());
    // So are those of a flush that failed in the middle.
    owner.Fill("fourth");
    owner.range()->SealActive();
    ASSERT_TRUE(rig.Eventually([&] { return stored() == owner.Tables().size(); }));
    owner.tables_to_place = 2;
    EXPECT_FALSE(owner.range()->FlushOne());
    EXPECT_LT(owner.tables_to_place, 0) << "two were written";
    EXPECT_TRUE(rig.Eventually([&] { return stored() == owner.Tables().size(); }))
        << stored() << ", " << owner.Tables().size();
    owner.tables_to_place = 1 << 30;
    EXPECT_TRUE(owner.range()->FlushOne());
    ASSERT_NO_FATAL_FAILURE(owner.ExpectContents());
  });
}

// The edit was refused, and is durable all the same: the next owner reads what it names.
TEST_P(SharedTableTest, M2OutputsOfAnEditInDoubtAreKept) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    Owner owner(&rig, 1);
    ASSERT_NO_FATAL_FAILURE(owner.Open());
    for (const char* value : {"first", "second"}) {
      owner.Fill(value);
      owner.range()->SealActive();
      ASSERT_TRUE(owner.range()->FlushOne());
    }
    const std::set<Uuid> before = owner.Tables();
    owner.manifest_disk.Add({.op = DiskOp::kSync, .action = FaultAction::kEio});
    EXPECT_FALSE(owner.range()->CompactOne());
    for (const Uuid& t : before) EXPECT_TRUE(owner.Tables().contains(t)) << "its inputs stay";
    SleepFor(50 * kMillisecond);
    owner.manifest_disk.Clear();
    ASSERT_NO_FATAL_FAILURE(owner.Open());
    for (const Uuid& t : owner.Tables()) EXPECT_FALSE(before.contains(t)) << "the edit was written";
    ASSERT_NO_FATAL_FAILURE(owner.ExpectContents());
    EXPECT_GT(rig.Tables(), owner.Tables().size());
    ASSERT_NO_FATAL_FAILURE(owner.CollectOrphans());
    EXPECT_EQ(rig.Tables(), owner.Tables().size());
    ASSERT_NO_FATAL_FAILURE(owner.ExpectContents());
  });
}

// F1: a fenced owner adds and drops nothing.
TEST_P(SharedTableTest, F1ReferencesAreFenced) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const Creator creator{RangeId(1), Epoch(1), 0};
    StocClient* const client = rig.client->stocs.get();
    ASSERT_TRUE(client->WriteFile(StocId(1), FileId(1), creator, "x", Soon()).ok());
    ASSERT_TRUE(client->Fence(StocId(1), RangeId(2), Epoch(5), Soon()).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(
        client->AddReferences(StocId(1), RangeId(2), Epoch(4), {FileId(1)}, Soon())));
    ASSERT_TRUE(client->AddReferences(StocId(1), RangeId(2), Epoch(5), {FileId(1)}, Soon()).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(
        client->DropReferences(StocId(1), RangeId(2), Epoch(4), {FileId(1)}, Soon())));
    ASSERT_TRUE(client->DropReferences(StocId(1), RangeId(1), Epoch(1), {FileId(1)}, Soon()).ok());
    EXPECT_EQ(*client->ReadFileBlocking(StocId(1), FileId(1), 0, 10, Soon()), "x");
    EXPECT_TRUE(
        absl::IsNotFound(client->AddReferences(StocId(1), RangeId(2), Epoch(5), {FileId(2)}, Soon())));
  });
}

}  // namespace
}  // namespace nova
