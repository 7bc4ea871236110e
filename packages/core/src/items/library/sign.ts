// Signs files and verifies their signatures. Only people sign, so no code that a model can reach calls `signItem`.
import { basename, dirname, resolve } from 'node:path';
import {
  asJson,
  type Clock,
  fail,
  hasErrors,
  isInside,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { type ExaminedPolicy, parsePolicy } from '../../flow/index.ts';
import { type ItemStatement, type KeyPair, signStatement } from '../../trust/index.ts';
import { putFile, readItemFile, realOf } from '../files/item-file.ts';
import { itemPlace } from '../files/item-place.ts';
import type { Root } from '../files/root.ts';
import type { SignatureState } from '../item.ts';
import { NO_VERSION } from '../item-kinds.ts';
import {
  judgeSignature,
  NO_RIGHTS,
  type Subject,
  sha256Hex,
  signatureProblems,
  type TrustPort,
} from '../signature.ts';
import {
  blankSignatureLine,
  readSignatureLine,
  stripSignatureLine,
  writeSignatureLine,
} from '../signature-line.ts';
import { readItem } from './record.ts';

export interface SignedFile {
  file: string;
  statement: ItemStatement;
}

/** Folders that ids are relative to. */
type Roots = readonly Pick<Root, 'dir'>[];

interface FilePlace {
  kind: Subject['kind'];
  id: string;
}

/** Returns the folder that a file's id is relative to: one of the roots, or the nearest parent `.ai`. */
function rootOf(file: string, roots: Roots): string | undefined {
  const root = roots.map(({ dir }) => resolve(dir)).find((dir) => isInside(file, dir));
  if (root !== undefined) return root;
  for (let at = dirname(file); at !== dirname(at); at = dirname(at)) {
    if (basename(at) === '.ai') return at;
  }
  return undefined;
}

/** Returns the kind and id of a file. Undefined if the file is in no item folder. */
export function placeOfFile(file: string, roots: Roots = []): FilePlace | undefined {
  const path = resolve(file);
  const root = rootOf(path, roots);
  if (root === undefined) {
    return basename(path) === 'AGENTS.md' ? { kind: 'knowledge', id: 'AGENTS' } : undefined;
  }
  const inside = path.slice(root.length + 1).replaceAll('\\', '/');
  if (inside === 'policy.yaml') return { kind: 'policy', id: 'policy' };
  return itemPlace(inside);
}

/** Returns the subject of a signature. Fails with `invalid_item` for a file with errors, which cannot be signed. */
function subjectOf({ kind, id }: FilePlace, text: string, file: string): Outcome<Subject> {
  const item = kind === 'policy' ? undefined : readItem(kind, id, file, () => ({ text }));
  const { diagnostics } = item?.parsed() ?? parsePolicy(blankSignatureLine(text), file, 'project');
  if (hasErrors(diagnostics)) {
    const message = `\`${file}\` has errors`;
    return fail('invalid_item', message, { diagnostics: asJson(diagnostics) });
  }
  const version = item?.facts().version ?? NO_VERSION;
  return ok({ kind, id, version, rights: item?.rights() ?? NO_RIGHTS });
}

function open(file: string, roots: Roots): Outcome<{ place: FilePlace; text: string }> {
  const place = placeOfFile(file, roots);
  if (!place) {
    return fail(
      'invalid_input',
      `\`${file}\` is not an item; items are in \`.ai/directives\`, \`.ai/tools\` and \`.ai/knowledge\``,
    );
  }
  if (realOf(dirname(file)) === undefined) return fail('not_found', `\`${file}\` not found`);
  const read = readItemFile(file);
  return 'text' in read
    ? ok({ place, text: read.text })
    : fail('invalid_input', `\`${file}\`: ${read.problem.message}`);
}

function signedText(
  place: FilePlace,
  text: string,
  path: string,
  key: KeyPair,
  { now }: Pick<Clock, 'now'>,
): Outcome<{ statement: ItemStatement; text: string }> {
  const subject = subjectOf(place, text, path);
  if (!subject.ok) return subject;
  const statement: ItemStatement = {
    ...subject.output,
    sha256: sha256Hex(stripSignatureLine(text)),
    created: new Date(now()).toISOString(),
    key: key.id,
  };
  const line = { statement, signature: signStatement(statement, key) };
  const signed = writeSignatureLine(text, line, path);
  return signed.ok ? ok({ statement, text: signed.output }) : signed;
}

/** Writes a text with its signature, completely or not at all, so that the file is never unsigned. */
export function putSigned(
  file: string,
  text: string,
  key: KeyPair,
  clock: Pick<Clock, 'now'>,
): Outcome<{ text: string }> {
  const path = resolve(file);
  const place = placeOfFile(path);
  if (!place) return fail('invalid_input', `\`${file}\` is not in a folder for items`);
  const signed = signedText(place, text, path, key, clock);
  if (!signed.ok) return signed;
  const put = putFile(path, signed.output.text, false);
  return put.ok ? signed : put;
}

/** Signs a file and replaces its earlier signature. The rest of the text stays byte for byte. */
export function signItem(
  file: string,
  key: KeyPair,
  clock: Pick<Clock, 'now'>,
  roots: Roots = [],
): Outcome<SignedFile> {
  const path = resolve(file);
  const opened = open(path, roots);
  if (!opened.ok) return opened;
  const { place, text } = opened.output;
  const signed = signedText(place, text, path, key, clock);
  if (!signed.ok) return signed;
  // A person may sign only the text that they saw, so a change in between is refused.
  const again = readItemFile(path);
  if (!('text' in again) || again.text !== text) {
    return fail('invalid_input', `\`${file}\` was changed while it was being signed`);
  }
  const put = putFile(path, signed.output.text, false);
  return put.ok ? ok({ file: path, statement: signed.output.statement }) : put;
}

/** Returns the state of a file's signature. Never throws. */
export function verifyItem(
  file: string,
  trust: TrustPort,
  roots: Roots = [],
): Outcome<SignatureState & FilePlace> {
  const path = resolve(file);
  const opened = open(path, roots);
  if (!opened.ok) return opened;
  const { place, text } = opened.output;
  return ok({ ...place, ...judgeText(place, text, path, trust) });
}

function judgeText(place: FilePlace, text: string, path: string, trust: TrustPort): SignatureState {
  const subject = (): Subject => {
    const result = subjectOf(place, text, path);
    // The rights of an unreadable file must not equal the signed rights, so they are empty.
    return result.ok ? result.output : { ...place, version: NO_VERSION, rights: '' };
  };
  return judgeSignature(readSignatureLine(text, path), subject, trust);
}

/** Checks the signature of this text of a policy, because the file may have another text by now. */
export function examinePolicy(text: string, file: string, trust: TrustPort): ExaminedPolicy {
  const path = resolve(file);
  const place = placeOfFile(path);
  const covered = blankSignatureLine(text);
  if (place?.kind !== 'policy') return { covered, signed: false };
  const signature = judgeText(place, text, path, trust);
  const signed = signature.state === 'signed';
  return { covered, signed, diagnostics: signatureProblems(signature, file) };
}
