// Implements `mcp add|sync|ls|remove`: tools of other servers in this project. A connector runs
// like any other call. The commands add the person, who sees the tools and accepts or refuses them.
import { rmdirSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  fail,
  formatYaml,
  getOwn,
  type Json,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  plainText,
  textAt,
  textsAt,
} from '@kernmantle/core/base';
import { type KnownServer, knownServers } from '@kernmantle/core/items';
import {
  decideApproval,
  noted,
  personAuditRow,
  type Runtime,
  signFiles,
} from '@kernmantle/core/runtime';
import type { Approval } from '@kernmantle/core/store';
import { asList, asText, type CommandCall, type CommandRun, type Ending } from '../../command.ts';
import { commandActor, inProject, withRuntime } from '../../project.ts';
import { interruptible, type Terminal, visible, yesOrNo } from '../../terminal/terminal.ts';
import { personAt } from '../../threads/ask-person.ts';

const room = () => import('@kernmantle/mcp');

async function findServer(runtime: Runtime, name: string): Promise<Outcome<KnownServer>> {
  const serverList = knownServers(runtime);
  const found =
    serverList.find((one) => one.name === name) ?? serverList.find(({ item }) => item.id === name);
  if (found) return ok(found);
  const names = serverList.map((one) => one.name).join(', ');
  return fail('not_found', `connector \`${name}\` not found`, {
    hint: names === '' ? 'add one with `km mcp add`' : `the connectors are ${names}`,
  });
}

const wordsIn = (text: string): string[] =>
  [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '');

/** `NAME` refers to the environment variable; `NAME=value` is a literal value. */
function pairsIn(words: readonly string[]): Outcome<Record<string, string>> {
  const pairs: Record<string, string> = {};
  for (const one of words) {
    const [, name = '', value] = /^([^:=\s]+)(?:\s*[:=]\s*([^]*))?$/.exec(one) ?? [];
    if (name === '' || (value === undefined && !/^[A-Za-z_]\w*$/.test(name))) {
      return fail('usage', `\`${one}\` must be a pair of a name and a value`);
    }
    pairs[name] = value ?? `\${${name}}`;
  }
  return ok(pairs);
}

function authOf({ bearer, oauth }: CommandCall['options']): JsonObject {
  if (oauth === true) return { auth: { type: 'oauth' } };
  const variable = asText(bearer);
  return variable === undefined ? {} : { auth: { type: 'bearer', token: `\${${variable}}` } };
}

function configOf({ options, args }: CommandCall): Outcome<JsonObject> {
  const [url, command] = [asText(options.url), asText(options.command)];
  if ((url === undefined) === (command === undefined)) {
    return fail('usage', 'a server needs exactly one of `--command` and `--url`');
  }
  const headers = pairsIn(asList(options.header));
  const env = pairsIn(asList(options.env));
  if (!headers.ok) return headers;
  if (!env.ok) return env;
  const prefix = asText(options.prefix);
  const named = prefix === undefined ? {} : { tool_prefix: prefix };
  if (url !== undefined) {
    const sent = Object.keys(headers.output).length > 0 ? { headers: headers.output } : {};
    return ok({ mcp_url: url, ...authOf(options), ...sent, ...named });
  }
  const [program = '', ...words] = wordsIn(command ?? '');
  const grants = {
    read: asList(options.read),
    write: asList(options.write),
    network: options.network === true,
  };
  return ok({
    command: program,
    args: [...words, ...asList(args[1])],
    ...(Object.keys(env.output).length > 0 && { env: env.output }),
    grants,
    ...named,
  });
}

const connectorText = (name: string, config: JsonObject): string =>
  formatYaml({
    tool_id: 'connector',
    tool_type: 'mcp_connector',
    version: '1.0.0',
    category: 'mcp',
    description: `Connects the MCP server ${name}: run it to list its tools`,
    executor_id: 'mcp/connector',
    config,
    requires: ['mcp.connect'],
  });

async function refuseName(runtime: Runtime, name: string): Promise<Outcome<null>> {
  const { serverProblem } = await room();
  const odd = serverProblem(name);
  if (odd !== undefined) return fail('usage', odd);
  const serverList = knownServers(runtime);
  const taken = runtime.library
    .all('tool')
    .find(({ id }) => id === `mcp/${name}` || id.startsWith(`mcp/${name}/`));
  if (!taken && !serverList.some((one) => one.name === name)) return ok(null);
  const hint = `choose another name, or run \`km mcp remove ${name}\` first`;
  return fail('invalid_input', `a server or tool \`${name}\` already exists`, { hint });
}

type Synced = JsonObject;

/** `signal` aborts if the person leaves or a process signal ends the command. */
type ConnectorCall = CommandCall & { readonly signal: AbortSignal };

async function runConnector(
  runtime: Runtime,
  id: string,
  { terminal, signal }: ConnectorCall,
): Promise<Outcome<Synced>> {
  const person = personAt(terminal, signal);
  const answer = await runtime.call(
    'execute',
    { item_type: 'tool', item_id: id },
    { surface: 'cli', signal, ...(person && { person }) },
  );
  return answer as Outcome<Synced>;
}

function showTool(terminal: Terminal, tool: Json, sign: string): void {
  const flags = textsAt(tool, 'flags');
  const changed = textsAt(tool, 'changed');
  const words = [...flags, ...(changed.length > 0 ? [`changed: ${changed.join(', ')}`] : [])];
  terminal.note(
    `${sign} ${visible(textAt(tool, 'id'))} ${terminal.paint('yellow', visible(words.join(', ')))}`,
  );
  const was = getOwn(tool, 'was');
  const id = textAt(tool, 'id');
  const [before, now] = [was === undefined ? undefined : linesOf(was, id), linesOf(tool, id)];
  for (const line of before ?? []) {
    if (!now.includes(line)) terminal.note(terminal.paint('red', `    - ${line}`));
  }
  for (const line of now) {
    const isNew = before !== undefined && !before.includes(line);
    terminal.note(terminal.paint(isNew ? 'green' : 'dim', `    ${isNew ? '+ ' : ''}${line}`));
  }
}

/** Returns lines about a tool: its name on the server, description, inputs, needs and risk. */
const linesOf = (tool: Json, id: string): string[] =>
  [
    ...(id.endsWith(`/${textAt(tool, 'name')}`)
      ? []
      : [`name on the server: ${textAt(tool, 'name')}`]),
    textAt(tool, 'description'),
    `takes ${textAt(tool, 'parameters') || 'no parameters'}`,
    `needs ${textsAt(tool, 'requires').join(', ')}`,
    `counts as ${textAt(tool, 'effect')}, ${textsAt(tool, 'risk').join(', ') || 'no risk'}`,
    ...['labels', 'roles', 'kinds', 'answers'].flatMap((name) => {
      const texts = textsAt(tool, name);
      return texts.length > 0 ? `${name}: ${texts.join(', ')}` : [];
    }),
  ].map((line) => visible(line.replaceAll('\n', ' ')));

/** Prints everything that a person signs, exactly as the approval request binds it. */
function showQuestion(terminal: Terminal, { shown }: Approval): void {
  const about = getOwn(shown, 'arguments');
  for (const tool of listAt(about, 'added')) showTool(terminal, tool, '+');
  for (const tool of listAt(about, 'changed')) showTool(terminal, tool, '~');
  terminal.note('descriptions are text of the server and were not checked');
}

async function decide(
  runtime: Runtime,
  id: string,
  { options, terminal, signal }: ConnectorCall,
): Promise<Outcome<'yes' | 'no' | 'nobody'>> {
  const threads = await runtime.threads();
  if (!threads.ok) return threads;
  const { store } = threads.output;
  const rows = await store.approvals({ id });
  if (!rows.ok) return rows;
  const [row] = rows.output;
  if (!row) return fail('not_found', `approval \`${id}\` not found; run \`km approvals ls --all\``);
  if (!terminal.json) showQuestion(terminal, row);
  const isYes = options.yes === true;
  if (!isYes && !terminal.isInteractive) return ok('nobody');
  const yes = isYes || (await yesOrNo(terminal, plainText(row.shown.question), signal));
  const decision = yes ? 'approved' : 'denied';
  const by = commandActor({ terminal });
  const why = yes === undefined ? 'interrupted' : '';
  const done = await decideApproval(store, id, { decision, by, why });
  if (!done.ok) return done;
  return yes === undefined
    ? fail('cancelled', 'the approval request was not answered')
    : ok(yes ? 'yes' : 'no');
}

function showSynced(terminal: Terminal, output: Synced): void {
  const [written, removed] = [textsAt(output, 'written'), textsAt(output, 'removed')];
  for (const id of written) terminal.out(`${terminal.paint('green', 'signed ')} ${visible(id)}`);
  for (const id of removed) terminal.out(`${terminal.paint('yellow', 'removed')} ${visible(id)}`);
  for (const id of textsAt(output, 'left_alone')) {
    terminal.note(`${visible(id)} is no longer listed; its file was edited by hand and stays`);
  }
  for (const one of listAt(output, 'left_out')) {
    terminal.note(`left out ${visible(textAt(one, 'name'))}: ${visible(textAt(one, 'why'))}`);
  }
  const unchanged = plainText(output.unchanged);
  terminal.note(`${plainText(output.tools)} tools, ${unchanged} unchanged`);
}

/** Runs a connector. A pending approval is asked here, or printed with its command. */
async function sync(runtime: Runtime, id: string, call: ConnectorCall): Promise<Ending> {
  const { terminal } = call;
  const first = await runConnector(runtime, id, call);
  if (!first.ok) return first;
  const approval = textAt(getOwn(first.output, 'pending'), 'approval');
  if (first.output.status === 'synced') {
    return terminal.finish(first, (output) => showSynced(terminal, output));
  }
  const server = plainText(first.output.server);
  const answer = await decide(runtime, approval, call);
  if (!answer.ok) return answer;
  if (answer.output === 'no') {
    return fail('permission_denied', `a person refused the tools of \`${server}\``, {
      approval,
    });
  }
  if (answer.output === 'nobody') {
    const waiting = `the tools of \`${server}\` were not added`;
    return fail('needs_input', `${waiting}; a person must review and approve them`, {
      ...first.output,
      approval,
      hint: 'repeat the command with `--yes`',
    });
  }
  const second = await runConnector(runtime, id, call);
  if (!second.ok) return second;
  const removed = [first.output, second.output].flatMap((one) => textsAt(one, 'removed'));
  return terminal.finish(ok({ ...second.output, removed }), (output) =>
    showSynced(terminal, output),
  );
}

const LEFT = 'interrupted before its tools were added; nothing was changed';

/** Shows the login page if the server requires a login. A signal ends the command. */
const withLogin =
  (work: (runtime: Runtime, call: ConnectorCall) => Promise<Ending>): CommandRun =>
  async (call) => {
    const { terminal, options } = call;
    const interrupted = async (runtime: Runtime): Promise<Ending> =>
      await interruptible(
        async (signal) => {
          const ended = await work(runtime, { ...call, signal });
          const isLeft = typeof ended !== 'number' && ended.error.code === 'cancelled';
          return isLeft ? fail('cancelled', LEFT) : ended;
        },
        { waits: true },
      );
    if (!terminal.isInteractive && options.oauth !== true) {
      return await withRuntime(call, interrupted);
    }
    const { openLoopbackLogin } = await room();
    const login = await openLoopbackLogin((page) =>
      terminal.note(`log in with your browser: ${visible(page)}`),
    );
    try {
      return await withRuntime(call, interrupted, { login });
    } finally {
      await login.close();
    }
  };

export const addServer = withLogin(async (runtime, call) => {
  const name = asText(call.args[0]) ?? '';
  const free = await refuseName(runtime, name);
  if (!free.ok) return free;
  const config = configOf(call);
  if (!config.ok) return config;
  const id = `mcp/${name}/connector`;
  const by = commandActor(call);
  const written = noted(
    runtime,
    personAuditRow(by, 'mcp:add', name),
    runtime.library.write('tool', id, connectorText(name, config.output), 'create'),
  );
  if (!written.ok) return written;
  const signed = signFiles(runtime, [written.output.file], by);
  if (!signed.ok) return signed;
  await runtime.library.refresh();
  const ended = await sync(runtime, id, call);
  // A new connector that could not be reached, or that the person refused, is removed again.
  if (typeof ended !== 'number' && ended.error.code !== 'needs_input') {
    runtime.library.remove('tool', id);
    removeFolder(written.output.file);
  }
  return ended;
});

export const syncServer = withLogin(async (runtime, call) => {
  const found = await findServer(runtime, asText(call.args[0]) ?? '');
  return found.ok ? await sync(runtime, found.output.item.id, call) : found;
});

const whereIs = ({ item }: KnownServer): string => {
  const config = item.tool?.config ?? {};
  return (
    textAt(config, 'mcp_url') || [textAt(config, 'command'), ...textsAt(config, 'args')].join(' ')
  );
};

export const listServers = inProject(async (runtime, { terminal }) => {
  const serverList = knownServers(runtime);
  const rows = serverList.map((one) => ({
    name: one.name,
    connector: one.item.id,
    server: whereIs(one),
    signature: one.item.signature.state,
    tools: one.tools.map(({ id, signature }) => ({ id, signature: signature.state })),
  }));
  return terminal.finish(ok({ servers: rows }), () => {
    for (const { name, server, signature, tools } of rows) {
      const none = tools.length === 0 ? `; add its tools with \`km mcp sync ${name}\`` : '';
      const state = `${tools.length} tools, ${signature}${none}`;
      terminal.out(`${visible(name)} ${terminal.paint('dim', visible(`${server} (${state})`))}`);
    }
    if (rows.length === 0)
      terminal.note('no servers; add one with `km mcp add NAME --url …` or `--command …`');
  });
});

function removeFolder(file: string): void {
  try {
    rmdirSync(dirname(file));
  } catch {
    // The folder contains other files and stays.
  }
}

export const removeServer = inProject(async (runtime, call) => {
  const { terminal } = call;
  const found = await findServer(runtime, asText(call.args[0]) ?? '');
  if (!found.ok) return found;
  const { name, item, tools } = found.output;
  if (item.source !== 'project') {
    return fail('invalid_input', `connector \`${item.id}\` is not in this project`);
  }
  const ids = [...tools.map(({ id }) => id), item.id];
  for (const id of ids) {
    const row = personAuditRow(commandActor(call), 'mcp:remove', id);
    const removed = noted(runtime, row, runtime.library.remove('tool', id));
    if (!removed.ok) return removed;
  }
  removeFolder(item.file);
  return terminal.finish(ok({ server: name, removed: ids }), () => {
    for (const id of ids) terminal.out(`removed ${visible(id)}`);
  });
});
