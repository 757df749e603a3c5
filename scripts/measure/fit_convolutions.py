#!/usr/bin/env python3
"""What cuDNN takes beside a convolution's tensors: measures it on a GPU, and fits the rules by which `allocmark` says it.

usage: fit_convolutions.py measure FILE.csv [--seconds N] [--seed N]   needs a GPU and PyTorch: shapes at random, a row each
       fit_convolutions.py fit RULES.inc SAMPLE.csv FILE.csv...        needs scikit-learn: workloads/model/convolution_choices.inc

Which kernel cuDNN takes for a shape is its own heuristic. What that kernel needs is mostly a sum that can be named: copies of the images,
of the result, of the weight in another order, partial sums of the weight. `fit` names the sum of each measured row, and grows a decision
tree over the shape for each kind of convolution, type, and direction. A quarter of the rows is held out; the report is of that quarter.
A sample of it goes to SAMPLE.csv, for tests.
"""
import argparse
import collections
import contextlib
import csv
import lzma
import math
import random
import sys
import time

COLUMNS = "dtype", "kernel", "stride", "pad", "batch", "side", "cin", "cout", "forward", "input", "weight"
CHANNELS = [64 * count for count in (1, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 11, 12, 14, 15, 16, 18, 20, 24, 28, 30)]
BATCHES = [1, 2, 3, 4, 5, 6, 8, 8, 10, 12, 16, 16, 20, 24, 32, 32, 48, 64]
SIDES = [4, 7, 8, 8, 12, 14, 16, 16, 20, 24, 28, 32, 32, 40, 48, 56, 64, 64, 80, 96, 112, 128, 128, 160, 192, 224, 256]
# Half of the shapes: what UNets mostly have.
USUAL_CHANNELS = [64, 128, 128, 192, 256, 256, 320, 384, 384, 512, 512, 640, 768, 1024]
USUAL_BATCHES, USUAL_SIDES = [1, 2, 4, 8, 16, 32, 64], [8, 16, 32, 64, 128]
PATCH_SIDES = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 37]
PATCH_CHANNELS = [32 * count for count in range(2, 41)] + [24 * count for count in range(3, 20)] + [16 * count for count in range(3, 20)]
ELEMENTS_MAX = 2 ** 29
LEAVES_MAX, LEAF_ROWS_MIN, OFTEN = 300, 3, 4
# The UNets whose recordings ship (references/diffusion.py): their shapes are known one by one.
RECORDED = (("float32", (128, 256, 256), 64, 16), ("bfloat16", (64, 128, 256, 256), 128, 8), ("bfloat16", (192, 384, 768), 64, 4),
            ("float32", (64, 128), 32, 32))
SMALL_BYTES = 8192  # counters and the like


def draw_shape(draw):
    """dtype, kernel, stride, pad, batch, side, channels in and out."""
    kind = draw.choice(["same", "same", "same", "same", "pointwise", "half", "first", "last", "patch", "patch"])
    dtype = draw.choice(["float32", "bfloat16", "float16"] if kind == "patch" else ["float32", "bfloat16"])
    lists = (USUAL_BATCHES, USUAL_SIDES, USUAL_CHANNELS) if draw.random() < .5 else (BATCHES, SIDES, CHANNELS)
    batch, side, cin, cout = (draw.choice(one) for one in (*lists, lists[2]))
    if kind == "patch":
        cin = draw.choice([3, 3, 4])
        kernel = draw.choice([8, 14, 16, 16, 32] if cin == 3 else [2, 4, 8])
        return dtype, kernel, kernel, 0, batch, kernel * draw.choice(PATCH_SIDES), cin, draw.choice(PATCH_CHANNELS)
    if kind == "half" or draw.random() < .3:
        cin = cout
    if kind == "first":
        cin = draw.choice([3, 4])
    if kind == "last":
        cout = draw.choice([3, 4])
    return (dtype, *{"pointwise": (1, 1, 0), "half": (3, 2, 1)}.get(kind, (3, 1, 1)), batch, side, cin, cout)


def taken_bytes(function):
    """What was requested at once beside what is left, and what is left."""
    import torch
    torch.cuda.reset_peak_memory_stats()
    left = function()
    stats = torch.cuda.memory_stats()
    return stats["requested_bytes.all.peak"] - stats["requested_bytes.all.current"], left


def measure_shape(shape):
    import torch
    dtype, kernel, stride, pad, batch, side, cin, cout = shape
    options = {"device": "cuda", "dtype": getattr(torch, dtype)}
    images, weight = torch.randn(batch, cin, side, side, **options), torch.randn(cout, cin, kernel, kernel, **options)
    bias = torch.randn(cout, **options)
    forward, result = taken_bytes(lambda: torch.nn.functional.conv2d(images, weight, bias, stride=stride, padding=pad))
    gradient, row = torch.randn_like(result), [forward]
    for mask in ([True, False, False], [False, True, False]):
        taken, result = taken_bytes(lambda: torch.ops.aten.convolution_backward(
            gradient, images, weight, [cout], [stride, stride], [pad, pad], [1, 1], False, [0, 0], 1, mask))  # noqa: B023 (called at once)
        row.append(taken)
    return row


def measure(arguments):
    import torch
    draw, begin, seen = random.Random(arguments.seed), time.monotonic(), set()
    with open(arguments.file, "w", encoding="utf-8", newline="") as file, torch.no_grad():
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        while time.monotonic() - begin < arguments.seconds:
            shape = draw_shape(draw)
            if shape in seen or shape[4] * shape[5] ** 2 * max(shape[6:]) > ELEMENTS_MAX:
                continue
            seen.add(shape)
            with contextlib.suppress(torch.OutOfMemoryError):
                out.writerow([*shape, *measure_shape(shape)])
            torch.cuda.empty_cache()


class Shape:
    """A measured row."""

    def __init__(self, row):
        self.row, self.dtype = row, row["dtype"]
        self.key = (self.dtype, *(int(row[key]) for key in COLUMNS[1:8]))
        self.kernel, self.step, self.images, self.side, self.cin, self.cout = (int(row[key]) for key in COLUMNS[1:3] + COLUMNS[4:8])
        self.taken = {key: int(row[key]) for key in ("forward", "input", "weight")}
        self.width = 4 if self.dtype == "float32" else 2
        out = (self.side + 2 * int(row["pad"]) - self.kernel) // self.step + 1
        self.pixels_in, self.pixels_out = self.images * self.side ** 2, self.images * out ** 2
        self.kind = ("Patch" if self.kernel == self.step > 1 else "Pointwise" if self.kernel == 1 else "Half" if self.step == 2 else
                     "First" if self.cin <= 4 else "Last" if self.cout <= 4 else "Same")

    def padded(self, how):
        least = {"Plain": 0, "Four": 4, "Padded": 16 // self.width}[how]
        return max(self.cin, least), max(self.cout, least)

    def sums_bytes(self, how):
        """The weight once, in four bytes."""
        cin, cout = self.padded(how)
        return cin * cout * self.kernel ** 2 * 4

    def bases(self):
        """By name: what is copied."""
        bases = {"None": 0, "Winograd": 36 * 4 * (-(-self.pixels_out // 16) * (self.cin + self.cout) + self.cin * self.cout)}
        for how in ("Plain", "Padded", "Four"):
            cin, cout = self.padded(how)
            images, result = self.pixels_in * cin * self.width + 16, self.pixels_out * cout * self.width
            weight = cin * cout * self.kernel ** 2 * self.width
            bases.update({f"All{how}": images + result + weight, f"NoResult{how}": images + weight, f"NoWeight{how}": images + result})
        return bases

    def features(self):
        """In the order of Feature in convolution_workspaces.cc."""
        return (self.images, self.side, self.pixels_in, self.pixels_out, self.cin, self.cout, min(self.cin, self.cout), max(self.cin, self.cout),
                self.pixels_out * self.cin * self.cout, self.pixels_in * self.cin, self.pixels_out * self.cout, self.cin * self.cout,
                self.cout % 64, self.kernel, 64 * self.cin // self.cout)


FEATURES = ("Images", "Side", "PixelsIn", "PixelsOut", "ChannelsIn", "ChannelsOut", "Fewer", "More", "Products", "ElementsIn", "ElementsOut",
            "Weights", "OddOut", "Kernel", "Ratio")
ORDER = ("AllPlain", "AllPadded", "NoResultPlain", "NoResultPadded", "NoWeightPlain", "NoWeightPadded", "AllFour", "NoResultFour", "NoWeightFour")


def named(shape, taken):
    """The sum that a row is: what is copied, how often the weight is summed apart (-1: for each image), the rest, and the class of the
    rest where it is larger than a few counters."""
    bases = shape.bases()
    exact = [name for name in (*ORDER, "Winograd") if bases[name] == taken]
    if exact or taken <= SMALL_BYTES:
        return (exact[0] if taken and exact else "None", 0, 0 if exact else taken, 0)
    close = min(((taken - bases[name], name) for name in ORDER if 0 < taken - bases[name] <= SMALL_BYTES), default=None)
    if close:
        return close[1], 0, close[0], 0
    for name, how in (("None", "Plain"), ("None", "Padded"), ("AllPadded", "Padded"), ("AllPlain", "Plain"), ("NoWeightPadded", "Padded"),
                      ("NoWeightPlain", "Plain")):
        parts, rest = divmod(taken - bases[name], shape.sums_bytes(how))
        if 0 < parts <= 528 and rest <= 1024:
            name = "NonePadded" if (name, how) == ("None", "Padded") else name
            return name, -1 if parts == shape.images else parts, rest, 0
    name = next(name for name in ("AllPadded", "AllPlain", "NoResultPlain", "NoResultPadded", "None") if taken > bases[name])
    rest = taken - bases[name]
    return name, 0, rest, round(2 * math.log2(rest))


def said(shape, name, parts, rest):
    how = "Padded" if name.endswith("Padded") else "Four" if name.endswith("Four") else "Plain"
    base = 0 if name.startswith("None") else shape.bases()[name]
    return base + (shape.images if parts < 0 else parts) * shape.sums_bytes(how) + rest


class Tree:
    """A decision tree as rows: ("if", feature, limit, the row otherwise) and ("take", name, parts, rest)."""

    def __init__(self, shapes, direction):
        import numpy
        from sklearn.tree import DecisionTreeClassifier
        self.names = [named(shape, shape.taken[direction]) for shape in shapes]
        often = collections.Counter((name, rest) for name, _, rest, large in self.names if large)
        classes = [f"{name} {parts} {rest if often[name, rest] >= OFTEN else large}" for name, parts, rest, large in self.names]
        values = numpy.array([shape.features() for shape in shapes], dtype=float)
        grown = DecisionTreeClassifier(max_leaf_nodes=LEAVES_MAX, min_samples_leaf=LEAF_ROWS_MIN, criterion="entropy", random_state=0)
        self.tree = grown.fit(values, classes).tree_
        members = collections.defaultdict(list)
        for index, leaf in enumerate(grown.apply(values)):
            members[leaf].append(index)
        self.members, self.rows = members, []
        self.write(0, classes)

    def below(self, node):
        left = self.tree.children_left[node]
        return self.members[node] if left < 0 else self.below(left) + self.below(self.tree.children_right[node])

    def most(self, node, classes):
        """What most rows below a node are."""
        return collections.Counter(classes[index] for index in self.below(node)).most_common(1)[0][0]

    def leaves(self, node, classes):
        left = self.tree.children_left[node]
        return {self.most(node, classes)} if left < 0 else self.leaves(left, classes) | self.leaves(self.tree.children_right[node], classes)

    def write(self, node, classes):
        kinds = self.leaves(node, classes)
        if len(kinds) == 1:
            mine = [self.names[index] for index in self.below(node) if classes[index] in kinds]
            rests = sorted(rest for _, _, rest, _ in mine)
            self.rows.append(("take", mine[0][0], mine[0][1], rests[len(rests) // 2]))
            return
        row = len(self.rows)
        self.rows.append(None)
        self.write(self.tree.children_left[node], classes)
        self.rows[row] = ("if", FEATURES[self.tree.feature[node]], math.floor(self.tree.threshold[node]), len(self.rows))
        self.write(self.tree.children_right[node], classes)

    def say(self, shape):
        at, features = 0, dict(zip(FEATURES, shape.features()))
        while self.rows[at][0] == "if":
            _, feature, limit, otherwise = self.rows[at]
            at = at + 1 if features[feature] <= limit else otherwise
        return said(shape, *self.rows[at][1:])


def shapes_of_unet(dtype, channels, side, batch):
    """What a UNet of two blocks each asks for: kernel, step, side, channels in and out."""
    sides = [side >> index for index in range(len(channels))]
    kept, shapes = [channels[0]], [(3, 1, side, 3, channels[0]), (3, 1, side, channels[0], 3)]

    def residual(side, before, after):
        shapes.extend([(3, 1, side, before, after), (3, 1, side, after, after)] + [(1, 1, side, before, after)] * (before != after))

    for index, (side, after) in enumerate(zip(sides, channels)):
        for before in (kept[-1], after):
            residual(side, before, after)
        kept += [after] * (3 if index + 1 < len(channels) else 2)
        shapes.append((3, 2, side, after, after))
    last = channels[-1]
    for side, after in reversed(list(zip(sides, channels))):
        for _ in range(3):
            residual(side, last + kept.pop(), after)
            last = after
        shapes.append((3, 1, 2 * side, after, after))
    return [(dtype, kernel, step, kernel // 2, batch, side, cin, cout) for kernel, step, side, cin, cout in shapes]


def line_of(row):
    """A row of a tree in C++."""
    if row[0] == "if":
        return f"    ask({row[1]}, {row[2]}, {row[3]}),"
    padding = next((word for word in ("Padded", "Four") if row[1].endswith(word)), "Plain")
    copied = row[1].removesuffix(padding)
    return f"    take({'Nothing' if copied == 'None' else copied}, {padding}, {row[2]}, {row[3]}),"


def open_text(path):
    return lzma.open(path, "rt", encoding="utf-8") if path.endswith(".xz") else open(path, encoding="utf-8", newline="")


def fit(arguments):
    shapes = []
    for path in arguments.measured:
        with open_text(path) as file:
            shapes += [Shape(row) for row in csv.DictReader(file)]
    random.Random(1).shuffle(shapes)
    groups, held_out = collections.defaultdict(list), []
    for shape in shapes:
        groups[shape.kind, shape.dtype].append(shape)
    lines = [f"// Of {len(shapes)} convolutions measured on an H200: scripts/measure/fit_convolutions.py writes this file."]
    heads = []
    for (kind, dtype), group in sorted(groups.items()):
        count = len(group) * 3 // 4
        held_out += group[count:]
        for direction in ("forward", "weight") if kind in ("First", "Patch") else ("forward", "input", "weight"):
            tree = Tree(group[:count], direction)
            pairs = [(tree.say(shape), shape.taken[direction]) for shape in group[count:]]
            equal = sum(-(-one // 512) == -(-other // 512) for one, other in pairs) / len(pairs)
            near = sum(abs(one - other) <= max(2 ** 20, .02 * other) for one, other in pairs) / len(pairs)
            print(f"{kind} {dtype} {direction}: {len(tree.rows)} rows; of {len(pairs)} held out {equal:.3f} equal, {near:.3f} near")
            name = f"k{kind}{dtype.capitalize()}{direction.capitalize()}"
            heads.append(f"    {{{kind}, {dtype.capitalize()}, {direction.capitalize()}, {name}}},")
            lines += [f"constexpr ChoiceRow {name}[] = {{", *map(line_of, tree.rows), "};"]
    lines += ["constexpr ChoiceTree kChoiceTrees[] = {", *heads, "};", "constexpr KnownConvolution kKnownConvolutions[] = {"]
    recorded = {key for unet in RECORDED for key in shapes_of_unet(*unet)}
    for shape in sorted(shapes, key=lambda shape: shape.key):
        if shape.key in recorded:
            sizes = f"{shape.kernel}, {shape.step}, {shape.images}, {shape.side}, {shape.side // shape.step}, {shape.cin}, {shape.cout}"
            lines.append(f"    {{{{{shape.dtype.capitalize()}, {sizes}}}, {{{', '.join(map(str, shape.taken.values()))}}}}},")
    lines.append("};")
    with open(arguments.rules, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    with open(arguments.sample, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(shape.row for shape in random.Random(2).sample(held_out, 1500))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("file")
    one.add_argument("--seconds", type=int, default=240)
    one.add_argument("--seed", type=int, default=1)
    one = commands.add_parser("fit")
    for name in ("rules", "sample"):
        one.add_argument(name)
    one.add_argument("measured", nargs="+")
    arguments = parser.parse_args()
    sys.exit({"measure": measure, "fit": fit}[arguments.command](arguments))


if __name__ == "__main__":
    main()
