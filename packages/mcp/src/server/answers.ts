// Stores results that are too long for one message. The client gets a preview and a link, and
// reads the whole text in pages. Only the client that received a link can use it.
import { randomBytes } from 'node:crypto';
import type { JsonObject } from '@kernmantle/core/base';
import {
  type ContentBlock,
  type McpServer,
  ResourceNotFoundError,
  ResourceTemplate,
} from '@modelcontextprotocol/server';

export const MAX_ANSWER = 100_000;
const PREVIEW = 2000;
const PAGE = 65_536;
const MAX_KEPT = 32 * 1024 * 1024;
const MAX_ONE = 8 * 1024 * 1024;
const MAX_COUNT = 200;

interface CachedAnswer {
  readonly client: string;
  readonly text: string;
  readonly mimeType: string;
}

/** Stores texts by random ids. Above its limits, it drops the oldest texts. */
function createStore() {
  const texts = new Map<string, CachedAnswer>();
  let size = 0;
  return {
    put(one: CachedAnswer): string | undefined {
      if (one.text.length > MAX_ONE) return undefined;
      const id = randomBytes(24).toString('base64url');
      texts.set(id, one);
      size += one.text.length;
      for (const [old, { text }] of texts) {
        if (size <= MAX_KEPT && texts.size <= MAX_COUNT) break;
        texts.delete(old);
        size -= text.length;
      }
      return id;
    },
    get: (id: string): CachedAnswer | undefined => texts.get(id),
  };
}
const stores = new WeakMap<object, ReturnType<typeof createStore>>();

/** The replacement for a text that is too long. */
export interface Brief {
  /** Fields for programs: the size, a preview and the link. */
  readonly fields: JsonObject;
  readonly blocks: readonly ContentBlock[];
}

export interface Answers {
  /** Returns undefined for a text that is short enough. */
  shorten(text: string, mimeType: string): Brief | undefined;
  read(id: string): CachedAnswer | undefined;
}

/** `project` is an object that lives as long as the project is open. Links end with it. */
export function createAnswers(project: object, client: string, max = MAX_ANSWER): Answers {
  const store = stores.get(project) ?? createStore();
  stores.set(project, store);
  return {
    shorten(text, mimeType) {
      const bytes = Buffer.byteLength(text);
      if (bytes <= max) return undefined;
      const id = store.put({ client, text, mimeType });
      const preview = text.slice(0, PREVIEW);
      const uri = id === undefined ? undefined : `result://${id}`;
      const note = uri
        ? `the result has ${bytes} bytes; read it from the resource \`${uri}\`, page by page`
        : `the result has ${bytes} bytes, too many to return or store`;
      const fields = { truncated: true, bytes, note, preview, ...(uri && { resource: uri }) };
      const link: ContentBlock[] = uri
        ? [{ type: 'resource_link', uri, name: 'the whole result', mimeType, size: bytes }]
        : [];
      return { fields, blocks: link };
    },
    read(id) {
      const stored = store.get(id);
      return stored?.client === client ? stored : undefined;
    },
  };
}

export function addAnswers(server: McpServer, answers: Answers): void {
  const about = { description: 'A page of a result that was too long for one answer' };
  const read = (uri: URL, { id = '', page = '0' }: Record<string, string | string[]>) => {
    const stored = answers.read(String(id));
    const at = /^\d{1,6}$/.test(String(page)) ? Number(page) : -1;
    const text = stored?.text.slice(at * PAGE, (at + 1) * PAGE);
    if (!stored || at < 0 || !text) throw new ResourceNotFoundError(uri.href);
    const pages = Math.ceil(stored.text.length / PAGE);
    const next = at + 1 < pages ? `result://${String(id)}?page=${at + 1}` : undefined;
    const _meta = { 'kernmantle/pages': pages, ...(next && { 'kernmantle/next': next }) };
    return { contents: [{ uri: uri.href, mimeType: stored.mimeType, text, _meta }] };
  };
  // The SDK uses the first matching template, and `{id}` matches any characters.
  for (const [name, uri] of [
    ['result, a page', 'result://{id}{?page}'],
    ['result', 'result://{id}'],
  ] as const) {
    server.registerResource(name, new ResourceTemplate(uri, { list: undefined }), about, read);
  }
}
