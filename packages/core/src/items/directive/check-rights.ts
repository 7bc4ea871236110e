// Checks a directive's permissions against the tools that it names and the level of its file.
import { type Diagnostic, didYouMean, matchGlob, type Outcome, ok } from '../../base/index.ts';
import {
  type CapabilityCatalog,
  describeNeed,
  type Grant,
  grantsAllow,
  grantsFromPermissions,
  isSystemGrant,
  type Need,
  normalizeCapability,
  type Permission,
  type Permissions,
} from '../../trust/index.ts';
import type { Directive, DirectiveWorld, NamedTool } from './directive.ts';
import { type Findings, type Form, quoted } from './findings.ts';
import { grantLine } from './permissions.ts';

const KERNEL = ['kernmantle', 'kiwi-mcp', 'kernel'];
const REPORTED = ['permission_invalid', 'glob_invalid', 'attribute_unknown', 'attribute_syntax'];

const isAbsolute = (path: string): boolean => /^(?:[/\\~]|[A-Za-z]:[\\/])/.test(path);
const isPattern = (id: string): boolean => /[*?]/.test(id);

/** True for `search` and `help`, which need no permission. */
const isOpenToAll = ({ verb, resource, action }: Permission): boolean =>
  verb === 'execute' && KERNEL.includes(resource) && (action === 'search' || action === 'help');

const isToolEntry = ({ verb, resource, id }: Permission): boolean =>
  verb === 'execute' && resource === 'tool' && id !== undefined;

const placeOf = ({ line = 1, column = 1 }: Permission) => ({ line, column });

/** Returns why an item of this level may not have that right. Undefined if it may. */
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

/** Checks each entry alone, so that a problem points at its line. Returns the grants of all entries. */
function checkEntries(
  permissions: Permissions,
  world: DirectiveWorld,
  findings: Findings,
  isReported: (permission: Permission) => boolean,
): Grant[] {
  const resolve = (bare: string): Outcome<string> => {
    const tool = world.tool(bare);
    return tool.ok ? ok(tool.output.id) : tool;
  };
  const { entries: _, ...rest } = permissions;
  const grantList = [
    ...grantsFromPermissions({ entries: [], ...rest }, world.catalog, resolve).grants,
  ];
  const wrong = new Set<Permission>();
  for (const permission of permissions.entries) {
    if (isReported(permission)) {
      // The intended grant is clear, so tools that need it are not reported.
      const { verb, resource } = permission;
      if (resource === 'filesystem') {
        grantList.push({ capability: verb === 'execute' ? 'fs.exec' : `fs.${verb}` });
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
          : 'remove the line, or call a tool of the bundle instead';
      const message = `${reason}, which ${world.source} items may not have`;
      findings.error('system_only', place, message, hint);
    }
    for (const { permission: at, code, message, hint } of problems) {
      wrong.add(at);
      if (at !== permission || reason !== undefined) continue;
      // A connector may generate the tool later. Until then the line grants nothing.
      const isMissingTool = code === 'not_found' && isToolEntry(permission);
      if (isMissingTool) findings.warning('tool_unknown', place, message, hint);
      else findings.error(code, place, message, hint);
    }
    if (reason === undefined) checkToolId(permission, world, findings);
    grantList.push(...grants);
  }
  // Entries that are valid alone can conflict with each other.
  const whole = grantsFromPermissions(permissions, world.catalog, resolve);
  for (const { permission, code, message } of whole.problems) {
    const isChecked = wrong.has(permission) || isReported(permission) || isOpenToAll(permission);
    const isSkipped = isChecked || permission.line === undefined;
    if (!isSkipped) findings.error(code, placeOf(permission), message);
  }
  return grantList;
}

/**
 * True for the tools of every MCP server, also of servers that the user adds later. It means what the servers do.
 * The connectors, which it matches too, need a right of their own.
 */
const isAnyServer = ({ id = '' }: Permission): boolean => id.startsWith('mcp/*');

/** Warns about an id without a tool. A full id is granted as written, also if the tool does not exist. */
function checkToolId(permission: Permission, world: DirectiveWorld, findings: Findings): void {
  const { id = '' } = permission;
  if (!isToolEntry(permission)) return;
  if (isPattern(id)) {
    if (isAnyServer(permission) || toolsOf(permission, world).length > 0) return;
    const message = `no tool matches ${quoted(id)}, so this line grants nothing now`;
    return findings.warning('tool_unknown', placeOf(permission), message);
  }
  if (!id.includes('/') || world.tool(id).ok) return;
  const message = `tool ${quoted(id)} not found, so this line grants nothing now`;
  const hint = didYouMean(id, world.toolIds());
  findings.warning('tool_unknown', placeOf(permission), message, hint);
}

/** Returns the tools that an entry names by their id or by a pattern. */
function toolsOf({ id = '' }: Permission, world: DirectiveWorld): NamedTool[] {
  const find = (name: string) => {
    const tool = world.tool(name);
    return tool.ok ? [tool.output] : [];
  };
  if (!isPattern(id)) return find(id);
  const last = (full: string) => full.slice(full.lastIndexOf('/') + 1);
  return [...world.toolIds()]
    .filter((full) => matchGlob(id, id.includes('/') ? full : last(full)))
    .flatMap(find);
}

/** Returns the lines that grant these needs, or another remedy if no line can grant them. */
function remedy(needs: readonly Need[], form: Form, catalog: CapabilityCatalog): string {
  const names = [...new Set(needs.map(({ capability }) => capability))];
  const system = names.filter((capability) => catalog.isSystem(capability));
  if (system.length > 0) return `remove the tool: ${list(system)} cannot be granted here`;
  const lines = new Set(
    needs.flatMap(({ capability, scope }) => grantLine(capability, form, scope) ?? []),
  );
  const where = form === 'xml' ? '`<permissions>`' : '`permissions`';
  return lines.size === 0 ? 'remove the tool' : [`add to ${where}:`, ...lines].join('\n');
}

const listed = (names: readonly string[]): string => {
  const firstNames = names.slice(0, 3);
  const more = names.length - firstNames.length;
  return more > 0 ? `${firstNames.join(', ')} and ${more} more` : firstNames.join(' and ');
};
const list = (names: readonly string[]): string => listed(names.map((name) => `\`${name}\``));

/** Returns the needs of a tool that do not depend on a call. */
const needsOf = ({ requires, endpoint }: NamedTool): Need[] =>
  requires.map(normalizeCapability).map((capability) => {
    const isFixed = capability === 'net.http' && endpoint !== undefined;
    return isFixed ? { capability, scope: { ...endpoint } } : { capability };
  });

function checkTools(
  directive: Directive,
  grantList: readonly Grant[],
  world: DirectiveWorld,
  findings: Findings,
): void {
  const names = new Set(grantList.map(({ capability }) => capability));
  const holds = (capability: string): boolean =>
    [capability, ...world.catalog.impliedBy(capability)].some((name) => names.has(name)) ||
    (!world.catalog.isSystem(capability) &&
      [...names].some((name) => isPattern(name) && matchGlob(name, capability)));
  const isMet = (need: Need): boolean =>
    holds(need.capability) && (!need.scope || grantsAllow(grantList, need, world.catalog));
  const entries = directive.permissions?.entries ?? [];
  for (const permission of entries.filter(isToolEntry)) {
    const tools = toolsOf(permission, world).map((tool) => ({
      id: tool.id,
      lacking: needsOf(tool).filter(
        (need) => !isMet(need) && !(isAnyServer(permission) && need.capability === 'mcp.connect'),
      ),
    }));
    const lacking = tools.flatMap((tool) => tool.lacking);
    if (lacking.length === 0) continue;
    const ids = tools.filter((tool) => tool.lacking.length > 0).map(({ id }) => id);
    const names = new Set(lacking.map(describeNeed));
    const needs = `tool ${list(ids)} needs ${listed([...names])}`;
    const message = `${needs}, which this directive does not grant: such calls will be denied`;
    const hint = remedy(lacking, findings.words.form, world.catalog);
    findings.warning('tool_requires_missing', placeOf(permission), message, hint);
  }
}

export function checkRights(
  directive: Directive,
  world: DirectiveWorld,
  findings: Findings,
  reported: readonly Diagnostic[],
): void {
  const { permissions } = directive;
  if (!permissions) return;
  const lines = new Set(
    reported.filter(({ code }) => REPORTED.includes(code)).map(({ line }) => line),
  );
  const isReported = ({ line }: Permission): boolean => line !== undefined && lines.has(line);
  const grantList = checkEntries(permissions, world, findings, isReported);
  checkTools(directive, grantList, world, findings);
}
