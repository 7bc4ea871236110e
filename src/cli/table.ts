// Every command, as data. Adding one means a row here and a file in `commands/`.
import type { CommandSpec } from './command.ts';
import { PROJECT } from './project-option.ts';
import { APPROVALS, THREADS } from './table-threads.ts';

export const COMMANDS: readonly CommandSpec[] = [
  {
    name: 'demo',
    summary: 'see it work in a minute, without a key',
    load: () => import('./commands/demo.ts'),
  },
  {
    name: 'init',
    summary: 'make a project here: a directive, a tool, a policy, signed with your key',
    args: [['[dir]', 'folder (default: here)']],
    options: [['--force', 'also write files that exist already']],
    load: () => import('./commands/init.ts'),
  },
  {
    name: 'check',
    summary: 'find what is wrong in directives, tools, knowledge and policies',
    args: [['[paths...]', 'files or folders (default: the project)']],
    options: [PROJECT],
    examples: ['km check', 'km check .ai/directives/deploy.md --json'],
    load: () => import('./commands/check.ts'),
  },
  {
    name: 'explain',
    summary: 'show what a directive or tool may do, and where each rule comes from',
    args: [
      ['<kind>', 'directive or tool'],
      ['<id>', 'its id or name'],
    ],
    options: [PROJECT],
    load: () => import('./commands/explain.ts'),
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
    load: () => import('./commands/eval.ts'),
  },
  {
    name: 'script',
    summary: 'run a script',
    args: [['[file]', 'a `.md` (markdown) or `.mld` (strict) file']],
    options: [
      ['-e, --eval <text>', 'run this text instead of a file'],
      ['--payload <name=value...>', 'values for `@payload`'],
      ['--worker', 'one job {id, work, file} a line on stdin, one answer a line on stdout'],
      PROJECT,
    ],
    examples: ['km script report.md --payload day=monday', "km script -e 'show 1 + 2'"],
    load: () => import('./commands/script.ts'),
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
      PROJECT,
    ],
    load: () => import('./commands/search.ts'),
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
      PROJECT,
    ],
    load: () => import('./commands/show.ts'),
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
      PROJECT,
    ],
    examples: [
      'km exec tool fs/read_file path=README.md',
      'km exec tool http/get url=https://example.org --dry-run',
    ],
    load: () => import('./commands/exec.ts'),
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
      PROJECT,
    ],
    examples: ['km run hello', 'km run hello file=docs/intro.md --turns 3 --json'],
    load: () => import('./commands/run.ts'),
  },
  { name: 'threads', summary: 'see and steer threads, from any process', commands: THREADS },
  {
    name: 'replay',
    summary: 'run an ended thread again from its journal, and compare',
    args: [['<thread>', 'its id, or `last`']],
    options: [['--until <seq>', 'go to this event and no further'], PROJECT],
    load: () => import('./commands/replay.ts'),
  },
  {
    name: 'cost',
    summary: 'what threads cost, by directive, model and day',
    options: [['--since <age>', 'threads started since then (default 30d)'], PROJECT],
    load: () => import('./commands/cost.ts'),
  },
  { name: 'approvals', summary: 'what waits for a person’s answer', commands: APPROVALS },
  {
    name: 'sign',
    summary: 'sign items with your key',
    args: [['<files...>', 'files of items or policies']],
    options: [PROJECT],
    load: () => import('./commands/sign.ts'),
  },
  {
    name: 'verify',
    summary: 'say of each item who signed it and whether it still holds',
    args: [['[files...]', 'files (default: all of the project)']],
    options: [PROJECT],
    load: () => import('./commands/verify.ts'),
  },
  {
    name: 'keys',
    summary: 'show your signing key; make one if there is none',
    load: () => import('./commands/keys.ts'),
  },
  {
    name: 'trust',
    summary: 'whose signatures count',
    commands: [
      { name: 'ls', summary: 'list trusted keys', load: () => import('./commands/trust-ls.ts') },
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
        load: () => import('./commands/trust-add.ts'),
      },
      {
        name: 'revoke',
        summary: 'no longer accept a key',
        args: [['<key-id>', 'as `km trust ls` shows it']],
        load: () => import('./commands/trust-revoke.ts'),
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
          PROJECT,
        ],
        load: () => import('./commands/catalog-add.ts'),
      },
      {
        name: 'update',
        summary: 'read the catalogs again',
        options: [PROJECT],
        load: () => import('./commands/catalog-update.ts'),
      },
      {
        name: 'ls',
        summary: 'list catalogs and what they hold',
        options: [PROJECT],
        load: () => import('./commands/catalog-ls.ts'),
      },
    ],
  },
  {
    name: 'audit',
    summary: 'what was called, by whom, and what was refused',
    options: [
      ['-n, --limit <count>', 'the latest so many (default 20)'],
      ['--denied', 'refusals only'],
      PROJECT,
    ],
    load: () => import('./commands/audit.ts'),
  },
  {
    name: 'mcp',
    summary: 'speak the Model Context Protocol',
    commands: [
      {
        name: 'serve',
        summary: 'offer the four tools to an MCP client over stdio',
        options: [PROJECT],
        load: () => import('./commands/mcp-serve.ts'),
      },
    ],
  },
  {
    name: 'doctor',
    summary: 'check Node, keys, trust, sandbox, policies, bundle, registry and providers',
    options: [PROJECT],
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'completion',
    summary: 'print a completion script for your shell',
    args: [['<shell>', 'bash, zsh or fish']],
    examples: ['km completion bash > ~/.local/share/bash-completion/completions/km'],
    load: () => import('./commands/completion.ts'),
  },
];
