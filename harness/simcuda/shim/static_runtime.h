// Programs and libraries that carry the static CUDA runtime. In: the modules that are loaded. Out:
// their runtime's functions jump to ours, where the module's symbol table still names them; else a
// message that says what is wrong.
#pragma once

namespace simcuda {

// Redirects the static runtimes of all modules that are loaded now.
void redirect_static_runtimes();

// Whether the module around the address carries a static runtime.
[[nodiscard]] bool carries_static_runtime(const void* address);
// A static runtime that was not redirected asks for the driver's undocumented tables, which simcuda
// lacks: says so once. `caller`: an address in the module that asks.
void explain_static_runtime(const void* caller);

}  // namespace simcuda
