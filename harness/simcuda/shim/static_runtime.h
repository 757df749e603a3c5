// Programs and libraries that carry the static CUDA runtime. In: the modules that are loaded. Out:
// their runtime's functions jump to ours, where the module's symbol table names them, or their code
// shows which they are; else a message that says what is wrong.
#pragma once

#include <optional>
#include <string>

#include "harness/simcuda/shim/code_facts.h"

namespace simcuda {

// Redirects the static runtimes of all modules that are loaded now.
void redirect_static_runtimes();

// Whether the module around the address carries a static runtime.
[[nodiscard]] bool carries_static_runtime(const void* address);
// A name, "libcublas.so.13+0x12340", for a kernel that its module registered with its own runtime
// before that was redirected. Empty where the function is in no such module.
[[nodiscard]] std::string kernel_of_redirected_module(const void* function);
// The device's variable that such a module's host variable stands for.
[[nodiscard]] std::optional<VariableFacts> variable_of_redirected_module(const void* variable);
// A static runtime that was not redirected asks for the driver's undocumented tables, which simcuda
// lacks: says so once. `caller`: an address in the module that asks.
void explain_static_runtime(const void* caller);

}  // namespace simcuda
