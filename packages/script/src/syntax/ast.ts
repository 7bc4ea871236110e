// The tree of a script. Statements act, expressions give a value; an action (an arm, a loop's body, a
// line of a block) may be either. Every node knows where it stands: `at` and `end` are offsets into
// the text of the file, turned into lines and columns only when somebody asks.

export interface Range {
  readonly at: number;
  readonly end: number;
}

interface Nodes extends Statements, Expressions, Stages, TextParts, Inner {}

/** A node of one kind, or of one of several; the tables below say what each holds. */
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
  /** The YAML between the `---` lines, as written. */
  readonly frontMatter: string | undefined;
  readonly body: readonly (NodeOf<'text'> | Statement)[];
}

interface Statements {
  /** `var L1,L2 @x = value` */
  var: Assignment;
  /** `let [labels] @x = value`, only in blocks and among arms. */
  let: Assignment;
  /** `@x += value`, `let @x += value` */
  augment: { name: string; value: Expression };
  /** `exe L @f(a, b) = body [with { … }]`; without a parameter list `parameters` is empty. */
  exe: {
    labels: readonly string[];
    name: string;
    parameters: readonly Parameter[];
    body: Expression;
    /** `with { description }` and friends, when written after the body of a function. */
    options: NodeOf<'options'> | undefined;
  };
  /** `exe js = { up, clean }` */
  helpers: { language: 'js' | 'node' | 'py'; names: readonly string[] };
  /** `show`, `log`, `output`, `append`; also as an arm, an action, an inline stage. */
  effect: {
    effect: 'show' | 'log' | 'output' | 'append';
    /** Absent: `output to "f"` writes the document so far; an inline stage passes its input. */
    value: Expression | undefined;
    target: Target | undefined;
    format: 'json' | 'yaml' | 'text' | undefined;
  };
  /** `run cmd {…}`, `run @f(…)`, `run @x | {…}`: prints its result. */
  run: { action: Expression };
  /** `@f(…)`, `@x | …` on a line of its own. */
  call: { value: Expression };
  /** `when`, `if`, `for`, `loop` where a statement stands. */
  flow: { value: NodeOf<'when' | 'if' | 'for' | 'foreach' | 'loop'> };
  import: {
    form:
      | { readonly kind: 'names'; readonly names: readonly { name: string; alias: string }[] }
      /** `as` undefined: derived from the file's name. */
      | { readonly kind: 'namespace'; readonly alias: string | undefined }
      | {
          readonly kind: 'templates';
          readonly alias: string;
          readonly parameters: readonly Parameter[];
        }
      | { readonly kind: 'policy'; readonly alias: string };
    /** A path, or `@input` / `@payload`, or any other registry-like reference as text. */
    source:
      | { readonly kind: 'path'; readonly path: NodeOf<'template'> }
      /** `tools … from mcp "NAME"` */
      | { readonly kind: 'connector'; readonly name: NodeOf<'template'> }
      | { readonly kind: 'input' | 'payload' };
    /** `static`, `live`, `local`, `cached(1h)`, `module`: as written. */
    mode: string | undefined;
    options: NodeOf<'options'> | undefined;
  };
  /** Undefined: `{ * }`. */
  export: { names: readonly string[] | undefined };
  guard: {
    privileged: boolean;
    name: string | undefined;
    timing: 'before' | 'after' | 'always';
    /** As written: `secret`, `op:exe`, `@f`. */
    filter: string;
    rules: NodeOf<'when'>;
  };
  hook: {
    name: string | undefined;
    timing: 'before' | 'after';
    filter: string;
    /** `@f("src/")`: how the text of the first argument begins. */
    prefix: string | undefined;
    body: NodeOf<'block'>;
  };
  /** `policy @p = { … }` or `union(@a, @b)`. */
  policy: { name: string; members: readonly Expression[] };
  /** `profiles { name: { requires: { cmd: [git], sh } } }`; a bare word counts as `word: true`. */
  profiles: { value: NodeOf<'object'> };
  /** `needs { … }`, bare words allowed as in profiles. */
  needs: { value: NodeOf<'object'> };
  /** `=> value`, `=> label @v`, `=> !label @v`, `=> trusted! @v`, `=> clear! @v`, `return { … }`. */
  return: {
    /** True for the word `return` (a directive's outputs). */
    isOutputs: boolean;
    value: Expression | undefined;
    labels: LabelEdit | undefined;
  };
  bail: { value: Expression | undefined };
  /** What ends a round, an item or an attempt. Legal places are checked by the parser. */
  leave: { word: 'done' | 'continue' | 'skip' | 'retry'; value: Expression | undefined };
  /** A fence of kind `mlld-run`: a strict script inside a markdown one. */
  fence: { body: readonly Statement[] };
}

interface Assignment {
  readonly labels: readonly string[];
  readonly name: string;
  readonly value: Expression;
}

export interface Parameter {
  readonly name: string;
  /** As written after `:`; documentation only. */
  readonly type: string | undefined;
}

export type Target =
  | { readonly kind: 'file'; readonly path: Expression }
  | { readonly kind: 'stdout' | 'stderr' }
  | { readonly kind: 'env'; readonly name: string };

export interface LabelEdit {
  readonly add: readonly string[];
  readonly remove: readonly string[];
  /** `clear!` */
  readonly clear: boolean;
}

interface Expressions {
  /** Numbers, booleans, null, `'literal text'` and interpolating text without anything to put in. */
  literal: {
    value: null | boolean | number | string;
    /** `*`: true, and always matches as a condition. */
    isWildcard?: true;
  };
  template: { style: TextStyle; parts: readonly TemplatePart[] };
  /** `/body/flags`: only the first argument of `match`, `replace`, `replaceAll`, `split`. */
  pattern: { body: string; flags: string };
  array: { items: readonly ArrayItem[] };
  object: { entries: readonly ObjectEntry[] };
  /** `@name` and everything that hangs on it. `@o.f(1)[0]`: field f, call, index 0. */
  reference: {
    name: string;
    steps: readonly PathStep[];
    /** `@x?` as a value of its own: undefined instead of an error where something is missing. */
    isOptional: boolean;
  };
  unary: { operator: '!' | '-'; value: Expression };
  binary: { operator: BinaryOperator; left: Expression; right: Expression };
  ternary: { condition: Expression; then: Expression; else: Expression };
  /** `source | @a | @b`; without a source it begins with a group. */
  pipeline: { source: Expression | undefined; stages: readonly PipelineStage[] };
  /** `value with { stdin: …, guards: … }`; a `pipeline` key is parsed into stages. */
  with: { value: Expression; options: NodeOf<'options'> };
  /** `cmd {…}`, `{…}` and `run "…"`: one entry of `lines` per command line. */
  command: {
    lines: readonly (readonly TemplatePart[])[];
    /** As written between the braces, for the printer. */
    raw: string;
    /** `cmd (@a, @b) {…}`: in its environment. */
    names: readonly NodeOf<'reference'>[];
    /** `cmd:DIR`, `cmd (@a):DIR` */
    folder: NodeOf<'template'> | undefined;
    using: Using | undefined;
  };
  code: {
    language: Language;
    /** `js (@a, @b) {…}` */
    names: readonly NodeOf<'reference'>[];
    /** Between the braces; lines end with `\n`. */
    body: string;
    folder: NodeOf<'template'> | undefined;
    using: Using | undefined;
  };
  /** `<path # Section>`; fields after it (`<a.json>.k[0]`) are `steps`. */
  file: {
    /** Style `bare`; the parts hold `@var`s of the path. */
    path: NodeOf<'template'>;
    sections: Sections | undefined;
    /** `{ greet, *Service }`, `{ ?? }`: the words between the braces. */
    definitions: readonly string[] | undefined;
    /** `as "…"`: a heading, or a template over `<>`. */
    as: NodeOf<'template'> | undefined;
    isOptional: boolean;
    steps: readonly PathStep[];
  };
  /** `run …` where a value stands. */
  'run-value': { action: Expression };
  when: {
    /** `when V [ … ]`: conditions are compared with it. */
    subject: Expression | undefined;
    /** `when C => action` without a list. */
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
    /** `when [ arms ]` in place of a body: what no arm matches is left out. */
    isSifted?: true;
    /** `=> | @stage`: pipes the collected array. */
    batch: readonly PipelineStage[] | undefined;
  };
  /** `foreach @f(@xs, @ys) => | @stage with { separator }` */
  foreach: {
    call: NodeOf<'reference'>;
    batch: readonly PipelineStage[] | undefined;
    options: NodeOf<'options'> | undefined;
  };
  loop: {
    /** Undefined: `loop [ … ]` without a number. */
    limit: Expression | undefined;
    pauseMs: number;
    until: Expression | undefined;
    body: NodeOf<'block'>;
  };
  /** `template "./page.att"` as a function's body. */
  'template-file': { path: NodeOf<'template'> };
  /** `prose { … }`, `llm "…"`, `llm:tier { … }`: a model through the kernel, without tools. */
  model: {
    word: 'prose' | 'llm';
    /** `llm:tier`; undefined: the default. */
    tier: string | undefined;
    prompt: NodeOf<'template'>;
    options: NodeOf<'options'> | undefined;
  };
  /** In a guard's arms only. */
  verdict: {
    decision: 'allow' | 'deny' | 'retry' | 'ask';
    value: Expression | undefined;
    labels: LabelEdit | undefined;
    /** `allow @v with { addLabels, removeLabels }` */
    options: NodeOf<'options'> | undefined;
  };
  block: { body: readonly ActionExpression[] };
}

/** How text was written; decides what is put in, and how the printer writes it again. */
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
   * `@name.field(args)|@stage`, `{{name.field}}`, `@x?`, `` @x?`…` ``, `@x??"d"`. In the `as` of a file
   * a reference named `<>` is the file.
   */
  insert: {
    value: NodeOf<'reference'>;
    stages: readonly PipelineStage[];
    /** What stays when the name is unknown. */
    raw: string;
    mode:
      | { readonly kind: 'plain' | 'optional' }
      | { readonly kind: 'fragment'; readonly parts: readonly TemplatePart[] }
      | { readonly kind: 'default'; readonly value: Expression };
    quote?: Quote;
  };
  /** `<a.md # S>|@stage` inside text. */
  'file-part': {
    file: NodeOf<'file'>;
    stages: readonly PipelineStage[];
    raw: string;
    quote?: Quote;
  };
  /** `/for @x in @xs` … `/end` inside a template. */
  repeat: {
    bind: Binding;
    collection: Expression;
    /** The lines between, each with its line break. */
    parts: readonly TemplatePart[];
    /** The text ends here: the last line break of what it gives is dropped. */
    trimsEnd?: true;
  };
}

/** In commands: the quotes around what is put in. */
export type Quote = 'none' | 'single' | 'double';

export interface ArrayItem {
  readonly value: Expression;
  /** `@x?`: left out when falsy. */
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
  /** `[*]` */
  | { readonly kind: 'each' }
  | { readonly kind: 'call'; readonly arguments: readonly Expression[] }
);

export type Comparison = '<' | '>' | '<=' | '>=';
type Arithmetic = '+' | '-' | '*' | '/' | '%';
type Equality = '==' | '!=' | '~=' | '!~=';
export type BinaryOperator = Comparison | Arithmetic | Equality | '&&' | '||' | '??';

interface Stages {
  /** `@f`, `@f("x")`, `@parse.llm`: the target's last `call` step holds the further arguments. */
  'call-stage': { target: NodeOf<'reference'>; isStream?: true };
  /** `stream sh {…}`: what it says is shown as it comes. */
  'code-stage': { code: NodeOf<'command' | 'code'>; isStream?: true };
  'effect-stage': { effect: NodeOf<'effect'> };
  /** `while(20, 5ms) @step` */
  'while-stage': { limit: Expression; pauseMs: number; target: NodeOf<'reference'> };
  /** `|| @a || @b (2, 5ms)`; the members of one array in `with { pipeline: [...] }`. */
  'group-stage': Parallel & { members: readonly PipelineStage[] };
}

export interface Parallel {
  /** Undefined: the default. */
  readonly cap: Expression | undefined;
  readonly pauseMs: number;
}

/** `using @v as NAME` */
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
  /** `# ??` gives 0, `# ##??` 2; undefined when sections are named. */
  readonly list: number | undefined;
}

export type Condition =
  /** In a match list: equal to its subject. */
  | { readonly kind: 'test'; readonly value: Expression }
  /** `>= 0.7` in a match list. */
  | {
      readonly kind: 'compare';
      readonly operator: Comparison | Equality;
      readonly value: Expression;
    }
  /** `!P`, `P && Q`, `P || Q` in a match list. */
  | { readonly kind: 'not'; readonly pattern: Condition }
  | { readonly kind: 'and' | 'or'; readonly left: Condition; readonly right: Condition }
  | { readonly kind: 'any' | 'none' | 'denied' };

export interface Binding {
  readonly key: string | undefined;
  readonly name: string;
  /** `for @item.path in …`: fields every item must have. */
  readonly path: readonly string[];
}

/** What stands inside others only. */
interface Inner {
  /** Text that passes through, with its line breaks. Only in markdown mode. */
  text: { text: string };
  arm: { condition: Condition; action: ActionExpression };
  options: {
    entries: ReadonlyMap<string, Expression>;
    /** From `pipeline: [@a, [@b, @c], show, @d(1)]`. */
    pipeline: readonly PipelineStage[] | undefined;
  };
}

const isNode = (thing: object): thing is ActionExpression | PipelineStage =>
  'kind' in thing && typeof thing.kind === 'string';

/** Visits a node and everything inside it; functions are not entered. */
export function visit(node: unknown, see: (node: ActionExpression | PipelineStage) => void): void {
  const open: unknown[] = [node];
  // What is absent in a node is on the list too: only an empty list is the end.
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

/** Could it, being a value, also end more than itself? */
export function mayEscape(node: Expression): boolean {
  let found = false;
  visit(node, (inner) => {
    // Items and rounds are left inside of their loop.
    const isOwn = node.kind === 'for' || node.kind === 'loop';
    if (inner.kind === 'leave') found ||= !isOwn || inner.word === 'retry';
    else if (inner.kind === 'bail') found = true;
  });
  return found;
}

/** Names that `+=` rebinds somewhere inside. */
export function augmentedNames(node: ActionExpression): string[] {
  const found = new Set<string>();
  visit(node, (inner) => {
    if (inner.kind === 'augment') found.add(inner.name);
  });
  return [...found];
}

/** What a condition reads. */
export function valuesOf(condition: Condition): Expression[] {
  if ('value' in condition) return [condition.value];
  if ('pattern' in condition) return valuesOf(condition.pattern);
  if (!('left' in condition)) return [];
  return [...valuesOf(condition.left), ...valuesOf(condition.right)];
}

const NO_RESULT = new Set(['effect', 'leave', 'return', 'bail', 'let', 'var', 'exe', 'augment']);

/** An arm whose value ends the function, the round or the block whose line the `when` is. */
export const givesValue = ({ kind }: ActionExpression): boolean =>
  kind !== 'block' && !NO_RESULT.has(kind);

/**
 * Could what stands here end the function, the loop or the script it stands in? `armsReturn`: it is
 * where the value of a `when` arm does.
 */
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
