/* SPDX-License-Identifier: Apache-2.0 */
/* A library that a fake backend is linked against and that is not there when the backend is loaded. */
int attile_test_dependency(void);
int attile_test_dependency(void) { return 0; }
