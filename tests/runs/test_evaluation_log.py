"""evaluations.npz is written and read in one place."""

import numpy as np
import pytest

from cairn import CairnError
from cairn.core.untrusted import NotThere
from cairn.runs.evaluation_log import Evaluation, as_arrays, checksum, read_evaluations

SOME = [Evaluation(10, (1.5, -2.0), (7, 8), (True, False)), Evaluation(20, (3.0, 4.0), (9, 9), (False, False))]
SILENT = [Evaluation(10, (1.5,), (7,), (None,))]


@pytest.mark.parametrize("rows", [SOME, SILENT])
def test_what_is_written_is_read_back(tmp_path, rows):
    np.savez(tmp_path / "evaluations.npz", **as_arrays(rows))
    found = read_evaluations(tmp_path / "evaluations.npz")
    assert found == rows and checksum(found) == checksum(rows)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ep_lengths": [[7, 8]]}, "do not fit one another"),
        ({"timesteps": [10, 20, 30]}, "do not fit one another"),
        ({"successes": [[True], [False]]}, "do not fit one another"),
        ({"results": [1.0, 2.0]}, "do not fit one another"),
        ({"timesteps": [10, np.nan]}, "values that are not numbers"),
        ({"results": [["a", "b"], ["c", "d"]]}, "values that are not numbers"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path, changes, said):
    np.savez(tmp_path / "e.npz", **{**as_arrays(SOME), **changes})
    with pytest.raises(CairnError, match=said):
        read_evaluations(tmp_path / "e.npz")


def test_a_missing_file_and_uneven_evaluations(tmp_path):
    with pytest.raises(NotThere):
        read_evaluations(tmp_path / "e.npz")
    with pytest.raises(CairnError, match="different numbers of episodes"):
        as_arrays([*SOME, *SILENT])
