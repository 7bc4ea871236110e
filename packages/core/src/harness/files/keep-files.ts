// Turns files in results of tools into artifacts of the thread. Tools return the bytes as base64: file tools and
// tools of a program in `content`, HTTP in `body`, MCP servers in blocks of type `image`. The result then has the id
// of the artifact in their place.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  textAt,
} from '../../base/index.ts';
import {
  type Descriptor,
  EMPTY,
  factsOf,
  mergeDescriptors,
  restoreFields,
  type Value,
} from '../../flow/index.ts';
import { decodeAll, fileValue } from '../../journal/index.ts';
import type { FileBlock } from '../../llm/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { withFiles } from '../thread/file-values.ts';
import type { DirectiveTalk, OwnJournal } from '../thread/thread.ts';
import { fileLimits, readFileBlock } from './file-limits.ts';

/** Returns the field of an object that contains a file as base64. */
function fileField(item: JsonObject): string | undefined {
  if (item.encoding === 'base64') return ['content', 'body'].find((field) => textAt(item, field));
  return item.type === 'image' && textAt(item, 'mimeType') ? 'data' : undefined;
}

type Keep = (base64: string, name: string) => Promise<JsonObject | undefined>;

async function replaced(item: Json, keep: Keep): Promise<Json> {
  const field = isObject(item) ? fileField(item) : undefined;
  if (!isObject(item) || field === undefined) return item;
  const name = textAt(item, 'name') || textAt(item, 'path').split('/').at(-1) || 'file';
  const value = await keep(textAt(item, field), name);
  if (!value) return item;
  if (field === 'data') return value;
  const { encoding: _, ...rest } = item;
  return { ...rest, [field]: value };
}

/** True if the data has a file at one of the places where tools return files. It reads few fields. */
function mayHaveFiles(data: Json): data is JsonObject {
  if (!isObject(data)) return false;
  const { content } = data;
  const items = Array.isArray(content) ? content : [];
  return [data, ...items].some((item) => isObject(item) && fileField(item) !== undefined);
}

/** Returns the result with its files stored. Bytes that are no image and no PDF stay as they are. */
export async function keepFiles(
  { ports, place, talk }: DirectiveTalk,
  value: Value,
): Promise<Value> {
  const { data } = value;
  if (!mayHaveFiles(data)) return value;
  const limits = fileLimits(ports, talk.model);
  const files: FileBlock[] = [];
  const keep: Keep = async (base64, name) => {
    const bytes = Buffer.from(base64, 'base64');
    const block = readFileBlock(name, bytes, limits);
    if (!block.ok) {
      const { message } = block.error.detail;
      return block.error.code === 'invalid_input' ? { bytes: bytes.length, message } : undefined;
    }
    if (files.length >= limits.request_files) return { bytes: bytes.length, message: 'left out' };
    const put = await ports.store.putArtifact(place.id, bytes);
    if (!put.ok) return { bytes: bytes.length, message: put.error.detail.message };
    files.push(block.output);
    return fileValue(block.output);
  };
  const { content } = data;
  const whole = await replaced(data, keep);
  const items = Array.isArray(content) ? content : undefined;
  const list = items && (await Promise.all(items.map((item) => replaced(item, keep))));
  const changed = list && isObject(whole) ? { ...whole, content: list } : whole;
  const same = restoreFields(changed, value.meta.descriptor, factsOf(value));
  return withFiles(same, files);
}

/**
 * Returns a file of this thread with its marks. The journal decides, because any data can name an artifact. Fails with
 * `not_found` for other artifacts, and for those of other threads.
 */
export async function findFile(
  { ports, place, journal }: OwnJournal,
  artifact: string,
): Promise<Outcome<{ file: FileBlock; marks: Descriptor }>> {
  await journal.flush();
  const stored = await ports.threads.history(place.id);
  const events = stored.ok ? decodeAll(stored.output) : stored;
  if (!events.ok) return events;
  let [file, marks]: [FileBlock | undefined, Descriptor] = [undefined, EMPTY];
  for (const { type, data } of events.output) {
    const isMessage = type === 'user_message' || type === 'injected_message';
    const files = isMessage ? [data.file] : type === 'tool_result' ? (data.files ?? []) : [];
    const same = files.find((one) => one && `sha256:${one.sha256}` === artifact);
    if (!same) continue;
    // The same bytes can have come from several sources.
    marks = mergeDescriptors(marks, unpackMarks(getOwn(data, 'marks')));
    file = same;
  }
  return file
    ? ok({ file, marks })
    : fail('not_found', `file \`${artifact}\` not found in this thread`);
}
