// RangeProbe: whether every range takes a write, and whether a reader then gets exactly that.
//
// One client writes a key of each range, another one, which never writes, reads it: nothing tells the reader
// that a range has moved, so that it asks a former owner where one still answers.
//
// Thread safety: one thread.   Ownership: the cluster outlives it.   Errors: GoogleTest failures.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client/client.h"
#include "common/base/clock.h"
#include "tests/cluster/connect_client.h"

namespace nova {

class RangeProbe {
 public:
  // `ranges`: as ProcessCluster::CreateRanges cuts them.
  RangeProbe(const std::string& coordinators, int ranges) : ranges_(ranges) {
    for (std::unique_ptr<Client>* client : {&writer_, &reader_}) {
      *client = ConnectClient(coordinators, 3'000);
    }
  }

  // Writes and reads each range, for `patience_ns` at most. Returns how long that took; -1: some range did
  // not serve, or what was read is not what was acknowledged.
  Nanos Round(const std::string& after, Nanos patience_ns = 40 * kSecond) {
    if (writer_ == nullptr || reader_ == nullptr) return -1;
    const Nanos begun = Now();
    const std::string value = std::to_string(++rounds_);
    for (int r = 0; r < ranges_; ++r) {
      if (!Write(r, value, after, begun + patience_ns) || !Read(r, value, after, begun + patience_ns))
        return -1;
    }
    return Now() - begun;
  }
  int stale() const { return stale_; }

 private:
  std::string KeyOf(int range) const {
    const uint64_t width = 8'200'000'000'000'000'000 / static_cast<uint64_t>(ranges_);
    return StrCat("user", 1'000'000'000'000'000'000 + static_cast<uint64_t>(range) * width + 7, ".probe");
  }
  bool Write(int range, const std::string& value, const std::string& after, Nanos until) {
    Result r;
    do {
      r = writer_->Put(KeyOf(range), value);
    } while (!r.ok() && Now() < until);
    EXPECT_TRUE(r.ok()) << "range " << range + 1 << " takes no write after " << after << ": " << r.message;
    return r.ok();
  }
  bool Read(int range, const std::string& value, const std::string& after, Nanos until) {
    GetResult r;
    do {
      r = reader_->Get(KeyOf(range));
    } while (!r.ok() && r.outcome != Outcome::kNotFound && Now() < until);
    if (r.ok() && r.value == value) return true;
    stale_ += r.ok() || r.outcome == Outcome::kNotFound;
    ADD_FAILURE() << "range " << range + 1 << " after " << after << ": " << value
                  << " was acknowledged, read " << (r.ok() ? r.value : r.message);
    return false;
  }

  const int ranges_;
  std::unique_ptr<Client> writer_, reader_;
  int rounds_ = 0;
  int stale_ = 0;  // older than what was acknowledged, or lost
};

}  // namespace nova
