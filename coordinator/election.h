// Election: who leads. The one who creates the ephemeral /coord_leader and, in the same multi, raises
// coord_epoch in /coord, leads; every change it makes is a multi with check(/coord) (authority, C1).
//
// A leader answers and grants only while its session is known to live: until the send time of its last
// answered request + session timeout (1 - rho) (lease, C3).
//
// Thread safety: all; Campaign, ProveAuthority, LowerLongestLease and Vacate wait for the store, and are
//                coord.main's.
// Locks:         its own, a leaf, never held while the store is asked.
// Ownership:     holds the store of its latest term until DropStore.
// Errors:        of Campaign: AlreadyExists: another one leads; Aborted: campaign again; else the store's. Of
//                CheckLeading: NotLeadingError (leader_channel.h).
#pragma once

#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/config/config_store.h"
#include "coordinator/znodes.h"

namespace nova {

// One time of leading.
struct Term {
  std::shared_ptr<ConfigStore> store;
  CoordEpoch coord_epoch;     // its number (authority, C1)
  int64_t coord_version = 0;  // of /coord
  Nanos max_lease_ns = 0;     // as in /coord
  Uuid nonce;                 // of its campaign
};

struct ElectionOptions {
  std::string name;             // of this coordinator
  std::string address;          // where others reach it
  Nanos lease_ns = 0;           // that it grants
  double clock_rate_error = 0;  // rho of C3
  Uuid cluster;                 // whose coordinator this is
};

class Election {
 public:
  explicit Election(ElectionOptions options) : options_(std::move(options)) {}

  // Tries to become the leader, once. NotFound, DataLoss: nobody can, for /cluster or /coord is not there, or
  // does not decode. FailedPrecondition: the store is another cluster's.
  StatusOr<Term> Campaign(const std::shared_ptr<ConfigStore>& store);
  // Leaves in order when the session still lives; else the node goes with the session.
  void Vacate(ConfigStore* store);
  // No term's any more: the session ends.
  void DropStore();

  // The term that Campaign gave begins; it leads from Lead to StepDown.
  void Begin(const Term& term);
  void Lead();
  void StepDown();
  // Aborted: another one leads. No answer is no proof, and no error: AuthorityUntil runs out by itself.
  Status ProveAuthority();
  // Once the leases of earlier leaders have ended, at `ended_ns`, later leaders need not wait for them (new
  // leader, C2).
  void LowerLongestLease(Nanos ended_ns);

  Nanos AuthorityUntil() const;  // our session lives until then at least; no grant after it
  // The same, read in one step with who leads: NotLeadingError as well where this process leads another term.
  StatusOr<Nanos> AuthorityIn(CoordEpoch term) const;
  Status CheckLeading() const;                        // leads, and has authority now
  StatusOr<Term> CurrentTerm() const;                 // as CheckLeading
  bool CarriesOut(CoordEpoch term, Term* out) const;  // it is the term that leads now
  Term LatestTerm() const;                            // also one that is over
  // Why nobody can become the leader, as Campaign saw it last, for people; empty: somebody can.
  std::string WhyNone() const;
  // Who leads, as far as known, for people.
  std::string LeaderText() const;

 private:
  // Campaign, from that version of /coord.
  StatusOr<Term> CampaignAfter(const std::shared_ptr<ConfigStore>& store, const CoordRecord& before,
                               int64_t version);
  // Whether the multi of Campaign, whose answer was lost, has made us the leader.
  StatusOr<Term> SettleElection(const std::shared_ptr<ConfigStore>& store, const CoordRecord& mine,
                                int64_t version_before);
  Nanos AuthorityUntilLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Status CheckLeadingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ElectionOptions options_;
  mutable Mutex mu_;
  bool leading_ ABSL_GUARDED_BY(mu_) = false;
  Term term_ ABSL_GUARDED_BY(mu_);         // the latest
  Status no_record_ ABSL_GUARDED_BY(mu_);  // see WhyNone
  std::string leader_name_ ABSL_GUARDED_BY(mu_);
  std::string leader_address_ ABSL_GUARDED_BY(mu_);  // of another one, as far as known
};

}  // namespace nova
