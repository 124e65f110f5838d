"""Builds HTML and SVG. Everything that is not marked as markup is escaped: names may be hostile."""

from __future__ import annotations

import base64
import html

from cairn.core.untrusted import printable

CLOSED = {"meta", "link", "img", "path", "line", "rect", "circle", "polygon"}  # self-closing without children


class Html(str):
    """Markup that is safe to insert into a page. Only functions of this file may make one."""


def plain(value: object) -> str:
    """Any value as printable text: control characters and lone surrogates become �."""
    return printable(value)


def text(value: object) -> Html:
    """Any value as escaped text."""
    return Html(html.escape(plain(value), quote=True))


def el(tag: str, *children: object, **attributes: object) -> Html:
    """<tag attribute="...">children</tag>; attributes, and children that are not Html, are escaped.

    `class_` stands for class and `aria_label` for aria-label. True gives an attribute without a value, None and False
    none.
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
    """Concatenate parts: sequences are flattened, None is skipped, text is escaped."""
    if parts is None:
        return Html("")
    if isinstance(parts, Html):
        return parts
    if isinstance(parts, (list, tuple)):
        return Html("".join(join(part) for part in parts))
    return text(parts)


def data_uri(kind: str, data: bytes) -> Html:
    """A file as a data: URI."""
    return Html(f"data:{kind};base64,{base64.b64encode(data).decode()}")


def document(head: object, body: object) -> Html:
    """A whole HTML document."""
    return Html(f'<!DOCTYPE html>\n<html lang="en">{el("head", head)}{el("body", body)}</html>\n')


def sheet(css: str) -> Html:
    """A style sheet, not escaped."""
    return Html(f"<style>{css}</style>")
