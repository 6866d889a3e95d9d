#include "logc/log_copies.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace nova {
namespace {

// Bytes checksummed in vain, per byte of a piece. What an older log left in recycled room costs one; more
// takes values made to look like headers, one in the other, and those must not make a recovery endless.
constexpr uint64_t kVainPerByte = 8;

// Every record in the piece, at whatever place, of an lsn up to `last_lsn`. Linear in its size.
void ForEachWhole(const Uuid& log, std::string_view piece, size_t first, uint64_t last_lsn,
                  const std::function<void(size_t at, const WholeLogRecord&)>& fn) {
  uint64_t vain = kVainPerByte * piece.size();
  for (size_t at = first; at + kLogRecordHeaderBytes <= piece.size();) {
    const std::string_view rest = piece.substr(at);
    const size_t length = PlausibleLogRecord(rest, last_lsn);
    if (length == 0 || length > vain) {
      at += 8;
    } else if (const auto record = CheckLogRecord(log, rest, length)) {
      fn(at, *record);
      at += length;
    } else {
      vain -= length;
      at += 8;
    }
  }
}

}  // namespace

void LogCopies::Add(Keeps keeps, std::vector<Piece> pieces) {
  Copy copy;
  uint64_t room = 0;
  for (const Piece& p : pieces) room += p.bytes.size();
  for (Piece& p : pieces) {
    bytes_.push_back(std::make_shared<const std::string>(std::move(p.bytes)));
    size_t end = p.first;  // of the prefix, in this piece
    bool used = false;
    if (copy.where.empty()) {
      copy.where = p.where;
      copy.end = end;
    }
    ForEachWhole(log_, *bytes_.back(), p.first, room / kLogRecordHeaderBytes,
                 [&](size_t at, const WholeLogRecord& record) {
                   copy.mark = std::max(
                       copy.mark, keeps == Keeps::kWritten ? record.marks.acknowledged : record.marks.synced);
                   if (at == end && record.lsn == copy.prefix + 1) {
                     end += record.bytes.size();
                     copy.prefix = record.lsn;
                     copy.where = p.where;
                     copy.end = end;
                   }
                   if (records_.size() < record.lsn) records_.resize(record.lsn);
                   if (!records_[record.lsn - 1].bytes.empty()) return;
                   records_[record.lsn - 1] = record;
                   used = true;
                 });
    if (!used) bytes_.pop_back();  // other copies hold all of it
  }
  copies_.push_back(std::move(copy));
}

uint64_t LogCopies::FirstMissing() const {
  const auto hole =
      std::find_if(records_.begin(), records_.end(), [](const WholeLogRecord& r) { return r.bytes.empty(); });
  return static_cast<uint64_t>(hole - records_.begin()) + 1;
}

bool LogCopies::needed() const {
  return std::any_of(records_.begin(), records_.end(), [this](const WholeLogRecord& r) {
    bool needed = false;
    const auto look = [&](const ParsedLogEntry& e) { needed |= !done_(e.entry.memtable); };
    return !r.bytes.empty() && (!ParseLogEntries(r, look).ok() || needed);
  });
}

std::vector<LogCopies::Held> LogCopies::held() const { return {copies_.begin(), copies_.end()}; }

bool LogCopies::damaged() const {
  const uint64_t missing = FirstMissing();
  return std::any_of(copies_.begin(), copies_.end(), [&](const Copy& c) { return c.mark >= missing; }) &&
         needed();
}

Status LogCopies::Read(RecoveredLogs* out) const {
  const uint64_t missing = FirstMissing();
  const auto behind = std::count_if(records_.begin() + static_cast<ptrdiff_t>(missing - 1), records_.end(),
                                    [](const WholeLogRecord& r) { return !r.bytes.empty(); });
  if (behind > 0) {
    std::string places;
    for (const Copy& c : copies_)
      places += StrCat(places.empty() ? "" : ", ", c.where, " from offset ", c.end);
    if (damaged()) {
      return absl::DataLossError(StrCat("log ", log_.ToString(), " is damaged: record ", missing,
                                        ", which was acknowledged, is not whole in ", places, "; ", behind,
                                        " whole ones are behind it"));
    }
    if (needed()) {
      NOVA_LOG(WARNING) << "log " << log_.ToString() << " ends at record " << missing << " (" << places
                        << "), which was not known to be durable; " << behind
                        << " whole ones behind it are left out";
    }
  }
  size_t used = 0, held = 0;
  for (uint64_t lsn = 1; lsn < missing; ++lsn) used += records_[lsn - 1].bytes.size();
  for (const auto& bytes : bytes_) held += bytes->size();
  // A recycled file, or a segment's rest, is not kept for the few records in front of it.
  const bool copied = held > 2 * used;
  const auto copy = std::make_shared<std::string>();
  if (copied) {
    copy->reserve(used);
    out->bytes.push_back(copy);
  } else {
    out->bytes.insert(out->bytes.end(), bytes_.begin(), bytes_.end());
  }
  for (uint64_t lsn = 1; lsn < missing; ++lsn) {
    WholeLogRecord record = records_[lsn - 1];
    if (copied) {
      const size_t at = copy->size();
      copy->append(record.bytes);  // never beyond what is reserved: views stay
      record.bytes = std::string_view(*copy).substr(at);
    }
    NOVA_RETURN_IF_ERROR(ParseLogEntries(record, [out](const ParsedLogEntry& e) {
      out->records.push_back({e.sequence, e.entry.memtable, e.entry.type, e.entry.key, e.entry.value});
    }));
  }
  return OkStatus();
}

}  // namespace nova
