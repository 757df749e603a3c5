// The options of 'speed', 'profile' and 'fidelity', which measure allocmark and its models;
// parse.cc has the others.
#pragma once

#include "harness/cli/parse.h"

namespace CLI {
class App;
}

namespace allocmark {

void add_speed(CLI::App* app, SpeedCommand* command);
void add_profile(CLI::App* app, ProfileCommand* command);
void add_fidelity(CLI::App* app, FidelityCommand* command);

}  // namespace allocmark
