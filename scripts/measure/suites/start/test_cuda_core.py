"""cuda.core's start-up and memory, on any device."""
import pytest
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions, LaunchConfig, Program, ProgramOptions, launch

MIB = 1 << 20
SOURCE = 'extern "C" __global__ void kernel(int* to, char part) { __shared__ int kept[64]; kept[threadIdx.x] = part; to[0] = kept[0]; }'


@pytest.fixture
def device():
    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def kernel(device):
    options = ProgramOptions(arch="sm_" + "".join(str(part) for part in device.compute_capability))
    return Program(SOURCE, "c++", options).compile("cubin").get_kernel("kernel")


def test_device(device):
    assert device.name
    assert device.properties.multiprocessor_count > 0


def test_stream_and_event(device):
    stream = device.create_stream()
    event = stream.record()
    event.sync()
    assert event.is_done


def test_buffer_of_the_default_pool(device):
    stream = device.create_stream()
    buffer = device.allocate(1000, stream=stream)
    assert buffer.size == 1000
    assert buffer.is_device_accessible
    buffer.close(stream)


def test_pool_with_a_limit(device):
    stream = device.create_stream()
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=32 * MIB))
    buffer = pool.allocate(MIB, stream=stream)
    assert pool.attributes.used_mem_current == MIB
    with pytest.raises(Exception, match="OUT_OF_MEMORY"):
        pool.allocate(1024 * MIB, stream=stream)
    buffer.close(stream)
    stream.sync()
    assert pool.attributes.used_mem_current == 0


def test_copy_between_buffers(device):
    stream = device.create_stream()
    first, second = (device.allocate(256, stream=stream) for _ in range(2))
    first.copy_to(second, stream=stream)
    stream.sync()


def test_kernel_is_known(kernel):
    assert kernel.num_arguments == 2
    assert kernel.attributes.shared_size_bytes == 256
    assert kernel.attributes.num_regs > 0
    assert [(argument.offset, argument.size) for argument in kernel.arguments_info] == [(0, 8), (8, 1)]


def test_kernel_starts(device, kernel):
    stream = device.create_stream()
    buffer = device.allocate(256, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=64), kernel, buffer, b"\1"[0])
    stream.sync()


def test_occupancy(kernel):
    assert kernel.occupancy.max_active_blocks_per_multiprocessor(64, 0) > 0
