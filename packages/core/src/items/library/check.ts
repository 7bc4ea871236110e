// Checks a library without running anything: each file alone, items together, data files and policies.
import {
  compact,
  type Diagnostic,
  getOwn,
  isObject,
  type Json,
  lastSegment,
  type Outcome,
  ok,
  openYaml,
  textAt,
  textsAt,
} from '../../base/index.ts';
import {
  type KnownNames,
  labelsGivenBy,
  lintGuards,
  lintPolicy,
  type PolicyPlace,
  parsePolicy,
  readPolicyFile,
} from '../../flow/index.ts';
import { readCatalogSettings } from '../data/catalog-settings.ts';
import type { DataFile } from '../data/data-files.ts';
import { DATA_NAMES, type DataName } from '../data/data-shapes.ts';
import { readProjectFile } from '../data/project-file.ts';
import { checkDirective } from '../directive/check.ts';
import type { Directive, DirectiveWorld, NamedTool } from '../directive/directive.ts';
import { parseDirective } from '../directive/parse.ts';
import { aboutFile, readItemFile } from '../files/item-file.ts';
import type { Root, RootFiles } from '../files/root.ts';
import type { DirectiveItem, Item, ItemOf } from '../item.ts';
import { type ItemKind, SOURCES, type Source } from '../item-kinds.ts';
import { checkKnowledge } from '../knowledge.ts';
import { signatureProblems, type TrustPort } from '../signature.ts';
import { blankSignatureLine } from '../signature-line.ts';
import type { Tool } from '../tool/tool.ts';
import { checkCollisions, checkExposedDirective } from './check-expose.ts';

import { allParameters, checkTool, looseTool, nameShipped, type ToolWorld } from './check-tool.ts';
import { groupExposed } from './exposed.ts';
import type { FileRecord } from './record.ts';
import { examinePolicy } from './sign.ts';
import { requiredBy } from './tool-chain.ts';
import { unreadFolders } from './unread-folders.ts';

export interface CheckOptions {
  /** Checks only items and files of these levels. Absent: all levels. */
  sources?: readonly Source[];
}

export type FileKind = ItemKind | 'policy';

interface CheckedLibrary extends ToolWorld {
  find<K extends ItemKind>(kind: K, id: string): Outcome<ItemOf<K>>;
  all<K extends ItemKind>(kind: K): readonly ItemOf<K>[];
  config(name: DataName): DataFile;
  roots(): readonly Root[];
}

interface CheckContext {
  library: CheckedLibrary;
  records: Iterable<FileRecord>;
  behind: (record: FileRecord) => readonly FileRecord[];
  opened: readonly Pick<RootFiles, 'root' | 'diagnostics'>[];
  trust: TrustPort;
  /** Paths of policies. Absent: the policies are in the roots of the items. */
  policies?: readonly PolicyPlace[] | undefined;
}

const TIERS = ['fast', 'balanced', 'general', 'reasoning', 'expert', 'orchestrator'];
/** Levels of policies whose names are sources of items. The operator's level has no folder of items. */
const POLICY_LEVELS = ['project', 'user', 'bundle'] as const;

const keysOf = (value: unknown): string[] => (isObject(value) ? Object.keys(value) : []);

/** Returns the directive of an item, also one with errors, so that other items can be checked against it. */
function readable(item: DirectiveItem): Directive | undefined {
  return item.directive ?? parseDirective(item.body, item.file).draft;
}

/** Returns the host and method of requests if no caller can change the host. Empty for a host with a placeholder. */
function endpointOf(tools: readonly Tool[]): Pick<NamedTool, 'endpoint'> {
  const fieldText = (name: string): string =>
    tools.map(({ config }) => textAt(config, name)).find((text) => text !== '') ?? '';
  const [url, method] = [URL.parse(fieldText('url')), fieldText('method') || 'GET'];
  if (!url || url.hostname === '' || /[{}$%]/.test(url.hostname)) return {};
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return { endpoint: { host, ...(/^\w+$/.test(method) && { method: method.toUpperCase() }) } };
}

function directiveWorld(library: CheckedLibrary, source: Source): DirectiveWorld {
  const pricing = library.config('pricing').value;
  const tiers = keysOf(getOwn(library.config('models').value, 'tiers'));
  return {
    directive(name) {
      const item = library.find('directive', name);
      return item.ok ? readable(item.output) : undefined;
    },
    ambiguous(name) {
      const item = library.find('directive', name);
      const isAmbiguous = !item.ok && item.error.code === 'ambiguous';
      return isAmbiguous ? item.error.detail.message : undefined;
    },
    tool(id) {
      const item = library.find('tool', id);
      if (!item.ok) return item;
      const chain = library.chainOf(item.output);
      const links = chain.ok ? chain.output.links : [item.output];
      const tools = links.flatMap(({ tool }) => tool ?? []);
      return ok({ id: item.output.id, requires: requiredBy(tools), ...endpointOf(tools) });
    },
    directiveNames: () => library.all('directive').map(({ id }) => lastSegment(id)),
    toolIds: () => library.all('tool').map(({ id }) => id),
    catalog: library.capabilities().catalog,
    source,
    signedCore: source === 'bundle',
    currencies: [textAt(pricing, 'currency') || 'USD', ...keysOf(getOwn(pricing, 'rates'))],
    tiers: tiers.length > 0 ? tiers : TIERS,
    models: modelNames(library),
  };
}

/** Reports two files of one root with the same id, because the choice between them is arbitrary. */
function duplicates(record: FileRecord, behind: readonly FileRecord[]): Diagnostic[] {
  return behind
    .filter(({ root }) => root === record.root)
    .map(({ file }) => {
      const message = `\`${record.id}\` is also \`${record.path}\`, which is used instead of this file`;
      return aboutFile(file, 'duplicate_id', message, { severity: 'warning' });
    });
}

/**
 * Returns the names that policies and guards may use: tools, models, and labels of tools, policies and
 * guards. A script can add any label, so each of its words counts as one.
 */
function knownNames(library: CheckedLibrary): KnownNames {
  const scripts = library.all('directive').map(({ directive }) => directive?.process.script?.text);
  const tools = library.all('tool').flatMap((item) => {
    const chain = library.chainOf(item);
    const links = chain.ok ? chain.output.links.flatMap(({ tool }) => tool ?? []) : [];
    scripts.push(...links.map(({ config }) => textAt(config, 'script')));
    const parameters = links.flatMap(allParameters);
    return item.tool ? [{ id: item.id, risk: item.tool.risk, parameters }] : [];
  });
  const policies = policiesIn(library.roots()).flatMap(
    (place) => readPolicyFile(place, unsigned)?.policy ?? [],
  );
  const directives = library.all('directive').flatMap(({ directive }) => directive ?? []);
  const labels = [
    ...library.all('tool').flatMap(({ tool }) => tool?.labels ?? []),
    ...policies.flatMap(labelsGivenBy),
    ...directives.flatMap(({ guards }) => labelsGivenBy({ guards: [...guards] })),
  ];
  const words = scripts.flatMap((script) => script?.match(/[\w:-]+/g) ?? []);
  return { tools, labels: [...labels, ...words], models: modelNames(library) };
}

/** Returns the ids of models in the data files: in prices with their aliases, providers and tiers. */
function modelNames(library: Pick<CheckedLibrary, 'config'>): string[] {
  const [models, pricing] = [library.config('models').value, library.config('pricing').value];
  const rows = (value: Json, name: string): [string, Json][] => {
    const table = getOwn(value, name);
    return isObject(table) ? Object.entries(table) : [];
  };
  const named = [...rows(pricing, 'models'), ...rows(models, 'models')];
  return [
    ...named.flatMap(([id, row]) => [id, ...textsAt(row, 'aliases')]),
    ...rows(models, 'tiers').flatMap(([, tier]) => [
      textAt(tier, 'model'),
      textAt(tier, 'fallback'),
    ]),
  ].filter((id) => id !== '');
}

/** Checks the guards of a directive. Most directives have none, so `names` is called on demand. */
const checkGuards = (
  directive: Pick<Directive, 'guards'> | undefined,
  names: () => KnownNames,
): Diagnostic[] =>
  directive && directive.guards.length > 0 ? lintGuards(directive.guards, names()) : [];

/** Returns the paths of policies in these roots. */
const policiesIn = (roots: readonly Root[]): PolicyPlace[] =>
  roots.flatMap(({ dir, source }) => {
    const level = POLICY_LEVELS.find((name) => name === source);
    return level ? [{ level, file: `${dir}/policy.yaml` }] : [];
  });

const unsigned = (text: string) => ({ covered: blankSignatureLine(text), signed: false });

/** Checks policies, as they would be in force, against the names of existing tools, models and labels. */
function checkPolicies(
  context: CheckContext,
  sources: readonly Source[],
  names: () => KnownNames,
): Diagnostic[] {
  const { library, trust, policies = policiesIn(library.roots()) } = context;
  const { catalog } = library.capabilities();
  // Users see findings about an operator's policy too, because it applies to them.
  const isChosen = ({ level }: PolicyPlace): boolean =>
    sources.includes(level === 'operator' ? 'user' : level);
  const readAt = (place: PolicyPlace) =>
    readPolicyFile(place, (text, file) => examinePolicy(text, file, trust), catalog);
  const bundle = policies.find(({ level }) => level === 'bundle');
  const shipped = (bundle && readAt(bundle))?.policy.surfaces;
  return policies.filter(isChosen).flatMap((place) => {
    const read = readAt(place);
    if (!read) return [];
    const { policy, diagnostics, locate } = read;
    const among = locate
      ? lintPolicy(policy, { ...names(), ...(shipped && { shipped }) }, locate)
      : [];
    return [...diagnostics, ...among];
  });
}

/** Fields of a provider that only the user sets: where keys are sent, and code that runs in this process. */
const USER_FIELDS = ['base_url', 'package', 'create', 'options', 'hosts', 'body'];

/** Reports such fields in a project's file. They have no effect there, and nothing of them is loaded. */
const projectEndpoints = ({ layers }: DataFile): Diagnostic[] =>
  layers.flatMap(({ source, value, file }) => {
    const providers = source === 'project' ? getOwn(value, 'providers') : undefined;
    const named = keysOf(providers).flatMap((name) =>
      USER_FIELDS.filter((field) => getOwn(getOwn(providers, name), field) !== undefined).map(
        (field) => ({ name, field }),
      ),
    );
    if (named.length === 0) return [];
    const read = readItemFile(file);
    const { place, diagnostics } = openYaml('text' in read ? read.text : '', file);
    for (const { name, field } of named) {
      const what = field === 'base_url' ? 'the address' : `\`${field}\``;
      place
        .child('providers')
        .child(name)
        .child(field)
        .report({
          code: field === 'base_url' ? 'base_url_refused' : 'provider_field_refused',
          message: `a project cannot set ${what} of provider \`${name}\`, so this has no effect`,
          hint: 'write the provider into your own `config/models.yaml`, in the user folder',
          at: 'key',
        });
    }
    return diagnostics;
  });

function checkData(library: CheckedLibrary, sources: readonly Source[]): Diagnostic[] {
  const files = DATA_NAMES.map((name) => library.config(name));
  const layers = files.flatMap((file) => file.layers);
  const chosen = new Set(
    layers.filter(({ source }) => sources.includes(source)).map(({ file }) => file),
  );
  return [
    ...files.flatMap((file) => file.diagnostics),
    ...projectEndpoints(library.config('models')),
    ...library.capabilities().diagnostics,
  ].filter(({ file }) => chosen.has(file));
}

const allItems = (library: CheckedLibrary): Item[] => [
  ...library.all('directive'),
  ...library.all('tool'),
  ...library.all('knowledge'),
];

export function checkLibrary(context: CheckContext, options: CheckOptions): Diagnostic[] {
  const { library } = context;
  const sources = options.sources ?? SOURCES;
  const worlds = new Map<Source, DirectiveWorld>();
  let names: KnownNames | undefined;
  const cachedNames = (): KnownNames => (names ??= knownNames(library));
  let groups: ReturnType<typeof groupExposed> | undefined;
  const exposed = () => (groups ??= groupExposed(allItems(library)));
  const worldOf = (source: Source): DirectiveWorld => {
    const world = worlds.get(source) ?? directiveWorld(library, source);
    worlds.set(source, world);
    return world;
  };

  function checkRecord(record: FileRecord): Diagnostic[] {
    const { item } = record;
    const own: Diagnostic[] = [];
    if (item.kind === 'tool') {
      const among = checkTool(item, record.text(), library);
      own.push(...nameShipped(item, [...item.diagnostics, ...among]));
    } else own.push(...item.diagnostics);
    own.push(...signatureProblems(item.signature, record.file));
    if (item.kind === 'directive') {
      const parsed = { draft: readable(item), diagnostics: [...item.diagnostics] };
      own.push(...checkDirective(compact(parsed), worldOf(item.source)));
      own.push(...checkGuards(parsed.draft, cachedNames));
      own.push(...checkExposedDirective(parsed.draft, item.file));
    }
    own.push(...checkCollisions(item, exposed));
    own.push(...duplicates(record, context.behind(record)));
    return own.sort((a, b) => a.line - b.line || a.column - b.column);
  }

  const chosen = [...context.records].filter(({ root }) => sources.includes(root.source));
  chosen.sort((a, b) => (a.file < b.file ? -1 : 1));
  return [
    ...context.opened
      .filter(({ root }) => sources.includes(root.source))
      .flatMap(({ diagnostics }) => diagnostics()),
    ...chosen.flatMap(checkRecord),
    ...checkData(library, sources),
    ...checkPolicies(context, sources, cachedNames),
    ...library
      .roots()
      .filter(({ source }) => sources.includes(source) && source !== 'installed')
      .flatMap(({ dir, source }) => [
        ...readCatalogSettings(dir).diagnostics,
        ...(source === 'project' ? readProjectFile(dir).diagnostics : []),
        ...unreadFolders({ dir }),
      ]),
  ];
}

/** Returns the findings about a text at that path. With a library, its items are considered too. */
export function checkText(
  kind: FileKind,
  text: string,
  file: string,
  library?: CheckedLibrary,
): Diagnostic[] {
  const cachedNames = (): KnownNames => (library ? knownNames(library) : { tools: [], labels: [] });
  if (kind === 'policy') {
    const catalog = library?.capabilities().catalog;
    const covered = blankSignatureLine(text);
    const { policy, diagnostics, locate } = parsePolicy(covered, file, 'project', catalog);
    const among = policy && library ? lintPolicy(policy, cachedNames(), locate) : [];
    return [...diagnostics, ...among];
  }
  if (kind === 'knowledge') return checkKnowledge(text, file);
  if (kind === 'directive') {
    const parsed = parseDirective(text, file);
    if (!library) return parsed.diagnostics;
    const among = checkDirective(parsed, directiveWorld(library, 'project'));
    const more = checkExposedDirective(parsed.draft, file);
    return [...parsed.diagnostics, ...among, ...checkGuards(parsed.draft, cachedNames), ...more];
  }
  const item = looseTool(text, file);
  const among = library ? checkTool(item, text, library) : [];
  return nameShipped(item, [...item.diagnostics, ...among]);
}
