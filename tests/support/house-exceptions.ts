// Exceptions of `tests/architecture.test.ts`. The list only gets shorter: an entry that is not needed fails the test.

/** Tests that wait longer than 50 ms without an event. This one shows that nothing happens within a time. */
export const KNOWN_WAITS: readonly string[] = ['packages/kernmantle/tests/cli/cli-threads.test.ts'];
