// RulesOff: safety rules (docs/protocol.md) that a test switches off in nodes, to see that the loss is found:
// negative controls. Options carry it. No flag and no file sets any of it, so in every program all rules are
// on. The rules of the coordinator's decisions are in ClusterOptions::RulesOff.
//
// A plain value, set before whoever is given it starts.
#pragma once

namespace nova {

struct RulesOff {
  bool c3_lease = false;  // lease (C3): an LTC answers reads without a lease
  // Revocation (F1): a fenced StoC takes requests of lower epochs, and its memory keeps its keys.
  bool f1_fence = false;
  // New key (F2): memory whose key its former writer may still have is given out again under that key; memory
  // that a fence has revoked is still registered anew.
  bool f2_new_key = false;
  // Handshake (F3): a peer's older connection stays beside its newer one; of the simulated fabric.
  bool f3_replace = false;
  bool l3_all_members = false;  // write-all (L3): a record is acknowledged when one copy has it
  bool l4_flush_first = false;  // group change (L4): a replaced log group leaves the record at once
  // Group change (L4): it leaves the record while a thread may still open a log in it.
  bool l4_all_lanes = false;
  bool m1_all_members = false;  // manifest (M1): an edit counts when one copy has it
  // Edit first (M2): inputs and logs are deleted although the edit that drops them may not be in the
  // manifest.
  bool m2_edit_first = false;
  // Attempt (M6): what a StoC writes for a job has the ids that the job's owner uses for it.
  bool m6_own_ids = false;
  // Incarnation (N1): a StoC that has started again passes for one with its former process's memory.
  bool n1_incarnation = false;
  // Range record (N3): a StoC whose directory is empty passes for the store that it had before. Of simulated
  // clusters: what takes the disk away leaves its SUPERBLOCK.
  bool n3_own_store = false;
  // Collection (N4): what a StoC lacks by its own list is not told to the range.
  bool n4_lacks = false;
  bool n4_references = false;  // collection (N4): files are deleted although the manifest names them
  // Collection (N4): files of the epoch that collects are judged by their age, as those of earlier ones.
  bool n4_jobs = false;
  bool r5_wait = false;  // wait (R5): a range opens without waiting for its former owner's lease
  // Release (R5): an owner that releases a range answers reads until it hears that it has.
  bool r5_reads_end = false;
  bool r6_free = false;  // free (R6): fenced logs and segments are never freed
  // Rebuild (S5): a table that left the version while its copies were made comes back with the edit that
  // names them.
  bool s5_in_version = false;
  // Rebuild (S5): a copy that is made where an earlier job's file is stays that job's.
  bool s5_take_over = false;
};

}  // namespace nova
