# SPDX-License-Identifier: Apache-2.0
"""Changes of a kernel's text: what is computed changes, where it is computed does not."""

from vdla.verification.generated_tests.plug_in_changes import other_operator, other_update


def test_sums_in_indices_and_in_places_of_narrow_elements_stay():
    text = "new[b * 4 + o] = old[b + o] + narrow(wgt[(o + i) // 2], (o * 32 + i) % 2, 4)"
    changed = "new[b * 4 + o] = old[b + o] - narrow(wgt[(o + i) // 2], (o * 32 + i) % 2, 4)"
    assert (other_operator(text), other_operator(changed)) == (changed, text)
    assert other_operator("new[b + 1] = src[b + 1]") == "new[b + 1] = src[b + 1]"


def test_an_update_alone_is_changed():
    assert other_update("new_row[i] = row[i] + x\nnew[i] = a + b") == "new_row[i] = row[i] - x\nnew[i] = a + b"
