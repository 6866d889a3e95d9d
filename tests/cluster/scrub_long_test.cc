// A thousand flipped bits and twenty lost files over all kinds, under StoCs that are processes: scrubs find
// all, and all is made good (scrub, S6; docs/testing.md, row 25). Never are both copies of a file damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "client/client.h"
#include "common/base/crc32c.h"
#include "common/base/random.h"
#include "stoc/file_header.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

namespace fs = std::filesystem;
using Kind = FileHeader::Kind;

constexpr int kStocs = 4;
constexpr int kRanges = 16;
constexpr int kKeys = 30'000;
constexpr int kFlips = 1000;
constexpr int kLost = 20;

class ScrubTest : public testing::Test {
 protected:
  // A copy of a file, as it lies under a StoC.
  struct Copy {
    std::string stoc;
    fs::path path;
    Kind kind;
  };

  void Start() {
    ProcessClusterOptions options;
    options.stocs = kStocs;
    options.ranges = kRanges;
    options.ltc_flags = {"--memtable_mb=1", "--table_mb=1", "--block_cache_mb=1", "--log_mode=persistent",
                         "--audit_period=5"};
    options.stoc_flags = {"--scrub_period=10", "--scrub_mb_per_s=1000"};
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    client_ = ConnectClient(cluster_->coordinators(), 20'000);
  }
  static std::string KeyOf(int i) {
    return StrCat("user", 1'000'000'000'000'000'000 + static_cast<uint64_t>(i) * 270'000'000'000'000,
                  ".scrub");
  }
  static std::string ValueOf(int i) { return StrCat(i, std::string(6000, static_cast<char>('a' + i % 26))); }
  void Fill() {
    for (int i = 0; i < kKeys; ++i) {
      const Result r = client_->Put(KeyOf(i), ValueOf(i));
      ASSERT_TRUE(r.ok()) << r.message;
    }
  }
  void ExpectAllRight(const char* when) {
    int wrong = 0;
    for (int i = 0; i < kKeys; ++i) {
      const GetResult r = client_->Get(KeyOf(i));
      if (r.ok() && r.value == ValueOf(i)) continue;
      if (++wrong == 1) ADD_FAILURE() << when << ": " << KeyOf(i) << ": " << r.message;
    }
    EXPECT_EQ(wrong, 0) << when;
  }
  int64_t Sum(const std::string& kind, const std::string& metric) {
    int64_t sum = 0;
    for (const std::string& name : cluster_->names()) {
      if (name.starts_with(kind))
        sum += std::max<int64_t>(0, ReadMetric(cluster_->metrics_address(name), metric));
    }
    return sum;
  }
  // Whole scrubs that each StoC has ended, of the one with the fewest.
  int64_t Passes() {
    int64_t fewest = INT64_MAX;
    for (const std::string& name : cluster_->names()) {
      if (!name.starts_with("stoc-")) continue;
      fewest = std::min(fewest, ReadMetric(cluster_->metrics_address(name), "nova_stoc_scrub_passes_total"));
    }
    return fewest;
  }
  // Flushes and compactions have ended: the same files for five seconds.
  bool WaitQuiet() {
    int quiet = 0;
    size_t files = 0;
    for (const Nanos until = Now() + 120 * kSecond; quiet < 5 && Now() < until; SleepFor(kSecond)) {
      const size_t now = AllFiles().size();
      quiet = now == files ? quiet + 1 : 0;
      files = now;
    }
    return quiet == 5;
  }

  static std::string Contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    std::string bytes(static_cast<size_t>(std::max<std::streamoff>(0, in.tellg())), '\0');
    in.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  static std::optional<FileHeader> HeaderOf(const fs::path& path) {
    char bytes[kFileHeaderBytes];
    std::ifstream in(path, std::ios::binary);
    if (!in.read(bytes, sizeof(bytes))) return std::nullopt;
    const auto header = FileHeader::Decode({bytes, sizeof(bytes)});
    return header.ok() ? std::optional(*header) : std::nullopt;
  }
  // By file, its copies.
  std::map<StocFileId, std::vector<Copy>> AllFiles() {
    std::map<StocFileId, std::vector<Copy>> all;
    for (int i = 0; i < kStocs; ++i) {
      const std::string stoc = StrCat("stoc-", i);
      std::error_code gone;
      for (const auto& entry : fs::directory_iterator(cluster_->directory() + "/" + stoc + "/files", gone)) {
        const auto header = HeaderOf(entry.path());
        if (header) all[header->file].push_back({stoc, entry.path(), header->kind});
      }
    }
    return all;
  }
  // One bit, anywhere in it; on the disk, not in a cache alone.
  bool Flip(const fs::path& path) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(0, std::ios::end);
    const auto size = static_cast<uint64_t>(std::max<std::streamoff>(0, file.tellg()));
    if (size == 0) return false;
    const auto at = static_cast<std::streamoff>(random_.Uniform(size));
    char byte;
    if (!file.seekg(at).read(&byte, 1)) return false;
    byte = static_cast<char>(byte ^ (1 << random_.Uniform(8)));
    return file.seekp(at).write(&byte, 1).flush().good();
  }
  // Files whose header cannot be read, or whose bytes fail the header's checksum.
  std::vector<std::string> BadFiles() {
    std::vector<std::string> bad;
    for (int i = 0; i < kStocs; ++i) {
      for (const auto& entry : fs::directory_iterator(StrCat(cluster_->directory(), "/stoc-", i, "/files"))) {
        const std::string bytes = Contents(entry.path());
        if (entry.path().extension() == ".tmp" || !fs::exists(entry.path())) continue;
        const auto header = FileHeader::Decode(std::string_view(bytes).substr(0, kFileHeaderBytes));
        if (!header.ok() || (header->kind == Kind::kWhole &&
                             Crc32c(std::string_view(bytes).substr(kFileHeaderBytes)) != header->data_crc))
          bad.push_back(entry.path().string());
      }
    }
    return bad;
  }

  Random random_{20};
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<Client> client_;
};

TEST_F(ScrubTest, S6AThousandFlippedBitsAndTwentyLostFilesAreFoundAndMadeGood) {
  Start();
  if (client_ == nullptr) return;
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_TRUE(WaitQuiet());
  const int64_t passes_before = Passes();
  while (Passes() < passes_before + 1) SleepFor(kSecond / 5);
  EXPECT_EQ(Sum("stoc-", "nova_stoc_scrub_found_total"), 0) << "of a cluster that nothing damages";

  // Of each file one copy, drawn, is the one that may be damaged.
  std::map<Kind, std::vector<Copy>> victims;
  for (const auto& [file, copies] : AllFiles()) {
    const Copy& copy = copies[random_.Uniform(copies.size())];
    victims[copy.kind].push_back(copy);
  }
  for (const Kind kind : {Kind::kWhole, Kind::kAppended, Kind::kLog}) ASSERT_FALSE(victims[kind].empty());
  std::set<fs::path> damaged;
  for (int lost = 0; lost < kLost; ++lost) {
    const size_t at = random_.Uniform(victims[Kind::kWhole].size());
    ASSERT_TRUE(fs::remove(victims[Kind::kWhole][at].path));
    damaged.insert(victims[Kind::kWhole][at].path);
    victims[Kind::kWhole].erase(victims[Kind::kWhole].begin() + static_cast<ptrdiff_t>(at));
  }
  int flips = 0;
  const auto flip = [&](const Copy& copy) {
    if (!Flip(copy.path)) return;
    damaged.insert(copy.path);
    ++flips;
  };
  for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
    for (const Copy& copy : victims[kind]) flip(copy);
  }
  const int of_others = flips;
  while (flips < kFlips) flip(victims[Kind::kWhole][random_.Uniform(victims[Kind::kWhole].size())]);
  std::printf("%d bits flipped, %d of them in manifests and logs, %d files lost: %zu files damaged\n", flips,
              of_others, kLost, damaged.size());

  // Two whole scrubs later everything was found; nobody reads, and nobody writes.
  const Nanos begun = Now();
  const int64_t passes = Passes();
  while (Passes() < passes + 2 && Now() < begun + 120 * kSecond) SleepFor(kSecond / 5);
  const int64_t found = Sum("stoc-", "nova_stoc_scrub_found_total");
  std::printf("%lld s: %lld found, %lld still damaged\n", static_cast<long long>((Now() - begun) / kSecond),
              static_cast<long long>(found), static_cast<long long>(Sum("stoc-", "nova_stoc_damaged_files")));
  // Tables are whole again; manifests and logs have gone, for others took their place.
  const auto bad = [&] {
    std::vector<std::string> left = BadFiles();
    for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
      for (const Copy& copy : victims[kind]) {
        if (fs::exists(copy.path)) left.push_back(copy.path.string());
      }
    }
    return left;
  };
  std::vector<std::string> left = bad();
  while ((Sum("stoc-", "nova_stoc_damaged_files") > 0 || !left.empty()) && Now() < begun + 300 * kSecond) {
    SleepFor(kSecond);
    left = bad();
  }
  std::printf("%lld s: healed\n", static_cast<long long>((Now() - begun) / kSecond));
  EXPECT_EQ(Sum("stoc-", "nova_stoc_damaged_files"), 0);
  EXPECT_TRUE(left.empty()) << left.size() << " files are still damaged, " << left.front();
  // Some are healed with another part of their table, before a scrub comes to them.
  EXPECT_GT(found, static_cast<int64_t>(damaged.size() / 2));
  const auto gone =
      std::count_if(damaged.begin(), damaged.end(), [](const fs::path& p) { return !fs::exists(p); });
  EXPECT_GE(Sum("stoc-", "nova_stoc_files_healed_total") + gone, static_cast<int64_t>(damaged.size()));
  ExpectAllRight("healed");
  EXPECT_EQ(Sum("ltc-", "nova_table_reads_without_good_copy_total"), 0);

  // From disks alone: manifests, logs and tables are read by other processes.
  for (const std::string& name : cluster_->names()) {
    if (name.starts_with("ltc-")) cluster_->Kill(name);
  }
  for (const std::string& name : cluster_->names()) {
    if (!name.starts_with("ltc-")) continue;
    const Status back = cluster_->Restart(name);
    ASSERT_TRUE(back.ok()) << back;
  }
  const Status open = cluster_->WaitOpen(Now() + 60 * kSecond);
  ASSERT_TRUE(open.ok()) << open;
  ExpectAllRight("read by other processes");
  // Who was asked nothing by the cluster says the same.
  std::string said;
  EXPECT_EQ(cluster_->Fsck({"--mb_per_s=1000", "--orphan_grace_s=60"}, &said), 0) << said;
  EXPECT_NE(said.find("\nclean\n"), std::string::npos) << said;
  std::printf("%s", said.c_str());
}

}  // namespace
}  // namespace nova
