"""How inputs are arranged: a registry of layouts, one module each, from files to a table of inputs.

from components.layouts import Item, layout   # for a layout of your own
"""

from components.layouts.custom import Folder, Item, layout

__all__ = ["Folder", "Item", "layout"]
