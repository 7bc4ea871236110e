// A directive's permissions against the tools it names and the place it lies in.
import { type Diagnostic, matchGlob, type Outcome, ok } from '../../base/index.ts';
import {
  type CapabilityCatalog,
  type Grant,
  grantsFromPermissions,
  isSystemGrant,
  normalizeCapability,
  type Permission,
  type Permissions,
} from '../../trust/index.ts';
import type { Directive, DirectiveWorld } from './directive.ts';
import type { Findings, Form } from './findings.ts';
import { grantLine } from './permissions.ts';

const KERNEL = ['kernmantle', 'kiwi-mcp', 'kernel'];
const REPORTED = ['permission_invalid', 'glob_invalid', 'attribute_unknown', 'attribute_syntax'];

const isAbsolute = (path: string): boolean => /^(?:[/\\~]|[A-Za-z]:[\\/])/.test(path);
const isPattern = (id: string): boolean => /[*?]/.test(id);

/** `search` and `help` are open to everybody, so there is nothing to grant. */
const isOpenToAll = ({ verb, resource, action }: Permission): boolean =>
  verb === 'execute' && KERNEL.includes(resource) && (action === 'search' || action === 'help');

const isToolEntry = ({ verb, resource, id }: Permission): boolean =>
  verb === 'execute' && resource === 'tool' && id !== undefined;

const placeOf = ({ line = 1, column = 1 }: Permission) => ({ line, column });

/** Why an item of this place may not have that right; undefined when it may. */
function systemOnly(
  permission: Permission,
  grants: readonly Grant[],
  world: DirectiveWorld,
): string | undefined {
  if (world.signedCore) return undefined;
  const { resource, path } = permission;
  if (resource === 'filesystem' && path !== undefined && isAbsolute(path)) {
    return `path \`${path}\` leads out of the project`;
  }
  const system = grants.find((grant) => isSystemGrant(grant, world.catalog));
  return system && `\`${system.capability}\` is for signed core items only`;
}

/** Judges each entry on its own, so that a problem points at its line. */
function checkEntries(
  permissions: Permissions,
  world: DirectiveWorld,
  findings: Findings,
  isReported: (permission: Permission) => boolean,
): Grant[] {
  const resolve = (bare: string): Outcome<string> => {
    const found = world.tool(bare);
    return found.ok ? ok(found.output.id) : found;
  };
  const { entries: _, ...rest } = permissions;
  const held = [...grantsFromPermissions({ entries: [], ...rest }, world.catalog, resolve).grants];
  for (const permission of permissions.entries) {
    if (isReported(permission)) {
      // What it was meant to grant is clear enough not to ask for it a second time.
      const { verb, resource } = permission;
      if (resource === 'filesystem') {
        held.push({ capability: verb === 'execute' ? 'fs.exec' : `fs.${verb}` });
      }
      continue;
    }
    const place = placeOf(permission);
    if (isOpenToAll(permission)) {
      const message = `\`${permission.action}\` needs no permission`;
      findings.note('permission_unneeded', place, message, 'the line can be removed');
      continue;
    }
    const { orchestration } = rest;
    const { grants, problems } = grantsFromPermissions(
      { entries: [permission], ...(orchestration ? { orchestration } : {}) },
      world.catalog,
      resolve,
    );
    const reason = systemOnly(permission, grants, world);
    if (reason !== undefined) {
      const hint =
        permission.resource === 'filesystem'
          ? 'use a path relative to the project, e.g. `path="src/**"`'
          : 'remove the line, or call a tool of the bundle that does this for you';
      const message = `${reason}, which ${world.source} items may not have`;
      findings.error('system_only', place, message, hint);
    }
    for (const { permission: at, code, message, hint } of problems) {
      if (at !== permission || reason !== undefined) continue;
      // A tool may be generated later, by a connector; until then the line grants nothing.
      const isMissingTool = code === 'not_found' && isToolEntry(permission);
      if (isMissingTool) findings.warning('tool_unknown', place, message, hint);
      else findings.error(code, place, message, hint);
    }
    held.push(...grants);
  }
  return held;
}

/** The tools that an entry names, by id or by pattern. */
function toolsOf(
  { id = '' }: Permission,
  world: DirectiveWorld,
): { id: string; requires: readonly string[] }[] {
  const find = (name: string) => {
    const found = world.tool(name);
    return found.ok ? [found.output] : [];
  };
  if (!isPattern(id)) return find(id);
  const last = (full: string) => full.slice(full.lastIndexOf('/') + 1);
  return [...world.toolIds()]
    .filter((full) => matchGlob(id, id.includes('/') ? full : last(full)))
    .flatMap(find);
}

/** The lines to add, or, for what no line grants, what else to do. */
function remedy(capabilities: readonly string[], form: Form, catalog: CapabilityCatalog): string {
  const system = capabilities.filter((capability) => catalog.isSystem(capability));
  if (system.length > 0) return `remove the tool: ${list(system)} cannot be granted here`;
  const lines = capabilities.flatMap((capability) => grantLine(capability, form) ?? []);
  const where = form === 'xml' ? '`<permissions>`' : '`permissions`';
  return lines.length === 0 ? 'remove the tool' : [`add to ${where}:`, ...lines].join('\n');
}

const list = (names: readonly string[]): string => {
  const shown = names.slice(0, 3).map((name) => `\`${name}\``);
  const more = names.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(' and ');
};

function checkTools(
  directive: Directive,
  held: readonly Grant[],
  world: DirectiveWorld,
  findings: Findings,
): void {
  const names = new Set(held.map(({ capability }) => capability));
  const holds = (capability: string): boolean =>
    [capability, ...world.catalog.impliedBy(capability)].some((name) => names.has(name)) ||
    (!world.catalog.isSystem(capability) &&
      [...names].some((name) => isPattern(name) && matchGlob(name, capability)));
  const entries = directive.permissions?.entries ?? [];
  for (const permission of entries.filter(isToolEntry)) {
    const [tools, lacking] = [new Set<string>(), new Set<string>()];
    for (const { id, requires } of toolsOf(permission, world)) {
      for (const capability of requires.map(normalizeCapability).filter((name) => !holds(name))) {
        tools.add(id);
        lacking.add(capability);
      }
    }
    if (lacking.size === 0) continue;
    const needs = `tool ${list([...tools])} needs ${list([...lacking])}`;
    const message = `${needs}, which this directive does not grant`;
    const hint = remedy([...lacking], findings.words.form, world.catalog);
    findings.error('tool_requires_missing', placeOf(permission), message, hint);
  }
}

export function checkRights(
  directive: Directive,
  world: DirectiveWorld,
  findings: Findings,
  known: readonly Diagnostic[],
): void {
  const { permissions } = directive;
  if (!permissions) return;
  const lines = new Set(
    known.filter(({ code }) => REPORTED.includes(code)).map(({ line }) => line),
  );
  const isReported = ({ line }: Permission): boolean => line !== undefined && lines.has(line);
  const held = checkEntries(permissions, world, findings, isReported);
  checkTools(directive, held, world, findings);
}
