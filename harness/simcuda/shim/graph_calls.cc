// The exported functions of captures and graphs that the runtime and the driver have both: one line
// for each pair. In: what programs call. Out: what graph_api.h answers.
#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {

SIMCUDA_TWINS(cudaStreamEndCapture, cuStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph),
              (number(stream)), api_end_capture(thread, stream, graph))
SIMCUDA_TWINS(cudaGraphCreate, cuGraphCreate, (cudaGraph_t * graph, unsigned int flags), (flags),
              api_graph_create(thread, graph, flags))
SIMCUDA_TWINS(cudaGraphDestroy, cuGraphDestroy, (cudaGraph_t graph), (number(graph)),
              api_graph_destroy(thread, graph))
SIMCUDA_TWINS(cudaGraphClone, cuGraphClone, (cudaGraph_t * clone, cudaGraph_t original),
              (number(original)), api_graph_clone(thread, clone, original))
SIMCUDA_TWINS(cudaGraphGetNodes, cuGraphGetNodes,
              (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (number(graph)),
              api_graph_nodes(thread, graph, nodes, count))
SIMCUDA_TWINS(cudaGraphGetRootNodes, cuGraphGetRootNodes,
              (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (number(graph)),
              api_graph_roots(thread, graph, nodes, count))
SIMCUDA_TWINS(cudaGraphDebugDotPrint, cuGraphDebugDotPrint,
              (cudaGraph_t graph, const char* path, unsigned int flags), (number(graph), flags),
              api_graph_print(thread, graph, path))
SIMCUDA_TWINS(cudaGraphAddEmptyNode, cuGraphAddEmptyNode,
              (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
               size_t count),
              (number(graph), count),
              api_add_empty_node(thread, {node, graph, dependencies, count}))
SIMCUDA_TWINS(cudaGraphExecDestroy, cuGraphExecDestroy, (cudaGraphExec_t exec), (number(exec)),
              api_exec_destroy(thread, exec))
SIMCUDA_TWINS(cudaGraphLaunch, cuGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
              (number(exec), number(stream)), api_launch(thread, exec, stream))
SIMCUDA_TWINS(cudaGraphUpload, cuGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream),
              (number(exec), number(stream)), api_upload(thread, exec, stream))
SIMCUDA_TWINS(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim, (int device), (as_number(device)),
              api_trim_graph_memory(thread, device))

}  // namespace simcuda
