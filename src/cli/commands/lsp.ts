import { once } from 'node:events';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { projectOf } from '../../items/index.ts';
import { createRuntime, type Runtime } from '../../runtime/index.ts';
import { type CommandCall, type CommandRun, version } from '../command.ts';
import { createFraming, frame } from '../lsp/protocol.ts';
import { createServer, type ServerPorts } from '../lsp/server.ts';
import { EXIT } from '../terminal/exit-code.ts';

const MAX_PROJECTS = 16;

interface Projects {
  library: ServerPorts['library'];
  close(): Promise<void>;
}

/** Runtimes of the projects whose items are open; each is opened once. Nothing in them is run. */
function createProjects({ terminal }: CommandCall): Projects {
  const opened = new Map<string, Promise<Runtime | undefined>>();
  const open = async (project: string): Promise<Runtime | undefined> => {
    const made = await createRuntime({ project, cwd: project, env: terminal.env });
    return made.ok ? made.output : undefined;
  };
  return {
    async library(file) {
      const project = projectOf(dirname(file));
      if (project === undefined) return undefined;
      if (!opened.has(project) && opened.size < MAX_PROJECTS) opened.set(project, open(project));
      return (await opened.get(project))?.library;
    },
    async close() {
      for (const runtime of opened.values()) await (await runtime)?.close();
    },
  };
}

/** Reads until the client says `exit` or its end is closed. */
async function serve(call: CommandCall, projects: Projects): Promise<number> {
  const { terminal } = call;
  const { stdin, stdout } = process;
  const waiting: string[] = [];
  const server = createServer({
    version: version(),
    home: terminal.env['KERNMANTLE_HOME'] ?? join(terminal.env['HOME'] ?? homedir(), '.ai'),
    send: (message) => void stdout.write(frame(message)),
    library: projects.library,
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
      // A client that does not read is waited for, not written to without bound.
      if (stdout.writableNeedDrain) await once(stdout, 'drain');
    }
    if (stdin.readableLength === 0) await server.settle();
  }
  return EXIT.done;
}

export const run: CommandRun = async (call) => {
  const projects = createProjects(call);
  try {
    return await serve(call, projects);
  } finally {
    await projects.close();
  }
};
