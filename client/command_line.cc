#include "client/command_line.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/exit_codes.h"

namespace nova {
namespace {

// Stands before a text that CLI11 would take for something else: a list ("[a,b]"), an empty one ("{}"),
// the end
// of a command ("++"), an option.
constexpr char kMark = '\x01';

bool NeedsMark(const std::string& word) {
  return word.empty() || word[0] == kMark || word[0] == '[' || word[0] == '{' || word == "++";
}

std::vector<std::string> Marked(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool only_texts = false;
  for (const std::string& word : words) {
    if (!only_texts && word == "--") {
      only_texts = true;
    } else if (only_texts || NeedsMark(word)) {
      out.push_back(kMark + word);
    } else if (word.starts_with("--") && word.ends_with("=")) {
      out.push_back(word + kMark);  // an empty value; without one the next word is taken
    } else {
      out.push_back(word);
    }
  }
  return out;
}

const CLI::Validator& Unmark() {
  static const CLI::Validator unmark(
      [](std::string& text) {
        if (!text.empty() && text[0] == kMark) text.erase(0, 1);
        return std::string();
      },
      "");
  return unmark;
}

}  // namespace

CLI::Option* AddText(CLI::App* command, const std::string& name, std::string* to, const std::string& what) {
  return command->add_option(name, *to, what)->transform(Unmark());
}

CLI::Option* AddTexts(CLI::App* command, const std::string& name, std::vector<std::string>* to,
                      const std::string& what) {
  // Converted by hand: CLI11 has an opinion of a list whose only element is "{}".
  return command->add_option_function<std::vector<std::string>>(
      name,
      [to](const std::vector<std::string>& texts) {
        *to = texts;
        for (std::string& text : *to) Unmark()(text);
      },
      what);
}

void RefuseWords(const std::string& why) { throw CLI::ValidationError(why); }

std::optional<int> ParseWords(CLI::App* app, const std::vector<std::string>& words) {
  std::vector<std::string> marked = Marked(words);
  std::reverse(marked.begin(), marked.end());  // as CLI11 wants them
  try {
    app->parse(std::move(marked));
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app->exit(e);  // --help, --version
    std::vector<std::string> command;
    if (!app->get_name().empty()) command.push_back(app->get_name());
    for (const CLI::App* sub : app->get_subcommands()) command.push_back(sub->get_name());
    std::string help = absl::StrJoin(command, " ");
    const std::string begin = help.empty() ? "" : help + ": ";
    help = help.empty() ? "help" : help + " --help";
    const std::string why = absl::StrReplaceAll(
        e.what(), {{"\n", " "}, {std::string(1, kMark), ""}, {"The following", "the following"}});
    std::fprintf(stderr, "error: %s%s (see %s)\n", begin.c_str(), why.c_str(), help.c_str());
    return kExitUsage;
  }
}

}  // namespace nova
