// Defines the types of the syntax tree. Statements act and expressions give a value. An action (an arm, the
// body of a loop, a line of a block) may be either. Each node has offsets into the text of the file.
// `createLines` converts them into lines and columns.

export interface Range {
  readonly at: number;
  readonly end: number;
}

interface Nodes extends Statements, Expressions, Stages, TextParts, Inner {}

/** A node of one kind, or a union of several. The interfaces below define the fields of each kind. */
export type NodeOf<K extends keyof Nodes> = {
  [P in K]: { readonly kind: P } & Range & Readonly<Nodes[P]>;
}[K];

export type Statement = NodeOf<keyof Statements>;
export type Expression = NodeOf<keyof Expressions>;
export type PipelineStage = NodeOf<keyof Stages>;
export type TemplatePart = string | NodeOf<keyof TextParts>;
export type ActionExpression = Expression | Statement;

export type Mode = 'markdown' | 'strict';

export interface ScriptTree {
  readonly mode: Mode;
  readonly text: string;
  /** Text of the YAML between the `---` lines; absent without front matter. */
  readonly frontMatter: string | undefined;
  readonly body: readonly (NodeOf<'text'> | Statement)[];
}

interface Statements {
  /** Binds a name for the file: `var L1,L2 @x = value`. */
  var: Assignment;
  /** Binds a name in a block or among arms: `let [labels] @x = value`. */
  let: Assignment;
  /** Adds to a variable: `@x += value` or `let @x += value`. */
  augment: { name: string; value: Expression };
  /** Defines a function: `exe L @f(a, b) = body [with { … }]`. Without a parameter list `parameters` is empty. */
  exe: {
    labels: readonly string[];
    name: string;
    parameters: readonly Parameter[];
    body: Expression;
    /** Options such as `with { description }`, if they follow the body of a function. */
    options: NodeOf<'options'> | undefined;
  };
  /** Names functions that blocks of a language may call: `exe js = { up, clean }`. */
  helpers: { language: 'js' | 'node' | 'py'; names: readonly string[] };
  /** One of `show`, `log`, `output` and `append`, as a statement, an arm, an action or an inline stage. */
  effect: {
    effect: 'show' | 'log' | 'output' | 'append';
    /** Absent: `output to "f"` writes the text printed so far, and an inline stage passes its input. */
    value: Expression | undefined;
    target: Target | undefined;
    format: 'json' | 'yaml' | 'text' | undefined;
  };
  /** Prints the result of `run cmd {…}`, `run @f(…)` or `run @x | {…}`. */
  run: { action: Expression };
  /** A call `@f(…)` or pipeline `@x | …` on its own line. */
  call: { value: Expression };
  flow: { value: NodeOf<'when' | 'if' | 'for' | 'foreach' | 'loop'> };
  import: {
    form:
      | { readonly kind: 'names'; readonly names: readonly { name: string; alias: string }[] }
      /** Absent: the alias comes from the name of the file. */
      | { readonly kind: 'namespace'; readonly alias: string | undefined }
      | {
          readonly kind: 'templates';
          readonly alias: string;
          readonly parameters: readonly Parameter[];
        }
      | { readonly kind: 'policy'; readonly alias: string };
    /** A path, `@input`, `@payload`, or a connector. */
    source:
      | { readonly kind: 'path'; readonly path: NodeOf<'template'> }
      /** The connector of `import tools … from mcp "NAME"`. */
      | { readonly kind: 'connector'; readonly name: NodeOf<'template'> }
      | { readonly kind: 'input' | 'payload' };
    /** Text of the mode, such as `static`, `live`, `local`, `cached(1h)` or `module`. */
    mode: string | undefined;
    options: NodeOf<'options'> | undefined;
  };
  export: { names: readonly string[] | undefined };
  guard: {
    privileged: boolean;
    name: string | undefined;
    timing: 'before' | 'after' | 'always';
    /** Text of the filter, such as `secret`, `op:exe` or `@f`. */
    filter: string;
    rules: NodeOf<'when'>;
  };
  hook: {
    name: string | undefined;
    timing: 'before' | 'after';
    filter: string;
    /** Prefix that the text of the first argument must have, as in `@f("src/")`. */
    prefix: string | undefined;
    body: NodeOf<'block'>;
  };
  /** Defines a policy: `policy @p = { … }` or `union(@a, @b)`. */
  policy: { name: string; members: readonly Expression[] };
  /** Profiles: `profiles { name: { requires: { cmd: [git], sh } } }`. A bare word means `word: true`. */
  profiles: { value: NodeOf<'object'> };
  /** Needs: `needs { … }`. A bare word means `word: true`. */
  needs: { value: NodeOf<'object'> };
  /** Returns a value: `=> v`, `=> label @v`, `=> !label @v`, `=> trusted! @v`, `=> clear! @v` or `return { … }`. */
  return: {
    /** True for the word `return`, which gives the outputs of a directive. */
    isOutputs: boolean;
    value: Expression | undefined;
    labels: LabelEdit | undefined;
  };
  bail: { value: Expression | undefined };
  /** Ends a round, an item or an attempt. The parser checks that the word is legal at its location. */
  leave: { word: 'done' | 'continue' | 'skip' | 'retry'; value: Expression | undefined };
  /** A fence of kind `mlld-run`: a strict script inside of a markdown script. */
  fence: { body: readonly Statement[] };
}

interface Assignment {
  readonly labels: readonly string[];
  readonly name: string;
  readonly value: Expression;
}

export interface Parameter {
  readonly name: string;
  /** Text of the type after `:`. It is documentation only. */
  readonly type: string | undefined;
}

export type Target =
  | { readonly kind: 'file'; readonly path: Expression }
  | { readonly kind: 'stdout' | 'stderr' }
  | { readonly kind: 'env'; readonly name: string };

export interface LabelEdit {
  readonly add: readonly string[];
  readonly remove: readonly string[];
  /** True for `clear!`, which removes all labels. */
  readonly clear: boolean;
}

interface Expressions {
  /** A number, boolean, null, `'literal text'`, or a template without references. */
  literal: {
    value: null | boolean | number | string;
    /** True for `*`, which always matches as a condition. */
    isWildcard?: true;
  };
  template: { style: TextStyle; parts: readonly TemplatePart[] };
  /** A pattern `/body/flags`, legal only as the first argument of `match`, `replace`, `replaceAll` and `split`. */
  pattern: { body: string; flags: string };
  array: { items: readonly ArrayItem[] };
  object: { entries: readonly ObjectEntry[] };
  /** A name with its accesses. `@o.f(1)[0]` has the steps field `f`, call and index 0. */
  reference: {
    name: string;
    steps: readonly PathStep[];
    /** True for `@x?` as a value: a missing part gives undefined instead of an error. */
    isOptional: boolean;
  };
  unary: { operator: '!' | '-'; value: Expression };
  binary: { operator: BinaryOperator; left: Expression; right: Expression };
  ternary: { condition: Expression; then: Expression; else: Expression };
  /** A pipeline `source | @a | @b`. Without a source it begins with a group. */
  pipeline: { source: Expression | undefined; stages: readonly PipelineStage[] };
  /** A value with options: `value with { stdin: …, guards: … }`. The key `pipeline` is parsed into stages. */
  with: { value: Expression; options: NodeOf<'options'> };
  /** A command: `cmd {…}`, `{…}` or `run "…"`. `lines` has one entry for each command line. */
  command: {
    lines: readonly (readonly TemplatePart[])[];
    /** Text between the braces, which the printer writes again. */
    raw: string;
    /** Variables for the environment of the command: `cmd (@a, @b) {…}`. */
    names: readonly NodeOf<'reference'>[];
    /** Folder of the command, as in `cmd:DIR` or `cmd (@a):DIR`. */
    folder: NodeOf<'template'> | undefined;
    using: Using | undefined;
  };
  code: {
    language: Language;
    /** Variables that the code receives, as in `js (@a, @b) {…}`. */
    names: readonly NodeOf<'reference'>[];
    /** Text between the braces. Its lines end with `\n`. */
    body: string;
    folder: NodeOf<'template'> | undefined;
    using: Using | undefined;
  };
  /** A file `<path # Section>`. Fields after it, as in `<a.json>.k[0]`, are `steps`. */
  file: {
    /** The path in the style `bare`. Its parts may contain variables. */
    path: NodeOf<'template'>;
    sections: Sections | undefined;
    /** Words between the braces of `{ greet, *Service }` or `{ ?? }`. */
    definitions: readonly string[] | undefined;
    /** The text of `as "…"`: a heading, or a template over `<>`. */
    as: NodeOf<'template'> | undefined;
    isOptional: boolean;
    steps: readonly PathStep[];
  };
  'run-value': { action: Expression };
  when: {
    /** Value of `when V [ … ]` that the conditions are compared with; absent without one. */
    subject: Expression | undefined;
    /** True for `when C => action` without a list. */
    isSimple: boolean;
    items: readonly NodeOf<'arm' | 'let' | 'augment'>[];
  };
  if: { condition: Expression; then: NodeOf<'block'>; else: NodeOf<'block' | 'if'> | undefined };
  for: {
    parallel: Parallel | undefined;
    bind: Binding;
    collection: Expression;
    filter: Expression | undefined;
    body: ActionExpression;
    /** True if `when [ arms ]` is the body. An item that no arm matches is left out. */
    isSifted?: true;
    /** Stages after `=> |`, which process the collected array. */
    batch: readonly PipelineStage[] | undefined;
  };
  /** Calls a function for each combination: `foreach @f(@xs, @ys) => | @stage with { separator }`. */
  foreach: {
    call: NodeOf<'reference'>;
    batch: readonly PipelineStage[] | undefined;
    options: NodeOf<'options'> | undefined;
  };
  loop: {
    /** Maximum number of rounds. Absent for `loop [ … ]` without a number. */
    limit: Expression | undefined;
    pauseMs: number;
    until: Expression | undefined;
    body: NodeOf<'block'>;
  };
  /** A template file as the body of a function: `template "./page.att"`. */
  'template-file': { path: NodeOf<'template'> };
  /** A prompt to a model without tools: `prose { … }`, `llm "…"` or `llm:tier { … }`. */
  model: {
    word: 'prose' | 'llm';
    /** Tier of `llm:tier`. Absent: the default tier. */
    tier: string | undefined;
    prompt: NodeOf<'template'>;
    options: NodeOf<'options'> | undefined;
  };
  /** Decision of a guard. It is legal only in the arms of a guard. */
  verdict: {
    decision: 'allow' | 'deny' | 'retry' | 'ask';
    value: Expression | undefined;
    labels: LabelEdit | undefined;
    /** Options such as `allow @v with { addLabels, removeLabels }`. */
    options: NodeOf<'options'> | undefined;
  };
  block: { body: readonly ActionExpression[] };
}

/** Notation of a text. It decides which references are replaced and how the printer writes the text. */
export type TextStyle =
  | 'double'
  | 'backtick'
  | 'colon'
  | 'mustache'
  | 'single'
  | 'bracket'
  | 'bare'
  | 'file';

interface TextParts {
  /**
   * A reference in a text: `@name.field(args)|@stage`, `{{name.field}}`, `@x?`, `` @x?`…` `` or `@x??"d"`.
   * In the `as` of a file the name `<>` means the file.
   */
  insert: {
    value: NodeOf<'reference'>;
    stages: readonly PipelineStage[];
    /** Text that is printed unchanged if the name is unknown. */
    raw: string;
    mode:
      | { readonly kind: 'plain' | 'optional' }
      | { readonly kind: 'fragment'; readonly parts: readonly TemplatePart[] }
      | { readonly kind: 'default'; readonly value: Expression };
    quote?: Quote;
  };
  /** A file inside of a text: `<a.md # S>|@stage`. */
  'file-part': {
    file: NodeOf<'file'>;
    stages: readonly PipelineStage[];
    raw: string;
    quote?: Quote;
  };
  /** A repetition inside of a template: `/for @x in @xs` … `/end`. */
  repeat: {
    bind: Binding;
    collection: Expression;
    /** Lines of the repetition, each with its line break. */
    parts: readonly TemplatePart[];
    /** True at the end of the text, where the last line break of the result is dropped. */
    trimsEnd?: true;
  };
}

/** Quotes around an inserted value in a command. */
export type Quote = 'none' | 'single' | 'double';

export interface ArrayItem {
  readonly value: Expression;
  /** True for `@x?`: the item is left out if it is falsy. */
  readonly isOptional: boolean;
  readonly isSpread: boolean;
}

export type ObjectEntry =
  | {
      readonly kind: 'pair';
      readonly key: string;
      readonly value: Expression;
      readonly isOptional: boolean;
    }
  | { readonly kind: 'spread'; readonly value: Expression };

export type PathStep = { readonly at: number } & (
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'index'; readonly index: Expression }
  | {
      readonly kind: 'slice';
      readonly from: Expression | undefined;
      readonly to: Expression | undefined;
    }
  /** The step `[*]`, which reads each element. */
  | { readonly kind: 'each' }
  | { readonly kind: 'call'; readonly arguments: readonly Expression[] }
);

export type Comparison = '<' | '>' | '<=' | '>=';
type Arithmetic = '+' | '-' | '*' | '/' | '%';
type Equality = '==' | '!=' | '~=' | '!~=';
export type BinaryOperator = Comparison | Arithmetic | Equality | '&&' | '||' | '??';

interface Stages {
  /** A stage `@f`, `@f("x")` or `@parse.llm`. The last `call` step of the target has the further arguments. */
  'call-stage': { target: NodeOf<'reference'>; isStream?: true };
  /** A stage of code. `stream sh {…}` prints its output in pieces. */
  'code-stage': { code: NodeOf<'command' | 'code'>; isStream?: true };
  'effect-stage': { effect: NodeOf<'effect'> };
  /** A repeated stage: `while(20, 5ms) @step`. */
  'while-stage': { limit: Expression; pauseMs: number; target: NodeOf<'reference'> };
  /** A parallel group: `|| @a || @b (2, 5ms)`, or an array inside of `with { pipeline: [...] }`. */
  'group-stage': Parallel & { members: readonly PipelineStage[] };
}

export interface Parallel {
  /** Maximum number of concurrent members. Absent: the default. */
  readonly cap: Expression | undefined;
  readonly pauseMs: number;
}

/** Passes a value as an environment variable: `using @v as NAME`. */
export interface Using {
  readonly value: NodeOf<'reference'>;
  readonly name: string;
}

export type Language = 'sh' | 'bash' | 'js' | 'node' | 'py';

export interface SectionName {
  readonly name: NodeOf<'template'>;
  readonly isOptional: boolean;
}

export interface Sections {
  readonly include: readonly SectionName[];
  readonly exclude: readonly SectionName[];
  /** Heading level of a listing: 0 for `# ??`, 2 for `# ##??`. Absent if sections are named. */
  readonly list: number | undefined;
}

export type Condition =
  /** A value in a match list, which must equal the subject. */
  | { readonly kind: 'test'; readonly value: Expression }
  /** A comparison in a match list, such as `>= 0.7`. */
  | {
      readonly kind: 'compare';
      readonly operator: Comparison | Equality;
      readonly value: Expression;
    }
  /** Combinations `!P`, `P && Q` and `P || Q` in a match list. */
  | { readonly kind: 'not'; readonly pattern: Condition }
  | { readonly kind: 'and' | 'or'; readonly left: Condition; readonly right: Condition }
  | { readonly kind: 'any' | 'none' | 'denied' };

export interface Binding {
  readonly key: string | undefined;
  readonly name: string;
  /** Fields that each item must have, as in `for @item.path in …`. */
  readonly path: readonly string[];
}

/** Nodes that occur only inside of other nodes. */
interface Inner {
  /** Text that is printed with its line breaks. It occurs only in markdown mode. */
  text: { text: string };
  arm: { condition: Condition; action: ActionExpression };
  options: {
    entries: ReadonlyMap<string, Expression>;
    /** Stages from `pipeline: [@a, [@b, @c], show, @d(1)]`. */
    pipeline: readonly PipelineStage[] | undefined;
  };
}

const isNode = (thing: object): thing is ActionExpression | PipelineStage =>
  'kind' in thing && typeof thing.kind === 'string';

/** Visits a node and all nodes inside of it, except the bodies of functions. */
export function visit(node: unknown, see: (node: ActionExpression | PipelineStage) => void): void {
  const open: unknown[] = [node];
  // Absent fields are pushed too, so only an empty list ends the walk.
  while (open.length > 0) {
    const item = open.pop();
    if (Array.isArray(item)) open.push(...item);
    else if (item instanceof Map) open.push(...item.values());
    else if (typeof item === 'object' && item !== null) {
      if (isNode(item)) see(item);
      if ('kind' in item && item.kind === 'exe') continue;
      open.push(...Object.values(item));
    }
  }
}

/** True if the value can end an enclosing function, loop or script. */
export function mayEscape(node: Expression): boolean {
  let found = false;
  visit(node, (inner) => {
    // `done`, `continue` and `skip` inside of a loop end only that loop.
    const isOwn = node.kind === 'for' || node.kind === 'loop';
    if (inner.kind === 'leave') found ||= !isOwn || inner.word === 'retry';
    else if (inner.kind === 'bail') found = true;
  });
  return found;
}

export function augmentedNames(node: ActionExpression): string[] {
  const found = new Set<string>();
  visit(node, (inner) => {
    if (inner.kind === 'augment') found.add(inner.name);
  });
  return [...found];
}

export function valuesOf(condition: Condition): Expression[] {
  if ('value' in condition) return [condition.value];
  if ('pattern' in condition) return valuesOf(condition.pattern);
  if (!('left' in condition)) return [];
  return [...valuesOf(condition.left), ...valuesOf(condition.right)];
}

const NO_RESULT = new Set(['effect', 'leave', 'return', 'bail', 'let', 'var', 'exe', 'augment']);

/** True if the value of a `when` arm with this action ends the function, round or block around the `when`. */
export const givesValue = ({ kind }: ActionExpression): boolean =>
  kind !== 'block' && !NO_RESULT.has(kind);

/** True if the node can end the code around it. With `armsReturn` the value of a `when` arm ends it too. */
export function mayLeave(node: ActionExpression, armsReturn: boolean): boolean {
  let found = false;
  visit(node, (inner) => {
    const { kind } = inner;
    if (kind === 'return' || kind === 'leave' || kind === 'bail') found = true;
    const isChoice = armsReturn && kind === 'flow' && inner.value.kind === 'when';
    if (isChoice && inner.value.items.some((item) => 'action' in item && givesValue(item.action)))
      found = true;
  });
  return found;
}
