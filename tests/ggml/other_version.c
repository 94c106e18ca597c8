/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded, it makes any ggml the version that a variable names. */
#include <stdlib.h>

__attribute__((visibility("default"))) const char *ggml_version(void);

const char *ggml_version(void) { return getenv("OTHER_GGML_VERSION"); }
