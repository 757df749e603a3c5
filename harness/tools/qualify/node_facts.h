// Which machine a report is of. What the system tells flows in; names in the report flow out.
#pragma once

#include <optional>
#include <string>

#include "harness/tools/qualify/result.h"

namespace allocmark::qualify {

// "Supermicro SYS-821GE-TNHR"; empty where the system does not tell, as in most containers.
[[nodiscard]] std::string machine_type();

// Fills in the node's facts: its name is `name`, or the host's where that is empty. Nothing: the
// report is to be anonymous, and what would tell a GPU from all others is taken out.
void name_node(Report& report, const std::optional<std::string>& name);

}  // namespace allocmark::qualify
