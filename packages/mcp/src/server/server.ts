// One server of the SDK for one client: the official packages speak the protocol (both revisions), the
// files beside this one each hang one thing into it.
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
  /** What the client's model is told about this server, instead of the item `system/mcp_client`. */
  readonly instructions?: string;
  /** Items that say so are tools, resources and prompts of their own, instead of the four tools. */
  readonly native?: boolean;
  /** Bytes of a result; longer ones are read from a link, in pages. */
  readonly maxAnswer?: number;
}

/** The bundle's words: what a project says of itself is found by searching, where it is labelled. */
function toldTo({ library }: McpHost): string {
  const found = library.find('knowledge', 'system/mcp_client', 'bundle');
  return found.ok ? found.output.text.trim() : '';
}

/** What a client calls itself, for one line of a list: it cannot begin another. */
const nameIn = (said: string): string => onOneLine(said.slice(0, 100));

/** `client`: who speaks, as the transport found out; its name is added from what it says of itself. */
export function createMcpServer(
  host: McpHost,
  client: Omit<McpClient, 'name'>,
  {
    native = false,
    maxAnswer = MAX_ANSWER,
    instructions = native ? '' : toldTo(host),
  }: ServerOptions = {},
): McpServer {
  // The validator interprets schemas; the SDK's default would compile them to code.
  const validator = new CfWorkerJsonSchemaValidator();
  const states = createRequestStates(() => host.key(), client.id);
  const server = new McpServer(
    { name: 'kernmantle', version: host.version },
    {
      // What is offered does not change while a client is there.
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
    // A copy: the validator writes into what it is given, and a value that was passed on is frozen.
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
