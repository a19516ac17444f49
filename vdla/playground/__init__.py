# SPDX-License-Identifier: Apache-2.0
"""The playground: a page in which the puzzles and a first expression run, on Python in the browser.

`build` writes the page, `session` is what it calls in the browser; `browser` has its JavaScript.
"""
