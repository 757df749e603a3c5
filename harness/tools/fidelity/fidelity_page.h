// Two traces side by side as a page of their own: live bytes over the trace, bytes by size of
// request, blocks by lifetime. Shapes flow in; HTML with inline SVG flows out, which needs neither
// a network nor another file.
#pragma once

#include <string>

#include "harness/tools/fidelity/fidelity.h"

namespace allocmark {

// `table`: the distances as text, shown above the plots as it is.
[[nodiscard]] std::string fidelity_page(const TraceShape& reference, const TraceShape& generated,
                                        const std::string& table);

}  // namespace allocmark
