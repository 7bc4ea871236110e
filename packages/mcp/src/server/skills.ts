// Serves directives and knowledge as skills (MCP extension `io.modelcontextprotocol/skills`): a
// folder with one file, `SKILL.md`, created on request. A skill exists only if `load` shows the
// item to this client, and a directive only if this surface may execute it.
import { getOwn, lastSegment, listAt, splitFrontMatter, textAt } from '@kernmantle/core/base';
import type { McpServer, ServerContext } from '@modelcontextprotocol/server';
import {
  type Skill,
  type SkillSource,
  SkillsExtension,
  skillEntry,
} from '@modelcontextprotocol/server/ext/skills';
import type { ServerParts } from './host.ts';
import { decoded } from './native-results.ts';

const KINDS = ['directive', 'knowledge'] as const;
type Kind = (typeof KINDS)[number];

const PAGE = 20;
const MAX_DESCRIPTION = 1000;
const BASE = 'skill://';

/** Names of skills have lowercase letters, digits and single hyphens. */
const slugOf = (id: string): string =>
  lastSegment(id)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 64)
    .replace(/^-+|-+$/g, '');

/** Returns the folder of a skill. Its last part is the name of the skill. */
function pathOf(kind: Kind, id: string): string {
  const name = slugOf(id);
  return lastSegment(id) === name ? `${kind}/${id}` : `${kind}/${id}/${name}`;
}

/** Returns the items that an address can mean. */
function itemsAt(uri: string): { kind: Kind; id: string }[] {
  const [, path = ''] = /^skill:\/\/([^?#]{1,1000})\/SKILL\.md$/.exec(uri) ?? [];
  const [first, ...rest] = path.split('/').map(decoded);
  const kind = KINDS.find((one) => one === first);
  if (!kind || rest.length === 0) return [];
  const ids = [rest.slice(0, -1).join('/'), rest.join('/')];
  return ids
    .filter((id) => id !== '' && pathOf(kind, id) === [kind, ...rest].join('/'))
    .map((id) => ({ kind, id }));
}

interface Doc {
  readonly path: string;
  readonly text: string;
}

function createSource({ host, client }: ServerParts): SkillSource {
  /** Creates the file of a skill. Undefined if the item is not found or not visible to this client. */
  async function make(kind: Kind, id: string, context: ServerContext): Promise<Doc | undefined> {
    const request = { item_type: kind, item_id: id };
    const by = { client: client(), signal: context.mcpReq.signal };
    const loaded = await host.call('load', request, by);
    if (!loaded.ok || slugOf(id) === '') return undefined;
    const item = getOwn(loaded.output, 'item');
    if (textAt(item, 'item_id') !== id) return undefined;
    const access = kind === 'directive' ? host.policy().directives('mcp') : 'all';
    if (access === 'none' || (access === 'signed' && getOwn(item, 'signed') !== true)) {
      return undefined;
    }
    const about = textAt(item, 'description') || textAt(item, 'title') || id;
    const head = [
      `name: ${slugOf(id)}`,
      `description: ${JSON.stringify(about.slice(0, MAX_DESCRIPTION))}`,
      'metadata:',
      `  kernmantle.item: ${JSON.stringify(`${kind} ${id}`)}`,
      `  kernmantle.version: ${JSON.stringify(textAt(item, 'version'))}`,
    ];
    const body = textAt(loaded.output, 'body');
    const text = kind === 'directive' ? directiveBody(id, body) : splitFrontMatter(body).rest;
    return { path: pathOf(kind, id), text: `---\n${head.join('\n')}\n---\n${text}` };
  }

  /** Returns undefined for an item that cannot be a skill. */
  const entryOf = async (file: Doc | undefined): Promise<Skill | undefined> => {
    if (!file) return undefined;
    return await skillEntry(file.path, { 'SKILL.md': file.text }).catch(() => undefined);
  };

  async function find(uri: string, context: ServerContext): Promise<Doc | undefined> {
    for (const { kind, id } of itemsAt(uri)) {
      const file = await make(kind, id, context);
      if (file) return file;
    }
    return undefined;
  }

  return {
    async list({ cursor = '' }, context) {
      const [, named = 'directive', at = ''] = /^(directive|knowledge):(.*)$/.exec(cursor) ?? [];
      const kind = KINDS.find((one) => one === named) ?? 'directive';
      const request = { query: '', item_type: kind, limit: PAGE, ...(at !== '' && { cursor: at }) };
      const by = { client: client(), signal: context.mcpReq.signal };
      const answer = await host.call('search', request, by);
      if (!answer.ok) return { skills: [] };
      const skills: Skill[] = [];
      for (const item of listAt(answer.output, 'items')) {
        const skill = await entryOf(await make(kind, textAt(item, 'item_id'), context));
        if (skill) skills.push(skill);
      }
      const more = textAt(answer.output, 'next_cursor');
      const next = more === '' ? KINDS[KINDS.indexOf(kind) + 1] : kind;
      return { skills, ...(next && { nextCursor: `${next}:${more}` }) };
    },
    get: async (uri, context) => await entryOf(await find(uri, context)),
    async read(uri, context) {
      const file = await find(uri, context);
      return file && { text: file.text, mimeType: 'text/markdown' };
    },
  };
}

/** Returns the text of a directive after a hint how to run it with its permissions and limits. */
const directiveBody = (
  id: string,
  body: string,
): string => `Follow this directive. To run it instead, as a thread under its own permissions and limits, call
\`execute\` with \`{"item_type": "tool", "item_id": "threads/thread_directive", "parameters":
{"directive_name": ${JSON.stringify(id)}, "inputs": {}}}\`.

${body}`;

export function addSkills(server: McpServer, parts: ServerParts): void {
  const onWarning = ({ path, message }: { path: string; message: string }): void =>
    parts.host.onError(new Error(`skill ${path}: ${message}`));
  new SkillsExtension({ source: createSource(parts), baseUri: BASE, onWarning }).attach(server);
}
