// The tree of a script. Statements act, expressions give a value; an action (an arm, a loop's body, a
// line of a block) may be either. Every node knows where it stands: `at` and `end` are offsets into
// the text of the file, turned into lines and columns only when somebody asks.

interface Range {
  readonly at: number;
  readonly end: number;
}

interface Nodes extends Statements, Expressions, Stages, TextParts, Inner {}

/** A node of one kind, or of one of several; the tables below say what each holds. */
export type Node<K extends keyof Nodes> = {
  [P in K]: { readonly kind: P } & Range & Nodes[P];
}[K];

export type Statement = Node<keyof Statements>;
export type Expression = Node<keyof Expressions>;
export type PipelineStage = Node<keyof Stages>;
export type TemplatePart = string | Node<keyof TextParts>;
export type ActionExpression = Expression | Statement;

export type Mode = 'markdown' | 'strict';

export interface ScriptTree {
  readonly mode: Mode;
  readonly text: string;
  /** The YAML between the `---` lines, as written. */
  readonly frontMatter: string | undefined;
  readonly body: readonly (Node<'text'> | Statement)[];
}

interface Statements {
  /** `var L1,L2 @x = value` */
  var: Assignment;
  /** `let [labels] @x = value`, only in blocks and among arms. */
  let: Assignment;
  /** `@x += value`, `let @x += value` */
  augment: { readonly name: string; readonly value: Expression };
  /** `exe L @f(a, b) = body [with { … }]`; without a parameter list `parameters` is empty. */
  exe: {
    readonly labels: readonly string[];
    readonly name: string;
    readonly parameters: readonly Parameter[];
    readonly body: Expression;
    /** `with { description }` and friends, when written after the body of a function. */
    readonly options: Node<'options'> | undefined;
  };
  /** `exe js = { up, clean }` */
  helpers: { readonly language: 'js' | 'node'; readonly names: readonly string[] };
  /** `show`, `log`, `output`, `append`; also as an arm, an action, an inline stage. */
  effect: {
    readonly effect: 'show' | 'log' | 'output' | 'append';
    /** Absent: `output to "f"` writes the document so far; an inline stage passes its input. */
    readonly value: Expression | undefined;
    readonly target: Target | undefined;
    readonly format: 'json' | 'yaml' | 'text' | undefined;
  };
  /** `run cmd {…}`, `run @f(…)`, `run @x | {…}`: prints its result. */
  run: { readonly action: Expression };
  /** `@f(…)` on a line of its own. */
  call: { readonly value: Expression };
  /** `when`, `if`, `for`, `loop` where a statement stands. */
  flow: { readonly value: Node<'when' | 'if' | 'for' | 'foreach' | 'loop'> };
  import: {
    readonly form:
      | { readonly kind: 'names'; readonly names: readonly Imported[] }
      /** `as` undefined: derived from the file's name. */
      | { readonly kind: 'namespace'; readonly alias: string | undefined }
      | {
          readonly kind: 'templates';
          readonly alias: string;
          readonly parameters: readonly Parameter[];
        }
      | { readonly kind: 'policy'; readonly alias: string };
    /** A path, or `@input` / `@payload`, or any other registry-like reference as text. */
    readonly source:
      | { readonly kind: 'path'; readonly path: Node<'template'> }
      | { readonly kind: 'input' | 'payload' };
    /** `static`, `live`, `local`, `cached(1h)`, `module`: as written. */
    readonly mode: string | undefined;
    readonly options: Node<'options'> | undefined;
  };
  /** Undefined: `{ * }`. */
  export: { readonly names: readonly string[] | undefined };
  guard: {
    readonly privileged: boolean;
    readonly name: string | undefined;
    readonly timing: 'before' | 'after' | 'always';
    /** As written: `secret`, `op:exe`, `@f`. */
    readonly filter: string;
    readonly rules: Node<'when'>;
  };
  hook: {
    readonly name: string | undefined;
    readonly timing: 'before' | 'after';
    readonly filter: string;
    readonly body: Node<'block'>;
  };
  /** `policy @p = { … }` or `union(@a, @b)`. */
  policy: { readonly name: string; readonly members: readonly Expression[] };
  /** `profiles { name: { requires: { cmd: [git], sh } } }`; a bare word counts as `word: true`. */
  profiles: { readonly value: Node<'object'> };
  /** `needs { … }`, bare words allowed as in profiles. */
  needs: { readonly value: Node<'object'> };
  /** `=> value`, `=> label @v`, `=> !label @v`, `=> trusted! @v`, `=> clear! @v`, `return { … }`. */
  return: {
    /** True for the word `return` (a directive's outputs). */
    readonly isOutputs: boolean;
    readonly value: Expression | undefined;
    readonly labels: LabelEdit | undefined;
  };
  bail: { readonly value: Expression | undefined };
  /** What ends a round, an item or an attempt. Legal places are checked by the parser. */
  leave: {
    readonly word: 'done' | 'continue' | 'skip' | 'retry';
    readonly value: Expression | undefined;
  };
  /** A fence of kind `mlld-run`: a strict script inside a markdown one. */
  fence: { readonly body: readonly Statement[] };
}

interface Imported {
  readonly name: string;
  readonly alias: string;
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
    readonly value: null | boolean | number | string;
    /** `*`: true, and always matches as a condition. */
    readonly isWildcard?: true;
  };
  template: { readonly style: TextStyle; readonly parts: readonly TemplatePart[] };
  array: { readonly items: readonly ArrayItem[] };
  object: { readonly entries: readonly ObjectEntry[] };
  /** `@name` and everything that hangs on it. `@o.f(1)[0]`: field f, call, index 0. */
  reference: {
    readonly name: string;
    readonly steps: readonly PathStep[];
    /** `@x?` as a value of its own: undefined instead of an error where something is missing. */
    readonly isOptional: boolean;
  };
  unary: { readonly operator: '!' | '-'; readonly value: Expression };
  binary: {
    readonly operator: BinaryOperator;
    readonly left: Expression;
    readonly right: Expression;
  };
  ternary: {
    readonly condition: Expression;
    readonly then: Expression;
    readonly else: Expression;
  };
  /** `source | @a | @b`; without a source it begins with a group. */
  pipeline: {
    readonly source: Expression | undefined;
    readonly stages: readonly PipelineStage[];
  };
  /** `value with { stdin: …, guards: … }`; a `pipeline` key is parsed into stages. */
  with: { readonly value: Expression; readonly options: Node<'options'> };
  /** `cmd {…}`, `{…}` and `run "…"`: one entry of `lines` per command line. */
  command: {
    readonly lines: readonly (readonly TemplatePart[])[];
    /** As written between the braces, for the printer. */
    readonly raw: string;
    /** `cmd:DIR` */
    readonly folder: Node<'template'> | undefined;
    readonly using: Using | undefined;
  };
  code: {
    readonly language: Language;
    /** `js (@a, @b) {…}` */
    readonly names: readonly Node<'reference'>[];
    /** Between the braces, untouched. */
    readonly body: string;
    /** Offset of the first character of `body`. */
    readonly bodyAt: number;
    readonly folder: Node<'template'> | undefined;
    readonly using: Using | undefined;
  };
  /** `<path # Section>`; fields after it (`<a.json>.k[0]`) are `steps`. */
  file: {
    /** Style `bare`; the parts hold `@var`s of the path. */
    readonly path: Node<'template'>;
    readonly sections: Sections | undefined;
    /** `{ greet, *Service }`, `{ ?? }`: the words between the braces. */
    readonly definitions: readonly string[] | undefined;
    /** `as "…"`: a heading, or a template over `<>`. */
    readonly as: Node<'template'> | undefined;
    readonly isOptional: boolean;
    readonly steps: readonly PathStep[];
  };
  /** `run …` where a value stands. */
  'run-value': { readonly action: Expression };
  when: {
    /** `when V [ … ]`: conditions are compared with it. */
    readonly subject: Expression | undefined;
    /** `when C => action` without a list. */
    readonly isSimple: boolean;
    readonly items: readonly Node<'arm' | 'let' | 'augment'>[];
  };
  if: {
    readonly condition: Expression;
    readonly then: Node<'block'>;
    readonly else: Node<'block' | 'if'> | undefined;
  };
  for: {
    readonly parallel: Parallel | undefined;
    readonly bind: Binding;
    readonly collection: Expression;
    readonly filter: Expression | undefined;
    readonly body: ActionExpression;
    /** `=> | @stage`: pipes the collected array. */
    readonly batch: readonly PipelineStage[] | undefined;
  };
  /** `foreach @f(@xs, @ys)` */
  foreach: { readonly call: Node<'reference'>; readonly options: Node<'options'> | undefined };
  loop: {
    /** Undefined: `loop [ … ]` without a number. */
    readonly limit: Expression | undefined;
    readonly pauseMs: number;
    readonly until: Expression | undefined;
    readonly body: Node<'block'>;
  };
  /** `template "./page.att"` as a function's body. */
  'template-file': { readonly path: Node<'template'> };
  /** `prose { … }`, `llm "…"`, `llm:tier { … }`: a model through the kernel, without tools. */
  model: {
    readonly word: 'prose' | 'llm';
    /** `llm:tier`; undefined: the default. */
    readonly tier: string | undefined;
    readonly prompt: Node<'template'>;
    readonly options: Node<'options'> | undefined;
  };
  /** In a guard's arms only. */
  verdict: {
    readonly decision: 'allow' | 'deny' | 'retry' | 'ask';
    readonly value: Expression | undefined;
    readonly labels: LabelEdit | undefined;
    /** `allow @v with { addLabels, removeLabels }` */
    readonly options: Node<'options'> | undefined;
  };
  block: { readonly body: readonly ActionExpression[] };
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
    readonly value: Node<'reference'>;
    readonly stages: readonly PipelineStage[];
    /** What stays when the name is unknown. */
    readonly raw: string;
    readonly mode:
      | { readonly kind: 'plain' | 'optional' }
      | { readonly kind: 'fragment'; readonly parts: readonly TemplatePart[] }
      | { readonly kind: 'default'; readonly value: Expression };
    readonly quote?: Quote;
  };
  /** `<a.md # S>|@stage` inside text. */
  'file-part': {
    readonly file: Node<'file'>;
    readonly stages: readonly PipelineStage[];
    readonly raw: string;
    readonly quote?: Quote;
  };
  /** `/for @x in @xs` … `/end` inside a template. */
  repeat: {
    readonly bind: Binding;
    readonly collection: Expression;
    /** The lines between, each with its line break. */
    readonly parts: readonly TemplatePart[];
    /** The text ends here: the last line break of what it gives is dropped. */
    readonly trimsEnd?: true;
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
export type Arithmetic = '+' | '-' | '*' | '/' | '%';
export type BinaryOperator = Comparison | Arithmetic | '==' | '!=' | '&&' | '||' | '??';

interface Stages {
  /** `@f`, `@f("x")`, `@parse.llm`: the target's last `call` step holds the further arguments. */
  'call-stage': { readonly target: Node<'reference'> };
  'code-stage': { readonly code: Node<'command' | 'code'> };
  'effect-stage': { readonly effect: Node<'effect'> };
  /** `while(20, 5ms) @step` */
  'while-stage': {
    readonly limit: Expression;
    readonly pauseMs: number;
    readonly target: Node<'reference'>;
  };
  /** `|| @a || @b (2, 5ms)`; the members of one array in `with { pipeline: [...] }`. */
  'group-stage': Parallel & { readonly members: readonly PipelineStage[] };
}

export interface Parallel {
  /** Undefined: the default. */
  readonly cap: Expression | undefined;
  readonly pauseMs: number;
}

/** `using @v as NAME` */
export interface Using {
  readonly value: Node<'reference'>;
  readonly name: string;
}

export type Language = 'sh' | 'bash' | 'js' | 'node' | 'py';

export interface SectionName {
  readonly name: Node<'template'>;
  readonly isOptional: boolean;
}

export interface Sections {
  readonly include: readonly SectionName[];
  readonly exclude: readonly SectionName[];
  /** `# ??` gives 0, `# ##??` 2; undefined when sections are named. */
  readonly list: number | undefined;
}

export type Condition =
  | { readonly kind: 'test'; readonly value: Expression }
  /** `>= 0.7` in a match list. */
  | {
      readonly kind: 'compare';
      readonly operator: Comparison | '==' | '!=';
      readonly value: Expression;
    }
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
  text: { readonly text: string };
  arm: { readonly condition: Condition; readonly action: ActionExpression };
  options: {
    readonly entries: ReadonlyMap<string, Expression>;
    /** From `pipeline: [@a, [@b, @c], show, @d(1)]`. */
    readonly pipeline: readonly PipelineStage[] | undefined;
  };
}

// Questions about a tree that do not need it to run.

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

/** Names that `+=` rebinds somewhere inside. */
export function augmentedNames(node: ActionExpression): string[] {
  const found = new Set<string>();
  visit(node, (inner) => {
    if (inner.kind === 'augment') found.add(inner.name);
  });
  return [...found];
}

/** Could what stands here end the function, the loop or the script it stands in? */
export function mayLeave(node: ActionExpression): boolean {
  let found = false;
  visit(node, ({ kind }) => {
    if (kind === 'return' || kind === 'leave' || kind === 'bail') found = true;
  });
  return found;
}
