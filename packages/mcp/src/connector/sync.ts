// Runs a connector: the tool list of the server becomes files. An approved, unchanged tool keeps
// its file. A new or changed tool needs the approval of a person. A tool that the server no longer
// lists loses its file.
import { hash } from 'node:crypto';
import {
  canonicalJson,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  lastSegment,
  type Outcome,
  ok,
  textAt,
} from '@kernmantle/core/base';
import { EMPTY } from '@kernmantle/core/flow';
import {
  isGenerated,
  type Library,
  parseTool,
  serverName,
  type Tool,
  type ToolItem,
} from '@kernmantle/core/items';
import {
  type PrimitiveCall,
  type PrimitiveResult,
  parameterWords,
  type Verifier,
} from '@kernmantle/core/kernel';
import type { Listing, McpPool, ServerTool } from '../client/pool.ts';
import { LABELS, poolCall } from './call.ts';
import {
  changedParts,
  definitionProblem,
  flagsOf,
  namesOf,
  type Pin,
  pinOf,
  setPin,
} from './definition.ts';
import type { ServerPlace } from './endpoint.ts';
import { MAX_DESCRIPTION, requiresOf, toolText, withoutSetPin } from './generate.ts';
import { type Mapping, readMapping, unknownCapability } from './mapping.ts';
import { fileNames, serverProblem } from './names.ts';
import { shownText } from './texts.ts';

export interface SyncPorts {
  readonly pool: McpPool;
  /**
   * Opens a pool whose servers can access nothing that the verifier refuses. The caller closes it.
   */
  openFor(caller: Verifier): Promise<McpPool>;
  readonly library: Pick<Library, 'all' | 'capabilities' | 'chain' | 'refresh' | 'remove'>;
  /**
   * Writes a tool into the project, signed with the user's key and atomically. `who` approved it.
   */
  put(id: string, text: string, who: string): Outcome<{ file: string; text: string }>;
  /**
   * Returns the decision of a person about exactly this change. Creates a missing approval request.
   */
  approval(
    about: { connector: string; digest: string },
    shown: JsonObject,
    surface: string,
  ): Promise<
    Outcome<{ answer: 'approved' | 'pending' | 'denied'; approval: string; who?: string }>
  >;
}

const MAX_TOOLS = 1000;
const MAX_SHOWN = 300;

interface Wanted {
  readonly id: string;
  readonly tool: ServerTool;
  readonly pin: Pin;
  readonly text: string;
  readonly requires: readonly string[];
  /** The tool that the text defines. */
  readonly made: Tool;
}

interface LeftOut {
  readonly name: string;
  readonly why: string;
}

interface SyncPlace {
  readonly connector: string;
  readonly server: string;
  /** Folder of the tools, relative to `.ai/tools`. */
  readonly folder: string;
  readonly prefix: string;
}

function placeOf({ config, tool }: PrimitiveCall): Outcome<SyncPlace> {
  const server = serverName(config, tool.id);
  const odd = serverProblem(server);
  if (odd !== undefined) return fail('config_invalid', odd, { config_path: 'config.server' });
  const dir = (textAt(config, 'output_dir') || `.ai/tools/mcp/${server}`).replace(/\/+$/, '');
  const folder = /^(?:\.\/)?\.ai\/tools\/(mcp(?:\/[A-Za-z0-9_-]+)*)$/.exec(dir)?.[1];
  if (folder === undefined) {
    const message = `tools of MCP servers must be below \`.ai/tools/mcp/\`, not in \`${dir}\``;
    return fail('config_invalid', message, { config_path: 'config.output_dir' });
  }
  return ok({ connector: tool.id, server, folder, prefix: textAt(config, 'tool_prefix') });
}

/** Computes the file of every listed tool, and the tools that cannot become a file. */
function plan(
  listing: Listing,
  identity: JsonObject,
  place: SyncPlace,
  mapping: Mapping,
  library: SyncPorts['library'],
): { wanted: Wanted[]; leftOut: LeftOut[]; set: string } {
  const { once, twice } = namesOf(listing);
  const leftOut: LeftOut[] = twice.map((name) => ({ name, why: 'the server lists it twice' }));
  const fit = once.filter((tool) => {
    const why = definitionProblem(tool);
    if (why !== undefined) leftOut.push({ name: tool.name, why });
    return why === undefined;
  });
  const pins = new Map(fit.map((tool) => [tool.name, pinOf(identity, listing.server, tool)]));
  const set = setPin(pins);
  const all = library.all('tool');
  const builtIn = all.filter(({ source }) => source === 'bundle');
  const files = fileNames(
    fit.map(({ name }) => name),
    (name) => mapping(name).rename ?? `${place.prefix}${name}`,
    place.server,
    new Set(builtIn.map(({ id }) => lastSegment(id).toLowerCase())),
  );
  const taken = new Set(
    all.filter((item) => !isGenerated(item, place.connector)).map(({ id }) => id.toLowerCase()),
  );
  // A server can choose names whose short hashes are equal.
  const shared = Map.groupBy(files.values(), (file) => file.toLowerCase());
  const wanted = fit.flatMap((tool): Wanted[] => {
    const [file = '', pin, mapped] = [
      files.get(tool.name),
      pins.get(tool.name),
      mapping(tool.name),
    ];
    const id = `${place.folder}/${file}`;
    const isShared = shared.get(file.toLowerCase())?.length !== 1;
    if (!pin || isShared || taken.has(id.toLowerCase())) {
      leftOut.push({ name: tool.name, why: `another tool \`${id}\` exists` });
      return [];
    }
    const text = toolText(tool, pin, mapped, { ...place, file, setPin: set });
    const { tool: made, diagnostics } = parseTool(text, `${file}.yaml`);
    const odd = diagnostics.find(({ severity }) => severity === 'error');
    if (odd || !made) {
      leftOut.push({ name: tool.name, why: odd?.message ?? 'its definition is not a valid tool' });
      return [];
    }
    return [{ id, tool, pin, text, made, requires: requiresOf(place.server, mapped) }];
  });
  return { wanted, leftOut, set };
}

type Changing = Wanted & { readonly before?: ToolItem };

/** Compares with the existing files: approved, changed only in the set, new or changed, removed. */
function compare(wanted: readonly Wanted[], there: readonly ToolItem[]) {
  const byId = new Map(there.map((item) => [item.id, item]));
  const [same, moved, changes]: [Wanted[], Wanted[], Changing[]] = [[], [], []];
  for (const one of wanted) {
    const before = byId.get(one.id);
    const isSigned = before?.signature.state === 'signed';
    if (isSigned && before.body === one.text) same.push(one);
    else if (isSigned && withoutSetPin(before.body) === withoutSetPin(one.text)) moved.push(one);
    else changes.push({ ...one, ...(before && { before }) });
  }
  const ids = new Set(wanted.map(({ id }) => id));
  return { same, moved, changes, gone: there.filter(({ id }) => !ids.has(id)) };
}

/** Returns a summary for the caller. It contains no text of the server. */
const named = ({ id, tool, before, pin }: Changing): JsonObject => ({
  id,
  name: shownText(tool.name, MAX_SHOWN),
  flags: flagsOf(tool),
  ...(before && {
    changed: [
      ...(textAt(before.tool?.config, 'mcp_tool') === tool.name ? [] : ['name']),
      ...changedParts(getOwn(before.tool?.config, 'parts'), pin.parts),
    ],
  }),
});

/** Fields of the answer that can be used as named values, and their kinds. */
function answerWords({ result, directory }: Partial<Pick<Tool, 'result' | 'directory'>> = {}) {
  const { free_text = [], identifiers = [], kinds = {} } = result ?? {};
  return [
    ...(directory ? ['the address book of the user'] : []),
    ...free_text.map((name) => `${name}: free text`),
    ...identifiers.map((name) => `${name}: identifier`),
    ...Object.entries(kinds).map(([name, kind]) => `${name}: ${kind}`),
  ];
}

/** Returns all fields that a person can judge. The approval does not cover any other field. */
function shownTool({ tool, description }: Pick<ToolItem, 'tool' | 'description'>): JsonObject {
  const { effect = '', risk = [], requires = [], labels = [], parameters = [] } = tool ?? {};
  const roles = parameters.flatMap(({ name, role }) => (role ? `${name}: ${role}` : []));
  const kinds = parameters.flatMap(({ name, kind }) => (kind ? `${name}: ${kind}` : []));
  const answers = answerWords(tool);
  return {
    name: shownText(textAt(tool?.config, 'mcp_tool'), MAX_SHOWN),
    description: shownText(description, MAX_DESCRIPTION),
    parameters: shownText(parameterWords(tool?.input_schema ?? {}), MAX_DESCRIPTION),
    requires: [...requires],
    effect,
    risk: [...risk],
    ...(labels.length > 0 && { labels: [...labels] }),
    ...(roles.length > 0 && { roles }),
    ...(kinds.length > 0 && { kinds }),
    ...(answers.length > 0 && { answers }),
  };
}

/** Details for the person who decides: the text, effect and risk, before and now. */
const shownChange = (change: Changing): JsonObject => ({
  ...named(change),
  ...shownTool({ tool: change.made, description: change.made.description }),
  ...(change.before && { was: shownTool(change.before) }),
});

function question(place: SyncPlace, changes: readonly Changing[]): JsonObject {
  const isNew = ({ before }: Changing): boolean => before === undefined;
  const changed = changes.filter((one) => !isNew(one));
  return {
    action: 'ask',
    operation: `tool:${place.connector}`,
    question: `add ${changes.length} tools of MCP server ${place.server} and sign them`,
    asked_by: ['mcp'],
    arguments: {
      server: place.server,
      added: changes.filter(isNew).map(shownChange),
      changed: changed.map(shownChange),
    },
  };
}

interface Synced {
  readonly output: JsonObject;
  readonly written: readonly { file: string; text: string }[];
}

/** Removes the files whose signature is still valid. A file that a person changed stays. */
function prune(gone: readonly ToolItem[], library: SyncPorts['library']) {
  const [removed, kept]: [string[], string[]] = [[], []];
  for (const { id, signature } of gone) {
    const isOurs = signature.state === 'signed';
    const removal = isOurs ? library.remove('tool', id) : undefined;
    (removal?.ok ? removed : kept).push(id);
  }
  return { removed, kept };
}

async function takeOver(
  ports: SyncPorts,
  place: SyncPlace,
  surface: string,
  changes: readonly Changing[],
): Promise<Outcome<{ status: string; approval?: string; who?: string }>> {
  if (changes.length === 0) return ok({ status: 'synced' });
  const texts = changes.map(({ id, text }) => [id, hash('sha256', text)]);
  const digest = hash('sha256', canonicalJson([place.connector, texts] as Json));
  const about = { connector: place.connector, digest };
  const decision = await ports.approval(about, question(place, changes), surface);
  if (!decision.ok) return decision;
  const { answer, approval, who = '' } = decision.output;
  if (answer === 'approved') return ok({ status: 'synced', who });
  return ok({ status: `approval_${answer}`, approval });
}

async function apply(
  ports: SyncPorts,
  call: PrimitiveCall,
  place: SyncPlace,
  { wanted, leftOut, set }: ReturnType<typeof plan>,
): Promise<Outcome<Synced>> {
  const { library } = ports;
  const there = library.all('tool').filter((item) => isGenerated(item, place.connector));
  const { same, moved, changes, gone } = compare(wanted, there);
  const decision = await takeOver(ports, place, call.from?.surface ?? '', changes);
  if (!decision.ok) return decision;
  const { status, approval, who = 'unchanged' } = decision.output;
  const isTaken = status === 'synced';
  // The old file of a renamed tool stays until the new one exists.
  const isListed = ({ tool }: ToolItem): boolean =>
    wanted.some((one) => one.tool.name === textAt(tool?.config, 'mcp_tool'));
  const old = isTaken ? gone : gone.filter((item) => !isListed(item));
  const written: { file: string; text: string }[] = [];
  for (const { id, text } of isTaken ? [...changes, ...moved] : []) {
    const put = ports.put(id, text, who);
    if (!put.ok) return put;
    written.push(put.output);
  }
  const { removed, kept } = prune(old, library);
  await library.refresh();
  const waiting = isTaken
    ? {}
    : { pending: { approval: approval ?? '', tools: changes.map(named) } };
  const output: JsonObject = {
    status,
    server: place.server,
    connector: place.connector,
    tools: wanted.length,
    unchanged: same.length + moved.length,
    written: isTaken ? changes.map(({ id }) => id) : [],
    removed,
    ...(kept.length > 0 && { left_alone: kept }),
    ...(leftOut.length > 0 && {
      left_out: leftOut.map(({ name, why }) => ({ name: shownText(name, MAX_SHOWN), why })),
    }),
    ...waiting,
    set_pin: set,
  };
  return ok({ output, written });
}

/**
 * Finds another connector with the same server name. The two would share their permissions.
 */
function twinOf(
  { server, connector }: SyncPlace,
  library: SyncPorts['library'],
): ToolItem | undefined {
  return library
    .all('tool')
    .find(
      ({ id, source, tags, tool }) =>
        id !== connector &&
        source !== 'bundle' &&
        tags.includes('mcp_connector') &&
        serverName(tool?.config ?? {}, id) === server,
    );
}

/** Runs a connector. The output contains no server text about tools without approval. */
export async function syncConnector(
  ports: SyncPorts,
  { endpoint, identity }: ServerPlace,
  call: PrimitiveCall,
): Promise<Outcome<PrimitiveResult>> {
  const place = placeOf(call);
  if (!place.ok) return place;
  const { folder } = place.output;
  const mappingFile = `.ai/tools/${folder}/mapping.yaml`;
  const mapping = readMapping(`${call.projectRoot}/${mappingFile}`, mappingFile);
  if (!mapping.ok) return mapping;
  const listed = await ports.pool.list(endpoint, { ...poolCall(call), fresh: true });
  if (!listed.ok) return listed;
  if (listed.output.tools.length > MAX_TOOLS) {
    return fail('quota_exceeded', `the server lists more than ${MAX_TOOLS} tools`);
  }
  await ports.library.refresh();
  const twin = twinOf(place.output, ports.library);
  if (twin) {
    const message = `\`${twin.id}\` is also a connector of \`${place.output.server}\``;
    return fail('config_invalid', message, { hint: 'give one of them another `config.server`' });
  }
  const planned = plan(listed.output, identity, place.output, mapping.output, ports.library);
  const capabilities = ports.library.capabilities();
  for (const name of planned.wanted.flatMap(({ requires }) => requires)) {
    const hint = unknownCapability(name, capabilities);
    if (hint === undefined) continue;
    return fail('config_invalid', `\`${mappingFile}\`: capability \`${name}\` not found`, { hint });
  }
  const applied = await apply(ports, call, place.output, planned);
  if (!applied.ok) return applied;
  const { output, written } = applied.output;
  const files = written.map(({ file, text }) => ({
    access: 'written' as const,
    absolute: file,
    relative: file.slice(call.projectRoot.length + 1),
    sha256: hash('sha256', text),
  }));
  const { marks = EMPTY } = listed.output;
  return ok({ output, labels: [...LABELS], files, marks });
}
