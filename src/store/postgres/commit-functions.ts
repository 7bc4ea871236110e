// The one writer, on the server: one call, one transaction.
export const COMMIT_FUNCTIONS = '';
