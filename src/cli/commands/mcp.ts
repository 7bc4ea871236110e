import { version } from '../command.ts';
import { inProject } from '../project.ts';
import { EXIT } from '../terminal/exit-code.ts';

export const run = inProject(async (runtime, { terminal }) => {
  const { serveMcp } = await import('../../mcp/index.ts');
  // Standard output belongs to the protocol; whatever is said to a person goes to standard error.
  terminal.note(`kernmantle serves ${runtime.project} over stdio; it ends with its input`);
  terminal.closed.addEventListener('abort', () => process.exit(EXIT.done));
  await serveMcp({
    version: version(),
    instructions: runtime.instructions(),
    call: (verb, request, signal, name) =>
      runtime.call(verb, request, { surface: 'mcp', name, signal }),
    directives: runtime.library.all('directive'),
    onError: (error) => terminal.note(`mcp: ${error.message}`),
  });
  return EXIT.done;
});
