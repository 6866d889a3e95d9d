// libFuzzer: version edits and manifest files, and what applying them does.
#include <cstddef>
#include <cstdint>

#include "common/base/log.h"
#include "ltc/engine/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto edit = nova::VersionEdit::Decode(bytes);
  if (edit.ok()) {
    const auto again = nova::VersionEdit::Decode(edit->Encode());
    NOVA_CHECK(again.ok() && again->Encode() == edit->Encode());
    nova::Version().Apply(*edit, {}).status().IgnoreError();
  }
  const size_t half = size / 2;
  nova::Manifest::Recover({1, 2}, {{"one", std::string(bytes)}}).status().IgnoreError();
  nova::Manifest::Recover(
      {1, 2}, {{"one", std::string(bytes.substr(0, half))}, {"two", std::string(bytes.substr(half))}})
      .status()
      .IgnoreError();
  return 0;
}
