// Checks the names of a script without running it: unbound names, calls with a wrong number of arguments,
// and imports that a module does not export. A finding is an error if a run would fail there, and a warning
// if it would continue with undefined or with the unchanged text. A name that the script tests itself
// (`@x?`, `??`, `@exists(@x)`) gives no finding.
import { nearest } from '@kernmantle/core/base';
import { CONTEXT_VIEW, OPERATION_VIEW } from '@kernmantle/core/flow';
import {
  type Expression,
  type NodeOf,
  type PathStep,
  type Range,
  type ScriptTree,
  valuesOf,
  visit,
} from './ast.ts';
import {
  type Bound,
  bodyKindOf,
  camelCased,
  HELPER_BODIES,
  namesIn,
  staticText,
} from './outline.ts';

export interface NameFinding extends Range {
  readonly code:
    | ('name_unbound' | 'argument_missing' | 'argument_surplus')
    | ('exists_of_path' | 'exception_wide' | 'helper_kind' | 'label_removed')
    | ('filter_unknown' | 'module_missing' | 'texts_added');
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly hint?: string;
}

/** Names and modules that a script can use besides its own text. */
export interface Surroundings {
  readonly provided: ReadonlySet<string>;
  /** Inputs of a directive, or parameters of a tool. */
  readonly inputs: readonly string[];
  /** Returns the script that an import names; `undefined` if that is unknown before a run. */
  module(path: string): ScriptTree | undefined;
  /** Returns whether an import path exists; `undefined` if that is unknown before a run. */
  exists?(path: string): boolean | undefined;
  /** Returns the number of arguments of a built-in function; `undefined` for other names. */
  arity?(name: string): number | undefined;
  /** Returns the tools of a connector; `undefined` if they are unknown before a run. */
  tools?(connector: string): KnownTools | undefined;
}

/** Names of tools, or the reason why there are none. */
export type KnownTools =
  | { readonly names: readonly string[] }
  | { readonly message: string; readonly hint: string };

/**
 * The effect of an unbound name. `needed`: the run fails. `text`: the text stays unchanged. `open`: the value is
 * undefined. `asked`: there is none, because the script tests the name.
 */
type Use = 'needed' | 'text' | 'open' | 'asked';

interface NameContext {
  readonly use: Use;
  /** True in the rules of a guard or hook, where `@output` exists. */
  readonly isRule: boolean;
  /** True in the rules of a guard and in the functions that they call, where an unbound name denies. */
  readonly isJudging: boolean;
  /** Meaning of a bare name: itself, a call, a call with an input, or a call at the start of a pipeline. */
  readonly call: 'none' | 'plain' | 'stage' | 'front';
  /** Conditions that decide whether this code is reached. */
  readonly under: readonly Expression[];
}

type PendingNode = readonly [item: unknown, place: NameContext];
type Reads = (use: Use, ...items: unknown[]) => PendingNode[];

const TOP: NameContext = {
  use: 'needed',
  isRule: false,
  isJudging: false,
  call: 'none',
  under: [],
};
const ASKS = /^(?:exists|fileexists)$/i;

const inStep = (step: PathStep, isAsked: boolean, read: Reads): PendingNode[] => {
  if (step.kind === 'call') return read(isAsked ? 'asked' : 'needed', ...step.arguments);
  if (step.kind === 'index') return read('open', step.index);
  return step.kind === 'slice' ? read('open', step.from, step.to) : [];
};

const inStages = (
  source: Expression | undefined,
  stages: readonly unknown[],
  inner: NameContext,
): PendingNode[] => [
  [source, { ...inner, call: 'plain' }],
  ...stages.map((stage, at): PendingNode => {
    const call = at === 0 && source === undefined ? 'front' : 'stage';
    return [stage, { ...inner, call }];
  }),
];

/** The source of the pipeline after a loop. It gives no findings. */
const COLLECTED: Expression = { kind: 'literal', value: null, at: 0, end: 0 };

type Holder = NodeOf<
  | 'reference'
  | 'unary'
  | 'binary'
  | 'ternary'
  | 'array'
  | 'object'
  | 'template'
  | 'command'
  | 'code'
  | 'insert'
  | 'when'
  | 'arm'
  | 'if'
  | 'for'
  | 'foreach'
  | 'loop'
  | 'guard'
  | 'hook'
  | 'pipeline'
  | 'with'
  | 'run'
  | 'run-value'
  | 'call-stage'
  | 'while-stage'
  | 'group-stage'
>;
type Inside<K extends Holder['kind']> = (
  node: NodeOf<K>,
  read: Reads,
  inner: NameContext,
  place: NameContext,
) => PendingNode[];

const isNull = (item: Expression): boolean => item.kind === 'literal' && item.value === null;

const decided = (inner: NameContext, ...by: readonly Expression[]): NameContext =>
  by.length > 0 ? { ...inner, under: [...inner.under, ...by] } : inner;

const called: Inside<'run' | 'run-value'> = ({ action }, _read, inner) => [
  [action, { ...inner, call: 'plain' }],
];
const rule: Inside<'guard' | 'hook'> = (node, _read, inner) => [
  [Object.values(node), { ...inner, isRule: true, isJudging: node.kind === 'guard' }],
];

/** Returns the parts of a node with the way each is read. In other kinds of nodes every name is needed. */
const INSIDE: { readonly [K in Holder['kind']]: Inside<K> } = {
  reference: ({ steps, name }, read) =>
    steps.flatMap((step) => inStep(step, ASKS.test(name), read)),
  unary: ({ value }, read) => read('open', value),
  binary({ operator, left, right }, read) {
    const isEqual = /^(?:[!=]|!?~)=$/.test(operator);
    const asks = (other: Expression): Use => (isEqual && isNull(other) ? 'asked' : 'open');
    return [...read(operator === '??' ? 'asked' : asks(right), left), ...read(asks(left), right)];
  },
  ternary: (node, read) => read('open', node.condition, node.then, node.else),
  array: ({ items }, read) =>
    items.flatMap(({ isOptional, value }) => read(isOptional ? 'asked' : 'needed', value)),
  object: ({ entries }, read) =>
    entries.flatMap((entry) => {
      const isAsked = entry.kind === 'pair' && entry.isOptional;
      return read(isAsked ? 'asked' : 'needed', entry.value);
    }),
  template: ({ style, parts }, read) => read(style === 'mustache' ? 'asked' : 'text', parts),
  command: ({ lines, names, folder, using }, read) => [
    ...read('text', lines),
    ...read('open', names),
    ...read('needed', folder, using),
  ],
  code: ({ names, folder, using }, read) => [
    ...read('open', names),
    ...read('needed', folder, using),
  ],
  insert: ({ value, mode, stages }, read, _inner, { use }) => [
    ...read(mode.kind === 'plain' ? use : 'asked', value),
    ...read('needed', stages, mode.kind === 'default' ? mode.value : undefined),
    ...read(use, mode.kind === 'fragment' ? mode.parts : undefined),
  ],
  when: ({ subject, items }, read) => [...read('open', subject), ...read('needed', items)],
  arm({ condition, action }, read, inner) {
    const values = valuesOf(condition);
    return [...read('open', values), [action, decided(inner, ...values)]];
  },
  if: ({ condition, then, else: other }, read, inner) => [
    ...read('open', condition),
    [[then, other], decided(inner, condition)],
  ],
  for: ({ filter, parallel, collection, body, batch }, read, inner) => [
    ...read('open', filter),
    ...read('needed', parallel, collection, body),
    ...inStages(COLLECTED, batch ?? [], inner),
  ],
  foreach: ({ call, batch, options }, read, inner) => [
    ...read('needed', call, options),
    ...inStages(COLLECTED, batch ?? [], inner),
  ],
  loop: ({ until, limit, body }, read) => [...read('open', until), ...read('needed', limit, body)],
  guard: rule,
  hook: rule,
  pipeline: ({ source, stages }, _read, inner) => inStages(source, stages, inner),
  with: ({ value, options }, read, inner, { call }) => [
    // In the option `guards`, the names of guards are texts.
    ...[...options.entries].flatMap(([key, entry]) =>
      key === 'guards' && entry.kind !== 'reference' ? [] : read('needed', entry),
    ),
    ...inStages(value, options.pipeline ?? [], inner).map(([item, place]): PendingNode => {
      const isBare = item === value && options.pipeline === undefined;
      return [item, isBare ? { ...place, call } : place];
    }),
  ],
  run: called,
  'run-value': called,
  'call-stage': ({ target }, _read, inner, { call }) => [
    [target, { ...inner, call: call === 'front' ? call : 'stage' }],
  ],
  'while-stage': ({ target, limit }, read, inner) => [
    ...read('needed', limit),
    [target, { ...inner, call: 'stage' }],
  ],
  'group-stage': ({ members, cap }, read, inner, { call }) => [
    ...read('needed', cap),
    [members, { ...inner, call }],
  ],
};

type NameNode = NodeOf<'reference' | 'import' | 'augment' | 'export' | 'helpers'>;

const isNameNode = (item: { kind?: string }): item is NameNode =>
  /^(?:reference|import|augment|export|helpers)$/.test(item.kind ?? '');
const isHolder = (item: { kind?: string }): item is Holder =>
  item.kind !== undefined && Object.hasOwn(INSIDE, item.kind);

/** In a guard only `@x?`, `@x.isDefined()` and `@exists(@x)` test a name; every other use needs it. */
const inGuard = (use: Use, { kind }: { kind?: string }): Use =>
  use === 'asked' && kind !== 'reference' && kind !== 'insert' ? 'open' : use;

/** Yields every node that uses names. `judging` has the names of the functions that guards call. */
function* nameNodes(
  root: unknown,
  judging: ReadonlySet<string> = NO_NAMES,
): Generator<readonly [node: NameNode, place: NameContext]> {
  const open: PendingNode[] = [[root, TOP]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [item, place] = next;
    if (typeof item !== 'object' || item === null) continue;
    if (Array.isArray(item) || item instanceof Map) {
      for (const inner of item.values()) open.push([inner, place]);
      continue;
    }
    const { isRule, under } = place;
    const isJudging = place.isJudging || isCalledIn(judging, item);
    const inner: NameContext = { ...TOP, isRule, isJudging, under };
    const read: Reads = (use, ...items) =>
      items.map((one) => [one, { ...inner, use: isJudging ? inGuard(use, item) : use }]);
    if (isNameNode(item)) yield [item, place];
    if (isHolder(item)) {
      const inside = INSIDE[item.kind] as Inside<Holder['kind']>;
      open.push(...inside(item, read, inner, place));
    } else open.push([Object.values(item), 'kind' in item ? inner : place]);
  }
}

const NO_NAMES: ReadonlySet<string> = new Set();

const isCalledIn = (names: ReadonlySet<string>, item: { kind?: string; name?: unknown }): boolean =>
  names.size > 0 && item.kind === 'exe' && typeof item.name === 'string' && names.has(item.name);

/** Returns the functions of a file that its guards call, directly or indirectly. */
function calledByGuards({ body }: ScriptTree): ReadonlySet<string> {
  const bodies = new Map(
    body.flatMap((node) => (node.kind === 'exe' ? [[node.name, node.body]] : [])),
  );
  const found = new Set<string>();
  const open: unknown[] = body.filter(({ kind }) => kind === 'guard');
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const [node] of nameNodes(next)) {
      const name = node.kind === 'reference' ? node.name : '';
      if (found.has(name) || !bodies.has(name)) continue;
      found.add(name);
      open.push(bodies.get(name));
    }
  }
  return found;
}

/** Returns a hint for an unbound name: a missing blank around `-`, or a similar name. */
export function hintOfName(name: string, names: readonly string[]): string | undefined {
  const dash = name.lastIndexOf('-');
  if (dash > 0 && names.includes(name.slice(0, dash))) {
    return `a name can contain \`-\`; for a difference write \`@${name.slice(0, dash)} - ${name.slice(dash + 1)}\``;
  }
  const close = name.length > 1 ? nearest(name, names) : undefined;
  return close && `did you mean \`@${close}\`?`;
}

/** True for the text of an address such as `user@example.com` or a package such as `@scope/package`. */
export function isPlainText(text: string, { name, at }: NodeOf<'reference'>): boolean {
  const from = text[at] === '@' ? at + 1 : at;
  const before = text[from - 2] ?? '';
  const [end, next] = [from + name.length, from + name.length + 2];
  if (text.slice(from, end) !== name) return false;
  return /[\w.%+-]/.test(before) || /^\/\w/.test(text.slice(end, next));
}

type Exe = NodeOf<'exe'>;

// Matches a path with folders, or a file name with a usual extension, but not a URL.
const LOOKS_LIKE_PATH =
  /^(?!\w+:\/\/)(?:[^\s<>]*\/[^\s<>]*|[^\s<>/]+\.(?:md|mld|att|mtt|txt|jsonl?|ya?ml|csv|xml|html?|[cm]?[jt]s|py|sh|toml|log|pdf|env))$/i;

const textOf = (value: Expression | undefined): string | undefined => {
  if (value?.kind === 'template') return staticText(value);
  return value?.kind === 'literal' && typeof value.value === 'string' ? value.value : undefined;
};

/** Returns the constant texts that a variable can have; empty if one is unknown. */
function textsOf(bound: Bound | undefined): string[] {
  const { value, collection } = bound ?? {};
  const values =
    collection?.kind === 'array' ? collection.items.map((item) => item.value) : [value];
  const texts = values.map(textOf);
  return texts.every((text) => text !== undefined) ? texts : [];
}

const stepsText = (steps: readonly PathStep[]): string =>
  JSON.stringify(steps, (key, part: unknown) => (key === 'at' || key === 'end' ? undefined : part));

/** Returns the references that begin the path of a file, as in `<@path>` and `output … to @path`. */
function placesIn(tree: ScriptTree): NodeOf<'reference'>[] {
  const found: NodeOf<'reference'>[] = [];
  const note = (path: Expression | undefined): void => {
    if (path?.kind === 'reference') found.push(path);
    const [first] = path?.kind === 'template' ? path.parts : [];
    if (typeof first === 'object' && first.kind === 'insert') found.push(first.value);
  };
  // `visit` does not enter functions, so their bodies are visited too.
  const bodies = tree.body.flatMap((node) => (node.kind === 'exe' ? [node.body] : []));
  visit([tree.body, bodies], (node) => {
    if (node.kind === 'file') note(node.path);
    if (node.kind === 'effect' && node.target?.kind === 'file') note(node.target.path);
  });
  return found;
}

function exportsOf(tree: ScriptTree): ReadonlyMap<string, Bound> {
  const own = namesIn(tree).filter(({ seen }) => seen.at === 0 && seen.end === tree.text.length);
  const limits = tree.body.flatMap((node) => (node.kind === 'export' ? [node.names] : []));
  const listed = limits.length > 0 && !limits.includes(undefined) ? limits.flat() : undefined;
  const isExported = ({ name, kind }: Bound): boolean =>
    listed ? listed.includes(name) : kind !== 'import' && kind !== 'namespace';
  return new Map(own.filter(isExported).map((bound) => [bound.name, bound]));
}

const MOST_HINTS = 20;

class Names {
  readonly #tree: ScriptTree;
  readonly #around: Surroundings;
  readonly #bound = new Map<string, Bound[]>();
  /** True if a namespace import without an alias has a computed path, so that any name may be bound. */
  readonly #isOpen: boolean;
  /** Exports of each imported path; `undefined` if they are unknown. */
  readonly #modules = new Map<string, ReadonlyMap<string, Bound> | undefined>();
  readonly #optional = new Map<Exe, Map<string, boolean>>();
  #hints = 0;
  /** References that begin the path of a file. They are collected when first needed. */
  #places: readonly NodeOf<'reference'>[] | undefined;

  constructor(tree: ScriptTree, around: Surroundings) {
    this.#tree = tree;
    this.#around = around;
    for (const bound of namesIn(tree)) {
      this.#bound.set(bound.name, [...(this.#bound.get(bound.name) ?? []), bound]);
    }
    this.#isOpen = tree.body.some(
      (node) =>
        node.kind === 'import' &&
        node.form.kind === 'namespace' &&
        node.form.alias === undefined &&
        (node.source.kind !== 'path' || staticText(node.source.path) === undefined),
    );
  }

  /** Returns the innermost binding that is visible at an offset. */
  #find(name: string, at: number): Bound | undefined {
    const size = ({ seen }: Bound): number => seen.end - seen.at;
    const isIn = (range: Range | undefined): boolean =>
      range !== undefined && range.at <= at && at < range.end;
    // A name is not visible in its own value, or in the collection of its loop.
    const isSeen = ({ seen, kind, value, collection }: Bound): boolean =>
      (isIn(seen) || at === seen.end) &&
      !/^(?:guard|hook)$/.test(kind) &&
      !isIn(value ?? collection);
    const [found] = (this.#bound.get(name) ?? []).filter(isSeen).sort((a, b) => size(a) - size(b));
    return found;
  }

  #isKnown(name: string, at: number, isRule = false): boolean {
    const { provided, inputs } = this.#around;
    if (this.#isOpen || provided.has(name) || inputs.includes(name)) return true;
    return (isRule && name === 'output') || this.#find(name, at) !== undefined;
  }

  /** True if a condition around the code reads an unbound name, so that the code may never run. */
  #isDoubtful({ under, isRule }: NameContext): boolean {
    return under.some((condition) => {
      for (const [node] of nameNodes(condition)) {
        if (node.kind === 'reference' && !this.#isKnown(node.name, node.at, isRule)) return true;
      }
      return false;
    });
  }

  #unbound(name: string, place: Range, use: Use | 'judged', isDoubtful = false): NameFinding {
    const hint =
      this.#closeTo(name, place.at) ??
      (use === 'text' ? `to write it as text, use \`@@${name}\`` : undefined);
    const [severity, ending] = ENDINGS[use];
    return {
      at: place.at,
      end: place.end,
      code: 'name_unbound',
      severity: isDoubtful ? 'warning' : severity,
      message: `\`@${name}\` is not defined${ending}`,
      ...(hint === undefined ? {} : { hint }),
    };
  }

  /** Returns a hint for a name. Only the first findings get one, because each compares all names. */
  #closeTo(name: string, at: number): string | undefined {
    this.#hints += 1;
    if (this.#hints > MOST_HINTS) return undefined;
    const visible = [...this.#bound.keys()].filter((one) => this.#find(one, at));
    return (
      hintOfName(name, [...visible, ...this.#around.inputs]) ??
      hintOfName(name, name.length > 2 ? [...this.#around.provided] : [])
    );
  }

  ofReference(node: NodeOf<'reference'>, place: NameContext): NameFinding[] {
    const { name, steps, at } = node;
    const [first] = steps;
    const asks = first?.kind === 'field' && first.name === 'isDefined';
    const use = node.isOptional || asks ? 'asked' : place.use;
    if (name === '<>' || name === '') return [];
    if (!this.#isKnown(name, at, place.isRule)) {
      if (use === 'asked' || (use === 'text' && isPlainText(this.#tree.text, node))) return [];
      const range = { at, end: at + name.length + 1 };
      if (place.isJudging && use !== 'needed') return [this.#unbound(name, range, 'judged')];
      return [this.#unbound(name, range, use, this.#isDoubtful(place))];
    }
    const ofContext = place.isJudging && use !== 'asked' ? this.#ofContext(node) : [];
    return [...ofContext, ...this.#ofCall(node, place), ...this.#ofQuestion(node)];
  }

  /** Returns members of `@mx` and `@mx.op` in a guard that do not exist. */
  #ofContext({ name, steps: [first, second], at }: NodeOf<'reference'>): NameFinding[] {
    if ((name !== 'mx' && name !== 'ctx') || first?.kind !== 'field' || this.#find(name, at))
      return [];
    const isOp = /^op(?:eration)?$/.test(first.name);
    const inner = isOp && second?.kind === 'field' ? second : undefined;
    const step = inner ?? first;
    const members = Object.keys(inner ? OPERATION_VIEW : CONTEXT_VIEW);
    if (members.includes(step.name)) return [];
    const message = `\`@${name}${inner ? `.${first.name}` : ''}\` has no \`${step.name}\`${ENDINGS.judged[1]}`;
    const meant = nearest(step.name, members);
    const hint = meant === undefined ? members.join(', ') : `did you mean \`${meant}\`?`;
    return [
      {
        at: step.at,
        end: step.at + step.name.length,
        code: 'name_unbound',
        severity: 'error',
        message,
        hint,
      },
    ];
  }

  /** Warns about `@exists(@path)`, which tests the variable, if the variable has the path of a file. */
  #ofQuestion({ name, steps: [call], at }: NodeOf<'reference'>): NameFinding[] {
    const [argument] = call?.kind === 'call' ? call.arguments : [];
    if (!/^exists$/i.test(name) || argument?.kind !== 'reference' || this.#find(name, at))
      return [];
    const written = this.#tree.text.slice(argument.at, argument.end);
    if (!this.#isPath(argument)) return [];
    return [
      {
        at,
        end: argument.end,
        code: 'exists_of_path',
        severity: 'warning',
        message: `\`@${name}(${written})\` tests whether the variable has a value, not whether the file exists`,
        hint: `for the file write \`@fileExists(${written})\``,
      },
    ];
  }

  /** True for a variable with the text of a path, or one that is used as the path of a file. */
  #isPath({ name, steps, at }: NodeOf<'reference'>): boolean {
    if (steps.some(({ kind }) => kind !== 'field' && kind !== 'index')) return false;
    const bound = this.#find(name, at);
    const texts = steps.length === 0 ? textsOf(bound) : [];
    if (texts.length > 0) return texts.every((text) => LOOKS_LIKE_PATH.test(text));
    this.#places ??= placesIn(this.#tree);
    return this.#places.some(
      (place) =>
        place.name === name &&
        this.#find(name, place.at) === bound &&
        stepsText(place.steps) === stepsText(steps),
    );
  }

  /** Returns the called function of this file or of an imported module; absent for other calls. */
  #callee({ name, steps, at }: NodeOf<'reference'>): { exe: Exe; depth: number } | undefined {
    const bound = this.#find(name, at);
    const all = this.#bound.get(name) ?? [];
    if (bound?.exe && all.filter(({ exe }) => exe).length === 1)
      return { exe: bound.exe, depth: 0 };
    if (bound?.kind !== 'import' && bound?.kind !== 'namespace') return undefined;
    const path = bound.source && staticText(bound.source.path);
    const [first] = steps;
    const member = first?.kind === 'field' ? first.name : undefined;
    const inner = this.#exportsOf(path)?.get(bound.source?.name ?? member ?? '');
    const depth = bound.kind === 'namespace' ? 1 : 0;
    return inner?.exe && { exe: inner.exe, depth };
  }

  #exportsOf(path: string | undefined): ReadonlyMap<string, Bound> | undefined {
    if (path === undefined) return undefined;
    if (!this.#modules.has(path)) {
      const tree = this.#around.module(path);
      this.#modules.set(path, tree && exportsOf(tree));
    }
    return this.#modules.get(path);
  }

  #isOptional(exe: Exe, name: string): boolean {
    const cached = this.#optional.get(exe) ?? new Map<string, boolean>();
    this.#optional.set(exe, cached);
    const answer = cached.get(name) ?? isOptionalIn(exe, name);
    cached.set(name, answer);
    return answer;
  }

  /** Checks a call of a built-in function. Its input may come from a pipeline. */
  #ofBuiltIn({ name, steps, at }: NodeOf<'reference'>, before: number): NameFinding[] {
    const arity = this.#find(name, at) ? undefined : this.#around.arity?.(name);
    const call = steps.find(({ kind }) => kind === 'call');
    const isMethod = steps.some(({ kind }, index) => kind === 'call' && index > 1);
    if (arity === undefined || call?.kind !== 'call' || isMethod) return [];
    return surplusArguments(name, arity, call.arguments, before);
  }

  #ofCall(node: NodeOf<'reference'>, { call }: NameContext): NameFinding[] {
    const callee = this.#callee(node);
    const step = node.steps[callee?.depth ?? 0];
    const isBare = node.steps.length === callee?.depth;
    if (!callee) return this.#ofBuiltIn(node, call === 'stage' ? 1 : 0);
    if (step?.kind !== 'call' && !(isBare && call !== 'none')) return [];
    const values = step?.kind === 'call' ? step.arguments : [];
    // At the start of a pipeline, a call without arguments may receive the input.
    if (call === 'front' && values.length === 0) return [];
    const { exe } = callee;
    const before = call === 'stage' ? 1 : 0;
    const missing = exe.parameters
      .slice(values.length + before)
      .filter(({ name }) => !this.#isOptional(exe, name));
    return countArguments(node, exe, values, before, missing);
  }

  /** An unknown tool is a warning, because a person may have renamed the tool. */
  #ofTools({ form }: NodeOf<'import'>, name: NodeOf<'template'>): NameFinding[] {
    const connector = staticText(name);
    const tools = connector === undefined ? undefined : this.#around.tools?.(connector);
    const { at, end } = name;
    const finding = (message: string, hint: string): NameFinding => ({
      at,
      end,
      code: 'name_unbound',
      severity: 'warning',
      message,
      hint,
    });
    if (!tools) return [];
    if ('message' in tools) return [{ ...finding(tools.message, tools.hint), severity: 'error' }];
    const { names } = tools;
    const all = new Set([...names, ...names.map(camelCased)]);
    const imported = form.kind === 'names' ? form.names.map((one) => one.name) : [];
    return imported
      .filter((one) => !all.has(one))
      .map((one) =>
        finding(
          `the connector \`${connector}\` has no tool \`${one}\``,
          hintOfName(one, [...all]) ?? `its tools: ${names.join(', ') || 'none'}`,
        ),
      );
  }

  /** Returns imported inputs that do not exist; in a script without inputs only likely variables. */
  #ofInput({ form, at, end }: NodeOf<'import'>): NameFinding[] {
    const { inputs } = this.#around;
    const names = form.kind === 'names' ? form.names : [];
    return names
      .filter(({ name, alias }) => {
        const isInput = inputs.length > 0 ? inputs.includes(name) : !/^[A-Z][A-Z0-9_]*$/.test(name);
        return !isInput && !testsName(this.#tree.body, alias);
      })
      .map(({ name }) => ({
        at,
        end,
        code: 'name_unbound',
        severity: inputs.length > 0 ? 'error' : 'warning',
        message: `\`@input\` has no \`${name}\`${inputs.length > 0 ? '' : ' unless stdin has it; otherwise the run fails'}`,
        hint:
          inputs.length > 0
            ? `the inputs are ${inputs.join(', ')}`
            : 'a script cannot read environment variables',
      }));
  }

  ofImport(node: NodeOf<'import'>): NameFinding[] {
    const { form, source } = node;
    if (source.kind === 'connector') return this.#ofTools(node, source.name);
    if (source.kind === 'input') return this.#ofInput(node);
    const path = source.kind === 'path' ? staticText(source.path) : undefined;
    if (source.kind === 'path' && path !== undefined && this.#around.exists?.(path) === false) {
      const { at, end } = source.path;
      const message = `import \`${path}\` not found`;
      const hint = 'a path is relative to the folder of this file; `@root/…` starts at the project';
      return [{ at, end, code: 'module_missing', severity: 'error', message, hint }];
    }
    const exports = this.#exportsOf(path);
    if (form.kind !== 'names' || source.kind !== 'path' || !exports) return [];
    const names = [...exports.keys()];
    return form.names
      .filter(({ name }) => !exports.has(name) && name !== 'default')
      .map(({ name, alias }) => {
        const found = this.#bound.get(alias)?.find(({ kind }) => kind === 'import');
        const { at, end } = found?.place ?? source.path;
        const message = `\`${path}\` does not export \`${name}\``;
        const hint =
          hintOfName(name, names) ??
          (names.length > 0 ? `it exports ${names.join(', ')}` : 'it exports nothing');
        return { at, end, code: 'name_unbound', severity: 'error', message, hint };
      });
  }

  /** Checks statements that use names without `@`, or change a variable. */
  ofStatement(node: NodeOf<'augment' | 'export' | 'helpers'>): NameFinding[] {
    const names = 'names' in node ? (node.names ?? []) : [node.name];
    const isGuard = (name: string): boolean => this.#bound.has(name);
    const placeOf = (name: string): Range => {
      const at = Math.max(node.at, this.#tree.text.indexOf(name, node.at));
      return { at, end: at + name.length };
    };
    const unbound = names
      .filter((name) => !this.#isKnown(name, node.at) && !(node.kind === 'export' && isGuard(name)))
      .map((name) => this.#unbound(name, placeOf(name), 'needed'));
    if (node.kind !== 'helpers') return unbound;
    const bodies = HELPER_BODIES[node.language];
    const isOther = (name: string): boolean => {
      const { kind, exe, value } = this.#find(name, node.at) ?? {};
      return kind === 'variable' ? value !== undefined : exe !== undefined && !isBody(exe, bodies);
    };
    const others = names.filter(isOther).map((name): NameFinding => {
      const message = `\`${name}\` cannot be a helper of ${node.language} blocks`;
      const hint = `its body must be ${bodies.map((word) => `\`${word} { … }\``).join(' or ')}`;
      return { ...placeOf(name), code: 'helper_kind', severity: 'error', message, hint };
    });
    return [...unbound, ...others];
  }
}

/** True for a body that is only code of one of these kinds. */
const isBody = ({ body }: Exe, kinds: readonly string[]): boolean =>
  kinds.includes(bodyKindOf(body)) && !(body.kind === 'with' && body.options.pipeline);

const ENDINGS: Readonly<Record<Use | 'judged', readonly ['error' | 'warning', string]>> = {
  judged: ['error', ', so the guard denies'],
  needed: ['error', ''],
  text: ['warning', ', so the text stays unchanged'],
  open: ['warning', ', so the value is always undefined'],
  asked: ['warning', ''],
};

const several = (count: number): string => `${count} ${count === 1 ? 'argument' : 'arguments'}`;

/** Warns about arguments beyond `most`. `before` is the number of arguments that a pipeline passes first. */
function surplusArguments(
  name: string,
  most: number,
  values: readonly Expression[],
  before: number,
): NameFinding[] {
  const [extra] = values.slice(Math.max(0, most - before));
  if (values.length + before <= most || !extra) return [];
  const takes = several(Math.max(0, most - before));
  const from = before > 0 ? ' besides the input' : '';
  return [
    {
      at: extra.at,
      end: values.at(-1)?.end ?? extra.end,
      code: 'argument_surplus',
      severity: 'warning',
      message: `\`@${name}\` takes ${takes}${from}, but gets ${several(values.length)}`,
      hint: 'additional arguments are ignored',
    },
  ];
}

function countArguments(
  node: NodeOf<'reference'>,
  exe: Exe,
  values: readonly Expression[],
  before: number,
  missing: Exe['parameters'],
): NameFinding[] {
  const { parameters, name } = exe;
  const surplus = surplusArguments(name, parameters.length, values, before);
  if (surplus.length > 0) return surplus;
  if (missing.length === 0) return [];
  const list = missing.map((one) => `\`${one.name}\``).join(', ');
  return [
    {
      at: node.at,
      end: node.at + node.name.length + 1,
      code: 'argument_missing',
      severity: 'warning',
      message: `the call of \`@${name}\` has no argument for ${list}`,
      hint: `write \`@${name}(${parameters.map((one) => one.name).join(', ')})\`${
        before > 0 ? '; the input of the stage is the first argument' : ''
      }`,
    },
  ];
}

/** True if the function itself tests whether the parameter was passed. */
const isOptionalIn = ({ body }: Exe, name: string): boolean => testsName(body, name);

/** True if the code tests the name, as in `@x?`, `@x ?? 1` or `@x == null`. */
export function testsName(body: unknown, name: string): boolean {
  for (const [node, place] of nameNodes(body)) {
    if (node.kind !== 'reference' || node.name !== name) continue;
    const [first] = node.steps;
    const asks = first?.kind === 'field' && first.name === 'isDefined';
    if (node.isOptional || asks || place.use === 'asked') return true;
  }
  return asksInForm(body, name);
}

const isNamed = (item: unknown, name: string): boolean =>
  typeof item === 'object' &&
  item !== null &&
  (item as Partial<NodeOf<'reference'>>).kind === 'reference' &&
  (item as NodeOf<'reference'>).name === name;

/** True if the name is tested in `@x => …`, `!@x`, `@x && …`, `@x ? … : …`, or in code that looks like these. */
function asksInForm(root: unknown, name: string): boolean {
  const open: unknown[] = [root];
  const word = name.replace(/[^\w]/g, '\\$&');
  const inCode = new RegExp(
    `(?:!|typeof\\s+|not\\s+|-[zn]\\s+"?\\$\\{?)${word}(?![\\w])|(?<![\\w.])${word}\\s*(?:\\?|\\|\\||&&|[!=]==?|is\\b|:?[-+=?][^}]*\\}|or\\b)|if\\s*\\(?\\s*${word}(?![\\w])`,
  );
  while (open.length > 0) {
    const item = open.pop();
    if (typeof item !== 'object' || item === null) continue;
    open.push(...(item instanceof Map ? item.values() : Object.values(item)));
    const node = item as Expression | NodeOf<'arm'>;
    const tested: unknown[] = [];
    if (node.kind === 'arm') tested.push(...valuesOf(node.condition));
    else if (node.kind === 'if' || node.kind === 'ternary') tested.push(node.condition);
    else if (node.kind === 'unary' && node.operator === '!') tested.push(node.value);
    else if (node.kind === 'binary' && /^(?:&&|\|\|)$/.test(node.operator))
      tested.push(node.left, node.right);
    else if (node.kind === 'code' && inCode.test(node.body)) return true;
    else if (node.kind === 'command' && inCode.test(node.raw)) return true;
    if (tested.some((one) => isNamed(one, name))) return true;
  }
  return false;
}

/** Returns the findings of a script in text order. A partly parsed script is checked as far as it was parsed. */
export function nameFindings(tree: ScriptTree, around: Surroundings): NameFinding[] {
  const names = new Names(tree, around);
  const found: NameFinding[] = [];
  for (const [node, place] of nameNodes(tree.body, calledByGuards(tree))) {
    if (node.kind === 'reference') found.push(...names.ofReference(node, place));
    else if (node.kind === 'import') found.push(...names.ofImport(node));
    else found.push(...names.ofStatement(node));
  }
  for (const node of tree.body) if (node.kind === 'guard') found.push(...wideExceptions(node));
  const bodies = tree.body.flatMap((node) => (node.kind === 'exe' ? [node.body] : []));
  visit([tree.body, bodies], (node) => found.push(...addedTexts(node)));
  return found.sort((a, b) => a.at - b.at);
}

/** Reports `"a" + "b"` with two constant texts. */
function addedTexts(node: { kind: string }): NameFinding[] {
  if (!isSum(node) || textOf(node.left) === undefined || textOf(node.right) === undefined)
    return [];
  const { at, end } = node;
  const message = '`+` adds numbers and does not join text';
  const hint = 'use a template: `` `@a @b` ``';
  return [{ at, end, code: 'texts_added', severity: 'error', message, hint }];
}

const isSum = (node: { kind: string }): node is NodeOf<'binary'> =>
  node.kind === 'binary' && 'operator' in node && node.operator === '+';

const isAlways = ({ condition }: NodeOf<'arm'>): boolean =>
  condition.kind === 'any' ||
  (condition.kind === 'test' &&
    condition.value.kind === 'literal' &&
    condition.value.value === true);

/** True for the decision `allow`, alone or at the end of a block. */
function isAllowing(action: NodeOf<'arm'>['action']): boolean {
  const last = action.kind === 'block' ? action.body.at(-1) : undefined;
  const decided = last?.kind === 'return' ? last.value : action;
  return decided?.kind === 'verdict' && decided.decision === 'allow';
}

/** Warns about a privileged guard that allows every operation of its filter, which makes the policies ineffective. */
function wideExceptions({ privileged, timing, filter, rules }: NodeOf<'guard'>): NameFinding[] {
  if (!privileged || timing !== 'before' || !/^(?:op:|@)/.test(filter)) return [];
  return rules.items.flatMap((item): NameFinding[] => {
    if (item.kind !== 'arm' || !isAlways(item) || !isAllowing(item.action)) return [];
    return [
      {
        at: item.at,
        end: item.action.end,
        code: 'exception_wide',
        severity: 'warning',
        message: `this arm makes an exception to all policies for every \`${filter}\``,
        hint: 'name the allowed cases, or delete the arm: without a match the policies apply',
      },
    ];
  });
}
