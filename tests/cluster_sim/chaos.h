// Chaos: clients work on a cluster while its nodes are killed, stopped, drained, hung, cut off, lose disks or
// have bad ones, at random moments and by clocks that run wrong; then all heals, and every acknowledged write
// must be there, in a cluster that is whole again (protocol.md: H1-H31 end to end).
//
// What the cluster is to survive bounds the faults: StoCs are killed only while each log group keeps a member
// (R-1 of R), and one disk is lost in a run at most, of which each table has another copy.
//
// Ownership: none.   Errors: the first violation, as text; empty: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cluster_sim/scenario.h"

namespace nova {

// Faults that, by themselves, rarely come in the order in which a rule is needed, while clients that write,
// or only read, have not learned who owns a range now.
enum Scene {
  // An LTC is cut from the coordinators, its ranges move, and it serves on: revocation (F1), lease (C3), wait
  // (R5).
  kUnheardOwner,
  // The leader loses the store, and an LTC does not reach the next one: new leader (C2).
  kOldLeader,
  // An LTC that lets go of a range is slow to hear that its record says so: release (R5).
  kSlowRelease,
  // A StoC is lost, comes back, and deletes late what it has too much, while another one is lost: rebuild
  // (S5).
  kReturn,
  // A StoC's disk is gone, and it is back with an empty one; once in a run: range record (N3), collection
  // (N4).
  kOtherDisk,
  kScenes
};

struct ChaosOptions {
  SimClusterOptions cluster = SmallCluster();
  int ranges = 6;
  int clients = 4;
  int readers = 2;  // more clients, which only read
  int keys_per_client = 20;
  Nanos duration_ns = 12 * kSecond;
  bool kill_stocs = true;
  bool kill_ltcs = true;
  bool kill_coordinators = true;
  bool pauses = true;
  bool cuts = true;
  bool orderly = true;      // nodes are drained and stopped
  bool bad_disks = true;    // of StoCs: errors, full, slow, hung
  bool lost_disks = true;   // one, where tables have two copies or more
  bool wall_clocks = true;  // of StoCs and coordinators: they jump by an hour
  bool disasters = true;    // faults of several nodes at one moment
  bool scenes = true;       // faults in the order in which a rule is needed
  int only_scene = -1;      // of Scene; -1: each in its turn
  bool settings = true;     // of LTCs change
  bool all_kinds = true;    // of operations
};
ChaosOptions ChaosOf(uint64_t seed);  // sizes, threads, delays and clocks differ by the seed

struct ChaosResult {
  std::string violation;
  uint64_t acknowledged = 0;
  uint64_t unknown = 0;
  uint64_t refused = 0;
  uint64_t faults = 0;
  uint64_t trace_hash = 0;
  Counts counts;  // of faults and operations, by kind
};
ChaosResult RunChaos(uint64_t seed, const ChaosOptions& options);

// Every kind of fault and operation that chaos has: over many seeds each is met.
std::vector<std::string> ChaosKinds();

}  // namespace nova
