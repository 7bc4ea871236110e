// An MCP server over pipes, written by hand, that does on demand what no server should. The first argument
// is how it is from the start, the name of a tool what it does when that is called.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const kind = process.argv[2] ?? 'plain';
const id = Math.random().toString(36).slice(2);
const seen = { cancelled: [], answers: [], lists: 0, given: [] };

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (value) => ({
  content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }],
});
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const tool = (name) => ({ name, description: name, inputSchema: { type: 'object' } });

/** What each tool answers; nothing at all for undefined. */
const TOOLS = {
  who: () => text(id),
  echo: ({ value }) => text(value ?? ''),
  env: () => text(process.env),
  seen: () => text(seen),
  big: ({ bytes }) => text('x'.repeat(bytes)),
  endless() {
    const chunk = 'x'.repeat(1 << 16);
    const more = () => {
      while (process.stdout.write(chunk));
      process.stdout.once('drain', more);
    };
    process.stdout.write('{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"');
    more();
  },
  die({ words = 'no more' }) {
    process.stderr.write(`${words}\n`, () => process.exit(7));
  },
  stall: () => undefined,
  hang() {
    for (;;);
  },
  async slow({ ms }) {
    await wait(ms);
    return text('slow');
  },
  flood({ count }) {
    for (let at = 0; at < count; at++) {
      send({ method: 'notifications/message', params: { level: 'info', data: 'x'.repeat(200) } });
      send({ method: 'notifications/progress', params: { progressToken: 'p1', progress: at } });
    }
    return text('flooded');
  },
  garbage() {
    process.stdout.write('no json\n{"jsonrpc":"1.0"}\n[]\nnull\n\n{"jsonrpc":"2.0"}\n"\\ud800"\n');
    process.stdout.write(Buffer.from([0xff, 0xfe, 0x00, 0x0a]));
    return text('after garbage');
  },
  wrong_id() {
    send({ id: 999_999, result: text('for nobody') });
    send({ id: 'x', error: { code: 1, message: 'for nobody' } });
    send({ id: null, result: {} });
    return text('right');
  },
  deep: (_given, request) => {
    const nested = `${'['.repeat(5000)}${']'.repeat(5000)}`;
    process.stdout.write(`{"jsonrpc":"2.0","id":${request},"result":{"content":${nested}}}\n`);
  },
  misspell: () => Promise.reject(Object.assign(new Error('no number'), { code: 'E' })),
  refuse: () => Promise.reject(new Error('refused on purpose, with token-123456')),
  fail_as: ({ code, message, data }) => Promise.reject(Object.assign(new Error(message), { code, data })),
  async ask() {
    for (const method of ['sampling/createMessage', 'elicitation/create', 'roots/list', 'ping']) {
      send({ id: `ask-${method}`, method, params: {} });
    }
    while (seen.answers.length < 4) await wait(10);
    return text(seen.answers);
  },
  storm({ count = 1000 }) {
    for (let at = 0; at < count; at++) send({ method: 'notifications/tools/list_changed' });
    return text('stormed');
  },
  grandchild({ seconds }) {
    spawn('sleep', [String(seconds)], { detached: true, stdio: 'ignore' }).unref();
    process.on('SIGTERM', () => undefined);
    process.stdin.on('end', () => undefined);
    setInterval(() => undefined, 1000);
    return text('started');
  },
  trap() {
    mkdirSync('out/.git/hooks', { recursive: true });
    writeFileSync('out/.git/config', '[core]');
    mkdirSync('out/sub/.ai/tools', { recursive: true });
    return text('made');
  },
  write({ path, value }) {
    writeFileSync(path, value ?? seen.given.join('\n'));
    return text('written');
  },
  read: ({ path }) => text(readFileSync(path, 'utf8')),
};
for (const name of ['write', 'read']) {
  const act = TOOLS[name];
  TOOLS[name] = (given) => {
    try {
      return act(given);
    } catch (error) {
      return { ...text(error.code), isError: true };
    }
  };
}

function toolsFor({ cursor }) {
  if (kind === 'pages') {
    const at = Number(cursor ?? 0);
    return { tools: [tool(`page_${at}`)], nextCursor: String(at + 1) };
  }
  if (kind === 'same-page') return { tools: [tool(`page_${seen.lists}`)], nextCursor: 'again' };
  if (kind === 'many') return { tools: Array.from({ length: 5000 }, (_, at) => tool(`tool_${at}`)) };
  if (kind === 'unnamed') return { tools: [{ description: 'who am I' }] };
  if (kind === 'twice') return { tools: [tool('echo'), tool('echo')] };
  return { tools: Object.keys(TOOLS).map(tool) };
}

async function answer({ method, params = {}, id: request }) {
  if (method === 'initialize') {
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: 'rogue', version: '1' },
    };
  }
  if (method === 'tools/list') {
    seen.lists++;
    return toolsFor(params);
  }
  if (method === 'tools/call') {
    seen.given.push(JSON.stringify(params.arguments));
    return await TOOLS[params.name](params.arguments ?? {}, request);
  }
  if (method === 'ping') return {};
  throw Object.assign(new Error('no such method'), { code: -32_601 });
}

if (kind === 'dies') {
  process.stderr.write('cannot find my configuration\n', () => process.exit(3));
} else {
  process.stderr.write(`started ${id}\n`);
  const hear = async (line) => {
    const message = JSON.parse(line);
    if (kind === 'mute') return;
    if (kind === 'dies-on-probe' && message.method === 'server/discover') process.exit(1);
    if (message.method === 'notifications/cancelled') seen.cancelled.push(message.params.requestId);
    if (message.method === undefined) seen.answers.push(message);
    if (message.method === undefined || message.id === undefined) return;
    try {
      const result = await answer(message);
      if (result !== undefined) send({ id: message.id, result });
    } catch (error) {
      send({ id: message.id, error: { code: error.code ?? -32_000, message: error.message, data: error.data } });
    }
  };
  createInterface({ input: process.stdin }).on('line', (line) => void hear(line));
}
