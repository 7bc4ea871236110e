// Asks the client the questions of a tool. A tool that answers `{input_required: {requests, state}}` is
// called again with `input_responses`, by the names of its requests, and its own `state` as
// `input_state`. Neither is ever taken from the arguments of a client.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import { INPUT_PARAMETERS, type Library } from '@kernmantle/core/items';
import {
  type InputRequest,
  type InputRequiredResult,
  inputRequired,
  isSpecType,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { capabilitiesOf, type RequestStates } from './request-state.ts';

const MAX_STATE = 65_536;
const [RESPONSES = '', STATE = '', CAPABILITIES = ''] = INPUT_PARAMETERS;

const METHODS = {
  'elicitation/create': {
    capability: 'elicitation',
    isRequest: isSpecType.ElicitRequest,
    isResponse: isSpecType.ElicitResult,
  },
  'sampling/createMessage': {
    capability: 'sampling',
    isRequest: isSpecType.CreateMessageRequest,
    isResponse: isSpecType.CreateMessageResultWithTools,
  },
  'roots/list': {
    capability: 'roots',
    isRequest: isSpecType.ListRootsRequest,
    isResponse: isSpecType.ListRootsResult,
  },
} as const;

const methodOf = (request: Json | undefined) => {
  const method = getOwn(request, 'method');
  return typeof method === 'string' && Object.hasOwn(METHODS, method)
    ? METHODS[method as keyof typeof METHODS]
    : undefined;
};

export interface InputPorts {
  readonly server: McpServer;
  readonly states: RequestStates;
  /** True if the value violates the schema. */
  misfits(value: Json, schema: JsonObject): boolean;
}

/** True if the answer fits the schema of the request. */
function isAnswer(
  ports: InputPorts,
  request: Json | undefined,
  response: Json | undefined,
): boolean {
  if (response === undefined || !methodOf(request)?.isResponse(response)) return false;
  const schema = getOwn(getOwn(request, 'params'), 'requestedSchema');
  if (!isObject(schema) || getOwn(response, 'action') !== 'accept') return true;
  const content = getOwn(response, 'content');
  return isObject(content) && !ports.misfits(content, schema);
}

/** Divides the requests into answered and missing ones. */
function sortAnswers(ports: InputPorts, requests: JsonObject, { mcpReq }: ServerContext) {
  const all = { ...mcpReq.inputResponses } as JsonObject;
  const responses: JsonObject = {};
  const missing: JsonObject = {};
  for (const [name, request] of Object.entries(requests)) {
    const response = getOwn(all, name);
    if (isAnswer(ports, request, response)) responses[name] = response as Json;
    else missing[name] = request;
  }
  return { responses, missing, isComplete: Object.keys(missing).length === 0 };
}

/** Returns the additional inputs of the tool, or the question again if an answer is missing. */
export async function readInputs(
  ports: InputPorts,
  call: Json,
  context: ServerContext,
): Promise<JsonObject | InputRequiredResult> {
  const can = { [CAPABILITIES]: capabilitiesOf(ports.server, context) as JsonObject };
  const state = ports.states.read('input', call, context);
  if (!state) return can;
  const requests = (getOwn(state, 'requests') ?? {}) as JsonObject;
  const { responses, missing, isComplete } = sortAnswers(ports, requests, context);
  const answers = { ...(getOwn(state, 'kept') as JsonObject | undefined), ...responses };
  if (isComplete) {
    return {
      ...can,
      [RESPONSES]: answers,
      ...(state.state !== undefined && { [STATE]: state.state }),
    };
  }
  const again = { ...state, requests: missing, kept: answers };
  const isTooLong = JSON.stringify(again).length > MAX_STATE;
  return await ask(ports, call, isTooLong ? { ...state } : again, context);
}

async function ask(
  { states }: InputPorts,
  call: Json,
  state: JsonObject,
  context: ServerContext,
): Promise<InputRequiredResult> {
  return inputRequired({
    inputRequests: getOwn(state, 'requests') as unknown as Record<string, InputRequest>,
    requestState: await states.mint('input', call, state, context),
  });
}

/** Asks the client. `question` is the `input_required` value of the tool. */
export async function askClient(
  ports: InputPorts,
  call: Json,
  question: Json,
  context: ServerContext,
): Promise<Outcome<InputRequiredResult>> {
  const requests = getOwn(question, 'requests');
  const state = getOwn(question, 'state');
  const entries = isObject(requests) ? Object.entries(requests) : [];
  const odd = entries.find(([, request]) => !methodOf(request)?.isRequest(request));
  if (entries.length === 0 || odd) {
    const which = odd ? `\`${odd[0]}\` is not a request` : '`requests` is missing';
    return fail('tool_failed', `\`input_required\` of the tool is invalid: ${which}`);
  }
  const chosen = askable(ports, entries, context);
  const payload = { requests: chosen, ...(state !== undefined && { state }) };
  if (JSON.stringify(payload).length > MAX_STATE) {
    return fail('tool_failed', `the question of the tool is longer than ${MAX_STATE} bytes`);
  }
  return ok(await ask(ports, call, payload, context));
}

/**
 * Returns the requests that this client supports. If it supports none, returns all of them, so that
 * the SDK reports the missing capability.
 */
function askable(
  { server }: InputPorts,
  entries: readonly [string, Json][],
  context: ServerContext,
): JsonObject {
  const can = capabilitiesOf(server, context);
  const fit = entries.filter(([, request]) => {
    const capability = methodOf(request)?.capability;
    return capability !== undefined && can[capability] !== undefined;
  });
  return Object.fromEntries(fit.length > 0 ? fit : entries);
}

/** Returns answers that came with the first request. Undefined if some are missing. */
export function broughtAlong(
  ports: InputPorts,
  question: Json,
  context: ServerContext,
): JsonObject | undefined {
  const requests = getOwn(question, 'requests');
  const { requestState, inputResponses } = context.mcpReq;
  if (requestState() !== undefined || inputResponses === undefined) return undefined;
  if (!isObject(requests) || getOwn(question, 'state') !== undefined) return undefined;
  const chosen = askable(ports, Object.entries(requests), context);
  const { responses, isComplete } = sortAnswers(ports, chosen, context);
  return isComplete ? { [RESPONSES]: responses } : undefined;
}

/** Refuses `execute` calls with parameters that only the server may set. */
export function refuseSmuggled(library: Library, request: JsonObject): Outcome<null> {
  const { item_type, item_id, parameters } = request;
  const set = INPUT_PARAMETERS.find((name) => getOwn(parameters, name) !== undefined);
  if (item_type !== 'tool' || typeof item_id !== 'string' || set === undefined) return ok(null);
  const item = library.find('tool', item_id);
  const isExposed = item.ok && item.output.tool?.expose !== undefined;
  return isExposed ? fail('invalid_input', `clients cannot set \`${set}\``) : ok(null);
}
