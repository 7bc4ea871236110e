// Decides whether and how a child is confined, and which rights its start needs. Without a working
// sandbox the start is refused, unless an authorised policy allows it.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { PrimitiveCall, Verifier } from '../primitive.ts';
import type { SandboxReport } from './plan.ts';

export interface SandboxPolicy {
  sandbox: SandboxReport;
  /** The composed setting. `none` in a file that may not set it does not count. */
  policySandbox: 'none' | 'required';
}

export type SandboxMode = 'strict' | 'workspace' | 'none';
type Tool = PrimitiveCall['tool'];

const INSTALL: Readonly<Record<string, string>> = {
  linux:
    'install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`) or util-linux; where user namespaces are restricted, allow them for it',
  darwin: '`/usr/bin/sandbox-exec` is part of macOS; check that it was not removed',
};

const NO_SANDBOX = 'this system has no supported sandbox; use Linux, macOS or WSL 2';

/**
 * Returns the sandbox mode of a tool. Bundle tools have no exception, because a command such as git runs
 * code that a project configures.
 */
export function decideSandbox(tool: Tool, policy: SandboxPolicy): Outcome<SandboxMode> {
  const mayGoWithout = policy.policySandbox === 'none';
  if (tool.sandbox === 'none' && !mayGoWithout) {
    return fail(
      'permission_denied',
      `tool \`${tool.id}\` declares \`sandbox: none\`, which the policy does not allow; set \`sandbox: none\` in the user-level policy, or \`sandbox: workspace\` on the tool`,
      { missing: '', rule: 'sandbox', attempted: tool.id },
    );
  }
  if (policy.sandbox.kind !== 'none') return ok(tool.sandbox);
  if (mayGoWithout) return ok('none');
  const reason = policy.sandbox.reason ?? 'no sandbox was found';
  const hint = INSTALL[process.platform] ?? NO_SANDBOX;
  return fail(
    'sandbox_missing',
    `tool \`${tool.id}\` starts a process, but no sandbox works here: ${reason}; ${hint}, or set \`sandbox: none\` in the user-level policy`,
    { attempted: tool.id, reason },
  );
}

const NETWORK = /^(net\.|git\.push$)/;

/** Network is all or nothing in a sandbox: on only for a tool that declares it. */
export const needsNetwork = (tool: Tool, mode: SandboxMode): boolean =>
  mode !== 'strict' && tool.requires.some((capability) => NETWORK.test(capability));

/**
 * Checks the right to all of the network. A process with network reaches every host, so a right to one
 * host is not enough.
 */
function verifyNetwork(capability: string, verify: Verifier, unguessable: string): Outcome<null> {
  const allowed = verify({ capability, scope: { host: `${unguessable}.invalid`, method: 'ANY' } });
  if (allowed.ok) return allowed;
  const isMissing = allowed.error.detail.missing !== '';
  return fail(
    'permission_denied',
    `a process cannot be restricted to single hosts, so it needs \`${capability}\` for every host and method; use \`http/request\` for a narrower right`,
    { ...allowed.error.detail, ...(isMissing && { missing: capability, scope: { host: '**' } }) },
  );
}

/** Capabilities that depend on the path. The mounts enforce them. */
const BY_MOUNT = new Set(['fs.read', 'fs.write', 'fs.exec']);

/**
 * Checks every right that the start itself needs. `startsFile` is the program, if it is a file of the project.
 */
export function verifyStart(
  call: Pick<PrimitiveCall, 'tool' | 'verify'>,
  mode: SandboxMode,
  startsFile: string | undefined,
  unguessable: string,
): Outcome<null> {
  const { tool, verify } = call;
  const needed = new Set(tool.requires);
  // An unconfined process can do anything, whatever the tool declares.
  if (mode === 'none' && tool.source !== 'bundle') needed.add('process.spawn');
  for (const capability of needed) {
    if (BY_MOUNT.has(capability)) continue;
    const allowed = capability.startsWith('net.')
      ? verifyNetwork(capability, verify, unguessable)
      : verify({
          capability,
          ...(capability === 'tool.execute' ? { scope: { id: tool.id } } : {}),
        });
    if (!allowed.ok) return allowed;
  }
  return startsFile === undefined
    ? ok(null)
    : verify({ capability: 'fs.exec', scope: { path: startsFile } });
}
