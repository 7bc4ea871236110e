// Reads the policy files of all levels. They are read again after 20 ms, so that a tightened rule applies
// soon in every running process. A file that is unreadable or has a mistake closes everything, because
// the readable half might be the half that allows.
import { hash } from 'node:crypto';
import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  type Clock,
  createFreshness,
  type Diagnostic,
  errnoOf,
  hasErrors,
  isMissing,
  readRegularFile,
} from '../../base/index.ts';
import type { CapabilityCatalog } from '../../trust/index.ts';
import type { LabelRule } from '../frame.ts';
import { folderLabel } from '../values/file-labels.ts';
import { type ComposedPolicy, composePolicies } from './compose.ts';
import { closedPolicy, type Policy, type PolicyLevel, shownPolicyFile } from './policy.ts';
import { parsePolicy } from './read-policy.ts';

export interface PolicyPlace {
  level: PolicyLevel;
  file: string;
  /** True if a setting named the file. If it is missing, nothing is allowed, as with an unreadable file. */
  isRequired?: boolean;
  /** Text of the policy. Absent: the file has it. */
  text?: string;
}

export interface PolicyState {
  policy: ComposedPolicy;
  diagnostics: readonly Diagnostic[];
}

interface CapabilitySource {
  capabilities(): { catalog: CapabilityCatalog };
}

export type PolicyFiles = ReturnType<typeof createPolicyFiles>;

export interface ExaminedPolicy {
  /** The part of the text that a signature covers. Only this part is parsed. */
  covered: string;
  signed: boolean;
  /** Problems of an invalid signature: the file is read, but settings that open something do not count. */
  diagnostics?: readonly Diagnostic[];
}

type ExaminePolicy = (text: string, file: string) => ExaminedPolicy;

interface ReadPolicy {
  policy: Policy;
  diagnostics: readonly Diagnostic[];
  /** Returns the location of a setting for findings. Absent: the file could not be read. */
  locate?: ReturnType<typeof parsePolicy>['locate'];
}

const MAX_BYTES = 1024 * 1024;

/** Returns the identity of the file's content as the file system reports it. Empty if there is no file. */
function stampOf(file: string): string {
  try {
    // Most levels have no file, and an exception would be expensive.
    const there = statSync(file, { throwIfNoEntry: false });
    return there ? `${there.ino}:${there.size}:${there.mtimeMs}:${there.ctimeMs}` : '';
  } catch (error) {
    const code = errnoOf(error);
    return isMissing(code) ? '' : `unreadable:${code}`;
  }
}

function broken({ level, file }: PolicyPlace, message: string): ReadPolicy {
  const problem = { file, line: 1, column: 1, code: 'policy_unreadable', message } as const;
  const diagnostics: Diagnostic[] = [{ ...problem, severity: 'error' }];
  return { policy: closedPolicy(level, file, diagnostics), diagnostics };
}

/** Returns the policy of one level as it would be in force. Undefined if there is none. */
export function readPolicyFile(
  place: PolicyPlace,
  examine: ExaminePolicy,
  catalog?: CapabilityCatalog,
): ReadPolicy | undefined {
  const { level, file } = place;
  const read =
    place.text === undefined
      ? readRegularFile(file, { max: MAX_BYTES, followsLinks: true })
      : { bytes: Buffer.from(place.text) };
  if ('problem' in read) {
    const { errno, message } = read.problem;
    const hasNoFile = isMissing(errno);
    if (hasNoFile && place.isRequired) return broken(place, 'file not found');
    return hasNoFile ? undefined : broken(place, message);
  }
  const text = read.bytes.toString('utf8');
  const { covered, signed, diagnostics: signatureProblems = [] } = examine(text, file);
  const { policy, diagnostics: own, locate } = parsePolicy(covered, file, level, catalog);
  const diagnostics = [...signatureProblems, ...own];
  const sha256 = hash('sha256', read.bytes);
  if (!policy || hasErrors(own)) {
    return { policy: { ...closedPolicy(level, file, own), sha256 }, diagnostics };
  }
  if (policy.trusted && level === 'project' && !signed) {
    diagnostics.push({
      file,
      ...locate(['trusted']),
      code: 'trust_not_signed',
      severity: 'warning',
      message: '`trusted` has no effect in a project policy without a valid signature',
      hint: 'sign the policy file, or set it in your user policy',
    });
  }
  return { policy: { ...policy, signed, sha256 }, diagnostics, locate };
}

/**
 * Returns the labels of files below the named folder. A person may write the folder relative or
 * absolute, through links, or with a final `/`; labels have one form.
 */
function formsOf(root: string, label: string): string[] {
  const written = folderLabel(root, label);
  if (written === label && !label.startsWith('dir:')) return [label];
  try {
    const real = realpathSync.native(resolve(root, label.slice('dir:'.length)));
    return [...new Set([written, folderLabel(root, `dir:${real}`)])];
  } catch {
    return [written];
  }
}

const bothRules = (one: LabelRule, other: LabelRule): LabelRule => ({
  deny: [...(one.deny ?? []), ...(other.deny ?? [])],
  ask: [...(one.ask ?? []), ...(other.ask ?? [])],
  allow: [...(one.allow ?? []), ...(other.allow ?? [])],
});

function withFolders(policy: Policy, root: string): Policy {
  const { level, labels, guards } = policy;
  const rules: Record<string, LabelRule> = {};
  for (const [label, rule] of Object.entries(labels ?? {})) {
    for (const form of formsOf(root, label)) {
      const before = Object.hasOwn(rules, form) ? rules[form] : undefined;
      rules[form] = before ? bothRules(before, rule) : rule;
    }
  }
  return {
    ...policy,
    ...(labels && { labels: rules }),
    ...(guards && {
      guards: guards.map(({ when, file, ...guard }) => ({
        ...guard,
        // Refusals show the file name, also to models.
        ...(file !== undefined && { file: shownPolicyFile(level, file) }),
        on: formsOf(root, guard.on).at(-1) ?? guard.on,
        ...(when === undefined ? {} : { when: when.replaceAll(`dir:${root}/`, 'dir:') }),
      })),
    }),
  };
}

/** Reads the policy files. `examine` is called again whenever a file has changed. */
export function createPolicyFiles(
  places: readonly PolicyPlace[],
  examine: ExaminePolicy,
  clock: Pick<Clock, 'monotonic'>,
  root: string,
) {
  let library: CapabilitySource | undefined;
  let cached: { stamp: string; catalog: unknown; state: PolicyState } | undefined;
  const freshness = createFreshness(clock);
  return {
    places,
    /**
     * Checks capability names with a library, which is created after the policies. Its catalog is the
     * same object until it changes.
     */
    checkCapabilities(source: CapabilitySource): void {
      library = source;
    },
    current(): PolicyState {
      if (cached && freshness.isRecent()) return cached.state;
      freshness.begin();
      let stamp = '';
      for (const { file } of places) stamp += `${stampOf(file)}\n`;
      const catalog = library?.capabilities().catalog;
      if (cached?.stamp === stamp && cached.catalog === catalog) return cached.state;
      const read = places.flatMap((place) => readPolicyFile(place, examine, catalog) ?? []);
      const state = {
        policy: composePolicies(read.map(({ policy }) => withFolders(policy, root))),
        diagnostics: read.flatMap(({ diagnostics }) => diagnostics),
      };
      cached = { stamp, catalog, state };
      return state;
    },
  };
}
