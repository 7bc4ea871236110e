// The commands below `threads` and `approvals`, as data.
import type { CommandSpec } from './command.ts';

const THREAD = ['[thread]', 'its id, or `last` (default)'] as const;
const ONE_THREAD = ['<thread>', 'its id, or `last`'] as const;
const signalling = (name: 'pause' | 'inject' | 'interrupt' | 'stop' | 'kill') => async () =>
  (await import('./commands/threads/signal.ts'))[name];

const THREADS: readonly CommandSpec[] = [
  {
    name: 'ls',
    summary: 'list threads, newest first',
    options: [
      ['--status <list>', 'only these, comma separated'],
      ['--directive <id>', 'only of this directive'],
      ['--within <thread>', 'only this one and those below it'],
      ['--order <by>', '`created` (default) or `updated`'],
      ['--hooks', 'also threads that ran for a hook'],
      ['-n, --limit <count>', 'how many at most (default 20)'],
      ['--cursor <cursor>', 'go on where the last answer ended'],
    ],
    load: async () => (await import('./commands/threads/list.ts')).listThreads,
  },
  {
    name: 'show',
    summary: 'what was said, done, refused and decided, and what it cost',
    args: [THREAD],
    options: [['--full', 'nothing shortened']],
    load: async () => (await import('./commands/threads/show.ts')).run,
  },
  {
    name: 'tree',
    summary: 'the whole tree a thread belongs to, hooks included',
    args: [THREAD],
    load: async () => (await import('./commands/threads/list.ts')).showTree,
  },
  {
    name: 'tail',
    summary: 'the latest events of a thread',
    args: [THREAD],
    options: [
      ['-f, --follow', 'and those that come, until it ends'],
      ['-n, --limit <count>', 'how many at first (default 20)'],
    ],
    load: async () => (await import('./commands/threads/follow.ts')).tailThread,
  },
  {
    name: 'top',
    summary: 'who is at work now, live',
    load: async () => (await import('./commands/threads/follow.ts')).watchAll,
  },
  {
    name: 'pause',
    summary: 'stop at the next step until it is resumed',
    args: [ONE_THREAD],
    options: [['--reason <text>', 'why, for the record']],
    load: signalling('pause'),
  },
  {
    name: 'resume',
    summary: 'go on with a paused or interrupted thread, in this process',
    args: [ONE_THREAD],
    options: [
      ['-m, --message <text>', 'what it is told first'],
      ['--from <snapshot>', 'go back to this snapshot first: its number, or `last`'],
    ],
    load: async () => (await import('./commands/threads/resume.ts')).run,
  },
  {
    name: 'inject',
    summary: 'say something to the model, before its next turn',
    args: [ONE_THREAD, ['<words...>', 'what to say']],
    options: [['--role <role>', '`user` (default) or `system`']],
    load: signalling('inject'),
  },
  {
    name: 'interrupt',
    summary: 'break off the reply that is coming, and say something instead',
    args: [ONE_THREAD, ['[words...]', 'what to say']],
    load: signalling('interrupt'),
  },
  {
    name: 'stop',
    summary: 'end a thread and those below it, at their next step',
    args: [ONE_THREAD],
    load: signalling('stop'),
  },
  {
    name: 'kill',
    summary: 'end it even when it does not answer',
    args: [ONE_THREAD],
    load: signalling('kill'),
  },
  {
    name: 'wait',
    summary: 'wait until threads have ended or need somebody',
    args: [['<threads...>', 'their ids']],
    options: [['--timeout <seconds>', 'at most so long']],
    load: async () => (await import('./commands/threads/follow.ts')).waitForThreads,
  },
  {
    name: 'prune',
    summary: 'remove old threads; budgets and audit stay',
    options: [
      ['--older-than <age>', 'such as 30d, 12h or 2w (default: the policy’s `retention`)'],
      ['--keep-failed', 'keep trees in which a thread failed'],
    ],
    load: async () => (await import('./commands/threads/prune.ts')).run,
  },
];

const APPROVAL = ['<approval>', 'its id, as `km approvals ls` shows it'] as const;
const WHY = ['--why <text>', 'for the record'] as const;
const deciding = (name: 'approve' | 'deny' | 'answer') => async () =>
  (await import('./commands/approvals.ts'))[name];

const APPROVALS: readonly CommandSpec[] = [
  {
    name: 'ls',
    summary: 'list what waits for an answer',
    options: [
      ['--all', 'also what was decided'],
      ['--thread <thread>', 'only of this one'],
    ],
    load: async () => (await import('./commands/approvals.ts')).listApprovals,
  },
  {
    name: 'approve',
    summary: 'allow exactly what was asked for',
    args: [APPROVAL],
    options: [
      ['--uses <count>', 'how often it may be used'],
      ['--for <time>', 'how long it holds, such as 15m or 2h'],
      ['--beyond', 'also what the directive does not declare'],
      WHY,
    ],
    load: deciding('approve'),
  },
  {
    name: 'deny',
    summary: 'refuse it',
    args: [APPROVAL],
    options: [WHY],
    load: deciding('deny'),
  },
  {
    name: 'answer',
    summary: 'answer a question in words',
    args: [APPROVAL, ['<words...>', 'the answer']],
    load: deciding('answer'),
  },
];

// Every command, as data. Adding one means a row here and a file in `commands/`.

export const COMMANDS: readonly CommandSpec[] = [
  {
    name: 'demo',
    summary: 'see it work in a minute, without a key',
    anywhere: true,
    load: async () => (await import('./demo/demo.ts')).run,
  },
  {
    name: 'init',
    summary: 'make a project here: a directive, a tool, a policy, signed with your key',
    args: [['[dir]', 'folder (default: here)']],
    options: [['--force', 'also write files that exist already']],
    anywhere: true,
    load: async () => (await import('./commands/init.ts')).run,
  },
  {
    name: 'check',
    summary: 'find what is wrong in directives, tools, knowledge, policies and scripts',
    args: [['[paths...]', 'files or folders (default: the project)']],
    examples: [
      'km check',
      'km check .ai/directives/deploy.md --json',
      'km check report.md scripts',
    ],
    load: async () => (await import('./commands/check.ts')).run,
  },
  {
    name: 'explain',
    summary: 'show what a directive or tool may do, and where each rule comes from',
    args: [
      ['<kind>', 'directive or tool'],
      ['<id>', 'its id or name'],
    ],
    load: async () => (await import('./commands/explain.ts')).run,
  },
  {
    name: 'eval',
    summary: 'evaluate an expression or fill a template',
    args: [['[expression]', 'an expression of hooks, guards and policies']],
    options: [
      ['--ctx <json>', 'context: a file, `-`, or JSON text'],
      ['--schema <json>', 'known paths; others are errors'],
      ['--template <text>', 'fill `${path}` placeholders'],
      ['--body <text>', 'fill `{param}` placeholders (JSON or text)'],
      ['--env <text>', 'expand `${NAME}` and `${NAME:-default}` from the context'],
      ['--file <file>', 'one case a line: {expr|template|body|env_template, context}'],
    ],
    examples: [
      "km eval 'cost.turns > limits.turns * 0.9' --ctx ctx.json",
      'km eval --template \'run ${directive.name}\' --ctx \'{"directive":{"name":"x"}}\'',
    ],
    anywhere: true,
    load: async () => (await import('./commands/eval.ts')).run,
  },
  {
    name: 'script',
    summary: 'run a script',
    args: [['[file]', 'a `.md` (markdown) or `.mld` (strict) file']],
    options: [
      ['-e, --eval <text>', 'run this text instead of a file'],
      ['--payload <name=value...>', 'values for `@payload`'],
      ['--worker', 'one job {id, work, file} a line on stdin, one answer a line on stdout'],
    ],
    examples: ['km script report.md --payload day=monday', "km script -e 'show 1 + 2'"],
    load: async () => (await import('./commands/script.ts')).run,
  },
  {
    name: 'provenance',
    summary: 'run a script and show how a value came to be, or why something was refused',
    args: [['[file]', 'a script']],
    options: [
      ['--line <number>', 'what was made there; without it the refusal, or what left last'],
      ['--thread <id>', 'instead of a script: the last refusal in a thread (`last`: the newest)'],
      ['--payload <name=value...>', 'values for `@payload`'],
    ],
    examples: ['km provenance report.mld', 'km provenance report.mld --line 12 --json'],
    load: async () => (await import('./commands/provenance.ts')).run,
  },
  {
    name: 'lsp',
    summary: 'help an editor with scripts and directives, as a language server over stdio',
    anywhere: true,
    load: async () => (await import('./commands/lsp.ts')).run,
  },
  {
    name: 'search',
    summary: 'find directives, tools and knowledge',
    args: [['<words...>', 'what to look for']],
    options: [
      ['-t, --type <kind>', 'directive, tool or knowledge'],
      ['-s, --source <source>', 'project, user, installed, bundle, catalog'],
      ['--category <name>', 'only this category'],
      ['-n, --limit <count>', 'how many at most (default 10)'],
      ['--cursor <cursor>', 'go on where the last answer ended'],
      ['--detail <level>', 'name, summary or schema'],
    ],
    load: async () => (await import('./commands/items.ts')).searchItems,
  },
  {
    name: 'show',
    summary: 'show one item: what it is, its signature, its text',
    args: [
      ['<kind>', 'directive, tool or knowledge'],
      ['<id>', 'its id or name'],
    ],
    options: [
      ['-s, --source <source>', 'only from there'],
      ['--part <part>', 'all, body, metadata, schema or diagnostics'],
      ['--copy <level>', 'copy a signed item to `project` or `user`'],
    ],
    load: async () => (await import('./commands/items.ts')).showOneItem,
  },
  {
    name: 'exec',
    summary: 'execute a tool, get a directive ready, read knowledge',
    args: [
      ['<kind>', 'tool, directive or knowledge'],
      ['<id>', 'its id or name'],
      ['[parameters...]', 'name=value (JSON when it parses), or one JSON object'],
    ],
    options: [
      ['-a, --action <action>', 'run (default), return, create, update, delete'],
      ['--content <file>', 'text for create and update: a file or `-`'],
      ['--dry-run', 'show what would run, with secrets masked'],
      ['--as <surface>', 'judge the call as another surface would: cli, mcp'],
    ],
    examples: [
      'km exec tool fs/read_file path=README.md',
      'km exec tool http/get url=https://example.org --dry-run',
    ],
    load: async () => (await import('./commands/exec.ts')).run,
  },
  {
    name: 'run',
    summary: 'run a directive as a thread, within its limits',
    args: [
      ['<directive>', 'its id or name'],
      ['[inputs...]', 'name=value (JSON when it parses), or one JSON object'],
    ],
    options: [
      ['-m, --message <text>', 'what you want to say besides'],
      ['--model <model>', 'a tier or a model id instead of the directive’s'],
      ['--turns <count>', 'at most so many turns; limits only ever narrow'],
      ['--tokens <count>', 'at most so many tokens'],
      ['--spend <amount>', 'at most so much money'],
      ['--duration <seconds>', 'at most so long'],
      ['--tool-calls <count>', 'at most so many tool calls'],
      ['--spawns <count>', 'at most so many threads below it'],
      ['--depth <count>', 'at most so deep'],
      ['--stream', 'keep what the provider sends in stream.jsonl of the thread'],
    ],
    examples: ['km run hello', 'km run hello file=docs/intro.md --turns 3 --json'],
    load: async () => (await import('./commands/run.ts')).run,
  },
  { name: 'threads', summary: 'see and steer threads, from any process', commands: THREADS },
  {
    name: 'replay',
    summary: 'run an ended thread again from its journal, and compare',
    args: [['<thread>', 'its id, or `last`']],
    options: [['--until <seq>', 'go to this event and no further']],
    load: async () => (await import('./commands/replay.ts')).run,
  },
  {
    name: 'cost',
    summary: 'what threads cost, by directive, model and day',
    options: [['--since <age>', 'threads started since then (default 30d)']],
    load: async () => (await import('./commands/cost.ts')).run,
  },
  { name: 'approvals', summary: 'what waits for a person’s answer', commands: APPROVALS },
  {
    name: 'sign',
    summary: 'sign items with your key',
    args: [['<files...>', 'files of items or policies']],
    load: async () => (await import('./commands/sign.ts')).signItems,
  },
  {
    name: 'verify',
    summary: 'say of each item who signed it and whether it still holds',
    args: [['[files...]', 'files (default: all of the project)']],
    load: async () => (await import('./commands/sign.ts')).verifyItems,
  },
  {
    name: 'keys',
    summary: 'show your signing key; make one if there is none',
    anywhere: true,
    load: async () => (await import('./commands/sign.ts')).showKeys,
  },
  {
    name: 'trust',
    summary: 'whose signatures count',
    commands: [
      {
        name: 'ls',
        summary: 'list trusted keys',
        anywhere: true,
        load: async () => (await import('./commands/trust.ts')).listTrust,
      },
      {
        name: 'add',
        summary: 'trust a public key',
        args: [['<key>', 'the public key, as `km keys` prints it']],
        options: [
          ['--name <name>', 'whose it is'],
          ['--kinds <list>', 'only for these kinds, comma separated'],
          ['--ids <globs>', 'only for these ids, comma separated'],
          ['--expires <date>', 'until then'],
        ],
        anywhere: true,
        load: async () => (await import('./commands/trust.ts')).addTrust,
      },
      {
        name: 'revoke',
        summary: 'no longer accept a key',
        args: [['<key-id>', 'as `km trust ls` shows it']],
        anywhere: true,
        load: async () => (await import('./commands/trust.ts')).revokeTrust,
      },
    ],
  },
  {
    name: 'catalog',
    summary: 'places to get more items from',
    commands: [
      {
        name: 'add',
        summary: 'add a folder, a git repository or an npm package',
        args: [['<place>', 'folder, git address or npm:package']],
        options: [
          ['--user', 'for you instead of for the project'],
          ['--name <name>', 'what to call it'],
        ],
        load: async () => (await import('./commands/catalog.ts')).addCatalog,
      },
      {
        name: 'update',
        summary: 'read the catalogs again',
        load: async () => (await import('./commands/catalog.ts')).updateCatalogs,
      },
      {
        name: 'ls',
        summary: 'list catalogs and what they hold',
        load: async () => (await import('./commands/catalog.ts')).listCatalogs,
      },
    ],
  },
  {
    name: 'audit',
    summary: 'what was called, by whom, and what was refused',
    options: [
      ['-n, --limit <count>', 'the latest so many (default 20)'],
      ['--denied', 'refusals only'],
    ],
    load: async () => (await import('./commands/audit.ts')).run,
  },
  {
    name: 'mcp',
    summary: 'speak the Model Context Protocol',
    commands: [
      {
        name: 'serve',
        summary: 'offer the four tools to an MCP client over stdio',
        load: async () => (await import('./commands/mcp.ts')).run,
      },
    ],
  },
  {
    name: 'doctor',
    summary: 'check Node, keys, trust, sandbox, policies, bundle, registry and providers',
    load: async () => (await import('./commands/doctor.ts')).run,
  },
  {
    name: 'completion',
    summary: 'print a completion script for your shell',
    args: [['<shell>', 'bash, zsh or fish']],
    examples: ['km completion bash > ~/.local/share/bash-completion/completions/km'],
    anywhere: true,
    load: async () => (await import('./commands/completion.ts')).run,
  },
];
