"""HTML and SVG from Python: whatever is not marked as markup is text, and text is escaped. Names may be hostile."""

from __future__ import annotations

import base64
import html

from cairn.core.untrusted import printable

CLOSED = {"meta", "link", "img", "path", "line", "rect", "circle", "polygon"}  # without children they close themselves


class Html(str):
    """Markup that is ready to stand in a page. Only the functions of this file may make one."""


def plain(value: object) -> str:
    """Any value as text that pages and terminals can hold: control characters and halves of surrogates become �."""
    return printable(value)


def text(value: object) -> Html:
    """Any value as escaped text."""
    return Html(html.escape(plain(value), quote=True))


def el(tag: str, *children: object, **attributes: object) -> Html:
    """<tag attribute="...">children</tag>; children that are no Html are escaped, as is every attribute.

    `class_` is class, `aria_label` is aria-label; True is an attribute without a value, None and False are none.
    """
    told = ""
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-").replace("viewbox", "viewBox")
        told += f" {name}" if value is True else f' {name}="{join(value)}"'
    if tag in CLOSED and not children:
        return Html(f"<{tag}{told}/>")
    return Html(f"<{tag}{told}>{join(children)}</{tag}>")


def join(parts: object) -> Html:
    """Parts one after another: sequences are taken apart, None is nothing, text is escaped."""
    if parts is None:
        return Html("")
    if isinstance(parts, Html):
        return parts
    if isinstance(parts, (list, tuple)):
        return Html("".join(join(part) for part in parts))
    return text(parts)


def data_uri(kind: str, data: bytes) -> Html:
    """A file as an address that holds it."""
    return Html(f"data:{kind};base64,{base64.b64encode(data).decode()}")


def document(head: object, body: object) -> Html:
    return Html(f'<!DOCTYPE html>\n<html lang="en">{el("head", head)}{el("body", body)}</html>\n')


def sheet(css: str) -> Html:
    """A style sheet of our own, as it is."""
    return Html(f"<style>{css}</style>")
