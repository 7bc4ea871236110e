// Signs and verifies the state that a client returns with its answers. The state expires soon, and is
// valid only for the client and the call for which it was made. A changed state is refused.
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

/** Kind of the question, so that the state of one kind is not accepted for another. */
type Purpose = 'input' | 'approval';

export interface RequestStates {
  /** Used by the SDK. Throws if the state is forged or belongs to another client. */
  verify(state: string, context: ServerContext): Promise<Json>;
  mint(purpose: Purpose, call: Json, payload: JsonObject, context: ServerContext): Promise<string>;
  /** Returns the state for this call, undefined if none was sent. Throws if it is invalid. */
  read(purpose: Purpose, call: Json, context: ServerContext): JsonObject | undefined;
}

const digestOf = (call: Json): string =>
  createHash('sha256').update(canonicalJson(call)).digest('base64url');

/** `client` is the id that each state is bound to. */
export function createRequestStates(
  keyOf: () => Outcome<Uint8Array>,
  client: string,
): RequestStates {
  let cachedCodec: RequestStateCodec<Json> | undefined;
  const codec = (): RequestStateCodec<Json> => {
    if (cachedCodec) return cachedCodec;
    const key = keyOf();
    if (!key.ok) throw new Error(key.error.detail.message);
    cachedCodec = createRequestStateCodec<Json>({
      // Handles use the same key. The purpose in the HMAC separates the two.
      key: createHmac('sha256', key.output).update('kernmantle mcp request state').digest(),
      ttlSeconds: LIFE_SECONDS,
      bind: ({ mcpReq }) => `${client}\0${mcpReq.method}`,
    });
    return cachedCodec;
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

/** Returns the capabilities that the client declares in this request, or else in its first one. */
export function capabilitiesOf(server: McpServer, { mcpReq }: ServerContext): ClientCapabilities {
  const own = (mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES_META_KEY];
  return (own ?? server.server.getClientCapabilities() ?? {}) as ClientCapabilities;
}
