// Creates refusals with the needed right, the present rights and the line that would grant the right.
import { type Failure, fail } from '../../base/index.ts';
import { grantName, type Need } from './grant.ts';
import { PERMISSION_FIELDS, type Permission } from './permission-map.ts';

const printable = (text: string): string => {
  const plain = text.replace(/[\u0000-\u001f\u007f-\u009f`]/g, '\ufffd');
  return plain.length > 200 ? `${plain.slice(0, 200)}…` : plain;
};

/** Returns the name that conditions use: `tool.bash`, `fs.write`. */
const needName = (need: Need): string => printable(grantName(need));

/** Returns the name and its target for messages. */
export function describeNeed(need: Need): string {
  const { path, host, method, subtree, id } = need.scope ?? {};
  const name = `\`${needName(need)}\``;
  if (path !== undefined) return `${name} on \`${printable(path)}\``;
  if (host !== undefined)
    return `${name} to \`${printable(host)}\`${method ? ` (${printable(method)})` : ''}`;
  if (id !== undefined) return `${name} (\`${printable(id)}\`)`;
  return subtree === 'any' ? `${name} on threads outside its own subtree` : name;
}

// Glob characters cannot be escaped, so `?` replaces each one, which is the narrowest possible glob.
const asGlob = (path: string): string => path.replace(/[{}[\]!]/g, '?');

/** Returns the permission that grants this need and little else. Undefined for system-only needs. */
export function permissionFor(need: Need): Permission | undefined {
  const { path = 'path/to/**', id = 'folder/tool', host, method } = need.scope ?? {};
  const verbs = { 'fs.read': 'read', 'fs.write': 'write', 'fs.exec': 'execute' } as const;
  const { capability } = need;
  if (capability === 'fs.read' || capability === 'fs.write' || capability === 'fs.exec') {
    return { verb: verbs[capability], resource: 'filesystem', path: asGlob(path) };
  }
  if (capability === 'tool.execute') return { verb: 'execute', resource: 'tool', id };
  if (capability === 'memory.read' || capability === 'memory.write') {
    const verb = capability === 'memory.read' ? 'read' : 'write';
    return { verb, resource: 'memory', id: need.scope?.id ?? 'project' };
  }
  if (capability === 'process.spawn') return { verb: 'execute', resource: 'shell' };
  const [, area, action] = /^(.+)\.([^.]+)$/.exec(capability) ?? [];
  if (area === undefined || action === undefined) return undefined;
  const resource = area === 'kernel' ? 'kernmantle' : area;
  return {
    verb: 'execute',
    resource,
    action,
    ...(capability === 'project.use' && { path: asGlob(path) }),
    ...(host !== undefined && { host }),
    ...(host !== undefined && method !== undefined && { method: method.toUpperCase() }),
  };
}

const escaped = (text: string): string =>
  text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;');

export function formatPermission(permission: Permission): string {
  const attributes = PERMISSION_FIELDS.flatMap((name) => {
    const value = permission[name];
    return value === undefined ? [] : [` ${name}="${escaped(value)}"`];
  });
  return `<${permission.verb}${attributes.join('')}/>`;
}

interface Denial {
  /** Needs that no directive of the chain grants, the first one first. Empty if `rule` refuses. */
  missing: readonly Need[];
  /** The rule that refuses: `policy`, or a list such as `directives.deny_categories`. Absent: a right is missing. */
  rule?: string;
  granted: readonly string[];
  /** The tool or operation of the call. Absent: the refusal describes the need instead. */
  attempted?: string;
  /** Reason and remedy in one sentence without a period. */
  message: string;
  /** The remedy without the rest of the message. Absent: no line in a directive would help. */
  remedy?: string;
}

/** Returns `permission_denied` with the fields that hooks match. */
export function denied({ missing, granted, attempted, message, rule, remedy }: Denial): Failure {
  const [first] = missing;
  return fail('permission_denied', message, {
    missing: first ? needName(first) : '',
    missing_all: [...new Set(missing.map(needName))],
    attempted: attempted ?? (first ? describeNeed(first).replaceAll('`', '') : ''),
    granted: [...granted],
    ...(first?.scope && { scope: { ...first.scope } }),
    ...(rule !== undefined && { rule }),
    ...(remedy !== undefined && { remedy }),
  });
}

/** Returns the fault of an invalid token. `detail.token` has the failed rule and never parts of the token. */
export const tokenRefused = (reason: string, message: string): Failure =>
  fail('permission_denied', `capability token refused: ${message}`, {
    token: reason,
    missing: '',
    missing_all: [],
    granted: [],
    attempted: '',
  });
