// Serves resources that a client can read without a tool call: its threads, directives and knowledge.
// They use the same kernel tools as tool calls, so they are checked and recorded in the same way.
import { fail, getOwn, type JsonObject, type Outcome, ok, textAt } from '@kernmantle/core/base';
import { idInUri } from '@kernmantle/core/items';
import {
  type McpServer,
  type ReadResourceResult,
  type Resource,
  ResourceTemplate,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { ServerParts } from './host.ts';
import { decoded, protocolError, resourceError } from './native-results.ts';

const PAGE = 50;
const EVENTS = 100;
const MAX_EVENTS = 500;
const META = 'kernmantle/';

const metaOf = (about: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(about).map(([name, value]) => [`${META}${name}`, value]));

const asText = (
  uri: string,
  mimeType: string,
  text: string,
  about: JsonObject,
): ReadResourceResult => ({ contents: [{ uri, mimeType, text, _meta: metaOf(about) }] });

const KINDS = ['directive', 'knowledge'] as const;

/** Adds items with the text of their file, if this client may see them. */
function addItems(server: McpServer, { host, client }: ServerParts): void {
  for (const kind of KINDS) {
    const template = new ResourceTemplate(`${kind}://{+id}`, { list: undefined });
    const about = { description: `A ${kind} of the project, by its id`, mimeType: 'text/markdown' };
    server.registerResource(kind, template, about, async ({ href }, { id = '' }, context) => {
      const request = { item_type: kind, item_id: decoded(String(id)) };
      const { signal } = context.mcpReq;
      const loaded = await host.call('load', request, { client: client(), signal });
      if (!loaded.ok) throw resourceError(loaded, href);
      const item = getOwn(loaded.output, 'item');
      const [source, signature] = [getOwn(item, 'source'), getOwn(item, 'signature')];
      const state = getOwn(signature, 'state') ?? null;
      const isOurs = state === 'signed' || state === 'bundle';
      return asText(href, 'text/markdown', textAt(loaded.output, 'body'), {
        source: source ?? null,
        signature: state,
        labels: isOurs ? [] : ['untrusted'],
      });
    });
  }
}

const wholeIn = (text: unknown, fallback: number, max: number): number =>
  typeof text === 'string' && /^\d{1,15}$/.test(text) ? Math.min(Number(text), max) : fallback;

/** Adds the resources of threads, for clients that can start some. */
export function addThreads(server: McpServer, { host, client }: ServerParts): void {
  const call = async (request: JsonObject, { mcpReq: { signal } }: ServerContext) =>
    await host.call('execute', request, { client: client(), signal });

  async function readStatus({ href }: URL, handle: string, context: ServerContext) {
    const request = { item_type: 'thread', item_id: handle, action: 'status' };
    const read = await call(request, context);
    if (!read.ok) throw resourceError(read, href);
    return asText(href, 'application/json', JSON.stringify(read.output), {});
  }

  /** Returns one page, oldest first. `next` is the address of the next page. */
  async function readEvents(
    { href }: URL,
    { handle, after, limit }: { handle: string; after?: unknown; limit?: unknown },
    context: ServerContext,
  ) {
    const from = wholeIn(after, 0, Number.MAX_SAFE_INTEGER);
    const count = Math.max(1, wholeIn(limit, EVENTS, MAX_EVENTS));
    const parameters = { thread_id: handle, after: from, last_n: count };
    const request = { item_type: 'tool', item_id: 'threads/read_transcript', parameters };
    const read = await call(request, context);
    if (!read.ok) throw resourceError(read, href);
    const events = getOwn(read.output, 'events');
    const lines = Array.isArray(events) ? events : [];
    const last = getOwn(lines.at(-1), 'seq');
    const isFull = lines.length >= count && typeof last === 'number';
    const next = isFull
      ? { next: `thread://${handle}/transcript?after=${last}&limit=${count}` }
      : {};
    const text = lines.map((line) => JSON.stringify(line)).join('\n');
    // A transcript contains everything that the thread read, also untrusted text.
    return asText(href, 'application/jsonl', text, { ...next, labels: ['untrusted'] });
  }

  const register = (
    name: string,
    uri: string,
    description: string,
    mimeType: string,
    read: (
      at: URL,
      variables: Record<string, unknown>,
      context: ServerContext,
    ) => Promise<ReadResourceResult>,
  ): void => {
    const template = new ResourceTemplate(uri, { list: undefined });
    server.registerResource(name, template, { description, mimeType }, read);
  };
  const handleIn = ({ handle }: Record<string, unknown>): string => String(handle);
  register(
    'thread status',
    'thread://{handle}/status',
    'The status of one of your threads',
    'application/json',
    (at, variables, context) => readStatus(at, handleIn(variables), context),
  );
  const lines = 'application/jsonl';
  register(
    'thread transcript',
    'thread://{handle}/transcript',
    'The first events of one of your threads, one JSON object per line',
    lines,
    (at, variables, context) => readEvents(at, { handle: handleIn(variables) }, context),
  );
  register(
    'thread transcript, after an event',
    'thread://{handle}/transcript{?after,limit}',
    'Events after this number (`seq`)',
    lines,
    (at, { after, limit, ...rest }, context) =>
      readEvents(at, { handle: handleIn(rest), after, limit }, context),
  );
}

/** Returns handles of recent threads of this client, newest first. */
type Handed = () => readonly string[];

const threadResources = (handle: string): Resource[] => [
  { uri: `thread://${handle}/status`, name: `status of ${handle}`, mimeType: 'application/json' },
  {
    uri: `thread://${handle}/transcript`,
    name: `transcript of ${handle}`,
    mimeType: 'application/jsonl',
  },
];

/** Lists threads first, then the search results of each kind, page by page. */
function addList(server: McpServer, { host, client }: ServerParts, handed: Handed): void {
  async function listItems(
    kind: (typeof KINDS)[number],
    cursor: string,
    { mcpReq: { signal } }: ServerContext,
  ): Promise<Outcome<{ resources: Resource[]; next: string }>> {
    const request = {
      query: '',
      item_type: kind,
      limit: PAGE,
      ...(cursor !== '' && { cursor }),
    };
    const answer = await host.call('search', request, { client: client(), signal });
    if (!answer.ok) return answer;
    const items = getOwn(answer.output, 'items');
    const resources = (Array.isArray(items) ? items : []).map((item) => ({
      uri: `${kind}://${idInUri(textAt(item, 'item_id'))}`,
      name: textAt(item, 'item_id'),
      title: textAt(item, 'title'),
      description: textAt(item, 'summary'),
      mimeType: 'text/markdown',
    }));
    return ok({ resources, next: textAt(answer.output, 'next_cursor') });
  }

  server.server.setRequestHandler('resources/list', async ({ params }, context) => {
    const cursorText = params?.cursor;
    const named = /^(directive|knowledge):(.*)$/.exec(cursorText ?? '');
    // An unknown cursor must not return the first page again, or a client would loop.
    if (cursorText !== undefined && !named) {
      throw protocolError(fail('invalid_input', 'this cursor is invalid; use one from a list'));
    }
    const [, kind = 'thread', cursor = ''] = named ?? [];
    const at = KINDS.findIndex((one) => one === kind);
    const threads = at === -1 ? handed().slice(0, PAGE).flatMap(threadResources) : [];
    const itemKind = KINDS[Math.max(0, at)] ?? 'directive';
    const page = await listItems(itemKind, cursor, context);
    if (!page.ok) throw protocolError(page);
    const following = page.output.next === '' ? KINDS[Math.max(0, at) + 1] : itemKind;
    const nextCursor = following && `${following}:${page.output.next}`;
    const resources = [...threads, ...page.output.resources];
    return { resources, ...(nextCursor !== undefined && { nextCursor }) };
  });
}

/** Adds the resources of a server that is not in native mode. */
export function addResources(server: McpServer, parts: ServerParts, handed: Handed): void {
  addThreads(server, parts);
  addItems(server, parts);
  addList(server, parts, handed);
}
