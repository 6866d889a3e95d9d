// Checkpoints of all ranges: asked in parallel, each range's answer added up.
#include <algorithm>

#include "client/client_rep.h"

namespace nova {

void ClientRep::CheckpointOf(const Target& target, const OpRef& op, CheckpointVerb verb,
                             const std::string& name, CheckpointAnswer* all) {
  const Nanos deadline = verb == CheckpointVerb::kList ? ReadDeadline(*op) : op->deadline_ns;
  op->lane->ltc->Checkpoint(
      target.address, {target.range, target.epoch, verb, name}, deadline,
      [this, op, verb, all](Outcome o, const CheckpointReply& reply, std::string_view text) {
        if (!text.empty()) op->last_where += StrCat(": ", absl::string_view(text.data(), text.size()));
        if (o == Outcome::kConditionFailed && all->exists.empty()) all->exists = op->last_where;
        if (verb == CheckpointVerb::kList && RetriesRead(op, o)) return;
        // not complete, or a delete that was not
        if (verb == CheckpointVerb::kDelete && o == Outcome::kNotFound) {
          ++all->not_found;
          o = Outcome::kOk;
        }
        for (const CheckpointReply::Entry& e : reply.entries) {
          CheckpointSummary& sum = all->checkpoints[std::string(e.name)];
          sum.created_ms = sum.ranges == 0 ? static_cast<int64_t>(e.created_ms)
                                           : std::min(sum.created_ms, static_cast<int64_t>(e.created_ms));
          ++sum.ranges;
          sum.bytes += e.bytes;
          sum.pinned_bytes += e.pinned_bytes;
        }
        verb == CheckpointVerb::kList ? Finish(op.get(), o) : EndWrite(op, o);
      });
}

void ClientRep::Checkpoint(CheckpointVerb verb, const std::string& name,
                           std::function<void(CheckpointAnswer)> done) {
  struct Asking {
    CheckpointAnswer all;
    size_t waiting = 1;
  };
  const auto asking = std::make_shared<Asking>();
  // As a snapshot is taken: the first range's turn, for the configuration may know no ranges yet; from there
  // all at once.
  auto op = NewOp("checkpoint", key_prefix);
  const auto arrived = [asking, done = std::move(done)](Result result) {
    if (!result.ok() && asking->all.result.ok()) asking->all.result = std::move(result);
    if (--asking->waiting == 0) done(std::move(asking->all));
  };
  op->end = arrived;
  op->send = [this, asking, arrived, verb, name](const Target&, const OpRef& first) {
    for (const auto& [lower, route] : first->lane->configuration->ranges) {
      auto part = NewOp("checkpoint", lower);
      part->deadline_ns = first->deadline_ns;
      part->end = [asking, arrived](Result result) {
        asking->all.done += result.ok();
        arrived(std::move(result));
      };
      part->send = [this, asking, verb, name](const Target& target, const OpRef& op) {
        CheckpointOf(target, op, verb, name, &asking->all);
      };
      ++asking->waiting;
      ++asking->all.ranges;
      StartOn(first->lane, std::move(part));
    }
    Finish(first.get(), Outcome::kOk);
  };
  Start(std::move(op));
}

ClientRep::CheckpointAnswer ClientRep::CheckpointAndWait(CheckpointVerb verb, const std::string& name) {
  CheckpointAnswer answer;
  Notification arrived;
  Checkpoint(verb, name, [&](CheckpointAnswer a) {
    answer = std::move(a);
    arrived.Notify();
  });
  arrived.Wait();
  if (answer.result.outcome == Outcome::kConditionFailed)
    answer.result.message += StrCat(" (", answer.exists, ")");
  // An outcome that says "not applied" is of one range, and not of all.
  const bool changes = verb == CheckpointVerb::kRestore || verb == CheckpointVerb::kDelete;
  if (changes && !answer.result.ok() && answer.done > 0) {
    answer.result.outcome = Outcome::kUnknown;
    answer.result.message += StrCat(" (done in ", answer.done, " of ", answer.ranges, " ranges)");
  }
  return answer;
}

Result Client::CreateCheckpoint(const std::string& name) {
  return rep_->CheckpointAndWait(CheckpointVerb::kCreate, name).result;
}

CheckpointsResult Client::ListCheckpoints() {
  auto answer = rep_->CheckpointAndWait(CheckpointVerb::kList, "");
  CheckpointsResult r{std::move(answer.result), {}, answer.ranges};
  for (auto& [name, summary] : answer.checkpoints) {
    summary.name = name;
    r.checkpoints.push_back(std::move(summary));
  }
  return r;
}

Result Client::DeleteCheckpoint(const std::string& name) {
  auto answer = rep_->CheckpointAndWait(CheckpointVerb::kDelete, name);
  if (answer.result.ok() && answer.not_found == answer.ranges)
    return {Outcome::kNotFound, StrCat("checkpoint: NotFound: ", name)};
  return std::move(answer.result);
}

Result Client::RestoreCheckpoint(const std::string& name) {
  const auto known = rep_->CheckpointAndWait(CheckpointVerb::kList, "");
  if (!known.result.ok()) return known.result;
  const auto found = known.checkpoints.find(name);
  const uint64_t ranges = found == known.checkpoints.end() ? 0 : found->second.ranges;
  if (ranges < known.ranges || ranges == 0) {
    return {Outcome::kNotFound, StrCat("checkpoint: NotFound: ", ranges, " of ", known.ranges,
                                       " ranges have ", name, "; nothing was restored")};
  }
  return rep_->CheckpointAndWait(CheckpointVerb::kRestore, name).result;
}

}  // namespace nova
