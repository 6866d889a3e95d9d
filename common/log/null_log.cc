// Mode none: acknowledged when in the memtable; lost when the LTC dies (durability, D).
#include "common/log/range_log.h"

namespace nova {
namespace {

class NullLog : public RangeLog {
 public:
  Outcome Append(Executor*, const LogRecord&, absl::AnyInvocable<void(Outcome)> done) override {
    done(Outcome::kOk);
    return Outcome::kOk;
  }
  void DeleteRound(RoundNumber) override {}
  void Fence() override {}
  size_t bytes_in_flight() const override { return 0; }
  bool sync_matters() const override { return false; }
  bool keeps_records() const override { return false; }
};

}  // namespace

std::unique_ptr<RangeLog> NewNullLog() { return std::make_unique<NullLog>(); }

}  // namespace nova
