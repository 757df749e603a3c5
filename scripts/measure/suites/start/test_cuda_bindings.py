"""cuda.bindings: start-up and memory of the driver, and what the runtime's module says."""
import ctypes

import pytest
from cuda.bindings import driver, nvrtc, runtime


def check(answer):
    assert int(answer[0]) == 0, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


@pytest.fixture
def context():
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    made = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(made))
    yield made
    check(driver.cuDevicePrimaryCtxRelease(device))


def test_device(context):
    assert b"NVIDIA" in check(driver.cuDeviceGetName(100, check(driver.cuDeviceGet(0))))
    free, total = check(driver.cuMemGetInfo())
    assert 0 < free < total


def test_memory_there_and_back(context):
    block = check(driver.cuMemAlloc(4096))
    sent, got = (ctypes.c_char * 4096)(*b"sent"), (ctypes.c_char * 4096)()
    check(driver.cuMemcpyHtoD(block, ctypes.addressof(sent), 4096))
    check(driver.cuMemcpyDtoH(ctypes.addressof(got), block, 4096))
    assert bytes(got) == bytes(sent)
    check(driver.cuMemFree(block))
    assert driver.cuMemFree(block)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE


def test_pool(context):
    stream = check(driver.cuStreamCreate(0))
    block = check(driver.cuMemAllocAsync(1 << 20, stream))
    pool = check(driver.cuDeviceGetDefaultMemPool(0))
    used = check(driver.cuMemPoolGetAttribute(pool, driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT))
    assert int(used) >= 1 << 20
    check(driver.cuMemFreeAsync(block, stream))
    check(driver.cuStreamSynchronize(stream))


def test_virtual_memory(context):
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    size = check(driver.cuMemGetAllocationGranularity(properties, driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
    handle = check(driver.cuMemCreate(size, properties, 0))
    place = check(driver.cuMemAddressReserve(size, 0, 0, 0))
    check(driver.cuMemMap(place, size, 0, handle, 0))
    access = driver.CUmemAccessDesc()
    access.location = properties.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(driver.cuMemSetAccess(place, size, [access], 1))
    check(driver.cuMemsetD8(place, 7, size))
    check(driver.cuMemUnmap(place, size))
    check(driver.cuMemAddressFree(place, size))
    check(driver.cuMemRelease(handle))


def test_module_of_compiled_code(context):
    program = check(nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void kernel(int* to) { *to = 1; }', b"k.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_90"]))
    text = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, text))
    module = check(driver.cuModuleLoadData(text))
    check(driver.cuModuleGetFunction(module, b"kernel"))
    assert driver.cuModuleGetFunction(module, b"other")[0] == driver.CUresult.CUDA_ERROR_NOT_FOUND


def test_runtime():
    check(runtime.cudaFree(check(runtime.cudaMalloc(4096))))
