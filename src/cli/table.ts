// Every command. Adding one means a row here and a file in `commands/`.
import { Row, version } from './command.ts';

const add = (parent: Row, name: string, summary: string): Row =>
  parent.command(name).description(summary);

const THREAD = ['[thread]', 'its id, or `last` (default)'] as const;
const ONE_THREAD = ['<thread>', 'its id, or `last`'] as const;
const APPROVAL = ['<approval>', 'its id, as `km approvals ls` shows it'] as const;
const WHY = ['--why <text>', 'for the record'] as const;

/** Projects, and what one writes in them. */
function addAuthoring(km: Row): void {
  add(km, 'demo', 'see it work in a minute, without a key').runs(
    async () => (await import('./demo/demo.ts')).run,
    'anywhere',
  );
  add(km, 'init', 'make a project here: a directive, a tool, a policy, signed with your key')
    .argument('[dir]', 'folder (default: here)')
    .option('--force', 'also write files that exist already')
    .runs(async () => (await import('./commands/init.ts')).run, 'anywhere');
  add(km, 'check', 'find what is wrong in directives, tools, knowledge, policies and scripts')
    .argument('[paths...]', 'files or folders (default: the project)')
    .examples('km check', 'km check .ai/directives/deploy.md --json', 'km check report.md scripts')
    .runs(async () => (await import('./commands/check.ts')).run);
  add(km, 'explain', 'show what a directive or tool may do, and where each rule comes from')
    .argument('<kind>', 'directive or tool')
    .argument('<id>', 'its id or name')
    .runs(async () => (await import('./commands/explain.ts')).run);
  add(km, 'eval', 'evaluate an expression or fill a template')
    .argument('[expression]', 'an expression of hooks, guards and policies')
    .option('--ctx <json>', 'context: a file, `-`, or JSON text')
    .option('--schema <json>', 'known paths; others are errors')
    .option('--template <text>', 'fill `${path}` placeholders')
    .option('--body <text>', 'fill `{param}` placeholders (JSON or text)')
    .option('--env <text>', 'expand `${NAME}` and `${NAME:-default}` from the context')
    .option('--file <file>', 'one case a line: {expr|template|body|env_template, context}')
    .examples(
      "km eval 'cost.turns > limits.turns * 0.9' --ctx ctx.json",
      'km eval --template \'run ${directive.name}\' --ctx \'{"directive":{"name":"x"}}\'',
    )
    .runs(async () => (await import('./commands/eval.ts')).run, 'anywhere');
  add(km, 'script', 'run a script')
    .argument('[file]', 'a `.md` (markdown) or `.mld` (strict) file')
    .option('-e, --eval <text>', 'run this text instead of a file')
    .option('--payload <name=value...>', 'values for `@payload`')
    .option('--worker', 'one job {id, work, file} a line on stdin, one answer a line on stdout')
    .examples('km script report.md --payload day=monday', "km script -e 'show 1 + 2'")
    .runs(async () => (await import('./commands/script.ts')).run);
  add(
    km,
    'provenance',
    'run a script and show how a value came to be, or why something was refused',
  )
    .argument('[file]', 'a script')
    .option('--line <number>', 'what was made there; without it the refusal, or what left last')
    .option(
      '--thread <id>',
      'instead of a script: the last refusal in a thread (`last`: the newest)',
    )
    .option('--payload <name=value...>', 'values for `@payload`')
    .examples('km provenance report.mld', 'km provenance report.mld --line 12 --json')
    .runs(async () => (await import('./commands/provenance.ts')).run);
  add(
    km,
    'lsp',
    'help an editor with scripts and directives, as a language server over stdio',
  ).runs(async () => (await import('./commands/lsp.ts')).run, 'anywhere');
}

/** Items, and work with them. */
function addItems(km: Row): void {
  add(km, 'search', 'find directives, tools and knowledge')
    .argument('<words...>', 'what to look for')
    .option('-t, --type <kind>', 'directive, tool or knowledge')
    .option('-s, --source <source>', 'project, user, installed, bundle, catalog')
    .option('--category <name>', 'only this category')
    .option('-n, --limit <count>', 'how many at most (default 10)')
    .option('--cursor <cursor>', 'go on where the last answer ended')
    .option('--detail <level>', 'name, summary or schema')
    .runs(async () => (await import('./commands/items.ts')).searchItems);
  add(km, 'show', 'show one item: what it is, its signature, its text')
    .argument('<kind>', 'directive, tool or knowledge')
    .argument('<id>', 'its id or name')
    .option('-s, --source <source>', 'only from there')
    .option('--part <part>', 'all, body, metadata, schema or diagnostics')
    .option('--copy <level>', 'copy a signed item to `project` or `user`')
    .runs(async () => (await import('./commands/items.ts')).showOneItem);
  add(km, 'exec', 'execute a tool, get a directive ready, read knowledge')
    .argument('<kind>', 'tool, directive or knowledge')
    .argument('<id>', 'its id or name')
    .argument('[parameters...]', 'name=value (JSON when it parses), or one JSON object')
    .option('-a, --action <action>', 'run (default), return, create, update, delete')
    .option('--content <file>', 'text for create and update: a file or `-`')
    .option('--dry-run', 'show what would run, with secrets masked')
    .option('--as <surface>', 'judge the call as another surface would: cli, mcp')
    .examples(
      'km exec tool fs/read_file path=README.md',
      'km exec tool http/get url=https://example.org --dry-run',
    )
    .runs(async () => (await import('./commands/exec.ts')).run);
  add(km, 'run', 'run a directive as a thread, within its limits')
    .argument('<directive>', 'its id or name')
    .argument('[inputs...]', 'name=value (JSON when it parses), or one JSON object')
    .option('-m, --message <text>', 'what you want to say besides')
    .option('--model <model>', 'a tier or a model id instead of the directive’s')
    .option('--turns <count>', 'at most so many turns; limits only ever narrow')
    .option('--tokens <count>', 'at most so many tokens')
    .option('--spend <amount>', 'at most so much money')
    .option('--duration <seconds>', 'at most so long')
    .option('--tool-calls <count>', 'at most so many tool calls')
    .option('--spawns <count>', 'at most so many threads below it')
    .option('--depth <count>', 'at most so deep')
    .option('--stream', 'keep what the provider sends in stream.jsonl of the thread')
    .examples('km run hello', 'km run hello file=docs/intro.md --turns 3 --json')
    .runs(async () => (await import('./commands/run.ts')).run);
}

function addThreads(km: Row): void {
  const threads = add(km, 'threads', 'see and steer threads, from any process');
  add(threads, 'ls', 'list threads, newest first')
    .option('--status <list>', 'only these, comma separated')
    .option('--directive <id>', 'only of this directive')
    .option('--within <thread>', 'only this one and those below it')
    .option('--order <by>', '`created` (default) or `updated`')
    .option('--hooks', 'also threads that ran for a hook')
    .option('-n, --limit <count>', 'how many at most (default 20)')
    .option('--cursor <cursor>', 'go on where the last answer ended')
    .runs(async () => (await import('./commands/threads/list.ts')).listThreads);
  add(threads, 'show', 'what was said, done, refused and decided, and what it cost')
    .argument(...THREAD)
    .option('--full', 'nothing shortened')
    .runs(async () => (await import('./commands/threads/show.ts')).run);
  add(threads, 'tree', 'the whole tree a thread belongs to, hooks included')
    .argument(...THREAD)
    .runs(async () => (await import('./commands/threads/list.ts')).showTree);
  add(threads, 'tail', 'the latest events of a thread')
    .argument(...THREAD)
    .option('-f, --follow', 'and those that come, until it ends')
    .option('-n, --limit <count>', 'how many at first (default 20)')
    .runs(async () => (await import('./commands/threads/follow.ts')).tailThread);
  add(threads, 'top', 'who is at work now, live').runs(
    async () => (await import('./commands/threads/follow.ts')).watchAll,
  );
  add(threads, 'pause', 'stop at the next step until it is resumed')
    .argument(...ONE_THREAD)
    .option('--reason <text>', 'why, for the record')
    .runs(async () => (await import('./commands/threads/signal.ts')).pause);
  add(threads, 'resume', 'go on with a paused or interrupted thread, in this process')
    .argument(...ONE_THREAD)
    .option('-m, --message <text>', 'what it is told first')
    .option('--from <snapshot>', 'go back to this snapshot first: its number, or `last`')
    .runs(async () => (await import('./commands/threads/resume.ts')).run);
  add(threads, 'inject', 'say something to the model, before its next turn')
    .argument(...ONE_THREAD)
    .argument('<words...>', 'what to say')
    .option('--role <role>', '`user` (default) or `system`')
    .runs(async () => (await import('./commands/threads/signal.ts')).inject);
  add(threads, 'interrupt', 'break off the reply that is coming, and say something instead')
    .argument(...ONE_THREAD)
    .argument('[words...]', 'what to say')
    .runs(async () => (await import('./commands/threads/signal.ts')).interrupt);
  add(threads, 'stop', 'end a thread and those below it, at their next step')
    .argument(...ONE_THREAD)
    .runs(async () => (await import('./commands/threads/signal.ts')).stop);
  add(threads, 'kill', 'end it even when it does not answer')
    .argument(...ONE_THREAD)
    .runs(async () => (await import('./commands/threads/signal.ts')).kill);
  add(threads, 'wait', 'wait until threads have ended or need somebody')
    .argument('<threads...>', 'their ids')
    .option('--timeout <seconds>', 'at most so long')
    .runs(async () => (await import('./commands/threads/follow.ts')).waitForThreads);
  add(threads, 'prune', 'remove old threads; budgets and audit stay')
    .option('--older-than <age>', 'such as 30d, 12h or 2w (default: the policy’s `retention`)')
    .option('--keep-failed', 'keep trees in which a thread failed')
    .runs(async () => (await import('./commands/threads/prune.ts')).run);
}

function addLooksBack(km: Row): void {
  add(km, 'replay', 'run an ended thread again from its journal, and compare')
    .argument(...ONE_THREAD)
    .option('--until <seq>', 'go to this event and no further')
    .runs(async () => (await import('./commands/replay.ts')).run);
  add(km, 'cost', 'what threads cost, by directive, model and day')
    .option('--since <age>', 'threads started since then (default 30d)')
    .runs(async () => (await import('./commands/cost.ts')).run);
}

function addApprovals(km: Row): void {
  const approvals = add(km, 'approvals', 'what waits for a person’s answer');
  add(approvals, 'ls', 'list what waits for an answer')
    .option('--all', 'also what was decided')
    .option('--thread <thread>', 'only of this one')
    .runs(async () => (await import('./commands/approvals.ts')).listApprovals);
  add(approvals, 'approve', 'allow exactly what was asked for')
    .argument(...APPROVAL)
    .option('--uses <count>', 'how often it may be used')
    .option('--for <time>', 'how long it holds, such as 15m or 2h')
    .option('--beyond', 'also what the directive does not declare')
    .option(...WHY)
    .runs(async () => (await import('./commands/approvals.ts')).approve);
  add(approvals, 'deny', 'refuse it')
    .argument(...APPROVAL)
    .option(...WHY)
    .runs(async () => (await import('./commands/approvals.ts')).deny);
  add(approvals, 'answer', 'answer a question in words')
    .argument(...APPROVAL)
    .argument('<words...>', 'the answer')
    .runs(async () => (await import('./commands/approvals.ts')).answer);
}

/** Whose items count, and where they come from. */
function addTrust(km: Row): void {
  add(km, 'sign', 'sign items with your key')
    .argument('<files...>', 'files of items or policies')
    .runs(async () => (await import('./commands/sign.ts')).signItems);
  add(km, 'verify', 'say of each item who signed it and whether it still holds')
    .argument('[files...]', 'files (default: all of the project)')
    .runs(async () => (await import('./commands/sign.ts')).verifyItems);
  add(km, 'keys', 'show your signing key; make one if there is none').runs(
    async () => (await import('./commands/sign.ts')).showKeys,
    'anywhere',
  );

  const trust = add(km, 'trust', 'whose signatures count');
  add(trust, 'ls', 'list trusted keys').runs(
    async () => (await import('./commands/trust.ts')).listTrust,
    'anywhere',
  );
  add(trust, 'add', 'trust a public key')
    .argument('<key>', 'the public key, as `km keys` prints it')
    .option('--name <name>', 'whose it is')
    .option('--kinds <list>', 'only for these kinds, comma separated')
    .option('--ids <globs>', 'only for these ids, comma separated')
    .option('--expires <date>', 'until then')
    .runs(async () => (await import('./commands/trust.ts')).addTrust, 'anywhere');
  add(trust, 'revoke', 'no longer accept a key')
    .argument('<key-id>', 'as `km trust ls` shows it')
    .runs(async () => (await import('./commands/trust.ts')).revokeTrust, 'anywhere');

  const catalog = add(km, 'catalog', 'places to get more items from');
  add(catalog, 'add', 'add a folder, a git repository or an npm package')
    .argument('<place>', 'folder, git address or npm:package')
    .option('--user', 'for you instead of for the project')
    .option('--name <name>', 'what to call it')
    .runs(async () => (await import('./commands/catalog.ts')).addCatalog);
  add(catalog, 'update', 'read the catalogs again').runs(
    async () => (await import('./commands/catalog.ts')).updateCatalogs,
  );
  add(catalog, 'ls', 'list catalogs and what they hold').runs(
    async () => (await import('./commands/catalog.ts')).listCatalogs,
  );
}

/** The installation. */
function addSupport(km: Row): void {
  add(km, 'audit', 'what was called, by whom, and what was refused')
    .option('-n, --limit <count>', 'the latest so many (default 20)')
    .option('--denied', 'refusals only')
    .runs(async () => (await import('./commands/audit.ts')).run);

  const mcp = add(km, 'mcp', 'speak the Model Context Protocol');
  add(mcp, 'serve', 'offer the four tools to an MCP client over stdio').runs(
    async () => (await import('./commands/mcp.ts')).run,
  );
  add(
    km,
    'doctor',
    'check Node, keys, trust, sandbox, policies, bundle, registry and providers',
  ).runs(async () => (await import('./commands/doctor.ts')).run);
  add(km, 'completion', 'print a completion script for your shell')
    .argument('<shell>', 'bash, zsh or fish')
    .examples('km completion bash > ~/.local/share/bash-completion/completions/km')
    .runs(async () => (await import('./commands/completion.ts')).run, 'anywhere');
}

export function createParser(): Row {
  const km = new Row('km')
    .description('kernmantle: directives, tools and knowledge for agents, inside a safety harness')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this')
    .helpCommand('help [command]', 'show help for a command')
    .showHelpAfterError('(see `km --help`)')
    .showSuggestionAfterError()
    .exitOverride();
  addAuthoring(km);
  addItems(km);
  addThreads(km);
  addLooksBack(km);
  addApprovals(km);
  addTrust(km);
  addSupport(km);
  return km;
}
