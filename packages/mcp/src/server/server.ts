// Creates one SDK server for one client. The official packages implement both revisions of the
// protocol. Each neighbouring file adds one feature.
import { type JsonObject, onOneLine } from '@kernmantle/core/base';
import { fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/server/validators/cf-worker';
import { addAnswers, createAnswers, MAX_ANSWER } from './answers.ts';
import { handedTo, withHandles } from './handles.ts';
import type { McpClient, McpHost, ServerParts } from './host.ts';
import { addNative } from './native.ts';
import { addCompletion, addPrompts, noChoices } from './prompts.ts';
import { createRequestStates } from './request-state.ts';
import { addResources, addThreads } from './resources.ts';
import { addSubscriptions } from './resources-changes.ts';
import { addSpans } from './server-spans.ts';
import { addSkills } from './skills.ts';
import { addVerbs } from './verbs.ts';

export interface ServerOptions {
  /** Instructions for the client's model, instead of the item `system/mcp_client`. */
  readonly instructions?: string;
  /** Offers exposed items as tools, resources and prompts, instead of the four tools. */
  readonly native?: boolean;
  /** Maximum size of a result in bytes. Longer results are read from a link, in pages. */
  readonly maxAnswer?: number;
}

/** Returns the instructions of the bundle. A project cannot replace them. */
function bundledInstructions({ library }: McpHost): string {
  const item = library.find('knowledge', 'system/mcp_client', 'bundle');
  return item.ok ? item.output.text.trim() : '';
}

/** Cuts the claimed name of a client to one line, so that it cannot fake another line. */
const nameIn = (claimed: string): string => onOneLine(claimed.slice(0, 100));

/** `client` is authenticated by the transport. Its claimed name is added later. */
export function createMcpServer(
  host: McpHost,
  client: Omit<McpClient, 'name'>,
  {
    native = false,
    maxAnswer = MAX_ANSWER,
    instructions = native ? '' : bundledInstructions(host),
  }: ServerOptions = {},
): McpServer {
  // This validator interprets schemas. The default one of the SDK would compile them to code.
  const validator = new CfWorkerJsonSchemaValidator();
  const states = createRequestStates(() => host.key(), client.id);
  const server = new McpServer(
    { name: 'kernmantle', version: host.version },
    {
      // The offered items do not change during a connection.
      capabilities: {
        tools: { listChanged: false },
        prompts: { listChanged: false },
        resources: { subscribe: true, listChanged: false },
        logging: {},
      },
      instructions,
      jsonSchemaValidator: validator,
      requestState: { verify: states.verify },
    },
  );
  const answers = createAnswers(host.library, client.id, maxAnswer);
  const parts: ServerParts = {
    host: withHandles(host),
    client: () => ({ ...client, name: nameIn(server.server.getClientVersion()?.name ?? '') }),
    // The validator changes its input, and a schema can be frozen. It gets a copy.
    schema: (json) => fromJsonSchema<JsonObject>(structuredClone(json), validator),
    states,
    answers,
  };
  addAnswers(server, answers);
  const choices = noChoices();
  if (!native) {
    addVerbs(server, parts);
    addPrompts(server, parts, choices);
    addSkills(server, parts);
    addResources(server, parts, () => handedTo(host, client));
  } else if (addNative(server, parts, choices)) addThreads(server, parts);
  addCompletion(server, choices);
  addSubscriptions(server, parts, (uri) => choices.resources.has(uri));
  addSpans(server, host, () => parts.client().name);
  return server;
}
