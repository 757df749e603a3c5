// The options with which two sides are run in turn: 'run --ab' and 'compare --confirm'. Kept apart
// from parse.cc for its length; includes no CLI11.
#pragma once

#include "harness/cli/parse.h"

namespace CLI {
class App;
}

namespace allocmark {

void add_ab(CLI::App* app, RunCommand* command);
void add_confirm(CLI::App* app, CompareCommand* command);

}  // namespace allocmark
