"""Rows in: any table becomes checked columns, and columns become boxes, keys and times."""
