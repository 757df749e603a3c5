// PyTorch's allocator as a source of requests: through a plugin built against the same PyTorch,
// which is loaded once the allocator is there.
#pragma once

namespace allocmark_capture {

// The plugin's path; null: only the runtime's calls are recorded.
void want_torch(const char* plugin);

// Whether the calls of the runtime are the program's own requests. Not where PyTorch's are awaited
// or heard: there they are its segments.
[[nodiscard]] bool records_runtime();

// Whether the requests to PyTorch's allocator are heard.
[[nodiscard]] bool hears_torch();

// Called often, from outside the recorder's lock: attaches as soon as it can.
void look_for_torch();

// What there is to say at the end.
void end_torch();

}  // namespace allocmark_capture
