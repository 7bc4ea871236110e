// Copying an item to the project or the user's folder, as it is: with its signature line, and with
// the module it names. What is not signed, or not what was signed, is not copied.
import { dirname, relative } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';
import { isInside } from '../base/inside.ts';
import { realAncestor, realOf } from './inside.ts';
import type { Item } from './item.ts';
import { readItemFile } from './item-file.ts';
import { idProblem, pathFor } from './item-place.ts';
import { putFile } from './library-write.ts';
import { moduleFile } from './signature.ts';

const MAX_MODULE_BYTES = 8 * 1024 * 1024;

function checkSigned({ kind, id, signature }: Item): Outcome<null> {
  const { state, reason } = signature;
  if (state === 'signed' || state === 'bundle') return ok(null);
  const why = {
    unsigned: 'is not signed',
    changed: `is not what was signed${reason ? ` (${reason})` : ''}`,
    untrusted: `is signed by a key that is not trusted${reason ? ` (${reason})` : ''}`,
  }[state];
  return fail('signature_invalid', `${kind} \`${id}\` ${why}, so it is not copied`, { state });
}

/** Where a file would be put below `root`; links that lead elsewhere are refused. */
function target(root: string, path: string): Outcome<string> {
  const file = `${root}/${path}`;
  const [base, real] = [realAncestor(root), realAncestor(file)];
  const isSafe = base !== undefined && real !== undefined && isInside(real, base);
  return isSafe ? ok(file) : fail('permission_denied', `\`${path}\` leads out of \`${root}\``);
}

interface CopiedFile {
  to: string;
  text: string;
}

function moduleOf(item: Item, from: string, root: string, path: string): Outcome<CopiedFile[]> {
  const module = item.kind === 'tool' ? moduleFile(item.tool?.config.module, from) : undefined;
  if (module === undefined) return ok([]);
  const real = realOf(module);
  const folder = realOf(dirname(from));
  if (real === undefined || folder === undefined || !isInside(real, folder)) {
    return fail('invalid_item', `the module of tool \`${item.id}\` is not beside it`);
  }
  const read = readItemFile(real, MAX_MODULE_BYTES);
  if ('problem' in read) return fail('invalid_item', `\`${module}\`: ${read.problem.message}`);
  const to = target(root, `${dirname(path)}/${relative(dirname(from), module)}`);
  return to.ok ? ok([{ to: to.output, text: read.text }]) : to;
}

/** `root` is a folder like `.ai/`. Nothing that exists is replaced; nothing is run. */
export function copyItem(item: Item, root: string): Outcome<string> {
  const signed = checkSigned(item);
  if (!signed.ok) return signed;
  const odd = idProblem(item.id);
  if (odd !== undefined) return fail('invalid_input', `the id \`${item.id}\` ${odd}`);
  const path = pathFor(item.kind, item.id);
  const to = target(root, path);
  if (!to.ok) return to;
  const source = realOf(item.file);
  const read = source === undefined ? undefined : readItemFile(source);
  if (!read || 'problem' in read) return fail('not_found', `\`${item.file}\` cannot be read`);
  const module = moduleOf(item, item.file, root, path);
  if (!module.ok) return module;
  // The module first: a tool that is there can be called.
  for (const file of [...module.output, { to: to.output, text: read.text }]) {
    const put = putFile(file.to, file.text, true);
    if (!put.ok) return put;
  }
  return ok(to.output);
}
