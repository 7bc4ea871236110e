// Reports the rights of an item with the source of each rule, as one JSON value. `explain` prints it, and the
// page shows it.
import {
  fail,
  getOwn,
  type Json,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
  textAt,
} from '../base/index.ts';
import { directiveLimits, packLimits } from '../harness/index.ts';
import {
  canSpawn,
  type Directive,
  type DirectiveItem,
  type Item,
  requiredBy,
  type ToolItem,
} from '../items/index.ts';
import type { Runtime } from '../runtime/index.ts';
import {
  capsOn,
  createCeilingVerifier,
  type Grant,
  grantName,
  grantsFromPermissions,
} from '../trust/index.ts';
import { DOORS } from './health-report.ts';

/** Returns the limits of a run, each with its value and its source. */
function limitsOf(directive: Directive, runtime: Runtime): Outcome<JsonObject> {
  const { limits } = runtime.policies().policy;
  const effective = directiveLimits(runtime.library, limits, directive);
  if (!effective.ok) return effective;
  const { spend_currency: _, context_warn: __, ...limitRows } = packLimits(effective.output);
  return ok(limitRows);
}

type Policies = ReturnType<Runtime['policies']>['policy'];

const originOf = ({ level, file = '' }: Policies['levels'][number]): JsonObject => ({
  from: level,
  file,
});

/** Returns all guards of the directive and of every policy, because a run evaluates all of them. */
function guardsOf(directive: Directive, { levels }: Policies): JsonObject[] {
  const row = ({ name = '', on, timing, when = '', verdict }: Directive['guards'][number]) => ({
    name,
    on,
    timing,
    when,
    verdict: verdict.kind,
    ...(verdict.text !== undefined && { text: verdict.text }),
  });
  return [
    ...directive.guards.map((guard) => ({ ...row(guard), from: 'directive' })),
    ...levels.flatMap((policy) =>
      (policy.guards ?? []).map((guard) => ({ ...row(guard), ...originOf(policy) })),
    ),
  ];
}

/** Returns the named rules that are on or that a level turned off, each with its levels. */
function rulesOf({ levels, rules }: Policies): JsonObject[] {
  return [...rules].flatMap(([name, state]) => {
    const says = levels.filter(
      (policy) => getOwn(policy.rules, name) !== undefined || policy.packs?.includes(name),
    );
    const from = says.map(({ level }) => level).join(', ') || 'built in';
    return state === 'off' && says.length === 0 ? [] : [{ name, state, from }];
  });
}

/** Returns the declared grants, each with the limits that policies set on it. */
function effectiveGrants(directive: Directive, runtime: Runtime): JsonObject {
  const { catalog } = runtime.library.capabilities();
  const permissions = directive.permissions ?? { entries: [] };
  const { grants, uses, problems } = grantsFromPermissions(permissions, catalog, (name) => {
    const result = runtime.library.find('tool', name);
    return result.ok ? ok(result.output.id) : result;
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
      const counted = uses[scope?.id ?? ''];
      const times = counted === undefined ? {} : { uses: counted };
      return { name: grantName(grant), capability, scope: { ...scope }, ...times, ...capped };
    }),
    problems: problems.map(({ code, message }) => ({ code, message })),
  };
}

/** Maximum number of listed tools. */
const MAX_TOOLS = 50;

/** Returns the hosts, environment variables and modules that a chain of tools uses. */
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

/** Returns the tools in the permissions of a directive, each with its effect and its reach. */
function toolsOf(directive: Directive, { library }: Runtime): JsonObject[] {
  const { catalog } = library.capabilities();
  const permissions = directive.permissions ?? { entries: [] };
  const { grants } = grantsFromPermissions(permissions, catalog, (name) => {
    const result = library.find('tool', name);
    return result.ok ? ok(result.output.id) : result;
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

function explainDirective(item: DirectiveItem, runtime: Runtime): Outcome<JsonObject> {
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

async function explainTool(id: string, runtime: Runtime): Promise<Outcome<JsonObject>> {
  const result = runtime.library.find('tool', id);
  if (!result.ok) return result;
  const item = result.output;
  const chain = runtime.library.chain(item.id);
  if (!chain.ok) return chain;
  const { catalog } = runtime.library.capabilities();
  const requires = requiredBy(chain.output.links.flatMap(({ tool }) => tool ?? []));
  const { effect = 'write', risk = [], labels = [], sandbox = 'workspace' } = item.tool ?? {};
  const { policy } = runtime.policies();
  const surfaces: JsonObject = {};
  for (const surface of DOORS) {
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

/** Explains a directive or a tool. Fails with `usage` for other kinds, because they have no rights. */
export async function explainItem(
  runtime: Runtime,
  kind: string,
  id: string,
): Promise<Outcome<JsonObject>> {
  if (kind === 'tool') return await explainTool(id, runtime);
  if (kind !== 'directive')
    return fail('usage', `\`explain\` supports \`directive\` and \`tool\`, not \`${kind}\``);
  const result = runtime.library.find('directive', id);
  return result.ok ? explainDirective(result.output, runtime) : result;
}
