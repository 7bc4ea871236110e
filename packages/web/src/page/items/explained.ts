// Reads the output of `explain --json`. The server can have another version, so a missing field or
// one of another type is skipped. It never causes an error.
import type { Data, DataObject } from '../../model/api.ts';

const isRecord = (data: Data | undefined): data is DataObject =>
  typeof data === 'object' && data !== null && !Array.isArray(data);

const at = (data: Data | undefined, name: string): Data | undefined =>
  isRecord(data) && Object.hasOwn(data, name) ? data[name] : undefined;

const listIn = (data: Data | undefined): readonly Data[] => (Array.isArray(data) ? data : []);
const recordsIn = (data: Data | undefined): readonly DataObject[] => listIn(data).filter(isRecord);

/** Text for people. Data that is not a text becomes JSON. */
export function dataWords(data: Data | undefined): string {
  if (data === undefined || data === null) return '';
  if (typeof data === 'string') return data;
  return typeof data === 'object' ? JSON.stringify(data) : String(data);
}
const wordAt = (data: Data | undefined, name: string): string => dataWords(at(data, name));
const wordsAt = (data: Data | undefined, name: string): readonly string[] =>
  listIn(at(data, name)).map(dataWords);

/** A value, its details and its origin. All three are untrusted text. */
export interface OriginLine {
  readonly name: string;
  readonly detail: string;
  readonly from: string;
}

const joined = (...parts: readonly string[]): string =>
  parts.filter((part) => part !== '').join(' · ');

const originAt = (data: DataObject): string => joined(wordAt(data, 'from'), wordAt(data, 'file'));

export interface ReachedTool {
  readonly id: string;
  readonly effect: string;
  readonly risk: readonly string[];
  readonly hosts: readonly string[];
  readonly env: readonly string[];
  readonly modules: readonly string[];
  readonly signature: string;
  readonly unavailable: string;
}

const toolIn = (data: DataObject, id: string): ReachedTool => ({
  id,
  effect: wordAt(data, 'effect'),
  risk: wordsAt(data, 'risk'),
  hosts: wordsAt(data, 'hosts'),
  env: wordsAt(data, 'env'),
  modules: wordsAt(data, 'modules'),
  signature: wordAt(data, 'signature'),
  unavailable: wordAt(data, 'unavailable'),
});

/** Describes the parts of a right that a policy removes, without the location of the policy. */
const capWords = (cap: DataObject): string =>
  Object.entries(cap)
    .filter(([name]) => name !== 'from' && name !== 'file')
    .map(([name, value]) => `${name} ${dataWords(value)}`)
    .join(', ');

/** Describes a right and its scope: `fs.read notes/**`. */
function grantWords(grant: DataObject): string {
  const name = wordAt(grant, 'name') || wordAt(grant, 'capability');
  const scope = at(grant, 'scope');
  const words = Object.values(isRecord(scope) ? scope : {}).map(dataWords);
  return [name, ...words.filter((word) => word !== '' && !name.includes(word))].join(' ');
}

interface ExplainedItem {
  readonly grants: readonly OriginLine[];
  readonly ceilings: readonly OriginLine[];
  readonly problems: readonly OriginLine[];
  readonly limits: readonly OriginLine[];
  readonly hooks: readonly OriginLine[];
  readonly guards: readonly OriginLine[];
  readonly rules: readonly OriginLine[];
  readonly tools: readonly ReachedTool[];
  readonly model: string;
  /** Only for a tool: its chain, its required rights, and its allowed callers. */
  readonly chain: readonly string[];
  readonly requires: readonly string[];
  readonly sandbox: string;
  readonly surfaces: readonly OriginLine[];
}

export function readExplained(explained: DataObject | undefined): ExplainedItem {
  const permissions = at(explained, 'permissions');
  const granted = recordsIn(at(permissions, 'granted'));
  const limits = at(explained, 'limits');
  const surfaces = at(explained, 'surfaces');
  const model = at(explained, 'model');
  return {
    grants: granted.map((grant) => ({
      name: grantWords(grant),
      detail: '',
      from: originAt(grant),
    })),
    ceilings: granted.flatMap((grant) =>
      recordsIn(at(grant, 'capped')).map((cap) => ({
        name: grantWords(grant),
        detail: capWords(cap),
        from: originAt(cap),
      })),
    ),
    problems: recordsIn(at(permissions, 'problems')).map((problem) => ({
      name: wordAt(problem, 'code'),
      detail: wordAt(problem, 'message'),
      from: '',
    })),
    limits: Object.entries(isRecord(limits) ? limits : {}).map(([name, limit]) => ({
      name,
      detail: wordAt(limit, 'value'),
      from: wordAt(limit, 'from'),
    })),
    hooks: recordsIn(at(explained, 'hooks')).map((hook) => ({
      name: wordAt(hook, 'when'),
      detail: `→ ${wordAt(hook, 'directive')}`,
      from: originAt(hook),
    })),
    guards: recordsIn(at(explained, 'guards')).map((guard) => ({
      name: wordAt(guard, 'name') || wordAt(guard, 'on'),
      detail: joined(
        wordAt(guard, 'verdict'),
        `${wordAt(guard, 'timing')} ${wordAt(guard, 'on')}`.trim(),
        wordAt(guard, 'when'),
        wordAt(guard, 'text'),
      ),
      from: originAt(guard),
    })),
    rules: recordsIn(at(explained, 'rules')).map((rule) => ({
      name: wordAt(rule, 'name'),
      detail: wordAt(rule, 'state'),
      from: wordAt(rule, 'from'),
    })),
    tools: recordsIn(at(explained, 'tools')).map((tool) => toolIn(tool, wordAt(tool, 'id'))),
    model: isRecord(model) ? joined(...Object.values(model).map(dataWords)) : dataWords(model),
    chain: wordsAt(explained, 'chain'),
    requires: wordsAt(explained, 'requires'),
    sandbox: wordAt(explained, 'sandbox'),
    surfaces: Object.entries(isRecord(surfaces) ? surfaces : {}).map(([name, says]) => ({
      name,
      detail: dataWords(says),
      from: '',
    })),
  };
}

/** Describes a tool in the form of the tools that a directive reaches. */
export const ownReach = (explained: DataObject | undefined): ReachedTool =>
  toolIn(explained ?? {}, wordAt(explained, 'item_id'));
