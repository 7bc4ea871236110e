import { fileURLToPath } from 'node:url';

/**
 * A file or folder of this package by its path there, such as `bundle`. INVARIANT: this module lies
 * two folders below the package, in `src/base/` as in `dist/chunks/`.
 */
export const packagePath = (path: string): string =>
  fileURLToPath(new URL(`../../${path}`, import.meta.url));
