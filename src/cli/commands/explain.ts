import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import { directiveLimits, packLimits } from '../../harness/index.ts';
import { canSpawn, type Directive, type DirectiveItem } from '../../items/index.ts';
import type { Runtime } from '../../runtime/index.ts';
import {
  createCeilingVerifier,
  type Grant,
  grantName,
  grantsFromPermissions,
} from '../../trust/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';

// What an item may do and where each rule comes from, as one JSON value that `explain` prints.

/** Each limit with its value and who set it, as a run would have it. */
function limitsOf(directive: Directive, runtime: Runtime): Outcome<JsonObject> {
  const { limits } = runtime.policies().policy;
  const effective = directiveLimits(runtime.library, limits, directive);
  if (!effective.ok) return effective;
  const { spend_currency: _, context_warn: __, ...shown } = packLimits(effective.output);
  return ok(shown);
}

function grantLine(grant: Grant, refusal: string | undefined): JsonObject {
  return {
    name: grantName(grant),
    capability: grant.capability,
    scope: { ...grant.scope },
    ...(refusal === undefined ? {} : { capped: refusal }),
  };
}

/** Declared grants, and what the policies leave of each name. */
function effectiveGrants(directive: Directive, runtime: Runtime): JsonObject {
  const { catalog } = runtime.library.capabilities();
  const permissions = directive.permissions ?? { entries: [] };
  const { grants, problems } = grantsFromPermissions(permissions, catalog, (name) => {
    const found = runtime.library.find('tool', name);
    return found.ok ? ok(found.output.id) : found;
  });
  const ceiling = createCeilingVerifier(runtime.policies().policy.ceilings(), catalog);
  return {
    granted: grants.map((grant) => {
      const held = ceiling.holds(grant.capability);
      return grantLine(grant, held.ok ? undefined : held.error.detail.message);
    }),
    problems: problems.map(({ code, message }) => ({ code, message })),
  };
}

function explainDirective(item: DirectiveItem, runtime: Runtime): Outcome<Json> {
  const { directive } = item;
  if (!directive)
    return fail('invalid_item', `directive \`${item.id}\` has errors; see \`km check\``);
  const { can_spawn_thread, missing } = canSpawn(directive);
  const limits = limitsOf(directive, runtime);
  if (!limits.ok) return limits;
  return ok({
    item_type: 'directive',
    item_id: item.id,
    version: directive.version,
    source: item.source,
    signature: { ...item.signature },
    can_spawn_thread,
    missing,
    model: (directive.model ?? null) as Json,
    limits: limits.output,
    permissions: effectiveGrants(directive, runtime),
    hooks: directive.hooks.map(({ when, directive: name }) => ({ when, directive: name })),
    guards: directive.guards.length,
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
  const requires = [...new Set(chain.output.links.flatMap(({ tool }) => tool?.requires ?? []))];
  const surfaces: JsonObject = {};
  for (const surface of SURFACES) {
    const verifier = createCeilingVerifier(runtime.policies().policy.ceilings(surface), catalog);
    const effect = item.tool?.effect ?? 'write';
    const refused = [
      ...(runtime.policies().policy.effects(surface).includes(effect) ? [] : [`effect ${effect}`]),
      ...requires.filter((name) => !verifier.holds(name).ok),
    ];
    surfaces[surface] = refused.length === 0 ? 'may call it' : `refused: ${refused.join(', ')}`;
  }
  return ok({
    item_type: 'tool',
    item_id: item.id,
    version: item.version,
    source: item.source,
    signature: { ...item.signature },
    chain: [...chain.output.links.map((link) => link.id), chain.output.primitive],
    requires,
    effect: item.tool?.effect ?? 'write',
    risk: [...(item.tool?.risk ?? [])],
    labels: [...(item.tool?.labels ?? [])],
    sandbox: item.tool?.sandbox ?? 'workspace',
    env: chain.output.links.flatMap(({ tool }) => tool?.env ?? []),
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

const plain = (value: Json): string =>
  visible(typeof value === 'string' ? value : JSON.stringify(value));

/** Nested values as an indented outline: names left, values right. */
function outline(value: Json, terminal: Terminal, indent = ''): void {
  if (!isObject(value)) return terminal.out(`${indent}${plain(value)}`);
  for (const [name, part] of Object.entries(value)) {
    if (name === 'limits' || name === 'permissions') continue;
    if (part === null || (Array.isArray(part) && part.length === 0)) continue;
    const label = terminal.paint('dim', name.padEnd(17));
    if (isObject(part)) {
      terminal.out(
        `${indent}${label} ${Object.entries(part)
          .map(([key, inner]) => `${key}: ${plain(inner)}`)
          .join(', ')}`,
      );
    } else
      terminal.out(
        `${indent}${label} ${Array.isArray(part) ? part.map(plain).join(', ') : plain(part)}`,
      );
  }
}

function showLimits(limits: Json, terminal: Terminal): void {
  terminal.out(terminal.paint('bold', 'limits'));
  for (const [name, limit] of Object.entries(isObject(limits) ? limits : {})) {
    const from = terminal.paint('dim', plainText(getOwn(limit, 'from')));
    terminal.out(
      `  ${name.padEnd(15)} ${plain(getOwn(limit, 'value') ?? null).padEnd(10)} ${from}`,
    );
  }
}

function showGrants(permissions: Json, terminal: Terminal): void {
  const granted = getOwn(permissions, 'granted');
  terminal.out(terminal.paint('bold', 'may'));
  for (const grant of Array.isArray(granted) ? granted : []) {
    const held = getOwn(grant, 'scope') ?? null;
    const scope = isObject(held) ? Object.entries(held) : [];
    const shown = scope.map(([field, glob]) => `${field} ${plain(glob)}`).join(', ');
    const capped = getOwn(grant, 'capped');
    const note = capped ? terminal.paint('red', `  but ${plain(capped)}`) : '';
    terminal.out(`  ${plain(getOwn(grant, 'capability') ?? '').padEnd(15)} ${shown}${note}`);
  }
  if (Array.isArray(granted) && granted.length === 0) terminal.out('  nothing');
}

export const run: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { args, terminal } = call;
    const explained = await explain(asText(args[0]) ?? '', asText(args[1]) ?? '', runtime);
    return terminal.finish(explained, (output) => {
      outline(output, terminal);
      if (getOwn(output, 'limits')) showLimits(getOwn(output, 'limits') ?? null, terminal);
      if (getOwn(output, 'permissions'))
        showGrants(getOwn(output, 'permissions') ?? null, terminal);
    });
  });
