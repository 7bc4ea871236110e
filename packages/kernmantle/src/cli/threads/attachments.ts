// Reads the options `--attach` and `--attach-trusted`, which commands that start or continue threads share.
import { resolve } from 'node:path';
import type { Attachment } from '@kernmantle/core/harness';
import { asList } from '../command.ts';

/** Returns the files of both options, from the current folder. `undefined`: there are none. */
export function attachmentsOf({
  attach,
  attachTrusted,
}: Readonly<Record<string, unknown>>): Attachment[] | undefined {
  const files = [
    ...asList(attach).map((path) => ({ path: resolve(path) })),
    ...asList(attachTrusted).map((path) => ({ path: resolve(path), trusted: true })),
  ];
  return files.length === 0 ? undefined : files;
}
