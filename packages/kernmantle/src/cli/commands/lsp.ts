import { once } from 'node:events';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { EXIT } from '@kernmantle/core/base';
import { projectOf } from '@kernmantle/core/items';
import { createFraming, createServer, frame, type ServerPorts } from '@kernmantle/script';
import { type CommandRun, version } from '../command.ts';
import { openRuntime } from '../project.ts';
import type { Terminal } from '../terminal/terminal.ts';

const MAX_PROJECTS = 16;

/** Serves until the client sends `exit` or closes its end. */
async function serve(terminal: Terminal, library: ServerPorts['library']): Promise<number> {
  const { stdin, stdout } = process;
  const waiting: string[] = [];
  // No answer can be delivered after this point.
  terminal.closed.addEventListener('abort', () => process.exit(EXIT.done));
  const server = createServer({
    version: version(),
    home: terminal.env['KERNMANTLE_HOME'] ?? join(terminal.env['HOME'] ?? homedir(), '.ai'),
    send: (message) => void stdout.write(frame(message)),
    library,
  });
  const framing = createFraming(
    (text) => waiting.push(text),
    (why) => terminal.note(`lsp: ${why}`),
  );
  for await (const chunk of stdin) {
    framing.push(chunk as Uint8Array);
    for (const text of waiting.splice(0)) {
      const code = server.handle(text);
      if (code !== undefined) return code;
      // A slow client must not fill the memory, so the server waits until its output is read.
      if (stdout.writableNeedDrain) await once(stdout, 'drain');
    }
    if (stdin.readableLength === 0) await server.settle();
  }
  return EXIT.done;
}

export const run: CommandRun = async ({ terminal }) => {
  // Runtimes of the projects whose items are open. Each is opened once, and none of their code
  // runs.
  const opened = new Map<string, ReturnType<typeof openRuntime>>();
  try {
    return await serve(terminal, async (file) => {
      const project = projectOf(dirname(file));
      if (project === undefined) return undefined;
      if (!opened.has(project) && opened.size < MAX_PROJECTS) {
        opened.set(project, openRuntime({ project, cwd: project, env: terminal.env }));
      }
      const runtime = await opened.get(project);
      return runtime?.ok ? runtime.output.library : undefined;
    });
  } finally {
    for (const opening of opened.values()) {
      const runtime = await opening;
      if (runtime.ok) await runtime.output.close();
    }
  }
};
