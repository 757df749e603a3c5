// simcu.h's functions, found as programs find them.
#pragma once

#include <dlfcn.h>

#include "harness/simcuda/simcu.h"

#define SIMCU(name) (reinterpret_cast<decltype(&name)>(dlsym(RTLD_DEFAULT, #name)))
