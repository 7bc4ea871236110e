// Connects a value with the files that its data names.
import { type Value, withOrigin } from '../../flow/index.ts';
import type { FileBlock } from '../../llm/index.ts';

/** Adds the files that the data of a value names. */
export const withFiles = (value: Value, files: readonly FileBlock[] = []): Value =>
  files.length === 0 ? value : withOrigin(value, { files: files.map((file) => ({ ...file })) });

/** Returns the files of a value. Only `withFiles` sets them, so no data of a tool can name other files. */
export function filesOf({ meta }: Value): readonly FileBlock[] | undefined {
  return meta.origin.files as unknown as readonly FileBlock[] | undefined;
}
