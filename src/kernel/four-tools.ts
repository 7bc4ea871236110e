// The only tools a model or an MCP client sees, in this order, as data. Together under 2.5 KB: a client pays
// for them in every conversation. `sign` and `approve` are not here and never will be.
import type { JsonObject } from '../base/index.ts';

export interface VerbDefinition {
  name: 'search' | 'load' | 'execute' | 'help';
  title: string;
  description: string;
  input: JsonObject;
  readOnly: boolean;
}

const text: JsonObject = { type: 'string' };
const kinds = (...names: string[]): JsonObject => ({ type: 'string', enum: names });

const input = (properties: JsonObject, required: string[]): JsonObject => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

export const FOUR_TOOLS: readonly VerbDefinition[] = [
  {
    name: 'search',
    title: 'Search items',
    description: 'Find directives, tools and knowledge by full text.',
    readOnly: true,
    input: input(
      {
        query: text,
        item_type: kinds('directive', 'tool', 'knowledge'),
        source: kinds('project', 'user', 'installed', 'bundle', 'catalog', 'local', 'all'),
        limit: { type: 'integer', minimum: 1, maximum: 100 },
        cursor: text,
        detail: kinds('name', 'summary', 'schema'),
      },
      ['query'],
    ),
  },
  {
    name: 'load',
    title: 'Load an item',
    description: 'Read one item: metadata, parameters and body. Runs nothing.',
    readOnly: true,
    input: input(
      {
        item_type: kinds('directive', 'tool', 'knowledge'),
        item_id: text,
        source: text,
        destination: kinds('project', 'user'),
        part: kinds('all', 'body', 'metadata', 'schema', 'diagnostics'),
      },
      ['item_type', 'item_id'],
    ),
  },
  {
    name: 'execute',
    title: 'Execute an item',
    description:
      'Run a tool, get a directive ready to follow, read knowledge; or return, create, update, delete. dry_run shows what would happen.',
    readOnly: false,
    input: input(
      {
        item_type: kinds('directive', 'tool', 'knowledge', 'thread', 'artifact'),
        item_id: text,
        action: text,
        parameters: { type: 'object' },
        content: text,
        dry_run: { type: 'boolean' },
        project_path: text,
      },
      ['item_type', 'item_id'],
    ),
  },
  {
    name: 'help',
    title: 'Help',
    description:
      'Guidance on a topic (overview directives permissions limits hooks spawning mcps stuck scripts), or signal: stuck, escalate (a question, or a missing capability), checkpoint.',
    readOnly: true,
    input: input(
      {
        action: kinds('guidance', 'stuck', 'escalate', 'checkpoint'),
        topic: text,
        reason: text,
        capability: text,
        scope: { type: 'object' },
      },
      [],
    ),
  },
];

/** Every answer has this shape; `output` differs by tool and item. */
export const ANSWER: JsonObject = {
  type: 'object',
  properties: {
    ok: { type: 'boolean' },
    output: {},
    error: {
      type: 'object',
      properties: { code: text, detail: { type: 'object' } },
      required: ['code', 'detail'],
    },
  },
  required: ['ok'],
};
