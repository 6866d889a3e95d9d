#include "tests/cluster_sim/status_oracle.h"

#include <nlohmann/json.hpp>

#include "tests/cluster_sim/sim_fsck.h"

namespace nova {
namespace {

constexpr Nanos kAnswerWithin = 300 * kMillisecond;

// Of the things of one kind, empty: no more is promised than there is.
std::string TooMuch(const nlohmann::json& promised, const CopiesFound& found) {
  const uint32_t fewest = promised["fewest"], wanted = promised["configured"];
  if (promised["all"] == 0 || found.all == 0) return "";
  if (fewest > found.fewest())
    return StrCat("promised are ", fewest, " copies at least, and one has ", found.fewest());
  if (promised["degraded"] == 0 && found.fewest() < wanted)
    return StrCat("none is said to have fewer than ", wanted, " copies, and one has ", found.fewest());
  return "";
}

}  // namespace

std::map<std::string, std::string> PromisedTooMuch(const std::string& status, const CheckReport& found) {
  std::map<std::string, std::string> all;
  const auto json = nlohmann::json::parse(status);
  const auto& copies = json["copies"];
  const auto compare = [&](const char* kind, const CopiesFound& are_found) {
    if (std::string text = TooMuch(copies[kind], are_found); !text.empty()) all[kind] = std::move(text);
  };
  compare("log_groups", found.log_groups);
  compare("manifests", found.manifests);
  if (copies["ranges_whose_tables_are_not_heard_of"] == 0) compare("tables", found.table_parts);
  return all;
}

std::map<std::string, Incarnation> StatusOracle::Running() const {
  std::map<std::string, Incarnation> running;
  for (const std::string& name : cluster_->Names("stoc")) {
    if (cluster_->Runs(name) && cluster_->stoc(name) != nullptr)
      running[name] = cluster_->stoc(name)->self().incarnation;
  }
  return running;
}

std::string StatusOracle::Look() {
  const auto status = cluster_->NewCoordinatorClient().StatusJson(Now() + kAnswerWithin);
  std::map<std::string, Incarnation> running = Running();
  std::vector<std::string> names;
  for (const auto& [name, incarnation] : running) names.push_back(name);
  CheckOptions options{.quick = true, .settle_ns = 0, .orphan_grace_ns = 0};
  const auto found = CheckDisks(cluster_, store_.get(), names, options);
  if (running != running_ || running != Running() || !status.ok() || !found.ok()) {
    running_ = std::move(running);
    since_ns_.clear();
    return "";
  }
  ++looks_;
  const std::map<std::string, std::string> too_much = PromisedTooMuch(*status, *found);
  std::erase_if(since_ns_, [&](const auto& since) { return !too_much.contains(since.first); });
  for (const auto& [kind, text] : too_much) {
    const Nanos since = since_ns_.try_emplace(kind, Now()).first->second;
    if (Now() - since >= kLate) return StrCat("status: ", kind, ": ", text, "\n", RenderReport(*found));
  }
  return "";
}

}  // namespace nova
