// Scenario files: the ones that ship are all sound, and every slip in a file is named with its
// line.
#include "workloads/scenario.h"

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/composition.h"
#include "workloads/generators.h"
#include "workloads/open_workload.h"
#include "workloads/trace_tools.h"

using namespace allocmark;

TEST_CASE("every scenario that ships is complete and its workload opens") {
  std::set<std::string> names;
  for (const GeneratorEntry& generator : generators()) names.emplace(generator.name);
  for (const NamedFile& file : recorded_traces()) names.insert(file.name);
  CHECK(scenario_files().size() >= 40);
  for (const NamedFile& file : scenario_files()) {
    INFO(file.path);
    const Scenario scenario = load_scenario(file.name);
    CHECK(scenario.summary.size() > 20);
    CHECK_FALSE(scenario.intent.empty());
    CHECK_FALSE(scenario.capacities.empty());
    CHECK_FALSE(open_workload(scenario.workload, scenario.seeds.front())->next().empty());
    CHECK_FALSE(open_workload(file.name, 1)->next().empty());
    CHECK(names.insert(file.name).second);  // no scenario hides behind another workload's name
  }
}

TEST_CASE("every generator has a scenario") {
  std::set<std::string> used;
  for (const NamedFile& file : scenario_files()) {
    for (const std::string& part : workload_parts(read_scenario(file.path).workload)) {
      used.insert(part.substr(0, part.find(':')));
    }
  }
  for (const GeneratorEntry& generator : generators()) {
    INFO(generator.name);
    CHECK(used.contains(std::string(generator.name)));
  }
}

TEST_CASE("a scenario file is read") {
  const TemporaryFolder folder;
  const Scenario scenario = read_scenario(
      folder.write("intent/tight.toml",
                   "# little room\n\n# a remark\nworkload = \"churn:events=10\"  # inline\n"
                   "seeds = [1, 22]\ncapacity = [\"1.05x\", \"8GiB\"]\n"
                   "on_oom = \"stop\"\nconf = \"max_split_size_mb:32\"\n"));
  CHECK(scenario.name == "tight");
  CHECK(scenario.intent == "intent");
  CHECK(scenario.summary == "little room");
  CHECK(scenario.workload == "churn:events=10");
  CHECK(scenario.seeds == std::vector<std::uint64_t>{1, 22});
  CHECK(scenario.capacities == std::vector<std::string>{"1.05x", "8GiB"});
  CHECK(scenario.on_oom == "stop");
  CHECK(scenario.confs == std::vector<std::string>{"max_split_size_mb:32"});
}

TEST_CASE("each slip in a scenario file is named with its line") {
  struct Case {
    std::string text;
    std::string line;
    std::string rule;
  };
  const std::string head = "# summary\nworkload = \"churn\"\n";
  const std::vector<Case> cases = {
      {"workload = \"churn\"\n", ":1", "no summary"},
      {"", ":1", "no workload"},
      {"# summary\n", ":1", "no workload"},
      {head + "capcity = \"1x\"\n", ":3", "did you mean 'capacity'"},
      {head + "seeds\n", ":3", "not a key and a value"},
      {head + "seeds = \n", ":3", "no value"},
      {head + "seeds = []\n", ":3", "at least one seed"},
      {head + "seeds = [1, -2]\n", ":3, key 'seeds'", "bad value"},
      {head + "seeds = [99999999999999999999]\n", ":3", "bad value of key 'seeds'"},
      {head + "seeds = [1, 2\n", ":3", "closing bracket"},
      {head + "seeds = [\n", ":3", "no value"},
      {head + "seeds = [1 2]\n", ":3", "closing bracket"},
      {head + "seeds = \"1\"\n", ":3", "bad value of key 'seeds'"},
      {head + "seeds = [1, 2, 1]\n", ":3", "values that differ"},
      {head + "conf = [\"unset\", \"unset\"]\n", ":3", "values that differ"},
      {head + "conf = 12\n", ":3", "Put quotes around it"},
      {head + "on_oom = [\"skip\", \"stop\"]\n", ":3", "one \"text\""},
      {head + "capacity = \"1x\n", ":3, key 'capacity'", "closing quote"},
      {head + "capacity = \"1x\" 2\n", ":3", "text after the value"},
      {head + "capacity = 5\n", ":3", "Put quotes around it"},
      {head + "on_oom = \"die\"\n", ":3", "bad value of key 'on_oom'"},
      {head + "workload = \"comb\"\n", ":3", "key 'workload' twice"},
      {head + "[section]\n", ":3", "not a key and a value"},
  };
  const TemporaryFolder folder;
  for (const Case& item : cases) {
    INFO(item.text);
    const std::string path = folder.write("intent/bad.toml", item.text);
    const std::string error = usage_error_of([&] { static_cast<void>(read_scenario(path)); });
    CHECK(mentions(error, "bad.toml" + item.line));
    CHECK(mentions(error, item.rule));
  }
}

TEST_CASE("data are found where ALLOCMARK_DATA says") {
  const TemporaryFolder folder;
  static_cast<void>(folder.write("recorded/mine.ops.csv", "op,id,size,stream\nalloc,1,7,0\n"));
  static_cast<void>(folder.write("scenarios/a/one.toml", "# s\nworkload = \"mine\"\n"));
  static_cast<void>(folder.write("scenarios/a/chain.toml", "# s\nworkload = \"one\"\n"));
  REQUIRE(::setenv("ALLOCMARK_DATA", folder.file("").c_str(), 1) == 0);
  CHECK(open_workload("mine", 1)->next().size() == 1);
  CHECK(open_workload("one", 1)->next().size() == 1);
  CHECK(mentions(usage_error_of([] { static_cast<void>(open_workload("chain", 1)); }),
                 "a scenario names another scenario"));
  CHECK(list_scenarios().size() == 2);
  static_cast<void>(folder.write("scenarios/a/bad.toml", "# s\nworkload = \"comb:cuont=1\"\n"));
  const std::string bad = usage_error_of([] { static_cast<void>(open_workload("bad", 1)); });
  CHECK(mentions(bad, "a/bad.toml, key 'workload'"));
  CHECK(mentions(bad, "did you mean 'count'"));
  static_cast<void>(folder.write("scenarios/a/broken.toml", "bad = [\n"));
  CHECK(list_scenarios().size() == 4);
  static_cast<void>(folder.write("scenarios/a/deep.toml", "# s\nworkload = \"mine then one\"\n"));
  CHECK(mentions(usage_error_of([] { static_cast<void>(open_workload("deep", 1)); }),
                 "a scenario names another scenario"));
  static_cast<void>(folder.write("scenarios/b/one.toml", "# s\nworkload = \"mine\"\n"));
  CHECK(mentions(usage_error_of([] { static_cast<void>(scenario_files()); }),
                 "two scenarios have the name 'one'"));
  REQUIRE(::setenv("ALLOCMARK_DATA", folder.file("absent").c_str(), 1) == 0);
  CHECK_THROWS_AS(recorded_traces(), FileError);
  ::unsetenv("ALLOCMARK_DATA");
}

TEST_CASE("unknown workloads and scenarios get the nearest names") {
  CHECK(mentions(usage_error_of([] { static_cast<void>(open_workload("gpt2_train_apm", 1)); }),
                 "gpt2_train_amp"));
  CHECK(mentions(usage_error_of([] { static_cast<void>(open_workload("trian:gpt2-124m", 1)); }),
                 "train"));
  CHECK(mentions(usage_error_of([] { static_cast<void>(load_scenario("gpt2_checkpont")); }),
                 "gpt2_checkpoint"));
  CHECK(mentions(usage_error_of([] { static_cast<void>(open_workload("train:gpt2-124", 1)); }),
                 "gpt2-124m"));
  CHECK(mentions(usage_error_of([] { static_cast<void>(open_workload("churn:life_bytes=1", 1)); }),
                 "live_bytes"));
  CHECK(mentions(usage_error_of([] {
                   static_cast<void>(
                       open_workload("CUDA out of memory. Tried to allocate 2 GiB", 1));
                 }),
                 "allocmark why"));
}

TEST_CASE("a model's name alone gets the workloads that it can be part of") {
  const auto said = [](const char* workload) {
    try {
      static_cast<void>(open_workload(workload, 1));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* name :
       {"llama-3-8b", "llama-3.1-8b", "llama-3-8b,batch=4", "meta-llama/Llama-3.1-8B-Instruct"})
    CHECK(mentions(said(name), "did you mean train:llama-3-8b, infer:llama-3-8b or serve:"));
  CHECK(mentions(said("gpt2_train_am"), "gpt2_train_amp"));
  CHECK(mentions(said("runs/llama-3-8b.csv"), "there is no trace file"));
}

TEST_CASE("a workload's definition is what its scenarios say") {
  const TemporaryFolder folder;
  const auto say = [&](const std::string& name, const std::string& workload) {
    static_cast<void>(folder.write("scenarios/a/" + name + ".toml",
                                   fmt::format("# s\nworkload = \"{}\"\n", workload)));
  };
  static_cast<void>(folder.write("recorded/mine.ops.csv", "op,id,size,stream\nalloc,1,7,0\n"));
  say("one", "comb:count=4");
  say("phases", "comb:count=4 then comb:count=8");
  REQUIRE(::setenv("ALLOCMARK_DATA", folder.file("").c_str(), 1) == 0);
  CHECK(define_workload("comb:count=4").empty());
  CHECK(define_workload("mine then comb:count=4").empty());
  CHECK(define_workload("one") == "comb:count=4");
  CHECK(define_workload("mine then one beside phases") ==
        "mine then comb:count=4 beside comb:count=4 then comb:count=8");
  CHECK(mentions(usage_error_of([] { static_cast<void>(define_workload("phases then mine")); }),
                 "part 'phases'"));
  say("one", "comb:count=6");
  CHECK(define_workload("one") == "comb:count=6");
  ::unsetenv("ALLOCMARK_DATA");
}
