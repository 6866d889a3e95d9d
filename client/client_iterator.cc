#include "client/client_iterator.h"

#include <utility>

#include "client/client_scan.h"
#include "common/base/mutex.h"

namespace nova {
namespace {

constexpr uint32_t kFirstPage = 16;  // entries; a round trip costs more than reading them

// The pages of an iterator.
class ClientPages final : public PageSource {
 public:
  ClientPages(ClientRep* rep, std::shared_ptr<const ClientSnapshot> snapshot, Result checked)
      : rep_(rep), snapshot_(std::move(snapshot)), refused_(std::move(checked)), result_(refused_) {}

  // Once the caller has gone on to a second page, the one behind it is asked for at once.
  bool Read(const PageRequest& request, EntryPage* page) override {
    if (!refused_.ok()) return false;
    if (!request.goes_on) moment_ = nullptr;
    std::shared_ptr<Call> call = std::exchange(ahead_, nullptr);
    if (call == nullptr || call->request != request) call = Begin(request);
    call->arrived.Wait();
    result_ = std::move(call->result);
    moment_ = std::move(call->moment);
    if (!result_.ok()) return false;
    const ScanRun& run = *call->run;
    if (request.goes_on && !run.at_end) {
      const std::string_view last_key = run.last_key;
      ahead_ = Begin(request.Behind(last_key.substr(rep_->key_prefix.size())));
    }
    *page = std::move(call->run->page);
    page->more = !run.at_end;
    return true;
  }
  const Result& result() const { return result_; }

 private:
  // A page that was asked for.
  struct Call {
    PageRequest request;
    std::shared_ptr<ScanRun> run;
    Notification arrived;  // then the fields below are set
    Result result;
    std::shared_ptr<const ClientSnapshot> moment;
  };

  std::shared_ptr<Call> Begin(const PageRequest& request) {
    auto call = std::make_shared<Call>();
    call->request = request;
    call->run = std::make_shared<ScanRun>();
    call->run->limit = request.limit;
    call->run->reverse = request.reverse;
    call->run->one_page = true;
    call->run->now = {rep_->Stored(request.from), rep_->StoredEnd(request.to)};
    rep_->StartScan(call->run, snapshot_, moment_,
                    [call](Result result, std::shared_ptr<const ClientSnapshot> page_snapshot) {
                      call->result = std::move(result);
                      call->moment = std::move(page_snapshot);
                      call->arrived.Notify();
                    });
    return call;
  }

  ClientRep* const rep_;
  const std::shared_ptr<const ClientSnapshot> snapshot_;
  const Result refused_;                          // not ok: the options were wrong
  Result result_;                                 // of the last page
  std::shared_ptr<const ClientSnapshot> moment_;  // of the range where the next page begins; null: none yet
  std::shared_ptr<Call> ahead_;                   // the page behind the last one; null: not asked for
};

}  // namespace

struct ClientIterator::Rep {
  Rep(ClientRep* rep, const IteratorOptions& o, Result checked)
      : pages(rep, o.snapshot, std::move(checked)),
        entries(&pages, o.lower, o.upper, rep->key_prefix.size(), kFirstPage) {}

  ClientPages pages;
  PagedIterator entries;
};

ClientIterator::ClientIterator(std::unique_ptr<Rep> rep) : KeyIterator(&rep->entries), rep_(std::move(rep)) {}
ClientIterator::~ClientIterator() = default;

const Result& ClientIterator::result() const { return rep_->pages.result(); }

std::unique_ptr<ClientIterator> Client::NewIterator(const IteratorOptions& options) {
  Result checked = rep_->CheckSnapshot(options.snapshot);
  if (checked.ok() && std::max(options.lower.size(), options.upper.size()) > kMaxUserKeyBytes)
    checked = {Outcome::kInvalidArgument, "a bound of the iterator is too long"};
  return std::unique_ptr<ClientIterator>(
      new ClientIterator(std::make_unique<ClientIterator::Rep>(rep_.get(), options, std::move(checked))));
}

}  // namespace nova
