// The options of 'allocmark qualify'; a part of parse.h.
#pragma once

#include <CLI/App.hpp>

#include "harness/cli/parse.h"

namespace allocmark {

void add_qualify(CLI::App* app, QualifyCommand* command);

}  // namespace allocmark
