// Bench: load on a cluster through the client library, in the paper's workloads (section 8.1): R100, RW50,
// SW50, W100; 1 KB values and scans of 10 by default; uniform, zipfian ranked (key 0 the hottest, hot keys
// adjacent, as in the paper) and zipfian scrambled (as YCSB's generator). Operations are completions.
//
// A closed loop: each thread begins its next operation when the last one has ended. With a rate an open loop:
// operation i is to begin i / rate seconds after the start, and its latency counts from then, whenever a
// thread has come to it. So an operation that takes a second is seen in all that waited for it, and not in
// one alone (coordinated omission). As many operations as threads are under way at most. Whatever was to
// begin in the time is done, so that a load that is more than the cluster carries takes longer.
//
// Thread safety: Run starts its own threads and waits for them.   Errors: InvalidArgument for an unknown
//                workload.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "client/client.h"

namespace nova {

// What is run; `nova bench --help` has the same.
struct BenchOptions {
  std::string workload = "RW50";         // R100, RW50, SW50, W100, LOAD
  std::string distribution = "uniform";  // uniform, zipfian, scrambled
  double zipf_constant = 0.99;           // of the last two, in (0, 1): the larger, the more skewed
  uint64_t records = 100'000;            // in the store, from 0
  uint64_t operations = 0;               // 0: until `seconds` have passed
  double seconds = 10;
  double rate = 0;   // operations a second of all threads, an open loop; 0: a closed one
  int threads = 16;  // each with one operation under way
  size_t value_bytes = 1024;
  size_t scan_length = 10;                  // entries
  bool progress = true;                     // a line a second on stderr
  WriteOptions write = {};                  // of puts
  const std::atomic<bool>* stop = nullptr;  // true: no more operations begin, and the report is made
};

struct BenchReport {
  // Throughput, latencies by operation, how many failed, how many found no record, retries.
  std::string text;
  uint64_t failed = 0;  // operations with an outcome other than Ok and NotFound
};

// Runs it and waits.
StatusOr<BenchReport> RunBench(Client* client, const BenchOptions& options);

// The key of record `n`: "user", 19 digits and "/bench": in the order of n, spread over the same ranges as
// YCSB's hashed keys, and none of those.
std::string BenchKey(uint64_t n, uint64_t records);

}  // namespace nova
