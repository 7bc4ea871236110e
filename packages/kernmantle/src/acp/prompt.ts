// Reads the blocks of a prompt. The text is the person's word. Everything else is an attachment, which carries the
// labels of the project's file if it is one, and is `untrusted` otherwise.
import { realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  isInside,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  readRegularFile,
  textAt,
} from '@kernmantle/core/base';
import type { Attachment } from '@kernmantle/core/harness';
import type { ChatLine } from '../conversation/session.ts';
import { RPC, refuse } from './rpc.ts';

const MAX_RESOURCE = 256 * 1024;
const bad = (message: string) => refuse(RPC.invalidParams, message);

/** Returns the path if the address names a regular file of the project with exactly this text. */
function sameFile(uri: string, text: Buffer, project: string): string | undefined {
  try {
    const path = realpathSync(fileURLToPath(uri));
    const read = isInside(path, realpathSync(project))
      ? readRegularFile(path, { max: MAX_RESOURCE })
      : undefined;
    return read && 'bytes' in read && read.bytes.equals(text) ? path : undefined;
  } catch {
    return undefined;
  }
}

function resourceIn(block: JsonObject, project: string): Outcome<Attachment> {
  const resource = isObject(block.resource) ? block.resource : {};
  const { uri, text, blob, mimeType } = resource;
  if (typeof uri !== 'string') return bad('an embedded resource needs its `uri`');
  if (typeof text !== 'string' && typeof blob !== 'string') {
    return bad('an embedded resource needs `text` or `blob`');
  }
  const data =
    typeof text === 'string' ? Buffer.from(text) : Buffer.from(plainText(blob), 'base64');
  if (typeof text === 'string' && data.length > MAX_RESOURCE) {
    return bad(`an embedded resource has at most ${MAX_RESOURCE} bytes; link it instead`);
  }
  const path = sameFile(uri, data, project);
  if (path !== undefined) return ok({ path });
  const name = basename(uri.slice(0, 2000)) || 'resource';
  return ok({ data, name, ...(typeof mimeType === 'string' && { mime: mimeType }) });
}

/** Fails with -32602 for a prompt without content and for blocks that no model takes. */
export function readPrompt(
  blocks: Json | undefined,
  { project, isUntrusted }: { project: string; isUntrusted: boolean },
): Outcome<ChatLine> {
  if (!Array.isArray(blocks) || blocks.length === 0)
    return bad('`prompt` must be a list of blocks');
  const texts: string[] = [];
  const attach: Attachment[] = [];
  for (const block of blocks) {
    const type = textAt(block, 'type');
    if (!isObject(block)) return bad('a block of a prompt must be an object');
    if (type === 'text') texts.push(textAt(block, 'text'));
    else if (type === 'resource_link') {
      // A link is text for the model. Nothing fetches it.
      texts.push(`${textAt(block, 'name')} (${textAt(block, 'uri')})`);
    } else if (type === 'image') {
      const mime = textAt(block, 'mimeType');
      const name = `image-${attach.length + 1}.${/^image\/(\w{1,8})/.exec(mime)?.[1] ?? 'png'}`;
      attach.push({ data: Buffer.from(textAt(block, 'data'), 'base64'), name, mime });
    } else if (type === 'resource') {
      const resource = resourceIn(block, project);
      if (!resource.ok) return resource;
      attach.push(resource.output);
    } else return bad(`a prompt takes no block of type \`${type.slice(0, 100)}\``);
  }
  const text = texts.join('\n').trim();
  if (text === '' && attach.length === 0) return bad('the prompt is empty');
  const prompt = { data: Buffer.from(text), name: 'prompt', paste: true };
  if (isUntrusted && text !== '') return ok({ text: '', attach: [...attach, prompt] });
  return ok({ text, ...(attach.length > 0 && { attach }) });
}
