/** Where a command works; the same words everywhere. */
export const PROJECT = [
  '-C, --project <dir>',
  'use the project in this folder (default: the nearest `.ai` upwards)',
] as const;
