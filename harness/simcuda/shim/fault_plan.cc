#include "harness/simcuda/shim/fault_plan.h"

#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/function_names.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

struct CallPlan {
  std::mutex mutex;
  std::map<std::string, std::vector<Fault>, std::less<>>
      faults;  // nth counts down to the call that fails
};
CallPlan& call_plan() { return made_once<CallPlan>(); }

}  // namespace

void add_fault(std::string_view api, const Fault& fault) {
  const std::lock_guard lock(call_plan().mutex);
  call_plan().faults[std::string(api)].push_back(fault);
  slow_reasons.fetch_or(kFaults);
}

void add_faults(std::string_view text) {
  std::istringstream entries{std::string(text)};
  std::string entry;
  while (std::getline(entries, entry, ';')) {
    if (entry.empty()) continue;
    std::istringstream fields(entry);
    std::string api;
    Fault fault;
    char colon1 = 0;
    char colon2 = 0;
    std::getline(fields, api, ':');
    fields >> fault.nth >> colon1 >> fault.count >> colon2 >> fault.error;
    if (fields.fail() || !(fields >> std::ws).eof() || colon1 != ':' || colon2 != ':' ||
        api.empty() || fault.nth == 0 || fault.error <= 0) {
      throw std::runtime_error(
          "SIMCUDA_FAIL: wanted API:NTH:COUNT:ERROR[;...] with NTH from 1, got '" + entry + "'");
    }
    if (const std::string wrong = wrong_fault_name(api); !wrong.empty()) {
      throw std::runtime_error("SIMCUDA_FAIL: " + wrong);
    }
    add_fault(api, fault);
  }
}

void clear_faults() {
  const std::lock_guard lock(call_plan().mutex);
  call_plan().faults.clear();
  slow_reasons.fetch_and(~static_cast<std::uint32_t>(kFaults));
}

int next_fault(std::string_view api) {
  const std::lock_guard lock(call_plan().mutex);
  const auto found = call_plan().faults.find(api);
  if (found == call_plan().faults.end()) return 0;
  int error = 0;
  for (Fault& fault : found->second) {
    if (fault.nth > 1) {
      --fault.nth;
    } else if (fault.count > 0) {
      --fault.count;
      error = error == 0 ? fault.error : error;
    }
  }
  return error;
}

}  // namespace simcuda
