"""The style sheet of a report, for phones and desktops, light and dark. tests/report measures the contrasts."""

from __future__ import annotations

LIGHT = {
    "paper": "#ffffff",
    "card": "#f4f5f6",
    "ink": "#1b1f23",
    "faint": "#57606a",
    "rule": "#d0d5da",
    "link": "#0b5cad",
    "alarm": "#a3182f",
    "floor": "#e4e8ec",
    "c0": "#0b63b0",
    "c1": "#b3541e",
    "c2": "#1b7f4d",
    "c3": "#7a3fb0",
    "c4": "#a8324a",
    "c5": "#5b6770",
    "c6": "#7a6a00",
    "c7": "#00757a",
}
DARK = {
    "paper": "#14171a",
    "card": "#1e2226",
    "ink": "#e8eaed",
    "faint": "#a9b1ba",
    "rule": "#3a4148",
    "link": "#7db8f5",
    "alarm": "#ff9aa8",
    "floor": "#2a3036",
    "c0": "#6db3f2",
    "c1": "#f0955c",
    "c2": "#5fcf94",
    "c3": "#c39af5",
    "c4": "#f28a9b",
    "c5": "#aab4bd",
    "c6": "#d9c04a",
    "c7": "#4fc7cc",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def _group(k: int) -> str:
    """The colours of the k-th group."""
    return f".line.c{k},.seed.c{k}{{stroke:var(--c{k})}}.band.c{k},.dot.c{k},.goal.c{k}{{fill:var(--c{k})}}\n"


CSS = f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}}
main,header,footer{{max-width:70rem;margin:0 auto;padding:0 1rem}}
h1{{font-size:1.6rem;line-height:1.2;margin:1.2rem 0 .3rem}}
h2{{font-size:1.25rem;margin:2rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--rule)}}
h3{{font-size:1rem;margin:1rem 0 .3rem}}
a{{color:var(--link)}}
:focus-visible{{outline:3px solid var(--link);outline-offset:2px}}
.faint,footer,figcaption,caption{{color:var(--faint);font-size:.9rem}}
nav ul{{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;list-style:none;padding:0;margin:.5rem 0}}
nav a{{display:inline-block;padding:.3rem 0}}
.fault{{border-left:4px solid var(--alarm);background:var(--card);padding:.5rem .9rem;margin:1rem 0}}
.fault h2{{border:0;margin:0;padding:0;font-size:1rem}}
.fault ul{{margin:.3rem 0;padding-left:1.2rem}}
.panels{{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr))}}
figure{{margin:0;background:var(--card);padding:.8rem;border-radius:6px;min-width:0}}
figcaption{{margin-top:.4rem}}figure h3{{margin-top:0}}
.legend{{list-style:none;margin:.5rem 0 0;padding:0;font-size:.9rem;display:flex;flex-wrap:wrap;gap:.2rem 1rem}}
.swatch{{vertical-align:middle;margin-right:.35rem}}
svg.chart,svg.above,video,img{{display:block;width:100%;height:auto}}
svg.above{{max-width:30rem}}
video,img{{max-width:40rem;border-radius:4px}}
svg text{{fill:var(--ink);font:14px system-ui,sans-serif}}
.end{{text-anchor:end}}.middle{{text-anchor:middle}}
svg text.note{{font-size:13px;paint-order:stroke;stroke:var(--card);stroke-width:5px;stroke-linejoin:round}}
.grid{{stroke:var(--rule);stroke-width:1}}.axis{{stroke:var(--faint)}}.floor{{fill:var(--floor)}}
.target{{stroke:var(--ink);stroke-dasharray:5 4;stroke-width:1.2}}
.line{{fill:none;stroke-width:2.2;stroke-linecap:round;stroke-linejoin:round}}
.seed{{fill:none;stroke-width:1;opacity:.45}}
.band{{opacity:.2;stroke:none}}
.goal{{stroke:var(--ink);stroke-width:1}}
{"".join(_group(k) for k in range(8))}
.scroll{{overflow-x:auto;margin:.5rem 0}}
table{{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}}
caption{{text-align:left;padding:.2rem 0}}caption strong{{color:var(--ink);font-size:1rem}}
th,td{{text-align:left;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--rule);vertical-align:top}}
td.figure,th.figure{{text-align:right}}td.figure{{white-space:nowrap}}
th{{font-weight:600}}
.finding{{border-left:4px solid var(--rule);padding:.1rem .9rem;margin:.8rem 0}}
.finding.error,.finding.warning{{border-color:var(--alarm)}}
.severity{{font-weight:600}}
dl{{margin:.3rem 0;display:grid;grid-template-columns:auto 1fr;gap:.1rem .8rem}}dt{{color:var(--faint)}}dd{{margin:0}}
summary{{cursor:pointer;padding:.4rem 0;font-weight:600}}
code{{font:.92em ui-monospace,monospace}}
footer{{margin:2.5rem auto 2rem}}
"""
