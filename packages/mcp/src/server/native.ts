// Native mode: items with `expose` are tools, resources and prompts of their own, instead of the
// four tools. Each call is `execute` of that item, with the same checks and the same policy of the
// surface.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
  splitFrontMatter,
  textAt,
} from '@kernmantle/core/base';
import {
  type DirectiveItem,
  type Exposed,
  exposedName,
  exposedOf,
  exposedUri,
  groupExposed,
  INPUT_PARAMETERS,
  type Item,
  type ToolItem,
} from '@kernmantle/core/items';
import { hasPatterns, signatureOf, validate } from '@kernmantle/core/kernel';
import {
  type InputRequiredResult,
  isInputRequiredResult,
  type McpServer,
  ResourceTemplate,
  type ServerContext,
  type ToolAnnotations,
} from '@modelcontextprotocol/server';
import { withApprovals } from './approvals.ts';
import type { ServerParts } from './host.ts';
import { askClient, broughtAlong, type InputPorts, readInputs } from './native-inputs.ts';
import {
  decoded,
  failedResult,
  ownOutput,
  promptResult,
  protocolError,
  resourceError,
  resourceResult,
  toolResult,
} from './native-results.ts';
import { createOutputLines, progressFor } from './progress.ts';
import { addPrompt, type Choices, choicesIn } from './prompts.ts';
import { listed } from './verbs.ts';

interface NativePorts extends ServerParts, InputPorts {
  /** Returns the name of a template, or its id if the name is taken. */
  templateName(name: string, id: string): string;
}

/** Inputs and outputs of an exposed tool, as clients see them. */
interface Offer {
  readonly item: ToolItem;
  readonly name: string;
  readonly exposed: Exposed;
  readonly input: JsonObject;
  readonly output?: JsonObject | undefined;
  /** The members of `INPUT_PARAMETERS` that the tool declares. */
  readonly asks: readonly string[];
}

const without = (schema: JsonObject, names: readonly string[]): JsonObject => {
  const { properties, required } = schema;
  const visible = isObject(properties)
    ? Object.fromEntries(Object.entries(properties).filter(([name]) => !names.includes(name)))
    : {};
  const needed = Array.isArray(required) && {
    required: required.filter((name) => !(typeof name === 'string' && names.includes(name))),
  };
  return { type: 'object', ...schema, properties: visible, ...needed };
};

function offerOf(
  item: ToolItem,
  exposed: Exposed,
  { host: { library } }: NativePorts,
): Offer | undefined {
  const signature = signatureOf(library, item);
  const chain = library.chainOf(item);
  if (!signature || !chain.ok) return undefined;
  const output = chain.output.links.find(({ tool }) => tool?.output_schema)?.tool?.output_schema;
  const declared = Object.keys((getOwn(signature.schema, 'properties') as JsonObject) ?? {});
  return {
    item,
    exposed,
    name: exposedName(item, exposed),
    input: without(signature.schema, INPUT_PARAMETERS),
    output,
    asks: INPUT_PARAMETERS.filter((name) => declared.includes(name)),
  };
}

function annotationsOf({ item }: Offer): ToolAnnotations {
  const isRead = item.tool?.effect === 'read';
  const { risk = [], requires = [] } = item.tool ?? {};
  return {
    readOnlyHint: isRead,
    destructiveHint: !isRead,
    openWorldHint: risk.includes('exfil') || requires.some((name) => name.startsWith('net.')),
  };
}

/** Calls an exposed tool. Returns its output, or a question to the client. */
async function run(
  ports: NativePorts,
  offer: Offer,
  args: JsonObject,
  context: ServerContext,
): Promise<Outcome<JsonObject | InputRequiredResult>> {
  const { item, name, asks } = offer;
  const smuggled = INPUT_PARAMETERS.find((one) => Object.hasOwn(args, one));
  if (smuggled) return fail('invalid_input', `\`${name}\` has no argument \`${smuggled}\``);
  const call = { tool: item.id, arguments: args };
  const inputs = await readInputs(ports, call, context);
  if (isInputRequiredResult(inputs)) return ok(inputs);
  const first = await execute(ports, offer, call, { ...args, ...inputs }, context);
  const question = questionIn(first);
  if (question === undefined) return first;
  if (!asks.includes('input_responses')) {
    const message = `\`${name}\` asks the client but does not declare \`input_responses\``;
    return fail('tool_failed', message);
  }
  const brought = broughtAlong(ports, question, context);
  if (!brought) return await askClient(ports, call, question, context);
  const second = await execute(ports, offer, call, { ...args, ...inputs, ...brought }, context);
  const more = questionIn(second);
  return more === undefined ? second : await askClient(ports, call, more, context);
}

/** Returns the question of a tool to the client. Undefined if the tool asks nothing. */
const questionIn = (outcome: Outcome<JsonObject | InputRequiredResult>): Json | undefined =>
  outcome.ok && !isInputRequiredResult(outcome.output)
    ? getOwn(outcome.output, 'input_required')
    : undefined;

/** Returns the answer of the tool, or an approval request for the person. */
async function execute(
  ports: NativePorts,
  { item, name, asks }: Offer,
  call: Json,
  args: JsonObject,
  context: ServerContext,
): Promise<Outcome<JsonObject | InputRequiredResult>> {
  const isTaken = ([one]: [string, Json]): boolean =>
    asks.includes(one) || !INPUT_PARAMETERS.includes(one);
  const parameters = Object.fromEntries(Object.entries(args).filter(isTaken));
  const { signal } = context.mcpReq;
  const { onOutput, end } = createOutputLines(context, name);
  const request = { item_type: 'tool', item_id: item.id, parameters };
  const by = { client: ports.client(), signal, onOutput };
  const make = (body: JsonObject) => ports.host.call('execute', body, by);
  const outcome = await withApprovals(ports, { call, request }, context, make);
  await end();
  if (isInputRequiredResult(outcome)) return ok(outcome);
  return outcome.ok ? ok(ownOutput(outcome.output)) : outcome;
}

function addTool(ports: NativePorts, offer: Offer): void {
  const { item, name, input, output } = offer;
  ports.server.registerTool(
    name,
    {
      description: item.description,
      inputSchema: listed(input, ports.schema),
      ...(output && { outputSchema: listed(output, ports.schema) }),
      annotations: annotationsOf(offer),
    },
    async (args, context) => {
      const result = await run(ports, offer, args, context);
      if (!result.ok) return failedResult(result, ports.answers);
      return isInputRequiredResult(result.output)
        ? result.output
        : toolResult(result.output, output, ports.answers);
    },
  );
}

function addPromptTool(ports: NativePorts, offer: Offer): void {
  const { item, name, input } = offer;
  const { description } = item;
  const argsSchema = listed(input, ports.schema);
  ports.server.registerPrompt(name, { description, argsSchema }, async (args, context) => {
    const result = await run(ports, offer, args, context);
    if (!result.ok) throw protocolError(result);
    return isInputRequiredResult(result.output)
      ? result.output
      : promptResult(result.output, description);
  });
}

function addResourceTool(ports: NativePorts, offer: Offer): void {
  const { item, name, exposed, input } = offer;
  const { description } = item;
  const uri = exposedUri(item, exposed);
  const mimeType = exposed.mime_type;
  const about = { description, ...(mimeType !== undefined && { mimeType }) };
  const read = async ({ href }: URL, args: JsonObject, context: ServerContext) => {
    const result = await run(ports, offer, args, context);
    if (!result.ok) throw resourceError(result, href);
    return isInputRequiredResult(result.output)
      ? result.output
      : resourceResult(result.output, href, mimeType);
  };
  if (!uri.includes('{')) {
    ports.server.registerResource(name, uri, about, (at, context) => read(at, {}, context));
    return;
  }
  // Templates are distinguished by their names, and two items never share an address.
  const template = new ResourceTemplate(uri, { list: undefined });
  ports.server.registerResource(
    ports.templateName(name, item.id),
    template,
    about,
    (at, variables, context) => read(at, asParameters(variables, input), context),
  );
}

/** Parts of an address are text. They are converted to the declared types of the parameters. */
function asParameters(
  variables: Readonly<Record<string, string | string[]>>,
  { properties }: JsonObject,
): JsonObject {
  const parsed = Object.entries(variables).map(([name, value]): [string, Json] => {
    const text = decoded(Array.isArray(value) ? value.join(',') : value);
    const type = getOwn(getOwn(properties, name), 'type');
    const isNumber = (type === 'number' || type === 'integer') && /^-?\d+(\.\d+)?$/.test(text);
    return [name, isNumber ? Number(text) : text];
  });
  return Object.fromEntries(parsed);
}

function addKnowledge(ports: NativePorts, item: Item, exposed: Exposed): void {
  const { id, description, title } = item;
  const uri = exposedUri(item, exposed);
  const mimeType = exposed.mime_type ?? 'text/markdown';
  const { host, client, server } = ports;
  const about = { title, description, mimeType };
  server.registerResource(exposedName(item, exposed), uri, about, async ({ href }, context) => {
    const request = { item_type: 'knowledge', item_id: id };
    const { signal } = context.mcpReq;
    const read = await host.call('execute', request, { client: client(), signal });
    if (!read.ok) throw resourceError(read, href);
    const text = splitFrontMatter(textAt(read.output, 'text')).rest;
    return resourceResult({ text }, href, mimeType);
  });
}

/** Adds a directive as a tool that starts a thread. */
function addDirective(ports: NativePorts, { id, directive }: DirectiveItem, name: string): void {
  if (!directive) return;
  const { host, client, server } = ports;
  const properties = Object.fromEntries(
    directive.inputs.map(({ name: input, type, description }) => [
      input,
      { ...(type !== 'any' && { type }), description },
    ]),
  );
  const required = directive.inputs.filter((input) => input.required).map((input) => input.name);
  const schema = { type: 'object', properties, required, additionalProperties: false };
  server.registerTool(
    name,
    {
      description: directive.description,
      inputSchema: listed(schema, ports.schema),
      annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
    },
    async (inputs, context) => {
      const parameters = { directive_name: id, inputs };
      const request = { item_type: 'tool', item_id: 'threads/thread_directive', parameters };
      const progress = progressFor(context);
      const by = { client: client(), signal: context.mcpReq.signal, ...progress?.port };
      const make = (body: JsonObject) => host.call('execute', body, by);
      const outcome = await withApprovals(ports, { call: request, request }, context, make);
      await progress?.end();
      if (isInputRequiredResult(outcome)) return outcome;
      return outcome.ok
        ? toolResult(ownOutput(outcome.output), undefined, ports.answers)
        : failedResult(outcome, ports.answers);
    },
  );
}

function addItem(ports: NativePorts, item: Item, exposed: Exposed, choices: Choices): void {
  const name = exposedName(item, exposed);
  if (exposed.mcp === 'resource') choices.resources.add(exposedUri(item, exposed));
  if (item.kind === 'knowledge') return addKnowledge(ports, item, exposed);
  if (item.kind === 'directive') {
    if (exposed.mcp === 'tool') return addDirective(ports, item, name);
    choices.prompts.set(name, new Map());
    if (item.directive) addPrompt(ports.server, { name, id: item.id }, item.directive, ports);
    return;
  }
  const offer = offerOf(item, exposed, ports);
  if (!offer) {
    const message = `\`${item.id}\` is invalid and not served`;
    return ports.host.onError(new Error(message));
  }
  if (exposed.mcp === 'tool') return addTool(ports, offer);
  if (exposed.mcp === 'prompt') {
    choices.prompts.set(name, choicesIn(offer.input));
    return addPromptTool(ports, offer);
  }
  choices.templates.set(exposedUri(item, exposed), choicesIn(offer.input));
  addResourceTool(ports, offer);
}

/** Adds all exposed items with unique names. Returns true if clients can start threads. */
export function addNative(server: McpServer, parts: ServerParts, choices: Choices): boolean {
  // An untrusted regular expression could block the process.
  const misfits = (value: Json, schema: JsonObject): boolean =>
    !hasPatterns(schema) && validate(value, schema).length > 0;
  const names = new Set(['result', 'result, a page']);
  const templateName = (name: string, id: string): string => {
    const free = names.has(name) ? `${name} (${id})` : name;
    names.add(free);
    return free;
  };
  const ports: NativePorts = { ...parts, server, misfits, templateName };
  let startsThreads = false;
  for (const [key, items] of groupExposed(parts.host.library.all())) {
    const [item] = items;
    const exposed = item && exposedOf(item);
    if (!item || !exposed) continue;
    if (items.length > 1) {
      const names = items.map(({ id }) => `\`${id}\``).join(' and ');
      parts.host.onError(new Error(`the MCP ${key} is ${names}: none is served`));
      continue;
    }
    try {
      addItem(ports, item, exposed, choices);
    } catch (error) {
      // A schema that the SDK cannot read must not stop the other items.
      parts.host.onError(new Error(`\`${item.id}\` is not served: ${messageOf(error)}`));
      continue;
    }
    startsThreads ||= item.kind === 'directive' && exposed.mcp === 'tool';
  }
  return startsThreads;
}
