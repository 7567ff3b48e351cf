"""Where tokens and the patches of pictures stand: Qwen3-VL's three-part rotary positions."""

from collections.abc import Sequence

import numpy as np


def rope_positions(ids: np.ndarray, image_id: int, grids: Sequence[tuple[int, int, int]], merge: int) -> np.ndarray:
    """Positions [3, S] (time, height, width) of one unpadded sequence, as `Qwen3VLModel.get_rope_index` gives them.

    Text counts on; a picture's tokens share one time and carry their row and column; after a picture the count goes
    on from its longer side.
    """
    positions = np.empty((3, len(ids)), np.int64)
    is_image = ids == image_id
    here, count, left = 0, 0, list(grids)
    while here < len(ids):
        if is_image[here]:
            _, rows, columns = left.pop(0)
            rows, columns = rows // merge, columns // merge
            span = slice(here, here + rows * columns)
            positions[0, span] = count  # one time for the whole picture
            positions[1, span] = count + np.repeat(np.arange(rows), columns)
            positions[2, span] = count + np.tile(np.arange(columns), rows)
            here, count = span.stop, count + max(rows, columns)
        else:
            # text up to the next picture, or to the end, in one step
            run = len(ids) - here if not is_image[here:].any() else int(is_image[here:].argmax())
            positions[:, here : here + run] = count + np.arange(run)
            here, count = here + run, count + run
    return positions
