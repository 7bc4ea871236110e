// Maps one line of a directive's `<permissions>` to grants. A line with any invalid part grants nothing
// and is reported, because its author could rely on an attribute that would otherwise be ignored.
import type { Outcome } from '../../base/index.ts';
import { type CapabilityCatalog, normalizeCapability } from './capability-catalog.ts';
import { type Grant, grantProblem, type Scope } from './grant.ts';

export interface Permission {
  verb: 'read' | 'write' | 'execute';
  resource: string;
  path?: string;
  id?: string;
  action?: string;
  host?: string;
  method?: string;
  /** Maximum number of calls of a tool, in the thread and its descendants. */
  uses?: string;
  line?: number;
  column?: number;
}

/** Fields of a line besides its verb, in the order in which they are written. */
export const PERMISSION_FIELDS = [
  'resource',
  'path',
  'id',
  'action',
  'host',
  'method',
  'uses',
] as const;
type Attribute = (typeof PERMISSION_FIELDS)[number];

/** Grants, the right to orchestrate, or the reason why the entry is invalid. */
type Mapped = Grant[] | 'orchestration' | { code?: string; message: string; hint?: string };

export interface PermissionWorld {
  catalog: CapabilityCatalog;
  resolveToolId: (bare: string) => Outcome<string>;
  projectRoot: string | undefined;
}

type Mapper = (permission: Permission, world: PermissionWorld) => Mapped;

/**
 * Returns a problem for attributes that this resource does not have, because ignoring one would grant too much.
 */
function stray(permission: Permission, attributes: readonly Attribute[]): Mapped | undefined {
  const isStray = (name: Attribute) => permission[name] !== undefined && !attributes.includes(name);
  const extra = PERMISSION_FIELDS.find((name) => name !== 'resource' && isStray(name));
  if (extra === undefined) return undefined;
  return { message: `a permission for \`${permission.resource}\` takes no \`${extra}\`` };
}

const cleanPath = (path: string): string => path.replace(/^(\.\/)+/, '');

const filesystem: Mapper = (permission) => {
  const { verb, path } = permission;
  const capability = verb === 'execute' ? 'fs.exec' : `fs.${verb}`;
  if (path === undefined || path === '') {
    const hint = `<${verb} resource="filesystem" path="src/**"/>`;
    return { message: 'a filesystem permission needs a `path`', hint };
  }
  if (path.endsWith('/')) {
    return {
      message: `path \`${path}\` ends in \`/\``,
      hint: `path="${path}**" covers the folder`,
    };
  }
  return stray(permission, ['path']) ?? [{ capability, scope: { path: cleanPath(path) } }];
};

const IS_COUNT = /^[1-9]\d{0,5}$/;

/** Returns why calls of this tool cannot be limited. Undefined if they can, or if there is no limit. */
function usesProblem({ id = '', uses }: Permission): string | undefined {
  if (uses === undefined) return undefined;
  if (!IS_COUNT.test(uses)) return `\`uses="${uses}"\` must be a whole number from 1 to 999999`;
  return /[*?]/.test(id) ? `\`uses\` counts one tool, and \`${id}\` names many` : undefined;
}

const tool: Mapper = (permission, world) => {
  const { verb, id, action } = permission;
  if (id === undefined && action !== undefined && action !== 'execute') {
    return capability(permission, world);
  }
  if (verb !== 'execute' || id === undefined || id === '') {
    const hint = '<execute resource="tool" id="shell/bash"/>';
    return { message: 'a tool permission needs `execute` and an `id`', hint };
  }
  const attributes = ['id', 'uses'] as const;
  const extra = stray(permission, action === 'execute' ? [...attributes, 'action'] : attributes);
  if (extra) return extra;
  const uncounted = usesProblem(permission);
  if (uncounted !== undefined) {
    return { message: uncounted, hint: '<execute resource="tool" id="fs/delete_file" uses="1"/>' };
  }
  if (/[*?/]/.test(id)) return [{ capability: 'tool.execute', scope: { id } }];
  // Resolved once, so that a later tool with the same last name is not granted too.
  const full = world.resolveToolId(id);
  return full.ok
    ? [{ capability: 'tool.execute', scope: { id: full.output } }]
    : { code: full.error.code, message: full.error.detail.message };
};

const shell: Mapper = (permission) =>
  permission.verb === 'execute'
    ? (stray(permission, []) ?? [{ capability: 'process.spawn' }])
    : { message: '`shell` can only be executed', hint: '<execute resource="shell"/>' };

const spawn: Mapper = (permission) =>
  permission.verb === 'execute' && permission.action === 'thread'
    ? (stray(permission, ['action']) ?? 'orchestration')
    : {
        message: '`spawn` has only the action `thread`',
        hint: '<execute resource="spawn" action="thread"/>',
      };

const net: Mapper = (permission, world) => {
  const { host, method, ...rest } = permission;
  const grants = capability(rest, world);
  if (!Array.isArray(grants)) return grants;
  const methods = method === undefined ? [undefined] : method.split(/[\s,]+/).filter(Boolean);
  if (methods.length === 0) return { message: '`method` is empty' };
  return grants.flatMap((grant) =>
    methods.map((name) => {
      const scope: Scope = {
        ...(host !== undefined && { host: host.toLowerCase() }),
        ...(name !== undefined && { method: name.toUpperCase() }),
      };
      return Object.keys(scope).length === 0 ? grant : { ...grant, scope };
    }),
  );
};

const thread: Mapper = (permission, world) => {
  const { id = 'own', ...rest } = permission;
  const grants = capability(rest, world);
  return Array.isArray(grants)
    ? grants.map((grant) => ({ ...grant, scope: { subtree: id } }))
    : grants;
};

/** Returns the absolute path of another project for the token. `../other` is relative to the project's root. */
function otherProject(path: string, root: string | undefined): string | undefined {
  if (path.startsWith('/')) return path;
  const up = /^(\.\.\/)+/.exec(path)?.[0];
  if (up === undefined || root === undefined || !root.startsWith('/') || /[*?]/.test(root)) {
    return undefined;
  }
  const above = root.split('/').slice(0, -(up.length / 3));
  return above.length === 0 ? undefined : [...above, path.slice(up.length)].join('/');
}

const project: Mapper = (permission, world) => {
  const { path, ...rest } = permission;
  const grants = capability(rest, world);
  if (!Array.isArray(grants)) return grants;
  const absolute = path === undefined ? undefined : otherProject(path, world.projectRoot);
  if (absolute === undefined) {
    const hint = '<execute resource="project" action="use" path="../other"/>';
    return { message: 'a project permission needs a `path` that leads out of the project', hint };
  }
  return grants.map((grant) => ({ ...grant, scope: { path: absolute } }));
};

const mcp: Mapper = ({ id, ...rest }, world) =>
  capability(id === undefined ? rest : { ...rest, resource: `mcp.${id}` }, world);

/** Maps every other resource to `<resource>.<action>`. For `read` and `write` the verb is the action. */
function capability(permission: Permission, world: PermissionWorld): Mapped {
  const { verb, action } = permission;
  const extra = stray(permission, verb === 'execute' ? ['action'] : []);
  if (extra) return extra;
  const area = ['kernmantle', 'kiwi-mcp'].includes(permission.resource)
    ? 'kernel'
    : permission.resource;
  const name = verb === 'execute' ? action : verb;
  if (name === undefined || name === '') {
    return { message: `a permission for \`${permission.resource}\` needs an \`action\`` };
  }
  if (name === '*') return everyAction(area, world.catalog);
  return [{ capability: normalizeCapability(`${area}.${name}`) }];
}

/** Maps `action="*"` to the declared capabilities that are not system-only, by name. */
function everyAction(area: string, catalog: CapabilityCatalog): Mapped {
  const server = /^mcp\.([^.]+)$/.exec(area)?.[1] ?? '*';
  const names = catalog
    .names()
    .filter((name) => !catalog.isSystem(name))
    .map((name) => name.replace(/<[^>]+>/, server))
    .filter((name) => name.startsWith(`${area}.`));
  return names.length > 0
    ? names.map((name) => ({ capability: name }))
    : { code: 'capability_unknown', message: `capabilities of \`${area}\` not found` };
}

/** Scopes of memory. A right without a scope would reach rows that its author did not think of. */
const MEMORY_SCOPES: ReadonlySet<string | undefined> = new Set(['project', 'directive', 'user']);

const memory: Mapper = (permission, world) => {
  const { id, ...rest } = permission;
  if (rest.verb === 'execute') return capability(permission, world);
  if (!MEMORY_SCOPES.has(id) || id === undefined) {
    const hint = `<${rest.verb} resource="memory" id="project"/>`;
    return { message: 'a memory permission needs the `id` project, directive or user', hint };
  }
  const grants = capability(rest, world);
  return Array.isArray(grants) ? grants.map((grant) => ({ ...grant, scope: { id } })) : grants;
};

const RESOURCES: ReadonlyMap<string, Mapper> = new Map(
  Object.entries({ filesystem, tool, shell, spawn, net, thread, project, mcp, memory }),
);

/** Returns the grants of an entry, which are all valid in a token, or the reason why the entry is invalid. */
export function mapPermission(permission: Permission, world: PermissionWorld): Mapped {
  const mapper = RESOURCES.get(permission.resource) ?? capability;
  const mapped = mapper(permission, world);
  if (!Array.isArray(mapped)) return mapped;
  for (const grant of mapped) {
    const problem = grantProblem(grant, world.catalog);
    const isUnknown = !grant.capability.includes('*') && !world.catalog.get(grant.capability);
    if (problem !== undefined) {
      return { code: isUnknown ? 'capability_unknown' : 'permission_invalid', message: problem };
    }
  }
  return mapped;
}
