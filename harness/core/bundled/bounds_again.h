// What a cell that was made again here says of a stored one beside the numbers that are exact.
// Times differ from host to host, but no host is quicker than the modelled driver; and what every
// such cell has must not be left out. Both cells flow in; sentences flow out. Checks; times
// nothing.
#pragma once

#include <string>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// Of two measured cells of one simulated device; one sentence for each number that cannot be.
[[nodiscard]] std::vector<std::string> impossible_beside(const CellResult& stored,
                                                         const CellResult& again);

}  // namespace allocmark
