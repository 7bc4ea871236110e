// Defines the only tools that a model or an MCP client sees, in this order. With output schemas and the
// additions of the protocol they stay under 4.5 KB, because every conversation pays for them. They never
// include `sign` and `approve`.
import type { JsonObject } from '../base/index.ts';

interface VerbDefinition {
  name: 'search' | 'load' | 'execute' | 'help';
  title: string;
  description: string;
  input: JsonObject;
  /** Describes the content of `output` for the model. */
  answers: string;
  /** MCP annotations. A client can use them to ask its user before a call. */
  hints: JsonObject;
}

const text = (description: string): JsonObject => ({ type: 'string', description });
const object = (description: string): JsonObject => ({ type: 'object', description });
const one = (names: string, description: string): JsonObject => ({
  type: 'string',
  enum: names.split(' '),
  description,
});

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
    description: 'Find directives (tasks), tools and knowledge by full text.',
    hints: { readOnlyHint: true, openWorldHint: false },
    answers: 'items, total, next_cursor',
    input: input(
      {
        query: text('Words to look for'),
        item_type: one('directive tool knowledge', 'Only this kind'),
        source: one(
          'project user installed bundle catalog local all',
          'One level; catalog: not installed yet; local or all: every level here',
        ),
        limit: { type: 'integer', minimum: 1, maximum: 100, description: '10 if absent' },
        cursor: text('next_cursor of the page before'),
        detail: one('name summary schema', 'schema adds parameters'),
      },
      ['query'],
    ),
  },
  {
    name: 'load',
    title: 'Load an item',
    description: 'Read one item: metadata, parameters, body. Runs nothing.',
    hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
    answers: 'item, body, copied_to',
    input: input(
      {
        item_type: one('directive tool knowledge', 'Its kind'),
        item_id: text('As search gives it'),
        source: text('Level to take it from, as in search'),
        destination: one('project user', 'Copy it there too'),
        part: one('all body metadata schema diagnostics', 'all if absent'),
      },
      ['item_type', 'item_id'],
    ),
  },
  {
    name: 'execute',
    title: 'Execute an item',
    description: 'Run a tool, get a directive ready to follow, read knowledge, follow a thread.',
    hints: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
    answers: "a tool's fields, a directive's steps, a thread's state or result",
    input: input(
      {
        item_type: one('directive tool knowledge thread artifact', 'Its kind'),
        item_id: text("An item's id, a thread's handle"),
        action: one(
          'run return create update delete status wait pause resume inject cancel read',
          'Default run; directive: return hands in outputs; items: create update delete; thread: status to cancel; artifact: read',
        ),
        parameters: object(
          'Of the tool or directive; wait: wait_ms; inject: message; read: field, offset, length',
        ),
        content: text('Whole text for create and update'),
        dry_run: { type: 'boolean', description: 'Only show what would happen' },
        project_path: text('Another project; needs project.use'),
      },
      ['item_type', 'item_id'],
    ),
  },
  {
    name: 'help',
    title: 'Help',
    description:
      'Guidance on a topic, or signal: stuck, escalate (a question, or a missing capability), checkpoint, compact.',
    hints: { readOnlyHint: true, openWorldHint: false },
    answers: 'text, topics; or if the signal was delivered',
    input: input(
      {
        action: one('guidance stuck escalate checkpoint compact', 'guidance is default'),
        topic: text(
          'overview directives permissions limits hooks spawning mcps stuck scripts, or any words',
        ),
        reason: text('Of a signal: what is wrong or asked'),
        capability: text('escalate: the right that is missing'),
        scope: object('escalate: what for, such as {"path": "out/a.md"}'),
      },
      [],
    ),
  },
];

/** Returns the output schema of a tool. The content of `output` differs by tool and item. */
export const answerOf = ({ answers }: VerbDefinition): JsonObject => ({
  type: 'object',
  properties: {
    ok: { type: 'boolean' },
    output: { description: answers },
    error: { type: 'object', required: ['code', 'detail'] },
  },
  required: ['ok'],
});
