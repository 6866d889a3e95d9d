// Status: operating errors (input, network, disk, full, missing). Bugs are NOVA_CHECK (log.h). On the request
// path outcomes are the enum of outcome.h; a Status with text is built at the edges only.
//
// Thread safety: values.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace nova {

using absl::Status;
using absl::StatusOr;
using absl::StrCat;

inline Status OkStatus() { return absl::OkStatus(); }

// The same error with its place in front: "opening /data/x: No such file".
inline Status Annotate(const Status& s, std::string_view where) {
  return s.ok() ? s
                : Status(s.code(), StrCat(absl::string_view(where.data(), where.size()), ": ", s.message()));
}

}  // namespace nova

#define NOVA_CONCAT_INNER(a, b) a##b
#define NOVA_CONCAT(a, b) NOVA_CONCAT_INNER(a, b)

// Returns from the enclosing function with the error, if `expr` is one.
#define NOVA_RETURN_IF_ERROR(expr)               \
  do {                                           \
    ::nova::Status nova_status_ = (expr);        \
    if (!nova_status_.ok()) return nova_status_; \
  } while (0)

// NOVA_ASSIGN_OR_RETURN(auto x, F()): sets x to the value of F(), or returns its error.
#define NOVA_ASSIGN_OR_RETURN(lhs, expr) \
  NOVA_ASSIGN_OR_RETURN_INNER(NOVA_CONCAT(nova_or_, __LINE__), lhs, expr)
#define NOVA_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return tmp.status();               \
  lhs = std::move(tmp).value()
