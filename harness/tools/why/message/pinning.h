// Whether an error without figures is one of pinned memory: PyTorch's texts for it say no more than
// "CUDA error: out of memory". Plain text flows in, yes or no flows out.
#pragma once

#include <cstddef>
#include <string_view>

namespace allocmark::message {

// Whether the last frames before the message, or the calls behind it, pin memory; the message is
// [begin, end) of the text. Frames further up may only mention it: a loader's argument says nothing
// about what failed inside.
[[nodiscard]] bool says_pinning(std::string_view text, std::size_t begin, std::size_t end);

}  // namespace allocmark::message
