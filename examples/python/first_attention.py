# SPDX-License-Identifier: Apache-2.0
import sys

import attile
import numpy as np

x = ((np.arange(96) * 37 % 101 - 50) / 64).astype(np.float32).reshape(1, 2, 6, 8)  # 2 heads, 6 rows, head dimension 8; the same for q, k and v
values = x[:, :, : 7 - len(sys.argv)]  # with an argument: a value too few, to see what an error looks like
for value in attile.attention(x, x, values, mask="causal_bottom_right").flat:
    print(value)
