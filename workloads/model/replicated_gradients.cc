// ShardedParameters where the model has replicas, each in shards (hybrid sharding): gradients that
// were reduced within a replica are summed over all of them.
#include <utility>

#include "workloads/model/collectives.h"
#include "workloads/model/sharded_parameters.h"

namespace allocmark {

// In place.
void ShardedParameters::reduce_over_replicas(const Tensor& shard) {
  if (settings_.replicas == 1) return;
  if (!single() && settings_.records) tape_->pool().record(shard, kReplicaStream);
  tape_->communicate(shard.size_bytes(), kReplicaStream, RankGroup::Replicas);
}

void ShardedParameters::keep_gradient(Unit* unit, Tensor reduced) {
  if (!unit->gradient) {
    unit->gradient = std::move(reduced);
    return;
  }
  // A second micro batch is added in place. Version 2 keeps what another stream has summed.
  if (single() && settings_.replicas > 1) unit->replicated = std::move(reduced);
}

}  // namespace allocmark
