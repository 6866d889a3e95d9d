// libFuzzer: version edits and manifest files, and what applying them does.
#include <cstddef>
#include <cstdint>

#include "common/base/log.h"
#include "ltc/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto edit = nova::VersionEdit::Decode(bytes);
  if (edit.ok()) {
    const auto again = nova::VersionEdit::Decode(edit->Encode());
    NOVA_CHECK(again.ok() && again->Encode() == edit->Encode());
    nova::Version().Apply(*edit, {}).status().IgnoreError();
  }
  nova::Manifest::Parse(nova::Uuid{1, 2}, bytes).status().IgnoreError();
  return 0;
}
