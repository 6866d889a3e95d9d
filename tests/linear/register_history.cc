#include "tests/linear/register_history.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/status.h"

namespace nova {
namespace {

// What a value is called in a history: what comes before its padding.
std::string NameOf(const std::optional<std::string>& value) {
  return value ? value->substr(0, value->find(';')) : "-";
}

}  // namespace

void RegisterHistory::Add(int client, Nanos call, std::optional<Nanos> returned, std::string_view key,
                          std::string_view operation) {
  std::string line = StrCat(client, " ", call, " ", returned ? StrCat(*returned) : "-", " ", std::string(key),
                            " ", std::string(operation), "\n");
  MutexLock lock(&mu_);
  lines_.push_back(std::move(line));
}

size_t RegisterHistory::size() const {
  MutexLock lock(&mu_);
  return lines_.size();
}

Status RegisterHistory::WriteTo(const std::string& path) const {
  MutexLock lock(&mu_);
  std::ofstream file(path);
  for (const std::string& line : lines_) file << line;
  file.close();
  return file ? OkStatus() : absl::UnavailableError("cannot write " + path);
}

bool RegisterHistory::Judge(std::string* verdict) const {
  const std::string path =
      StrCat(std::filesystem::temp_directory_path().string(), "/nova-registers-", getpid(), ".txt");
  const Status written = WriteTo(path);
  if (!written.ok()) {
    *verdict = std::string(written.message());
    return false;
  }
  FILE* const pipe = popen((NOVA_BINARY_DIR "/bin/nova_linear " + path + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    *verdict = "nova_linear does not start";
    return false;
  }
  std::array<char, 4096> piece;
  verdict->clear();
  while (fgets(piece.data(), piece.size(), pipe) != nullptr) *verdict += piece.data();
  const int status = pclose(pipe);
  std::filesystem::remove(path);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

RegisterLoad::RegisterLoad(Client* client, RegisterHistory* history, const RegisterLoadOptions& options)
    : client_(client), history_(history), options_(options) {}

std::string RegisterLoad::Key(uint64_t which) const {
  const uint64_t generation = history_->size() / (options_.keys.size() * options_.operations_per_key);
  return StrCat(options_.keys[which % options_.keys.size()], "/", generation);
}

std::string RegisterLoad::FreshValue() {
  std::string value = StrCat(options_.client, ".", ++values_, ";");
  value.append(random_.Uniform(options_.value_bytes), 'v');
  return value;
}

void RegisterLoad::Step() {
  const uint64_t which = random_.Uniform(options_.keys.size());
  const std::string key = Key(which);
  const uint64_t dice = random_.Uniform(100);
  if (dice < 30) return Write(key, /*remove=*/false);
  if (dice < 36) return Write(key, /*remove=*/true);
  if (dice < 62) return CompareAndSwap(key);
  if (dice < 90) return Read(key);
  if (dice < 95) return ReadTwo(key, Key(which + 1));
  ReadByScan(key);
}

void RegisterLoad::Write(const std::string& key, bool remove) {
  const std::string value = FreshValue();
  const Nanos call = Now();
  const Result r = remove ? client_->Delete(key) : client_->Put(key, value);
  if (r.effect() == Effect::kNotApplied) return;
  const std::optional<Nanos> returned = r.effect() == Effect::kUnknown ? std::nullopt : std::optional(Now());
  history_->Add(options_.client, call, returned, key, remove ? "delete" : "put " + NameOf(value));
  last_seen_[key] = remove ? std::nullopt : std::optional(value);
}

// From what this client saw last, which others may have replaced.
void RegisterLoad::CompareAndSwap(const std::string& key) {
  const auto seen = last_seen_.find(key);
  const std::optional<std::string> expected = seen == last_seen_.end() ? std::nullopt : seen->second;
  const std::optional<std::string> desired = random_.OneIn(8) ? std::nullopt : std::optional(FreshValue());
  const Nanos call = Now();
  const Result r = client_->CompareAndSwap(key, expected, desired);
  const bool differed = r.outcome == Outcome::kConditionFailed;
  if (r.effect() == Effect::kNotApplied && !differed) return;
  const bool known = r.effect() != Effect::kUnknown;
  history_->Add(options_.client, call, known ? std::optional(Now()) : std::nullopt, key,
                StrCat("cas ", NameOf(expected), " ", NameOf(desired),
                       !known     ? ""
                       : differed ? " no"
                                  : " yes"));
  if (!differed) last_seen_[key] = desired;
}

void RegisterLoad::Saw(const std::string& key, Nanos call, Outcome outcome, const std::string& value) {
  if (outcome != Outcome::kOk && outcome != Outcome::kNotFound) return;
  const std::optional<std::string> seen = outcome == Outcome::kOk ? std::optional(value) : std::nullopt;
  history_->Add(options_.client, call, Now(), key, "get " + NameOf(seen));
  last_seen_[key] = seen;
}

void RegisterLoad::Read(const std::string& key) {
  const Nanos call = Now();
  const GetResult r = client_->Get(key);
  Saw(key, call, r.outcome, r.value);
}

void RegisterLoad::ReadTwo(const std::string& key, const std::string& other) {
  const std::vector<std::string_view> keys = {key, other};
  const Nanos call = Now();
  const MultiGetResult r = client_->MultiGet(keys);
  if (!r.ok()) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    Saw(std::string(keys[i]), call, r.values[i] ? Outcome::kOk : Outcome::kNotFound,
        r.values[i].value_or(""));
  }
}

void RegisterLoad::ReadByScan(const std::string& key) {
  const Nanos call = Now();
  const ScanResult r = client_->Scan(key, {.limit = 1, .to = key + '\0'});
  if (!r.ok()) return;
  Saw(key, call, r.entries.empty() ? Outcome::kNotFound : Outcome::kOk,
      r.entries.empty() ? "" : r.entries[0].second);
}

}  // namespace nova
