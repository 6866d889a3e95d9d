#include "ltc/engine/flush_policy.h"

#include <algorithm>

namespace nova {

FlushHistory After(const FlushHistory& before, const FlushResult& f) {
  const auto kept = static_cast<double>(f.kept_entries);
  FlushHistory h;
  h.replaced = (before.replaced + static_cast<double>(f.replaced_entries) / std::max(kept, 1.0)) / 2;
  h.took_ns = before.took_ns / 2 + f.took_ns;
  h.busy_ns = before.busy_ns / 2 + f.busy_ns;
  h.waits = h.busy_ns * 3 < h.took_ns * (before.waits ? 2 : 1);
  h.one_at_a_time = h.waits && f.one_disk && h.replaced >= 1.0 / 16;
  h.round_ns = static_cast<Nanos>(static_cast<double>(f.took_ns) / std::max(f.share, 0.01));
  h.kept = kept / std::max(static_cast<double>(f.written_entries), 1.0);
  return h;
}

double PartLeft(const FlushWork& work, double keeps) {
  constexpr double kFewest = 1.0 / 1024;
  const auto left = static_cast<double>(work.entries - std::min(work.entries, work.done));
  const double part = std::clamp(keeps, kFewest, 1.0);
  const double all = std::max(1.0, part * static_cast<double>(work.entries));
  return std::clamp(all - static_cast<double>(work.stored), part * left, left) / all;
}

namespace {

// Rounds hold the same keys again and again, or compactions are behind.
bool IsBestInGroups(const FlushSituation& s) {
  return s.history.RoundsShareKeys() || s.level0_runs * 2 >= s.level0_slow_runs;
}

// Of the rounds that no flush has claimed.
double WaitingShare(const FlushSituation& s) {
  double share = 0;
  for (const FlushCandidate& r : s.rounds) share += r.share;
  return share;
}

bool IsBetterLater(const FlushSituation& s) {
  const int room = s.max_rounds - 1;  // for sealed rounds
  const double waiting = WaitingShare(s);
  if (s.others_are_written && s.history.one_at_a_time) return true;
  // A larger group comes together.
  if (s.others_are_written && IsBestInGroups(s) && waiting < room / 2) return true;
  if (!s.holds_rounds_back || waiting * 2 >= room) return false;
  return std::none_of(s.rounds.begin(), s.rounds.end(), [&s](const FlushCandidate& r) {
    const bool is_asked_for = r.number <= s.asked_upto, is_due = s.now_ns - r.sealed_ns >= s.lag_ns;
    return is_asked_for || is_due || r.has_tombstones || r.has_checkpoint;
  });
}

}  // namespace

size_t RoundsToFlush(const FlushSituation& s) {
  constexpr double kOverRoom = 2;
  if (s.rounds.empty() || IsBetterLater(s)) return 0;
  double most = 1;
  if (IsBestInGroups(s) || s.holds_rounds_back) {
    // Where rounds are merged in memory, a smaller group leaves more of them to be younger ones.
    most = s.groups_are_merged && s.history.one_at_a_time ? s.max_rounds * 3 / 8 : s.max_rounds / 2;
    // Writers have to do with what other rounds leave until the group is written. What rounds share is
    // written once: there a group is through early.
    if (!s.history.RoundsShareKeys() && !s.holds_rounds_back)
      most = std::min(most, kOverRoom * (s.max_rounds - 1 - WaitingShare(s)));
    most = std::max(1.0, most);
  }
  double share = 0;
  size_t n = 0;
  for (const FlushCandidate& r : s.rounds) {
    if (r.pinned || r.merging || r.flushing) break;
    share += r.share;
    if (share > most && n > 0) break;
    ++n;
    if (r.has_checkpoint) break;
  }
  return n;
}

MergeChoice RoundsToMerge(std::span<const MergeCandidate> youngest_first, int max_rounds, double room) {
  constexpr double kWorthIt = 0.75;  // keys for each entry
  constexpr double kLarger = 3;
  MergeChoice choice;
  for (const MergeCandidate& r : youngest_first) {
    if (r.busy) break;
    const double together = choice.left_share + r.left_share;
    if (choice.rounds == 0 ? r.merged || r.left_share > kWorthIt * r.share
                           : r.left_share > kLarger * choice.left_share || together > max_rounds / 4.0)
      break;
    if (kMergeSlack * together > room) break;
    choice.left_share = together;
    ++choice.rounds;
  }
  return choice;
}

}  // namespace nova
