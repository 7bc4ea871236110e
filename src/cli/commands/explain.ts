import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
  plainText,
  textAt,
} from '../../base/index.ts';
import { directiveLimits, packLimits } from '../../harness/index.ts';
import {
  canSpawn,
  type Directive,
  type DirectiveItem,
  type Item,
  requiredBy,
  type ToolItem,
} from '../../items/index.ts';
import type { Runtime } from '../../runtime/index.ts';
import {
  capsOn,
  createCeilingVerifier,
  type Grant,
  grantName,
  grantsFromPermissions,
} from '../../trust/index.ts';
import { asText } from '../command.ts';
import { inProject } from '../project.ts';
import { type Terminal, valueText, visible } from '../terminal/terminal.ts';
import { explainThread } from '../threads/what-ran.ts';

// What an item may do and where each rule comes from, as one JSON value that `explain` prints.

/** Each limit with its value and who set it, as a run would have it. */
function limitsOf(directive: Directive, runtime: Runtime): Outcome<JsonObject> {
  const { limits } = runtime.policies().policy;
  const effective = directiveLimits(runtime.library, limits, directive);
  if (!effective.ok) return effective;
  const { spend_currency: _, context_warn: __, ...shown } = packLimits(effective.output);
  return ok(shown);
}

type Policies = ReturnType<Runtime['policies']>['policy'];

const originOf = ({ level, file = '' }: Policies['levels'][number]): JsonObject => ({
  from: level,
  file,
});

/** Of the directive and of every policy, as they are judged: all of them. */
function guardsOf(directive: Directive, { levels }: Policies): JsonObject[] {
  const shown = ({ name = '', on, timing, when = '', verdict }: Directive['guards'][number]) => ({
    name,
    on,
    timing,
    when,
    verdict: verdict.kind,
    ...(verdict.text !== undefined && { text: verdict.text }),
  });
  return [
    ...directive.guards.map((guard) => ({ ...shown(guard), from: 'directive' })),
    ...levels.flatMap((policy) =>
      (policy.guards ?? []).map((guard) => ({ ...shown(guard), ...originOf(policy) })),
    ),
  ];
}

/** Named rules that are on or were turned off by somebody, and who speaks of them. */
function rulesOf({ levels, rules }: Policies): JsonObject[] {
  return [...rules].flatMap(([name, state]) => {
    const says = levels.filter(
      (policy) => getOwn(policy.rules, name) !== undefined || policy.packs?.includes(name),
    );
    const from = says.map(({ level }) => level).join(', ') || 'built in';
    return state === 'off' && says.length === 0 ? [] : [{ name, state, from }];
  });
}

/** Declared grants, and what the policies leave of each name. */
function effectiveGrants(directive: Directive, runtime: Runtime): JsonObject {
  const { catalog } = runtime.library.capabilities();
  const permissions = directive.permissions ?? { entries: [] };
  const { grants, problems } = grantsFromPermissions(permissions, catalog, (name) => {
    const found = runtime.library.find('tool', name);
    return found.ok ? ok(found.output.id) : found;
  });
  const { levels } = runtime.policies().policy;
  const capsOf = (grant: Grant): JsonObject[] =>
    levels.flatMap((policy) =>
      capsOn(policy.capabilities ?? {}, grant, catalog).map((cap) => ({
        ...cap,
        ...originOf(policy),
      })),
    );
  return {
    granted: grants.map((grant) => {
      const { capability, scope } = grant;
      const caps = capsOf(grant);
      const capped = caps.length === 0 ? {} : { capped: caps };
      return { name: grantName(grant), capability, scope: { ...scope }, ...capped };
    }),
    problems: problems.map(({ code, message }) => ({ code, message })),
  };
}

/** How many tools of one glob are told one by one. */
const MAX_TOOLS = 50;

/** What a chain of tools reaches besides: hosts that a config names, variables, modules. */
function reachOf(links: readonly ToolItem[]): {
  hosts: string[];
  env: string[];
  modules: string[];
} {
  const nearest = (name: string): string =>
    links.map(({ tool }) => textAt(tool?.config ?? {}, name)).find((word) => word !== '') ?? '';
  const url = nearest('url');
  const host = /^\w+:\/\/(?:[^/@]*@)?([^/{}?#]+)(?:[/?#]|$)/.exec(url)?.[1] ?? 'any';
  const module = nearest('module');
  return {
    hosts: url === '' ? [] : [host],
    env: [...new Set(links.flatMap(({ tool }) => tool?.env ?? []))],
    modules: module === '' ? [] : [module],
  };
}

/** The tools that its permissions name, each with what a call of it may do. */
function toolsOf(directive: Directive, { library }: Runtime): JsonObject[] {
  const { catalog } = library.capabilities();
  const permissions = directive.permissions ?? { entries: [] };
  const { grants } = grantsFromPermissions(permissions, catalog, (name) => {
    const found = library.find('tool', name);
    return found.ok ? ok(found.output.id) : found;
  });
  const globs = grants.flatMap(({ capability, scope }) =>
    capability === 'tool.execute' ? [scope?.id ?? '**'] : [],
  );
  const named = library
    .all()
    .filter((item) => item.kind === 'tool' && globs.some((glob) => matchGlob(glob, item.id)));
  return named.slice(0, MAX_TOOLS).map(({ id, signature: { state: signature } }): JsonObject => {
    const chain = library.chain(id);
    if (!chain.ok) return { id, signature, unavailable: chain.error.detail.message };
    const { effect = 'write', risk = [] } = chain.output.links[0]?.tool ?? {};
    return { id, signature, effect, risk: [...risk], ...reachOf(chain.output.links) };
  });
}

const identityOf = ({ kind, id, version, source, signature }: Item): JsonObject => ({
  item_type: kind,
  item_id: id,
  version,
  source,
  signature: { ...signature },
});

function explainDirective(item: DirectiveItem, runtime: Runtime): Outcome<Json> {
  const { directive } = item;
  if (!directive)
    return fail('invalid_item', `directive \`${item.id}\` has errors; see \`km check\``);
  const { can_spawn_thread, missing } = canSpawn(directive);
  const limits = limitsOf(directive, runtime);
  if (!limits.ok) return limits;
  return ok({
    ...identityOf(item),
    can_spawn_thread,
    missing,
    model: (directive.model ?? null) as Json,
    limits: limits.output,
    permissions: effectiveGrants(directive, runtime),
    tools: toolsOf(directive, runtime),
    hooks: directive.hooks.map(({ when, directive: name }) => ({ when, directive: name })),
    guards: guardsOf(directive, runtime.policies().policy),
    rules: rulesOf(runtime.policies().policy),
  });
}

const SURFACES = ['cli', 'mcp', 'library'];

async function explainTool(id: string, runtime: Runtime): Promise<Outcome<Json>> {
  const found = runtime.library.find('tool', id);
  if (!found.ok) return found;
  const item = found.output;
  const chain = runtime.library.chain(item.id);
  if (!chain.ok) return chain;
  const { catalog } = runtime.library.capabilities();
  const requires = requiredBy(chain.output.links.flatMap(({ tool }) => tool ?? []));
  const { effect = 'write', risk = [], labels = [], sandbox = 'workspace' } = item.tool ?? {};
  const { policy } = runtime.policies();
  const surfaces: JsonObject = {};
  for (const surface of SURFACES) {
    const verifier = createCeilingVerifier(policy.ceilings(surface), catalog);
    const refused = [
      ...(policy.effects(surface).includes(effect) ? [] : [`effect ${effect}`]),
      ...requires.filter((name) => !verifier.holds(name).ok),
    ];
    surfaces[surface] = refused.length === 0 ? 'may call it' : `refused: ${refused.join(', ')}`;
  }
  return ok({
    ...identityOf(item),
    chain: [...chain.output.links.map((link) => link.id), chain.output.primitive],
    requires,
    effect,
    risk,
    labels,
    sandbox,
    ...reachOf(chain.output.links),
    surfaces,
  });
}

async function explain(kind: string, id: string, runtime: Runtime): Promise<Outcome<Json>> {
  if (kind === 'tool') return await explainTool(id, runtime);
  if (kind !== 'directive')
    return fail('usage', `explain knows \`directive\` and \`tool\`, not \`${kind}\``);
  const found = runtime.library.find('directive', id);
  return found.ok ? explainDirective(found.output, runtime) : found;
}

/** Shown below the outline, each in its own way. */
const PARTS = ['limits', 'permissions', 'guards', 'rules', 'items', 'policies', 'tools'];

/** Nested values as an indented outline: names left, values right. */
function outline(value: Json, terminal: Terminal): void {
  if (!isObject(value)) return terminal.out(valueText(value));
  for (const [name, part] of Object.entries(value)) {
    if (PARTS.includes(name)) continue;
    if (part === null || (Array.isArray(part) && part.length === 0)) continue;
    const words = isObject(part)
      ? Object.entries(part).map(([key, inner]) => `${key}: ${valueText(inner)}`)
      : [part].flat().map(valueText);
    terminal.out(`${terminal.paint('dim', name.padEnd(17))} ${words.join(', ')}`);
  }
}

function showLimits(limits: Json, terminal: Terminal): void {
  terminal.out(terminal.paint('bold', 'limits'));
  for (const [name, limit] of Object.entries(isObject(limits) ? limits : {})) {
    const from = terminal.paint('dim', plainText(getOwn(limit, 'from')));
    const value = valueText(getOwn(limit, 'value') ?? null).padEnd(10);
    terminal.out(`  ${name.padEnd(15)} ${value} ${from}`);
  }
}

function showGrants(permissions: Json, terminal: Terminal): void {
  const granted = getOwn(permissions, 'granted');
  terminal.out(terminal.paint('bold', 'may'));
  for (const grant of Array.isArray(granted) ? granted : []) {
    const held = getOwn(grant, 'scope') ?? null;
    const scope = isObject(held) ? Object.entries(held) : [];
    const shown = scope.map(([field, glob]) => `${field} ${valueText(glob)}`).join(', ');
    terminal.out(`  ${valueText(getOwn(grant, 'capability') ?? '').padEnd(15)} ${shown}`);
    for (const cap of listAt(grant, 'capped')) {
      const much = getOwn(cap, 'extent') === 'whole' ? 'but not at all' : 'but in part';
      const why = `the ${textAt(cap, 'from')} policy ${textAt(cap, 'message')}`;
      terminal.out(terminal.paint('red', `    ${much}: ${visible(why)}`));
    }
  }
  if (Array.isArray(granted) && granted.length === 0) terminal.out('  nothing');
}

const listAt = (value: Json, name: string): readonly Json[] => {
  const list = getOwn(value, name);
  return Array.isArray(list) ? list : [];
};

function showGuards(explained: Json, terminal: Terminal): void {
  const guards = listAt(explained, 'guards');
  if (guards.length > 0) terminal.out(terminal.paint('bold', 'guards'));
  for (const guard of guards) {
    const [name, on, when, verdict] = ['name', 'on', 'when', 'verdict'].map((field) =>
      textAt(guard, field),
    );
    const condition = when === '' ? '' : ` when ${when}`;
    const from = terminal.paint('dim', textAt(guard, 'from'));
    terminal.out(`  ${visible(`${name || '-'}  ${on}${condition}: ${verdict}`)}  ${from}`);
  }
  const rules = listAt(explained, 'rules');
  if (rules.length > 0) terminal.out(terminal.paint('bold', 'rules'));
  for (const rule of rules) {
    const from = terminal.paint('dim', textAt(rule, 'from'));
    terminal.out(`  ${textAt(rule, 'name').padEnd(26)} ${textAt(rule, 'state').padEnd(5)} ${from}`);
  }
}

/** What ran: each file by its hash, and whether it says the same today. */
function showRan(explained: Json, terminal: Terminal): void {
  for (const [part, title] of [
    ['items', 'ran'],
    ['policies', 'under'],
  ] as const) {
    const files = listAt(explained, part);
    if (files.length > 0) terminal.out(terminal.paint('bold', title));
    for (const file of files) {
      const what = textAt(file, part === 'items' ? 'id' : 'level').padEnd(15);
      const hash = textAt(file, 'sha256').slice(0, 16);
      const sign = textAt(file, 'signature') || (getOwn(file, 'signed') === true ? 'signed' : '');
      const key = textAt(file, 'key');
      const now = textAt(file, 'now');
      const changed = now === '' || now === 'same' ? '' : terminal.paint('yellow', `now ${now}`);
      const words = [
        what,
        textAt(file, 'file'),
        hash && `sha256 ${hash}`,
        sign,
        key && `key ${key}`,
      ];
      const line = visible(words.filter(Boolean).join('  '));
      terminal.out(`  ${line}${changed === '' ? '' : `  ${changed}`}`);
    }
  }
}

function showTools(explained: Json, terminal: Terminal): void {
  const tools = listAt(explained, 'tools');
  if (tools.length > 0) terminal.out(terminal.paint('bold', 'with'));
  for (const tool of tools) {
    const parts = ['hosts', 'env', 'modules'].flatMap((name) => {
      const list = listAt(tool, name).map(valueText);
      return list.length > 0 ? [`${name} ${list.join(', ')}`] : [];
    });
    const words = [textAt(tool, 'effect'), textAt(tool, 'signature'), ...parts].join('; ');
    terminal.out(
      `  ${visible(textAt(tool, 'id')).padEnd(24)} ${terminal.paint('dim', visible(words))}`,
    );
  }
}

export const run = inProject(async (runtime, { args, options, terminal }) => {
  const thread = asText(options.thread);
  const [kind, id] = [asText(args[0]), asText(args[1])];
  if (thread !== undefined && kind !== undefined) {
    return fail('usage', '`--thread` stands instead of a kind and an id');
  }
  if (thread === undefined && (kind === undefined || id === undefined)) {
    return fail('usage', 'explain what? `km explain directive NAME`, or `--thread ID`');
  }
  const explained =
    thread === undefined
      ? await explain(kind ?? '', id ?? '', runtime)
      : await explainThread(runtime, thread);
  return terminal.finish(explained, (output) => {
    const [limits, permissions] = [getOwn(output, 'limits'), getOwn(output, 'permissions')];
    outline(output, terminal);
    showRan(output, terminal);
    if (limits) showLimits(limits, terminal);
    if (permissions) showGrants(permissions, terminal);
    showTools(output, terminal);
    showGuards(output, terminal);
  });
});
