// One line about everything the language itself provides. Data for hover and completion; a test keeps
// it complete.

export type WordList = Readonly<Record<string, string>>;

export const STATEMENTS: WordList = {
  var: '`var [labels] @name = value` binds a name once per file',
  exe: '`exe [labels] @name(a, b) = body` defines a function',
  run: '`run {…}`, `run @f(…)`: runs a command, code or function and prints its result',
  show: '`show value` prints one value',
  log: '`log value` prints one value to stderr',
  output:
    '`output value to target [as json|yaml|text]` writes to a file, stdout, stderr or `env:NAME`',
  append: '`append value to "file"` adds a line to a file',
  import: '`import { a, b as @c } from "./m.mld"` or `import "./m.mld" as @lib`',
  export: '`export { a, b }` limits what other files can import',
  for: '`for @x in @xs [when cond] => action` repeats; as a value it collects',
  when: '`when [ cond => action … ]` takes the first arm that matches; `*` always, `none` when nothing did',
  if: '`if cond [ … ] else [ … ]`',
  loop: '`loop(n) [until cond] [ … ]` repeats until `done`; `continue value` is the next `@input`',
  guard: '`guard [@name] before|after|always FILTER = when [ cond => allow|deny|retry|ask ]`',
  hook: '`hook [@name] before|after FILTER = [ … ]` sees operations and may replace values; decides nothing',
  policy: '`policy @name = { … }` narrows what the rest of the script may do',
  profiles:
    '`profiles { name: { requires: { … } } }`: `@mx.profile` is the first whose needs are met',
  needs: '`needs { cmd: [git], sh }` fails at once when something is missing',
  return: '`return { … }` ends the script with the declared outputs of its directive or tool',
  bail: '`bail "reason"` ends the script with exit code 1',
};

export const BLOCK_WORDS: WordList = {
  let: '`let @name = value` binds a name in this block',
  done: '`done value` ends the loop',
  continue: '`continue value` goes on with the next item or round',
  skip: '`skip` leaves this item out',
  retry: '`retry "hint"` runs the stage before again',
};

export const EFFECT_STAGES: WordList = {
  show: 'prints the passing value, or a text about it',
  log: 'prints to stderr',
  output: '`output to "file"` writes the passing value',
  append: '`append "file"` adds the passing value to a file',
};

export const VERDICTS: WordList = {
  allow: '`allow` lets it happen, `allow value` replaces the judged value',
  deny: '`deny "reason"` refuses; beats every other decision',
  retry: '`retry "hint"` has the judged value made again',
  ask: '`ask "question"` waits for a person',
};

export const TIMINGS: WordList = {
  before: 'judges inputs, before anything happens',
  after: 'judges the result; effects are held back until it is allowed',
  always: 'before and after',
  for: 'the same as before',
};

export const OPERATION_FILTERS: WordList = {
  'op:var': 'assignments',
  'op:run': 'commands and code, also as bodies of functions',
  'op:cmd': 'commands; `op:cmd:git:push` by its words',
  'op:sh': 'shell scripts',
  'op:js': 'js blocks',
  'op:node': 'node blocks',
  'op:py': 'Python blocks',
  'op:exe': 'calls of functions',
  'op:pipeline-stage': 'stages of pipelines',
  'op:show': 'what is printed',
  'op:log': 'what is printed to stderr',
  'op:output': 'what is written to files and other targets',
  'op:append': 'lines added to files',
  'op:tool': 'tools; `op:tool:ID` one of them',
  'op:import': 'imports',
  'op:export': 'exports',
  'op:for': 'loops over lists',
  'op:loop': 'loops with rounds',
};

export const AMBIENT: WordList = {
  root: 'the project folder',
  base: 'the project folder (the same as `@root`)',
  now: 'the time, ISO with milliseconds',
  mx: 'what is going on: operation, pipeline, guard, labels (`@ctx` is the same)',
  ctx: 'what is going on: operation, pipeline, guard, labels (`@mx` is the same)',
  fm: 'the front matter of this file',
  p: 'the pipeline: `@p[0]` its source, `@p[-1]` the last output',
  pipeline: 'the pipeline (the same as `@p`)',
  input: 'stdin, or what a stage, loop, guard or directive was given',
  payload: 'values of `--payload`',
  tool: '`@tool("id", { … })` calls a tool through the kernel',
  help: '`@help("escalate", "…")` asks whoever runs the thread',
};

export const TRANSFORMERS: WordList = {
  parse: 'text to data: JSON, else relaxed JSON; `.strict .loose .llm .fromlist`',
  json: 'text to data, the same as `@parse`',
  pretty: 'two-blank layout, as text',
  xml: 'data or markdown as XML',
  csv: 'a list of objects, or a markdown table, as CSV',
  md: 'text without outer blank lines; data as JSON',
  upper: 'in capitals',
  lower: 'in small letters',
  trim: 'without blanks at both ends',
  sort: 'a list in order, an object by key, a text by lines',
  typeof: 'string number boolean null array object executable',
  exists: 'whether a path, file or glob is there; of other values whether they are not null',
  fileExists: 'whether a path is there',
  keep: 'hands code the whole value: text, data, mx',
  keepStructured: 'the same as `@keep`',
};

export const PARSE_VARIANTS: WordList = {
  strict: 'JSON only',
  loose: 'relaxed JSON: comments, trailing commas, bare keys, single quotes',
  llm: 'the first JSON found in chatty text, null when there is none',
  fromlist: 'the non-empty lines as a list',
};

export const TEXT_METHODS: WordList = {
  length: 'number of characters',
  includes: '`includes(text)`: whether it holds the text',
  indexOf: '`indexOf(text)`: where the text begins, -1 when it does not',
  startsWith: '`startsWith(text)`',
  endsWith: '`endsWith(text)`',
  toLowerCase: 'in small letters',
  toUpperCase: 'in capitals',
  trim: 'without blanks at both ends',
  split: '`split(by)`: a list of parts',
  slice: '`slice(from, to)`: a part; negative numbers count from the end',
  substring: '`substring(from, to)`: a part',
  replace: '`replace(text, with)`: the first one',
  replaceAll: '`replaceAll(text, with)`',
  match: '`match(pattern)`: the list of matches',
  padStart: '`padStart(length, with)`',
  padEnd: '`padEnd(length, with)`',
  repeat: '`repeat(times)`',
  at: '`at(index)`: one character; negative from the end',
};

export const LIST_METHODS: WordList = {
  length: 'number of elements',
  includes: '`includes(value)`: whether it is in the list',
  indexOf: '`indexOf(value)`: its index, -1 when it is not there',
  join: '`join(by)`: one text',
  slice: '`slice(from, to)`: a part of the list',
  concat: '`concat(list)`: both lists as one',
  reverse: 'from last to first, as a copy',
  sort: 'in order, as a copy',
  flat: '`flat(depth)`: without inner lists',
  at: '`at(index)`: one element; negative from the end',
};

export const QUESTIONS: WordList = {
  isArray: 'whether it is a list',
  isObject: 'whether it is an object',
  isString: 'whether it is a text',
  isNumber: 'whether it is a number',
  isBoolean: 'whether it is true or false',
  isNull: 'whether it is null',
  isDefined: 'whether it is there and not null',
};

export const VALUE_MEMBERS: WordList = {
  mx: 'what is known about the value: labels, taint, sources, file facts',
  keep: 'hands code the whole value: text, data, mx',
};

export const CONTEXT: WordList = {
  op: 'the operation: type subtype name labels opLabels command target location',
  operation: 'the same as `op`',
  pipe: 'the pipeline: try tries stage length input lastOutput hint',
  guard: 'in guards and `denied` arms: name filter timing try reason reasons hints trace decision',
  denied: 'true in a `denied` arm',
  errors: 'of the last parallel loop: items that failed',
  for: 'the loop: index total key parallel',
  loop: 'the loop: iteration limit active',
  args: 'the arguments of the call, by name',
  tools: '`calls`: names of the functions called so far',
  profile: 'the first profile whose requirements are met',
  hooks: '`errors`: what went wrong in script hooks',
  thread: 'in a directive: the thread that runs the script',
  cost: 'in a directive: what the thread has used',
  limits: 'in a directive: what the thread may use',
  labels: 'labels of the judged value: declared and inherited',
  taint: 'labels and automatic marks (`src:`, `dir:`) of the judged value',
  sources: 'where the judged value came from',
  try: 'the attempt, from 1',
  tries: 'attempts so far: attempt result hint output',
  stage: 'the stage of the pipeline, from 1; 0 outside',
  length: 'outputs of the pipeline so far',
  input: 'what the stage was given',
  lastOutput: 'what the stage before gave',
  hint: 'what `retry` said, in the stage that runs again',
  isPipeline: 'whether this is a stage',
};

export const OPERATION: WordList = {
  type: 'var run exe show log output append import export for loop tool pipeline-stage',
  subtype: 'of `run` and calls the kind: cmd sh js node py template exe',
  name: 'variable, function or tool',
  labels: 'declared labels of the function',
  opLabels: 'keys that operation filters match',
  sources: 'where the inputs came from',
  command: 'the finished command',
  target: 'where `output` and `append` write',
  location: 'file, line, column',
  risk: 'exfil, destructive, privileged',
  metadata: 'further facts',
};

export const VALUE_MX: WordList = {
  labels: 'declared and inherited labels',
  taint: 'labels and automatic marks (`src:`, `dir:`)',
  sources: 'where it came from',
  tools: 'the functions that made it, in order',
  name: 'of the variable',
  type: 'string number boolean null array object executable',
  length: 'characters, elements or keys',
  tokens: 'model tokens, exact where known',
  tokest: 'model tokens, estimated',
  definedAt: 'file and line',
  exported: 'whether other files can import it',
  text: 'as text',
  data: 'as data',
  keys: 'of an object',
  values: 'of an object',
  entries: 'of an object: `[key, value]` pairs',
  key: 'of a loop item',
  index: 'of a loop item',
  filename: 'of a loaded file',
  relative: 'path of a loaded file, from the project',
  absolute: 'path of a loaded file',
  dirname: 'name of its folder',
  relativeDir: 'its folder, from the project',
  absoluteDir: 'its folder',
  ext: 'extension of a loaded file',
  fm: 'front matter of a loaded file',
};

export const PIPE: WordList = {
  stage: 'the stage, from 1',
  length: 'outputs so far',
  try: 'the attempt, from 1',
  tries: 'outputs of re-runs, per finished retry',
  retries: '`all`: outputs of all re-runs so far',
  guards: 'one record per guard check of this pipeline',
  input: 'what the stage was given',
  hint: 'what `retry` said',
};

export const TAGS: WordList = {
  directive: 'what a thread is to do: name, version and the parts below',
  metadata: 'what is known about the directive, and what it may do',
  description: 'one sentence',
  category: 'where it is listed',
  model: 'tier or model id; the text says what it is for',
  limits: 'the most it may use; required for a thread, empty means all defaults',
  turns: 'replies of the model',
  tokens: 'model tokens, in and out',
  spawns: 'threads it may start',
  duration: 'seconds',
  spend: 'money, with `currency`',
  context: 'below limits: the window, with `warn`; below the directive: facts for the model',
  depth: 'levels of threads below it',
  tool_calls: 'calls of tools',
  permissions: 'what it may touch; empty means nothing',
  read: 'a resource it may read',
  write: 'a resource it may write',
  execute: 'a tool or command it may run',
  hooks: 'conditions, and directives that decide',
  hook: '`when` and the directive that runs then',
  when: 'an expression; bare `<` and `>` are fine',
  guards: 'rules on operations of this directive',
  relationships: 'requires, suggests, extends, related',
  deviation_rules: 'auto_fix, ask_first, escalate',
  inputs: 'what it is given',
  input: 'one input: name, type, required, default',
  process: 'steps for a model, or one script',
  step: 'one step for the model',
  script: 'a script that is run instead of a model',
  outputs: 'what it returns; names, types, `required`',
  success_criteria: 'when it is done',
};
