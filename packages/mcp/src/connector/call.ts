// Calls a tool of another server. The current definition is compared with the approved one before
// the request is sent, and again after the answer.
import {
  type Failure,
  fail,
  getOwn,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  textAt,
  withDetail,
} from '@kernmantle/core/base';
import { describe, EMPTY, markFailure } from '@kernmantle/core/flow';
import type { PrimitiveCall, PrimitiveResult } from '@kernmantle/core/kernel';
import type { Listing, McpPool, PoolCall, ServerAnswer, ServerTool } from '../client/pool.ts';
import { changedParts, definitionProblem, namesOf, type Pin, pinOf } from './definition.ts';
import type { ServerPlace } from './endpoint.ts';
import { shownText } from './texts.ts';

export const LABELS = ['src:mcp', 'untrusted'] as const;
/** Marks of everything that a server returns, failures included. */
export const FOREIGN = describe({ labels: ['untrusted'], taint: [...LABELS] });
const MAX_MESSAGE = 4000;

export function poolCall(call: PrimitiveCall): PoolCall {
  const { signal, timeoutMs, given = EMPTY, secrets, onOutput } = call;
  return {
    signal,
    timeoutMs,
    given,
    secrets,
    ...(onOutput && {
      onProgress: (progress: JsonObject) => onOutput(`${JSON.stringify(progress)}\n`),
    }),
  };
}

function changed(server: string, message: string, more: JsonObject): Failure {
  return fail('mcp_definition_changed', message, {
    ...more,
    server,
    retryable: false,
    remediation: 'a person must sync the connector, review the change and approve it',
  });
}

interface LiveTools {
  readonly byName: ReadonlyMap<string, ServerTool>;
  readonly twice: ReadonlySet<string>;
  /** Pins of one server by tool name. */
  readonly pins: Map<string, Pin>;
  readonly of: string;
}

/** Cache of the computed facts about a list. It lives as long as the list. */
const worked = new WeakMap<Listing['tools'], LiveTools>();

function liveTools(listing: Listing, identity: JsonObject): LiveTools {
  const { tools, server } = listing;
  const of = JSON.stringify([identity, server]);
  const cached = worked.get(tools);
  if (cached?.of === of) return cached;
  const { once, twice } = namesOf(listing);
  const byName = new Map(once.map((tool) => [tool.name, tool]));
  const liveTools = { byName, twice: new Set(twice), pins: new Map<string, Pin>(), of };
  worked.set(tools, liveTools);
  return liveTools;
}

function livePin({ pins }: LiveTools, identity: JsonObject, server: JsonObject, tool: ServerTool) {
  const cached = pins.get(tool.name);
  if (cached) return cached;
  if (definitionProblem(tool) !== undefined) return undefined;
  const pin = pinOf(identity, server, tool);
  pins.set(tool.name, pin);
  return pin;
}

/** Fails if the definition of the tool changed. The message never contains text of the server. */
async function checkPin(
  pool: McpPool,
  { endpoint, identity }: ServerPlace,
  { config, tool }: PrimitiveCall,
  request: PoolCall,
): Promise<Outcome<null>> {
  const listed = await pool.list(endpoint, request);
  if (!listed.ok) return withDetail(listed, { sent: false });
  const { server } = listed.output;
  const [name, named] = [textAt(config, 'mcp_tool'), textAt(config, 'server')];
  const listing = liveTools(listed.output, identity);
  if (listing.twice.has(name)) {
    return changed(named, `the server lists the tool of \`${tool.id}\` more than once`, {
      sent: false,
    });
  }
  const live = listing.byName.get(name);
  if (!live) {
    const message = `the server no longer lists the tool of \`${tool.id}\``;
    return changed(named, message, { sent: false, changed: ['name'] });
  }
  const now = livePin(listing, identity, server, live);
  if (now?.pin === textAt(config, 'pin')) return ok(null);
  const parts = now ? changedParts(getOwn(config, 'parts'), now.parts) : ['definition'];
  const message = `\`${tool.id}\` differs from its approval: the server changed ${parts.join(', ')}`;
  return changed(named, message, { sent: false, changed: parts });
}

/** A result with `isError` is a failure, and its text is untrusted. */
function failedTool({ result, marks }: ServerAnswer, id: string): Failure {
  const texts = listAt(result, 'content').map((block) => textAt(block, 'text'));
  const failureText = shownText(texts.filter((text) => text !== '').join('\n'), MAX_MESSAGE);
  const failure = fail('tool_failed', failureText || `\`${id}\` failed without a message`, {
    from: 'mcp server',
    retryable: false,
  });
  return markFailure(failure, marks);
}

export async function callTool(
  pool: McpPool,
  connection: ServerPlace,
  call: PrimitiveCall,
): Promise<Outcome<PrimitiveResult>> {
  const { config, parameters, tool } = call;
  const request = poolCall(call);
  const isPinned = getOwn(config, 'pin') !== undefined;
  const fit = isPinned ? await checkPin(pool, connection, call, request) : ok(null);
  if (!fit.ok) return fit;
  const name = textAt(config, 'mcp_tool');
  const toolCall = { name, arguments: parameters };
  const answered = await pool.call(connection.endpoint, toolCall, request);
  if (!answered.ok) return answered;
  // The server can announce a change during the call. The answer then belongs to another definition.
  const still = isPinned ? await checkPin(pool, connection, call, request) : ok(null);
  if (!still.ok && still.error.code === 'mcp_definition_changed') {
    const { message, ...detail } = still.error.detail;
    return changed(textAt(config, 'server'), `${message}; the call was executed`, {
      ...detail,
      sent: true,
    });
  }
  const { result, marks } = answered.output;
  if (result.isError === true) return failedTool(answered.output, tool.id);
  const { structuredContent: structured } = result;
  const output = {
    content: listAt(result, 'content'),
    ...(structured === undefined ? {} : { structured }),
  };
  const sources = [`mcp:${textAt(config, 'server') || tool.id}/${name}`];
  return ok({ output, labels: [...LABELS], sources, marks });
}
