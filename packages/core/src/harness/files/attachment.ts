// Reads the files that a person gives to a thread, before the thread exists or changes. An image or a PDF becomes an
// artifact of the thread, and its events name it. A text becomes a message under its name.
import { hash } from 'node:crypto';
import { basename, resolve } from 'node:path';
import {
  type Failure,
  fail,
  isMissing,
  type Outcome,
  ok,
  readRegularFile,
} from '../../base/index.ts';
import { type Descriptor, describe, mergeDescriptors, removeLabels } from '../../flow/index.ts';
import type { DataOf, JournalEvent } from '../../journal/index.ts';
import { type FileBlock, fileKind, type ResolvedModel, tiersFor } from '../../llm/index.ts';
import type { AuditEntry } from '../../store/index.ts';
import { packMarks, unpackMarks } from '../thread/conversation.ts';
import type { ReadyFile } from '../thread/ports.ts';
import type { PreparePorts } from '../thread/thread.ts';
import { accepts, fileLimits, largestResult, readFileBlock, unsupported } from './file-limits.ts';

/**
 * A file, or its bytes. `trusted`: the person vouches for the content, so it does not carry `untrusted`. `paste`: text
 * that the person pasted. It carries `untrusted`, unless they vouch for it. No attachment counts as said by a person.
 */
export type Attachment =
  | { readonly path: string; readonly trusted?: boolean }
  | {
      readonly data: Uint8Array;
      readonly name: string;
      readonly mime?: string;
      readonly trusted?: boolean;
      readonly paste?: boolean;
    };

type AttachPorts = Pick<PreparePorts, 'project' | 'library' | 'models' | 'fileMarks'>;

const FOREIGN = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:file'] });
const PASTED = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:paste'] });
const MAX_NAME = 200;
const CLAIMS_FILE = /\.(?:png|jpe?g|gif|webp|pdf)$/i;

/** Removes control characters, because the name is shown to models and people. */
const shownName = (name: string): string =>
  name.replace(/[\p{Cc}\p{Cf}]/gu, '').slice(0, MAX_NAME) || 'file';

/** Returns the bytes of an attachment and the marks of their source. Fails with `not_found` or `invalid_input`. */
async function attachmentBytes(
  { project, fileMarks }: AttachPorts,
  attachment: Attachment,
  max: number,
): Promise<Outcome<{ bytes: Uint8Array; name: string; from: Descriptor }>> {
  if ('data' in attachment) {
    const { data, name, paste } = attachment;
    return ok({ bytes: data, name: shownName(name), from: paste ? PASTED : FOREIGN });
  }
  const path = resolve(project, attachment.path);
  const name = shownName(basename(path));
  const about = { attachment: attachment.path };
  const read = readRegularFile(path, { max, followsLinks: true });
  if ('problem' in read) {
    const { errno, code, message } = read.problem;
    if (isMissing(errno)) {
      return fail('not_found', `file \`${attachment.path}\` not found`, about);
    }
    const why = code === 'too_large' ? `${message}, the maximum of an attachment` : message;
    return fail('invalid_input', `\`${attachment.path}\` cannot be attached: ${why}`, about);
  }
  const from = (await fileMarks?.(path, hash('sha256', read.bytes))) ?? FOREIGN;
  return ok({ bytes: read.bytes, name, from });
}

async function readOne(
  ports: AttachPorts,
  attachment: Attachment,
  model: ResolvedModel,
): Promise<Outcome<ReadyFile>> {
  const limits = fileLimits(ports, model);
  const opened = await attachmentBytes(
    ports,
    attachment,
    Math.max(limits.image_bytes, limits.pdf_bytes),
  );
  if (!opened.ok) return opened;
  const { bytes, name, from } = opened.output;
  const isVouched = attachment.trusted === true;
  const own = mergeDescriptors(from, describe({ sources: [`file:${name}`] }));
  const marks = isVouched ? removeLabels(own, ['untrusted']) : own;
  const ready = { name, marks, ...(isVouched && { vouched: hash('sha256', bytes) }) };
  const read = readFileBlock(name, bytes, limits);
  if (read.ok) return ok({ ...ready, text: '', file: read.output, bytes });
  const { found } = read.error.detail;
  const mime = 'mime' in attachment ? (attachment.mime ?? '') : '';
  const claimsFile = CLAIMS_FILE.test(name) || /^(?:image\/|application\/pdf)/.test(mime);
  if (claimsFile || (found !== 'text/plain' && found !== 'text/html')) return read;
  const text = Buffer.from(bytes).toString();
  const max = largestResult(ports);
  if (text.length <= max) return ok({ ...ready, text });
  const message = `text \`${name}\` has ${text.length} characters; attach at most ${max}`;
  return fail('invalid_input', message, { attachment: name, max, size: text.length });
}

/** Reads and checks attachments for this model. A failure names the file, and nothing was created. */
export async function readAttachments(
  ports: AttachPorts,
  list: readonly Attachment[],
  model: ResolvedModel,
): Promise<Outcome<ReadyFile[]>> {
  const { request_files: max } = fileLimits(ports, model);
  const beyond = list[max];
  if (beyond) {
    const message = `${list.length} files are attached; attach at most ${max}`;
    const attachment = 'path' in beyond ? beyond.path : beyond.name;
    return fail('invalid_input', message, { attachment, max, size: list.length });
  }
  const files: ReadyFile[] = [];
  for (const attachment of list) {
    const ready = await readOne(ports, attachment, model);
    if (!ready.ok) return ready;
    const { file } = ready.output;
    if (file && !accepts(model, file)) return blindModel(ports, model, file);
    files.push(ready.output);
  }
  return ok(files);
}

/** Returns the refusal of a file that the model does not accept. It names the tiers that do. */
export function blindModel(
  { models }: Pick<PreparePorts, 'models'>,
  { model }: ResolvedModel,
  file: FileBlock,
): Failure {
  const { mime, name = 'file' } = file;
  const kind = fileKind(mime) ?? 'image';
  const tiers = tiersFor(models(), [kind]);
  const hint =
    tiers.length === 0 ? 'no tier accepts it' : `choose a tier that does: ${tiers.join(', ')}`;
  const message = `model \`${model}\` accepts no ${kind} such as \`${name}\`; ${hint}`;
  return unsupported(message, { attachment: name, found: mime, tiers });
}

/** Takes the bytes of files, which become artifacts of their thread. A run can last for hours, so the files lose them. */
export function takeBytes(files: readonly ReadyFile[]): Map<string, Uint8Array> {
  const artifacts = new Map<string, Uint8Array>();
  for (const ready of files) {
    const { file, bytes } = ready;
    if (file && bytes) artifacts.set(`sha256:${file.sha256}`, bytes);
    delete ready.bytes;
  }
  return artifacts;
}

/** Returns the data of the message that gives a file to the model. */
const fileMessage = ({ name, text, marks, file }: ReadyFile): DataOf<'user_message'> => ({
  text,
  marks: packMarks(marks),
  attached: name,
  ...(file && { file }),
});

/** Returns the events that give files to the model: at the start, or from a person who resumes the thread. */
export const openingFiles = (files: readonly ReadyFile[]) =>
  files.map((file) => ({ type: 'user_message', data: fileMessage(file) }) as const);
export const followUpFiles = (files: readonly ReadyFile[], by: string) =>
  files.map((file) => ({ type: 'injected_message', data: { ...fileMessage(file), by } }) as const);

/** Returns the attachments among these events, for a replay. */
export const recordedFiles = (events: readonly JournalEvent[]): ReadyFile[] =>
  events.flatMap(({ type, data }) => {
    const isMessage = type === 'user_message' || type === 'injected_message';
    if (!isMessage || data.attached === undefined) return [];
    const { attached: name, text, marks, file } = data;
    return [{ name, text, marks: unpackMarks(marks), ...(file && { file }) }];
  });

/** Returns the audit row of an act, and one for each file that the person vouched for. */
export const withVouched = (row: AuditEntry, files: readonly ReadyFile[]): AuditEntry[] => [
  row,
  ...files.flatMap(({ vouched, name }) =>
    vouched ? [{ ...row, operation: 'vouch', reason: `${name} sha256:${vouched}` }] : [],
  ),
];
