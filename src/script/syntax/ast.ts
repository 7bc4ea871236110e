// Questions about a tree that do not need it to run.

type Tree = ActionExpression | PipelineStage;

const isNode = (thing: unknown): thing is Tree =>
  typeof thing === 'object' && thing !== null && 'kind' in thing && typeof thing.kind === 'string';

/** Visits a node and everything inside it; functions are not entered. */
export function visit(node: unknown, see: (node: Tree) => void): void {
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

const names = new WeakMap<object, readonly string[]>();

/** Names that `+=` rebinds somewhere inside. */
export function augmentedNames(node: ActionExpression): readonly string[] {
  const known = names.get(node);
  if (known) return known;
  const found = new Set<string>();
  visit(node, (inner) => {
    if (inner.kind === 'augment') found.add(inner.name);
  });
  const list = [...found];
  names.set(node, list);
  return list;
}

const leaves = new WeakMap<object, boolean>();

/** Could what stands here end the function, the loop or the script it stands in? */
export function mayLeave(node: ActionExpression): boolean {
  const known = leaves.get(node);
  if (known !== undefined) return known;
  let found = false;
  visit(node, ({ kind }) => {
    if (kind === 'return' || kind === 'leave' || kind === 'bail') found = true;
  });
  leaves.set(node, found);
  return found;
}

// The tree of a script. Statements act, expressions give a value; an action (an arm, a loop's body, a
// line of a block) may be either. Every node knows where it stands: `at` and `end` are offsets into
// the text of the file, turned into lines and columns only when somebody asks.

interface Node {
  readonly at: number;
  readonly end: number;
}

export type Mode = 'markdown' | 'strict';

export interface ScriptTree {
  readonly mode: Mode;
  readonly text: string;
  /** The YAML between the `---` lines, as written. */
  readonly frontMatter: string | undefined;
  readonly body: readonly (TextLine | Statement)[];
}

/** Text that passes through, with its line breaks. Only in markdown mode. */
export interface TextLine extends Node {
  readonly kind: 'text';
  readonly text: string;
}

// ---- statements

export type Statement =
  | VarStatement
  | ExeStatement
  | HelpersStatement
  | EffectStatement
  | RunStatement
  | CallStatement
  | FlowStatement
  | ImportStatement
  | ExportStatement
  | GuardStatement
  | HookStatement
  | PolicyStatement
  | ProfilesStatement
  | NeedsStatement
  | ReturnStatement
  | BailStatement
  | LetStatement
  | AugmentStatement
  | LeaveStatement
  | FenceStatement;

/** `var L1,L2 @x = value` */
export interface VarStatement extends Node {
  readonly kind: 'var';
  readonly labels: readonly string[];
  readonly name: string;
  readonly value: Expression;
}

export interface Parameter {
  readonly name: string;
  /** As written after `:`; documentation only. */
  readonly type: string | undefined;
}

/** `exe L @f(a, b) = body [with { … }]`; without a parameter list `parameters` is empty. */
export interface ExeStatement extends Node {
  readonly kind: 'exe';
  readonly labels: readonly string[];
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly body: Expression;
  /** `with { description }` and friends, when written after the body of a function. */
  readonly options: Options | undefined;
}

/** `exe js = { up, clean }` */
export interface HelpersStatement extends Node {
  readonly kind: 'helpers';
  readonly language: 'js' | 'node';
  readonly names: readonly string[];
}

/** `show`, `log`, `output`, `append`; also as an arm, an action, an inline stage. */
export interface EffectStatement extends Node {
  readonly kind: 'effect';
  readonly effect: 'show' | 'log' | 'output' | 'append';
  /** Absent: `output to "f"` writes the document so far; an inline stage passes its input. */
  readonly value: Expression | undefined;
  readonly target: Target | undefined;
  readonly format: 'json' | 'yaml' | 'text' | undefined;
}

export type Target =
  | { readonly kind: 'file'; readonly path: Expression }
  | { readonly kind: 'stdout' | 'stderr' }
  | { readonly kind: 'env'; readonly name: string };

/** `run cmd {…}`, `run @f(…)`, `run @x | {…}`: prints its result. */
interface RunStatement extends Node {
  readonly kind: 'run';
  readonly action: Expression;
}

/** `@f(…)` on a line of its own. */
interface CallStatement extends Node {
  readonly kind: 'call';
  readonly value: Expression;
}

/** `when`, `if`, `for`, `loop` where a statement stands. */
export interface FlowStatement extends Node {
  readonly kind: 'flow';
  readonly value:
    | WhenExpression
    | IfExpression
    | ForExpression
    | ForeachExpression
    | LoopExpression;
}

interface ImportName {
  readonly name: string;
  readonly alias: string;
}

export interface ImportStatement extends Node {
  readonly kind: 'import';
  readonly form:
    | { readonly kind: 'names'; readonly names: readonly ImportName[] }
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
    | { readonly kind: 'path'; readonly path: TemplateExpression }
    | { readonly kind: 'input' | 'payload' };
  /** `static`, `live`, `local`, `cached(1h)`, `module`: as written. */
  readonly mode: string | undefined;
  readonly options: Options | undefined;
}

export interface ExportStatement extends Node {
  readonly kind: 'export';
  /** Undefined: `{ * }`. */
  readonly names: readonly string[] | undefined;
}

export interface GuardStatement extends Node {
  readonly kind: 'guard';
  readonly privileged: boolean;
  readonly name: string | undefined;
  readonly timing: 'before' | 'after' | 'always';
  /** As written: `secret`, `op:exe`, `@f`. */
  readonly filter: string;
  readonly rules: WhenExpression;
}

export interface HookStatement extends Node {
  readonly kind: 'hook';
  readonly name: string | undefined;
  readonly timing: 'before' | 'after';
  readonly filter: string;
  readonly body: StatementBlock;
}

/** `policy @p = { … }` or `union(@a, @b)`: then `value` is an array of the members. */
export interface PolicyStatement extends Node {
  readonly kind: 'policy';
  readonly name: string;
  readonly members: readonly Expression[];
}

/** `profiles { name: { requires: { cmd: [git], sh } } }`; a bare word counts as `word: true`. */
export interface ProfilesStatement extends Node {
  readonly kind: 'profiles';
  readonly value: ObjectExpression;
}

/** `needs { … }`, bare words allowed as in profiles. */
export interface NeedsStatement extends Node {
  readonly kind: 'needs';
  readonly value: ObjectExpression;
}

/** `=> value`, `=> label @v`, `=> !label @v`, `=> trusted! @v`, `=> clear! @v`, and `return { … }`. */
export interface ReturnStatement extends Node {
  readonly kind: 'return';
  /** True for the word `return` (a directive's outputs). */
  readonly isOutputs: boolean;
  readonly value: Expression | undefined;
  readonly labels: LabelEdit | undefined;
}

export interface LabelEdit {
  readonly add: readonly string[];
  readonly remove: readonly string[];
  /** `clear!` */
  readonly clear: boolean;
}

interface BailStatement extends Node {
  readonly kind: 'bail';
  readonly value: Expression | undefined;
}

/** `let [labels] @x = value`, only in blocks and among arms. */
export interface LetStatement extends Node {
  readonly kind: 'let';
  readonly labels: readonly string[];
  readonly name: string;
  readonly value: Expression;
}

/** `@x += value`, `let @x += value` */
export interface AugmentStatement extends Node {
  readonly kind: 'augment';
  readonly name: string;
  readonly value: Expression;
}

/** What ends a round, an item or an attempt. Legal places are checked by the parser. */
export interface LeaveStatement extends Node {
  readonly kind: 'leave';
  readonly word: 'done' | 'continue' | 'skip' | 'retry';
  readonly value: Expression | undefined;
}

/** A fence of kind `mlld-run`: a strict script inside a markdown one. */
export interface FenceStatement extends Node {
  readonly kind: 'fence';
  readonly body: readonly Statement[];
}

export type ActionExpression = Expression | Statement;

export interface StatementBlock extends Node {
  readonly kind: 'block';
  readonly body: readonly ActionExpression[];
}

// ---- expressions

export type Expression =
  | LiteralExpression
  | TemplateExpression
  | ArrayExpression
  | ObjectExpression
  | ReferenceExpression
  | UnaryExpression
  | BinaryExpression
  | TernaryExpression
  | PipelineExpression
  | WithExpression
  | CommandExpression
  | CodeExpression
  | FileExpression
  | RunExpression
  | WhenExpression
  | IfExpression
  | ForExpression
  | ForeachExpression
  | LoopExpression
  | TemplateFileExpression
  | ModelExpression
  | VerdictExpression
  | StatementBlock;

/** Numbers, booleans, null, `'literal text'` and interpolating text without anything to put in. */
export interface LiteralExpression extends Node {
  readonly kind: 'literal';
  readonly value: null | boolean | number | string;
  /** `*`: true, and always matches as a condition. */
  readonly isWildcard?: true;
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

export interface TemplateExpression extends Node {
  readonly kind: 'template';
  readonly style: TextStyle;
  readonly parts: readonly TemplatePart[];
}

export type TemplatePart = string | InsertPart | FilePart | RepeatPart;

/**
 * `@name.field(args)|@stage`, `{{name.field}}`, `@x?`, `` @x?`…` ``, `@x??"d"`. In the `as` of a file
 * a reference named `<>` is the file.
 */
export interface InsertPart extends Node {
  readonly kind: 'insert';
  readonly value: ReferenceExpression;
  readonly stages: readonly PipelineStage[];
  /** What stays when the name is unknown. */
  readonly raw: string;
  readonly mode:
    | { readonly kind: 'plain' | 'optional' }
    | { readonly kind: 'fragment'; readonly parts: readonly TemplatePart[] }
    | { readonly kind: 'default'; readonly value: Expression };
  /** In commands: the quotes around it. */
  readonly quote?: 'none' | 'single' | 'double';
}

/** `<a.md # S>|@stage` inside text. */
export interface FilePart extends Node {
  readonly kind: 'file-part';
  readonly file: FileExpression;
  readonly stages: readonly PipelineStage[];
  readonly raw: string;
  readonly quote?: 'none' | 'single' | 'double';
}

/** `/for @x in @xs` … `/end` inside a template. */
export interface RepeatPart extends Node {
  readonly kind: 'repeat';
  readonly bind: Binding;
  readonly collection: Expression;
  /** The lines between, each with its line break. */
  readonly parts: readonly TemplatePart[];
  /** The text ends here: the last line break of what it gives is dropped. */
  readonly trimsEnd?: true;
}

export interface ArrayItem {
  readonly value: Expression;
  /** `@x?`: left out when falsy. */
  readonly isOptional: boolean;
  readonly isSpread: boolean;
}

export interface ArrayExpression extends Node {
  readonly kind: 'array';
  readonly items: readonly ArrayItem[];
}

export type ObjectEntry =
  | {
      readonly kind: 'pair';
      readonly key: string;
      readonly value: Expression;
      readonly isOptional: boolean;
    }
  | { readonly kind: 'spread'; readonly value: Expression };

export interface ObjectExpression extends Node {
  readonly kind: 'object';
  readonly entries: readonly ObjectEntry[];
}

/** `@name` and everything that hangs on it. `@o.f(1)[0]`: field f, call, index 0. */
export interface ReferenceExpression extends Node {
  readonly kind: 'reference';
  readonly name: string;
  readonly steps: readonly PathStep[];
  /** `@x?` as a value of its own: undefined instead of an error where something is missing. */
  readonly isOptional: boolean;
}

export type PathStep =
  | { readonly kind: 'field'; readonly name: string; readonly at: number }
  | { readonly kind: 'index'; readonly index: Expression; readonly at: number }
  | {
      readonly kind: 'slice';
      readonly from: Expression | undefined;
      readonly to: Expression | undefined;
      readonly at: number;
    }
  /** `[*]` */
  | { readonly kind: 'each'; readonly at: number }
  | { readonly kind: 'call'; readonly arguments: readonly Expression[]; readonly at: number };

export interface UnaryExpression extends Node {
  readonly kind: 'unary';
  readonly operator: '!' | '-';
  readonly value: Expression;
}

export type BinaryOperator =
  | '+'
  | '-'
  | '*'
  | '/'
  | '%'
  | '=='
  | '!='
  | '<'
  | '>'
  | '<='
  | '>='
  | '&&'
  | '||'
  | '??';

export interface BinaryExpression extends Node {
  readonly kind: 'binary';
  readonly operator: BinaryOperator;
  readonly left: Expression;
  readonly right: Expression;
}

export interface TernaryExpression extends Node {
  readonly kind: 'ternary';
  readonly condition: Expression;
  readonly then: Expression;
  readonly else: Expression;
}

/** `source | @a | @b`; without a source it begins with a group. */
export interface PipelineExpression extends Node {
  readonly kind: 'pipeline';
  readonly source: Expression | undefined;
  readonly stages: readonly PipelineStage[];
}

export type PipelineStage = CallStage | CodeStage | EffectStage | WhileStage | GroupStage;

/** `@f`, `@f("x")`, `@parse.llm`: the target's last `call` step holds the further arguments. */
export interface CallStage extends Node {
  readonly kind: 'call-stage';
  readonly target: ReferenceExpression;
}

export interface CodeStage extends Node {
  readonly kind: 'code-stage';
  readonly code: CommandExpression | CodeExpression;
}

export interface EffectStage extends Node {
  readonly kind: 'effect-stage';
  readonly effect: EffectStatement;
}

/** `while(20, 5ms) @step` */
export interface WhileStage extends Node {
  readonly kind: 'while-stage';
  readonly limit: Expression;
  readonly pauseMs: number;
  readonly target: ReferenceExpression;
}

/** `|| @a || @b (2, 5ms)`; the members of one array in `with { pipeline: [...] }`. */
export interface GroupStage extends Node {
  readonly kind: 'group-stage';
  readonly members: readonly PipelineStage[];
  readonly cap: Expression | undefined;
  readonly pauseMs: number;
}

/** `value with { stdin: …, guards: … }`; a `pipeline` key is parsed into stages. */
export interface WithExpression extends Node {
  readonly kind: 'with';
  readonly value: Expression;
  readonly options: Options;
}

export interface Options extends Node {
  readonly kind: 'options';
  readonly entries: ReadonlyMap<string, Expression>;
  /** From `pipeline: [@a, [@b, @c], show, @d(1)]`. */
  readonly pipeline: readonly PipelineStage[] | undefined;
}

/** `cmd {…}`, `{…}` and `run "…"`: one entry of `lines` per command line. */
export interface CommandExpression extends Node {
  readonly kind: 'command';
  readonly lines: readonly (readonly TemplatePart[])[];
  /** As written between the braces, for the printer. */
  readonly raw: string;
  /** `cmd:DIR` */
  readonly folder: TemplateExpression | undefined;
  readonly using: Using | undefined;
}

/** `using @v as NAME` */
export interface Using {
  readonly value: ReferenceExpression;
  readonly name: string;
}

export type Language = 'sh' | 'bash' | 'js' | 'node' | 'py';

export interface CodeExpression extends Node {
  readonly kind: 'code';
  readonly language: Language;
  /** `js (@a, @b) {…}` */
  readonly names: readonly ReferenceExpression[];
  /** Between the braces, untouched. */
  readonly body: string;
  /** Offset of the first character of `body`. */
  readonly bodyAt: number;
  readonly folder: TemplateExpression | undefined;
  readonly using: Using | undefined;
}

/** `<path # Section>`; fields after it (`<a.json>.k[0]`) are `steps`. */
export interface FileExpression extends Node {
  readonly kind: 'file';
  /** Style `bare`; the parts hold `@var`s of the path. */
  readonly path: TemplateExpression;
  readonly sections: Sections | undefined;
  /** `{ greet, *Service }`, `{ ?? }`: the words between the braces. */
  readonly definitions: readonly string[] | undefined;
  /** `as "…"`: a heading, or a template over `<>`. */
  readonly as: TemplateExpression | undefined;
  readonly isOptional: boolean;
  readonly steps: readonly PathStep[];
}

export interface SectionName {
  readonly name: TemplateExpression;
  readonly isOptional: boolean;
}

export interface Sections {
  readonly include: readonly SectionName[];
  readonly exclude: readonly SectionName[];
  /** `# ??` gives 0, `# ##??` 2; undefined when sections are named. */
  readonly list: number | undefined;
}

/** `run …` where a value stands. */
interface RunExpression extends Node {
  readonly kind: 'run-value';
  readonly action: Expression;
}

export type Condition =
  | { readonly kind: 'test'; readonly value: Expression }
  /** `>= 0.7` in a match list. */
  | { readonly kind: 'compare'; readonly operator: BinaryOperator; readonly value: Expression }
  | { readonly kind: 'any' | 'none' | 'denied' };

export interface Arm extends Node {
  readonly kind: 'arm';
  readonly condition: Condition;
  readonly action: ActionExpression;
}

export interface WhenExpression extends Node {
  readonly kind: 'when';
  /** `when V [ … ]`: conditions are compared with it. */
  readonly subject: Expression | undefined;
  /** `when C => action` without a list. */
  readonly isSimple: boolean;
  readonly items: readonly (Arm | LetStatement | AugmentStatement)[];
}

export interface IfExpression extends Node {
  readonly kind: 'if';
  readonly condition: Expression;
  readonly then: StatementBlock;
  readonly else: StatementBlock | IfExpression | undefined;
}

export interface Binding {
  readonly key: string | undefined;
  readonly name: string;
  /** `for @item.path in …`: fields every item must have. */
  readonly path: readonly string[];
}

export interface Parallel {
  /** Undefined: the default. */
  readonly cap: Expression | undefined;
  readonly pauseMs: number;
}

export interface ForExpression extends Node {
  readonly kind: 'for';
  readonly parallel: Parallel | undefined;
  readonly bind: Binding;
  readonly collection: Expression;
  readonly filter: Expression | undefined;
  readonly body: ActionExpression;
  /** `=> | @stage`: pipes the collected array. */
  readonly batch: readonly PipelineStage[] | undefined;
}

/** `foreach @f(@xs, @ys)` */
export interface ForeachExpression extends Node {
  readonly kind: 'foreach';
  readonly call: ReferenceExpression;
  readonly options: Options | undefined;
}

export interface LoopExpression extends Node {
  readonly kind: 'loop';
  /** Undefined: `loop [ … ]` without a number. */
  readonly limit: Expression | undefined;
  readonly pauseMs: number;
  readonly until: Expression | undefined;
  readonly body: StatementBlock;
}

/** `template "./page.att"` as a function's body. */
export interface TemplateFileExpression extends Node {
  readonly kind: 'template-file';
  readonly path: TemplateExpression;
}

/** `prose { … }`, `llm "…"`, `llm:tier { … }`: a model through the kernel, without tools. */
export interface ModelExpression extends Node {
  readonly kind: 'model';
  readonly word: 'prose' | 'llm';
  /** `llm:tier`; undefined: the default. */
  readonly tier: string | undefined;
  readonly prompt: TemplateExpression;
  readonly options: Options | undefined;
}

/** In a guard's arms only. */
export interface VerdictExpression extends Node {
  readonly kind: 'verdict';
  readonly decision: 'allow' | 'deny' | 'retry' | 'ask';
  readonly value: Expression | undefined;
  readonly labels: LabelEdit | undefined;
  /** `allow @v with { addLabels, removeLabels }` */
  readonly options: Options | undefined;
}
