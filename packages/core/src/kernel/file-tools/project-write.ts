// Writes to files of the project for callers that are not tools, with the same checks and the same
// atomic write.
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { LabelRecords, MaybePromise, WritePreview } from '../../flow/index.ts';
import { type ProjectPath, resolveProjectPath } from '../rights/project-path.ts';

interface ProjectWrite {
  text: string;
  append: boolean;
  /** Hash of the content that a person approved overwriting; `new`: no file. */
  approved?: string | undefined;
  /**
   * Receives the hash of the new content, and for an append the hash of the old content, before the file
   * is replaced. A failure stops the write.
   */
  willWrite(sha256: string, before: string | undefined): MaybePromise<Outcome<null>>;
}

const MAX_TRIES = 5;

/** Writes a file at a path that the caller may write. An append starts over if the file changed during it. */
export async function writeProjectFile(
  place: ProjectPath,
  { text, append, approved, willWrite }: ProjectWrite,
): Promise<Outcome<null>> {
  const { MAX_WRITTEN_BYTES, notApproved, protectedPlace, tooLarge, writeWhole } = await import(
    './write-file.ts'
  );
  const { readWhole } = await import('./read-file.ts');
  const refused = protectedPlace(place.relative);
  if (refused) return refused;
  for (let tries = 1; ; tries++) {
    const present = append ? await readWhole(place, MAX_WRITTEN_BYTES) : undefined;
    if (present && !present.ok && present.error.code !== 'not_found') return present;
    const before = present?.ok ? present.output : undefined;
    const actual = before?.sha256 ?? 'new';
    if (append && approved !== undefined && approved !== actual) return notApproved(place.relative);
    const bytes = Buffer.concat([before?.bytes ?? Buffer.alloc(0), Buffer.from(text, 'utf8')]);
    if (bytes.length > MAX_WRITTEN_BYTES) return tooLarge(place.relative, bytes.length);
    const written = await writeWhole(place, bytes, {
      willWrite: (sha256) => willWrite(sha256, before?.sha256),
      onlyNew: append && !before,
      // An append compares the content that it read, and starts over if the file has changed.
      approved: append ? undefined : approved,
      ...(before && { replaces: { mtimeMs: before.mtimeMs, size: before.bytes.length } }),
    });
    if (written.ok) return ok(null);
    const { code, detail } = written.error;
    const isRace = append && (detail.reason === 'changed' || detail.reason === 'exists');
    if (!isRace || code === 'permission_denied') return written;
    if (tries === MAX_TRIES) {
      return fail('tool_failed', `\`${place.relative}\` is busy; other processes keep writing it`);
    }
  }
}

/** Returns the refusal of a path that no caller may write. Undefined for other paths. */
export const refusesWriting = async ({ relative }: ProjectPath): Promise<Failure | undefined> =>
  (await import('./write-file.ts')).protectedPlace(relative);

/** Returns the changes of such a write, or undefined if they cannot be computed. */
export async function previewProjectWrite(
  projectRoot: string,
  labels: Pick<LabelRecords, 'recall'>,
  path: string,
  { text, append }: Pick<ProjectWrite, 'text' | 'append'>,
): Promise<WritePreview | undefined> {
  const { previewWrite } = await import('./write-preview.ts');
  const parameters = { path, content: text, ...(append && { new_string: text, append }) };
  const by = append ? 'append' : 'write_file';
  return await previewWrite({ projectRoot, labels, by }, new Map(Object.entries(parameters)));
}

/**
 * Returns the identity of the present content, as the preview of a write names it; `new` if there is no file.
 */
export async function fileIdentity(root: string, path: string): Promise<string> {
  const [{ identityOf }, { lstat }] = await Promise.all([
    import('./write-file.ts'),
    import('node:fs/promises'),
  ]);
  const place = resolveProjectPath(root, path);
  const info = place.ok ? await lstat(place.output.absolute).catch(() => undefined) : undefined;
  return place.ok && info?.isFile() ? await identityOf(place.output, info) : 'new';
}
