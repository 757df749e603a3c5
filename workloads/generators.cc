#include "workloads/generators.h"

#include <array>

namespace allocmark {

// One per file, defined at its end.
extern const GeneratorEntry kTrainGenerator;
extern const GeneratorEntry kInferGenerator;
extern const GeneratorEntry kServeGenerator;
extern const GeneratorEntry kLoadGenerator;
extern const GeneratorEntry kColocateGenerator;
extern const GeneratorEntry kPauseGenerator;
extern const GeneratorEntry kChurnGenerator;
extern const GeneratorEntry kCombGenerator;
extern const GeneratorEntry kSawtoothGenerator;
extern const GeneratorEntry kGrowingGenerator;
extern const GeneratorEntry kRobsonGenerator;
extern const GeneratorEntry kSliversGenerator;
extern const GeneratorEntry kBoundariesGenerator;
extern const GeneratorEntry kProducerGenerator;
extern const GeneratorEntry kLitterGenerator;
extern const GeneratorEntry kOomEdgeGenerator;

std::span<const GeneratorEntry> generators() {
  static const std::array entries{
      kTrainGenerator,      kInferGenerator,    kServeGenerator,  kLoadGenerator,
      kColocateGenerator,   kPauseGenerator,    kChurnGenerator,  kCombGenerator,
      kSawtoothGenerator,   kGrowingGenerator,  kRobsonGenerator, kSliversGenerator,
      kBoundariesGenerator, kProducerGenerator, kLitterGenerator, kOomEdgeGenerator};
  return entries;
}

}  // namespace allocmark
