// The options of 'profile' and 'fidelity', which measure devices and models; parse.cc has the
// others.
#pragma once

#include "harness/cli/parse.h"

namespace CLI {
class App;
}

namespace allocmark {

void add_profile(CLI::App* app, ProfileCommand* command);
void add_fidelity(CLI::App* app, FidelityCommand* command);

}  // namespace allocmark
