"""JAX: start-up, compiled steps, libraries, several GPUs, and what its allocator says of them. Kernels do nothing, so that XLA cannot choose among them by
what they compute: --xla_gpu_autotune_level=0."""
import gc
import itertools
import os
import subprocess
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")
import jax
import jax.numpy as jnp
import numpy as np
import pytest

CONVOLUTION = "jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), 'SAME'))(jnp.ones((8, 3, 64, 64)), jnp.ones((16, 3, 3, 3))).block_until_ready()"


def stats(device=0):
    return jax.devices()[device].memory_stats()


def rounded(*arrays):
    """What the allocator takes for them, where it splits blocks: whole 256 bytes."""
    return sum(-(-array.nbytes // 256) * 256 for array in arrays)


def comes_to(wanted):
    """Whether the allocator comes to hold so many bytes: the last references are given back by another thread."""
    for _ in range(1000):
        if stats()["bytes_in_use"] == wanted:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    jax.clear_caches()


def test_devices():
    assert [device.platform for device in jax.devices()] == ["gpu", "gpu"]
    assert jax.devices()[0].device_kind == "NVIDIA H200"


def test_there_and_back():
    sent = np.arange(1 << 20, dtype=np.float32)
    assert np.array_equal(np.asarray(jax.device_put(sent)), sent)


def test_sum():
    assert jnp.ones((1024, 1024)).sum().block_until_ready().shape == ()


def test_memory_of_a_product():
    gc.collect()
    time.sleep(0.5)  # what earlier tests held
    before = stats()["bytes_in_use"]
    a, b = jnp.ones((1024, 1024)), jnp.ones((1024, 1024))
    assert comes_to(before + rounded(a, b))
    c = jax.jit(jnp.matmul)(a, b).block_until_ready()
    assert comes_to(before + rounded(a, b, c))
    assert stats()["peak_bytes_in_use"] >= before + rounded(a, b, c)
    del a, b, c
    assert comes_to(before)


def test_train_step():
    def loss(parameters, x, y):
        for w, b in parameters[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = parameters[-1]
        return jnp.mean((x @ w + b - y) ** 2)

    @jax.jit
    def step(parameters, x, y):
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        return value, jax.tree.map(lambda old, gradient: old - 0.1 * gradient, parameters, gradients)

    sizes = (256, 1024, 1024, 16)
    key = jax.random.PRNGKey(0)
    parameters = [(jax.random.normal(key, (a, b)) * 0.01, jnp.zeros(b)) for a, b in itertools.pairwise(sizes)]
    x, y = jnp.ones((512, 256)), jnp.ones((512, 16))
    for _ in range(10):
        value, parameters = step(parameters, x, y)
    assert value.block_until_ready().shape == ()


def test_donated_argument_is_gone():
    a = jnp.ones(1 << 20)
    jax.jit(lambda a: a + 1, donate_argnums=0)(a).block_until_ready()
    assert a.is_deleted()


def test_loops():
    def cell(carry, x):
        carry = jnp.tanh(carry @ x)
        return carry, carry

    assert jax.jit(lambda c, xs: jax.lax.scan(cell, c, xs))(jnp.ones((8, 64)), jnp.ones((20, 64, 64)))[1].shape == (20, 8, 64)
    assert jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, x: x @ x, x))(jnp.ones((512, 512))).shape == (512, 512)


def test_convolution():
    assert eval(CONVOLUTION).shape == (8, 16, 64, 64)


def test_convolution_that_is_tuned():
    program = f"import jax, jax.numpy as jnp; {CONVOLUTION}"
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "XLA_FLAGS": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.strip().splitlines()[-1]


def test_attention():
    q = jnp.ones((2, 512, 8, 64), jnp.bfloat16)
    for implementation in ("xla", "cudnn"):
        out = jax.jit(lambda q, by=implementation: jax.nn.dot_product_attention(q, q, q, implementation=by))(q)
        assert out.block_until_ready().shape == q.shape


def test_linear_algebra():
    a = jnp.eye(64)
    shapes = [jnp.linalg.cholesky(a).shape, jnp.linalg.svd(a)[0].shape, jnp.linalg.solve(a, jnp.ones(64)).shape, jnp.linalg.eigh(a)[0].shape,
              jnp.linalg.qr(a)[0].shape, jnp.fft.fft(a).shape]
    assert shapes == [(64, 64), (64, 64), (64,), (64,), (64, 64), (64, 64)]


def test_sort():
    x = jax.random.normal(jax.random.PRNGKey(0), (100_000,))
    assert jnp.argsort(x).block_until_ready().shape == x.shape


def test_host_memory_and_callback():
    on_device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    pinned = jax.device_put(np.arange(1024.0), on_device.with_memory_kind("pinned_host"))
    assert np.array_equal(np.asarray(jax.device_put(pinned, on_device)), np.arange(1024.0))
    assert jax.pure_callback(lambda x: np.asarray(x) * 2, jax.ShapeDtypeStruct((4,), jnp.float32), jnp.ones(4)).shape == (4,)


def test_sum_over_devices():
    summed = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.ones((2, 1024)))
    assert summed.block_until_ready().shape == (2, 1024)


def test_sharded_product():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    before = [stats(i)["bytes_in_use"] for i in range(2)]
    rows = jax.device_put(np.ones((1024, 1024), np.float32), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", None)))
    assert [stats(i)["bytes_in_use"] - before[i] for i in range(2)] == [2 << 20, 2 << 20]
    assert jax.jit(lambda a: (a @ a.T).sum())(rows).block_until_ready().shape == ()


def test_out_of_memory():
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        jnp.ones(stats()["bytes_limit"], jnp.int8).block_until_ready() + jnp.ones(1 << 20, jnp.int8)


@pytest.mark.parametrize("setting", ["XLA_PYTHON_CLIENT_PREALLOCATE=false", "XLA_PYTHON_CLIENT_ALLOCATOR=platform", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"])
def test_other_allocators(setting):
    program = "import jax.numpy as jnp; print((jnp.ones((1024, 1024)) @ jnp.ones((1024, 1024))).sum().block_until_ready().shape)"
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **dict([setting.split("=")])}, capture_output=True, text=True, check=False)
    assert done.stdout == "()\n", done.stderr
