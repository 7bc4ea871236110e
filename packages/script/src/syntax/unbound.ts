// What can be said about the names of a script without running it: names that nothing binds, calls
// with too few or too many arguments, imports of what a module does not have. Where a run would fail
// it is an error; where it would go on with nothing, or with the text as written, a warning; where the
// script itself asks whether something is there (`@x?`, `??`, `@exists(@x)`), nothing is said.
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

/** What a script can see besides its own text. */
export interface Surroundings {
  /** Names of the language. */
  readonly provided: ReadonlySet<string>;
  /** Inputs of a directive, parameters of a tool. */
  readonly inputs: readonly string[];
  /** The script that an import names; undefined where that cannot be known. */
  module(path: string): ScriptTree | undefined;
  /** Is there something at the path of an import? Undefined where that cannot be known. */
  exists?(path: string): boolean | undefined;
  /** How many arguments a function of the language takes. */
  arity?(name: string): number | undefined;
  /** The tools of a connector; undefined where that cannot be known. */
  tools?(connector: string): KnownTools | undefined;
}

/** Names of tools, or why there are none. */
export type KnownTools =
  | { readonly names: readonly string[] }
  | { readonly message: string; readonly hint: string };

// How names are read. The same as the compiler reads them, by the form of what they stand in.

/** `needed`: a run fails without it. `text`: it stays as written. `open`: undefined. `asked`: fine. */
type Use = 'needed' | 'text' | 'open' | 'asked';

interface NamePlace {
  readonly use: Use;
  /** In the rules of a guard or hook there is an `@output`. */
  readonly isRule: boolean;
  /** In the rules of a guard, or in what they call: a name that nothing binds denies. */
  readonly isJudging: boolean;
  /** What a bare name stands for: itself, a call of it, one with an input, one at the very front. */
  readonly call: 'none' | 'plain' | 'stage' | 'front';
  /** What decides whether this is reached. */
  readonly under: readonly Expression[];
}

type Seen = readonly [item: unknown, place: NamePlace];
type Reads = (use: Use, ...items: unknown[]) => Seen[];

const TOP: NamePlace = { use: 'needed', isRule: false, isJudging: false, call: 'none', under: [] };
const ASKS = /^(?:exists|fileexists)$/i;

const inStep = (step: PathStep, isAsked: boolean, read: Reads): Seen[] => {
  if (step.kind === 'call') return read(isAsked ? 'asked' : 'needed', ...step.arguments);
  if (step.kind === 'index') return read('open', step.index);
  return step.kind === 'slice' ? read('open', step.from, step.to) : [];
};

const inStages = (
  source: Expression | undefined,
  stages: readonly unknown[],
  inner: NamePlace,
): Seen[] => [
  [source, { ...inner, call: 'plain' }],
  ...stages.map((stage, at): Seen => {
    const call = at === 0 && source === undefined ? 'front' : 'stage';
    return [stage, { ...inner, call }];
  }),
];

/** What a loop pipes on: something that nothing has to be said about. */
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
  inner: NamePlace,
  place: NamePlace,
) => Seen[];

const isNull = (item: Expression): boolean => item.kind === 'literal' && item.value === null;

const decided = (inner: NamePlace, ...by: readonly Expression[]): NamePlace =>
  by.length > 0 ? { ...inner, under: [...inner.under, ...by] } : inner;

const called: Inside<'run' | 'run-value'> = ({ action }, _read, inner) => [
  [action, { ...inner, call: 'plain' }],
];
const rule: Inside<'guard' | 'hook'> = (node, _read, inner) => [
  [Object.values(node), { ...inner, isRule: true, isJudging: node.kind === 'guard' }],
];

/** What stands in a node; of a kind that is not here everything is needed. */
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
    // Names of guards are texts there.
    ...[...options.entries].flatMap(([key, entry]) =>
      key === 'guards' && entry.kind !== 'reference' ? [] : read('needed', entry),
    ),
    ...inStages(value, options.pipeline ?? [], inner).map(([item, place]): Seen => {
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

type Speaker = NodeOf<'reference' | 'import' | 'augment' | 'export' | 'helpers'>;

const isSpeaker = (item: { kind?: string }): item is Speaker =>
  /^(?:reference|import|augment|export|helpers)$/.test(item.kind ?? '');
const isHolder = (item: { kind?: string }): item is Holder =>
  item.kind !== undefined && Object.hasOwn(INSIDE, item.kind);

/** `@x?`, `@x.isDefined()` and `@exists(@x)` ask in a guard, too; everything else needs the name there. */
const inGuard = (use: Use, { kind }: { kind?: string }): Use =>
  use === 'asked' && kind !== 'reference' && kind !== 'insert' ? 'open' : use;

/**
 * Everything that speaks of names, with how it is read there; `judging` are names of the functions that
 * guards call.
 */
function* spoken(
  root: unknown,
  judging: ReadonlySet<string> = NO_NAMES,
): Generator<readonly [node: Speaker, place: NamePlace]> {
  const open: Seen[] = [[root, TOP]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [item, place] = next;
    if (typeof item !== 'object' || item === null) continue;
    if (Array.isArray(item) || item instanceof Map) {
      for (const inner of item.values()) open.push([inner, place]);
      continue;
    }
    const { isRule, under } = place;
    const isJudging = place.isJudging || isCalledIn(judging, item);
    const inner: NamePlace = { ...TOP, isRule, isJudging, under };
    const read: Reads = (use, ...items) =>
      items.map((one) => [one, { ...inner, use: isJudging ? inGuard(use, item) : use }]);
    if (isSpeaker(item)) yield [item, place];
    if (isHolder(item)) {
      const inside = INSIDE[item.kind] as Inside<Holder['kind']>;
      open.push(...inside(item, read, inner, place));
    } else open.push([Object.values(item), 'kind' in item ? inner : place]);
  }
}

const NO_NAMES: ReadonlySet<string> = new Set();

const isCalledIn = (names: ReadonlySet<string>, item: { kind?: string; name?: unknown }): boolean =>
  names.size > 0 && item.kind === 'exe' && typeof item.name === 'string' && names.has(item.name);

/** The functions of a file that its guards call, and those that these call. */
function calledByGuards({ body }: ScriptTree): ReadonlySet<string> {
  const bodies = new Map(
    body.flatMap((node) => (node.kind === 'exe' ? [[node.name, node.body]] : [])),
  );
  const found = new Set<string>();
  const open: unknown[] = body.filter(({ kind }) => kind === 'guard');
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const [node] of spoken(next)) {
      const name = node.kind === 'reference' ? node.name : '';
      if (found.has(name) || !bodies.has(name)) continue;
      found.add(name);
      open.push(bodies.get(name));
    }
  }
  return found;
}

// What is wrong with them.

/** A difference without blanks is one name; otherwise the closest that there is. */
export function hintOfName(name: string, names: readonly string[]): string | undefined {
  const dash = name.lastIndexOf('-');
  if (dash > 0 && names.includes(name.slice(0, dash))) {
    return `a name may hold \`-\`; for a difference write \`@${name.slice(0, dash)} - ${name.slice(dash + 1)}\``;
  }
  const close = name.length > 1 ? nearest(name, names) : undefined;
  return close && `did you mean \`@${close}\`?`;
}

/** `user@example.com` and `@scope/package` in a text are texts. */
export function isPlainText(text: string, { name, at }: NodeOf<'reference'>): boolean {
  const from = text[at] === '@' ? at + 1 : at;
  const before = text[from - 2] ?? '';
  const [end, next] = [from + name.length, from + name.length + 2];
  if (text.slice(from, end) !== name) return false;
  return /[\w.%+-]/.test(before) || /^\/\w/.test(text.slice(end, next));
}

type Exe = NodeOf<'exe'>;

// Folders, or a name with one of the usual endings; an address is none.
const LOOKS_LIKE_PATH =
  /^(?!\w+:\/\/)(?:[^\s<>]*\/[^\s<>]*|[^\s<>/]+\.(?:md|mld|att|mtt|txt|jsonl?|ya?ml|csv|xml|html?|[cm]?[jt]s|py|sh|toml|log|pdf|env))$/i;

const textOf = (value: Expression | undefined): string | undefined => {
  if (value?.kind === 'template') return staticText(value);
  return value?.kind === 'literal' && typeof value.value === 'string' ? value.value : undefined;
};

/** The texts that a variable is given, or a loop variable one after the other; none when unknown. */
function textsOf(bound: Bound | undefined): string[] {
  const { value, collection } = bound ?? {};
  const made = collection?.kind === 'array' ? collection.items.map((item) => item.value) : [value];
  const texts = made.map(textOf);
  return texts.every((text) => text !== undefined) ? texts : [];
}

/** `.a["b"]`, to compare what two references stand for. */
const stepsText = (steps: readonly PathStep[]): string =>
  JSON.stringify(steps, (key, part: unknown) => (key === 'at' || key === 'end' ? undefined : part));

/** What `<@path>` and `output … to @path` say about their names. */
function placesIn(tree: ScriptTree): NodeOf<'reference'>[] {
  const found: NodeOf<'reference'>[] = [];
  const note = (path: Expression | undefined): void => {
    if (path?.kind === 'reference') found.push(path);
    const [first] = path?.kind === 'template' ? path.parts : [];
    if (typeof first === 'object' && first.kind === 'insert') found.push(first.value);
  };
  // Functions are entered one by one.
  const bodies = tree.body.flatMap((node) => (node.kind === 'exe' ? [node.body] : []));
  visit([tree.body, bodies], (node) => {
    if (node.kind === 'file') note(node.path);
    if (node.kind === 'effect' && node.target?.kind === 'file') note(node.target.path);
  });
  return found;
}

/** What can be imported. */
function exportsOf(tree: ScriptTree): ReadonlyMap<string, Bound> {
  const own = namesIn(tree).filter(({ seen }) => seen.at === 0 && seen.end === tree.text.length);
  const limits = tree.body.flatMap((node) => (node.kind === 'export' ? [node.names] : []));
  const listed = limits.length > 0 && !limits.includes(undefined) ? limits.flat() : undefined;
  const isGiven = ({ name, kind }: Bound): boolean =>
    listed ? listed.includes(name) : kind !== 'import' && kind !== 'namespace';
  return new Map(own.filter(isGiven).map((bound) => [bound.name, bound]));
}

const MOST_HINTS = 20;

class Names {
  readonly #tree: ScriptTree;
  readonly #around: Surroundings;
  readonly #bound = new Map<string, Bound[]>();
  /** An import without a name whose path is made by the run: anything may be bound. */
  readonly #isOpen: boolean;
  /** What each path that is imported from exports; undefined where that cannot be known. */
  readonly #modules = new Map<string, ReadonlyMap<string, Bound> | undefined>();
  readonly #optional = new Map<Exe, Map<string, boolean>>();
  #hints = 0;
  /** References that begin the path of a file. */
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

  /** The innermost binding that can be seen from a place. */
  #find(name: string, at: number): Bound | undefined {
    const size = ({ seen }: Bound): number => seen.end - seen.at;
    const isIn = (range: Range | undefined): boolean =>
      range !== undefined && range.at <= at && at < range.end;
    // Not yet where its own value is made, or the list that a loop goes through.
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

  /** A condition over names that nobody binds may never hold. */
  #isDoubtful({ under, isRule }: NamePlace): boolean {
    return under.some((condition) => {
      for (const [node] of spoken(condition)) {
        if (node.kind === 'reference' && !this.#isKnown(node.name, node.at, isRule)) return true;
      }
      return false;
    });
  }

  #unbound(name: string, place: Range, use: Use | 'judged', isDoubtful = false): NameFinding {
    const hint =
      this.#closeTo(name, place.at) ??
      (use === 'text' ? `where the text is meant, write \`@@${name}\`` : undefined);
    const [severity, ending] = ENDINGS[use];
    return {
      at: place.at,
      end: place.end,
      code: 'name_unbound',
      severity: isDoubtful ? 'warning' : severity,
      message: `nothing binds \`@${name}\`${ending}`,
      ...(hint === undefined ? {} : { hint }),
    };
  }

  /** Looked for as often as anybody reads them: all names are compared each time. */
  #closeTo(name: string, at: number): string | undefined {
    this.#hints += 1;
    if (this.#hints > MOST_HINTS) return undefined;
    const seen = [...this.#bound.keys()].filter((one) => this.#find(one, at));
    return (
      hintOfName(name, [...seen, ...this.#around.inputs]) ??
      hintOfName(name, name.length > 2 ? [...this.#around.provided] : [])
    );
  }

  ofReference(node: NodeOf<'reference'>, place: NamePlace): NameFinding[] {
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

  /** In a guard: `@mx.…` and `@mx.op.…` that nobody knows. */
  #ofContext({ name, steps: [first, second], at }: NodeOf<'reference'>): NameFinding[] {
    if ((name !== 'mx' && name !== 'ctx') || first?.kind !== 'field' || this.#find(name, at))
      return [];
    const isOp = /^op(?:eration)?$/.test(first.name);
    const inner = isOp && second?.kind === 'field' ? second : undefined;
    const step = inner ?? first;
    const known = Object.keys(inner ? OPERATION_VIEW : CONTEXT_VIEW);
    if (known.includes(step.name)) return [];
    const message = `\`@${name}${inner ? `.${first.name}` : ''}\` has no \`${step.name}\`${ENDINGS.judged[1]}`;
    const meant = nearest(step.name, known);
    const hint = meant === undefined ? known.join(', ') : `did you mean \`${meant}\`?`;
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

  /** `@exists(@path)` asks about the variable; where it holds a path, the file was meant. */
  #ofQuestion({ name, steps: [call], at }: NodeOf<'reference'>): NameFinding[] {
    const [asked] = call?.kind === 'call' ? call.arguments : [];
    if (!/^exists$/i.test(name) || asked?.kind !== 'reference' || this.#find(name, at)) return [];
    const written = this.#tree.text.slice(asked.at, asked.end);
    if (!this.#isPath(asked)) return [];
    return [
      {
        at,
        end: asked.end,
        code: 'exists_of_path',
        severity: 'warning',
        message: `\`@${name}(${written})\` asks whether the variable has a value, not whether there is a file`,
        hint: `for the file write \`@fileExists(${written})\``,
      },
    ];
  }

  /** A variable with the text of a path, or one that is used as the path of a file somewhere. */
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

  /** A function of this file, or of a module that is imported. */
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
    const known = this.#optional.get(exe) ?? new Map<string, boolean>();
    this.#optional.set(exe, known);
    const answer = known.get(name) ?? isOptionalIn(exe, name);
    known.set(name, answer);
    return answer;
  }

  /** A call of a function of the language; its one input may come from a pipeline. */
  #ofBuiltIn({ name, steps, at }: NodeOf<'reference'>, before: number): NameFinding[] {
    const arity = this.#find(name, at) ? undefined : this.#around.arity?.(name);
    const call = steps.find(({ kind }) => kind === 'call');
    const isMethod = steps.some(({ kind }, index) => kind === 'call' && index > 1);
    if (arity === undefined || call?.kind !== 'call' || isMethod) return [];
    return surplusArguments(name, arity, call.arguments, before);
  }

  #ofCall(node: NodeOf<'reference'>, { call }: NamePlace): NameFinding[] {
    const callee = this.#callee(node);
    const step = node.steps[callee?.depth ?? 0];
    const isBare = node.steps.length === callee?.depth;
    if (!callee) return this.#ofBuiltIn(node, call === 'stage' ? 1 : 0);
    if (step?.kind !== 'call' && !(isBare && call !== 'none')) return [];
    const given = step?.kind === 'call' ? step.arguments : [];
    // At the front of a group nothing comes in but where no argument is given.
    if (call === 'front' && given.length === 0) return [];
    const { exe } = callee;
    const before = call === 'stage' ? 1 : 0;
    const missing = exe.parameters
      .slice(given.length + before)
      .filter(({ name }) => !this.#isOptional(exe, name));
    return countArguments(node, exe, given, before, missing);
  }

  /** A name is a warning: a person may have given the tool another one. */
  #ofTools({ form }: NodeOf<'import'>, name: NodeOf<'template'>): NameFinding[] {
    const connector = staticText(name);
    const known = connector === undefined ? undefined : this.#around.tools?.(connector);
    const { at, end } = name;
    const finding = (message: string, hint: string): NameFinding => ({
      at,
      end,
      code: 'name_unbound',
      severity: 'warning',
      message,
      hint,
    });
    if (!known) return [];
    if ('message' in known) return [{ ...finding(known.message, known.hint), severity: 'error' }];
    const { names } = known;
    const all = new Set([...names, ...names.map(camelCased)]);
    const wanted = form.kind === 'names' ? form.names.map((one) => one.name) : [];
    return wanted
      .filter((one) => !all.has(one))
      .map((one) =>
        finding(
          `the connector \`${connector}\` has no tool \`${one}\``,
          hintOfName(one, [...all]) ?? `it has ${names.join(', ') || 'none'}`,
        ),
      );
  }

  /** Names that a directive or tool is not given; of a script, those that look like the environment's. */
  #ofInput({ form, at, end }: NodeOf<'import'>): NameFinding[] {
    const { inputs } = this.#around;
    const names = form.kind === 'names' ? form.names : [];
    return names
      .filter(({ name, alias }) => {
        const isGiven = inputs.length > 0 ? inputs.includes(name) : !/^[A-Z][A-Z0-9_]*$/.test(name);
        return !isGiven && !asksAbout(this.#tree.body, alias);
      })
      .map(({ name }) => ({
        at,
        end,
        code: 'name_unbound',
        severity: inputs.length > 0 ? 'error' : 'warning',
        message: `\`@input\` has no \`${name}\`${inputs.length > 0 ? '' : ' unless it comes in on stdin; a run without it fails'}`,
        hint:
          inputs.length > 0
            ? `it has ${inputs.join(', ')}`
            : 'a script does not see the environment',
      }));
  }

  ofImport(node: NodeOf<'import'>): NameFinding[] {
    const { form, source } = node;
    if (source.kind === 'connector') return this.#ofTools(node, source.name);
    if (source.kind === 'input') return this.#ofInput(node);
    const path = source.kind === 'path' ? staticText(source.path) : undefined;
    if (source.kind === 'path' && path !== undefined && this.#around.exists?.(path) === false) {
      const { at, end } = source.path;
      const message = `there is no \`${path}\` to import`;
      const hint = 'a path is read from the folder of this file, `@root/…` from the project';
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
        const message = `\`${path}\` exports no \`${name}\``;
        const hint =
          hintOfName(name, names) ??
          (names.length > 0 ? `it exports ${names.join(', ')}` : 'it exports nothing');
        return { at, end, code: 'name_unbound', severity: 'error', message, hint };
      });
  }

  /** Names without `@` before them, or with something done to them. */
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

/** Code of one of these kinds and nothing else. */
const isBody = ({ body }: Exe, kinds: readonly string[]): boolean =>
  kinds.includes(bodyKindOf(body)) && !(body.kind === 'with' && body.options.pipeline);

const ENDINGS: Readonly<Record<Use | 'judged', readonly ['error' | 'warning', string]>> = {
  judged: ['error', ', so the guard denies'],
  needed: ['error', ''],
  text: ['warning', ', so it stays as written'],
  open: ['warning', ', so there is never a value here'],
  asked: ['warning', ''],
};

const several = (count: number): string => `${count} ${count === 1 ? 'argument' : 'arguments'}`;

/** `before`: what a pipeline gives in front of those that are written. */
function surplusArguments(
  name: string,
  most: number,
  given: readonly Expression[],
  before: number,
): NameFinding[] {
  const [extra] = given.slice(Math.max(0, most - before));
  if (given.length + before <= most || !extra) return [];
  const takes = several(Math.max(0, most - before));
  const from = before > 0 ? ' beside what comes in' : '';
  return [
    {
      at: extra.at,
      end: given.at(-1)?.end ?? extra.end,
      code: 'argument_surplus',
      severity: 'warning',
      message: `\`@${name}\` takes ${takes}${from}, ${several(given.length)} given`,
      hint: 'what is too much is ignored',
    },
  ];
}

function countArguments(
  node: NodeOf<'reference'>,
  exe: Exe,
  given: readonly Expression[],
  before: number,
  missing: Exe['parameters'],
): NameFinding[] {
  const { parameters, name } = exe;
  const surplus = surplusArguments(name, parameters.length, given, before);
  if (surplus.length > 0) return surplus;
  if (missing.length === 0) return [];
  const list = missing.map((one) => `\`${one.name}\``).join(', ');
  return [
    {
      at: node.at,
      end: node.at + node.name.length + 1,
      code: 'argument_missing',
      severity: 'warning',
      message: `\`@${name}\` gets no ${list} here`,
      hint: `it is \`@${name}(${parameters.map((one) => one.name).join(', ')})\`${
        before > 0 ? '; what comes in is the first' : ''
      }`,
    },
  ];
}

/** Does the function itself ask whether the parameter was given? */
const isOptionalIn = ({ body }: Exe, name: string): boolean => asksAbout(body, name);

/** Is there a question about the name, such as `@x?`, `@x ?? 1` or `@x == null`? */
export function asksAbout(body: unknown, name: string): boolean {
  for (const [node, place] of spoken(body)) {
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

/** `@x => …`, `!@x`, `@x && …`, `@x ? … : …`; in code what looks like these. */
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

/** In order of the text. Broken scripts too: names in what could not be read are not there. */
export function nameFindings(tree: ScriptTree, around: Surroundings): NameFinding[] {
  const names = new Names(tree, around);
  const found: NameFinding[] = [];
  for (const [node, place] of spoken(tree.body, calledByGuards(tree))) {
    if (node.kind === 'reference') found.push(...names.ofReference(node, place));
    else if (node.kind === 'import') found.push(...names.ofImport(node));
    else found.push(...names.ofStatement(node));
  }
  for (const node of tree.body) if (node.kind === 'guard') found.push(...wideExceptions(node));
  const bodies = tree.body.flatMap((node) => (node.kind === 'exe' ? [node.body] : []));
  visit([tree.body, bodies], (node) => found.push(...addedTexts(node)));
  return found.sort((a, b) => a.at - b.at);
}

/** `"a" + "b"`: two texts as they are written. */
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

/** `*`, or what is always true. */
const isAlways = ({ condition }: NodeOf<'arm'>): boolean =>
  condition.kind === 'any' ||
  (condition.kind === 'test' &&
    condition.value.kind === 'literal' &&
    condition.value.value === true);

/** By itself, or at the end of a block. */
function isAllowing(action: NodeOf<'arm'>['action']): boolean {
  const last = action.kind === 'block' ? action.body.at(-1) : undefined;
  const decided = last?.kind === 'return' ? last.value : action;
  return decided?.kind === 'verdict' && decided.decision === 'allow';
}

/** What a privileged guard allows is an exception to policies: of everything, it is none. */
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
        message: `this lifts what policies refuse for every \`${filter}\``,
        hint: 'say for which ones, or leave the arm out: without a match nothing is lifted, and nothing denied',
      },
    ];
  });
}
