"""Layouts turn the files of a folder into a table of inputs; each layout is a module.

from components.layouts import Item, layout   # to write a custom layout
"""

from components.layouts.custom import Folder, Item, layout

__all__ = ["Folder", "Item", "layout"]
