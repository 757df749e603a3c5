// The options by which a report holds a run against another.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace allocmark {

void add_comparison(CLI::App* app, std::vector<std::string>* baselines, std::string* policy,
                    std::string* calibration);

}  // namespace allocmark
