#include "stoc/protocol.h"

#include "common/base/coding.h"

namespace nova {
namespace {

// --- the pieces bodies are made of

void Put(std::string* dst, uint64_t v) { PutFixed64(dst, v); }
void Put(std::string* dst, uint32_t v) { PutFixed32(dst, v); }
template <typename Tag>
void Put(std::string* dst, Id<Tag, uint64_t> id) {
  PutFixed64(dst, id.value());
}
void Put(std::string* dst, const Uuid& u) {
  PutFixed64(dst, u.hi);
  PutFixed64(dst, u.lo);
}
void Put(std::string* dst, const StocFileId& f) {
  Put(dst, f.owner);
  PutFixed32(dst, f.part);
}
void Put(std::string* dst, const Creator& c) {
  Put(dst, c.range);
  Put(dst, c.epoch);
  PutFixed64(dst, c.job);
}
void Put(std::string* dst, const RemoteBuffer& m) {
  PutFixed64(dst, m.address);
  PutFixed64(dst, m.size);
  PutFixed32(dst, m.rkey);
  PutFixed32(dst, 0);
}
void Put(std::string* dst, const SealedSegment& s) {
  Put(dst, s.log);
  PutFixed32(dst, s.index);
  Put(dst, s.memory);
}
void Put(std::string* dst, const SealedLogFile& f) {
  Put(dst, f.log);
  PutFixed64(dst, f.size);
}
void Put(std::string* dst, const FileSummary& f) {
  Put(dst, f.file);
  Put(dst, f.creator);
  PutFixed64(dst, f.size);
  PutFixed64(dst, f.age_ms);
}

bool Get(std::string_view* in, uint64_t* v) { return GetFixed64(in, v); }
bool Get(std::string_view* in, uint32_t* v) { return GetFixed32(in, v); }
template <typename Tag>
bool Get(std::string_view* in, Id<Tag, uint64_t>* id) {
  uint64_t v;
  if (!GetFixed64(in, &v)) return false;
  *id = Id<Tag, uint64_t>(v);
  return true;
}
bool Get(std::string_view* in, Uuid* u) { return GetFixed64(in, &u->hi) && GetFixed64(in, &u->lo); }
bool Get(std::string_view* in, StocFileId* f) { return Get(in, &f->owner) && GetFixed32(in, &f->part); }
bool Get(std::string_view* in, Creator* c) {
  return Get(in, &c->range) && Get(in, &c->epoch) && GetFixed64(in, &c->job);
}
bool Get(std::string_view* in, RemoteBuffer* m) {
  return GetFixed64(in, &m->address) && GetFixed64(in, &m->size) && GetFixed32(in, &m->rkey) &&
         GetFixed32(in, &m->reserved) && m->reserved == 0;
}
bool Get(std::string_view* in, SealedSegment* s) {
  return Get(in, &s->log) && GetFixed32(in, &s->index) && Get(in, &s->memory);
}
bool Get(std::string_view* in, SealedLogFile* f) { return Get(in, &f->log) && Get(in, &f->size); }
bool Get(std::string_view* in, FileSummary* f) {
  return Get(in, &f->file) && Get(in, &f->creator) && GetFixed64(in, &f->size) && GetFixed64(in, &f->age_ms);
}
bool Get(std::string_view* in, bool* v) {
  if (in->empty() || static_cast<unsigned char>(in->front()) > 1) return false;
  *v = in->front() == 1;
  in->remove_prefix(1);
  return true;
}

template <typename T>
void PutAll(std::string* dst, const std::vector<T>& all) {
  PutFixed32(dst, static_cast<uint32_t>(all.size()));
  for (const T& one : all) Put(dst, one);
}
// `bytes` = of one in the body: a count that cannot be true is refused before memory is taken for it.
template <typename T>
bool GetAll(std::string_view* in, size_t bytes, std::vector<T>* all) {
  uint32_t n;
  if (!GetFixed32(in, &n) || n > in->size() / bytes) return false;
  all->assign(n, T());
  for (T& one : *all) {
    if (!Get(in, &one)) return false;
  }
  return true;
}

template <typename... Fields>
void PutFields(std::string* dst, const Fields&... fields) {
  (Put(dst, fields), ...);
}
template <typename... Fields>
bool GetFields(std::string_view* in, Fields*... fields) {
  return (Get(in, fields) && ...);
}
template <typename... Fields>
bool GetExactly(std::string_view body, Fields*... fields) {
  return GetFields(&body, fields...) && body.empty();
}

constexpr size_t kUuidBytes = 16;
constexpr size_t kFileIdBytes = 20;
constexpr size_t kSealedSegmentBytes = 44;
constexpr size_t kSealedLogFileBytes = 24;
constexpr size_t kFileSummaryBytes = 60;

}  // namespace

void OpenSegmentRequest::AppendTo(std::string* dst) const {
  PutFields(dst, range, epoch, incarnation, log, index, size);
}
bool OpenSegmentRequest::Parse(std::string_view body, OpenSegmentRequest* out) {
  return GetExactly(body, &out->range, &out->epoch, &out->incarnation, &out->log, &out->index, &out->size);
}

void OpenSegmentReply::AppendTo(std::string* dst) const { Put(dst, memory); }
bool OpenSegmentReply::Parse(std::string_view body, OpenSegmentReply* out) {
  return GetExactly(body, &out->memory);
}

void FreeLogsRequest::AppendTo(std::string* dst) const {
  PutFields(dst, range, epoch);
  PutAll(dst, logs);
}
bool FreeLogsRequest::Parse(std::string_view body, FreeLogsRequest* out) {
  return GetFields(&body, &out->range, &out->epoch) && GetAll(&body, kUuidBytes, &out->logs) && body.empty();
}

void OpenLogFileRequest::AppendTo(std::string* dst) const { PutFields(dst, range, epoch, incarnation, log); }
bool OpenLogFileRequest::Parse(std::string_view body, OpenLogFileRequest* out) {
  return GetExactly(body, &out->range, &out->epoch, &out->incarnation, &out->log);
}

void AppendLogRequest::AppendTo(std::string* dst) const {
  PutFields(dst, range, epoch, log, offset);
  dst->push_back(sync ? 1 : 0);
  Put(dst, crc);
}
bool AppendLogRequest::Parse(std::string_view body, AppendLogRequest* out) {
  if (!GetFields(&body, &out->range, &out->epoch, &out->log, &out->offset, &out->sync, &out->crc))
    return false;
  out->bytes = body;
  return body.size() <= kMaxAppendBytes && out->offset <= kMaxLogFileBytes;
}

void RangeEpochRequest::AppendTo(std::string* dst) const { PutFields(dst, range, epoch); }
bool RangeEpochRequest::Parse(std::string_view body, RangeEpochRequest* out) {
  return GetExactly(body, &out->range, &out->epoch);
}

void FenceReply::AppendTo(std::string* dst) const {
  PutFields(dst, incarnation, store);
  PutAll(dst, segments);
  PutAll(dst, files);
  if (!unreadable.empty()) PutAll(dst, unreadable);
}
bool FenceReply::Parse(std::string_view body, FenceReply* out) {
  out->unreadable.clear();
  return GetFields(&body, &out->incarnation, &out->store) &&
         GetAll(&body, kSealedSegmentBytes, &out->segments) &&
         GetAll(&body, kSealedLogFileBytes, &out->files) &&
         (body.empty() ||
          (GetAll(&body, kUuidBytes, &out->unreadable) && body.empty() && !out->unreadable.empty()));
}

void OpenFileRequest::AppendTo(std::string* dst) const { PutFields(dst, file, creator, size); }
bool OpenFileRequest::Parse(std::string_view body, OpenFileRequest* out) {
  return GetExactly(body, &out->file, &out->creator, &out->size);
}

void OpenFileReply::AppendTo(std::string* dst) const { PutFields(dst, buffer, memory); }
bool OpenFileReply::Parse(std::string_view body, OpenFileReply* out) {
  return GetExactly(body, &out->buffer, &out->memory);
}

void PersistFileRequest::AppendTo(std::string* dst) const { PutFields(dst, buffer, size, crc); }
bool PersistFileRequest::Parse(std::string_view body, PersistFileRequest* out) {
  return GetExactly(body, &out->buffer, &out->size, &out->crc);
}

void WriteSmallFileRequest::AppendTo(std::string* dst) const { PutFields(dst, file, creator, crc); }
bool WriteSmallFileRequest::Parse(std::string_view body, WriteSmallFileRequest* out) {
  if (!GetFields(&body, &out->file, &out->creator, &out->crc)) return false;
  out->bytes = body;
  return body.size() <= kMaxInlineFileBytes;
}

void AppendFileRequest::AppendTo(std::string* dst) const {
  PutFields(dst, file, creator, offset);
  dst->push_back(create ? 1 : 0);
  Put(dst, crc);
}
bool AppendFileRequest::Parse(std::string_view body, AppendFileRequest* out) {
  if (!GetFields(&body, &out->file, &out->creator, &out->offset, &out->create, &out->crc)) return false;
  out->bytes = body;
  return body.size() <= kMaxAppendBytes;
}

void ReadFileRequest::AppendTo(std::string* dst) const { PutFields(dst, file, offset, size); }
bool ReadFileRequest::Parse(std::string_view body, ReadFileRequest* out) {
  return GetExactly(body, &out->file, &out->offset, &out->size) && out->size <= kMaxReadBytes;
}

void FileReferencesRequest::AppendTo(std::string* dst) const {
  PutFields(dst, range, epoch);
  PutAll(dst, files);
}
bool FileReferencesRequest::Parse(std::string_view body, FileReferencesRequest* out) {
  return GetFields(&body, &out->range, &out->epoch) && GetAll(&body, kFileIdBytes, &out->files) &&
         body.empty() && out->files.size() <= kMaxFilesOfReferences;
}

void ListFilesRequest::AppendTo(std::string* dst) const {
  PutFields(dst, range, epoch_below);
  if (after != StocFileId{}) Put(dst, after);
}
bool ListFilesRequest::Parse(std::string_view body, ListFilesRequest* out) {
  out->after = {};
  return GetFields(&body, &out->range, &out->epoch_below) &&
         (body.empty() || (GetExactly(body, &out->after) && out->after != StocFileId{}));
}

void ListFilesReply::AppendTo(std::string* dst) const { PutAll(dst, files); }
bool ListFilesReply::Parse(std::string_view body, ListFilesReply* out) {
  return GetAll(&body, kFileSummaryBytes, &out->files) && body.empty();
}

void PingReply::AppendTo(std::string* dst) const { Put(dst, incarnation); }
bool PingReply::Parse(std::string_view body, PingReply* out) { return GetExactly(body, &out->incarnation); }

}  // namespace nova
