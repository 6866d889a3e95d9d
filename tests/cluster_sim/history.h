// History: what clients did to keys, and what a read may return (protocol.md A1, H6, C3).
//
// Versions of a key are numbered in the order its one writer issued them. A read that begins when version S
// is settled (acknowledged, or returned by an earlier read) returns S or a later version that was issued and
// not refused; absence is a delete of that kind. What a read returned is settled from then on: a version once
// read stays.
// One exception: a write that ended as unknown may still be on its way, or parked in a server, when its
// writer's next one is acknowledged. It may take effect after that one, once: then it is settled in its late
// place, and what it replaced is gone.
//
// Thread safety: all, among the fibers of one Simulation (no method waits).   Ownership: a value.
// Errors: Check returns the violation as text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/outcome.h"

namespace nova {

class History {
 public:
  // Begins a write of `key`; returns its version. Its bytes are ValueOf.
  uint64_t Begin(const std::string& key, bool remove);
  void End(const std::string& key, uint64_t version, Effect effect);
  static std::string ValueOf(std::string_view key, uint64_t version, size_t bytes);

  // The place of a version in the order of effects: its number, or, of one that came late, that of the
  // version it came after.
  struct Place {
    uint64_t version = 0;
    uint64_t late = 0;
    auto operator<=>(const Place&) const = default;
  };
  Place Settled(const std::string& key) const;  // before a read
  // After it. Empty, or what is wrong.
  std::string Check(const std::string& key, const Place& settled_before,
                    const std::optional<std::string>& value);

  std::vector<std::string> Keys() const;
  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t unknown() const { return unknown_; }
  uint64_t refused() const { return refused_; }

 private:
  struct Version {
    bool remove = false;
    bool refused = false;
    bool unknown = false;
    bool placed = false;  // where it took effect is known: it does not come late any more
    Place place = {};
  };
  struct Key {
    std::vector<Version> versions{{.remove = true}};  // 0: never written
    Place settled;
    uint64_t late = 0;  // versions that were
    bool TakeLate(Version* version, const Place& after);
    std::string Since(uint64_t version) const;
  };
  std::map<std::string, Key> keys_;
  uint64_t acknowledged_ = 0;
  uint64_t unknown_ = 0;
  uint64_t refused_ = 0;
};

// What several writers do to one key, each write with a value of its own; no deletions. CheckAll says whether
// there is an order of all that took effect in which each read finds the latest write (Gibbons and Korach: of
// the operations of one value the time between the first end and the last begin; two such times that run
// forward do not overlap, one that runs backward lies in none). An operation whose outcome is unknown may
// take effect at any time after its begin, or never.
class SharedRegister {
 public:
  using Operation = size_t;
  Operation BeginWrite(const std::string& value, Nanos now);
  void EndWrite(Operation operation, Effect effect, Nanos now);
  void Read(const std::optional<std::string>& value, Nanos begin, Nanos end);
  std::string CheckAll() const;  // empty, or what is wrong

 private:
  struct Write {
    std::string value;
    Nanos begin = 0;
    Nanos end = kNever;
    bool refused = false;
    Nanos first_read_end = kNever;
    Nanos last_read_begin = 0;
    bool read = false;
  };
  std::vector<Write> writes_{{.value = "", .begin = -1, .end = -1}};  // 0: never written
  std::map<std::string, size_t> by_value_;
  std::string unwritten_;  // a value that was read, and that nobody wrote
};

}  // namespace nova
