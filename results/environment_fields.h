// The rows of the field table (results/fields.h) that describe what a run ran on.
#pragma once

#include "results/field.h"
#include "results/schema.h"

namespace allocmark::fields {

template <typename Fields, typename Host>
void visit_host_reference(Fields& fields, Host& environment) {
  fields.known_real(Field{"host_reference_ns",
                          "what the reference takes on this host with no cell beside it, see "
                          "\"Host time on another host\"; null where it was not measured",
                          7},
                    environment.host_reference_ns);
  fields.known_real(Field{"profile_host_reference_ns",
                          "the same on the host on which the device's profile was measured; null "
                          "where not known",
                          7},
                    environment.profile_host_reference_ns);
  fields.known_real(Field{"profile_clock_overhead_ns",
                          "`clock_overhead_ns` on the host on which the device's profile was "
                          "measured; null where not known",
                          10},
                    environment.profile_clock_overhead_ns);
  fields.optional_text(
      Field{"profile_host_reference_basis",
            "how that number came about: `measured`, or what it was derived from", 7},
      environment.profile_host_reference_basis);
}

template <typename Fields, typename Host>
void visit_environment(Fields& fields, Host& environment) {
  fields.text(Field{"allocmark_version", "the program's version"}, environment.allocmark_version);
  fields.text(Field{"git_sha", "the commit it was built from; `\"\"` outside a checkout"},
              environment.git_sha);
  fields.boolean(Field{"git_dirty",
                       "whether the checkout had local changes; such results cannot be rebuilt "
                       "from the commit alone"},
                 environment.git_dirty);
  fields.text(Field{"build_type", "CMake's build type; latencies of a Debug build mean nothing"},
              environment.build_type);
  fields.text(Field{"compiler", "name and version"}, environment.compiler);
  fields.texts(Field{"argv", "the command line, one text per argument"}, environment.argv);
  fields.text(Field{"started_utc", "start of the run, ISO 8601"}, environment.started_utc);
  fields.text(
      Field{
          "hostname_hash",
          "hash of the machine's random id and its name: tells hosts apart and cannot be guessed"},
      environment.hostname_hash);
  fields.text(Field{"os", "of the host"}, environment.os);
  fields.text(Field{"kernel", "of the host"}, environment.kernel);
  fields.text(Field{"cpu_model", "of the host"}, environment.cpu_model);
  fields.text(Field{"cpu_governor",
                    "of the host; a governor other than `performance` makes latencies vary"},
              environment.cpu_governor);
  fields.known_integer(Field{"cpu_count", "logical CPUs; null where not known"},
                       environment.cpu_count);
  fields.known_integer(Field{"memory_bytes", "host memory; null where not known"},
                       environment.memory_bytes);
  fields.text(Field{"device", "`sim:PROFILE`, `sim:CARD`, either with `,memory=SIZE`, or `cuda:N`"},
              environment.device);
  fields.text(Field{"gpu_name", "on a simulated device as its profile says, or `\"\"`"},
              environment.gpu_name);
  fields.text(Field{"gpu_uuid_hash", "tells GPUs apart; `\"\"` on a simulated device"},
              environment.gpu_uuid_hash);
  fields.known_integer(Field{"gpu_memory_bytes", "the device's total memory; null where not known"},
                       environment.gpu_memory_bytes);
  fields.text(Field{"driver_version", "CUDA's; a simulated device states what it imitates"},
              environment.driver_version);
  fields.text(Field{"runtime_version", "likewise"}, environment.runtime_version);
  fields.text(Field{"profile_name", "the device model's measured profile; `\"\"` on a GPU"},
              environment.profile_name);
  fields.text(Field{"profile_hash", "hash of that profile; `\"\"` on a GPU"},
              environment.profile_hash);
  fields.optional_text(
      Field{"times_borrowed_from",
            "the GPU whose driver was measured, where a simulated card has only its memory "
            "from elsewhere; `\"\"` where times are the device's own",
            5},
      environment.times_borrowed_from);
  fields.known_real(
      Field{"clock_resolution_ns",
            "smallest step in which the clock advances (10 ns on AMD's processors, whatever their "
            "tick); null where not known. Schema 1.0 stored a tick's length"},
      environment.clock_resolution_ns);
  fields.known_real(
      Field{"clock_overhead_ns", "cost of one pair of clock readings; null where not known"},
      environment.clock_overhead_ns);
  visit_host_reference(fields, environment);
  fields.texts(Field{"warnings", "what may have disturbed the whole run"}, environment.warnings);
}

}  // namespace allocmark::fields
