"""The chart of memory that is reserved and was never requested, as a share of the reserved peak. An experiment flows in; SVG flows out,
or None where no cell has both numbers."""

from chart_parts import RowChart, label_text, only_release, setting_text, title_of
from experiments import setting_of
from facts import is_measured
from svg import Scale


def waste_share(cell):
    reserved, requested = cell["reserved_bytes_peak"], cell["requested_bytes_peak"]
    return (reserved - requested) / reserved if reserved and requested <= reserved else None


def waste_chart(experiment, letters, style):
    cells = [cell for cell in experiment["cells"] if is_measured(cell) and waste_share(cell) is not None]
    if not cells:
        return None
    labels = [(label_text(cell, only_release(cells)), letters[setting_of(cell)]) for cell in cells]
    chart = RowChart("Memory reserved and never requested", title_of(experiment["key"]), labels, style)
    scale = Scale(0, 1, chart.left, chart.right)
    ticks = (0, 0.25, 0.5, 0.75, 1)
    chart.axis(scale, ticks, [f"{100 * tick:.0f} %" for tick in ticks], "share of the reserved peak")
    for index, cell in enumerate(cells):
        chart.drawing.dot(scale(waste_share(cell)), chart.y(index), 4, "m-allocated", tip=f"{setting_text(cell)}: {100 * waste_share(cell):.1f} %")
    return chart.drawing.render()
