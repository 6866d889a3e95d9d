// nova_tester: the storage tester (common/base/storage_tester.h) over this engine, its peers and, with
// --coordinators, an empty cluster: the same operations on each, every answer checked, and the transcripts of
// all compared.
//
//   nova_tester --engines=nova,rocksdb,leveldb-small --seeds=10 --operations=20000
#include <gflags/gflags.h>

#include <cstdio>
#include <filesystem>

#include "client/client.h"
#include "common/base/flags.h"
#include "common/base/storage_tester.h"
#include "experiments/peers/store.h"

DEFINE_string(engines, "nova,rocksdb,rocksdb-tuned,leveldb-small", "engines to test");
DEFINE_string(coordinators, "", "of an empty cluster that is tested too: host:port,host:port");
DEFINE_uint64(seeds, 5, "runs, each with other operations");
DEFINE_uint64(first_seed, 1, "of them");
DEFINE_uint64(operations, 20'000, "of a run");

namespace nova {

void Fail(const std::string& what) {
  std::fprintf(stderr, "nova_tester: %s\n", what.c_str());
  std::_Exit(1);
}

namespace {

// An engine on a directory; disturbed by closing and opening it.
class EngineUnderTest : public TestedStore {
 public:
  EngineUnderTest(const Engine& engine, const std::string& directory) : engine_(engine) {
    std::filesystem::create_directories(directory);
    options_.directory = directory;
    options_.memtable_bytes = 8 << 20;  // small: flushes and compactions happen
    options_.cache_bytes = 1 << 20;
    options_.log = true;
    store_ = engine_.open(options_);
  }
  Status Put(const std::string& key, const std::string& value) override {
    store_->Put(key, value);
    return OkStatus();
  }
  Status Delete(const std::string& key) override {
    store_->Delete(key);
    return OkStatus();
  }
  Status DeleteRange(const std::string& begin, const std::string& end) override {
    store_->DeleteRange(begin, end);
    return OkStatus();
  }
  StatusOr<std::string> Get(const std::string& key) override {
    std::string value;
    if (!store_->Get(key, &value)) return absl::NotFoundError(key);
    return value;
  }
  StatusOr<Entries> Scan(const std::string& from, size_t limit) override {
    Entries entries;
    store_->Scan(from, limit, [&](std::string_view key, std::string_view value) {
      entries.emplace_back(key, value);
      return true;
    });
    return entries;
  }
  Status Disturb() override {
    store_ = nullptr;
    store_ = engine_.open(options_);
    return OkStatus();
  }

 private:
  const Engine engine_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

class ClusterUnderTest : public TestedStore {
 public:
  explicit ClusterUnderTest(Client* client) : client_(client) {}
  Status Put(const std::string& key, const std::string& value) override {
    return StatusOf(client_->Put(key, value));
  }
  Status Delete(const std::string& key) override { return StatusOf(client_->Delete(key)); }
  Status DeleteRange(const std::string& begin, const std::string& end) override {
    return StatusOf(client_->DeleteRange(begin, end));
  }
  StatusOr<std::string> Get(const std::string& key) override {
    GetResult r = client_->Get(key);
    if (r.outcome == Outcome::kNotFound) return absl::NotFoundError(key);
    NOVA_RETURN_IF_ERROR(StatusOf(r));
    return std::move(r.value);
  }
  StatusOr<Entries> Scan(const std::string& from, size_t limit) override {
    ScanResult r = client_->Scan(from, limit);
    NOVA_RETURN_IF_ERROR(StatusOf(r));
    return std::move(r.entries);
  }
  // Leaves the cluster as it was: empty.
  Status Clear() { return DeleteRange("", ""); }

 private:
  static Status StatusOf(const Result& r) { return r.ok() ? OkStatus() : ToStatus(r.outcome, r.message); }
  Client* const client_;
};

int Main(int argc, char** argv) {
  ParseFlags("the storage tester over this engine and its peers", &argc, &argv);
  RefuseArguments(argc, argv);
  CheckFlagRange("seeds", FLAGS_seeds, 1, 1'000'000'000);
  CheckFlagRange("operations", FLAGS_operations, 4, 1'000'000'000);
  const std::vector<Engine> engines = EnginesNamed(FLAGS_engines);
  std::unique_ptr<Client> client;
  if (!FLAGS_coordinators.empty()) {
    ClientOptions options;
    options.coordinators = SplitList(FLAGS_coordinators);
    auto connected = Client::Connect(options);
    if (!connected.ok()) Fail(connected.status().ToString());
    client = *std::move(connected);
  }
  char root[] = "/tmp/nova-tester-XXXXXX";
  if (mkdtemp(root) == nullptr) Fail("no directory can be made under /tmp");
  const std::vector<OperationMix> mixes = {OperationMix::Balanced(), OperationMix::WriteHeavy(),
                                           OperationMix::DeleteHeavy(), OperationMix::ReadHeavy()};
  const double known_key_rates[] = {0.1, 0.5, 0.9};
  for (uint64_t seed = FLAGS_first_seed; seed < FLAGS_first_seed + FLAGS_seeds; ++seed) {
    StorageTesterOptions options;
    options.seed = seed;
    options.operations = FLAGS_operations;
    options.mix = mixes[seed % mixes.size()];
    options.known_key_rate = known_key_rates[seed % 3];
    options.disturb_every = FLAGS_operations / 4;
    std::vector<std::pair<std::string, uint64_t>> digests;
    const auto test = [&](const std::string& name, TestedStore* store) {
      const auto digest = TestStorage(store, options);
      if (!digest.ok()) Fail(name + ": " + digest.status().ToString());
      digests.emplace_back(name, *digest);
    };
    for (const Engine& engine : engines) {
      const std::string directory = std::string(root) + "/" + engine.name;
      {
        EngineUnderTest store(engine, directory);
        test(engine.name, &store);
      }
      std::filesystem::remove_all(directory);
    }
    if (client != nullptr) {
      ClusterUnderTest store(client.get());
      test("cluster", &store);
      if (const Status s = store.Clear(); !s.ok()) Fail("cluster: " + s.ToString());
    }
    for (const auto& [name, digest] : digests) {
      if (digest != digests[0].second)
        Fail("seed " + std::to_string(seed) + ": " + name + " and " + digests[0].first + " disagree");
    }
    std::printf("seed %llu: %zu stores agree, digest %016llx\n", static_cast<unsigned long long>(seed),
                digests.size(), static_cast<unsigned long long>(digests[0].second));
  }
  std::filesystem::remove_all(root);
  return 0;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
