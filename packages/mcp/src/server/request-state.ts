// What a client hands back with its answers. It is signed, ends soon, and is worth something only to the
// client it was given to, for the call it was given for: whoever changes a part of it is refused.
import { createHash, createHmac } from 'node:crypto';
import {
  canonicalJson,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
} from '@kernmantle/core/base';
import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  createRequestStateCodec,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server';

const LIFE_SECONDS = 900;

/** What kind of question it belongs to, so that one cannot stand for another. */
type Purpose = 'input' | 'approval';

export interface RequestStates {
  /** For the SDK: throws at what is not ours or not this client's. */
  verify(state: string, context: ServerContext): Promise<Json>;
  mint(purpose: Purpose, call: Json, payload: JsonObject, context: ServerContext): Promise<string>;
  /** What was minted for this very call; undefined when the client brings nothing of the kind. Throws otherwise. */
  read(purpose: Purpose, call: Json, context: ServerContext): JsonObject | undefined;
}

const digestOf = (call: Json): string =>
  createHash('sha256').update(canonicalJson(call)).digest('base64url');

/** `client`: its id, which is bound into each state. */
export function createRequestStates(
  keyOf: () => Outcome<Uint8Array>,
  client: string,
): RequestStates {
  let made: RequestStateCodec<Json> | undefined;
  const codec = (): RequestStateCodec<Json> => {
    if (made) return made;
    const key = keyOf();
    if (!key.ok) throw new Error(key.error.detail.message);
    made = createRequestStateCodec<Json>({
      // The same bytes sign handles: what is signed for one thing is nothing for the other.
      key: createHmac('sha256', key.output).update('kernmantle mcp request state').digest(),
      ttlSeconds: LIFE_SECONDS,
      bind: ({ mcpReq }) => `${client}\0${mcpReq.method}`,
    });
    return made;
  };
  return {
    verify: async (state, context) => await codec().verify(state, context),
    mint: async (purpose, call, payload, context) =>
      await codec().mint({ purpose, call: digestOf(call), payload }, context),
    read(purpose, call, context) {
      const state = context.mcpReq.requestState<Json>();
      if (state === undefined) return undefined;
      const payload = getOwn(state, 'payload');
      if (getOwn(state, 'purpose') !== purpose) return undefined;
      const isOurs = getOwn(state, 'call') === digestOf(call);
      if (isOurs && isObject(payload)) return payload;
      const reason = { reason: 'invalid_request_state' };
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        'Invalid or expired requestState',
        reason,
      );
    },
  };
}

/** What the client of this very request says it can do. */
export function capabilitiesOf(server: McpServer, { mcpReq }: ServerContext): ClientCapabilities {
  const own = (mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES_META_KEY];
  return (own ?? server.server.getClientCapabilities() ?? {}) as ClientCapabilities;
}
