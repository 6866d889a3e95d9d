// RulesOff: safety rules (docs/protocol.md) of nodes that a test switches off, to see that it is found out:
// negative controls. Options carry it; no flag and no file sets any of it, so that in every program all rules
// are on. Those of the coordinator's decisions are ClusterOptions::RulesOff.
#pragma once

namespace nova {

struct RulesOff {
  bool c3_lease = false;  // an LTC answers reads without a lease
  // a StoC that was fenced takes what comes under lower epochs, and its memory keeps its keys
  bool f1_fence = false;
  // memory whose key its former writer may still have is given out again under that key; what a fence has
  // revoked is registered anew all the same: revocation (F1)
  bool f2_new_key = false;
  // a peer's older connection stands beside its newer one (the simulated fabric's)
  bool f3_replace = false;
  bool l3_all_members = false;  // a record is acknowledged when one copy of it was delivered
  bool l4_flush_first = false;  // a replaced log group leaves the record at once
  // it leaves the record while a thread may still open a log in it
  bool l4_all_lanes = false;
  bool m1_all_members = false;  // an edit counts when one copy of the manifest has it
  // inputs and logs are deleted although the edit that drops them may not be in the manifest
  bool m2_edit_first = false;
  // a StoC that has started again passes for one that has what its former process had
  bool n1_incarnation = false;
  bool n4_references = false;  // files are collected although the manifest names them
  bool r5_wait = false;        // a range opens without waiting for its former owner's lease
  bool r5_reads_end = false;   // the owner that releases a range answers reads until it hears that it has
  bool r6_free = false;        // what was fenced is never freed
};

}  // namespace nova
