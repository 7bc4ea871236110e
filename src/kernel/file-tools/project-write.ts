// The way into a project's files for those who are no tool: the same gates and the same atomic write.
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { errnoOf, fail, type Outcome, ok } from '../../base/index.ts';
import type { ProjectPath } from '../rights/project-path.ts';

export interface ProjectWrite {
  text: string;
  append: boolean;
  /**
   * Told the content's hash before it takes its place, and that of what stays in front of it; a
   * failure stops the write.
   */
  willWrite(sha256: string, before: string | undefined): Outcome<null>;
}

const MAX_TRIES = 5;

interface Before {
  bytes: Buffer;
  mtimeMs: number;
  size: number;
}

async function contentOf({ absolute }: ProjectPath): Promise<Before | undefined> {
  try {
    const { mtimeMs, size } = await stat(absolute);
    return { bytes: await readFile(absolute), mtimeMs, size };
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes where the caller was allowed to. Appending starts over when somebody else wrote meanwhile. */
export async function writeProjectFile(
  place: ProjectPath,
  { text, append, willWrite }: ProjectWrite,
): Promise<Outcome<null>> {
  const { MAX_WRITTEN_BYTES, protectedPlace, tooLarge, writeWhole } = await import(
    './write-file.ts'
  );
  const refused = protectedPlace(place.relative);
  if (refused) return refused;
  for (let tries = 1; ; tries++) {
    const before = append ? await contentOf(place).catch(() => undefined) : undefined;
    const bytes = Buffer.concat([before?.bytes ?? Buffer.alloc(0), Buffer.from(text, 'utf8')]);
    if (bytes.length > MAX_WRITTEN_BYTES) return tooLarge(place.relative, bytes.length);
    const { mtimeMs = 0, size = 0 } = before ?? {};
    const old = before && createHash('sha256').update(before.bytes).digest('hex');
    const written = await writeWhole(place, bytes, {
      willWrite: (sha256) => willWrite(sha256, old),
      ...(before ? { replaces: { mtimeMs, size } } : append ? { onlyNew: true } : {}),
    });
    if (written.ok) return ok(null);
    const { code, detail } = written.error;
    const isRace =
      append && (detail.reason === 'changed' || detail.message.endsWith('exists already'));
    if (!isRace || code === 'permission_denied') return written;
    if (tries === MAX_TRIES) {
      return fail('tool_failed', `\`${place.relative}\` is written by others all the time`);
    }
  }
}
