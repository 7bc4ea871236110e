// Writes items, which no other file does: checked, complete, unsigned and only in the project's folder.
import { existsSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  asJson,
  type Diagnostic,
  diskReason,
  fail,
  hasErrors,
  isInside,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { MAX_ITEM_BYTES, putFile, realAncestor, realOf } from '../files/item-file.ts';
import { idProblem, itemPlace, pathFor } from '../files/item-place.ts';
import { type ItemKind, PLACES } from '../item-kinds.ts';
import { hasSignatureLine } from '../signature-line.ts';
import { readItem } from './record.ts';

/**
 * Returns the category that the text would have as an item. An unreadable text has the default category.
 * Never throws.
 */
export const contentCategory = (kind: ItemKind, id: string, text: string): string =>
  readItem(kind, id, id, () => ({ text })).facts().category;

export type WriteMode = 'create' | 'update' | 'replace';

export interface Written {
  file: string;
  /** Warnings and notes. With an error nothing is written. */
  diagnostics: readonly Diagnostic[];
}

interface WriteRequest {
  kind: ItemKind;
  id: string;
  content: string;
  mode: WriteMode;
  /** True: the item is checked and not written. Absent: false. */
  dryRun?: boolean;
}

/** Returns the present file of this id. Undefined if no file has the id. */
function existing(folder: string, kind: ItemKind, id: string): string | undefined {
  const { folder: place, extensions } = PLACES[kind];
  const paths = extensions.map((extension) => `${place}/${id}${extension}`);
  if (kind === 'knowledge') paths.push(`knowledge/${id}/SKILL.md`, `${id}/SKILL.md`);
  const path = paths.find((one) => {
    const item = itemPlace(one);
    return item?.kind === kind && item.id === id && existsSync(`${folder}/${one}`);
  });
  return path && `${folder}/${path}`;
}

/** Returns the path of an item in the project. Refuses names and links that lead elsewhere. */
function locate(
  folder: string | undefined,
  kind: ItemKind,
  id: string,
): Outcome<{ file: string; isNew: boolean }> {
  if (folder === undefined)
    return fail('not_found', 'project not found; its folder `.ai` does not exist');
  const odd = idProblem(id);
  if (odd !== undefined) return fail('invalid_input', `the id \`${id}\` ${odd}`);
  const present = existing(folder, kind, id);
  const file = present ?? `${folder}/${pathFor(kind, id)}`;
  const place = itemPlace(file.slice(folder.length + 1));
  if (place?.kind !== kind || place.id !== id || id === 'AGENTS') {
    return fail('invalid_input', `\`${id}\` is not a valid name for a new ${kind}`);
  }
  const [root, real] = [realOf(folder) ?? realAncestor(folder), realAncestor(file)];
  const base = realOf(dirname(folder));
  const isSafe = root !== undefined && real !== undefined && base !== undefined;
  if (!isSafe || !isInside(root, base) || !isInside(real, root)) {
    return fail('permission_denied', `\`${id}\` leads out of the project through a link`);
  }
  return ok({ file, isNew: present === undefined });
}

function refuseContent(content: string): Outcome<null> {
  if (content.includes('\0')) return fail('invalid_input', 'the content contains a NUL byte');
  if (Buffer.byteLength(content) > MAX_ITEM_BYTES) {
    return fail('invalid_input', `the content is larger than ${MAX_ITEM_BYTES / 1024} KiB`);
  }
  if (Buffer.from(content).toString() !== content)
    return fail('invalid_input', 'the content is not valid Unicode');
  return hasSignatureLine(content)
    ? fail('invalid_input', 'the content contains a signature line; only a person signs items')
    : ok(null);
}

export function writeItem(
  folder: string | undefined,
  { kind, id, content, mode, dryRun = false }: WriteRequest,
  check: (file: string) => readonly Diagnostic[],
): Outcome<Written> {
  const located = locate(folder, kind, id);
  if (!located.ok) return located;
  const { file, isNew } = located.output;
  if (mode === 'create' && !isNew) {
    return fail('invalid_input', `${kind} \`${id}\` exists already; use \`update\``, { file });
  }
  if (mode === 'update' && isNew) {
    return fail('not_found', `${kind} \`${id}\` not found in the project; use \`create\``);
  }
  const refused = refuseContent(content);
  if (!refused.ok) return refused;
  const diagnostics = check(file);
  if (hasErrors(diagnostics)) {
    const first = diagnostics.find(({ severity }) => severity === 'error');
    return fail('invalid_item', `${kind} \`${id}\` was not written: ${first?.message ?? ''}`, {
      diagnostics: asJson(diagnostics),
    });
  }
  const put = dryRun ? ok(null) : putFile(file, content, isNew);
  return put.ok ? ok({ file, diagnostics }) : put;
}

export function removeItem(
  folder: string | undefined,
  kind: ItemKind,
  id: string,
): Outcome<{ file: string }> {
  const located = locate(folder, kind, id);
  if (!located.ok) return located;
  const { file, isNew } = located.output;
  if (isNew) return fail('not_found', `${kind} \`${id}\` not found in the project`);
  try {
    rmSync(file);
    return ok({ file });
  } catch (error) {
    return fail('tool_failed', `cannot remove \`${file}\`: ${diskReason(error)}`);
  }
}
