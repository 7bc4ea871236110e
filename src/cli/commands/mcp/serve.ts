import { version } from '../../command.ts';
import { inProject } from '../../project.ts';
import { EXIT } from '../../terminal/exit-code.ts';

export const run = inProject(async (runtime, { terminal }) => {
  const { serveMcp } = await import('../../../mcp/index.ts');
  const { createMcpHost } = await import('../../../runtime/index.ts');
  // Standard output belongs to the protocol; whatever is said to a person goes to standard error.
  terminal.note(`kernmantle serves ${runtime.project} over stdio; it ends with its input`);
  terminal.closed.addEventListener('abort', () => process.exit(EXIT.done));
  const host = createMcpHost(runtime, version(), ({ message }) => terminal.note(`mcp: ${message}`));
  await serveMcp(host);
  return EXIT.done;
});
