// The options of 'report', 'bundle' and 'check'; parse.cc has the others.
#pragma once

#include "harness/cli/parse.h"

namespace CLI {
class App;
}

namespace allocmark {

void add_report(CLI::App* app, ReportCommand* command);
void add_bundle(CLI::App* app, BundleCommand* command);
void add_check(CLI::App* app, CheckCommand* command);

}  // namespace allocmark
