// Fields: message bodies that are lists of fields. A message names its fields once, in the order of its body,
// and is written and read by that list:
//
//   struct OpenFileRequest {
//     StocFileId file;
//     Creator creator;
//     uint64_t size = 0;
//     static auto Fields(auto& m) { return std::tie(m.file, m.creator, m.size); }
//   };
//
//   field                        encoding
//   bool, an enum of one byte    u8; a bool is 0 or 1
//   uint32_t, uint64_t, Id       little-endian
//   std::string_view             varint32 length | bytes
//   std::optional                u8 0, or u8 1 | the value
//   std::vector                  u32 count | elements
//   a struct with Fields         its fields
//
// A list that has one of these is made by FieldList instead of std::tie. Rest, Apart and Tail stand last:
//   Rest(x)       x takes what is left of the body: a view its bytes, a vector elements until the end.
//   Apart(x)      Rest for the reader. The writer leaves the bytes out: its caller sends them as a part of
//                 their own, without a copy.
//   Tail(x)       x is left out where it is T{}: processes of the version before understand the rest.
//   AtMost(x, n)  a vector of at most n elements.
// A struct may have `bool Valid() const`: what does not hold there does not parse.
//
// Thread safety: pure functions.   Ownership: views that were read point into the body.
// Errors: false; what was read into is unspecified then. Nothing is read past the end, and a count that
//   cannot be true takes no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/coding.h"
#include "common/base/ids.h"

namespace nova {

// See the head of this file; so for the next three, which wrap a field where a list is made.
template <typename T>
struct Rest {
  T& value;
  explicit Rest(T& v) : value(v) {}
};
template <typename T>
struct Apart {
  T& value;
  explicit Apart(T& v) : value(v) {}
};
template <typename T>
struct Tail {
  T& value;
  explicit Tail(T& v) : value(v) {}
};
template <typename T>
struct AtMost {
  T& value;
  size_t most;
  AtMost(T& v, size_t n) : value(v), most(n) {}
};

// A list of fields of which some are wrapped.
template <typename... T>
std::tuple<T...> FieldList(T&&... fields) {
  return std::tuple<T...>(std::forward<T>(fields)...);
}

// T is a message, or a part of one.
template <typename T>
concept HasFields = requires(T& m) {
  T::Fields(m);
};

// The fewest bytes that a field takes.
template <typename T>
struct MinBytes {
  static constexpr size_t Of() {
    if constexpr (HasFields<T>) {
      return OfAll(static_cast<decltype(T::Fields(std::declval<T&>()))*>(nullptr));
    } else {
      return sizeof(T);
    }
  }
  template <typename... F>
  static constexpr size_t OfAll(std::tuple<F...>*) {
    return (MinBytes<std::remove_cvref_t<F>>::Of() + ... + 0);
  }
};
template <typename T>
struct MinBytes<std::optional<T>> : MinBytes<bool> {};
template <typename T>
struct MinBytes<std::vector<T>> : MinBytes<uint32_t> {};
template <typename T>
struct MinBytes<AtMost<T>> : MinBytes<uint32_t> {};
template <>
struct MinBytes<std::string_view> : MinBytes<bool> {};
struct MayBeEmpty {
  static constexpr size_t Of() { return 0; }
};
template <typename T>
struct MinBytes<Rest<T>> : MayBeEmpty {};
template <typename T>
struct MinBytes<Apart<T>> : MayBeEmpty {};
template <typename T>
struct MinBytes<Tail<T>> : MayBeEmpty {};

// Appends fields to a string.
class FieldWriter {
 public:
  explicit FieldWriter(std::string* dst) : dst_(dst) {}

  template <typename T>
  void Put(const T& v) {
    if constexpr (HasFields<T>) {
      Put(T::Fields(v));
    } else if constexpr (std::is_same_v<T, bool>) {
      dst_->push_back(v ? 1 : 0);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      PutFixed32(dst_, v);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      PutFixed64(dst_, v);
    } else {
      static_assert(std::is_enum_v<T> && sizeof(T) == 1, "not a field");
      dst_->push_back(static_cast<char>(v));
    }
  }
  template <typename Tag, typename Rep>
  void Put(const Id<Tag, Rep>& id) {
    Put(id.value());
  }
  void Put(std::string_view bytes) { PutLengthPrefixed(dst_, bytes); }
  template <typename T>
  void Put(const std::optional<T>& v) {
    Put(v.has_value());
    if (v) Put(*v);
  }
  template <typename T>
  void Put(const std::vector<T>& all) {
    Put(static_cast<uint32_t>(all.size()));
    if constexpr (std::is_same_v<T, std::string_view>) {
      size_t bytes = 0;
      for (const T& one : all) bytes += LengthPrefixedSize(one);
      dst_->reserve(dst_->size() + bytes);
    }
    for (const T& one : all) Put(one);
  }
  void Put(const Rest<const std::string_view>& rest) { dst_->append(rest.value); }
  template <typename T>
  void Put(const Rest<const std::vector<T>>& rest) {
    for (const T& one : rest.value) Put(one);
  }
  template <typename T>
  void Put(const Apart<T>&) {}
  template <typename T>
  void Put(const Tail<const T>& tail) {
    if (!(tail.value == T{})) Put(tail.value);
  }
  template <typename T>
  void Put(const AtMost<T>& bounded) {
    Put(bounded.value);
  }
  template <typename... T>
  void Put(const std::tuple<T...>& list) {
    std::apply([this](const auto&... fields) { (this->Put(fields), ...); }, list);
  }

 private:
  std::string* const dst_;
};

// Takes fields from the front of a view.
class FieldReader {
 public:
  explicit FieldReader(std::string_view in) : in_(in) {}
  std::string_view rest() const { return in_; }

  template <typename T>
  bool Get(T& v) {
    if constexpr (HasFields<T>) {
      if (!GetAll(T::Fields(v))) return false;
      if constexpr (requires { v.Valid(); }) return v.Valid();
      return true;
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      return GetFixed32(&in_, &v);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      return GetFixed64(&in_, &v);
    } else {
      static_assert(std::is_same_v<T, bool> || (std::is_enum_v<T> && sizeof(T) == 1), "not a field");
      if (in_.empty()) return false;
      const auto byte = static_cast<uint8_t>(in_.front());
      if (std::is_same_v<T, bool> && byte > 1) return false;
      v = static_cast<T>(byte);
      in_.remove_prefix(1);
      return true;
    }
  }
  template <typename Tag, typename Rep>
  bool Get(Id<Tag, Rep>& id) {
    Rep v;
    if (!Get(v)) return false;
    id = Id<Tag, Rep>(v);
    return true;
  }
  bool Get(std::string_view& bytes) { return GetLengthPrefixed(&in_, &bytes); }
  template <typename T>
  bool Get(std::optional<T>& v) {
    bool there;
    if (!Get(there)) return false;
    v.reset();
    return !there || Get(v.emplace());
  }
  template <typename T>
  bool Get(std::vector<T>& all) {
    return GetVector(all, all.max_size());
  }
  bool Get(Rest<std::string_view>& rest) {
    rest.value = std::exchange(in_, {});
    return true;
  }
  template <typename T>
  bool Get(Rest<std::vector<T>>& rest) {
    rest.value.clear();
    while (!in_.empty()) {
      if (!Get(rest.value.emplace_back())) return false;
    }
    return true;
  }
  template <typename T>
  bool Get(Apart<T>& apart) {
    Rest<T> rest(apart.value);
    return Get(rest);
  }
  template <typename T>
  bool Get(Tail<T>& tail) {
    tail.value = T{};
    return in_.empty() || (Get(tail.value) && !(tail.value == T{}));
  }
  template <typename T>
  bool Get(AtMost<T>& bounded) {
    return GetVector(bounded.value, bounded.most);
  }
  template <typename... T>
  bool GetAll(std::tuple<T...> list) {
    return std::apply([this](auto&... fields) { return (this->Get(fields) && ...); }, list);
  }

 private:
  template <typename T>
  bool GetVector(std::vector<T>& all, size_t most) {
    uint32_t count;
    if (!Get(count) || count > most || count > in_.size() / MinBytes<T>::Of()) return false;
    all.assign(count, T());
    for (T& one : all) {
      if (!Get(one)) return false;
    }
    return true;
  }

  std::string_view in_;
};

// Appends a body.
template <HasFields M>
void AppendBody(const M& message, std::string* dst) {
  dst->reserve(dst->size() + MinBytes<M>::Of());
  FieldWriter(dst).Put(message);
}
template <HasFields M>
std::string Body(const M& message) {
  std::string body;
  AppendBody(message, &body);
  return body;
}

// Reads a body, which holds just this message. A message that is no mere list has a Parse of its own.
template <typename M>
bool ParseBody(std::string_view body, M* out) {
  if constexpr (HasFields<M>) {
    FieldReader reader(body);
    return reader.Get(*out) && reader.rest().empty();
  } else {
    return M::Parse(body, out);
  }
}

}  // namespace nova
