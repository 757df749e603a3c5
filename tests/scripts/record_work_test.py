#!/usr/bin/env python3
"""Tests the host's and the device's work in recordings of record_pytorch.py, without PyTorch: histories and profiles are written by
hand. Times here are in us from a beginning."""
import contextlib
import io
import os
import sys
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "record"))
import record_pytorch  # noqa: E402
from record_pytorch import Activity, BadWork, Position, Work, convert, work_of_profile  # noqa: E402

BEGIN_US = 1_700_000_000_000_000


def ns(us):
    return (BEGIN_US + us) * 1000


def entry(action, us, addr=0x1000, size=512, stream=0):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": BEGIN_US + us}


def mark(count, label, us):
    return Position(count, "mark", label, ns(us))


def call(name, begin, end, correlation=0):
    return Activity(name, ns(begin), ns(end), correlation)


def kernel(begin, end, correlation, stream=7, name="gemm"):
    return Activity(name, ns(begin), ns(end), correlation, stream)


def converted(entries, work, positions=(), **options):
    """(rows behind the first mark, text, what was said)"""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        converter, text = convert({"segments": [], "device_traces": [entries]}, positions=positions, make_work=work, remarks={}, **options)
    return converter.rows[1:], text, said.getvalue()


def profiled(activities, entries, end=1000, waited=1000, launch_ns=0, positions=(), streams=None):
    def work(_):
        return work_of_profile(activities, streams or {7: 0}, ns(0), ns(end), ns(waited), launch_ns)

    return converted(entries, work, positions)


class HostTime(unittest.TestCase):
    def rows(self, *entries, positions=(), end=None, **options):
        return converted(list(entries), lambda _: Work("none", ns(0), None if end is None else ns(end), **options), positions)[0]

    def test_a_row_comes_once_10_us_are_gathered_or_before_a_mark(self):
        rows = self.rows(entry("alloc", 4), entry("free_requested", 9), entry("alloc", 14), entry("free_requested", 16),
                         positions=[mark(4, "end", 19)])
        self.assertEqual(rows, ["alloc,1,512,0", "free,1,0,0", "host,0,14000,0", "alloc,2,512,0", "free,2,0,0", "host,0,5000,0", "mark,end,0,0"])

    def test_the_drivers_calls_are_left_out_as_far_as_the_history_shows_them(self):
        entries = [entry("alloc", 20), entry("free_requested", 40), entry("alloc", 60), entry("segment_free", 80), entry("segment_alloc", 700),
                   entry("alloc", 800, 0x2000), entry("alloc", 820, 0x3000), entry("segment_alloc", 990), entry("alloc", 995, 0x4000)]
        rows = converted(entries, record_pytorch.work_of_history)[0]
        # What stands before a cudaFree is the program's; of what ends in a new segment, the usual 20 us.
        self.assertEqual([row for row in rows if row.startswith("host")], ["host,0,20000,0"] * 5)

    def test_a_snapshot_has_host_rows_and_no_device_work(self):
        rows, text, _ = converted([entry("alloc", 0), entry("free_requested", 30)], record_pytorch.work_of_history)
        self.assertEqual(rows, ["alloc,1,512,0", "host,0,30000,0", "free,1,0,0"])
        self.assertIn("# device work: none\n", text)

    def test_what_recording_itself_takes_is_left_out(self):
        self.assertEqual(self.rows(entry("alloc", 20), entry("free_requested", 60), extra=[(ns(30), 5000), (ns(40), 6000)]),
                         ["host,0,20000,0", "alloc,1,512,0", "host,0,29000,0", "free,1,0,0"])

    def test_host_and_device_rows_are_no_operations(self):
        converter = convert({"device_traces": [[entry("alloc", 0), entry("free_requested", 50)]]}, make_work=record_pytorch.work_of_history,
                            operation_count_max=2)[0]
        self.assertEqual((converter.operation_count, len(converter.rows)), (2, 4))


class Marks(unittest.TestCase):
    def test_the_devices_time_is_spread_over_the_steps_host_rows(self):
        shares = [(ns(0), 40_000, 0), (ns(100), 300_000, 0x70)]
        rows = converted([entry("alloc", 50), entry("free_requested", 160), entry("alloc", 180)],
                         lambda _: Work("marks", ns(0), ns(200), shares=shares), [mark(1, "step1", 100)])[0]
        self.assertEqual(rows, ["host,0,50000,0", "kernel,0,20000,0", "alloc,1,512,0", "host,0,50000,0", "kernel,0,20000,0", "mark,step1,0,0",
                                "host,0,60000,0", "kernel,0,180000,1", "free,1,0,0", "host,0,20000,0", "kernel,0,60000,1", "alloc,2,512,0",
                                "host,0,20000,0", "kernel,0,60000,1", "sync,0,0,0"])

    def test_waits_that_python_asks_for_are_syncs_and_no_host_time(self):
        rows = converted([entry("alloc", 20), entry("free_requested", 90)],
                         lambda _: Work("marks", ns(0), ns(100), [(ns(40), "sync", 0, 0)], [(ns(40), ns(70))]))[0]
        self.assertEqual(rows, ["host,0,20000,0", "alloc,1,512,0", "host,0,20000,0", "sync,0,0,0", "host,0,20000,0", "free,1,0,0",
                                "host,0,10000,0", "sync,0,0,0"])

    def test_more_device_time_than_the_recording_has_is_refused_with_the_step(self):
        with self.assertRaisesRegex(BadWork, r"step1: the device took 900.000 ms up to the next mark, and the recording ended 0.900 ms"):
            record_pytorch.check_shares([(ns(0), 1_000, 0), (ns(100), 900_000_000, 0)], ns(900), ns(1000), ["step0", "step1"])
        record_pytorch.check_shares([(ns(0), 1_000_000, 0)], ns(900), ns(1000), ["step0"])


class Kernels(unittest.TestCase):
    def test_kernels_stand_where_the_host_launches_them_and_waits_are_syncs(self):
        activities = [call("cudaLaunchKernel", 20, 25, 1), kernel(30, 130, 1), call("cudaLaunchKernel", 60, 65, 2), kernel(131, 161, 2),
                      call("cudaStreamSynchronize", 80, 162, 3)]
        rows, text, _ = profiled(activities, [entry("alloc", 40), entry("free_requested", 180)], end=200)
        # The second kernel was in the queue when the first ended, so the gap of 1 us before it is the device's.
        self.assertEqual(rows, ["host,0,20000,0", "kernel,0,100000,0", "host,0,20000,0", "alloc,1,512,0", "host,0,20000,0", "kernel,0,31000,0",
                                "host,0,20000,0", "sync,0,0,0", "host,0,18000,0", "free,1,0,0", "host,0,20000,0", "sync,0,0,0"])
        self.assertIn("# device work: kernels\n", text)

    def test_short_kernels_of_a_stream_are_summed_up_to_10_us(self):
        activities = [one for key in range(4) for one in (call("cudaLaunchKernel", 2 * key, 2 * key + 1, key), kernel(20 * key + 9, 20 * key + 10, key))]
        rows = profiled(activities, [entry("alloc", 4), entry("free_requested", 7), entry("alloc", 30)], end=30)[0]
        self.assertEqual(rows, ["alloc,1,512,0", "free,1,0,0", "kernel,0,4000,0", "host,0,30000,0", "alloc,2,512,0", "sync,0,0,0"])

    def hosts(self, activities, entries, **options):
        return [int(row.split(",")[2]) for row in profiled(activities, entries, **options)[0] if row.startswith("host")]

    def test_the_drivers_calls_and_the_longer_launches_are_left_out(self):
        self.assertEqual(self.hosts([call("cudaMalloc", 10, 60)], [entry("alloc", 70)], end=70), [20_000])
        self.assertEqual(self.hosts([call("cudaFree", 10, 60)], [entry("alloc", 70)], end=70), [20_000])
        launches = [one for key in range(5) for one in (call("cudaLaunchKernel", 10 * key, 10 * key + 1, key), kernel(10 * key + 2, 10 * key + 3, key))]
        self.assertEqual(sum(self.hosts(launches, [entry("alloc", 70)], end=70, launch_ns=2_000)), 60_000)

    def test_a_wait_after_which_earlier_work_runs_is_host_time(self):
        activities = [call("cudaLaunchKernel", 10, 15, 1), kernel(20, 500, 1, 9), call("cudaEventSynchronize", 40, 90, 2)]
        rows = profiled(activities, [entry("alloc", 100)], end=100)[0]
        self.assertEqual([row for row in rows if row.startswith("sync")], ["sync,0,0,0"])  # the recorder's own, at the end
        self.assertEqual(sum(int(row.split(",")[2]) for row in rows if row.startswith("host")), 100_000)

    def test_a_copy_that_is_done_when_its_call_returns_is_a_wait(self):
        activities = [call("cudaMemcpyAsync", 20, 90, 1), kernel(40, 80, 1, name="Memcpy DtoH")]
        rows = profiled(activities, [entry("alloc", 100)], end=100)[0]
        self.assertEqual(rows[:4], ["host,0,20000,0", "kernel,0,40000,0", "sync,0,0,0", "host,0,10000,0"])

    def test_waiting_for_a_place_in_the_queue_of_launches_is_left_out(self):
        activities = [call("cudaLaunchKernel", key, key + 1, key) for key in range(600)]
        activities += [kernel(601 + 2 * key, 602 + 2 * key, key) for key in range(600)]
        activities += [call("cudaLaunchKernel", 600, 1600, 600), kernel(2000, 2001, 600)]
        self.assertEqual(sum(self.hosts(activities, [entry("alloc", 1700)], end=1700, waited=3000)), 701_000)

    def test_streams_are_those_of_the_history_and_others_get_their_own(self):
        activities = [call("cudaLaunchKernel", 0, 1, 1), kernel(2, 42, 1, 7), call("cudaLaunchKernel", 20, 21, 2), kernel(22, 62, 2, 13),
                      call("cudaLaunchKernel", 40, 41, 3), kernel(42, 82, 3, 21)]
        rows = profiled(activities, [entry("alloc", 60, stream=0x70)], end=100, streams={7: 0, 13: 0x70})[0]
        self.assertEqual([row for row in rows if row.startswith("kernel")], ["kernel,0,40000,0", "kernel,0,40000,1", "kernel,0,40000,2"])
        self.assertIn("alloc,1,512,1", rows)

    def test_records_of_other_devices_are_left_out(self):
        def event(name, kind, index, resource):
            return types.SimpleNamespace(name=lambda: name, device_type=lambda: kind, device_index=lambda: index, start_ns=lambda: 5,
                                         duration_ns=lambda: 4, correlation_id=lambda: 3, device_resource_id=lambda: resource)

        found = record_pytorch.activities_of([event("a", "DeviceType.CUDA", 0, 7), event("b", "DeviceType.CUDA", 1, 7),
                                              event("cudaMalloc", "DeviceType.CPU", 0, 99)], 0)
        self.assertEqual([(one.name, one.stream, one.begin_ns, one.end_ns) for one in found], [("a", 7, 5, 9), ("cudaMalloc", None, 5, 9)])


class BadInput(unittest.TestCase):
    """Each is named with its place, and the trace has no host, kernel or sync row."""

    def check(self, result, words):
        rows, text, said = result
        self.assertRegex(said, words)
        self.assertRegex(text, "# left out: .*" + words)
        self.assertIn("# device work: none\n", text)
        self.assertFalse([row for row in rows if row.startswith(("host", "kernel", "sync"))])
        self.assertTrue([row for row in rows if row.startswith("alloc")])

    def test_times_that_go_backwards(self):
        self.check(converted([entry("alloc", 500), entry("free_requested", 100)], record_pytorch.work_of_history),
                   r"entry 1 of the history \(free_requested\): its time is 0.400 ms before that of entry 0")
        self.check(converted([entry("alloc", 500)], lambda _: Work("marks", ns(0), ns(900)), [mark(1, "step1", 400)]),
                   "mark 'step1': its time is 0.100 ms before that of entry 0")

    def test_a_little_backwards_is_the_clocks(self):
        rows = converted([entry("alloc", 50), entry("free_requested", 45)], record_pytorch.work_of_history)[0]
        self.assertEqual(rows, ["alloc,1,512,0", "free,1,0,0"])

    def test_a_history_without_times(self):
        self.check(converted([{"action": "alloc", "addr": 1, "size": 2, "stream": 0}], record_pytorch.work_of_history), "the history has no times")

    def test_a_profiler_that_lost_records(self):
        launches = [call("cudaLaunchKernel", 10 + key, 11 + key, key) for key in range(10)]
        self.check(profiled(launches + [kernel(20 + key, 21 + key, key) for key in range(7)], [entry("alloc", 100)]),
                   "cudaLaunchKernel 0.017 ms after the beginning has no record on the device, like 3 of 10 launches: the profiler lost records")
        self.check(profiled([kernel(20 + key, 21 + key, key) for key in range(3)], [entry("alloc", 100)]),
                   "gemm 0.020 ms after the beginning has no launch, like 3 of 3 records on the device: the profiler lost records")

    def test_memsets_without_a_record_are_none(self):
        rows, text, _ = profiled([call("cudaMemsetAsync", 10 + key, 11 + key, key) for key in range(9)], [entry("alloc", 100)])
        self.assertIn("# device work: kernels\n", text)
        self.assertEqual(rows[0], "host,0,100000,0")

    def test_device_work_longer_than_the_recording(self):
        activities = [one for key in range(3) for one in (call("cudaLaunchKernel", key, key + 1, key), kernel(1, 900, key))]
        self.check(profiled(activities, [entry("alloc", 100)]), r"stream 7 \(first gemm\) worked 2.697 ms in a recording of 1.000 ms")

    def test_kernels_that_nobody_waits_for(self):
        self.check(profiled([call("cudaLaunchKernel", 1, 2, 1), kernel(3, 5000, 1, 9, "spin")], [entry("alloc", 100)]),
                   "spin on stream 9 ends 4.000 ms behind the last wait for the device: nobody waits for its stream")

    def test_clocks_that_differ(self):
        wait = call("cudaDeviceSynchronize", 905, 995)
        same = [wait, call("cudaMalloc", 100, 200)]
        self.assertEqual(record_pytorch.check_clocks(same, [entry("segment_alloc", 203)], ns(900), ns(1000)),
                         "the wait at the end lies 0 ns outside its bracket; segments enter the history 3000 ns behind their cudaMalloc (median of 1)")
        with self.assertRaisesRegex(BadWork, "lies 0.105 ms outside the times of this process"):
            record_pytorch.check_clocks([call("cudaDeviceSynchronize", 795, 880)], [], ns(900), ns(1000))
        with self.assertRaisesRegex(BadWork, r"4.800 ms \(median\) behind the cudaMalloc"):
            record_pytorch.check_clocks(same, [entry("segment_alloc", 5000)], ns(900), ns(1000))
        with self.assertRaisesRegex(BadWork, "it lost records"):
            record_pytorch.check_clocks([], [], ns(900), ns(1000))


class Scale(unittest.TestCase):
    ROWS = ("mark,begin,0,0", "host,0,7000000,0", "mark,step0,0,0", "host,0,400000,0", "kernel,0,100000,0", "host,0,400000,0", "sync,0,0,0")

    def test_two_clocks_meet_at_syncs(self):
        work = [("host", 10, "0"), ("kernel", 100, "0"), ("host", 30, "0"), ("kernel", 50, "0"), ("kernel", 5, "1"), ("sync", 0, "0"), ("host", 1, "0")]
        self.assertEqual(record_pytorch.two_clocks_ns(work), 161)

    def test_host_times_shrink_until_the_steps_take_as_long_as_unrecorded(self):
        rows, scale = record_pytorch.scale_host(self.ROWS, 600_000)
        self.assertAlmostEqual(scale, 0.75, delta=0.002)
        self.assertAlmostEqual(int(rows[3].split(",")[2]), 300_000, delta=1000)
        self.assertEqual((rows[0], rows[4], rows[6]), (self.ROWS[0], self.ROWS[4], self.ROWS[6]))

    def test_they_do_not_grow(self):
        self.assertEqual(record_pytorch.scale_host(self.ROWS, 900_000), (self.ROWS, 1.0))

    def test_the_head_says_the_scale(self):
        _, text, _ = converted([entry("alloc", 0), entry("free_requested", 100)], record_pytorch.work_of_history, [mark(0, "step0", 0)], plain_ns=80_000)
        self.assertRegex(text, r"# host time: scaled by 0\.[78]\d*, since the part from the first mark to the end takes 0.080 ms unrecorded")


if __name__ == "__main__":
    unittest.main()
