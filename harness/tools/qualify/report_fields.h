// The one table of what a stored qualification holds: every field's name and meaning, in the order
// in which it is written. Writer and reader (report_json.cc) walk it, and schema.json and the
// tables of TESTS.md are made from it (scripts/check/approve_goldens.sh). Flows in: a struct of
// result.h, const or not; flows out: one call on `fields` per field.
//
// `fields` offers: text, derived (written, never read), real, number (null where there is none),
// count, flag, verdict, direction, exit_code, object, objects, document (JSON of another kind).
#pragma once

#include "harness/tools/qualify/result.h"
#include "results/field.h"

namespace allocmark::qualify::fields {

// The version of the format (semver): MAJOR changes when old readers would be wrong.
inline constexpr const char* kQualificationVersion = "1.1.0";
inline constexpr const char* kQualificationKind = "qualification";

template <typename Fields, typename Item>
void visit_figure(Fields& fields, Item& figure) {
  fields.text(Field{"name", "what was measured"}, figure.name);
  fields.number(Field{"value", "null: not measured, and `note` says why"}, figure.value);
  fields.text(Field{"unit", "of the value and its limits"}, figure.limit.unit);
  fields.number(Field{"measured_ns", "the time itself, where `value` is a ratio of times"},
                figure.measured_ns);
  fields.text(Field{"note", "what else is to be said of it"}, figure.note);
  fields.verdict(Field{"verdict", "of this figure"}, figure.verdict);
  fields.text(Field{"threshold", "its key in the thresholds; `\"\"`: told, not judged"},
              figure.threshold);
  fields.direction(Field{"direction", "`max`: must not be above its limits; `min`: not below"},
                   figure.limit.is_min);
  fields.number(Field{"warn", "beyond it the figure is WARN; null: it never is"},
                figure.limit.warn);
  fields.number(Field{"fail", "beyond it the figure is FAIL; null: it never is"},
                figure.limit.fail);
}

template <typename Fields, typename Item>
void visit_test(Fields& fields, Item& test) {
  fields.derived(Field{"id", "a stable name: `gpu/NAME` or `node/NAME`"}, test_id(test));
  fields.text(Field{"test", "its name"}, test.test);
  fields.text(Field{"gpu", "the GPU's label; `\"\"`: a test of the node"}, test.gpu);
  fields.verdict(Field{"verdict", "the worst of its figures"}, test.verdict);
  fields.text(Field{"reason", "what decided it; `\"\"` for most PASS"}, test.reason);
  fields.real(Field{"wall_s", "how long it took"}, test.wall_s);
  fields.objects(Field{"figures", "what it measured"}, test.figures,
                 [](auto& nested, auto& figure) { visit_figure(nested, figure); });
}

template <typename Fields, typename Item>
void visit_gpu(Fields& fields, Item& gpu) {
  auto& facts = gpu.facts;
  fields.text(Field{"gpu", "its label: `cuda:0`, `sim:h200/1`"}, facts.label);
  fields.count(Field{"index", "its number, as CUDA counts"}, facts.index);
  fields.text(Field{"name", "of the model"}, facts.name);
  fields.text(Field{"uuid", "as nvidia-smi writes it; `\"\"` with --anonymous"}, facts.uuid);
  fields.text(Field{"pci_bus_id", "its place; `\"\"` with --anonymous"}, facts.pci_bus_id);
  fields.text(Field{"serial", "of the board; `\"\"` where NVML does not tell, with --anonymous"},
              facts.serial);
  fields.text(Field{"vbios", "version of its firmware; `\"\"` where NVML does not tell"},
              facts.vbios);
  fields.text(Field{"uuid_hash", "tells GPUs apart, also with --anonymous"}, facts.uuid_hash);
  fields.count(Field{"memory_bytes", "in all"}, facts.memory_bytes);
  fields.verdict(Field{"verdict", "the worst of its tests"}, gpu.verdict);
  fields.objects(Field{"tests", "in the order in which they ran"}, gpu.tests,
                 [](auto& nested, auto& test) { visit_test(nested, test); });
}

template <typename Fields, typename Item>
void visit_node(Fields& fields, Item& node) {
  fields.text(Field{"name", "the host's, or that of --node; `\"\"` with --anonymous"}, node.name);
  fields.text(Field{"machine_type", "maker and product; `\"\"` where the system does not tell"},
              node.machine_type);
  fields.text(Field{"driver_version", "of the GPUs; `\"\"` where NVML does not tell"},
              node.driver_version);
}

template <typename Fields, typename Item>
void visit_report(Fields& fields, Item& report) {
  fields.derived(Field{.name = "kind", .meaning = "what it is", .choices = kQualificationKind},
                 kQualificationKind);
  fields.derived(Field{"schema_version", "of this format"}, kQualificationVersion);
  fields.text(Field{"allocmark_version", "the program's, with its commit"}, report.version);
  fields.text(Field{"started_utc", "by the node's own clock"}, report.started_utc);
  fields.text(Field{"finished_utc", "by the same"}, report.finished_utc);
  fields.real(Field{"wall_s", "how long all took"}, report.wall_s);
  fields.text(Field{"level", "`quick`, `medium`, `long` or `extra-long`"}, report.level);
  fields.text(Field{"device", "which were asked for"}, report.device);
  fields.flag(Field{"anonymous", "nothing in it names the node or its GPUs"}, report.is_anonymous);
  fields.text(Field{"thresholds_path", "the file of --thresholds"}, report.thresholds_path);
  fields.object(Field{"node", "the machine"}, report.node,
                [](auto& nested, auto& node) { visit_node(nested, node); });
  fields.document(Field{"environment", "of the host, as in `results.jsonl`; null: not known"},
                  report.environment);
  fields.verdict(Field{"verdict", "the worst of all tests"}, report.verdict);
  fields.exit_code(Field{"exit_code", "of the command"}, report.exit_code);
  fields.objects(Field{"gpus", "what was qualified"}, report.gpus,
                 [](auto& nested, auto& gpu) { visit_gpu(nested, gpu); });
  fields.objects(Field{"node_tests", "tests of the node"}, report.node_tests,
                 [](auto& nested, auto& test) { visit_test(nested, test); });
}

}  // namespace allocmark::qualify::fields
