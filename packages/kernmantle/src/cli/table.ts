// Defines all commands. `bundle/commands.json` has names, arguments and help texts; `CODE` has
// the modules. A new command needs a row in each and a file in `commands/`.
import { Command } from 'commander';
import { type CommandRun, readOwnJson, runs, version } from './command.ts';
import type { Output } from './terminal/output.ts';

/** Modules by command name, after the parent's name. A module is loaded when its command runs. */
const CODE: Readonly<Record<string, () => Promise<CommandRun>>> = {
  demo: async () => (await import('./demo/demo.ts')).run,
  init: async () => (await import('./commands/init.ts')).run,
  check: async () => (await import('./commands/check.ts')).run,
  explain: async () => (await import('./commands/explain.ts')).run,
  'policy show': async () => (await import('./commands/installation.ts')).policy,
  eval: async () => (await import('./commands/eval.ts')).run,
  'evaluate attacks': async () => (await import('./commands/evaluate.ts')).evaluateAttacks,
  script: async () => (await import('./commands/script.ts')).run,
  provenance: async () => (await import('./commands/provenance.ts')).run,
  lsp: async () => (await import('./commands/lsp.ts')).run,
  search: async () => (await import('./commands/items.ts')).searchItems,
  show: async () => (await import('./commands/items.ts')).showOneItem,
  exec: async () => (await import('./commands/exec.ts')).run,
  run: async () => (await import('./commands/run.ts')).run,
  chat: async () => (await import('./chat/chat.ts')).run,
  'threads ls': async () => (await import('./commands/threads/list.ts')).listThreads,
  'threads show': async () => (await import('./commands/threads/show.ts')).run,
  'threads tree': async () => (await import('./commands/threads/list.ts')).showTree,
  'threads tail': async () => (await import('./commands/threads/follow.ts')).tailThread,
  'threads top': async () => (await import('./commands/threads/top.ts')).watchAll,
  'threads pause': async () => (await import('./commands/threads/signal.ts')).pause,
  'threads resume': async () => (await import('./commands/threads/resume.ts')).run,
  'threads fork': async () => (await import('./commands/threads/fork.ts')).run,
  'threads inject': async () => (await import('./commands/threads/signal.ts')).inject,
  'threads interrupt': async () => (await import('./commands/threads/signal.ts')).interrupt,
  'threads compact': async () => (await import('./commands/threads/signal.ts')).compactConversation,
  'threads stop': async () => (await import('./commands/threads/signal.ts')).stop,
  'threads kill': async () => (await import('./commands/threads/signal.ts')).kill,
  'threads wait': async () => (await import('./commands/threads/follow.ts')).waitForThreads,
  'threads prune': async () => (await import('./commands/threads/prune.ts')).run,
  replay: async () => (await import('./commands/replay.ts')).run,
  cost: async () => (await import('./commands/cost.ts')).run,
  'approvals ls': async () => (await import('./commands/approvals.ts')).listApprovals,
  'approvals show': async () => (await import('./commands/approvals.ts')).showApproval,
  'approvals approve': async () => (await import('./commands/approvals.ts')).approve,
  'approvals deny': async () => (await import('./commands/approvals.ts')).deny,
  'approvals answer': async () => (await import('./commands/approvals.ts')).answer,
  'models add': async () => (await import('./commands/models.ts')).addFromServer,
  'models install': async () => (await import('./commands/models.ts')).installPackage,
  'models ls': async () => (await import('./commands/models.ts')).listModels,
  'models test': async () => (await import('./commands/models.ts')).testOne,
  'memory ls': async () => (await import('./commands/memory.ts')).listRows,
  'memory show': async () => (await import('./commands/memory.ts')).showMemory,
  'memory endorse': async () => (await import('./commands/memory.ts')).endorseMemory,
  'memory forget': async () => (await import('./commands/memory.ts')).forgetMemory,
  'memory export': async () => (await import('./commands/memory.ts')).exportRows,
  sign: async () => (await import('./commands/sign.ts')).signItems,
  verify: async () => (await import('./commands/sign.ts')).verifyItems,
  keys: async () => (await import('./commands/sign.ts')).showKeys,
  'keys export': async () => (await import('./commands/fleet/keys.ts')).exportKeys,
  'keys import': async () => (await import('./commands/fleet/keys.ts')).importKeys,
  'trust ls': async () => (await import('./commands/trust.ts')).listTrust,
  'trust add': async () => (await import('./commands/trust.ts')).addTrust,
  'trust revoke': async () => (await import('./commands/trust.ts')).revokeTrust,
  'catalog add': async () => (await import('./commands/catalog.ts')).addCatalog,
  'catalog update': async () => (await import('./commands/catalog.ts')).updateCatalogs,
  'catalog ls': async () => (await import('./commands/catalog.ts')).listCatalogs,
  'store migrate': async () => (await import('./commands/fleet/store.ts')).migrateTables,
  'store restored': async () => (await import('./commands/fleet/store.ts')).restoredTables,
  'store check': async () => (await import('./commands/fleet/store.ts')).checkTables,
  'store limits': async () => (await import('./commands/fleet/store.ts')).sharedLimits,
  'store copy': async () => (await import('./commands/fleet/copy.ts')).copyStore,
  audit: async () => (await import('./commands/audit.ts')).run,
  'mcp serve': async () => (await import('./commands/mcp/serve.ts')).run,
  'mcp install': async () => (await import('./commands/mcp/install.ts')).run,
  web: async () => (await import('./commands/web/serve.ts')).serveWeb,
  'web link': async () => (await import('./commands/web/serve.ts')).printLink,
  'web sessions ls': async () => (await import('./commands/web/serve.ts')).listSessions,
  'web sessions end': async () => (await import('./commands/web/serve.ts')).endSession,
  'web token add': async () => (await import('./commands/web/tokens.ts')).addToken,
  'web token ls': async () => (await import('./commands/web/tokens.ts')).listTokens,
  'web token remove': async () => (await import('./commands/web/tokens.ts')).removeToken,
  'mcp add': async () => (await import('./commands/mcp/connectors.ts')).addServer,
  'mcp sync': async () => (await import('./commands/mcp/connectors.ts')).syncServer,
  'mcp ls': async () => (await import('./commands/mcp/connectors.ts')).listServers,
  'mcp remove': async () => (await import('./commands/mcp/connectors.ts')).removeServer,
  acp: async () => (await import('./commands/acp.ts')).run,
  'acp config': async () => (await import('./commands/acp.ts')).printConfig,
  worker: async () => (await import('./commands/fleet/worker.ts')).runWorker,
  'schedule add': async () => (await import('./commands/schedule.ts')).addSchedule,
  'schedule ls': async () => (await import('./commands/schedule.ts')).listSchedules,
  'schedule show': async () => (await import('./commands/schedule.ts')).showSchedule,
  'schedule pause': async () => (await import('./commands/schedule.ts')).pauseSchedule,
  'schedule resume': async () => (await import('./commands/schedule.ts')).resumeSchedule,
  'schedule remove': async () => (await import('./commands/schedule.ts')).removeSchedule,
  'schedule run': async () => (await import('./commands/schedule.ts')).runNow,
  'schedule serve': async () => (await import('./commands/fleet/worker.ts')).serveSchedules,
  doctor: async () => (await import('./commands/installation.ts')).doctor,
  completion: async () => (await import('./commands/completion.ts')).run,
};

/** Texts of a command. Arguments and options are written as the parser reads them. */
interface CommandWords {
  readonly about: string;
  readonly arguments?: Readonly<Record<string, string>>;
  readonly options?: Readonly<Record<string, string>>;
  readonly examples?: readonly string[];
  /** True if the command works without a project. */
  readonly anywhere?: boolean;
  readonly commands?: Readonly<Record<string, CommandWords>>;
}

const PROJECT = 'use the project in this folder (default: the nearest `.ai` upwards)';
const STORE =
  'use the threads on this server (default: `KERNMANTLE_STORE`, your settings, the project)';

type Commands = Readonly<Record<string, CommandWords>>;

function add(parent: Command, list: Commands, output: Output, path = ''): void {
  for (const [name, words] of Object.entries(list)) {
    const { about, arguments: taken = {}, options = {}, examples = [], commands = {} } = words;
    const command = parent.command(name).description(about);
    for (const [form, meaning] of Object.entries(taken)) command.argument(form, meaning);
    for (const [form, meaning] of Object.entries(options)) command.option(form, meaning);
    if (examples.length > 0) {
      command.addHelpText('after', ['\nExamples:', ...examples].join('\n  '));
    }
    add(command, commands, output, `${path}${name} `);
    const load = CODE[`${path}${name}`];
    if (load && !words.anywhere) {
      command.option('-C, --project <dir>', PROJECT).option('--store <url>', STORE);
    }
    if (load) runs(command, load, output);
    else command.option('--json', 'answer in JSON');
  }
}

/**
 * Creates the parser. `tell` receives usage errors; with `--json` the caller prints them itself.
 */
export function createParser(output: Output, tell = output.err): Command {
  const km = new Command('km')
    .description('kernmantle: directives, tools and knowledge for agents, inside a safety harness')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this')
    .helpCommand('help [command]', 'show help for a command')
    // Texts beside long names are wrapped at the width of the terminal, or at 80 columns.
    .configureHelp({ minWidthToWrap: 20 })
    .configureOutput({ writeOut: output.out, writeErr: tell })
    .showHelpAfterError('(see `km --help`)')
    .showSuggestionAfterError()
    .exitOverride();
  add(km, readOwnJson('bundle/commands.json') as Commands, output);
  return km;
}
