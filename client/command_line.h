// The command line of the `nova` tool, and of a line in its shell, over CLI11: texts that arrive as they
// were typed,
// numbers with limits, errors of one line.
//
//   CLI::App app("what it is", "nova");
//   CLI::App* get = app.add_subcommand("get", "read one");
//   AddText(get, "KEY", &key, "")->required();
//   if (const std::optional<int> code = ParseWords(&app, words)) return *code;
//
// A text may be anything: behind a word `--` all words are texts, also those that look like options.
//
// Thread safety: one thread.   Ownership: what options are written to outlives the parse.
// Errors:        ParseWords: one line on stderr that names what is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace nova {

// An option (`name` begins with --) or a word of a command.
CLI::Option* AddText(CLI::App* command, const std::string& name, std::string* to, const std::string& what);
// All words that are left.
CLI::Option* AddTexts(CLI::App* command, const std::string& name, std::vector<std::string>* to,
                      const std::string& what);

template <typename T>
CLI::Option* AddNumber(CLI::App* command, const std::string& name, T* to, T low, T high,
                       const std::string& what) {
  return command->add_option(name, *to, what)
      ->check(CLI::Range(low, high, StrCat("[", low, " - ", high, "]")))
      ->capture_default_str();
}

// Ends a parse, from a command's callback: its words do not go together.
[[noreturn]] void RefuseWords(const std::string& why);

// None: a command was understood, and its callback has run. Else the exit code: help was shown, or
// nothing was
// understood.
std::optional<int> ParseWords(CLI::App* app, const std::vector<std::string>& words);

}  // namespace nova
